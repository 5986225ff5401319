"""What agents are worth over interchangeable retrieval back ends (RAGSearch): episodes, scores, comparisons."""

from trailforge.evaluation.metrics import EpisodeSetting, average_ranks, make_episode, summarize

__all__ = ["EpisodeSetting", "average_ranks", "make_episode", "summarize"]
