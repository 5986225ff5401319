"""Make trained agents of finished runs: training sets, loss masks, exports for other trainers, and the trainers."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.training.config import TrainPreset as TrainPreset
    from trailforge.training.config import load_train_preset as load_train_preset
    from trailforge.training.score_file import ScoredRow as ScoredRow
    from trailforge.training.score_file import score_episodes as score_episodes
    from trailforge.training.scoring import scorer_of as scorer_of
    from trailforge.training.search_sources import documents_of_runs as documents_of_runs
    from trailforge.training.search_sources import open_training_environment as open_training_environment
    from trailforge.training.weights import base_model as base_model
    from trailforge.training.weights import open_checkpoint as open_checkpoint
else:
    __getattr__, __dir__ = lazy_names(__name__)
