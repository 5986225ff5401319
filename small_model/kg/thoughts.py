"""The thoughts of a guided episode, told from what the agent has read so far and what it asks next.

The sentences are drawn from `prompts/kg_thoughts.yaml` by a seeded generator. A thought before a search knows the
answers of earlier searches alone; an answer is said with the source that shows it, or as a guess where none does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from trailforge.inference.prompts import Prompts, Sentences
from trailforge.protocols.base import one_line
from trailforge.protocols.turns import Search
from trailforge.rewards import mentions, normalize_answer
from trailforge.schemas import KgStep


class Thoughts:
    """The thoughts of one episode, in order; the same for the same seed. No sentence comes twice while others wait."""

    def __init__(self, seed: str) -> None:
        self._say = Sentences(Prompts("trailforge.small_model").pools("kg_thoughts"), seed=seed).say

    def first(self, search: Search) -> str:
        """Before the first search."""
        return " ".join([self._say("open"), *self._asking(search)])

    def following(self, done: KgStep, search: Search) -> str:
        """Between a search, whose answer stands in `done`, and the next."""
        return " ".join([self._finding(done), self._say("next"), *self._asking(search)])

    def last(self, done: KgStep) -> str:
        """After the last search."""
        return f"{self._finding(done)} {self._say('final')}"

    def _asking(self, search: Search) -> list[str]:
        names = listed([one_line(name) for name in search.entities])
        relations = listed([f"“{one_line(phrase)}”" for phrase in search.relations])
        said = [self._say("ask", query=one_line(search.query))]
        if names:
            role = "graph" if relations else "graph_names"
            said.append(self._say(role, names=names, relations=relations))
        return said

    def _finding(self, step: KgStep) -> str:
        answer = step.answer or ""
        document = next((d for d in step.documents if mentions(f"{d.title}. {d.text}", answer)), None)
        in_graph = any(mentions(triple.text, answer) for triple in step.triples_kept)
        role = "found_both" if document and in_graph else "found_document" if document else "found_nowhere"
        if in_graph and not document:
            role = "found_graph"
        title = one_line(document.title) if document else ""
        if document and normalize_answer(re.sub(r" \(.*\)$", "", title)) == normalize_answer(answer):
            role += "_of_that_name"
        return self._say(role, answer=one_line(answer).rstrip("."), title=title)


def listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`; empty for none."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
