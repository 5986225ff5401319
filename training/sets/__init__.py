"""Training sets: from finished runs to SFT rows and RL rows, split by question, in the order they are learnt in."""

from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import Share, ViewConfig

__all__ = ["Share", "ViewConfig", "make_training_set"]
