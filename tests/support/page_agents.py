"""Scripted agents over the pages of a world: plain functions from what was seen so far to the next action.

`perfect` reads every page that a question needs and answers it; `honest` does, too, but has to tell each page from
those that are half like it by looking into them, as one does who has no key; `never_opens` answers from passages alone;
`believes_look_alikes` takes the first page that is like a needed one for it; `repeats_calls` makes each call twice.
An agent knows the world's `hops.jsonl`, as a person with the key would: what it does is tested, not how it reads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from trailforge.protocols.browse.actions import AnswerAction, Call, FindAction, OpenAction, SearchAction
from trailforge.retrieval.page_tools import PageHit, PagePart, PageTools

Action = Call | AnswerAction
Result = tuple[PageHit, ...] | PagePart
Seen = Sequence[tuple[Action, Result]]
"""The calls made so far, each with what came of it."""
PageAgent = Callable[[Seen], Action]
Hops = Sequence[dict[str, Any]]
"""Lines of `hops.jsonl` of one question, in order."""


def hops_of(world: Path) -> dict[str, list[dict[str, Any]]]:
    """Of each question of a world, by its id."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (world / "hops.jsonl").read_text(encoding="utf-8").splitlines():
        hop = json.loads(line)
        found.setdefault(hop["question_id"], []).append(hop)
    return found


def perfect(hops: Hops) -> PageAgent:
    """Searches each hop, opens the parts of the page that say it, looks for its answer there, and answers the last."""
    return _following([call for hop in hops for call in _reading(hop)], hops[-1]["answer"])


def honest(hops: Hops) -> PageAgent:
    """Finds each page among others as one does who does not know which it is, reads its parts, and answers the last."""

    def act(seen: Seen) -> Action:
        script = _honestly(hops)
        action = next(script)
        for _, result in seen:
            action = script.send(result)
        return action

    return act


def _honestly(hops: Hops) -> Generator[Action, Result, None]:
    """Where two facts meet it searches for each, takes pages that both searches show before others, in the order in
    which they are shown, and looks into each for what its search did not show, until one has both. A look-alike that
    comes before the page is looked into as well.
    """
    for hop in hops:
        shown = list[list[str]]()
        for query in hop["queries"] if len(hop["queries"]) > 1 else [hop["query"]]:
            shown.append(_pages_in((yield SearchAction(query=query))))
        if not any(hop["page"] in pages for pages in shown):
            shown.append(_pages_in((yield SearchAction(query=hop["query"]))))
        in_turn = [page for row in zip_longest(*shown) for page in row if page]
        in_both = [page for page in in_turn if all(page in pages for pages in shown)]
        for page in dict.fromkeys([*in_both, *in_turn]):
            if page == hop["page"]:
                break
            if page in (*hop["half_fits"], hop["look_alike"]):
                yield FindAction(page=page, text=hop["queries"][-1])
        for part in hop["parts"]:
            yield OpenAction(page=hop["page"], part=part)
    yield AnswerAction(text=hops[-1]["answer"])


def _pages_in(result: Result) -> list[str]:
    """Each page that a search shows, once."""
    return list(dict.fromkeys(hit.page for hit in result)) if isinstance(result, tuple) else []


def never_opens(hops: Hops) -> PageAgent:
    """Searches each hop, and answers by the title of the last search's first passage."""

    def act(seen: Seen) -> Action:
        if len(seen) < len(hops):
            return SearchAction(query=hops[len(seen)]["query"])
        hits = seen[-1][1]
        return AnswerAction(text=hits[0].title if isinstance(hits, tuple) and hits else "unknown")

    return act


def believes_look_alikes(hops: Hops) -> PageAgent:
    """As `perfect` up to the first hop with a look-alike that leads to an answer: it opens that, and answers so."""
    place = next((number for number, hop in enumerate(hops) if hop["false_answer"]), None)
    if place is None:
        return perfect(hops)
    calls = [call for hop in hops[:place] for call in _reading(hop)]
    misled = hops[place]
    calls += [SearchAction(query=misled["query"]), OpenAction(page=misled["look_alike"], part=1)]
    return _following(calls, misled["false_answer"])


def repeats_calls(hops: Hops) -> PageAgent:
    """As `perfect`, with every call made twice in a row."""
    return _following([call for hop in hops for call in _reading(hop) for _ in range(2)], hops[-1]["answer"])


def _reading(hop: dict[str, Any]) -> list[Action]:
    opened: list[Action] = [OpenAction(page=hop["page"], part=part) for part in hop["parts"]]
    return [SearchAction(query=hop["query"]), *opened, FindAction(page=hop["page"], text=hop["sentences"][-1])]


def _following(calls: Sequence[Action], answer: str) -> PageAgent:
    def act(seen: Seen) -> Action:
        return calls[len(seen)] if len(seen) < len(calls) else AnswerAction(text=answer)

    return act


@dataclass
class Walked:
    """What an agent did over pages, to its answer."""

    answer: str
    seen: list[tuple[Action, Result]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All that it was shown."""
        shown = []
        for _, result in self.seen:
            shown += [each.text for each in (result if isinstance(result, tuple) else (result,))]
        return "\n".join(shown)


async def walk(agent: PageAgent, tools: PageTools, top_k: int = 10) -> Walked:
    """An agent's calls carried out until it answers."""
    seen: list[tuple[Action, Result]] = []
    while True:
        match action := agent(seen):
            case AnswerAction():
                return Walked(action.text, seen)
            case SearchAction():
                seen.append((action, await tools.search(action.query, top_k)))
            case OpenAction():
                seen.append((action, await tools.open(action.page, action.part)))
            case FindAction():
                seen.append((action, (await tools.find(action.page, action.text)).hits))
            case _:
                raise AssertionError(f"no agent here makes a call such as {action}")
