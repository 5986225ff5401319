"""Each reason says no to its own flaw, with what it measured, and yes to a sound question."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.graph_questions import FakeReader, question
from tests.support.kg_worlds import DUST, chain_to, fact, node
from trailforge.filters.kg.questions import (
    AcceptedQuestions,
    KgQuestionFilterConfig,
    Objections,
    answer_named,
    judge_by_memory,
    judge_question,
    malformed_question,
    names_of,
    same_facts,
    ungrounded_name,
)
from trailforge.schemas import FilterScore, Hop, InvalidInput, KgQuestion, Verdict

SUBS = question().decomposition
FACTS = DUST.facts


def told(*texts: str) -> tuple[Hop, ...]:
    return tuple(replace(hop, question=text) for hop, text in zip(SUBS, texts, strict=True))


def test_a_german_state_is_a_state_of_germany() -> None:
    of_germany = replace(DUST, answer=replace(DUST.answer, kind="state of Germany"))
    asked = "In which German state was the director of the film Red Dust born?"
    assert ungrounded_name(question(chain=of_germany, question=asked)).keep
    assert ungrounded_name(question(question=asked)).detail == "'German' stands in no fact"


async def test_a_sound_question_is_kept_by_all() -> None:
    reader = FakeReader()
    verdicts = await judge_question(question(), reader, KgQuestionFilterConfig(closed_book_samples=3))
    assert all(verdict.keep for verdict in verdicts) and reader.asked == 3
    assert [verdict.reason for verdict in verdicts] == [
        "malformed_question", "not_unique", "shortcut", "answer_named", "bridge_named", "start_missing",
        "ungrounded_name", "right_from_memory", "agreed_otherwise",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason", "score"),
    [
        ({"question": "In Elm City was the director of Red Dust born, was he?"}, "answer_named", 1),
        ({"decomposition": told("Who directed Red Dust, C. Cedar?", SUBS[1].question)}, "answer_named", 1),
        ({"question": "In which city was Cy Cedar, director of Red Dust, born?"}, "bridge_named", 1),
        ({"question": "In which city was the director of that film born?"}, "start_missing", 0),
        ({"question": "In which city was the director of Red Dust, made in 1951 in Peru, born?"}, "ungrounded_name", 2),
        ({"question": "In which city was the director of the film Red Dust born."}, "malformed_question", 1),
        ({"question": "In which city was X1, the director of the film Red Dust, born?"}, "malformed_question", 1),
        ({"question": "Who made Red Dust?"}, None, 0),
        ({"question": "Red Dust?"}, "malformed_question", 1),
        ({"question": "In which city was the director of Red Dust (R:director) born?"}, "malformed_question", 1),
        ({"decomposition": SUBS[:1]}, "malformed_question", 1),
        ({"decomposition": told(SUBS[0].question, "In which city was he born?")}, "malformed_question", 1),
        ({"decomposition": told("Who directed #2?", SUBS[1].question)}, "malformed_question", 1),
        ({"decomposition": told("The director of Red Dust", SUBS[1].question)}, "malformed_question", 1),
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
    assert malformed_question(row).keep and not malformed_question(replace(row, question=row.question + "?")).keep


async def from_memory(row: KgQuestion, reader: FakeReader, samples: int = 4, agreeing: int = 2) -> list[Verdict]:
    config = KgQuestionFilterConfig(closed_book_samples=samples, agreeing_draws=agreeing)
    return await judge_by_memory(row, reader, config)


async def test_one_right_draw_of_memory_rejects_and_is_the_last() -> None:
    reader = FakeReader(1)
    (verdict,) = await from_memory(question(), reader)
    assert (
        not verdict.keep and verdict.detail == "draw 2 of 4 knows it, as 'It was Elm City.'" and 0 < verdict.score < 1
    )
    assert reader.asked == 2
    reader = FakeReader(4)
    assert [(each.reason, each.keep) for each in await from_memory(question(), reader)] == [
        ("right_from_memory", True), ("agreed_otherwise", True),
    ]  # fmt: skip
    assert reader.asked == 4


@pytest.mark.parametrize(
    ("others", "asked", "detail"),
    [
        (("Firton", "Firton."), 2, "2 of 2 draws say 'Firton'"),
        (("Firton", "Girton", "the town of Firton"), 3, "2 of 3 draws say 'Firton'"),
        (("UNKNOWN", "unknown", "UNKNOWN", "Firton"), 4, ""),
        (("Firton", "Girton", "Harton", "Irton"), 4, ""),
    ],
)
async def test_draws_that_agree_on_another_answer_reject_and_end(
    others: tuple[str, ...], asked: int, detail: str
) -> None:
    reader = FakeReader(others=others)
    known, agreed = await from_memory(question(), reader)
    assert known.keep and (agreed.keep, agreed.detail) == (not detail, detail) and reader.asked == asked
    alone = FakeReader(others=others)
    assert [each.reason for each in await from_memory(question(), alone, agreeing=0)] == ["right_from_memory"]
    assert alone.asked == 4


async def test_a_right_draw_after_another_answer_is_what_rejects() -> None:
    (verdict,) = await from_memory(question(), FakeReader(1, others=("Firton",)))
    assert verdict.reason == "right_from_memory" and not verdict.keep


@pytest.mark.parametrize(
    ("found", "reason", "detail"),
    [
        (Objections(other_answers=("Firton", "Girton")), "ambiguous_question", "also 'Firton', 'Girton'"),
        (Objections(doubtful="He was born in Firton."), "doubtful_fact", "He was born in Firton."),
        (Objections(unclear="Which Red Dust?"), "unclear_question", "Which Red Dust?"),
        (Objections(other_answers=("Elm City", "the city of Elmton", " ", "none")), None, ""),
        (Objections(doubtful="None.", unclear="no"), None, ""),
    ],
)
async def test_what_a_check_finds_is_the_reason(found: Objections, reason: str | None, detail: str) -> None:
    reader = FakeReader(objections=found)
    verdicts = await judge_question(question(), reader, KgQuestionFilterConfig(check=True))
    assert [(v.reason, v.detail) for v in verdicts if not v.keep] == ([(reason, detail)] if reason else [])
    assert [v.reason for v in verdicts][-3:] == ["ambiguous_question", "doubtful_fact", "unclear_question"]
    assert (reader.asked, reader.checked) == (4, 1)


@pytest.mark.parametrize("knows", [0, 1])
async def test_a_question_that_fell_is_not_checked(knows: int) -> None:
    reader = FakeReader(*[0] * knows, others=("Firton", "Firton"))
    verdicts = await judge_question(question(), reader, KgQuestionFilterConfig(check=True))
    assert not verdicts[-1].keep and reader.checked == 0 and reader.asked == 2 - knows
    scores = tuple(FilterScore(name=v.reason, score=0, passed=v.keep) for v in verdicts)
    names = names_of(question(filters=scores), KgQuestionFilterConfig(check=True))
    assert names == [v.reason for v in verdicts[7:]]


@pytest.mark.parametrize(("field", "value"), [("agreeing_draws", 1), ("closed_book_samples", -1)])
def test_a_wrong_number_of_draws_is_named(field: str, value: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        KgQuestionFilterConfig(**{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field


async def test_a_draw_may_leave_out_the_kind_that_was_asked_for() -> None:
    ocean = chain_to(
        node("Green Ocean", "ocean"), fact("Ash", "mouth", "Green Ocean"), starts=(node("Ash", "river"),)
    )  # fmt: skip
    row = question(ocean)
    for says, keep in (("Green", False), ("the green.", False), ("Blue", True), ("ocean", True), ("Green Bay", True)):
        assert (await from_memory(row, FakeReader(0, says=says), 1))[0].keep is keep, says


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
        assert [(v.reason, v.score) for v in verdicts if not v.keep] == [("answer_named", 1)]
    apart = question(chain_to(replace(father, label="Bo Birch"), *facts[:2], starts=starts, bridges=(son,)))
    assert answer_named(apart).keep


async def test_memory_is_not_asked_about_a_flawed_question() -> None:
    reader = FakeReader()
    await judge_question(question(question="Red Dust?"), reader, KgQuestionFilterConfig())
    assert reader.asked == 0


def test_the_same_words_or_facts_are_a_duplicate() -> None:
    asked = AcceptedQuestions()
    first = question()
    assert same_facts(first, asked).keep
    asked.add(first)
    part = replace(DUST, facts=FACTS[:1], bridges=(), answer=DUST.bridges[0])
    longer = replace(DUST, facts=(*FACTS, fact("Elmton", "country", "Treeland")))
    other = chain_to(
        node("Di Dogwood"), fact("Blue Rain", "director", "Di Dogwood"), starts=(node("Blue Rain"),)
    )  # fmt: skip
    checks = [same_facts(question(chain, question=f"Q{n}?"), asked) for n, chain in
              enumerate([part, longer, other])]  # fmt: skip
    assert [(verdict.keep, verdict.score) for verdict in checks] == [(False, 1.0), (True, 0.666667), (True, 0.0)]
    same = question(other, question=first.question.lower())
    assert same_facts(same, asked).score == 1.0 and not same_facts(same, asked).keep


@pytest.mark.parametrize(("cut", "knows", "keep"), [((0, 1), (), True), ((0, 1), (2,), False), ((0, 1, 2), (), False)])
async def test_draws_that_were_cut_are_no_draws(cut: tuple[int, ...], knows: tuple[int, ...], keep: bool) -> None:
    verdict = (await from_memory(question(), FakeReader(*knows, cut=cut), 3))[0]
    assert (verdict.keep, "no verdict" in verdict.detail) == (keep, len(cut) == 3)
