"""Run shards exactly once: attempts, workers, runners and files. Only this package loads Apache Beam."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.pipelines.engine.beam_work import Begin as Begin
    from trailforge.pipelines.engine.beam_work import Collection as Collection
    from trailforge.pipelines.engine.beam_work import beam_pipeline as beam_pipeline
    from trailforge.pipelines.engine.files import LOCK as LOCK
    from trailforge.pipelines.engine.files import exclusive as exclusive
    from trailforge.pipelines.engine.files import new_folder as new_folder
    from trailforge.pipelines.engine.files import output_errors as output_errors
    from trailforge.pipelines.engine.files import plain_files as plain_files
    from trailforge.pipelines.engine.files import remove_temporary_files as remove_temporary_files
    from trailforge.pipelines.engine.files import sha256_of as sha256_of
    from trailforge.pipelines.engine.files import unfinished_name as unfinished_name
    from trailforge.pipelines.engine.files import what_is_wrong as what_is_wrong
    from trailforge.pipelines.engine.files import write_atomically as write_atomically
    from trailforge.pipelines.engine.files import write_text as write_text
    from trailforge.pipelines.engine.log_lines import choose_format as choose_format
    from trailforge.pipelines.engine.log_lines import is_json as is_json
    from trailforge.pipelines.engine.log_lines import json_line as json_line
    from trailforge.pipelines.engine.model_stage import ModelStage as ModelStage
    from trailforge.pipelines.engine.model_stage import ModelWork as ModelWork
    from trailforge.pipelines.engine.model_stage import RunContext as RunContext
    from trailforge.pipelines.engine.model_stage import rejected_row as rejected_row
    from trailforge.pipelines.engine.progress import ProgressFile as ProgressFile
    from trailforge.pipelines.engine.progress import Steps as Steps
    from trailforge.pipelines.engine.progress import begin_progress as begin_progress
    from trailforge.pipelines.engine.progress import count_shown as count_shown
    from trailforge.pipelines.engine.progress import show_parts as show_parts
    from trailforge.pipelines.engine.progress import show_progress as show_progress
    from trailforge.pipelines.engine.shards import RECEIPTS as RECEIPTS
    from trailforge.pipelines.engine.shards import ItemResult as ItemResult
    from trailforge.pipelines.engine.shards import Receipt as Receipt
    from trailforge.pipelines.engine.shards import Shard as Shard
    from trailforge.pipelines.engine.shards import SupportCount as SupportCount
    from trailforge.pipelines.engine.shards import file_entry as file_entry
    from trailforge.pipelines.engine.shards import finish_shard as finish_shard
    from trailforge.pipelines.engine.shards import missing_shards as missing_shards
    from trailforge.pipelines.engine.shards import write_receipt as write_receipt
    from trailforge.pipelines.engine.shards import write_table as write_table
else:
    __getattr__, __dir__ = lazy_names(__name__)
