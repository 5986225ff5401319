"""Measure a long episode: its calls, repeated calls, and the pages found, opened, left unused and cited.

Code counts them from what was written; no model is asked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from trailforge.protocols.browse.actions import Citation
from trailforge.schemas import BrowseCall, BrowseFigures, NativeMessage

_ALSO_KNOWN = re.compile(r",? \(?(?:also|better|formerly) (?:known|called) as ([^,.;()\n]{1,200})")
_LONGEST_BEFORE = 200
"""Characters in which a name stands before its other names."""
_QUALIFIER = re.compile(r"\s*\([^()]*\)\s*$")


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
    """Return the opened pages that no later turn of the agent names, in the order of opening. A page is named by its
    id, or as its subject is called: by its title, also without what stands in brackets, by another name that the agent
    was told, or by what tells it from another page (`the Younger`).
    """
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
    told = [each for message in messages if message.role == "tool" for each in names_told(message.content)]
    shown = {folded(title) for call in calls for title in call.titles}
    ends = Counter(end for title in {title for _, title in last.values()} for end in _told_apart(title, shown))
    unused = []
    for page, (result, title) in last.items():
        apart = [end for end in _told_apart(title, shown) if ends[end] == 1]
        names = {folded(page), folded(title), *apart, *_other_names(title, told), _unbracketed(title, shown)} - {""}
        if not any(f" {name} " in whole[starts[result] :] for name in names):
            unused.append(page)
    return unused


def names_told(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the names of each thing of which a text says what else it is called: first what stands before that, which
    ends with a name, then the others.
    """
    for said in _ALSO_KNOWN.finditer(text):
        before = text[max(0, said.start() - _LONGEST_BEFORE) : said.start()]
        yield (before, *filter(None, map(str.strip, said[1].split(" or "))))


def _other_names(title: str, told: Sequence[tuple[str, ...]]) -> set[str]:
    """What else the subject of a page is called, where a line or a sentence begins with its title."""
    return {
        folded(name)
        for before, *others in told
        if title
        and before.casefold().endswith(title.casefold())
        and (not (rest := before[: -len(title)].rstrip(" ")) or rest[-1] in "\n].!?")
        for name in others
    }


def _told_apart(title: str, shown: Collection[str]) -> list[str]:
    """What follows another page's title in this one: `the Younger`."""
    words = folded(title).split()
    places = [at for at, word in enumerate(words) if word == "the" and at < len(words) - 1]
    return [" ".join(words[at:]) for at in places if " ".join(words[:at]) in shown]


def _unbracketed(title: str, shown: Collection[str]) -> str:
    """The title without what stands in brackets at its end, if no other page has that title."""
    bare = folded(_QUALIFIER.sub("", title))
    return bare if bare not in shown else ""


def _named(call: BrowseCall) -> list[tuple[str, str]]:
    return list(zip(call.pages, call.titles, strict=True))


def _words(message: NativeMessage) -> str:
    called = " ".join(call.arguments for call in message.tool_calls)
    return folded(f"{message.content} {message.reasoning} {called}")


def folded(text: str) -> str:
    """Return the words of a text alone, in lower case."""
    return " ".join(re.findall(r"\w+", text.casefold()))
