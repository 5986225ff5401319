"""Store the episodes of a training as rows of an evaluation, so that the same page shows them.

    OUT/episodes/step-NNNNNN-rank-R.parquet           of one process, by the optimizer step that trains them first
    OUT/episodes/step-NNNNNN-rank-R-part-K.parquet    where episodes come one by one, as in frameworks

Rows are made and written on a thread of their own. Episodes that cannot be written are no reason to end a training:
one line says why, and no more are kept.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from trailforge.evaluation import EPISODES
from trailforge.evaluation.agents import AgentRun, record_run, record_search
from trailforge.evaluation.results import EpisodeSetting, make_episode
from trailforge.pipelines.engine import write_atomically
from trailforge.protocols import EpisodeRun
from trailforge.protocols.environment import Environment
from trailforge.rewards.episode import Reward
from trailforge.schemas import (
    AgentCosts,
    AgentEpisode,
    AgentSearch,
    GroundTruth,
    RewardPart,
    TrainingStep,
    estimate_tokens,
    write_parquet,
)
from trailforge.training.native import BrowseEpisode
from trailforge.training.sets.files import make_question

Rows = Callable[[], Sequence[AgentEpisode]]
"""Makes the rows, on the writer's thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedQuestion:
    """The question of an episode, with what a training knows of it."""

    truth: GroundTruth
    id: str
    question: str
    dataset: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodePlace:
    """What the episodes of one step and process have in common."""

    step: int
    """The optimizer step, as in `TrainingStep.step`."""
    protocol: str
    backend: str
    index: str
    model: str
    """The model with which the training began."""
    process: str
    """The name of the process, which tells episodes apart that have the same number in a step."""


def make_place(protocol: str, environment: Environment, model: str, process: str, step: int = 0) -> EpisodePlace:
    """Return the description that episodes over an environment share. The index is empty where it is not known from
    what the environment was opened.
    """
    searched = json.dumps(dict(environment.searched), sort_keys=True).encode()
    return EpisodePlace(
        step=step,
        protocol=protocol,
        backend=environment.retriever,
        index=hashlib.sha256(searched).hexdigest()[:16] if environment.searched else "",
        model=model,
        process=process,
    )


def make_row(
    asked: TrainedQuestion, run: EpisodeRun, place: EpisodePlace, *, number: int, reward: Reward | None = None
) -> AgentEpisode:
    """Return the row of an episode, scored and tagged as in an evaluation.

    `number` is the episode's own, within its step and process. `reward` is None where it is not known yet. A failed
    episode's reward is not stored.
    """
    truth = asked.truth
    question = make_question(truth, id=asked.id, question=asked.question, dataset=asked.dataset)
    setting = EpisodeSetting(
        agent=place.protocol,
        agent_config=f"step {place.step} of {place.process}",
        protocol=place.protocol,
        backend=place.backend,
        index=place.index,
        model=place.model,
        seed=number,
    )
    if isinstance(run, BrowseEpisode) and run.done is not None:
        did = record_run(run.done)
    else:
        did = AgentRun(answer=run.answer, stop=run.stop, messages=run.messages, searches=_searches(run))
    row = make_episode(question, did, setting, costs=_costs(run, did), error=run.error)
    paid = None if run.stop == "failed" else reward
    parts = () if paid is None else tuple(RewardPart(name=name, value=value) for name, value in paid.parts.items())
    return replace(
        row, training=TrainingStep(step=place.step, reward=None if paid is None else paid.total, parts=parts)
    )


def _searches(run: EpisodeRun) -> tuple[AgentSearch, ...]:
    shown = [estimate_tokens(message.content) for message in run.messages if message.role == "tool"]
    read = [step for step in run.steps if step.observation is not None]  # each is followed by what it shows
    return tuple(
        record_search(step.turn.search, step.observation, context_tokens=tokens, seconds=0.0)
        for step, tokens in zip(read, shown, strict=True)
        if step.turn is not None and step.turn.search is not None and step.observation is not None
    )


def _costs(run: EpisodeRun, did: AgentRun) -> AgentCosts:
    return AgentCosts(
        calls=sum(message.role == "assistant" for message in run.messages),
        prompt_tokens=run.prompt_tokens,
        completion_tokens=run.completion_tokens,
        context_tokens=did.context_tokens,
        seconds=None,
    )


class EpisodeWriter:
    """Writes the episodes of one process below a training's folder."""

    def __init__(self, out: Path, process: str, *, gather_s: float | None = None) -> None:
        """`gather_s`: how long to wait for more episodes before a file is written; None: each call is a whole step."""
        self._folder, self._process, self._gather_s = out / EPISODES, process, gather_s
        self._lock, self._closing = threading.Lock(), threading.Event()
        self._waiting: list[tuple[int, Rows]] = []
        self._parts, self._has_failed = 0, False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kept-episodes")

    def keep(self, step: int, rows: Rows) -> None:
        """Have the episodes of a step written, and return at once. `rows` makes their rows when it is called, on the
        writer's thread."""
        with self._lock:
            if self._has_failed:
                return
            self._waiting.append((step, rows))
            is_first = len(self._waiting) == 1
        if is_first:
            self._thread.submit(self._write)

    def drop_after(self, step: int) -> None:
        """Remove the episodes of steps after `step`, the optimizer step of the checkpoint from which the training now
        resumes. Only one process may call it."""
        for path in self._folder.glob("step-*.parquet"):
            if int(path.name.split("-")[1]) > step:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Write the episodes that still wait, and stop the writer."""
        self._closing.set()
        self._thread.shutdown()

    def _write(self) -> None:
        if self._gather_s is not None:
            self._closing.wait(self._gather_s)
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if self._has_failed:
            return
        try:
            for step, given in groupby(sorted(waiting, key=_step_of), key=_step_of):
                self._write_step(step, [row for _, rows in given for row in rows()])
        except Exception as error:
            self._has_failed = True
            print(f"episodes are no longer kept, and the training goes on: {error}", file=sys.stderr, flush=True)

    def _write_step(self, step: int, rows: Sequence[AgentEpisode]) -> None:
        part = "" if self._gather_s is None else f"-part-{self._parts:05}"
        path = self._folder / f"step-{step:06}-rank-{self._process}{part}.parquet"
        write_atomically(path, lambda unfinished: write_parquet(unfinished, AgentEpisode, rows))
        self._parts += 1


def _step_of(waiting: tuple[int, Rows]) -> int:
    return waiting[0]
