"""Counts of how a model, its policy and its retrieval behaved in recorded runs, on which a rehearsal is based.

The counts are made by `benchmarks/search_counts.py` and lie in `counted.yaml`, with the recording and the command. A
count is a pair: so many of so many.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypeVar

import yaml

from trailforge.schemas import from_dict

COUNTED = Path(__file__).parent / "counted.yaml"
Share = tuple[int, int]
"""A count as a pair: so many of so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Counts that decide how a simulated search continues, each as a pair (successes, trials)."""

    alike: Share
    """Sub-questions in the gold decomposition's words, of those in leaf plans of the policy that are as long as it."""
    found: Share
    """Gold sub-questions whose own query found a passage that states the answer."""
    found_reworded: Share
    """Rollouts in other words whose query found such a passage, of those where the gold query found none."""
    lost: Share
    """Wordings that lost a query's passage, of the wordings of queries that had found it."""
    wordings: Share
    """Usable wordings, of those that were asked for; where no replies were recorded (0 of 0), all are taken for
    usable."""
    read: Share
    """First answers to gold sub-questions, in their words or the policy's, that were right where a passage states
    them."""
    remembered: Share
    """First answers to gold sub-questions that were right although no passage states them."""
    abstained: Share
    """Replies without any answer, of the first answers that were not right where no passage states one."""
    unsplit: Share
    """Rollouts of the policy's plans that were not split to the end and were right: one answer took several
    passages."""
    unstable: Share
    """Prompts that were once answered otherwise than at first, of those that were answered again."""
    redrawn: Share
    """Further draws of such prompts that said something else than the first answer."""
    splits: Share
    """Splits that gave a plan that the tree did not have, of those that were proposed."""
    plans: Share
    """The policy's leaf plans that had a right rollout, but for those that failed on a step's search or answer: these
    are counted as such."""
    malformed: Share
    """Replies with splits or verdicts that could not be read."""
    unsupported: Share
    """Questions for which the model said that a claim is not stated, of those with rows that it told."""
    stated_mistakes: Share
    """Mistakes of which the model that told their rows, or a reader, said that the passages state them."""
    unvaried: Share
    """Right rollouts whose query was to be put in words that lose the passage, and no wording did; told beside the
    others, for it follows from `lost`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a recorded run yielded: its questions, calls and rows."""

    questions: int
    calls: int
    hops: dict[int, int]
    """Number of questions by the steps of their gold decomposition."""
    calls_for: dict[str, int]
    """Number of calls by purpose; empty without a recording."""
    accepted: int
    """Number of rows that the run accepted, by the filters of its time."""
    rows: dict[str, int]
    """Number of rows by kind that today's rules make of its trees, but for those that a model or a reader said to be
    untrue."""
    origins: dict[str, int]
    """Number of the rows in `rows` by the origin of the plan that they follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """One recorded run of a model."""

    name: str
    behaviour: Behaviour
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The recorded runs of one model."""

    source: str
    """What was recorded, in words."""
    command: str
    """The command that counted it."""
    preset: str
    """The preset by which the runs would be made today."""
    readings: tuple[RecordedRun, ...]

    def behaviour(self, leave_out: str = "") -> Behaviour:
        """Return the sums of all runs' counts, without the run named `leave_out`."""
        return functools.reduce(add_behaviours, [each.behaviour for each in self.readings if each.name != leave_out])


T = TypeVar("T")


def read_counted(model: str, path: Path = COUNTED) -> Counted:
    """Read the counts of a model: `embedded` is the packaged one, `strong` a large one on a server among each
    question's own paragraphs, `strong_corpus` the same over a corpus.
    """
    return from_dict(Counted, yaml.safe_load(path.read_text(encoding="utf-8"))[model])


def share_of(counted: Share) -> float:
    """Return a pair of counts as a share; 0 where nothing was counted."""
    some, of = counted
    return some / of if of else 0.0


def with_shares(behaviour: Behaviour, **shares: float) -> Behaviour:
    """Return the behaviour with some counts replaced by the shares from 0 to 1 given by name, each as a count out of a
    thousand.
    """
    return replace(behaviour, **{name: (round(1000 * share), 1000) for name, share in shares.items()})


def add_behaviours(left: Behaviour, right: Behaviour) -> Behaviour:
    """Return a behaviour whose every count is the sum of both."""
    return Behaviour(
        **{each.name: _sum([getattr(left, each.name), getattr(right, each.name)]) for each in fields(Behaviour)}
    )


def _sum(shares: Sequence[Share]) -> Share:
    return sum(some for some, _ in shares), sum(of for _, of in shares)
