"""The Graph-R1 form (Luo et al., 2025; figure 14 of RAGSearch): queries to a graph, results as knowledge.

    assistant   <think>…</think>
                <query>{"query": "who directed Avatar"}</query>
    tool        <knowledge>
                1. (Avatar) Avatar is a film of 2009 …
                </knowledge>
    assistant   <think>…</think>
                <answer>James Cameron</answer>

The published prompt asks for a query statement, and the trained agents write it as a JSON object: we write the object
and read either, neither being a slip. The lines of a result are ours.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from trailforge.protocols.base import passages_of_result, tags_in
from trailforge.protocols.grammar import Grammar
from trailforge.protocols.repair import Repair, read_object
from trailforge.protocols.turns import Search, read_plain_answer, write_passages
from trailforge.schemas import MalformedReply

SYSTEM_PROMPT = (
    "You answer a question with the help of a knowledge base. "
    "Begin every turn by reasoning between <think> and </think>. "
    'If you lack knowledge after that, ask for it with <query>{"query": "..."}</query>; '
    "what the knowledge base holds comes back between <knowledge> and </knowledge>. You may ask as often as you need. "
    "Once nothing is lacking, give the answer between <answer> and </answer>."
)


def read_search(body: str) -> tuple[Search, Sequence[Repair]]:
    """Read the query from a JSON object, or from bare text; returns it with the repairs made."""
    if not body.startswith(("{", "`")):
        return Search(query=body), ()
    fields, repairs = read_object(body)
    query = fields.pop("query", None)
    if not isinstance(query, str) or not query.strip():
        raise MalformedReply("expected a query, found none")
    return Search(query=query.strip()), [*repairs, *(["unknown_key"] if fields else [])]


def write_search(search: Search) -> str:
    """Return the query as a JSON object, with `<` escaped where it would make a tag."""
    text = json.dumps({"query": search.query}, ensure_ascii=False)
    return text.replace("<", "\\u003c") if tags_in(text) else text


GRAPH_R1 = Grammar(
    name="graph_r1",
    system_prompt=SYSTEM_PROMPT,
    user_suffix="",
    searches="documents",
    reward="ragsearch",
    training="ragsearch",
    search_tag="query",
    result_tag="knowledge",
    read_search=read_search,
    write_search=write_search,
    read_answer=read_plain_answer,
    write_answer=str,
    write_result=write_passages,
    read_passages=passages_of_result,
    format_rule="per_turn",
)
