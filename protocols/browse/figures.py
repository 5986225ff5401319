"""Measure a long episode: its calls, repeated calls, and the pages found, opened, left unused and cited.

Code counts them from what was written; no model is asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trailforge.protocols.browse.actions import Citation
from trailforge.schemas import BrowseCall, BrowseFigures, NativeMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """A page that the answer rests on, known by its id, or by its title where its id is not one of the corpus."""

    page: str = ""
    title: str = ""

    def is_among(self, shown: Collection[tuple[str, str]]) -> bool:
        """Tell whether this page is among the pages shown, which are given by id and title."""
        if self.page:  # by the id of one of its passages, too
            return any(self.page in (page, page.rpartition("#")[0]) for page, _ in shown)
        return any(folded(title) == folded(self.title) for _, title in shown)


def count_figures(
    calls: Sequence[BrowseCall],
    messages: Sequence[NativeMessage],
    cited: Sequence[Citation],
    gold: Sequence[Gold] | None,
) -> BrowseFigures:
    """Count the figures of an episode. `cited` are the parts that its answer names; `gold` are the pages that the
    answer rests on, or None when they are not known.
    """
    found = {named for call in calls if call.tool in ("search", "find") for named in _named(call)}
    opened = {named for call in calls if call.tool == "open" for named in _named(call)}
    places = {(page, part) for call in calls for page, part in zip(call.pages, call.parts, strict=True)}
    titles = dict(found | opened)
    borne = {each.page for each in cited if is_shown(each, places)}
    shown_cited = {(page, titles.get(page, "")) for page in borne}

    def share(of: Collection[tuple[str, str]]) -> int | None:
        return None if gold is None else sum(each.is_among(of) for each in gold)

    return BrowseFigures(
        calls=len(calls),
        searches=sum(call.tool == "search" for call in calls),
        opens=sum(call.tool == "open" for call in calls),
        finds=sum(call.tool == "find" for call in calls),
        refused_calls=sum(bool(call.problem) for call in calls),
        repeated_calls=sum(call.is_repeat for call in calls),
        pages_found=len({page for page, _ in found}),
        pages_opened=len({page for page, _ in opened}),
        pages_unused=len(unused_pages(calls, messages)),
        pages_cited=len(borne),
        made_up_citations=sum(not is_shown(each, places) for each in cited),
        gold_pages=None if gold is None else len(gold),
        gold_found=share(found),
        gold_opened=share(opened),
        gold_cited=share(shown_cited),
    )


def is_shown(citation: Citation, places: Collection[tuple[str, int]]) -> bool:
    """Tell whether a cited part was shown to the agent. `places` are the page ids and parts of all that was shown.
    Where a search does not say which part it found (part 0), any part of its page counts.
    """
    return (citation.page, citation.part) in places or (citation.page, 0) in places


def unused_pages(calls: Sequence[BrowseCall], messages: Sequence[NativeMessage]) -> list[str]:
    """Return the opened pages that no later turn of the agent names by id or title, in the order of opening."""
    last: dict[str, tuple[int, str]] = {}
    for call in calls:
        if call.tool == "open":
            for page, title in _named(call):
                last.setdefault(page, (call.result, title))
    said: list[str] = []
    starts: list[int] = []
    for message in messages:
        starts.append(sum(map(len, said[-1:])) + (starts[-1] if starts else 0))
        said.append(f" {_words(message)} " if message.role == "assistant" else "")
    whole = "".join(said)
    unused = []
    for page, (result, title) in last.items():
        start = starts[result]
        names = [folded(name) for name in (page, title) if name.strip()]
        if not any(f" {name} " in whole[start:] for name in names if name):
            unused.append(page)
    return unused


def _named(call: BrowseCall) -> list[tuple[str, str]]:
    return list(zip(call.pages, call.titles, strict=True))


def _words(message: NativeMessage) -> str:
    called = " ".join(call.arguments for call in message.tool_calls)
    return folded(f"{message.content} {message.reasoning} {called}")


def folded(text: str) -> str:
    """Return the words of a text alone, in lower case."""
    return " ".join(re.findall(r"\w+", text.casefold()))
