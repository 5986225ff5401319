"""A scripted model that plays every agent over the world: it searches hop by hop, and believes what it has read.

It goes by the prompt and the seed alone. One seed in eight misreads at the end, one in sixteen writes no form at all.
"""

from __future__ import annotations

import json
import random
import re

from tests.support.index_writer import write_for_index
from tests.support.world import answer_of, ask, chain_of, name_of
from trailforge.evaluation.agents.search_o1 import BEGIN_QUERY, BEGIN_RESULT
from trailforge.protocols import PROTOCOLS, R_SEARCH
from trailforge.protocols.turns import Search, Turn

_ASKED = re.compile(r"What is the [^?\n]+\?")
_LED = {grammar.system_prompt.partition(". ")[0]: grammar for grammar in PROTOCOLS.values()}
"""By the first sentence of its rules."""


class Model:
    """Replies to a prompt under a seed."""

    def __call__(self, prompt: str, seed: int) -> str:
        """The reply."""
        if (written := write_for_index(prompt)) is not None:
            return written
        is_reading = "has run a search. Read the documents" in prompt
        chains = [chain_of(each) for each in _ASKED.findall(prompt)]
        chain = chains[-1] if is_reading and chains else max(chains, key=len, default=[])
        flaw = random.Random(seed).random()
        if flaw < 1 / 16:
            return "I would rather not."
        facts, known, entity = list[str](), 0, chain[-1] if chain else ""
        for relation in reversed(chain[:-1]):
            if (found := name_of(relation, entity)) not in prompt:
                break
            facts.append(f"The {relation} of {entity} is {found}.")
            known, entity = known + 1, found
        is_found = known >= len(chain) - 1  # of another world nothing is to be found, and it answers something
        answer = answer_of(chain) if chain and is_found and flaw > 1 / 8 else name_of("misread", str(seed % 5))
        query = "" if is_found or not chain else ask([chain[-2 - known], entity])
        for opening, grammar in _LED.items():
            if opening in prompt:
                has_searched = "<result>" in prompt or "</result>" in prompt.rpartition("assistant")[0]
                if grammar is R_SEARCH:
                    is_found = is_found or prompt.count("Title: ") > 1 or (has_searched and "Nodes:\nA" in prompt)
                    query = f"Nodes:\nA: {query} (General)\nEdges:"
                if is_found:
                    return grammar.render_turn(Turn(thought="That is all.", answer=answer))
                search = Search(query=query, entities=(entity,), relations=(chain[-2 - known],))
                return grammar.render_turn(Turn(thought="Something is missing.", search=search))
        if is_reading:
            return f"**Final Information**\n{' '.join(facts)}"
        if "search as often as you need" in prompt and not is_found and prompt.count(BEGIN_RESULT) < 6:
            return f"I search. {BEGIN_QUERY}{query}"
        if "Break a question down into the smaller questions" in prompt:
            return json.dumps({"Sub-query 1": ask(chain[-2:]), "Sub-query 2": f"What is the {chain[0]} of #1?"})
        return f"**Final Information**\nIt says {answer}: \\boxed{{{answer}}}"
