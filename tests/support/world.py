"""A made-up world that a scripted model knows by heart: chains of relations between invented names.

"What is the editor of the patron of Morvak?" has two hops; every answer is a function of the question, so that a model
server needs no table. Flaws are planted by rate or by rule.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from trailforge.schemas import Document, Hop, Question

RELATIONS = ("editor", "patron", "teacher", "founder", "rival", "cousin", "tailor", "guide", "banker", "neighbour")
_SYLLABLES = "ba do ki lu me na po ri so ta ve zu gra bel mor tan vel kur pim dor".split()
_CHAIN = re.compile(r"^(?:What|Who) is the (?P<chain>.+)\?$")


def name_of(*parts: str) -> str:
    """An invented name, always the same for the same parts."""
    digest = hashlib.sha256("|".join(parts).encode()).digest()
    return "".join(_SYLLABLES[byte % len(_SYLLABLES)] for byte in digest[:4]).capitalize()


def chain_of(question: str) -> list[str]:
    """["editor", "patron", "Morvak"] of "What is the editor of the patron of Morvak?"; [] of any other question."""
    match = _CHAIN.match(question.strip())
    return re.split(r" of (?:the )?", match["chain"]) if match else []


def ask(chain: list[str]) -> str:
    """The question of a chain."""
    return f"What is the {' of the '.join(chain[:-1])} of {chain[-1]}?"


def answer_of(chain: list[str]) -> str:
    """Follow the chain from its inner end."""
    entity = chain[-1]
    for relation in reversed(chain[:-1]):
        entity = name_of(relation, entity)
    return entity


def question(number: int, hops: int) -> Question:
    """Question `number` with its gold decomposition, a paragraph per hop and as many that mislead."""
    rng = random.Random(number)
    relations = rng.sample(RELATIONS, hops)
    start = name_of("start", str(number))
    entity, decomposition, documents = start, [], []
    for position, relation in enumerate(relations, start=1):
        found = name_of(relation, entity)
        asked = entity if position == 1 else f"#{position - 1}"
        decomposition.append(
            Hop(question=f"What is the {relation} of {asked}?", answer=found, support_id=str(2 * position - 2))
        )
        documents.append(f"The {relation} of {entity} is {found}. They met long ago.")
        documents.append(f"The {relation} of {name_of('other', entity)} is {name_of('false', entity)}.")
        entity = found
    return Question(
        id=f"made-{number:05d}",
        question=ask([*reversed(relations), start]),
        answer=entity,
        decomposition=tuple(decomposition),
        paragraphs=tuple(
            Document(id=str(i), title=text.split(" is ")[0], text=text) for i, text in enumerate(documents)
        ),
        dataset="made",
    )


@dataclass(frozen=True)
class Model:
    """Answers every prompt of the production preset. Perfect, unless told otherwise."""

    error_rate: float = 0.0
    """Share of answers, drawn by the request's seed, that are wrong."""
    flaw: Callable[[str, list[str]], str | None] | None = None
    """(question, context lines) -> a wrong answer, or None to answer rightly."""
    splits: bool = True
    """False: never a usable split."""

    def __call__(self, prompt: str, seed: int) -> str:
        """The reply to a prompt."""
        if "Break one question into exactly two" in prompt:
            return self._split(_last(prompt, "Question: "))
        if "Which of the questions below can be divided" in prompt:
            return "\n".join("Yes" if len(chain_of(asked)) > 2 else "No" for asked in listed_questions(prompt))
        if "other search queries that look for the same" in prompt:
            return f"{_last(prompt, 'Query: ').rstrip('?')}, by name"
        return self._answer(_last(prompt, "Question: "), prompt.rsplit("Passages:\n", 1)[1].splitlines(), seed)

    def _split(self, asked: str) -> str:
        chain = chain_of(asked)
        cuts = range(len(chain) - 2, 0, -1) if self.splits else ()
        splits = [
            {"first": ask(chain[cut:]), "second": f"What is the {' of the '.join(chain[:cut])} of [E]?"} for cut in cuts
        ]
        return json.dumps({"decompositions": splits or [{"first": asked, "second": "no entity"}]})

    def _answer(self, asked: str, context: list[str], seed: int) -> str:
        if self.flaw is not None and (wrong := self.flaw(asked, context)) is not None:
            return wrong
        chain = chain_of(asked)
        right = answer_of(chain) if chain else "nobody"
        if not any(right in line for line in context) or random.Random(seed).random() < self.error_rate:
            return misread(context, asked, right, seed)
        return right


def misread(context: list[str], asked: str, right: str, seed: int) -> str:
    """The answer of a passage on somebody else, as a careless reader takes it; an invented one when there is none."""
    entity = chain_of(asked)[-1] if chain_of(asked) else ""
    names = {name for line in context if entity not in line for name in re.findall(r" is (\w+)\.", line)}
    others = sorted(names - {right})
    return others[seed % len(others)] if others else name_of("wrong", asked, str(seed % 3))


def write_questions(path, count: int, *, hops: tuple[int, ...] = (2, 3)) -> None:
    """A file of questions in our own format."""
    from trailforge.schemas import to_dict

    rows = (question(n, hops[n % len(hops)]) for n in range(count))
    path.write_text("".join(json.dumps(to_dict(row)) + "\n" for row in rows))


def listed_questions(prompt: str) -> list[str]:
    """The questions of a prompt that numbers them."""
    return [line.partition(". ")[2].strip() for line in prompt.rpartition("Questions:\n")[2].strip().splitlines()]


def _last(prompt: str, label: str) -> str:
    return prompt.rsplit(label, 1)[1].splitlines()[0].strip()
