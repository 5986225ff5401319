"""A road of pages, each of which names the next one, and a scripted research agent that follows it to the end.

The agent reads nothing but its prompt: it goes on from the last result in it, in whichever writing it is asked.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from trailforge.protocols.browse.actions import AnswerAction, BrowseTurn, Call, FindAction, OpenAction, SearchAction
from trailforge.protocols.browse.native import call_id, write_native
from trailforge.protocols.browse.tags import write_tags
from trailforge.retrieval.page_tools import PageHit, PagePart, WordHits
from trailforge.schemas import Document, NoSuchPage

QUESTION = "Where does the road from Stop 1 end?"
ANSWER = "Oslo"
_HIT = re.compile(r"1\. \[(p\d+)\] (Stop \d+)")
_NEXT = re.compile(r"goes on to (Stop \d+)")
_END = re.compile(r"The road ends in (\w+)")
_START = re.compile(r"the road from Stop (\d+)")
_MEMORY = "from what you know"
_SUMMARY = "write now. Call no tool"


class Road:
    """The `PageTools` of a road of so many stops."""

    def __init__(self, stops: int, words: int = 20) -> None:
        self.stops, self.words = stops, words
        self.calls: list[tuple[str, ...]] = []

    def text(self, stop: int) -> str:
        """What the page of a stop says."""
        filler = " ".join(f"grass{stop}" for _ in range(self.words))
        if stop == self.stops:
            return f"{filler} The road ends in {ANSWER}."
        return f"{filler} The road goes on to Stop {stop + 1} (p{stop + 1:03d})."

    def documents(self) -> list[Document]:
        """The pages of all stops."""
        return [Document(id=f"p{n:03d}", title=f"Stop {n}", text=self.text(n)) for n in range(1, self.stops + 1)]

    def write(self, path: Path) -> None:
        """Write these as JSON Lines."""
        path.write_text(
            "".join(json.dumps({"id": d.id, "title": d.title, "text": d.text}) + "\n" for d in self.documents())
        )

    async def search(self, query: str, top_k: int) -> tuple[PageHit, ...]:
        """The page of the stop that the query names."""
        self.calls.append(("search", query))
        found = re.search(r"Stop (\d+)", query)
        if found is None or not 1 <= int(found[1]) <= self.stops:
            return ()
        stop = int(found[1])
        hit = PageHit(page=f"p{stop:03d}", title=f"Stop {stop}", part=1, text="A stop on a road.", score=1.0)
        return (hit,)[:top_k]

    async def open(self, page: str, part: int) -> PagePart:
        """The one part of a page."""
        self.calls.append(("open", page, str(part)))
        stop = self._stop(page)
        if part > 1:
            raise NoSuchPage(f"page {page} has one part")
        return PagePart(id=page, title=f"Stop {stop}", part=1, parts=1, text=self.text(stop))

    async def find(self, page: str, text: str) -> WordHits:
        """The words, if they stand there."""
        self.calls.append(("find", page, text))
        stop = self._stop(page)
        found = self.text(stop)
        hits = (PageHit(page=page, title=f"Stop {stop}", part=1, text=found),) if text in found else ()
        return WordHits(hits=hits)

    def _stop(self, page: str) -> int:
        if not re.fullmatch(r"p\d{3}", page) or not 1 <= int(page[1:]) <= self.stops:
            raise NoSuchPage(f"there is no page {page}")
        return int(page[1:])


def first_stop(prompt: str) -> int:
    """The stop that the question begins at."""
    found = _START.search(prompt)
    return int(found[1]) if found else 1


def next_turn(prompt: str) -> BrowseTurn | str:
    """What the agent does next; a text where it is asked for a summary."""
    ends = {kind: list(pattern.finditer(prompt)) for kind, pattern in (("hit", _HIT), ("next", _NEXT), ("end", _END))}
    kind, found = max(
        ((kind, each[-1]) for kind, each in ends.items() if each), key=lambda pair: pair[1].start(), default=("", None)
    )
    if prompt.rstrip().endswith("what to do next.") and _SUMMARY in prompt:
        last = ends["next"][-1][1] if ends["next"] else "Stop 1"
        return f"I follow the road; it goes on to {last}."
    if found is None:
        return BrowseTurn(thought="I begin.", calls=(SearchAction(query=f"Stop {first_stop(prompt)}"),))
    if kind == "end":
        page = ends["hit"][-1][1]
        answer = AnswerAction(text=found[1])
        return BrowseTurn(thought=f"It ends there [{page}, part 1].", answer=answer)
    calls: tuple[Call, ...]
    if kind == "hit":
        calls = (OpenAction(page=found[1], part=1),)
        if int(found[1][1:]) % 5 == 0:
            calls = (*calls, FindAction(page=found[1], text="goes on"))
        return BrowseTurn(thought=f"I read {found[2]}.", calls=calls)
    return BrowseTurn(thought=f"On to {found[1]}.", calls=(SearchAction(query=found[1]),))


def opening_turn(prompt: str) -> BrowseTurn | str:
    """What an agent does next that searches once and then opens page after page by the ids that they name:
    over a real index, where a passage may say already where the road goes on."""
    if (end := _END.search(prompt)) is not None:
        page = re.findall(r"\[(p\d+)\]", prompt)[-1]
        return BrowseTurn(thought=f"It ends there [{page}, part 1].", answer=AnswerAction(text=end[1]))
    if "[p0" not in prompt:
        return BrowseTurn(thought="I begin.", calls=(SearchAction(query=f"Stop {first_stop(prompt)}"),))
    stops = [int(stop) for _, stop in re.findall(r"(goes on to) Stop (\d+)", prompt)]
    stop = stops[-1] if stops else first_stop(prompt)
    page = f"p{stop:03d}"
    return BrowseTurn(thought=f"Stop {stop - 1} names the next: on to {page}.", calls=(OpenAction(page=page),))


class Model:
    """The agent as `tests.support.model_server` asks its models."""

    def __init__(self, kind: int = 1) -> None:
        """`kind`: 1 searches for every page, 2 opens them by id."""
        self._next = next_turn if kind == 1 else opening_turn

    def __call__(self, prompt: str, seed: int) -> BrowseTurn | str:
        """The next turn."""
        del seed
        return "unknown" if _MEMORY in prompt else self._next(prompt)


def message_of(turn: BrowseTurn, body: dict[str, Any]) -> dict[str, Any]:
    """A turn as the message of a reply: native where tools were offered, else tags."""
    if "tools" not in body:
        return {"role": "assistant", "content": write_tags(turn)}
    before = sum(len(message.get("tool_calls", ())) for message in body["messages"])
    ids = tuple(call_id(before + number) for number in range(len(turn.calls)))
    native = write_native(
        BrowseTurn(thought=turn.thought, said=turn.said, calls=turn.calls, answer=turn.answer, call_ids=ids)
    )
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in native.tool_calls
    ]
    message = {"role": "assistant", "content": native.content, "reasoning_content": native.reasoning}
    return message | ({"tool_calls": calls} if calls else {})
