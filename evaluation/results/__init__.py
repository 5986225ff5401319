"""Results of an evaluation: measures of its episodes, tags of what went wrong, the table, comparisons, the report, and
quotas for new questions.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.evaluation.results.compare import Comparison as Comparison
    from trailforge.evaluation.results.compare import compare_episodes as compare_episodes
    from trailforge.evaluation.results.compare import pair_cells as pair_cells
    from trailforge.evaluation.results.compare import read_cells as read_cells
    from trailforge.evaluation.results.demand import build_demand as build_demand
    from trailforge.evaluation.results.demand import demand_band as demand_band
    from trailforge.evaluation.results.demand import demand_weak as demand_weak
    from trailforge.evaluation.results.demand import find_cells as find_cells
    from trailforge.evaluation.results.demand import read_attempts as read_attempts
    from trailforge.evaluation.results.demand import share_failed as share_failed
    from trailforge.evaluation.results.demand import split_by_band as split_by_band
    from trailforge.evaluation.results.difficulty import MeasuredDifficulty as MeasuredDifficulty
    from trailforge.evaluation.results.difficulty import measure_difficulty as measure_difficulty
    from trailforge.evaluation.results.failures import MOST_REPEATED as MOST_REPEATED
    from trailforge.evaluation.results.failures import TAGS as TAGS
    from trailforge.evaluation.results.failures import asked_at as asked_at
    from trailforge.evaluation.results.failures import is_right as is_right
    from trailforge.evaluation.results.failures import read_texts as read_texts
    from trailforge.evaluation.results.failures import tag_failures as tag_failures
    from trailforge.evaluation.results.metrics import EpisodeSetting as EpisodeSetting
    from trailforge.evaluation.results.metrics import by_question as by_question
    from trailforge.evaluation.results.metrics import gold_pages as gold_pages
    from trailforge.evaluation.results.metrics import make_episode as make_episode
    from trailforge.evaluation.results.metrics import score_run as score_run
    from trailforge.evaluation.results.report import REPORT as REPORT
    from trailforge.evaluation.results.report import draw_plots as draw_plots
    from trailforge.evaluation.results.report import write_report as write_report
    from trailforge.evaluation.results.table import LEGEND as LEGEND
    from trailforge.evaluation.results.table import CellEstimate as CellEstimate
    from trailforge.evaluation.results.table import EvaluationTable as EvaluationTable
    from trailforge.evaluation.results.table import TableRow as TableRow
    from trailforge.evaluation.results.table import describe_malformed as describe_malformed
    from trailforge.evaluation.results.table import make_table as make_table
    from trailforge.evaluation.results.timeline import describe_timeline as describe_timeline
else:
    __getattr__, __dir__ = lazy_names(__name__)
