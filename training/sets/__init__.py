"""Training sets: finished runs made into SFT rows, RL rows and pairs, split by question, in the order of training."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.training.sets.build import make_training_set as make_training_set
    from trailforge.training.sets.config import Share as Share
    from trailforge.training.sets.config import ViewConfig as ViewConfig
    from trailforge.training.sets.config import WantedRange as WantedRange
    from trailforge.training.sets.config import read_writings as read_writings
    from trailforge.training.sets.difficulty import read_measured as read_measured
    from trailforge.training.sets.files import held_out_questions as held_out_questions
    from trailforge.training.sets.files import open_set as open_set
    from trailforge.training.sets.runs import open_runs as open_runs
    from trailforge.training.sets.runs import read_asked as read_asked
else:
    __getattr__, __dir__ = lazy_names(__name__)
