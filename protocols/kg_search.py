"""The DynaSearcher episode (section 3.1, table 1): searches name entities and relations, the answer stands in a box.

    assistant   <think>…</think>
                <search>{"query": "Who directed Avatar?", "entity": ["Avatar"], "relation": ["director"]}</search>
    tool        <result>
                Documents:
                1. (Avatar) Avatar is a film of 2009 …
                Triples:
                1. (Avatar | director | James Cameron)
                </result>
    assistant   <think>…</think>
                <answer>The final answer is \\boxed{James Cameron}</answer>

Documents and triples are best first; a kind of which nothing was found is left out. The paper does not print the inside
of a result, so its lines are ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from trailforge.protocols.base import NOTHING_FOUND, READ_FIRST, one_line, passage_lines, passages_of_result, tags_in
from trailforge.protocols.grammar import Grammar
from trailforge.protocols.repair import Repair, Value, read_object
from trailforge.protocols.turns import Observation, Search
from trailforge.schemas import MalformedReply

MAX_TURNS = 10
"""Most turns of an episode, unless another number is given."""


def system_prompt(max_turns: int = MAX_TURNS) -> str:
    """Return the rules, with the number of turns that an agent has."""
    return (
        "You answer questions step by step with the help of two tools: a search over documents, and a knowledge graph "
        "of entities and the relations between them. "
        "Begin every turn by reasoning between <think> and </think>: what is known, what is missing, what to ask next. "
        "When something is missing, write one request between <search> and </search>, as a JSON object "
        '{"query": "...", "entity": ["..."], "relation": ["..."]}: the query goes to the documents, the names of '
        "entities and relations to the knowledge graph. "
        'For example: <search>{"query": "Who directed the film Avatar?", "entity": ["Avatar"], '
        '"relation": ["director"]}</search>. '
        "A request may name several entities and several relations. "
        'Write the plain name of an entity, with nothing in brackets behind it: "Avatar", not "Avatar (2009 film)". '
        "Write relations as the graph labels them, which are short nouns or phrases as in Wikidata: director, father, "
        "spouse, place of birth, date of birth, country of citizenship, educated at, employer, located in. "
        f"{READ_FIRST} "
        "What both tools find comes back between <result> and </result>. "
        "Search again as long as something is missing, and not once more than that. "
        "What was not found may be there in other words: by another name of the entity, or by a nearby relation. "
        f"You have at most {max_turns} turns, and the last of them can only answer. "
        "When you are sure, end the task with <answer>The final answer is \\boxed{...}</answer>: "
        "in the box stands nothing but the answer itself, a name in full as the sources use it, a date, a number, a "
        "few of their words, yes or no. If nothing that was found states it or lets you conclude it, the answer is: "
        "unknown."
    )


SYSTEM_PROMPT = system_prompt()
USER_SUFFIX = " Put the final answer in \\boxed{} between <answer> and </answer>."

_KEYS = {name: key for key in ("query", "entity", "relation") for name in (key, f"{key}s")} | {
    "queries": "query",
    "entities": "entity",
}
"""How models spell the keys."""
_BOX = "\\boxed{"


def write_search(search: Search) -> str:
    """Return the request as JSON, with `<` escaped where it would make a tag, which a JSON reader undoes."""
    fields = {"query": search.query, "entity": list(search.entities), "relation": list(search.relations)}
    text = json.dumps(fields, ensure_ascii=False)
    return text.replace("<", "\\u003c") if tags_in(text) else text


def read_search(body: str) -> tuple[Search, Sequence[Repair]]:
    """Read the request that an agent wrote; returns it with the repairs made. Text without JSON is a query for
    documents alone.
    """
    if not body.startswith(("{", "[", "`")) and "{" not in body:
        return Search(query=body), ["plain_text"]
    found, repairs = read_object(body)
    fields: dict[str, Value] = {}
    for name, value in found.items():
        key = _KEYS.get(name.strip().lower())
        if key in fields:
            raise MalformedReply(f"more than one {key}")
        if key is None:
            repairs.append("unknown_key")
        else:
            fields[key] = value
            if key != name:
                repairs.append("key_spelling")
    query, of_query = _text(fields.get("query"))
    entities, of_entities = _list(fields.get("entity"))
    relations, of_relations = _list(fields.get("relation"))
    repairs += of_query + of_entities + of_relations
    return Search(query=query, entities=entities, relations=relations), repairs


def _text(value: Value) -> tuple[str, list[Repair]]:
    repairs: list[Repair] = []
    if isinstance(value, list):
        if len(value) != 1:
            raise MalformedReply(f"expected one query, found {len(value)}")
        value, repairs = value[0], ["list_for_text"]
    if value is None or not value.strip():
        raise MalformedReply("expected a query, found none")
    return value.strip(), repairs


def _list(value: Value) -> tuple[tuple[str, ...], list[Repair]]:
    if value is None:
        return (), ["missing_key"]
    repairs: list[Repair] = []
    if isinstance(value, str):
        value = [value]
        repairs.append("text_for_list")
    kept = tuple(item.strip() for item in value if item.strip())
    if len(kept) < len(value):
        repairs.append("blank_item")
    return kept, repairs


def write_answer(answer: str) -> str:
    r"""Return the answer in its `\boxed{}`. Raises `ValueError` for braces that do not match, which no box can hold."""
    boxed = f"{_BOX}{answer}}}"
    if _box_end(boxed, len(_BOX)) != len(boxed) - 1:
        raise ValueError(f"an answer whose braces do not match cannot be boxed: {answer!r}")
    return f"The final answer is {boxed}"


def read_answer(body: str) -> tuple[str, Sequence[Repair]]:
    """Read the answer from its box; without a box, all of the text is the answer. Returns it with the repairs made.
    Several boxes must all have the same content.
    """
    repairs: list[Repair] = []
    ends = [(start, _box_end(body, start)) for start in _box_starts(body)]
    answers = [body[start:end].strip() for start, end in ends] or [body.strip()]
    if not ends:
        repairs.append("unboxed_answer")
    elif ends[-1][1] == len(body):
        repairs.append("unclosed_box")
    if not answers[-1]:
        raise MalformedReply("empty box")
    if len(set(answers)) > 1:
        raise MalformedReply(f"expected one answer, found {len(set(answers))} boxes that differ")
    return answers[-1], repairs


def _box_starts(body: str) -> Iterator[int]:
    """Where the content of each box begins; a box within a box is part of its content."""
    start = body.find(_BOX)
    while start >= 0:
        start += len(_BOX)
        yield start
        start = body.find(_BOX, _box_end(body, start))


def _box_end(text: str, start: int) -> int:
    """Where the brace stands that closes a box whose content begins at `start`; the text's end without one."""
    depth = 1
    for match in re.finditer(r"\\.|[{}]", text[start:], re.DOTALL):  # an escaped brace is text
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if not depth:
            return start + match.start()
    return len(text)


def write_result(observation: Observation) -> str:
    """Return documents and triples as text, each kind under its heading."""
    documents = passage_lines(observation.passages)
    triples = [
        f"{n}. ({one_line(t.head)} | {one_line(t.relation)} | {one_line(t.tail)})"
        for n, t in enumerate(observation.triples, start=1)
    ]
    lines = [
        *(["Documents:", *documents] if documents else []),
        *(["Triples:", *triples] if triples else []),
    ]
    return "\n".join(lines or [NOTHING_FOUND])


def read_passages(result: str) -> list[tuple[str, str]]:
    """Read the title and text of each document that `write_result` wrote."""
    return passages_of_result(result.partition("\nTriples:\n")[0])


KG_SEARCH = Grammar(
    name="kg_search",
    system_prompt=SYSTEM_PROMPT,
    user_suffix=USER_SUFFIX,
    searches="graph",
    reward="dynasearcher",
    training="dynasearcher",
    search_tag="search",
    result_tag="result",
    read_search=read_search,
    write_search=write_search,
    read_answer=read_answer,
    write_answer=write_answer,
    write_result=write_result,
    read_passages=read_passages,
)


def with_turns(max_turns: int) -> Grammar:
    """Return the protocol with rules that grant agents this number of turns."""
    return replace(KG_SEARCH, system_prompt=system_prompt(max_turns))
