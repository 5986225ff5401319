"""Make pairs of a better and a worse episode of one question for preference training, for all data sets that draw
episodes.

Each data set decides which two episodes make a pair, and where they differ; the turns that both share are the pair's
prompt. The rules for all are here: no pair prefers an episode with the lower reward, no worse episode is used twice,
and none that equals a used one up to its mistake.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from trailforge.protocols import pay
from trailforge.schemas import ContrastivePair, GroundTruth, Message, Provenance, Verdict


class Drawn(Protocol):
    """Interface of an episode that was drawn for a question, with what pairs need of it."""

    @property
    def uid(self) -> str:
        """Return the identifier of this episode."""
        ...

    @property
    def question_id(self) -> str:
        """Return the identifier of the episode's question."""
        ...

    @property
    def provenance(self) -> Provenance:
        """Return the provenance of the episode."""
        ...


def common_prefix(first: Sequence[Message], second: Sequence[Message]) -> int:
    """Count the messages at the beginning that are the same in both conversations."""
    same = (one == other for one, other in zip(first, second, strict=False))
    return next((i for i, is_same in enumerate(same) if not is_same), min(len(first), len(second)))


def make_pair(good: Drawn, bad: Drawn, verdict: Verdict, place: int, **fields: Any) -> ContrastivePair:
    """Make the pair of two episodes that first differ at the message with the index `place`. `verdict` is the one that
    rejects the bad episode; `fields` are the pair's other fields.
    """
    keys = tuple(dict.fromkeys((*good.provenance.call_keys, *bad.provenance.call_keys)))
    return ContrastivePair(
        uid=hashlib.sha256(f"{good.uid}\0{bad.uid}".encode()).hexdigest()[:16],
        question_id=good.question_id,
        good_uid=good.uid,
        bad_uid=bad.uid,
        diverges_at=place,
        reason=verdict.reason,
        detail=verdict.detail,
        provenance=replace(good.provenance, call_keys=keys),
        **fields,
    )


def best_pair(pairs: Iterable[ContrastivePair], truth: GroundTruth | None) -> ContrastivePair | None:
    """Return, of the pairs that one bad episode could make, the one whose episodes first differ at the latest message;
    None when there is none.

    Pairs are left out in which the bad episode has the higher reward. `truth` is what the reward compares with; None
    where there is no reward.
    """
    sound = (pair for pair in pairs if truth is None or pay(pair.good_messages, truth) >= pay(pair.bad_messages, truth))
    return max(sound, key=lambda pair: pair.diverges_at, default=None)


def distinct_pairs(pairs: Iterable[ContrastivePair]) -> list[ContrastivePair]:
    """Return the pairs without those whose bad episode equals that of an earlier pair up to and including the turn in
    which it differs from the good one.
    """
    first: dict[tuple[Message, ...], ContrastivePair] = {}
    for pair in pairs:
        first.setdefault(pair.bad_messages[: pair.diverges_at + 1], pair)
    return list(first.values())
