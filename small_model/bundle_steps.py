"""Write questions over a bundle with a small model: rules rewrite quoted sentences, and the model takes small steps.

Asked to write a question for a quoted sentence and its answer, a model of 135 million parameters gave 2 usable ones in
144 draws for 18 sentences. What it can do is choose a word and read. So rules find a name that two documents share,
turn what one says of it into a description, what the other says into one-fact questions, and put them together
(`composing`). The model says what a name is when no text does, and reads the plan step by step, a few sentences at a
time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from trailforge.generators.document_bundles import BundleContext, draft_row
from trailforge.inference import Asker, Meter, Prompts, Sampling, fill
from trailforge.rewards import read_short_answer
from trailforge.schemas import BundleInput, BundleQuestion, Passage, SourceDocument, Verdict
from trailforge.small_model.composing.composing import candidates, choice_of
from trailforge.small_model.composing.joining import Joined, bridges_of, joined_by, nouns_of, sentences_naming
from trailforge.small_model.composing.mentions import KINDS, is_person_noun, names_of

PROMPTS = Prompts("trailforge.small_model")
_KIND_GRAMMAR = "root ::= " + " | ".join(f'"{"n" if kind[0] in "aeiou" else ""} {kind}"' for kind in KINDS)
_ALL = 10_000
"""Sentences: more than a bundle has."""
_WH = {True: "Who is", False: "What is the name of"}


@dataclass(slots=True)
class StepWork:
    """A writer that turns one bundle into questions by rules and a small model. `meter` counts its calls."""

    item: BundleInput
    context: BundleContext
    meter: Meter = field(default_factory=Meter)
    joins: str = ""
    """Why no question can join documents of the bundle; empty where one can."""

    async def write(self) -> list[BundleQuestion]:
        """Write at most as many drafts as are asked for, taken from each shared name in turn. Raises
        `ProviderError`.
        """
        documents = self.item.documents
        nouns, unknown = nouns_of(documents)
        for name in unknown:
            if kind := await self._kind(name):
                nouns[name] = kind
        bridges = bridges_of(documents, nouns)
        self.joins = "" if bridges else "no name that rules can lead over stands in two of them"
        found = [list(joined_by(bridge, documents, nouns)) for bridge in bridges]
        joined = [each for turn in zip_longest(*found) for each in turn if each is not None]
        wanted = self.context.config.questions_per_bundle
        return [draft_row(draft_of(each), n, self.item, self.context) for n, each in enumerate(joined[:wanted])]

    async def mend(self, row: BundleQuestion, against: Verdict, number: int) -> BundleQuestion | None:
        """Return None: the rules have already written all drafts that they can."""
        return None

    async def answer(self, row: BundleQuestion, documents: Sequence[SourceDocument], sample: int) -> str | None:
        """Answer in two steps: first what is described, then the question with that name in place of the
        description; from memory without documents. `sample` numbers the draw. None: the model found nothing.
        """
        if not documents:
            return await self._from_memory(row.asked().text, sample)
        passages = [Passage(id=d.id, title=d.title, text=d.text, score=0.0) for d in documents]
        names, first = names_of(documents), row.dag_nodes[0].query
        found = await self._read(first, passages, names, sample)
        if found is None:
            return None
        return await self._read(row.question.replace(_described(first), found), passages, names, sample)

    # Steps of the writer

    async def _kind(self, name: str) -> str | None:
        """What a name is, when the model says the same of it in every sentence that it is shown."""
        steps, prompt = self.context.config.steps, PROMPTS.text("embedded_kind")
        sampling = Sampling(max_tokens=steps.kind_max_tokens, stop=steps.stop)
        kinds = set()
        for sentence in sentences_naming(name, self.item.documents)[: steps.kind_votes]:
            asked = fill(prompt, text=sentence, name=name)
            reply = await self._asker.text(asked, purpose="kind", sampling=sampling, grammar=_KIND_GRAMMAR)
            kinds.add((reply.answer or "").strip().removeprefix("n "))
        return kinds.pop() if len(kinds) == 1 and kinds <= {*KINDS} - {"thing"} else None

    # Reading

    async def _read(self, query: str, passages: Sequence[Passage], names: set[str], sample: int) -> str | None:
        """A short answer out of the nearest sentences that offer any; without such, what the model says of the nearest.

        Only then it may be anything: else it is a date, a figure or a name that stands there.
        """
        config = self.context.config
        ranked = await self.context.sentences.best(query, passages, _ALL)
        offers = [(passage, sentence, candidates(query, sentence, names)) for passage, sentence in ranked]
        read = ([offer for offer in offers if offer[2]] or offers)[: config.steps.num_sentences]
        context = "\n".join(f"({passage.title}) {sentence}" for passage, sentence, _ in read)
        prompt = fill(PROMPTS.text("embedded_answer"), context=context, question=query)
        spans = [span for _, _, found in read for span in found]
        grammar = choice_of(spans) if spans else None
        return await self._short(prompt, config.read_temperature, "read", sample, grammar)

    async def _from_memory(self, question: str, sample: int) -> str | None:
        prompt = fill(PROMPTS.text("embedded_closed_book"), question=question)
        return await self._short(prompt, self.context.config.closed_book_temperature, "closed_book", sample)

    async def _short(
        self, prompt: str, temperature: float, purpose: str, sample: int, grammar: str | None = None
    ) -> str | None:
        config = self.context.config
        sampling = Sampling(
            temperature=temperature, top_p=config.top_p, max_tokens=config.read_max_tokens, stop=config.steps.stop
        )
        reply = await self._asker.text(prompt, purpose=purpose, sampling=sampling, sample=sample, grammar=grammar)
        return None if reply.answer is None else read_short_answer(reply.answer, config.steps.max_answer_words)

    @property
    def _asker(self) -> Asker:
        return self.context.asker(self.meter, "completion")


def _described(query: str) -> str:
    """What the first query asks the name of."""
    for asking in _WH.values():
        query = query.removeprefix(f"{asking} ")
    return query.removesuffix("?")


def _unnamed(joined: Joined) -> str:
    """What the second query calls what the first one finds, as both are written before any search is run.

    Its kind: with the whole description the query would be the question again and bring the first document once more
    (together with the second, for 7 of 22 questions over the sample documents among 30,000 others; 2 of 22 by kind).
    Only a person keeps the description: `a person` is in every document (0 of 5 found; described, 3 of 5).
    """
    noun = joined.bridge.noun
    article = "an" if re.match(r"(?!uni|eu)[aeiou]", noun) else "a"
    return joined.description if is_person_noun(noun) else f"{article} {noun}"


def draft_of(joined: Joined) -> dict[str, Any]:
    """Return a draft in the form that `generators.document_bundles.drafts.row_of` takes."""
    bridge = joined.bridge
    hops = [
        {
            "document": bridge.first + 1,
            "evidence": joined.described_in,
            "query": f"{_WH[is_person_noun(bridge.noun)]} {joined.description}?",
            "reasoning": f"says which {bridge.noun} is meant: {bridge.name}",
            "needs": [],
        },
        {
            "document": bridge.second + 1,
            "evidence": joined.asked_of,
            "query": joined.asked.about(_unnamed(joined)),
            "reasoning": f"says of {bridge.name} what is asked",
            "needs": [1],
        },
    ]
    return {
        "type": "factual",
        "question": joined.question,
        "answer": joined.asked.answer,
        "options": [],
        "correct": [],
        "hops": hops,
    }
