"""The result of a call, and its text for the agent, the same for tags and native calls. Retrieved text in it is
escaped.
"""

from __future__ import annotations

from dataclasses import dataclass

from trailforge.protocols.base import NOTHING_FOUND, escape_retrieved, tag_pattern
from trailforge.protocols.browse.actions import BadCall, Call, FindAction, OpenAction, SearchAction
from trailforge.retrieval import PageHit, PagePart, PageTools, WordHits
from trailforge.schemas import NoSuchPage

NO_CALLS_LEFT = "No calls are left: give the answer now."
NO_ROOM_LEFT = "There is no room for this result: give the answer now."
NO_ROOM_NOW = "This result is too long to be shown now; make the call again."
ANSWER_NOW = "There is room for one more turn: give the answer now."
TOO_MANY_AT_ONCE = "too many calls in one turn; make this call again in the next"
PUT_OFF = frozenset((NO_CALLS_LEFT, NO_ROOM_LEFT, NO_ROOM_NOW, TOO_MANY_AT_ONCE))
"""Problems of calls that showed the agent nothing for want of calls or room, and not by a fault of theirs."""
LEFT_OUT = "(This result was shown before and is left out here. Make the call again to read it again.)"
"""The mark that stands in the place of an older result that is no longer shown."""
_BY_ANOTHER_NAME = "; what has several names may go by another one there"

_OWN_TAGS = tag_pattern(("open", "find"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The result of a call, or why it was not carried out."""

    hits: tuple[PageHit, ...] = ()
    """The hits of a search or a find."""
    words: WordHits | None = None
    """What a find found; None for other calls."""
    opened: PagePart | None = None
    """The part of a page that was opened; None for other calls."""
    problem: str = ""
    """Why the call was not carried out, in words that the agent reads."""

    @property
    def shown(self) -> tuple[tuple[str, int, str], ...]:
        """Return page, part and title of everything that the result shows, best first."""
        if self.opened is not None:
            return ((self.opened.id, self.opened.part, self.opened.title),)
        return tuple((hit.page, hit.part, hit.title) for hit in self.hits)


async def carry_out(call: Call, tools: PageTools, top_k: int) -> CallResult:
    """Carry out a call and return its result. A page or part that does not exist becomes a problem that the agent
    reads; all other errors are raised.
    """
    try:
        match call:
            case SearchAction():
                return CallResult(hits=await tools.search(call.query, top_k))
            case OpenAction():
                return CallResult(opened=await tools.open(call.page, call.part))
            case FindAction():
                words = await tools.find(call.page, call.text)
                return CallResult(hits=words.hits, words=words)
            case BadCall():
                return CallResult(problem=call.problem)
    except NoSuchPage as error:
        return CallResult(problem=str(error))


def result_text(call: Call, result: CallResult) -> str:
    """Write a result as the agent reads it."""
    if result.problem:
        return f"Not done: {one_line(result.problem)}"
    if result.opened is not None:
        opened = result.opened
        head = f"{_place(opened.id, opened.title, opened.part)} of {opened.parts}"
        return f"{head}\n{harmless(opened.text).strip()}"
    if isinstance(call, FindAction):
        return _found_words(call, result.words or WordHits(hits=result.hits))
    lines = [f"{number}. {_line(hit)}" for number, hit in enumerate(result.hits, 1)]
    return "\n".join(lines or [NOTHING_FOUND])


def calls_left(left: int) -> str:
    """Return the line that says how many calls the agent may still make."""
    return f"calls left: {left}"


def _found_words(call: FindAction, found: WordHits) -> str:
    if not found.hits:
        is_name = any(word[:1].isupper() for word in call.text.split())
        return f"These words stand nowhere in [{one_line(call.page)}]{_BY_ANOTHER_NAME if is_name else ''}."
    lines = [f"[{one_line(found.hits[0].page)}] {one_line(found.hits[0].title)}".rstrip()]
    if found.missing:
        lines.append(f"Only a part of these words stands together; missing: {one_line(', '.join(found.missing))}")
    lines += [f"part {hit.part}: … {one_line(hit.text)} …" for hit in found.hits]
    if found.left:
        are = f"part{'s' if len(found.left_parts) > 1 else ''} {', '.join(map(str, found.left_parts))}"
        lines.append(f"and {found.left} more in {are}")
    return "\n".join(lines)


def _line(hit: PageHit) -> str:
    known = f" (also known as {one_line(hit.known_as)})" if hit.known_as else ""
    return f"{_place(hit.page, f'{hit.title}{known}', hit.part)}: {one_line(hit.text)}"


def _place(page: str, title: str, part: int) -> str:
    return ", ".join(filter(None, (f"[{one_line(page)}] {one_line(title)}".rstrip(), f"part {part}" if part else "")))


def harmless(text: str) -> str:
    """Escape retrieved text, so that it can neither end a result nor pose as a call. Applying it twice changes
    nothing.
    """
    return _OWN_TAGS.sub(lambda match: f"&lt;{match[0][1:]}", escape_retrieved(text))


def one_line(text: str) -> str:
    """Escape text and put it on one line, so that it cannot pose as a line of the tool's own."""
    return " ".join(harmless(text).split())
