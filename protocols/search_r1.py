"""The Search-R1 form (Jin et al., 2025; figure 13 of RAGSearch): plain queries, results as information.

assistant   <think>…</think>
            <search>who directed Avatar</search>
tool        <information>
            Doc 1(Title: Avatar) Avatar is a film of 2009 …
            </information>
assistant   <think>…</think>
            <answer>James Cameron</answer>
"""

from __future__ import annotations

import re
from dataclasses import replace

from trailforge.protocols.base import NOTHING_FOUND, READ_FIRST, one_line, passages_of_lines
from trailforge.protocols.grammar import Grammar
from trailforge.protocols.turns import Observation, read_plain_answer, read_plain_search, write_plain_search

MAX_SEARCHES = 5
"""Most searches of an episode, unless another number is given: RAGSearch's (appendix B)."""


def system_prompt(max_searches: int = MAX_SEARCHES) -> str:
    """Return the rules, with the number of searches that an agent has."""
    times = "once" if max_searches == 1 else f"{max_searches} times"
    return (
        "You answer a question with the help of a search engine. "
        "Begin every turn by reasoning between <think> and </think>: what the question asks for, what is known from "
        "the results so far, and what is lacking. "
        "If you lack knowledge, ask the search engine with <search> query </search>; "
        "its best results come back between <information> and </information>. "
        f"You can search at most {times}. "
        f"{READ_FIRST} "
        "What was not found may be there in other words: ask again by another name or by what lies between. "
        "Where several could be meant, two brothers or two films of one name, look at each of them, and say what you "
        "found. "
        "Before you answer, think over the links of the question once more, one by one: name each other that the "
        "results leave possible, another friend, a second son, the mother's side beside the father's, with the words "
        'that rule it out ("no children are named for …", "the only daughter"). What you cannot rule out so, search '
        "for first, while you can search. "
        "Once nothing is lacking, give the answer between <answer> and </answer> in its shortest form, "
        "a name, a date, a number, a few words of the results, yes or no, without explanation. "
        "For example: <answer>Beijing</answer>. "
        "If nothing that was found states it or lets you conclude it, the answer is: unknown."
    )


SYSTEM_PROMPT = system_prompt()

_LINE = re.compile(r"Doc \d+\(Title: ")


def write_result(observation: Observation) -> str:
    """Return the passages as text, one line `Doc 1(Title: …) text` each, as the published rollouts show them."""
    passages = enumerate(observation.passages, start=1)
    lines = [f"Doc {n}(Title: {one_line(p.title)}) {one_line(p.text)}" for n, p in passages]
    return "\n".join(lines or [NOTHING_FOUND])


def read_passages(result: str) -> list[tuple[str, str]]:
    """Read the title and text of each passage that `write_result` wrote."""
    return passages_of_lines(result, _LINE)


SEARCH_R1 = Grammar(
    name="search_r1",
    system_prompt=SYSTEM_PROMPT,
    user_suffix="",
    searches="documents",
    reward="search-r1",
    training="abstention",
    search_tag="search",
    result_tag="information",
    read_search=read_plain_search,
    write_search=write_plain_search,
    read_answer=read_plain_answer,
    write_answer=str,
    write_result=write_result,
    read_passages=read_passages,
)


def with_searches(max_searches: int) -> Grammar:
    """Return the protocol with rules that grant agents this number of searches."""
    return replace(SEARCH_R1, system_prompt=system_prompt(max_searches))
