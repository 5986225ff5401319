"""Each reason says no to its own flaw, with what it measured, and yes to a sound question."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.graph_questions import FakeReader, question
from tests.support.kg_worlds import DUST, chain_to, fact, node
from trailforge.generators.kg_questions.filters import (
    AcceptedQuestions,
    KgQuestionFilterConfig,
    answer_in_question,
    closed_book,
    duplicate_question,
    judge_question,
    malformed,
)
from trailforge.schemas import Hop

SUBS = question().decomposition
FACTS = DUST.facts


def told(*texts: str) -> tuple[Hop, ...]:
    return tuple(replace(hop, question=text) for hop, text in zip(SUBS, texts, strict=True))


async def test_a_sound_question_is_kept_by_all() -> None:
    reader = FakeReader()
    verdicts = await judge_question(question(), reader, KgQuestionFilterConfig(closed_book_samples=3))
    assert all(verdict.keep for verdict in verdicts) and reader.asked == 3
    assert [verdict.reason for verdict in verdicts] == [
        "malformed", "not_unique", "shortcut", "answer_in_question", "bridge_named", "start_missing",
        "ungrounded_name", "closed_book",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason", "score"),
    [
        ({"question": "In Elm City was the director of Red Dust born, was he?"}, "answer_in_question", 1),
        ({"decomposition": told("Who directed Red Dust, C. Cedar?", SUBS[1].question)}, "answer_in_question", 1),
        ({"question": "In which city was Cy Cedar, director of Red Dust, born?"}, "bridge_named", 1),
        ({"question": "In which city was the director of that film born?"}, "start_missing", 0),
        ({"question": "In which city was the director of Red Dust, made in 1951 in Peru, born?"}, "ungrounded_name", 2),
        ({"question": "In which city was the director of the film Red Dust born."}, "malformed", 1),
        ({"question": "In which city was X1, the director of the film Red Dust, born?"}, "malformed", 1),
        ({"question": "Who made Red Dust?"}, None, 0),
        ({"question": "Red Dust?"}, "malformed", 1),
        ({"question": "In which city was the director of Red Dust (R:director) born?"}, "malformed", 1),
        ({"decomposition": SUBS[:1]}, "malformed", 1),
        ({"decomposition": told(SUBS[0].question, "In which city was he born?")}, "malformed", 1),
        ({"decomposition": told("Who directed #2?", SUBS[1].question)}, "malformed", 1),
        ({"decomposition": told("The director of Red Dust", SUBS[1].question)}, "malformed", 1),
        ({"chain": replace(DUST, answer=replace(DUST.answer, matches=3))}, "not_unique", 3),
        ({"chain": replace(DUST, bridges=(replace(DUST.bridges[0], matches=2),))}, "not_unique", 2),
        (
            {"chain": replace(DUST, facts=(FACTS[0], replace(FACTS[1], left_without=1))), "fewest_left": 1},
            "shortcut",
            1,
        ),
    ],
)
async def test_a_flaw_is_rejected_for_itself_alone(changes: dict[str, Any], reason: str | None, score: float) -> None:
    verdicts = await judge_question(question(**changes), FakeReader(), KgQuestionFilterConfig(closed_book_samples=0))
    rejected = [verdict for verdict in verdicts if not verdict.keep]
    assert [(verdict.reason, verdict.score) for verdict in rejected] == ([(reason, score)] if reason else [])
    assert all(verdict.detail for verdict in rejected)


async def test_a_short_alias_counts_only_as_it_is_written() -> None:
    row = question(chain=replace(DUST, answer=node("Elmton", "city", "", "OF")))
    assert all(v.keep for v in await judge_question(row, FakeReader(), KgQuestionFilterConfig(closed_book_samples=0)))


async def test_a_start_may_look_like_a_placeholder() -> None:
    chain = replace(DUST, starts=(node("X2", "film"),), facts=(fact("X2", "director", "Cy Cedar"), FACTS[1]))
    assert all(v.keep for v in await judge_question(question(chain), FakeReader(), KgQuestionFilterConfig()))


async def test_a_title_may_end_with_a_question_mark() -> None:
    title = "Who Saw Red Dust?"
    chain = chain_to(node("Gil Gum", "person"), fact(title, "author", "Gil Gum"), starts=(node(title, "novel"),))
    row = question(chain)
    assert row.question == "Who wrote the novel Who Saw Red Dust?"
    assert malformed(row).keep and not malformed(replace(row, question=row.question + "?")).keep


async def test_one_right_draw_of_memory_rejects() -> None:
    verdict = await closed_book(question(), FakeReader(2), samples=4)
    assert not verdict.keep and "1 of 4" in verdict.detail and 0 < verdict.score < 1
    assert (await closed_book(question(), FakeReader(4), samples=4)).keep


async def test_a_draw_may_leave_out_the_kind_that_was_asked_for() -> None:
    ocean = chain_to(
        node("Green Ocean", "ocean"), fact("Ash", "mouth", "Green Ocean"), starts=(node("Ash", "river"),)
    )  # fmt: skip
    row = question(ocean)
    for says, keep in (("Green", False), ("the green.", False), ("Blue", True), ("ocean", True), ("Green Bay", True)):
        assert (await closed_book(row, FakeReader(0, says=says), samples=1)).keep is keep, says


async def test_what_is_found_on_the_way_may_not_name_what_is_found_later() -> None:
    father, son = node("Al Alder", "person"), replace(node("Al Alder", "person"), id="son")
    facts = [
        fact("Red Dust", "author", "Al Alder"), fact("Al Alder", "father", "Al Alder"),
        fact("Al Alder", "place of birth", "Elmton"),
    ]  # fmt: skip
    facts[0] = replace(facts[0], found="son")
    facts[1] = replace(facts[1], known="son", triple=replace(facts[1].triple, head="son"))
    starts = (node("Red Dust", "novel"),)
    named = [question(chain_to(father, *facts[:2], starts=starts, bridges=(son,))),
             question(chain_to(node("Elmton", "city"), *facts, starts=starts, bridges=(son, father)))]  # fmt: skip
    for row in named:
        verdicts = await judge_question(row, FakeReader(), KgQuestionFilterConfig(closed_book_samples=0))
        assert [(v.reason, v.score) for v in verdicts if not v.keep] == [("answer_in_question", 1)]
    apart = question(chain_to(replace(father, label="Bo Birch"), *facts[:2], starts=starts, bridges=(son,)))
    assert answer_in_question(apart).keep


async def test_memory_is_not_asked_about_a_flawed_question() -> None:
    reader = FakeReader()
    await judge_question(question(question="Red Dust?"), reader, KgQuestionFilterConfig())
    assert reader.asked == 0


def test_the_same_words_or_facts_are_a_duplicate() -> None:
    asked = AcceptedQuestions()
    first = question()
    assert duplicate_question(first, asked).keep
    asked.add(first)
    part = replace(DUST, facts=FACTS[:1], bridges=(), answer=DUST.bridges[0])
    longer = replace(DUST, facts=(*FACTS, fact("Elmton", "country", "Treeland")))
    other = chain_to(
        node("Di Dogwood"), fact("Blue Rain", "director", "Di Dogwood"), starts=(node("Blue Rain"),)
    )  # fmt: skip
    checks = [duplicate_question(question(chain, question=f"Q{n}?"), asked) for n, chain in
              enumerate([part, longer, other])]  # fmt: skip
    assert [(verdict.keep, verdict.score) for verdict in checks] == [(False, 1.0), (True, 0.666667), (True, 0.0)]
    same = question(other, question=first.question.lower())
    assert duplicate_question(same, asked).score == 1.0 and not duplicate_question(same, asked).keep


@pytest.mark.parametrize(("cut", "knows", "keep"), [((0, 1), (), True), ((0, 1), (2,), False), ((0, 1, 2), (), False)])
async def test_draws_that_were_cut_are_no_draws(cut: tuple[int, ...], knows: tuple[int, ...], keep: bool) -> None:
    verdict = await closed_book(question(), FakeReader(*knows, cut=cut), samples=3)
    assert (verdict.keep, "no verdict" in verdict.detail) == (keep, len(cut) == 3)
