"""Targets that read what models write in evaluated agents."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tests.fuzz.target import Target, text_of
from trailforge.evaluation.agents import graph_search, search_o1
from trailforge.evaluation.agents.free_form import boxed_answer, read_verdict
from trailforge.evaluation.agents.published import published_grammar
from trailforge.inference import Reply
from trailforge.protocols import GRAPH_R1, KG_SEARCH, REACT, SEARCH_R1
from trailforge.protocols.browse.tags import ACTIONS
from trailforge.protocols.browse.writings import WRITINGS
from trailforge.schemas import MalformedReply, NativeMessage, ToolCall

_MARKS = tuple(
    mark.encode() for mark in (search_o1.BEGIN_QUERY, search_o1.END_QUERY, search_o1.BEGIN_RESULT, search_o1.END_RESULT)
)
_DECOMPOSED = b'{"Sub-query 1": "Who?", "Sub-query 2": [["Entity#1", "born in", "Entity#2"], ("a", "b", "c")]}'


def _search_o1(case: bytes, _: Path) -> None:
    text = text_of(case)
    reply = Reply(text=text, finish_reason="stop", prompt_tokens=0, completion_tokens=0, key="k")
    turn = search_o1.up_to_search(reply)
    assert search_o1.query_of(turn) in text
    assert turn.startswith(text) or text.startswith(turn)
    assert search_o1.information_of(text)
    search_o1.previous_steps([text, turn])
    boxed_answer(text)


def _graph_search(case: bytes, _: Path) -> None:
    text = text_of(case)
    for read in (graph_search.read_sub_queries, graph_search.read_list):
        assert all(found == found.strip() != "" for found in read(text))
    for triples in graph_search.read_triples(text):
        named = graph_search.with_names(triples, dict.fromkeys(graph_search.unknown_entities(triples), "x"))
        assert not graph_search.unknown_entities(named)
        graph_search.search_of(triples).query.encode()
    assert all(graph_search.read_entities(text, [1, 2]).values())
    graph_search.read_answer_line(text)
    read_verdict(text)


def _published(case: bytes, _: Path) -> None:
    for name in (SEARCH_R1.name, GRAPH_R1.name, KG_SEARCH.name, REACT.name):
        turn = published_grammar(name).parse_turn(text_of(case))
        assert (turn.search is None) != (turn.answer is None)


def _browse(case: bytes, _: Path) -> None:
    text = text_of(case)
    for message in (
        NativeMessage(role="assistant", content=text),
        NativeMessage(
            role="assistant", content="", tool_calls=(ToolCall(id="", name=text[:4].strip(), arguments=text),)
        ),
    ):
        for writing in WRITINGS.values():
            with suppress(MalformedReply):
                turn = writing.read(message, 0)
                assert bool(turn.calls) != (turn.answer is not None)


TARGETS = (
    Target(
        name="browse",
        run=_browse,
        may_raise=(),
        samples=lambda: [
            b"<think>x</think>\n<search>who</search><open>p1\npart 2</open><find>p1\nwords</find>",
            b'find{"page": "p1", "text": "words"}',
            b'<tool_call>{"name": "open", "arguments": {"page": "p1", "part": 2}}</tool_call>',
            b"[p1, part 2]\n<answer>Rome</answer>",
        ],
        tokens=(
            *(f"<{slash}{name}>".encode() for slash in ("", "/") for name in ("think", *ACTIONS, "tool_call")),
            *(b"part 2", b"p, part 3", b" | ", b"\n", b" ", b"a", b"{", b"}", b'"page": "p1"', b"[p, part 1]"),
        ),
    ),
    Target(
        name="search_o1",
        run=_search_o1,
        may_raise=(),
        samples=lambda: [
            b"".join((b"So ", _MARKS[0], b"who", _MARKS[1])),
            b"**Final Information**\n\nIt is \\boxed{\\text{Rome}}",
        ],
        tokens=(*_MARKS, b"Final Information", b"**", b"\\boxed{", b"}", b"{", b"\\text{", b"\n", b" ", b"a", b"<|"),
    ),
    Target(
        name="graph_search",
        run=_graph_search,
        may_raise=(),
        samples=lambda: [_DECOMPOSED, b"['a', 'b']", b"- Entity#1 = Rome\nEntity#2: unknown", b"It stands. **Yes**"],
        tokens=(
            *(b'"Sub-query 1": ', b'"', b"'", b"[", b"]", b"(", b")", b",", b":", b"=", b"\\", b'\\"', b"\\ud800"),
            *(b"Entity#1", b"#2", b"\n", b" ", b"yes", b"No", b"unknown", b'"a"', b'["a", "b", "c"]'),
        ),
    ),
    Target(
        name="published_turns",
        run=_published,
        may_raise=(MalformedReply,),
        samples=lambda: [
            b"<think>x</think> <search> who </search>",
            b'so</think>\n<query>{"query": "a"}</query>',
            b"<answer> Beijing </answer>",
        ],
        tokens=(
            *(f"<{slash}{name}>".encode() for slash in ("", "/") for name in ("think", "search", "query", "answer")),
            *(b"a", b" ", b"\n", b"{", b'"query": "a"', b"}", b"<", b"< Search >"),
        ),
    ),
)
