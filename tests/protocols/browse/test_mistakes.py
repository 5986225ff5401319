"""Mistakes that a research agent noticed and mended: found where a rule is sure, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.protocols.browse.test_loop import Agent, run, script
from tests.support.sft_rows import sft_row
from trailforge.protocols.browse import (
    BROWSE,
    BrowseRun,
    longest_dead_end,
    needless_repeats,
    rewrite_row,
    timeline_of,
    unshown_pages,
    window_rows,
)
from trailforge.protocols.browse.actions import (
    AnswerAction,
    BrowseTurn,
    Call,
    Citation,
    FindAction,
    OpenAction,
    SearchAction,
)
from trailforge.protocols.browse.context import read_rule
from trailforge.protocols.browse.figures import Gold, unused_pages
from trailforge.protocols.browse.mistakes import LONGEST_DEAD_END, with_gold
from trailforge.retrieval import PageHit, PagePart, WordHits
from trailforge.schemas import BrowseCall, NativeMessage, SftRow
from trailforge.schemas.agent_episode import Writing

PAGES = {"p1": "Ana Moro", "p2": "Ana Lia Moro", "p3": "Kessel", "p4": "Tarn River"}
GOLD = [Gold(page="p1"), Gold(page="p3")]
START = BrowseTurn(thought="I look for her.", calls=(SearchAction(query="poet born in Kessel"),))
DENIED = "Ana Lia Moro was not born in Kessel, so she is the wrong one."


class Shelf:
    """Four pages: a search shows those whose title the query has a word of, a find its words if the page's title has
    them."""

    async def search(self, query: str, top_k: int) -> tuple[PageHit, ...]:
        words = set(query.split())
        hits = [self._hit(page) for page, title in PAGES.items() if "poet" in query or words & set(title.split())]
        return tuple(hits[:top_k])

    async def open(self, page: str, part: int) -> PagePart:
        return PagePart(id=page, title=PAGES[page], part=part or 1, parts=2, text=f"About {PAGES[page]}.")

    async def find(self, page: str, text: str) -> WordHits:
        return WordHits(hits=(self._hit(page),) if text in PAGES[page] else ())

    @staticmethod
    def _hit(page: str) -> PageHit:
        return PageHit(page=page, title=PAGES[page], part=1, text="A page.", score=1.0)


def turn(thought: str, *calls: Call) -> BrowseTurn:
    return BrowseTurn(thought=thought, calls=calls)


def answer(thought: str = "It is Ana Moro [p1, part 1].") -> BrowseTurn:
    return BrowseTurn(thought=thought, answer=AnswerAction(text="Oslo", citations=(Citation(page="p1", part=1),)))


async def walk(
    *turns: BrowseTurn | str, gold: Sequence[Gold] | None = GOLD, writing: Writing = "native", rule: str = "all"
) -> BrowseRun:
    """What comes of these turns, after a first search and before an answer."""
    last = turns[-1]
    said = [START, *turns] if isinstance(last, BrowseTurn) and last.answer else [START, *turns, answer()]
    known = None if gold is None else list(gold)
    return await run(Agent(script(*said)), Shelf(), gold=known, writing=writing, context=read_rule(rule))  # type: ignore[arg-type]


def told(done: BrowseRun) -> list[tuple[str, int, int, str]]:
    return [(each.kind, each.call, each.mended_in, each.title) for each in done.record.mended]


TAKEN = turn("Ana Lia Moro may be her.", OpenAction(page="p2"))
FOLLOWED = turn("Ana Lia Moro it is.", SearchAction(query="Ana Lia Moro novels"))
OTHER = turn(DENIED, OpenAction(page="p1"))


@pytest.mark.parametrize("gold", [GOLD, None])
async def test_a_page_that_is_denied_and_never_named_again_was_the_wrong_one(gold: list[Gold] | None) -> None:
    done = await walk(TAKEN, OTHER, gold=gold)
    assert told(done) == [("wrong_page", 1, 6, "Ana Lia Moro")]
    assert with_gold(done.record, gold) == done.record


async def test_who_was_searched_on_by_name_was_a_candidate() -> None:
    done = await walk(TAKEN, FOLLOWED, OTHER)
    assert told(done) == [("wrong_candidate", 2, 8, "Ana Lia Moro")]


@pytest.mark.parametrize(
    "later",
    [
        (turn("Ana Lia Moro is a poet.", OpenAction(page="p1")),),
        (turn("She was not born there.", OpenAction(page="p1")),),
        (OTHER, turn("And yet Ana Lia Moro is a poet.", OpenAction(page="p3"))),
        (OTHER, turn("I look again.", FindAction(page="p2", text="Moro"))),
        (OTHER, answer("Ana Lia Moro says it [p2, part 1], and [p1, part 1].")),
    ],
    ids=["affirmed", "unnamed", "named again", "read again", "cited"],
)
async def test_what_may_still_be_used_is_no_mistake(later: tuple[BrowseTurn, ...]) -> None:
    done = await walk(TAKEN, *later, gold=None)
    assert told(done) == []


async def test_pages_behind_the_answer_and_of_the_question_are_none() -> None:
    """Whatever is said of them."""
    denied = turn("Ana Moro is not in Kessel.", OpenAction(page="p2"))
    done = await walk(turn("Ana Moro.", OpenAction(page="p1")), denied, turn("On.", OpenAction(page="p3")))
    assert [each for each in told(done) if each[3] == "Ana Moro"] == []


async def test_a_page_that_was_left_without_a_word_is_a_mistake_where_it_is_known_not_to_matter() -> None:
    steps = (turn("I read on.", OpenAction(page="p4")), turn("Ana Moro.", OpenAction(page="p1")))
    assert told(await walk(*steps)) == [("wrong_page", 1, 6, "Tarn River")]
    assert told(await walk(*steps, gold=None)) == []
    assert told(await walk(*steps, answer("Tarn River [p1, part 1]."))) == []


@pytest.mark.parametrize(
    ("said", "unused"),
    [
        ("The Younger died in 2002, so no.", []),
        ("Ana Moro the Younger is another.", []),
        ("Odo Marn died in 2002.", []),
        ("The first died in 2002.", ["p9"]),
        ("Ana Moro and Lia Tesk are younger.", ["p9"]),
    ],
)
def test_a_page_is_used_when_its_subject_is_named_in_any_of_its_names(said: str, unused: list[str]) -> None:
    """Not by those of another page, nor in the turn that opens it."""
    title, shown = "Ana Moro the Younger", "[p1] Ana Moro (also known as Lia Tesk), part 1: A poet."
    page = BrowseCall(tool="open", turn=0, result=1, page="p9", pages=("p9",), parts=(1,), titles=(title,))
    search = replace(page, tool="search", page="", pages=("p1",), titles=("Ana Moro",))
    opened = f"[p9] {title}, part 1 of 2\n{title}, also known as Odo Marn or Fobi, is a poet."
    messages = [
        NativeMessage(role="assistant", content=f"{title} [p9]: I look."),
        NativeMessage(role="tool", content=f"{opened}\n{shown}"),
        NativeMessage(role="assistant", content=said),
    ]
    assert unused_pages([search, page], messages) == unused
    film = replace(page, titles=("Kessel (1931 film)",))
    assert unused_pages([film], [*messages[:2], NativeMessage(role="assistant", content="Kessel it is.")]) == []


def lost(times: int) -> list[BrowseTurn]:
    return [turn("No word of it.", FindAction(page="p1", text=f"word {number}")) for number in range(times)]


@pytest.mark.parametrize("times", [1, 2, LONGEST_DEAD_END, LONGEST_DEAD_END + 1])
async def test_a_way_that_leads_nowhere_is_given_up_within_some_calls(times: int) -> None:
    done = await walk(*lost(times), turn("Another way.", OpenAction(page="p1")))
    within = [("dead_end", 1, 2 * times + 4, "")] if 2 <= times <= LONGEST_DEAD_END else []
    assert told(done) == within


async def test_calls_that_were_put_off_are_neither_repeated_nor_a_try() -> None:
    """The agent makes them again, as it is told."""
    many = [FindAction(page="p1", text=f"word {number}") for number in range(10)]
    done = await walk(turn("All.", *many), turn("The rest.", *many[8:]), turn("On.", OpenAction(page="p1")))
    calls = done.record.calls
    assert [bool(call.problem) for call in calls] == [False] * 9 + [True] * 2 + [False] * 3
    assert needless_repeats(done.record) == [] and not any(call.is_repeat for call in calls)
    assert (done.record.figures.repeated_calls, longest_dead_end(done.record)) == (0, 2)
    again = await walk(turn("All.", *many), turn("All again.", *many[6:]))
    assert needless_repeats(again.record) == [11, 12] and again.record.figures.repeated_calls == 2


async def test_a_page_is_shown_by_an_earlier_turn_or_not_at_all() -> None:
    """By a result of its own turn it is not: the calls of a turn are written before any of them has a result."""
    known = await walk(turn("Both.", SearchAction(query="Tarn"), OpenAction(page="p2")))
    assert unshown_pages(known.record) == []
    shown = (BrowseTurn(thought="I look.", calls=(SearchAction(query="Kessel"),)), turn("It.", OpenAction(page="p3")))
    blind = turn("Both.", SearchAction(query="Tarn"), OpenAction(page="p4"), FindAction(page="p4", text="Tarn"))
    done = await run(Agent(script(*shown, blind, turn("Again.", OpenAction(page="p4")), answer())), Shelf())  # type: ignore[arg-type]
    assert unshown_pages(done.record) == [3, 4]


async def test_calls_of_one_turn_and_the_end_of_an_episode_give_up_nothing() -> None:
    both = turn("I try all.", *(FindAction(page="p1", text=text) for text in "ab"), OpenAction(page="p1"))
    assert told(await walk(both)) == []
    assert told(await walk(*lost(3))) == []


@pytest.mark.parametrize("writing", ["native", "tags"])
async def test_rows_to_train_on_say_what_they_mend(writing: Writing) -> None:
    """As those of tree search do, with the sentences that take it up and drop it."""
    done = await walk(TAKEN, FOLLOWED, OTHER, writing=writing)
    (row,) = rows(done)
    assert (row.trajectory_kind, row.reflection_error, row.error_source) == ("reflective", "reasoning", "sampled")
    assert marked(row) == [("mistake", "Ana Lia Moro it is."), ("mend", DENIED)]
    for other in (rewrite_row(row, "tags"), rewrite_row(row, "native")):
        assert marked(other) == marked(row)
    (plain,) = rows(await walk(turn("Ana Moro.", OpenAction(page="p1")), writing=writing))
    assert (plain.trajectory_kind, plain.reflection_error, plain.spans) == ("correct", None, ())


@pytest.mark.parametrize(("rule", "summed_up"), [("newest:1", ()), ("summary:90", ("Ana Moro is left.",))])
async def test_the_window_that_mends_is_marked(rule: str, summed_up: tuple[str, ...]) -> None:
    windows = rows(await walk(TAKEN, OTHER, *summed_up, turn("On.", OpenAction(page="p3")), rule=rule))
    assert len(windows) > 1 and [row.trajectory_kind for row in windows].count("reflective") == 1
    (row,) = [row for row in windows if row.trajectory_kind == "reflective"]
    assert marked(row)[-1] == ("mend", DENIED) and row.reflection_error == "retrieval"
    assert row.train[row.spans[-1].message]


async def test_the_timeline_says_where_it_went_wrong_and_where_that_was_given_up() -> None:
    done = await walk(TAKEN, OTHER)
    entries = timeline_of(done.record)
    assert [each.mistake for each in entries] == ["", "wrong_page", ""]
    assert [each.mends for each in entries] == [(), (), ("wrong_page",)]


def rows(done: BrowseRun) -> list[SftRow]:
    return window_rows(sft_row("u", (), protocol=BROWSE, question="q", answer="a"), done.record)


def marked(row: SftRow) -> list[tuple[str, str]]:
    return [(span.kind, row.messages[span.message].content[span.start : span.end]) for span in row.spans]
