"""What agents are worth over interchangeable retrieval back ends (RAGSearch): episodes, scores, comparisons."""

from trailforge.evaluation.grid import EvaluationGrid, GridModel, run_cell_episode
from trailforge.evaluation.metrics import EpisodeSetting, average_ranks, make_episode, summarize

__all__ = [
    "EpisodeSetting",
    "EvaluationGrid",
    "GridModel",
    "average_ranks",
    "make_episode",
    "run_cell_episode",
    "summarize",
]
