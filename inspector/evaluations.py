"""Open the folder of an evaluation or a training, and select among its episodes."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from trailforge.evaluation import (
    EPISODES,
    MANIFEST,
    STEP_FILES,
    Evaluation,
    is_evaluation,
    lighten,
    read_episodes,
    read_evaluation,
    read_trained,
)
from trailforge.evaluation.results import EvaluationTable, by_question, is_right, make_table
from trailforge.pipelines.runs import OpenRun
from trailforge.pipelines.runs.table_index import tables_of
from trailforge.schemas import AgentEpisode, InvalidInput, from_dict

Verdict = Literal["right", "wrong", "right by luck"]
VERDICTS: tuple[Verdict, ...] = ("right", "wrong", "right by luck")


class RunOfAgent(NamedTuple):
    """One agent over one back end with one model, in one folder; two of these can be compared."""

    folder: Path
    agent: str
    backend: str
    index: str
    """Hash of the index that is searched; empty where there is none."""
    model: str


class PlaceOfEpisode(NamedTuple):
    """Where an episode is stored: its cell, and its row number there."""

    cell: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEpisodes:
    """A folder's episodes as they were when it was opened. The texts of an episode are read when it is looked at."""

    folder: Path
    episodes: tuple[AgentEpisode, ...]
    """Episodes without their long texts: see `evaluation.folder.lighten`."""
    places: tuple[PlaceOfEpisode, ...]
    """Places of the episodes, in the order of `episodes`."""
    run: OpenRun
    """The cells of the evaluation, opened as the tables of a run."""

    def whole(self, number: int) -> AgentEpisode:
        """Return the episode with this number, with all its texts."""
        place = self.places[number]
        return from_dict(AgentEpisode, self.run.row(place.cell, place.number))

    def find(self, uid: str) -> int | None:
        """Return the number of the episode with a uid, or None."""
        return next((number for number, each in enumerate(self.episodes) if each.uid == uid), None)

    def select(self, wanted: Mapping[str, Any], words: str = "") -> list[int]:
        """Return the numbers of the episodes that have all wanted values, by name as in `FACETS`; an empty value
        matches any. `words` is text that must occur in question, answer, gold answers or an id.
        """
        asked = {name: value for name, value in wanted.items() if value != ""}
        return [
            number
            for number, each in enumerate(self.episodes)
            if all(value in FACETS[name](each) for name, value in asked.items()) and _has_words(each, words)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEvaluation(OpenEpisodes):
    """The episodes of an evaluation's folder, with its table of results."""

    evaluation: Evaluation
    table: EvaluationTable

    def runs(self) -> dict[RunOfAgent, list[int]]:
        """Return the numbers of the episodes of each run, in the order of the table."""
        found = {
            RunOfAgent(self.folder, row.agent, row.backend, row.index, row.model): list[int]()
            for row in self.table.rows
        }
        for number, each in enumerate(self.episodes):
            found[RunOfAgent(self.folder, each.agent, each.backend, each.index, each.model)].append(number)
        return found


def is_training(folder: Path) -> bool:
    """Tell whether a folder is that of a training that stored episodes."""
    return not is_evaluation(folder) and any((folder / EPISODES).glob(STEP_FILES))


def open_evaluation(folder: Path) -> OpenEvaluation:
    """Open an evaluation with the episodes of its finished shards. Raises what `read_evaluation` raises."""
    evaluation, cells = read_evaluation(folder), tables_of(folder / EPISODES)
    episodes: list[AgentEpisode] = []
    places: list[PlaceOfEpisode] = []
    for cell in cells:
        light = [lighten(each) for each in read_episodes(folder, glob.escape(cell))]
        episodes += light
        places += [PlaceOfEpisode(cell, number) for number in range(len(light))]
    return OpenEvaluation(
        folder=folder, evaluation=evaluation, table=make_table(evaluation, episodes), episodes=tuple(episodes),
        places=tuple(places), run=_as_run(folder / EPISODES, evaluation.seal, cells),
    )  # fmt: skip


def open_training(folder: Path) -> OpenEpisodes:
    """Open the episodes that a training stored. Raises `InvalidInput` for files that have other rows, or are
    damaged.
    """
    episodes = tuple(lighten(each) for each in read_trained(folder))
    return OpenEpisodes(
        folder=folder, episodes=episodes, places=tuple(PlaceOfEpisode(EPISODES, n) for n in range(len(episodes))),
        run=_as_run(folder, folder.name, [EPISODES]),
    )  # fmt: skip


def _as_run(folder: Path, run_id: str, tables: Sequence[str]) -> OpenRun:
    return OpenRun(
        folder=folder, run_id=run_id, dataset="", config={}, sources=(), manifest=None, books=(), tables=tuple(tables)
    )


def stamp_evaluation(folder: Path) -> tuple[Any, ...]:
    """Return a value that changes whenever the content of an evaluation's folder does."""
    files = sorted((folder / EPISODES).glob("*/*.parquet"))
    return tuple((str(path), path.stat().st_mtime_ns) for path in (folder / MANIFEST, *files))


def stamp_training(folder: Path) -> tuple[Any, ...]:
    """Return a value that changes whenever the content of a training's folder does."""
    return tuple((path.name, path.stat().st_mtime_ns) for path in sorted((folder / EPISODES).glob(STEP_FILES)))


def verdict_of(episode: AgentEpisode) -> Verdict:
    """Return the verdict on an episode: right, wrong, or right by luck, where its answer is right but its searches do
    not support it.
    """
    if not is_right(episode.scores):
        return "wrong"
    return "right by luck" if episode.failures else "right"


def _has_words(episode: AgentEpisode, words: str) -> bool:
    """Whether question, answer, gold answers or an id have the text, upper and lower case alike."""
    texts = (episode.question, episode.answer, *episode.golds, episode.question_id, episode.uid)
    return not words.strip() or any(words.strip().casefold() in text.casefold() for text in texts)


FACETS: Mapping[str, Callable[[AgentEpisode], Sequence[Any]]] = {
    "agent": lambda each: (each.agent,),
    "back end": lambda each: (each.backend,),
    "model": lambda each: (each.model,),
    "step": lambda each: () if each.training is None else (each.training.step,),
    "stop": lambda each: (each.stop,),
    "failure tag": lambda each: each.failures,
    "verdict": lambda each: (verdict_of(each),),
}
"""The properties by which episodes are chosen: for each name, a function that gives an episode's values."""


def find_episodes(opened: OpenEpisodes, *, id: str | None, kind: str | None, count: int) -> list[int]:
    """Return the numbers of the first `count` episodes with an id (their own or their question's) and with a failure
    tag or verdict. Raises `InvalidInput` when none matches.
    """
    known = sorted({tag for each in opened.episodes for tag in each.failures})
    if kind is not None and kind not in (*known, *VERDICTS):
        raise InvalidInput(f"no tag {kind!r}; there are {', '.join((*known, *VERDICTS))}", field="kind")
    found = [
        number
        for number, each in enumerate(opened.episodes)
        if id in (None, each.uid, each.question_id) and (kind is None or kind in (*each.failures, verdict_of(each)))
    ]
    if not found:
        raise InvalidInput(f"no episode{f' {id}' if id else ''}{f' with {kind}' if kind else ''}", file=opened.folder)
    return found[:count]


# Two runs

Side = Literal["only the first is right", "only the second is right", "both are right", "neither is right"]
_SIDE_OF: dict[tuple[bool, bool], Side] = {
    (True, False): "only the first is right",
    (False, True): "only the second is right",
    (True, True): "both are right",
    (False, False): "neither is right",
}
SIDES = tuple(_SIDE_OF.values())


def split_questions(
    first: Sequence[AgentEpisode], second: Sequence[AgentEpisode]
) -> dict[Side, list[tuple[str, AgentEpisode, AgentEpisode]]]:
    """Group the questions of two runs by which run gets them right, with an episode of each run.

    A run gets a question right when most of its episodes do; the episode shown, of the first seed, is one of that
    majority.
    """
    left, right = by_question(first), by_question(second)
    found: dict[Side, list[tuple[str, AgentEpisode, AgentEpisode]]] = {side: [] for side in SIDES}
    for name in left:
        if name not in right:
            continue
        one, other = _settle(left[name]), _settle(right[name])
        found[_SIDE_OF[is_right(one.scores), is_right(other.scores)]].append((name, one, other))
    return found


def _settle(episodes: Iterable[AgentEpisode]) -> AgentEpisode:
    ordered = sorted(episodes, key=lambda each: each.seed)
    mostly = 2 * sum(is_right(each.scores) for each in ordered) > len(ordered)
    return next(each for each in ordered if is_right(each.scores) == mostly)
