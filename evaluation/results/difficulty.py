"""Measure how hard questions are for a named agent, from the episodes of an evaluation, without another run.

A cell is an agent over a back end with a model; its seeds are the attempts.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean

from trailforge.evaluation.folder import read_episodes, read_evaluation
from trailforge.evaluation.results.failures import is_right
from trailforge.schemas import AgentEpisode, InvalidInput

Cell = tuple[str, str, str]
"""The name of a cell: agent, back end and model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredDifficulty:
    """How many attempts one cell made at a question, and how many were right."""

    question: str
    answer: str
    """The gold answer of the question."""
    attempts: int
    """Number of episodes, without those that an error ended."""
    right: int
    calls: float | None
    """Mean number of searches of a right attempt; None: none was right."""
    pages: float | None
    """Mean number of different documents that a right attempt was shown; None: none was right."""

    @property
    def pass_rate(self) -> float:
        """Return the share of the attempts that are right: pass@1."""
        return self.right / self.attempts


def measure_difficulty(folder: Path, cell: str = "") -> tuple[str, list[MeasuredDifficulty]]:
    """Return the cell's name, AGENT/BACKEND/MODEL, and its result on each question that it finished.

    `cell` is its name, or enough of its beginning to tell it from others. Raises `InvalidInput` as `read_evaluation`
    does, and where the name fits no cell or several.
    """
    chosen = _choose(folder, cell)
    found: dict[tuple[str, str], list[AgentEpisode]] = defaultdict(list)
    for episode in read_episodes(folder):
        if (episode.agent, episode.backend, episode.model) == chosen and episode.stop != "failed":
            found[episode.question, episode.golds[0]].append(episode)
    if not found:
        raise InvalidInput(
            f"holds no episode of {'/'.join(chosen)} that came to an end; name another cell, or evaluate first",
            file=folder,
        )
    return "/".join(chosen), [_measure(*asked, episodes) for asked, episodes in found.items()]


def _choose(folder: Path, cell: str) -> Cell:
    grid = read_evaluation(folder)
    cells = product((a.name for a in grid.agents), (b.name for b in grid.backends), grid.models)
    named = {"/".join(each): each for each in cells}
    meant = [each for name, each in named.items() if cell in ("", name) or name.startswith(f"{cell}/")]
    if len(meant) != 1:
        raise InvalidInput(
            f"{cell!r} means {len(meant)} cells of this evaluation; choose of {', '.join(named)}",
            file=folder,
            field="--measured-cell",
        )
    return meant[0]


def _measure(question: str, answer: str, episodes: list[AgentEpisode]) -> MeasuredDifficulty:
    right = [each for each in episodes if is_right(each.scores)]
    return MeasuredDifficulty(
        question=question,
        answer=answer,
        attempts=len(episodes),
        right=len(right),
        calls=fmean(len(each.searches) for each in right) if right else None,
        pages=fmean(len(_pages(each)) for each in right) if right else None,
    )


def _pages(episode: AgentEpisode) -> set[str]:
    return {document for search in episode.searches for document in search.document_ids}
