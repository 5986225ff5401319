"""The best episodes of a question, unlike each other, and pairs of a good and a bad one.

What both episodes of a contrastive pair have said before they part is a common prompt, so a pair teaches to prefer the
good one's next turn. It is made only where that turn is the better one: what the bad one does wrong later on teaches
nothing about it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from trailforge.filters import first_rejection
from trailforge.generators.kg_trajectories.filters import (
    KgEpisodeFilterConfig,
    judge_kg_episode,
    leaking_turns,
    redundant_steps,
    request_of,
    results_of,
    unfitting_steps,
    wrong_steps,
)
from trailforge.protocols import KG_SEARCH
from trailforge.rewards import mentions
from trailforge.schemas import ContrastivePair, KgStep, KgTrajectory, Message, Verdict

SURPLUS = "surplus"
TOO_SIMILAR = "too_similar"
NO_CONTRAST = frozenset({"duplicate_episode", SURPLUS, TOO_SIMILAR})
"""Reasons that say nothing against an episode itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSelectionConfig:
    """How many are taken of a question."""

    filters: KgEpisodeFilterConfig = field(default_factory=KgEpisodeFilterConfig)
    most: int = 2
    """Episodes of a question."""
    max_similarity: float = 0.8
    """Of a further episode to one that was taken, 0 to 1: see `similarity`."""
    diversity: float = 0.5
    """What full similarity costs, in units of reward, when the next one is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """All episodes of a question, each once."""

    selected: tuple[KgTrajectory, ...]
    """Best first."""
    rejected: tuple[tuple[KgTrajectory, Verdict], ...]
    """In the order of their draws, each with the first verdict against it."""


def select(candidates: Sequence[KgTrajectory], config: EpisodeSelectionConfig = EpisodeSelectionConfig()) -> Selection:
    """Of those that all filters keep the best: by reward and unlikeness, then fewer searches of the graph in vain,
    then fewer searches, then shorter."""
    verdicts: dict[int, Verdict] = {}
    sound: list[int] = []
    for place, row in enumerate(candidates):
        earlier = [candidates[i] for i in sound]
        against = first_rejection(judge_kg_episode(row, earlier, config.filters))
        if against is None:
            sound.append(place)
        else:
            verdicts[place] = against
    taken: list[int] = []
    while sound:
        likeness = {i: max((similarity(candidates[i], candidates[t]) for t in taken), default=0.0) for i in sound}
        best = min(sound, key=lambda i: _rank(candidates[i], likeness[i], config, i))
        sound.remove(best)
        if against := _not_taken(len(taken), likeness[best], config):
            verdicts[best] = against
        else:
            taken.append(best)
    return Selection(
        selected=tuple(candidates[i] for i in taken),
        rejected=tuple((candidates[i], verdicts[i]) for i in sorted(verdicts)),
    )


def similarity(first: KgTrajectory, second: KgTrajectory) -> float:
    """How alike two episodes are, 0 to 1: the share of requests and results that both have, among all of either."""
    one, other = (
        {item for step in row.steps for item in (request_of(step), *results_of(step))} for row in (first, second)
    )
    return len(one & other) / (len(one | other) or 1)


def count_vain_searches(row: KgTrajectory) -> int:
    """How many searches asked the graph for relations that no kept triple has."""
    asked = ((step, {link.relation_id for link in step.relations}) for step in row.steps if step.relations)
    return sum(not any(triple.relation in ids for triple in step.triples_kept) for step, ids in asked)


def _rank(row: KgTrajectory, likeness: float, config: EpisodeSelectionConfig, place: int) -> tuple[float | int, ...]:
    price = config.diversity * likeness - row.reward.total
    return price, count_vain_searches(row), row.num_tool_calls, row.token_estimate, place


def _not_taken(taken: int, likeness: float, config: EpisodeSelectionConfig) -> Verdict | None:
    if taken >= config.most:
        return Verdict(keep=False, reason=SURPLUS, score=float(taken), detail=f"{taken} better ones were taken")
    if likeness > config.max_similarity:
        detail = f"shares {likeness:.2f} with one that was taken"
        return Verdict(keep=False, reason=TOO_SIMILAR, score=round(likeness, 6), detail=detail)
    return None


def contrastive_pairs(
    good: Sequence[KgTrajectory], bad: Sequence[tuple[KgTrajectory, Verdict]], most: int
) -> list[ContrastivePair]:
    """At most so many pairs of one question's episodes: the selected ones, and the rejected with what is against each.

    Every bad episode is used once, with the good one that goes the same way for longest before it does better, and
    none that is the same up to its mistake as one that was taken. Reasons take turns; within one, those that part
    latest go first, then those of least reward.
    """
    pairs: list[ContrastivePair] = []
    for row, verdict in bad:
        better = [one for one in good if verdict.reason not in NO_CONTRAST and parts_for_the_better(one, row)]
        pairs += [max((_pair(one, row, verdict) for one in better), key=lambda p: p.diverges_at)] if better else []
    pairs.sort(key=lambda pair: (-pair.diverges_at, pair.bad_reward, pair.uid))
    distinct: dict[tuple[Message, ...], ContrastivePair] = {}
    for pair in pairs:
        distinct.setdefault(pair.bad_messages[: pair.diverges_at + 1], pair)
    pairs = list(distinct.values())
    turns, seen = [], Counter[str]()
    for pair in pairs:
        turns.append(seen[pair.reason])
        seen[pair.reason] += 1
    ranked = sorted(range(len(pairs)), key=lambda i: turns[i])
    return [pairs[i] for i in ranked[:most]]


def parts_for_the_better(good: KgTrajectory, bad: KgTrajectory) -> bool:
    """Is the good one's turn the better one where the two part, and its end no worse?

    It is where the bad one's turn ends it or cannot be read, where it alone has a fault (`_faulty_turns`), where it
    searches on though the good one can answer, or where its search shows less of what the gold hops ask for.
    """
    place = common_prefix(good.messages, bad.messages)
    if place >= min(len(good.messages), len(bad.messages)) or good.reward.total < bad.reward.total:
        return False
    number = sum(message.role == "assistant" for message in bad.messages[:place])
    is_last = place == len(bad.messages) - 1
    if is_last or not KG_SEARCH.well_formed_turns(bad.messages)[number]:
        return True
    if number in _faulty_turns(bad) - _faulty_turns(good) or number >= len(good.steps):
        return True
    return _shown(bad, number) < _shown(good, number)


def _faulty_turns(row: KgTrajectory) -> set[int]:
    """Numbers of the turns that tell what was misread or is not found yet, or that search in vain or amiss."""
    faulty = {step.index + 1 for step, _ in wrong_steps(row)}
    faulty |= {step.index for step, _ in redundant_steps(row)}
    faulty |= {step.index for step, _ in unfitting_steps(row)}
    return faulty | leaking_turns(row).keys()


def _shown(row: KgTrajectory, number: int) -> frozenset[tuple[str, str]]:
    """What a search is the first to show of the gold hops: their documents, and their answers in either source."""
    *before, now = (_gold_in(step, row) for step in row.steps[: number + 1])
    return now.difference(*before)


def _gold_in(step: KgStep, row: KgTrajectory) -> frozenset[tuple[str, str]]:
    texts = [("document", f"{document.title}. {document.text}") for document in step.documents]
    texts += [("triple", triple.text) for triple in step.triples_kept]
    answers, gold = (*(hop.answer for hop in row.gold_hops), row.answer), {document.id for document in row.supporting}
    found = {(kind, answer) for kind, text in texts for answer in answers if mentions(text, answer)}
    return frozenset(found | {("gold", document.id) for document in step.documents if document.id in gold})


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
