"""Pairs part where the good one does better, and no two part the same way."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generators.kg_trajectories.test_filters import FIRST, SECOND, episode, step, triple
from tests.support.kg_episodes import turn
from trailforge.generators.kg_trajectories.selection import (
    common_prefix,
    contrastive_pairs,
    parts_for_the_better,
    select,
)
from trailforge.protocols import KG_SEARCH
from trailforge.rewards import same_answer
from trailforge.schemas import KgStep, KgTrajectory, Message, RelationLink

BORN = triple("e", "born", "Vienna")


def asking(one: KgStep, relation: str, **changes: Any) -> KgStep:
    """The search with another relation; the graph has Vienna as `born`."""
    link = RelationLink(phrase=relation, relation_id=relation, label=relation, score=1.0)
    return replace(one, relations=(link,), triples_offered=(BORN,), **changes)


def told(*steps: KgStep, answer: str = "Vienna", uid: str = "", **changes: Any) -> KgTrajectory:
    """A guided episode whose turns tell what was read, as its searches say."""
    row = episode(*steps, answer=answer, **changes)
    turns, read = [], "Let me see."
    for one in steps:
        turns.append(turn(read, query=one.query, entity=one.mentions[0], relation=one.phrases[0]))
        read = f"It is {one.answer}."
    turns.append(turn(read, answer=answer))
    said = iter(turns)
    messages = [replace(m, content=next(said)) if m.role == "assistant" else m for m in row.messages]
    reward = replace(row.reward, total=1.5 if same_answer(answer, "Vienna") else 0.6)
    return replace(row, messages=tuple(messages), reward=reward, uid=uid or str(hash(tuple(turns))))


FIT = asking(SECOND, "born")
GOOD = told(FIRST, FIT)
HELM = replace(FIRST, answer="Brigitte Helm")
LOST = {
    "misread at the last": (told(FIRST, asking(SECOND, "born", answer="Lviv"), answer="Lviv"), True),
    "misread on the way, and right": (told(HELM, replace(FIT, query="In which city was Helm born?")), True),
    "asks amiss, and right": (told(FIRST, asking(SECOND, "died")), True),
    "asks amiss, then misreads": (told(FIRST, asking(SECOND, "died", answer="Lviv"), answer="Lviv"), True),
    "asks as well, then misreads": (told(FIRST, replace(FIT, query="Where?", answer="Lviv"), answer="Lviv"), False),
    "shows less, then misreads": (
        told(FIRST, replace(FIT, query="Where?", documents=(), answer="Lviv"), answer="Lviv"), True,
    ),
    "searches once more, though it has read it": (
        told(FIRST, FIT, step("And now?", answer="Lviv", triples=(triple("a", "b", "Vienna"),)), answer="Lviv"), True,
    ),
    "breaks off as the good one goes on": (replace(GOOD, messages=GOOD.messages[:-1], final_answer=""), False),
}  # fmt: skip


@pytest.mark.parametrize("name", LOST)
def test_a_pair_parts_where_the_bad_one_goes_wrong(name: str) -> None:
    bad, is_pair = LOST[name]
    (against,) = [verdict for row, verdict in select([bad]).rejected] or [None]
    assert against is not None
    assert parts_for_the_better(GOOD, bad) is is_pair
    assert len(contrastive_pairs([GOOD], [(bad, against)], 4)) == is_pair


def test_the_good_one_of_a_pair_is_not_faulty_there_itself_and_its_end_no_worse() -> None:
    amiss = told(FIRST, asking(SECOND, "died"))
    assert not parts_for_the_better(told(FIRST, asking(SECOND, "buried")), amiss)
    assert not parts_for_the_better(replace(GOOD, reward=replace(GOOD.reward, total=1.4)), amiss)


def test_of_those_that_go_wrong_alike_one_is_paired() -> None:
    amiss = [told(FIRST, asking(SECOND, "died", answer=a), answer=a, uid=a) for a in ("Vienna", "Lviv", "Rome", "Lviv")]
    rejected = select(amiss).rejected
    assert [verdict.reason for _, verdict in rejected] == ["unfitting_relation", *["wrong_answer"] * 3]
    (pair,) = contrastive_pairs([GOOD], rejected, 9)
    worst = min(row.reward.total for row, _ in rejected)
    assert pair.bad_reward == worst < amiss[0].reward.total


def test_a_turn_that_cannot_be_read_is_the_worse_one() -> None:
    broken = list(told(FIRST, replace(FIT, query="Where?")).messages)
    broken[4] = Message(role="assistant", content=broken[4].content.replace("</search>", ""), train=True)
    bad = replace(told(FIRST, replace(FIT, query="Where?")), messages=tuple(broken))
    assert KG_SEARCH.well_formed_turns(bad.messages) == [True, False, True]
    assert parts_for_the_better(GOOD, bad)


STEPS = [
    [replace(FIRST, answer=answer) for answer in ("Fritz Lang", "Brigitte Helm")],
    [asking(replace(SECOND, query=query), relation, answer=answer)
     for query, relation, answer in product(("In which city was Fritz Lang born?", "Where?"), ("born", "died"),
                                            ("Vienna", "Lviv"))],
]  # fmt: skip
DRAWS = st.tuples(*map(st.sampled_from, STEPS)).map(lambda steps: told(*steps, answer=steps[-1].answer or ""))


@settings(max_examples=60, deadline=None)
@given(drawn=st.lists(DRAWS, max_size=8))
def test_every_pair_parts_at_a_first_mistake_and_no_two_alike(drawn: list[KgTrajectory]) -> None:
    chosen = select([replace(row, sample=n, uid=str(n)) for n, row in enumerate(drawn)])
    rows = {row.uid: row for row in (*chosen.selected, *(row for row, _ in chosen.rejected))}
    pairs = contrastive_pairs(chosen.selected, chosen.rejected, 9)
    for pair in pairs:
        good, bad = rows[pair.good_uid], rows[pair.bad_uid]
        assert pair.diverges_at == common_prefix(good.messages, bad.messages)
        first, second = bad.steps
        place = {4: first.answer != "Fritz Lang" or second.phrases == ("died",),
                 6: second.answer != "Vienna"}  # fmt: skip
        assert place[pair.diverges_at] and pair.good_reward >= pair.bad_reward
    assert len({pair.bad_messages[: pair.diverges_at + 1] for pair in pairs}) == len(pairs)
