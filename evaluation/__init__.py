"""Evaluation of agents over interchangeable retrieval back ends (RAGSearch): episodes, scores, comparisons."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.evaluation.builds import IndexWriter as IndexWriter
    from trailforge.evaluation.builds import choose_writer as choose_writer
    from trailforge.evaluation.corpora import BackendSource as BackendSource
    from trailforge.evaluation.corpora import Corpora as Corpora
    from trailforge.evaluation.corpora import check_places as check_places
    from trailforge.evaluation.corpora import hash_place as hash_place
    from trailforge.evaluation.corpora import packages_of as packages_of
    from trailforge.evaluation.corpora import read_sources as read_sources
    from trailforge.evaluation.folder import EPISODES as EPISODES
    from trailforge.evaluation.folder import MANIFEST as MANIFEST
    from trailforge.evaluation.folder import STEP_FILES as STEP_FILES
    from trailforge.evaluation.folder import Evaluation as Evaluation
    from trailforge.evaluation.folder import check_same as check_same
    from trailforge.evaluation.folder import choose_agents as choose_agents
    from trailforge.evaluation.folder import claim_folder as claim_folder
    from trailforge.evaluation.folder import forget_refused as forget_refused
    from trailforge.evaluation.folder import is_evaluation as is_evaluation
    from trailforge.evaluation.folder import lighten as lighten
    from trailforge.evaluation.folder import read_episodes as read_episodes
    from trailforge.evaluation.folder import read_evaluation as read_evaluation
    from trailforge.evaluation.folder import read_trained as read_trained
    from trailforge.evaluation.grid import EvaluationConfig as EvaluationConfig
    from trailforge.evaluation.grid import EvaluationGrid as EvaluationGrid
    from trailforge.evaluation.grid import GridModel as GridModel
    from trailforge.evaluation.grid import describe_evaluation as describe_evaluation
    from trailforge.evaluation.grid import plan_grid as plan_grid
    from trailforge.evaluation.grid import read_evaluation_config as read_evaluation_config
    from trailforge.evaluation.questions import QuestionSet as QuestionSet
    from trailforge.evaluation.questions import read_asked as read_asked
    from trailforge.evaluation.questions import set_aside as set_aside
else:
    __getattr__, __dir__ = lazy_names(__name__)
