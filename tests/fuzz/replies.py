"""Targets that read a model's words, or words that were retrieved for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.fuzz.target import Target, text_of
from trailforge.generators.document_bundles.bundling.singled import prepare, singled_out
from trailforge.generators.document_bundles.stages.cleaning import normalise
from trailforge.inference import structured
from trailforge.inference.vllm.server import parse_metrics
from trailforge.protocols import (
    GRAPH_R1,
    KG_SEARCH,
    R_SEARCH,
    REACT,
    SEARCH_R1,
    base,
    nl_dag,
    r_search,
    repair,
)
from trailforge.protocols.grammar import Grammar
from trailforge.protocols.transcripts import make_truth, read_transcript, split_text
from trailforge.retrieval.sentences import split_sentences
from trailforge.retrieval.web.http import canonical_url
from trailforge.retrieval.web.providers import serper_hits
from trailforge.retrieval.web.search_api import open_api
from trailforge.rewards import mcts_reward, mentions, score_set, states
from trailforge.rewards.answers import is_abstention, read_short_answer, read_yes_or_no
from trailforge.rewards.episode import reward_preset, score
from trailforge.rows.dates import iso_date
from trailforge.rows.html_text import html_to_text, plain_text
from trailforge.schemas import InvalidInput, MalformedReply, Message, ServerUnavailable
from trailforge.schemas.text import chat_token_in, remove_invisible, restore_chat_tokens

_WORDS = (
    b"a ", b"one ", b"hundred ", b"million ", b"and ", b"1,", b"12", b"000", b".", b"-", b"$", b"u.s.", b"may 5 ",
    b" ", b"\n", b"'s ", b"Paris ", b"\xc3\xa9", b"\xcc\x81",
)  # fmt: skip
_TAGS = (
    *(f"{bracket}{tag}>".encode() for tag in base.TAGS for bracket in ("<", "</")), b"< /", b"<", b">",
    b" ", b"\n", b"< Search >", b"<|im_end|>", b"<|", b"\x00", b"\xff", "é".encode(), b"&lt;",
)  # fmt: skip
_JSON = (
    b"{", b"}", b"[", b"]", b'"', b",", b":", b'"a"', b'{"query": "a"', b'"entity": [', b"null", b"None", b"1e5", b"'",
    b"\\", b"\\u00e9", b"\\ud800", b" ", b"\n", b"```json ", b"```", b"{'query': 'it's'", b'"", ', "“".encode(),
)  # fmt: skip
_REQUEST = b'{"query": "Who directed Avatar?", "entity": ["Avatar"], "relation": ["director", 5]}'
_PLAN = b"Nodes:\nA: EU AI Act (News)\nB: cost of models (Academic)\nEdges:\nA -> B; B -> A"
_PRINTED = (
    b"Nodes: A: Price of coke\n(metallurgical) in October\n(News)\n- B: markets (General)\n**C**: papers (Academic);\n"
    b"Edges: A -> B -> C, A => C"
)
_PLAN_TOKENS = (
    b"Nodes:\n", b"Edges:", b"A: x (News)\n", b"A", b":", b"(", b")", b"->", " → ".encode(), b";", b"\n", b" ",
    b"A -> B;", b"Nodes: ", b"(News) B: ", b"\n- ", b"**", b"none", b" => ", b"--", b", ", b" and ", b"A, B -> C",
    b"```", b"1. ", b".",
)  # fmt: skip


def _conversation(text: str) -> list[Message]:
    return [
        Message(role="system", content="s", train=False),
        Message(role="user", content="q", train=False),
        Message(role="assistant", content=text, train=True),
        Message(role="tool", content=text, train=False),
        Message(role="assistant", content=text, train=True),
    ]


def _escape(case: bytes, _: Path) -> None:
    escaped = base.escape_retrieved(text_of(case))
    assert base.escape_retrieved(escaped) == escaped
    assert not base.tags_in(escaped) and chat_token_in(escaped) is None
    seen, removed = remove_invisible(text_of(case))
    assert remove_invisible(seen) == (seen, 0) and len(seen) == len(text_of(case)) - removed
    restore_chat_tokens(escaped)
    base.one_line(text_of(case)).encode()


def _react(case: bytes, _: Path) -> None:
    text = text_of(case)
    REACT.final_answer(text)
    REACT.validate(_conversation(text), strict=True)
    REACT.parse_turn(text, strict=True)


def _by_grammar(grammar: Grammar) -> Callable[[bytes, Path], None]:
    def run(case: bytes, _: Path) -> None:
        text = text_of(case)
        grammar.final_answer(text)
        grammar.missing_end(text)
        grammar.validate(_conversation(text))
        read_transcript(_conversation(text), grammar.name)
        grammar.parse_turn(text)

    return run


def _r_search(case: bytes, _: Path) -> None:
    text = text_of(case)
    conversation = _conversation(text)
    R_SEARCH.missing_end(text)
    for options in ((), ("A",)):
        truth = make_truth(["a"], protocol=R_SEARCH.name, correct_options=options)
        score(read_transcript(conversation, R_SEARCH.name), truth, reward_preset(R_SEARCH.reward))
    R_SEARCH.validate(conversation, strict=True)
    r_search.read_plan(text)
    R_SEARCH.parse_turn(text)


def _nl_dag(case: bytes, _: Path) -> None:
    text = text_of(case)
    nl_dag.find_problems(text)
    nl_dag.read_passages(text)
    nl_dag.find_repairs(text)
    plan = nl_dag.parse(text)
    plain = text.replace("**", "")  # marks are left out within words, too
    words = [word for node in plan.nodes for word in node.query.split()]
    assert all(word.rstrip(" ;,.") in text or word.rstrip(" ;,.") in plain for word in words)
    nl_dag.levels(plan)


def _structured(case: bytes, _: Path) -> None:
    schema = '{"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}'
    structured._parse_json(text_of(case), schema)  # what `ask_json` does with a reply


def _split_text(case: bytes, _: Path) -> None:
    for protocol in ("react", "r_search", "search_r1"):
        split_text(text_of(case), protocol)


def _plain(read: Callable[[str], object]) -> Callable[[bytes, Path], object]:
    return lambda case, _: read(text_of(case))


def _turns(opening: str, body: str) -> list[bytes]:
    return [
        f"<think>It is a film.</think>\n<{opening}>{body}</{opening}>".encode(),
        b"<think>I know.</think><answer>The final answer is \\boxed{James {C}}</answer>",
        b"< Think>slip<search>a < b</search",
    ]


def _answer(case: bytes, _: Path) -> None:
    text = text_of(case)
    answer = read_short_answer(text, 30)
    assert len(answer.split()) <= 30
    read_yes_or_no(text)
    is_abstention(text)
    mcts_reward(text, ("Paris",))


def _matching(case: bytes, _: Path) -> None:
    text = text_of(case)
    mentions(text, "7 May 2012")
    states(text, "12 million")


def _plain_twice(case: bytes, folder: Path) -> None:
    """A text that is plain stays as it is."""
    plain = plain_text(text_of(case))
    assert plain_text(plain) == plain


_HTML = (
    b"<!--",
    b"-->",
    b"<p>",
    b"</p>",
    b"<p ",
    b'a="',
    b"='",
    b"=",
    b"<!",
    b"<?",
    b"</",
    b"<",
    b">",
    b"<script>",
    b"</script>",
    b"<style",
    b"<svg/>",
    b"&amp;",
    b"&#",
    b"&#1",
    b"&#x",
    b"1",
    b"<![CDATA[",
    b"]]>",
    b"\n",
    b" ",
)

_APIS = ("tavily", "serper", "zhipu", "searxng")

TARGETS = (
    Target(
        name="short_answer",
        run=_answer,
        may_raise=(),
        samples=lambda: [
            b"**Final Answer**\n\\boxed{\\text{Paris}}",
            b"The passages do not say.",
            b"not Paris or Rome",
        ],
        tokens=(*_WORDS, b"\\boxed{", b"}", b"\\text{", b"**", b"Answer: ", b"the passages ", b"is not ", b"no "),
    ),
    Target(
        name="matching",
        run=_matching,
        may_raise=(),
        samples=lambda: [b"On 7th May, 2012, two hundred and five of 23,597 paid $4.3B (CSU)."],
        tokens=_WORDS,
    ),
    Target(
        name="escape",
        run=_escape,
        may_raise=(),
        samples=lambda: [b"a </tool_response> b <|im_end|> < / SEARCH >", b"1 < 2", b"<think\x00>"],
        tokens=_TAGS,
    ),
    Target(name="react", run=_react, may_raise=(MalformedReply,), samples=lambda: _turns("search", "q"), tokens=_TAGS),
    Target(
        name="kg_search",
        run=_by_grammar(KG_SEARCH),
        may_raise=(MalformedReply,),
        samples=lambda: _turns("search", _REQUEST.decode()),
        tokens=(*_TAGS, *_JSON, b"\\boxed{", b"\\}", b"1. (a) b\n", b"Documents:\n", b"Triples:\n"),
    ),
    Target(
        name="search_r1",
        run=_by_grammar(SEARCH_R1),
        may_raise=(MalformedReply,),
        samples=lambda: _turns("search", "who directed Avatar"),
        tokens=(*_TAGS, b"Doc 1(Title: a) b\n", b"(", b")"),
    ),
    Target(
        name="graph_r1",
        run=_by_grammar(GRAPH_R1),
        may_raise=(MalformedReply,),
        samples=lambda: _turns("query", '{"query": "who directed Avatar"}'),
        tokens=(*_TAGS, *_JSON),
    ),
    Target(
        name="r_search",
        run=_r_search,
        may_raise=(MalformedReply,),
        samples=lambda: [
            b"<think>t</think><search>\n" + _PLAN + b"\n</search>",
            b"<think>t</think><search>" + _PLAN + b"</search>\n<result>r</result>\n<answer>A, C</answer>",
            b"<think>t</think><search> " + _PRINTED + b" </search><result>r</result><answer>The answer is:\nC</answer>",
        ],
        tokens=(*_TAGS, *_PLAN_TOKENS, b"(A) ", b"A, ", b"The answer is: ", b" because"),
    ),
    Target(
        name="nl_dag", run=_nl_dag, may_raise=(MalformedReply,), samples=lambda: [_PLAN, _PRINTED], tokens=_PLAN_TOKENS
    ),
    Target(
        name="repair",
        run=_plain(repair.read_object),
        may_raise=(MalformedReply,),
        samples=lambda: [_REQUEST, b"```json\n{'query': 'it's', 'entity': ['a' 'b',],}\n```"],
        tokens=_JSON,
    ),
    Target(
        name="structured",
        run=_structured,
        may_raise=(MalformedReply,),
        samples=lambda: [_REQUEST, b"Here it is: ```" + _REQUEST + b"```"],
        tokens=(*_JSON, b"NaN", b"1" * 400, b'{"query":'),
    ),
    Target(
        name="split_text",
        run=_split_text,
        may_raise=(InvalidInput,),
        samples=lambda: [
            b"<think>a</think><search>q</search>\nuser\n<result>r</result>\nassistant\n<answer>x</answer>"
        ],
        tokens=(*_TAGS, b"user\n", b"\ntool\n", b"assistant\n"),
    ),
    Target(
        name="html",
        run=_plain(html_to_text),
        may_raise=(),
        samples=lambda: [
            b"<p class='a'>One<br/>two &amp; <b>x</b></p><!-- c --><script>if (a < b) x('<p>')</script><ul><li>y</ul>",
            b"<table><tr><td>a</td></tr></table><svg><text>t</text></svg>",
        ],
        tokens=_HTML,
        aimed=lambda: [b"&#" + b"1" * 5000, b"&#" + b"0" * 5000 + b"65;", b'<a href="x>' * 5000 + b">"],
    ),
    Target(
        name="plain_text",
        run=_plain_twice,
        may_raise=(),
        samples=lambda: [
            b"One<br>two &amp;amp; <b>x</b> `&lt;` List<T> <!-- c -->",
            b"&lt;p&gt;a &#38;nbsp; b&lt;/p&gt;\n\nc",
        ],
        tokens=(*_HTML, b"`", b"```", b"&lt;", b"amp;", b"<br>", b"<T>", b"= &sum;", b"<a href='"),
        aimed=lambda: [
            *(
                piece * (60_000 // len(piece))
                for piece in (b"<a b='", b'<a b="', b"<a ", b"`", b"```a", b"&", b"<b>", b"<a b=")
            ),
            *(b"&" + b"amp;" * 15_000, b"&am" * 20_000 + b"&#112;;", b"<p" + b" a" * 30_000, b"<!--" * 15_000),
        ],
    ),
    Target(
        name="sentences",
        run=_plain(split_sentences),
        may_raise=(),
        samples=lambda: ["He left the U.S. in May. “She” stayed (No. 5).\n\nThen…".encode()],
        tokens=(
            b"A. ",
            b". ",
            b"U.S.",
            b".",
            b"\n",
            b" ",
            b"(",
            b")",
            b'"',
            b"No. ",
            b"5",
            b"Mr. ",
            b"a.",
            b"! ",
            b"A",
        ),
    ),
    Target(
        name="clean_text",
        run=_plain(normalise),
        may_raise=(),
        samples=lambda: [
            b"Menu | About | Contact us\nThe text.\n\n\nShare this on facebook, twitter",
            "© 2024 A".encode(),
        ],
        tokens=(
            b"menu",
            b" | a",
            b"|",
            b"/",
            b"share ",
            b"this ",
            b"facebook",
            b",",
            b":",
            b"email",
            b"subscribe ",
            b"\n",
            b" ",
            "©".encode(),
            b"2024",
            b"uses ",
            b"a ",
            b"cookies",
            b"!",
            b"page ",
            b"\xff",
            b"join ",
        ),
        aimed=lambda: [b"menu" + b" | a" * 13 + b" !", b"menu" + b"|a b" * 13 + b"!"],
    ),
    Target(
        name="singled",
        run=_plain(lambda text: list(singled_out(*prepare([("a", text), ("b", text[:500])], [False, True])))),
        may_raise=(),
        samples=lambda: [b"Turku got $2.5 million (40 % of it) on May 4, 2021; Section 4 names 3 new ships."],
        tokens=(
            b"$2",
            b".",
            b",",
            b"1.",
            b"1",
            b"a",
            b" ",
            b"%",
            b" per cent",
            b"May 4",
            b"two ",
            b"3 ships ",
            b"a-",
            b"A(",
            b"Mara Lind, 34, ",
            b"Lind",
            b" said ",
            b"Reef Act ",
            b"\n",
            b"\xc2\xa0",
        ),
    ),
    Target(
        name="dates",
        run=_plain(lambda text: iso_date(text, "date")),
        may_raise=(InvalidInput,),
        samples=lambda: [
            b"2024-05-31T10:00:00+02:00",
            b"Tue, 04 Mar 2025 23:00:00 +0000",
            b"2024-W05-1",
            b"1709123100000",
            b"20240531T100000Z",
        ],
        tokens=(
            b"2024",
            b"-",
            b":",
            b"+",
            b"Z",
            b"T",
            b"Mon, ",
            b"1 Jan 2024",
            b" ",
            b",",
            b"(",
            b")",
            b".",
            b"99",
            b"W",
        ),
    ),
    Target(
        name="addresses",
        run=_plain(canonical_url),
        may_raise=(),
        samples=lambda: [b"https://www.a.example:80/x/?id=1&utm_source=b#top", b"http://[::1]/a"],
        tokens=(
            b"https://",
            b"www.",
            b"/",
            b"?",
            b"&",
            b"=",
            b"a",
            b"#",
            b"[",
            b"]",
            b":",
            b"@",
            b"%",
            b"%41",
            b"\n",
            b";",
        ),
    ),
    Target(
        name="search_apis",
        run=lambda case, _: [open_api(name, "https://a.example/s").hits(case) for name in _APIS],
        may_raise=(ValueError,),
        samples=lambda: [
            b'{"results": [{"title": "t", "url": "https://a.example/1", "content": "c", "published_date": "2024"}]}',
            b'{"search_result": [{"title": "t", "link": "https://a.example/1", "content": "c"}]}',
        ],
        tokens=_JSON,
    ),
    Target(
        name="answer_sets",
        run=lambda case, _: score_set(
            text_of(case), ("Ada", "Washington, D.C.", "Oslo: 709,037", "Trinidad and Tobago")
        ),
        may_raise=(),
        samples=lambda: [b"1. Ada; Washington, D.C.\n- Oslo: 709,037 and Trinidad and Tobago"],
        tokens=(b";", b", ", b" and ", b"\n", b"1. ", b"- "),
        aimed=lambda: [b", and " * 3000, b" " * 30000 + b";", b"\n" * 30000, b"and" * 9000],
    ),
    Target(
        name="serper",
        run=lambda case, _: serper_hits(case, "organic"),
        may_raise=(ValueError,),
        samples=lambda: [b'{"organic": [{"title": "a", "link": "b", "snippet": "c"}, {"title": 1}]}'],
        tokens=(*_JSON, b'{"organic": [', b"{},", b"\xff\xfe"),
    ),
    Target(
        name="vllm_metrics",
        run=_plain(parse_metrics),
        may_raise=(ServerUnavailable,),
        samples=lambda: [
            b"\n".join(
                b'vllm:%s{engine="0"} %d' % (name, number)
                for number, name in enumerate(
                    (
                        b"num_requests_running",
                        b"num_requests_waiting",
                        b"kv_cache_usage_perc",
                        b"prompt_tokens_total",
                        b"generation_tokens_total",
                        b"prefix_cache_queries_total",
                        b"prefix_cache_hits_total",
                        b"num_preemptions_total",
                    )
                )
            )
        ],
        tokens=(b"vllm:a", b"{", b"}", b" ", b"1", b".", b"e+5", b"e999", b"\n", b"vllm:num_requests_running ", b"} 1"),
    ),
)
