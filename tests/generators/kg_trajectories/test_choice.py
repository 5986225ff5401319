"""Pairs part where the good one does better, and no two part the same way."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.filters.kg.test_episodes import FIRST, SECOND, episode, step, triple
from tests.support.kg_episodes import turn
from trailforge.filters.kg.episodes import ungrounded_answer
from trailforge.generators.kg_trajectories.choice import (
    choose_rows,
    common_prefix,
    contrastive_pairs,
    parting,
    rests_on_form,
    truth_of,
)
from trailforge.generators.kg_trajectories.rows import kg_sft_row
from trailforge.protocols import KG_SEARCH
from trailforge.protocols.environment import labels
from trailforge.protocols.transcripts import pay
from trailforge.protocols.turns import Observation
from trailforge.rewards import same_answer
from trailforge.schemas import KgStep, KgTrajectory, Message, Passage, RelationLink, SoughtDocument

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
    is_right = same_answer(answer, "Vienna")
    reward = replace(row.reward, r_acc=1.0 if is_right else 0.1, total=1.5 if is_right else 0.6)
    return replace(row, messages=tuple(messages), reward=reward, uid=uid or str(hash(tuple(turns))))


FIT = asking(SECOND, "born")
GOOD = told(FIRST, FIT)
HELM = replace(FIRST, answer="Brigitte Helm")
LOST = {
    "misread at the last": (told(FIRST, asking(SECOND, "born", answer="Lviv"), answer="Lviv"), True),
    "misread on the way, and right": (told(HELM, replace(FIT, query="In which city was Helm born?")), True),
    "asks amiss, and right": (told(FIRST, asking(SECOND, "died")), True),
    "asks amiss, then misreads": (told(FIRST, asking(SECOND, "died", answer="Lviv"), answer="Lviv"), True),
    "asks as well, then misreads": (told(FIRST, replace(FIT, query="Where?", answer="Lviv"), answer="Lviv"), True),
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
    (against,) = [verdict for row, verdict in choose_rows([bad]).rejected] or [None]
    assert against is not None
    place = parting(GOOD, bad)
    assert (place is not None) == is_pair
    if name != "asks as well, then misreads":
        assert place in (None, common_prefix(GOOD.messages, bad.messages))
    assert len(contrastive_pairs([GOOD], [(bad, against)], 4)) == is_pair


def test_the_good_one_of_a_pair_is_not_faulty_there_itself() -> None:
    amiss = told(FIRST, asking(SECOND, "died"))
    assert parting(told(FIRST, asking(SECOND, "buried")), amiss) is None
    assert parting(GOOD, amiss) == 4


def test_pairs_compare_accuracy_and_not_what_searches_were_spared() -> None:
    amiss = told(FIRST, asking(SECOND, "died"))
    (against,) = (verdict for _, verdict in choose_rows([amiss]).rejected)
    spared = replace(amiss, reward=replace(amiss.reward, total=1.556))
    (pair,) = contrastive_pairs([GOOD], [(spared, against)], 4)
    assert (pair.good_reward, pair.bad_reward) == (1.5, 1.556)
    less_right = replace(GOOD, kind="bad", reward=replace(GOOD.reward, r_acc=0.3))
    assert contrastive_pairs([less_right], [(spared, against)], 4) == []


def test_of_those_that_go_wrong_alike_one_is_paired() -> None:
    amiss = [told(FIRST, asking(SECOND, "died", answer=a), answer=a, uid=a) for a in ("Vienna", "Lviv", "Rome", "Lviv")]
    rejected = choose_rows(amiss).rejected
    assert [verdict.reason for _, verdict in rejected] == ["unfitting_relation", *["wrong_answer"] * 3]
    (pair,) = contrastive_pairs([GOOD], rejected, 9)
    worst = min(row.reward.total for row, _ in rejected)
    assert pair.bad_reward == worst < amiss[0].reward.total


def test_a_turn_that_cannot_be_read_is_the_worse_one() -> None:
    broken = list(told(FIRST, replace(FIT, query="Where?")).messages)
    broken[4] = Message(role="assistant", content=broken[4].content.replace("</search>", ""), train=True)
    bad = replace(told(FIRST, replace(FIT, query="Where?")), messages=tuple(broken))
    assert KG_SEARCH.well_formed_turns(bad.messages) == [True, False, True]
    assert parting(GOOD, bad) == 4


# No pair rests on the form of a name


@pytest.mark.parametrize("answer", ["Vienna and its suburbs", "the Vienna of old or so", "Vienna & Graz"])
def test_no_pair_of_a_right_answer_by_another_name(answer: str) -> None:
    near = told(FIRST, replace(FIT, answer=answer), answer=answer)
    (against,) = (verdict for _, verdict in choose_rows([near]).rejected)
    assert against.reason == "wrong_answer" and rests_on_form(near)
    assert contrastive_pairs([GOOD], [(near, against)], 4) == []
    assert contrastive_pairs([GOOD], [(replace(near, judge_score=0.7), against)], 4) == []
    (pair,) = contrastive_pairs([GOOD], [(replace(near, judge_score=0.0), against)], 4)
    assert pair.diverges_at == 6, "the judge is sure"


def test_no_pair_of_a_right_answer_that_nothing_shows_in_these_words() -> None:
    wien = told(FIRST, replace(FIT, answer="Wien"), answer="Wien")
    unseen = told(FIRST, replace(FIT, answer="Vindobona"), answer="Vindobona", answer_aliases=("Vindobona",))
    against = ungrounded_answer(replace(unseen, answer="Vindobona", answer_aliases=()))
    assert parting(GOOD, wien) is None
    assert contrastive_pairs([GOOD], [(replace(unseen, kind="good"), replace(against, keep=False))], 4) == []


# Episodes that part in words before one of them errs


def worded(row: KgTrajectory, thought: str) -> KgTrajectory:
    """The same with another first thought."""
    first = replace(row.messages[2], content=row.messages[2].content.replace("Let me see.", thought))
    return replace(row, messages=(*row.messages[:2], first, *row.messages[3:]), uid=f"{row.uid}{thought}")


def test_a_pair_goes_on_as_the_bad_one_up_to_its_mistake() -> None:
    bad = worded(told(FIRST, asking(SECOND, "died")), "I begin with the film.")
    (against,) = (verdict for _, verdict in choose_rows([bad]).rejected)
    assert common_prefix(GOOD.messages, bad.messages) == 2
    (pair,) = contrastive_pairs([GOOD], [(bad, against)], 4)
    assert (pair.diverges_at, pair.good_uid, pair.bad_uid) == (4, GOOD.uid, bad.uid)
    assert pair.good_messages == (*bad.messages[:4], *GOOD.messages[4:]) and pair.bad_messages == bad.messages
    assert KG_SEARCH.validate(pair.good_messages, strict=True) == []


def test_what_only_the_good_one_has_read_is_not_told_behind_the_bad_ones_words() -> None:
    her = Passage(id="8", title="Thea", text="It was written by Harbou.", score=0.5)
    with_her = replace(FIRST, documents=(*FIRST.documents, her))
    good = told(with_her, replace(FIT, entities=(replace(FIT.entities[0], mention="Harbou"),)))
    amiss = asking(SECOND, "died")
    assert parting(good, worded(told(FIRST, amiss), "I begin.")) is None, "how should it know of her?"
    assert parting(good, worded(told(with_her, amiss), "I begin.")) == 4


def test_the_good_turn_does_not_search_for_what_the_bad_one_has_found() -> None:
    both = replace(FIRST, documents=(*FIRST.documents, *SECOND.documents))
    bad = worded(told(both, asking(SECOND, "died")), "I begin with the film.")
    assert parting(GOOD, bad) is None


STEPS = [
    [replace(FIRST, answer=answer) for answer in ("Fritz Lang", "Brigitte Helm")],
    [asking(replace(SECOND, query=query), relation, answer=answer)
     for query, relation, answer in product(("In which city was Fritz Lang born?", "Where?"), ("born", "died"),
                                            ("Vienna", "Lviv"))],
]  # fmt: skip
DRAWS = st.tuples(*map(st.sampled_from, STEPS)).map(lambda steps: told(*steps, answer=steps[-1].answer or ""))


@settings(max_examples=30, deadline=None)
@given(drawn=st.lists(DRAWS, max_size=8))
def test_every_pair_parts_at_a_first_mistake_and_no_two_alike(drawn: list[KgTrajectory]) -> None:
    chosen = choose_rows([replace(row, sample=n, uid=str(n)) for n, row in enumerate(drawn)])
    rows = {row.uid: row for row in (*chosen.kept, *(row for row, _ in chosen.rejected))}
    pairs = contrastive_pairs(chosen.kept, chosen.rejected, 9)
    for pair in pairs:
        good, bad = rows[pair.good_uid], rows[pair.bad_uid]
        assert pair.diverges_at >= common_prefix(good.messages, bad.messages)
        first, second = bad.steps
        place = {4: first.answer != "Fritz Lang" or second.phrases == ("died",),
                 6: second.answer != "Vienna"}  # fmt: skip
        assert place[pair.diverges_at] and good.reward.r_acc >= bad.reward.r_acc
    assert len({pair.bad_messages[: pair.diverges_at + 1] for pair in pairs}) == len(pairs)


# What the reward ranks, and what is not known


def as_read(row: KgTrajectory, **changes: Any) -> KgTrajectory:
    """With what its steps found as what tools said."""
    found = iter(
        KG_SEARCH.render_result(Observation(passages=s.documents, triples=tuple(map(labels, s.triples_kept))))
        for s in row.steps
    )
    messages = [replace(m, content=next(found)) if m.role == "tool" else m for m in row.messages]
    return replace(row, messages=tuple(messages), **changes)


def pairs_of(*rows: KgTrajectory) -> list[tuple[str, str]]:
    chosen = choose_rows(rows)
    pairs = contrastive_pairs(chosen.kept, chosen.rejected, 9)
    return sorted((KG_SEARCH.answer_of(pair.good_messages), KG_SEARCH.answer_of(pair.bad_messages)) for pair in pairs)


def test_unknown_is_the_better_answer_where_nothing_that_was_read_states_one() -> None:
    unread = [as_read(told(FIRST, answer=answer)) for answer in ("unknown", "Graz")]
    read = [as_read(told(FIRST, FIT, answer=answer)) for answer in ("unknown", "Graz")]
    good = as_read(GOOD)
    assert pairs_of(*unread) == [("unknown", "Graz")]
    assert pairs_of(*read) == []
    assert ("Vienna", "unknown") not in pairs_of(good, unread[0])
    assert ("Vienna", "unknown") in pairs_of(good, read[0])


def test_no_pair_prefers_what_the_reward_ranks_lower() -> None:
    """The worse one asked amiss and was right with a search less: the reward of the paper pays it more."""
    supporting = (SoughtDocument(id=None, title="Metropolis"),)
    again = replace(FIT, query="And where exactly?")
    amiss = as_read(told(FIRST, asking(SECOND, "died")), supporting=supporting)
    good = as_read(told(FIRST, FIT, again), supporting=supporting)
    (against,) = (verdict for row, verdict in choose_rows([amiss]).rejected)
    assert parting(good, amiss) is not None
    assert pay(amiss.messages, truth_of(amiss)) > pay(good.messages, truth_of(good))
    assert contrastive_pairs([good], [(amiss, against)], 4) == []
    same = as_read(told(FIRST, FIT), supporting=supporting)
    assert len(contrastive_pairs([same], [(amiss, against)], 4)) == 1


@pytest.mark.parametrize(("judge_score", "titled", "expected"), [(None, True, "title"), (1.0, False, "judge")])
def test_an_sft_row_says_whether_a_title_or_a_judge_finds_it_right(
    judge_score: float | None, titled: bool, expected: str
) -> None:
    page = Passage(id="9", title="Anna Amalie", text="Anna Amalia (born 1739) was a composer.", score=1.0)
    read = replace(FIRST, documents=(*FIRST.documents, page)) if titled else FIRST
    row = told(read, FIT, answer="Anna Amalie")
    row = replace(row, answer="Anna Amalia", answer_aliases=(), judge_score=judge_score, kind="good")
    assert kg_sft_row(row).right_by == expected
