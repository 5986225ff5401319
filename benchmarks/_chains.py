"""A made-up world for `search_yield`: chains of relations, an engine that minds the wording, a reader that errs.

"What is the patron of the rival of Mobatu?" has two hops. What is true follows from names alone; what the engine finds
follows from the query's wording; what the model says follows from a call's seed. So a question is always the same, and
two draws of one call are not.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from trailforge.inference import Meter, Reply, Request
from trailforge.retrieval import Retrieval, Retriever
from trailforge.schemas import Document, Hop, Passage, Question

RELATIONS = "patron rival founder mascot sponsor architect harbour anthem tutor emblem banker festival".split()
_SYLLABLES = "ba do ki lu me na po ri so ta ve zu gra bel mor tan".split()
_SUBJECT = re.compile(r"#\d+|\[E\]|\b(?:[A-Z][a-z]{6,})\b")
_TRUTH = re.compile(r"The (\w+) of (\w+) is (\w+)")

WRONG_SPLITS = 0.25
"""Share of proposed splits that ask for another relation: the plan's answer is wrong in every rollout."""
FOUND = 0.8
"""Share of wordings of a sub-question for which the engine finds the passage that answers it."""
GUESSED = 0.15
"""Share of answers that are right though the passage is missing; the others are made up or misread, half and half."""
_UNSPLIT_GUESSED = 0.05
"""… and of those to a question that needs two passages."""


def name_of(*parts: str) -> str:
    """An invented name of four syllables, always the same for the same parts."""
    digest = hashlib.sha256("|".join(parts).encode()).digest()
    return "".join(_SYLLABLES[byte % len(_SYLLABLES)] for byte in digest[:4]).capitalize()


@dataclass(frozen=True, slots=True)
class Asked:
    """What a sub-question asks: relations from the outermost inwards, and the name, `#k` or `[E]` they begin at."""

    relations: tuple[str, ...]
    subject: str

    @property
    def answer(self) -> str:
        entity = self.subject
        for relation in reversed(self.relations):
            entity = name_of(relation, entity)
        return entity

    def text(self, subject: str | None = None) -> str:
        return f"What is the {' of the '.join(self.relations)} of {subject or self.subject}?"


def read_question(text: str) -> Asked:
    """What any wording of this world asks."""
    words = tuple(word for word in re.findall(r"[a-z]+", text) if word in RELATIONS)
    subjects = _SUBJECT.findall(text)
    return Asked(words, subjects[-1] if subjects else "")


def make_question(number: int, seed: int) -> Question:
    """Question `number` of two to four hops, with its gold decomposition."""
    rng = random.Random(f"{seed}:{number}")
    hops = 2 + number % 3
    chain = rng.sample(RELATIONS, hops)
    entity = start = name_of("start", str(seed), str(number))
    decomposition = []
    for position, relation in enumerate(chain):
        entity = name_of(relation, entity)
        subject = f"#{position}" if position else start
        decomposition.append(Hop(question=f"What is the {relation} of {subject}?", answer=entity))
    return Question(
        id=f"chain-{seed}-{number}",
        question=Asked(tuple(reversed(chain)), start).text(),
        answer=entity,
        decomposition=tuple(decomposition),
        paragraphs=(Document(id="0", title=start, text="Made up."),),
        dataset="chains",
    )


class Engine(Retriever):
    """Finds the passage that answers a sub-question, or one that does not: by the wording of the query."""

    def __init__(self, question: Question) -> None:
        self._question = question

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        asked = read_question(query)
        innermost = asked.relations[-1] if asked.relations else "emblem"
        rng = random.Random(f"{self._question.id}|{query}")
        other = name_of("other", asked.subject, innermost, str(rng.randrange(3)))
        if rng.random() < FOUND:
            found = Asked((innermost,), asked.subject).answer
            text = f"The {innermost} of {asked.subject} is {found}. It was {other} once."
            return [Passage(id=f"{asked.subject}/{innermost}", title=asked.subject, text=text, score=1.0)]
        text = f"{asked.subject} and {other} have met more than once. Little else is known of the two."
        return [Passage(id=f"{asked.subject}/{other}", title=asked.subject, text=text, score=0.5)]


class Engines(Retrieval):
    """Retrieval over the world."""

    def __init__(self) -> None:
        super().__init__(None, None)

    async def for_question(self, question: Question) -> Retriever:
        return Engine(question)


class ChainModel:
    """A model client that reads rightly with the chance `p`, where the passage is there. Counts each call once."""

    def __init__(self, p: float) -> None:
        self._p = p
        self._replies: dict[str, Reply] = {}

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """As `ModelClient.complete`."""
        reply = self._replies.get(request.key)
        if reply is None:
            prompt = request.prompt if isinstance(request.prompt, str) else request.prompt[-1].content
            text = self._text(request.purpose, prompt, random.Random(request.sampling_seed))
            reply = self._replies[request.key] = Reply(
                text=text, finish_reason="stop", prompt_tokens=0, completion_tokens=0, key=request.key
            )
        if meter is not None:
            meter.add(reply)
        return reply

    def _text(self, purpose: str, prompt: str, rng: random.Random) -> str:
        if purpose == "rephrase":
            return _reword(_last(prompt, "Query: "), prompt, rng)
        if purpose == "judge":
            listed = (line.partition(". ")[2] for line in prompt.rpartition("Questions:\n")[2].splitlines())
            return "\n".join("Yes" if len(read_question(each).relations) > 1 else "No" for each in listed)
        asked = read_question(_last(prompt, "Question: "))
        if purpose == "split":
            return json.dumps({"decompositions": _splits(asked, rng)[: _wanted(prompt, "Give")]})
        return self._answer(asked, prompt.rpartition("Passages:\n")[2], rng)

    def _answer(self, asked: Asked, context: str, rng: random.Random) -> str:
        truths = {(relation, subject) for relation, subject, _ in _TRUTH.findall(context)}
        is_there = len(asked.relations) == 1 and (asked.relations[0], asked.subject) in truths
        guessed = GUESSED if len(asked.relations) == 1 else _UNSPLIT_GUESSED
        if rng.random() < (self._p if is_there else guessed):
            return asked.answer
        named = sorted(set(_SUBJECT.findall(context)) - {asked.subject, asked.answer, "Little"})
        if named and (is_there or rng.random() < 0.5):
            return rng.choice(named)
        return name_of("memory", asked.subject, str(rng.randrange(5)))


def _splits(asked: Asked, rng: random.Random) -> list[dict[str, str]]:
    """As many ways to split as the question has relations: every cut, and one cut in other words."""
    cuts = list(range(1, len(asked.relations)))
    rng.shuffle(cuts)
    splits = []
    for way, cut in enumerate([*cuts, cuts[0]] if cuts else []):
        outer, inner = list(asked.relations[:cut]), list(asked.relations[cut:])
        if rng.random() < WRONG_SPLITS:
            changed = rng.choice((outer, inner))
            changed[0] = rng.choice([other for other in RELATIONS if other not in asked.relations])
        second = Asked(tuple(outer), "[E]").text()
        if way == len(cuts):
            second = f"Which {' of the '.join(outer)} does [E] have?"
        splits.append({"first": Asked(tuple(inner), asked.subject).text(), "second": second})
    return splits


def _wanted(prompt: str, verb: str) -> int:
    count = re.search(rf"{verb} (\d+|one)\b", prompt)
    assert count is not None, "the prompt says how many"
    return 1 if count[1] == "one" else int(count[1])


def _reword(query: str, prompt: str, rng: random.Random) -> str:
    """As many other wordings as the prompt asks for, of those that it does not show, while there are any."""
    asked = read_question(query)
    thing = " of the ".join(asked.relations)
    ways = (
        f"{asked.subject} {thing} name",
        f"Which {thing} belongs to {asked.subject}?",
        f"known as the {thing} of {asked.subject}",
        f"Tell which {thing} {asked.subject} has",
        f"{thing} that {asked.subject} is known for",
        f"name of the {thing} that goes with {asked.subject}",
    )
    fresh: Sequence[str] = [way for way in ways if way not in prompt]
    return "\n".join(rng.sample(fresh or ways, min(_wanted(prompt, "Write"), len(fresh or ways))))


def _last(prompt: str, label: str) -> str:
    return prompt.rpartition(label)[2].split("\n", 1)[0].strip()
