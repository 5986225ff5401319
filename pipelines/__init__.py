"""The part of data generation that all data sets share: the contract of a data set, the life of its rows, and the runs.
It names no data set, and only `engine` loads Beam.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.pipelines.curated import check_row as check_row
    from trailforge.pipelines.curated import decidable as decidable
    from trailforge.pipelines.curated import products_of as products_of
    from trailforge.pipelines.curated import value_at as value_at
    from trailforge.pipelines.dataset import INPUTS as INPUTS
    from trailforge.pipelines.dataset import LEDGER as LEDGER
    from trailforge.pipelines.dataset import DataSet as DataSet
    from trailforge.pipelines.dataset import Place as Place
    from trailforge.pipelines.dataset import RunOption as RunOption
    from trailforge.pipelines.dataset import Stage as Stage
    from trailforge.pipelines.dataset import StageRun as StageRun
    from trailforge.pipelines.dataset import Table as Table
    from trailforge.pipelines.dataset import resolve as resolve
    from trailforge.pipelines.datasets import CURATE as CURATE
    from trailforge.pipelines.datasets import CURATED as CURATED
    from trailforge.pipelines.datasets import all_tables as all_tables
    from trailforge.pipelines.datasets import dataset_names as dataset_names
    from trailforge.pipelines.datasets import dataset_of as dataset_of
    from trailforge.pipelines.datasets import is_curated as is_curated
    from trailforge.pipelines.datasets import load_dataset as load_dataset
    from trailforge.pipelines.estimate import Estimate as Estimate
    from trailforge.pipelines.estimate import StageEstimate as StageEstimate
    from trailforge.pipelines.estimate import mean_tokens as mean_tokens
    from trailforge.pipelines.estimate import sample_questions as sample_questions
    from trailforge.pipelines.estimate import sample_valid as sample_valid
    from trailforge.pipelines.estimate import stage_estimate as stage_estimate
    from trailforge.pipelines.estimate import tokens_of_passages as tokens_of_passages
    from trailforge.pipelines.index_config import IndexConfig as IndexConfig
    from trailforge.pipelines.index_config import choose_index as choose_index
    from trailforge.pipelines.index_config import read_index_preset as read_index_preset
    from trailforge.pipelines.life import Chosen as Chosen
    from trailforge.pipelines.life import Draws as Draws
    from trailforge.pipelines.life import Life as Life
    from trailforge.pipelines.life import draw_all as draw_all
else:
    __getattr__, __dir__ = lazy_names(__name__)
