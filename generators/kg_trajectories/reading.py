"""Short answers read from what a search found: by the model, in the words it chooses or from spans that stand there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trailforge.generators.kg_trajectories.config import KgContext
from trailforge.generators.prompts import load_prompt
from trailforge.inference import Sampling
from trailforge.inference.asker import Asker, fill
from trailforge.mcts.rollout import short_answer
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Who reads for one episode. `sample` 0 is the plain reading."""

    context: KgContext
    asker: Asker
    temperature: float = 0.0
    sample: int = 0

    async def answer(
        self,
        query: str,
        passages: Sequence[Passage],
        triples: Sequence[KgTriple],
        *,
        from_spans: bool,
        searched: Collection[str] = (),
    ) -> str:
        """A short answer, free of braces and tags; empty when the model says nothing, or not to its end.

        `from_spans`: it may only be a name, date or figure that the sentences read or the triples offer, if there is
        any. For a small model, which makes names up. `searched`: ids of entities that are asked about, which triples do
        not offer.
        """
        config = self.context.config.reading
        triples, sentences = triples[: config.num_triples], await self._sentences(query, passages)
        lines = [
            *(f"({t.head_label}) The {t.relation_label} of {t.head_label} is {t.tail_label}." for t in triples[::-1]),
            *(f"({p.title}) {sentence}" for p, sentence in sentences[::-1]),  # a small model heeds what stands last
        ]
        grammar = None
        if from_spans:
            spans = [*_ends(query, triples, searched), *_stretches(query, sentences, passages)]
            grammar = choice_of(spans) if spans else _SOMETHING
        reply = await self.asker.text(
            fill(load_prompt(self.context.config.prompts.answer), question=query, context="\n".join(lines)),
            purpose="read",
            sampling=Sampling(
                temperature=self.temperature,
                top_p=self.context.config.guided.top_p,
                max_tokens=config.max_tokens,
                stop=config.stop,
            ),
            sample=self.sample,
            grammar=grammar,
        )
        return plain(short_answer(reply.answer or "", config.max_answer_words))

    async def _sentences(self, query: str, passages: Sequence[Passage]) -> list[tuple[Passage, str]]:
        config = self.context.config.reading
        if config.reader == "passages":
            return [(passage, passage.text) for passage in passages]
        return await self.context.retrieval.best_sentences(query, passages, config.num_sentences)


def plain(answer: str) -> str:
    """An answer that can stand in a box: no tags, no braces, one line."""
    return " ".join(re.sub(r"[{}\\]", " ", one_line(answer)).split())


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
