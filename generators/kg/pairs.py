"""Contrastive pairs: a good and a bad episode of one question, as a second view of the same episodes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from schemas import ContrastivePair, KgTrajectory, Message, Verdict

NO_CONTRAST = frozenset({"duplicate_episode", "surplus", "too_similar"})
"""Reasons that say nothing against an episode itself."""


def contrastive_pairs(
    good: Sequence[KgTrajectory], bad: Sequence[tuple[KgTrajectory, Verdict]], most: int
) -> list[ContrastivePair]:
    """At most so many pairs of one question's episodes: the selected ones, and the rejected with what is against each.

    Every bad episode is used once, with the good one that goes the same way for longest, so that the pair differs in
    what went wrong. Reasons take turns; within one, those that part latest go first.
    """
    told = [(row, verdict) for row, verdict in bad if verdict.reason not in NO_CONTRAST and row.messages]
    pairs = [
        max((_pair(one, row, verdict) for one in good), key=lambda p: p.diverges_at) for row, verdict in told if good
    ]
    pairs = [pair for pair in pairs if pair.good_reward > pair.bad_reward]
    pairs.sort(key=lambda pair: (-pair.diverges_at, pair.uid))
    turns, seen = [], Counter[str]()
    for pair in pairs:
        turns.append(seen[pair.reason])
        seen[pair.reason] += 1
    ranked = sorted(range(len(pairs)), key=lambda i: turns[i])
    return [pairs[i] for i in ranked[:most]]


def _pair(good: KgTrajectory, bad: KgTrajectory, verdict: Verdict) -> ContrastivePair:
    return ContrastivePair(
        uid=hashlib.sha256(f"{good.uid}\0{bad.uid}".encode()).hexdigest()[:16],
        question_id=good.question_id,
        question=good.question,
        answer=good.answer,
        good_uid=good.uid,
        bad_uid=bad.uid,
        good_messages=good.messages,
        bad_messages=bad.messages,
        diverges_at=common_prefix(good.messages, bad.messages),
        reason=verdict.reason,
        detail=verdict.detail,
        good_reward=good.reward.total,
        bad_reward=bad.reward.total,
        origin="oracle" if "oracle" in (good.origin, bad.origin) else "policy",
    )


def common_prefix(first: Sequence[Message], second: Sequence[Message]) -> int:
    """How many messages at the beginning are the same."""
    same = (one == other for one, other in zip(first, second, strict=False))
    return next((i for i, is_same in enumerate(same) if not is_same), min(len(first), len(second)))
