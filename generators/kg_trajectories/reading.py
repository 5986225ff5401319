"""Short answers that the model reads from what a search found, in its own words or from spans that stand there."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from trailforge.generators.kg_trajectories.config import PROMPTS, KgContext
from trailforge.inference import Sampling
from trailforge.inference.asker import Asker, fill
from trailforge.protocols.base import one_line
from trailforge.rewards.answers import read_short_answer
from trailforge.schemas import KgTriple, Passage


class Offer(Protocol):
    """Makes a grammar of what was read, for a model that would make names up: it may answer with nothing else."""

    def __call__(
        self,
        query: str,
        triples: Sequence[KgTriple],
        sentences: Sequence[tuple[Passage, str]],
        passages: Sequence[Passage],
        searched: Collection[str],
    ) -> str:
        """`sentences`: those of the passages that are read. `searched`: ids of the entities that are asked about."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Who reads for one episode. `sample` 0 is the plain reading; without `offer` the model uses its own words."""

    context: KgContext
    asker: Asker
    temperature: float = 0.0
    sample: int = 0
    offer: Offer | None = None

    async def answer(
        self,
        query: str,
        passages: Sequence[Passage],
        triples: Sequence[KgTriple],
        searched: Collection[str] = (),
    ) -> str:
        """A short answer, free of braces and tags; empty when the model says nothing, or not to its end.

        `searched`: ids of the entities that are asked about.
        """
        config = self.context.config.reading
        triples, sentences = triples[: config.num_triples], await self._sentences(query, passages)
        lines = [
            *(f"({t.head_label}) The {t.relation_label} of {t.head_label} is {t.tail_label}." for t in triples[::-1]),
            *(f"({p.title}) {sentence}" for p, sentence in sentences[::-1]),  # a small model heeds what stands last
        ]
        grammar = self.offer(query, triples, sentences, passages, searched) if self.offer else None
        reply = await self.asker.text(
            fill(PROMPTS.text(self.context.config.prompts.answer), question=query, context="\n".join(lines)),
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
        return clean_answer(read_short_answer(reply.answer or "", config.max_answer_words))

    async def _sentences(self, query: str, passages: Sequence[Passage]) -> list[tuple[Passage, str]]:
        config = self.context.config.reading
        if config.reader == "passages":
            return [(passage, passage.text) for passage in passages]
        return await self.context.retrieval.best_sentences(query, passages, config.num_sentences)


def clean_answer(answer: str) -> str:
    """An answer that can stand in a box: no tags, no braces, one line."""
    return " ".join(re.sub(r"[{}\\]", " ", one_line(answer)).split())
