"""The best episodes of a question, unlike each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trailforge.filters import first_rejection
from trailforge.filters.kg.judge import KgFilterConfig, judge_kg_episode
from trailforge.filters.kg.redundant_search import request_of, results_of
from trailforge.schemas import KgTrajectory, Verdict

SURPLUS = "surplus"
TOO_SIMILAR = "too_similar"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionConfig:
    """How many are taken of a question."""

    filters: KgFilterConfig = field(default_factory=KgFilterConfig)
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


def select(candidates: Sequence[KgTrajectory], config: SelectionConfig = SelectionConfig()) -> Selection:
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


def asked_in_vain(row: KgTrajectory) -> int:
    """How many searches asked the graph for relations that no kept triple has."""
    asked = ((step, {link.relation_id for link in step.relations}) for step in row.steps if step.relations)
    return sum(not any(triple.relation in ids for triple in step.triples_kept) for step, ids in asked)


def _rank(row: KgTrajectory, likeness: float, config: SelectionConfig, place: int) -> tuple[float | int, ...]:
    price = config.diversity * likeness - row.reward.total
    return price, asked_in_vain(row), row.num_tool_calls, row.token_estimate, place


def _not_taken(taken: int, likeness: float, config: SelectionConfig) -> Verdict | None:
    if taken >= config.most:
        return Verdict(keep=False, reason=SURPLUS, score=float(taken), detail=f"{taken} better ones were taken")
    if likeness > config.max_similarity:
        detail = f"shares {likeness:.2f} with one that was taken"
        return Verdict(keep=False, reason=TOO_SIMILAR, score=round(likeness, 6), detail=detail)
    return None
