"""A scripted model for both pipelines over a knowledge graph, and the graph of `tests.support.world` that it searches.

Everything it says follows from the prompt and the seed, so that a model server needs no table. Which flaw it plants in
a turn is drawn by the seed; which items it cannot do at all (`cannot`), by their words.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

from tests.retrieval.kg.support import store_of
from tests.support import world
from tests.support.kg_worlds import random_store, random_triples
from trailforge.protocols import KG_SEARCH
from trailforge.protocols.kg_search import USER_SUFFIX
from trailforge.protocols.turns import Search, Turn
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import Question

KNOWN_BY_HEART = "Alba Vale"
"""What it says to one in four questions without a text; else each time another name."""
NO_PATH_MORE = 48
"""Paths that `paths_store` has for the configuration `tests.support.kg_worlds.LAX` and seed 0."""


def searched_store(folder: Path, questions: Sequence[Question], *, stale_every: int = 0) -> KgStore:
    """The facts that the paragraphs of the world's questions tell, the misleading ones too.

    `stale_every`: of every so many-th question the last fact has another value than the paragraphs.
    """
    told = [re.fullmatch(r"The (\w+) of (\w+) is (\w+)\.", d.text[: d.text.index(".") + 1])
            for question in questions for d in question.paragraphs]  # fmt: skip
    facts = [(match[2], match[1], match[3]) for match in told if match]
    changed = {question.answer for question in questions[::stale_every]} if stale_every else set[str]()
    facts = [
        (head, relation, world.name_of("stale", tail) if tail in changed else tail) for head, relation, tail in facts
    ]
    entities = {f"e:{name}": (name,) for head, _, tail in facts for name in (head, tail)}
    return store_of(folder, [(f"e:{head}", relation, f"e:{tail}") for head, relation, tail in facts], entities)


def paths_store(folder: Path) -> KgStore:
    """A graph of twelve entities, for questions made of it."""
    return random_store(folder, random_triples(5))


def cannot(text: str, one_in: int = 12) -> bool:
    """Is it one of the items that the model has no usable reply to?"""
    return hashlib.sha256(text.encode()).digest()[0] % one_in == 0


class Model:
    """Plays agent, KG filter, reader, writer of questions, and who is asked without a text."""

    def __call__(self, prompt: str, seed: int) -> str:
        """The reply to a prompt."""
        if "Choose the triples that help" in prompt:
            return self._keep(prompt)
        if "Write one question whose answer is ANSWER" in prompt:
            return self._write(prompt)
        if "\nEpisode:\n" in prompt:
            return '{"open": []}'
        if "Answer the question from what you know" in prompt:
            return KNOWN_BY_HEART if seed % 4 == 0 else f"Somebody {seed % 1000}"
        if "Check a question that was made from facts" in prompt:
            return self._check(prompt)
        if prompt.endswith(("About:", "Best relation:")):
            return self._choose(prompt)
        if prompt.endswith("Answer:"):
            return self._read(prompt, seed)
        if "\nPassages:\n" in prompt:
            return world.Model(error_rate=0.2)(prompt, seed)
        return self._turn(prompt, seed)

    def _turn(self, prompt: str, seed: int) -> str:
        """The next turn of a free episode: right in seven of ten."""
        asked, said = re.split(f"{re.escape(USER_SUFFIX)}\n?", prompt, maxsplit=1)
        chain = world.chain_of(asked.splitlines()[-1])
        done = list(dict.fromkeys(re.findall(r'<search>{"query": "(.*?)"', said)))
        flaw = random.Random(seed).random()
        if flaw < 0.1:
            return "I think I know it."
        if flaw < 0.2 or len(done) == len(chain) - 1:
            answer = world.name_of("wrong", asked) if flaw < 0.2 else world.answer_of(chain)
            return KG_SEARCH.render_turn(Turn(thought="That is all.", answer=answer))
        depth = len(done) + (flaw >= 0.3 or not done)
        entity, relation = world.answer_of(chain[-depth:]) if depth > 1 else chain[-1], chain[-depth - 1]
        search = Search(query=world.ask([relation, entity]), entities=(entity,), relations=(relation,))
        return KG_SEARCH.render_turn(Turn(thought="Something is missing.", search=search))

    def _keep(self, prompt: str) -> str:
        asked = prompt.rsplit("Sub-query: ", 1)[1].splitlines()[0]
        if cannot(asked):
            return "None of them."
        relation, entity = world.chain_of(asked)
        right = re.findall(rf"^(\d+)\. {entity} \| {relation} \| ", prompt, re.MULTILINE)
        return json.dumps({"keep": [int(number) for number in right]})

    def _choose(self, prompt: str) -> str:
        question, listed = prompt.rsplit("Question: ", 1)[1].splitlines()[:2]
        choices = listed.split(": ", 1)[1].split("; ")
        return " " + next((choice for choice in choices if choice in question), choices[0])

    def _read(self, prompt: str, seed: int) -> str:
        """What a guided episode takes from a search: the right thing in eight of ten."""
        text, asked = prompt.rsplit("Text:\n", 1)[1].removesuffix("\nAnswer:").rsplit("\nQuestion: ", 1)
        right = world.answer_of(world.chain_of(asked))
        wrong = sorted(set(re.findall(r" is (\w+)\.", text)) - {right}) or [""]
        return " " + (right if random.Random(seed).random() < 0.8 else wrong[0])

    def _check(self, prompt: str) -> str:
        """Nothing against most questions; other answers to some."""
        asked = prompt.rsplit("Question: ", 1)[1].splitlines()[0]
        others = ["Nemo Vale"] if cannot(f"others {asked}", 4) else []
        return json.dumps({"other_answers": others, "doubtful": "", "unclear": ""})

    def _write(self, prompt: str) -> str:
        """A question that names starts and relations, without its starts now and then."""
        facts = re.findall(r"^- (.+) \| (.+) \| (.+)$", prompt, re.MULTILINE)
        if cannot(str(facts)):
            return "I would rather not."
        order = re.findall(r"^(X\d|ANSWER): ", prompt, re.MULTILINE)
        relations = [re.sub(r" \(also: .*\)$", "", relation) for _, relation, _ in facts]
        starts = dict.fromkeys(end for head, _, tail in facts for end in (head, tail) if end not in order)
        named = " and ".join(starts) if not cannot(f"starts {facts}", 8) else "them"
        asked = [
            f"What do {' and '.join(_known(facts, found, order[:place], starts))} lead to?"
            for place, found in enumerate(order)
        ]
        return json.dumps(
            {"question": f"What does {', then '.join(relations)} make of {named}?", "sub_questions": asked}
        )


def _known(
    facts: Sequence[tuple[str, str, str]], found: str, earlier: Sequence[str], starts: dict[str, None]
) -> list[str]:
    """The ends from which facts lead to a placeholder."""
    ends = [head if tail == found else tail for head, _, tail in facts if found in (head, tail)]
    return [end for end in ends if end in earlier or end in starts]
