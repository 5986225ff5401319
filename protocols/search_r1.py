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

from trailforge.protocols.base import NOTHING_FOUND, one_line, passages_of_lines
from trailforge.protocols.grammar import Grammar
from trailforge.protocols.turns import Observation, read_plain_answer, read_plain_search, write_plain_search

SYSTEM_PROMPT = (
    "You answer a question with the help of a search engine. "
    "Each time you have learned something new, first reason about it between <think> and </think>. "
    "If you still lack knowledge after that, ask the search engine with <search> query </search>; "
    "its best results come back between <information> and </information>. You may search as often as you need. "
    "Once nothing is lacking, give the answer between <answer> and </answer>, without explanation. "
    "For example: <answer>Beijing</answer>."
)

_LINE = re.compile(r"Doc \d+\(Title: ")


def write_result(observation: Observation) -> str:
    """A line `Doc 1(Title: …) text` for each passage, as the published rollouts show them."""
    passages = enumerate(observation.passages, start=1)
    lines = [f"Doc {n}(Title: {one_line(p.title)}) {one_line(p.text)}" for n, p in passages]
    return "\n".join(lines or [NOTHING_FOUND])


def read_passages(result: str) -> list[tuple[str, str]]:
    """Title and text of each passage that `write_result` wrote."""
    return passages_of_lines(result, _LINE)


SEARCH_R1 = Grammar(
    name="search_r1",
    system_prompt=SYSTEM_PROMPT,
    user_suffix="",
    searches="documents",
    reward="search-r1",
    training="ragsearch",
    search_tag="search",
    result_tag="information",
    read_search=read_plain_search,
    write_search=write_plain_search,
    read_answer=read_plain_answer,
    write_answer=str,
    write_result=write_result,
    read_passages=read_passages,
)
