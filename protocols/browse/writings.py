"""The two ways to write the browse protocol (tags and native calls), each with its rules, reading, writing and
results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trailforge.protocols.base import READ_FIRST
from trailforge.protocols.browse.actions import BrowseTurn
from trailforge.protocols.browse.native import TOOLS_JSON, read_native, write_native
from trailforge.protocols.browse.results import LEFT_OUT, calls_left
from trailforge.protocols.browse.tags import STOP, read_tags, write_tags
from trailforge.schemas import InvalidInput, NativeMessage, Writing

_RULES = (
    "You answer a question by research in a collection of pages. You have three tools. "
    "search shows passages, each with the id of its page and its part. open shows one part of a page. "
    "find shows where words stand in a page. A search shows only a piece of a page: open what looks right and read it, "
    "and find a name there instead of opening part after part. {calls} "
    f"{READ_FIRST} "
    "A thing may have a second name, and its page stands under the first one: a page says at its beginning what else "
    "its subject is called. "
    "Pages may look alike: check that a page is about the one that the question means. Where a way leads to nothing, "
    "leave it and try another. {answer} You may make {most} calls, and at most {at_once} of them in one turn."
)
_TAG_CALLS = (
    "Begin every turn by reasoning between <think> and </think>. Then make one or several calls, and stop: "
    "<search>what to search for</search>; <open>page id, and on a line below it part 2</open>; "
    "<find>page id, and on a line below it the words</find>. "
    "What each call finds comes back between <result> and </result>, in their order."
)
_NATIVE_CALLS = "You may call several tools in one turn."
_TAG_ANSWER = (
    "When you are sure, reason once more, and end your reasoning with one short line that cites the part which bears "
    "each link, such as [00123, part 2] [00456, part 1]. Then write the answer alone between <answer> and </answer>, "
    "no call."
)
_NATIVE_ANSWER = (
    "When you are sure, call nothing: write first one short line that cites the part which bears each link, such as "
    "[00123, part 2] [00456, part 1], then the answer between <answer> and </answer>."
)
SUMMARY_REQUEST = (
    "The conversation is getting long: it goes on from a summary that you write now. Call no tool. Write down, so that "
    "nobody needs the results again: what is asked; each fact found, with the page and part it stands in; which ways "
    "led to nothing; what is still missing, and what to do next."
)
"""The request with which the model is asked for a summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnWriting:
    """One way to write and read turns and results."""

    name: Writing
    tools: str
    """The tools as a request offers them, a JSON list; empty where calls are tags."""
    stop: tuple[str, ...]
    calls: str
    """The part of the rules that explains calls."""
    answer: str
    """The part of the rules that explains how the agent ends with an answer."""
    read: Callable[[NativeMessage, int], BrowseTurn]
    """Takes a turn apart; the number is that of its first call. Raises `MalformedReply`."""
    write: Callable[[BrowseTurn], NativeMessage]
    """Writes a turn as a message, from which `read` takes the same turn."""

    def opening(self, question: str, most_calls: int, most_at_once: int) -> tuple[NativeMessage, NativeMessage]:
        """Write the rules and the question, with which an episode begins. The rules name the most calls of the episode
        and of one turn.
        """
        rules = _RULES.format(calls=self.calls, answer=self.answer, most=most_calls, at_once=most_at_once)
        return NativeMessage(role="system", content=rules), NativeMessage(role="user", content=question)

    def result(self, text: str, call_id: str = "") -> NativeMessage:
        """Return the message with a call's result."""
        if self.name == "tags":
            return NativeMessage(role="tool", content=f"<result>\n{text}\n</result>")
        return NativeMessage(role="tool", content=text, tool_call_id=call_id)

    @property
    def mark(self) -> str:
        """Return the placeholder for a result that is left out."""
        return self.result(LEFT_OUT).content

    def refusal(self, problem: str) -> NativeMessage:
        """Return the message that answers a turn which cannot be read."""
        return NativeMessage(role="user", content=f"That turn cannot be read: {problem}. Write it again.")


def _read_tags(message: NativeMessage, first_id: int) -> BrowseTurn:
    del first_id  # tags have none
    return read_tags(message.content)


def _write_tags(turn: BrowseTurn) -> NativeMessage:
    return NativeMessage(role="assistant", content=write_tags(turn))


WRITINGS: dict[str, TurnWriting] = {
    each.name: each
    for each in (
        TurnWriting(
            name="tags",
            tools="",
            stop=STOP,
            calls=_TAG_CALLS,
            answer=_TAG_ANSWER,
            read=_read_tags,
            write=_write_tags,
        ),
        TurnWriting(
            name="native",
            tools=TOOLS_JSON,
            stop=(),
            calls=_NATIVE_CALLS,
            answer=_NATIVE_ANSWER,
            read=read_native,
            write=write_native,
        ),
    )
}
"""Every writing by its name."""


WORDS = "\n".join(
    [
        SUMMARY_REQUEST,
        LEFT_OUT,
        calls_left(0),
        *(f"{each.opening('', 0, 0)[0].content} {each.tools}" for each in WRITINGS.values()),
    ]
)
"""All fixed text that agents are told, whatever the question is."""


def writing_of(name: str) -> TurnWriting:
    """Return the way of writing with this name. Raises `InvalidInput`, with the list of names, when there is none."""
    if name not in WRITINGS:
        raise InvalidInput(f"no writing {name!r}; there are {', '.join(WRITINGS)}", field="writing")
    return WRITINGS[name]
