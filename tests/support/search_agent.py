"""A scripted agent of any protocol that searches documents, and of Search-o1: it follows its questions' gold hops.

Everything it says follows from the prompt and the seed, so that a model server needs no state. Which flaw it plants in
a turn is drawn by the seed; what it knows by heart, by the words of the question.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence

from tests.support import world
from trailforge.evaluation.agents.search_o1 import BEGIN_QUERY, END_QUERY, END_RESULT
from trailforge.protocols import PROTOCOLS
from trailforge.protocols.grammar import Grammar
from trailforge.protocols.turns import Search, Turn
from trailforge.schemas import Question

FLAWS = ("guess", "wrong", "again", "untagged", "leak")
"""`guess`: the right answer at once. `wrong`: a wrong one at once. `again`: the first search once more. `untagged`: a
turn without its tags. `leak`: a right turn that says the answer in its thought."""
WORLD = [world.question(number, 2 + number % 2) for number in range(60)]


def wrong_name(question: Question, seed: int) -> str:
    """A name that is no answer to anything."""
    return world.name_of("wrong", question.id, str(seed % 3))


def is_by_heart(question: Question) -> bool:
    """Is it one of the questions that the model answers without a search?"""
    return hashlib.sha256(question.question.encode()).digest()[0] % 8 == 0


class Model:
    """Plays the agent, Search-o1's reading call, who is asked without a search, and who reads once more, to whom every
    link is closed."""

    def __init__(self, questions: Sequence[Question] = (), *, flaw_rate: float = 0.2, by_heart: bool = True) -> None:
        self._questions = {each.question: each for each in questions or WORLD}
        self._flaw_rate, self._by_heart = flaw_rate, by_heart

    def __call__(self, prompt: str, seed: int) -> str:
        """The reply to a prompt."""
        if "Final Information" in prompt:
            return f"**Final Information**\n\n{self._read(prompt)}"
        if "\nEpisode:\n" in prompt:
            return '{"open": []}'
        if "\nPassages:\n" in prompt:
            return self._find(prompt)
        question = next(each for text, each in self._questions.items() if text in prompt)
        if "Answer the question from what you know" in prompt:
            known = self._by_heart and is_by_heart(question)
            return question.answer if known else wrong_name(question, seed)
        if "boxed" in prompt and BEGIN_QUERY not in prompt:  # the documents stand there
            said = question.answer if question.answer in prompt else wrong_name(question, seed)
            return f"So it says. \\boxed{{{said}}}"
        grammar = next((g for g in PROTOCOLS.values() if g.system_prompt[:50] in prompt), None)
        done = prompt.count(f"</{grammar.result_tag}>" if grammar else f"\n{END_RESULT}")
        done -= grammar.system_prompt.count(f"</{grammar.result_tag}>") if grammar else 0
        rng = random.Random(seed)
        flaw = rng.choice(FLAWS) if rng.random() < self._flaw_rate else ""
        return self._turn(question, grammar, done, flaw, seed)

    def _read(self, prompt: str) -> str:
        """What the documents say of a hop's question."""
        asked = prompt.rpartition("Read the documents for the query")[2]
        hops = ((each, number) for each in self._questions.values() for number in range(len(each.decomposition)))
        return next((q.decomposition[n].answer for q, n in hops if _filled(q, n) in asked), "nothing")

    def _find(self, prompt: str) -> str:
        """What passages say of a question or a hop's; it stands there, or is not stated."""
        passages, _, asked = prompt.rpartition("\nPassages:\n")[2].strip().rpartition("\nQuestion: ")
        hops = ((q, hop) for q in self._questions.values() for hop in range(len(q.decomposition)))
        known = {_filled(q, hop): q.decomposition[hop].answer for q, hop in hops}
        answer = known.get(asked) or next((q.answer for text, q in self._questions.items() if text == asked), "")
        return answer if answer and answer in passages else "not stated"

    def _turn(self, question: Question, grammar: Grammar | None, done: int, flaw: str, seed: int) -> str:
        hops = [hop for hop in question.decomposition if hop.support_id is not None]
        answer = question.answer if flaw == "guess" else wrong_name(question, seed) if flaw == "wrong" else ""
        if done >= len(hops) and not answer:
            answer = question.answer
        query = "" if answer else _filled(question, 0 if flaw == "again" else done)
        if grammar is not None and grammar.searches == "plan":
            query = "" if answer else _plan([re.sub(r"#\d+", "them", hop.question) for hop in hops])
            answer = answer or (question.answer if done else "")
            query = "" if answer else query
        known = question.decomposition[done - 1].answer if 0 < done <= len(hops) else ""
        thought = f"I know of {known} now." if known else "I have to look this up."
        if flaw == "leak":
            thought += f" It may be {question.answer}."
        if flaw == "untagged":
            return f"{thought} I think that I search for {query or answer}."
        if grammar is None:
            return f"{thought} {BEGIN_QUERY}{query}{END_QUERY}" if query else f"{thought} \\boxed{{{answer}}}"
        return grammar.render_turn(
            Turn(thought=thought, search=Search(query=query) if query else None, answer=answer or None, repairs=())
        )


def _filled(question: Question, number: int) -> str:
    """A hop's question with the answers of those before it."""
    hops = question.decomposition
    text = hops[min(number, len(hops) - 1)].question
    return re.sub(r"#(\d+)", lambda match: hops[int(match[1]) - 1].answer, text)


def _plan(queries: Sequence[str]) -> str:
    """A search plan, one query after the other."""
    nodes = [f"{chr(ord('A') + number)}: {query} (General)" for number, query in enumerate(queries)]
    edges = [f"{chr(ord('A') + number)} -> {chr(ord('B') + number)}" for number in range(len(queries) - 1)]
    return "\n".join(["Nodes:", *nodes, "Edges:", "; ".join(edges)])
