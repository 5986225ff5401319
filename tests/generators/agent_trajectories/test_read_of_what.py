"""Queries that name an answer, over public questions: read of what it is asked of, or of something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.generators.agent_trajectories.made_rows import QUESTION, row_of, run_of
from trailforge.generators.agent_trajectories.evidence import find_unread
from trailforge.mcts.plan import gold_plan, resolve
from trailforge.pipelines.sources import read_questions
from trailforge.rewards import is_never_quoted, mentions
from trailforge.schemas import Hop, Question

ELSEWHERE = "zed"
FILES = ("2wikimultihopqa/2wiki_context.jsonl.gz", "musique/musique_original20.jsonl.gz")


def hops_of(question: Question) -> list[tuple[str, str]]:
    """What each hop asks, with earlier answers, and the paragraph that it rests on."""
    answers = {number: hop.answer for number, hop in enumerate(question.decomposition, start=1)}
    plan = gold_plan(question.decomposition).sub_questions
    hops = zip(plan, question.decomposition, strict=True)
    return [(resolve(asked, answers), hop.support_id or "") for asked, hop in hops]


def unread_of_it(question: Question, searches: Sequence[tuple[str, str]]) -> list[str]:
    """What its queries name that was read of something else."""
    row = row_of(run_of(searches, answer=question.answer, question=question), question=question)
    return [each for each in find_unread(row) if "was not read of what" in each]


def told_elsewhere(question: Question) -> Question:
    """With a passage that says the answer of something that nobody asks about."""
    text = f"Zed is a {question.answer} thing of which little is known."
    return replace(
        question,
        paragraphs=(*question.paragraphs, replace(question.paragraphs[0], id=ELSEWHERE, title="Zed", text=text)),
    )


@pytest.mark.parametrize("name", FILES)
def test_the_gold_hops_are_read_of_what_they_ask_and_a_word_by_chance_is_not(name: str, data_dir: Path) -> None:
    asked = [q for q in read_questions(data_dir / name) if isinstance(q, Question) and len(q.decomposition) > 1]
    asked = [q for q in asked if all(hop.support_id for hop in q.decomposition)][::5][:100]
    assert len(asked) >= 40
    assert [found for q in asked for found in unread_of_it(q, hops_of(q))] == []
    guessed = [q for q in asked if not (is_never_quoted(q.answer) or mentions(q.question, q.answer))]
    caught = 0
    for question in guessed:
        (first, place), *_, (last, _) = hops_of(question)
        searches = [(first, f"{place} {ELSEWHERE}"), (f"{last} {question.answer}", hops_of(question)[-1][1])]
        caught += bool(unread_of_it(told_elsewhere(question), searches))
    assert caught > len(guessed) / 2


def with_first_hop(asked: str, answer: str, first: str, later: str) -> Question:
    """The question with another first hop, and with what its two searches show."""
    one, other = QUESTION.paragraphs[:2]
    shown = (replace(one, title="Lore", text=first), replace(other, text=later))
    hops = (Hop(question=asked, answer=answer, support_id="0"), QUESTION.decomposition[1])
    return replace(QUESTION, decomposition=hops, paragraphs=shown)


OF_1927, IN_1927 = "It was made by Fritz Lang.", "Fritz Lang made Metropolis in 1927. He was born in Vienna."
RAIL, RULE = "The British Rail runs trains.", "Metropolis is under British rule. Fritz Lang was born in Vienna."


@pytest.mark.parametrize(
    ("question", "query"),
    [
        # Neither words in small letters nor a year tell what a passage is about.
        (with_first_hop("Who made the film of a city?", "Fritz Lang", OF_1927, IN_1927), "Fritz Lang, Metropolis"),
        (with_first_hop("Who made the 1927 film of a city?", "Fritz Lang", OF_1927, IN_1927), "Fritz Lang born"),
        # A longer name that was read does not say the answer.
        (with_first_hop("Who rules Metropolis?", "British", RAIL, RULE), "when was British Rail opened"),
    ],
)
def test_what_a_query_takes_from_a_passage_that_it_has_read_is_no_guess(question: Question, query: str) -> None:
    assert unread_of_it(question, [("who", "0"), (query, "1")]) == []
