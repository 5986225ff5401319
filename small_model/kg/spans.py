"""What a guided episode's model may answer with: names, dates and figures that it was shown."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from trailforge.protocols.base import one_line
from trailforge.rewards import mentions
from trailforge.schemas import KgTriple, Passage
from trailforge.small_model.composing.mentions import mentions_of, names_of
from trailforge.small_model.composing.reading import candidates, choice_of

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
