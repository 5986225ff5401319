"""What the model of a guided episode chooses from: names and relations to search by, and spans to answer with."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from trailforge.generators.document_bundles.search_thoughts import names_in
from trailforge.protocols.base import one_line
from trailforge.protocols.environment import SURE
from trailforge.retrieval import Retrieval
from trailforge.retrieval.kg import KgStore, match_entity, match_relation
from trailforge.retrieval.kg.folding import content_words, name_words
from trailforge.rewards import mentions
from trailforge.schemas import KgTriple, Passage
from trailforge.small_model.composing.mentions import mentions_of, names_of
from trailforge.small_model.composing.reading import candidates, choice_of

_MOST_WORDS = 3
"""Of a query that together may name a relation, or a thing that is written small."""
_MOST_AFTER = 8
"""Words after a name that may belong to it."""
_FEWEST_LETTERS = 3
"""Of a word that may be a thing: graphs know `be` as Belgium."""


def name_choices(store: KgStore, query: str, known: Sequence[str]) -> list[str]:
    """Names that a query is about: earlier answers in it, then names by their looks, else things written small."""
    looks = [*names_in(query)] or [mention.text for mention in mentions_of(query) if mention.kind == "name"]
    every = dict.fromkeys([*known, *(look.strip(" <>") for look in looks)])
    names = [name for name in every if name in known or not name.isdigit()]
    if names:
        whole = dict.fromkeys(_with_tail(store, query, name) for name in names)
        return [name for name in whole if not any(name != other and name in other for other in whole)]
    things = (run for run in _runs(query) if any(m.score >= SURE for m in match_entity(store, run, query, 1)))
    return [thing for thing in (next(things, None),) if thing]


async def relation_choices(
    store: KgStore, retrieval: Retrieval, query: str, entities: Sequence[str], most: int
) -> list[str]:
    """Labels of the relations nearest to a query, nearest first.

    Looked at are those that its entities have, and others that its words name; where they have none, those whose names
    its words are like. They are ranked as sentences are, by all their names, with the query's own names left out of it.
    """
    rest = query
    for entity in entities:
        rest = rest.replace(entity, "")
    around = _relations_around(store, query, entities)
    alike = [match for run in _runs(rest) for match in match_relation(store, run, 2)]
    ids = dict.fromkeys([*(match.relation_id for match in alike if match.score >= SURE or not around), *around])
    rows = {relation: store.relation_names[store.relation_row(relation)] for relation in ids}
    read = [Passage(id=key, title="", text=", ".join(names), score=0.0) for key, names in rows.items()]
    nearest = dict.fromkeys(passage.id for passage, _ in await retrieval.best_sentences(rest, read, len(read)))
    return list(dict.fromkeys(store.relation_label(relation) for relation in nearest))[:most]


def _with_tail(store: KgStore, query: str, name: str) -> str:
    """A name with what stands after it, where the graph knows both together: `La traviata`, `Ana, mon amour`."""
    _, _, rest = query.partition(name)
    words = rest.rstrip(" ?").split(" ")[: _MOST_AFTER + 1] if rest[:1] in (" ", ",", ";", ":") else []
    longer = (name + " ".join(words[: n + 1]) for n in range(len(words) - 1, 0, -1))
    return next((text for text in longer if any(m.score >= SURE for m in match_entity(store, text, query, 1))), name)


def some_of(choices: Sequence[str], most: int) -> str:
    """A grammar (GBNF) for one to `most` of these with `; ` between them, and the line's end."""
    item = " | ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
    more = ' ("; " item)?' * (most - 1)
    return f'root ::= " " item{more} "\\n"\nitem ::= {item}'


def _runs(query: str) -> Iterable[str]:
    """Runs of neighbouring words that say something, the longest first."""
    wanted = content_words(query)
    words = [word for word in name_words(query) if word in wanted and len(word) >= _FEWEST_LETTERS]
    return (" ".join(words[i : i + n]) for n in range(_MOST_WORDS, 0, -1) for i in range(len(words) - n + 1))


def _relations_around(store: KgStore, query: str, entities: Iterable[str]) -> list[str]:
    """The relations of what the tool will look up for these names."""
    best = [match.entity_id for entity in entities for match in match_entity(store, entity, query, 1)]
    return [r for entity in best for side in ("out", "into") for r, _ in store.relations_of(entity, side)]


_YEAR = re.compile(r"\d{3,4}")
_ASKS_YEAR = re.compile(r"(?:(?:In|Since|Until) (?:which|what) year|When|Since when|Until when) ", re.IGNORECASE)
_COUNTS = re.compile(r"How many ", re.IGNORECASE)
_GLUE = re.compile(r" (?:of|of the|es|in the|for the|on the) ")
_SOMETHING = 'root ::= " " [^ \\t\\n.,;:!?{}"] [^\\n]* "\\n"'
"""A line that says something."""


def offer_spans(
    query: str,
    triples: Sequence[KgTriple],
    sentences: Sequence[tuple[Passage, str]],
    passages: Sequence[Passage],
    searched: Collection[str],
) -> str:
    """A grammar (GBNF) for the spans that sentences and triples offer; for any line, where they offer none."""
    spans = [*_ends(query, triples, searched), *_stretches(query, sentences, passages)]
    return choice_of(spans) if spans else _SOMETHING


def _ends(query: str, triples: Iterable[KgTriple], searched: Collection[str]) -> list[str]:
    """The ends of triples that can answer: years to a question for one, other names to others, not what it is about."""
    if _COUNTS.match(query):
        return []
    wants_year = bool(_ASKS_YEAR.match(query))
    both = ((key, end) for t in triples for key, end in ((t.tail, t.tail_label), (t.head, t.head_label)))
    ends = dict.fromkeys(end for key, end in both if key not in searched)
    return [end for end in ends if bool(_YEAR.fullmatch(end)) == wants_year and not mentions(query, end)]


def _stretches(query: str, sentences: Sequence[tuple[Passage, str]], passages: Sequence[Passage]) -> list[str]:
    """Names, dates and figures that stand in the sentences; documents' titles count as names."""
    names = names_of(passages)
    spans = [span for _, sentence in sentences for span in candidates(query, sentence, names)]
    if _COUNTS.match(query) or _ASKS_YEAR.match(query):
        return spans
    titles = dict.fromkeys(re.sub(r" \(.*\)$", "", one_line(passage.title)) for passage in passages)
    named = [t for t in titles if t and not mentions(query, t) and any(mentions(s, t) for _, s in sentences)]
    joined = [span for _, sentence in sentences for span in _joined(sentence) if not mentions(query, span)]
    return [*named, *joined, *spans]


def _joined(sentence: str) -> list[str]:
    """Two names with a small word between them, which may be one: `Heart of Darkness`, `Dar es Salaam`."""
    found = [mention for mention in mentions_of(sentence) if mention.kind == "name"]
    pairs = [(one, other) for one, other in pairwise(found) if _GLUE.fullmatch(sentence[one.end : other.start])]
    return [sentence[one.start : other.end] for one, other in pairs]
