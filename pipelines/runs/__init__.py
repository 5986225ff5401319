"""Everything that concerns a run's folder: its settings, the intake of inputs, counts by stage, the manifest,
verification and status.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.pipelines.runs.accounting import stage as stage
    from trailforge.pipelines.runs.compacting import compact_run as compact_run
    from trailforge.pipelines.runs.config import EMBEDDED as EMBEDDED
    from trailforge.pipelines.runs.config import GraphRunConfig as GraphRunConfig
    from trailforge.pipelines.runs.config import ModelConfig as ModelConfig
    from trailforge.pipelines.runs.config import OutputConfig as OutputConfig
    from trailforge.pipelines.runs.config import RunConfig as RunConfig
    from trailforge.pipelines.runs.config import ScheduleConfig as ScheduleConfig
    from trailforge.pipelines.runs.config import preset_server as preset_server
    from trailforge.pipelines.runs.config import server_config as server_config
    from trailforge.pipelines.runs.finish import check_kept as check_kept
    from trailforge.pipelines.runs.finish import explain_nothing as explain_nothing
    from trailforge.pipelines.runs.finish import finished_run as finished_run
    from trailforge.pipelines.runs.finished import MANIFEST as MANIFEST
    from trailforge.pipelines.runs.finished import RUN as RUN
    from trailforge.pipelines.runs.finished import FinishedRun as FinishedRun
    from trailforge.pipelines.runs.finished import OpenRun as OpenRun
    from trailforge.pipelines.runs.finished import check_hash as check_hash
    from trailforge.pipelines.runs.finished import no_run as no_run
    from trailforge.pipelines.runs.finished import open_run as open_run
    from trailforge.pipelines.runs.finished import read_finished as read_finished
    from trailforge.pipelines.runs.finished import read_manifest as read_manifest
    from trailforge.pipelines.runs.finished import stamp_of as stamp_of
    from trailforge.pipelines.runs.intake import SETTINGS as SETTINGS
    from trailforge.pipelines.runs.intake import RunInputs as RunInputs
    from trailforge.pipelines.runs.intake import Settings as Settings
    from trailforge.pipelines.runs.intake import read_settings as read_settings
    from trailforge.pipelines.runs.intake import run_configuration as run_configuration
    from trailforge.pipelines.runs.intake import take_in_documents as take_in_documents
    from trailforge.pipelines.runs.intake import take_in_questions as take_in_questions
    from trailforge.pipelines.runs.intake import take_in_rows as take_in_rows
    from trailforge.pipelines.runs.pushing import list_push as list_push
    from trailforge.pipelines.runs.pushing import push as push
    from trailforge.pipelines.runs.stages import digest_of as digest_of
    from trailforge.pipelines.runs.status import books_so_far as books_so_far
    from trailforge.pipelines.runs.status import describe_status as describe_status
    from trailforge.pipelines.runs.status import follow as follow
    from trailforge.pipelines.runs.status import read_status as read_status
    from trailforge.pipelines.runs.verify import RowChecks as RowChecks
    from trailforge.pipelines.runs.verify import verify_run as verify_run
else:
    __getattr__, __dir__ = lazy_names(__name__)
