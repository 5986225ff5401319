"""Write the pages of a world: an entity's facts in sentences, between other text that states no fact of the graph."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trailforge.generators.kg_questions.wording import PERSON, article_of, capital, mention_of
from trailforge.generators.kg_questions.worlds.documents import FactKey
from trailforge.generators.kg_questions.worlds.names import WorldNames
from trailforge.generators.kg_questions.worlds.statements import statements_of
from trailforge.inference import Prompts
from trailforge.schemas import Document, KgFact, KgNode

_PROMPTS = Prompts("trailforge.generators.kg_questions.worlds")
_MONTHS = "January February March April May June July August September October November December".split()
_BY_OTHER_NAME = 0.5
"""How often a page calls what has other names by one of them."""
_SENTENCES = 5
"""Of a paragraph."""


@dataclass(slots=True, kw_only=True)
class PageDraft:
    """What a page is to say, before it is written."""

    id: str
    node: KgNode
    row: int | None
    """Row of the page's entity; None for a look-alike."""
    other_names: tuple[str, ...]
    """Other names that other pages may use for the entity; the page states them."""
    facts: dict[FactKey, tuple[KgFact, KgNode]] = field(default_factory=dict)
    """Facts that the page has to state, each with its other end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPage:
    """A page with the sentences that state its facts."""

    document: Document
    sentences: dict[FactKey, str]


class PageWriter:
    """Writes pages. The same seed gives a page the same text, whatever pages there are besides."""

    def __init__(self, names: WorldNames, other_names: dict[str, tuple[str, ...]], words: int, seed: int) -> None:
        """`other_names`: of every entity with a page, by id; `words`: of a page, at least."""
        self._names, self._other_names, self._words, self._seed = names, other_names, words, seed
        self._filler: Mapping[str, list[str]] = _PROMPTS.phrases("world_filler")

    def write(self, draft: PageDraft) -> WrittenPage:
        """Write the page: its subject first, then its facts in random order."""
        draw = random.Random(f"{self._seed} page {draft.node.id}")
        sentences = {key: self._stated(draft.node, *fact, draw) for key, fact in draft.facts.items()}
        told = list(sentences.values())
        count, filler = sum(len(each.split()) for each in told), list[str]()
        fillers = self._fillers((mention_of(draft.node), *draft.other_names), draw)
        while count < self._words:
            filler.append(next(fillers))
            count += len(filler[-1].split())
        body = [*told, *filler]
        draw.shuffle(body)
        lines = [_intro(draft), *body]
        paragraphs = [" ".join(lines[at : at + _SENTENCES]) for at in range(0, len(lines), _SENTENCES)]
        document = Document(id=draft.id, title=draft.node.label, text="\n\n".join(paragraphs))
        return WrittenPage(document=document, sentences=sentences)

    def _stated(self, about: KgNode, fact: KgFact, other: KgNode, draw: random.Random) -> str:
        names = self._other_names.get(other.id, ())
        if names and draw.random() < _BY_OTHER_NAME:
            other = replace(other, label=draw.choice(names), kind=other.kind if other.kind == PERSON else "")
        text = draw.choice(statements_of(fact, about, other)).text
        return text if text.endswith(".") else f"{text}."

    def _fillers(self, calls: Sequence[str], draw: random.Random) -> Iterator[str]:
        """Sentences without end: each beginning once in a round, each time with another end."""
        ends = {begin: list[str]() for begin in self._filler["begin"]}
        while True:
            for begin in draw.sample(self._filler["begin"], len(ends)):
                ends[begin] = ends[begin] or draw.sample(self._filler["end"], len(self._filler["end"]))
                parts = (self._told(part, calls, draw) for part in (begin, ends[begin].pop()))
                yield f"{capital(', '.join(parts))}."

    def _told(self, part: str, calls: Sequence[str], draw: random.Random) -> str:
        person, town = self._names.invented(PERSON, draw), self._names.invented("town", draw)
        return part.format(e=draw.choice(calls), p=person, t=town, n=draw.randint(3, 99), m=draw.choice(_MONTHS))


def _intro(draft: PageDraft) -> str:
    noun = draft.node.role if draft.node.kind == PERSON else draft.node.kind
    known = f", also known as {' or '.join(draft.other_names)}," if draft.other_names else ""
    what = f"{article_of(noun)} {noun}" if noun else "the subject of this page"
    return f"{capital(mention_of(draft.node))}{known} is {what}."
