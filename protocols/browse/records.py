"""Compute what follows from a stored episode: repeated calls, dead ends, what was cited, and its timeline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, groupby

from trailforge.protocols.browse.actions import BrowseTurn, Call, Citation, FindAction, OpenAction, SearchAction
from trailforge.protocols.browse.figures import Gold, unused_pages
from trailforge.protocols.browse.native import read_native
from trailforge.protocols.browse.results import PUT_OFF
from trailforge.protocols.browse.tags import write_tags
from trailforge.protocols.browse.writings import writing_of
from trailforge.schemas import BrowseCall, BrowseRecord, MalformedReply, NativeMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """A call of an episode on one line: what was called, and what it found."""

    turn: int
    """Position of the message that makes the call."""
    kind: str
    """The tool; empty where there is none of that name."""
    target: str
    """What it searched for, opened, or looked for in which page."""
    outcome: str
    """The first place that it showed and how many more, or what was wrong."""
    cited: tuple[str, ...]
    """The pages among those shown whose parts the answer cites."""
    is_repeat: bool
    """Whether the call was made again while its result was still shown."""
    is_barren: bool
    """Whether it led nowhere; see `barren_calls`."""
    is_left: bool
    """Whether it opened a page that no later turn names."""
    mistake: str
    """The kind of mistake that it was the first call of, if the episode mended it; else empty."""
    mends: tuple[str, ...]
    """The mistakes that its turn mends, at the first call of the turn."""
    problem: str
    """Why it was not carried out; empty where it was."""
    tokens: int
    """Length of its result."""


def plain_text(message: NativeMessage, writing: str) -> str:
    """Return a message as plain text, with a turn's native calls and thoughts written as tags."""
    if message.role != "assistant" or writing == "tags":
        return message.content
    try:
        return write_tags(read_native(message))
    except MalformedReply:
        return message.content


def turns_of(record: BrowseRecord) -> dict[int, BrowseTurn]:
    """Return the turns of the agent that can be read, by the positions of their messages; summaries are left out."""
    writing, found, calls = writing_of(record.writing), dict[int, BrowseTurn](), 0
    summaries = {view.summary for view in record.views}
    for place, message in enumerate(record.messages):
        if message.role == "assistant" and place not in summaries:
            with suppress(MalformedReply):
                found[place] = writing.read(message, calls)
                calls += len(found[place].calls)
    return found


def slips_of(record: BrowseRecord) -> list[str]:
    """Return what is wrong with each turn that could not be read, or had to be repaired. Missing ids of calls are the
    server's matter and do not count.
    """
    summaries, turns = {view.summary for view in record.views}, turns_of(record)
    slips = []
    for place, message in enumerate(record.messages):
        if message.role == "assistant" and place not in summaries:
            turn = turns.get(place)
            mends = [] if turn is None else [each for each in turn.mends if each != "call_id"]
            if turn is None or mends:
                slips.append(f"turn {place} " + (f"was mended: {', '.join(mends)}" if mends else "cannot be read"))
    return slips


def cited_in(record: BrowseRecord, turns: Mapping[int, BrowseTurn] | None = None) -> tuple[Citation, ...]:
    """Return the parts of pages that an episode's answer cites. `turns`: those of `turns_of`, where they are known."""
    last = (turns_of(record) if turns is None else turns).get(len(record.messages) - 1)
    return last.answer.citations if last is not None and last.answer is not None else ()


def is_like_calls(record: BrowseRecord) -> bool:
    """Tell whether the calls of a record are those in its messages, in order, each with its result."""
    made = [(place, call) for place, turn in turns_of(record).items() for call in turn.calls]
    if len(made) != len(record.calls):
        return False
    return all(
        (place, *_asked(call)) == (each.turn, each.query, each.page, each.part)
        and each.result < len(record.messages)
        and record.messages[each.result].role == "tool"
        for (place, call), each in zip(made, record.calls, strict=True)
    )


def needless_repeats(record: BrowseRecord) -> list[int]:
    """Return the positions of calls that were repeated while the model still saw their earlier results."""
    return [number for number, _ in _repeats(record)]


def barren_calls(record: BrowseRecord) -> list[bool]:
    """Return for each call whether it led nowhere: it could not be carried out, found nothing, repeated another, or
    showed only what had been shown before. A call that was put off for want of calls or room led nowhere, too, but
    `barren_turns` leaves it out.
    """
    repeats = set(needless_repeats(record))
    shown: set[tuple[str, int]] = set()
    opened: set[tuple[str, int]] = set()  # a search shows but a piece of a part
    found = []
    for number, call in enumerate(record.calls):
        places = set(zip(call.pages, call.parts, strict=True))
        is_old = call.tool != "find" and places <= (opened if call.tool == "open" else shown)
        found.append(bool(call.problem) or not places or number in repeats or is_old)
        shown |= places
        opened |= places if call.tool == "open" else set()
    return found


def barren_turns(record: BrowseRecord) -> list[tuple[int, bool]]:
    """Return for each turn with calls its first call and whether all of its calls led nowhere; see `barren_calls`.

    The calls of a turn are made before any of them has a result, so that they are one try, however many they are.
    Calls that were put off are no try.
    """
    tried = [
        (number, call.turn, is_barren)
        for number, (call, is_barren) in enumerate(zip(record.calls, barren_calls(record), strict=True))
        if not is_put_off(call)
    ]
    turns = (list(each) for _, each in groupby(tried, key=lambda each: each[1]))
    return [(calls[0][0], all(is_barren for _, _, is_barren in calls)) for calls in turns]


def is_put_off(call: BrowseCall) -> bool:
    """Tell whether a call showed nothing for want of calls or room alone: an agent that makes it again repeats
    nothing.
    """
    return call.problem in PUT_OFF


def longest_dead_end(record: BrowseRecord) -> int:
    """Return the largest number of turns in a row whose calls all led nowhere; see `barren_turns`."""
    longest = length = 0
    for _, is_barren in barren_turns(record):
        length = length + 1 if is_barren else 0
        longest = max(longest, length)
    return longest


def unshown_pages(record: BrowseRecord) -> list[int]:
    """Return the positions of calls that opened, or looked for words in, a page whose id the agent had not been shown:
    no result of an earlier turn says it, nor the question. An agent that names it knows the page from elsewhere, as
    from an episode before. Calls that were refused are left out: they show nothing.
    """
    found = []
    for number, call in enumerate(record.calls):
        before = (each for each in record.calls[:number] if each.turn < call.turn)
        is_asked = call.tool in ("open", "find") and not call.problem
        if is_asked and not any(call.page in each.pages for each in before):  # or only the text of a page says it
            said = (each.content for each in record.messages[: call.turn] if each.role in ("user", "tool"))
            word = re.compile(rf"(?<!\w){re.escape(call.page)}(?!\w)", re.IGNORECASE)
            if not any(map(word.search, said)):
                found.append(number)
    return found


def cited_results(record: BrowseRecord) -> list[tuple[BrowseCall, str]]:
    """Return the calls that showed a part which the answer cites, each with its result as the agent read it."""
    cited = cited_in(record)
    places = {(each.page, each.part) for each in cited} | {(each.page, 0) for each in cited}
    return [
        (call, record.messages[call.result].content)
        for call in record.calls
        if places & set(zip(call.pages, call.parts, strict=True))
    ]


def opened_after(record: BrowseRecord, pages: Sequence[Gold]) -> list[int | None]:
    """Return for each page the search (from 0) after which it was first opened or words were found in it; None where
    that did not happen, or nothing had been searched before.
    """
    before = list(accumulate((call.tool == "search" for call in record.calls), initial=-1))
    read = [
        (before[number], set(zip(call.pages, call.titles, strict=True)))
        for number, call in enumerate(record.calls)
        if call.tool in ("open", "find") and before[number] >= 0
    ]
    return [next((search for search, shown in read if page.is_among(shown)), None) for page in pages]


def timeline_of(record: BrowseRecord) -> list[TimelineEntry]:
    """Return what came of each call of an episode, in order."""
    cited = {(each.page, each.part) for each in cited_in(record)}
    cited |= {(page, 0) for page, _ in cited}
    repeats, barren, unused = (
        set(needless_repeats(record)),
        barren_calls(record),
        set(unused_pages(record.calls, record.messages)),
    )
    mistakes = {each.call: each.kind for each in record.mended}
    found, last = [], -1
    for number, call in enumerate(record.calls):
        places = list(zip(call.pages, call.parts, call.titles, strict=True))
        mended = [each for each in record.mended if each.mended_in == call.turn] if call.turn != last else []
        last = call.turn
        found.append(
            TimelineEntry(
                turn=call.turn,
                kind=call.tool,
                target=_target(call),
                outcome=_outcome(call, places),
                cited=tuple(dict.fromkeys(page for page, part, _ in places if (page, part) in cited)),
                is_repeat=number in repeats,
                is_barren=barren[number],
                is_left=call.tool == "open" and bool(places) and set(call.pages) <= unused,
                mistake=mistakes.get(number, ""),
                mends=tuple(each.kind for each in mended),
                problem=call.problem,
                tokens=call.tokens,
            )
        )
    return found


def _target(call: BrowseCall) -> str:
    match call.tool:
        case "search":
            return call.query
        case "open":
            return f"{call.page}, part {call.part}" if call.part else call.page
        case "find":
            return f"{call.query!r} in {call.page}"
        case _:
            return ""


def _outcome(call: BrowseCall, places: Sequence[tuple[str, int, str]]) -> str:
    if call.problem:
        return call.problem
    if not places:
        return "nothing"
    page, part, title = places[0]
    first = f"{title or page}{f', part {part}' if part else ''}"
    if call.tool == "open":
        return first
    others = len(places) - 1
    return f"{first}{f' and {others} more' if others else ''}"


def _repeats(record: BrowseRecord) -> Iterator[tuple[int, int]]:
    """Calls made again in vain, each with the one before it that is alike."""
    last: dict[tuple[str, str, str, int], int] = {}
    for number, call in enumerate(record.calls):
        if is_put_off(call):
            continue
        key = (call.tool, call.query, call.page, call.part)
        before = last.get(key)
        if before is not None and not call.problem:
            view = next((each for each in record.views if each.first <= call.turn < each.end), None)
            at = record.calls[before].result
            if view is None or at >= max(view.start, view.marked_before):
                yield number, before
        last[key] = number


def _asked(call: Call) -> tuple[str, str, int]:
    """The query, page and part of a call, as its record has them."""
    match call:
        case SearchAction():
            return call.query, "", 0
        case OpenAction():
            return "", call.page, call.part
        case FindAction():
            return call.text, call.page, 0
        case _:
            return "", "", 0
