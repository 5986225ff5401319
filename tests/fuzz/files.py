"""Targets that read files, and replies of servers that are files."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.target import Target, text_of
from trailforge.curation.decisions import append, merge, read_decisions
from trailforge.curation.verdicts import read_patterns, refused_patterns
from trailforge.pipelines.sources import read_benchmark, read_questions
from trailforge.pipelines.sources.columns import parse_columns
from trailforge.pipelines.sources.documents import read_documents
from trailforge.presets import load_bands, load_preset, load_training_preset
from trailforge.retrieval.indexes.corpus import Chunking, cut, read_corpus
from trailforge.retrieval.kg.rows import Gathered
from trailforge.retrieval.kg.sources import open_source
from trailforge.retrieval.web.providers import arxiv_page
from trailforge.rewards.episode import REWARD_PRESETS
from trailforge.schemas import (
    Decision,
    Document,
    InvalidInput,
    PatternDecision,
    RequestRefused,
    read_parquet,
    to_dict,
)
from trailforge.schemas import Question as Record
from trailforge.schemas.arrow import to_table
from trailforge.schemas.files import LONGEST_ROW
from trailforge.schemas.text import count_tokens
from trailforge.training.score_file import score_episodes
from trailforge.training.sets.judging import read_benchmarks

_JSON = (
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"true", b"1", b"-1e999", b"NaN", b'"\\ud800"', b"\n", b" ",
    b"{}", b"[[]]", b'"a"', b"\xef\xbb\xbf", b"\xff", b"\x00", b"#1", b"9" * 400, b"\\", b"{{}}", b"{:>99}", b"\\u0000",
)  # fmt: skip
_SAMPLES = Path(__file__).parents[2] / "sample_data"
_BOMB = 120_000_000
"""Bytes: seven times what a row may be."""


def _lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


@cache
def _bomb(begin: bytes = b"", end: bytes = b"", fill: bytes = b" ") -> bytes:
    packed, piece = io.BytesIO(), fill * (1 << 20)
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as file:
        file.write(begin)
        for _ in range(_BOMB // len(piece)):
            file.write(piece)
        file.write(end)
    return packed.getvalue()


def _file(name: str, read: Callable[[Path], Iterable[object] | object]) -> Callable[[bytes, Path], None]:
    """Writes the input to a file of that name, and reads it to its end."""

    def run(case: bytes, folder: Path) -> None:
        path = folder / name
        path.write_bytes(case)
        found = read(path)
        for _ in found if isinstance(found, Iterable) else ():
            pass

    return run


# Questions

_MUSIQUE = {
    "id": "2hop__1", "question": "Where was the director of M born?", "answer": "Vienna", "answer_aliases": ["Wien"],
    "answerable": True, "paragraphs": [{"idx": 0, "title": "M", "paragraph_text": "A film.", "is_supporting": True}],
    "question_decomposition": [{"question": "Who directed M?", "answer": "Lang", "paragraph_support_idx": 0},
                               {"question": "Where was #1 born?", "answer": "Vienna", "paragraph_support_idx": None}],
}  # fmt: skip
_TWOWIKI = {
    "_id": "a", "question": "Where was the director of M born?", "answer": "Vienna",
    "supporting_facts": [["M", 0], ["Lang", 0]], "context": [["M", ["A film."]], ["Lang", ["A man."]]],
    "evidences": [["M", "director", "Lang"], ["Lang", "place of birth", "Vienna"]],
}  # fmt: skip
_HOTPOT = {
    "id": "b", "question": "Which?", "answer": "yes", "supporting_facts": {"title": ["M"], "sent_id": [0]},
    "context": {"title": ["M"], "sentences": [["A film.", " Of 1931."]]},
}  # fmt: skip
_OWN = {"id": "c", "question": "Who?", "answer": "Lang", "decomposition": [{"question": "Who?", "answer": "Lang"}]}


_CHOICE = {"question": "Which?", "options": ["A. one", "B. two"], "answer": "A, B", "answer_set": []}
_GAIA = {"task_id": "g", "Question": "Who?", "Final answer": "Ada", "file_name": ""}
_FANOUT = {
    **{"id": "f", "question": "Who?", "answer": {"a": 1, "b": ["c", True]}, "categories": ["x"]},
    "decomposition": [{"question": "?", "evidence": {"title": "T"}, "decomposition": [{"evidence": None}]}],
}

_PHANTOM = {
    **{"id": "p", "question": "Who?", "answers": ["a", "b"], "hops": 3, "aggregation": False, "answer_variable": "Y_2"},
    **{"supporting_titles": ["a"], "query": ["niece(Y_4, Y_2)"]},
}


def _questions(name: str, row: dict[str, Any], **options: Any) -> Target:
    keys = tuple(f'"{key}": '.encode() for key in row)
    return Target(
        name=name,
        run=_file("questions", partial(read_questions, kinds=("text", "options", "set"))),
        may_raise=(InvalidInput,),
        samples=lambda: [_lines(row, row), json.dumps([row, {**row, "id": "z", "_id": "z"}]).encode()],
        tokens=(*_JSON, *keys),
        **options,
    )


def _aimed_rows() -> Iterable[bytes]:
    yield _lines(_OWN)[:-2] + b', "paragraphs": ' + _deep(101) + b"}\n" + _lines({**_OWN, "id": "d"})
    yield b"[" + _deep(500) + b"," + _lines(_OWN) + b"]"
    yield from (_deep(100_000), b"[" * 100_000, b'{"a":' * 50_000)
    yield _bomb()
    yield _bomb(b'{"question": "', fill=b"a")
    yield _bomb(b"[")
    yield _bomb(b'["', fill=b"a")
    yield _lines(_OWN) + b'"' + b"a" * (LONGEST_ROW + 1) + b'"\n' + _lines({**_OWN, "id": "d"})


def _aimed_evidence() -> Iterable[bytes]:
    for relation in ("{x}", "{}", "}", "{:>1900000000}", "{0.__class__}"):
        yield _lines(_TWOWIKI | {"evidences": [["M", relation, "Vienna"]]})
    yield from (_lines(_TWOWIKI | {"supporting_facts": facts}) for facts in ([[]], [[1]], [""], {}))


# Documents

_DOCUMENT = {"id": "1", "title": "T", "text": "A text.", "url": "https://a.example/1", "published": "2024-05-31",
             "authors": ["A"], "language": "en", "kind": "news"}  # fmt: skip
_ARXIV = {"arxiv_id": "2504.00016", "title": "T", "abstract": "A.", "authors": "A; B", "listed_date": "2025-04-02"}
_NEWS = {"id": "wikinews_1", "title": "T", "date": "2019-01-04", "source": "Wikinews", "text": "A."}
_CSV = b'id,title,text,published\n1,T,"A ""text"", with\nlines",2024-05-31\n2,U,b,Tue, 04 Mar 2025\n'
_RSS = (
    b'<?xml version="1.0"?><rss xmlns:dc="http://purl.org/dc/elements/1.1/"><channel><link>https://a.example</link>'
    b"<item><title>T</title><description>&lt;p&gt;A &amp;amp; b&lt;/p&gt;</description><guid>1</guid>"
    b"<author>a@b.example (Ann)</author><pubDate>Tue, 04 Mar 2025 23:00:00 +0000</pubDate></item></channel></rss>"
)
_ATOM = (
    b'<feed xmlns="http://www.w3.org/2005/Atom"><id>x</id><link href="https://a.example"/><entry><id>1</id><title>T</title>'
    b'<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>A</p></div></content>'
    b"<author><name>A</name></author><updated>2025-03-31T10:00:00Z</updated></entry></feed>"
)
_XML = (
    b"<item>", b"</item>", b"<entry>", b"</entry>", b"<author>", b"</author>", b"a@", b"(", b")", b"&lt;", b"&lt;!--",
    b"&amp;#", b"&#1;", b"<!--", b"-->", b"<![CDATA[", b"]]>", b"<!DOCTYPE a>", b"<?a?>", b'a="',
    b" xmlns:a='b'", b"<dc:creator>",
    b"<p>", b"</p>", b"<", b">", b"&", b" ", b'type="html"', b"\xff", b"\x00",
    b'encoding="utf-7"', b'encoding="gb2312"', b'encoding="utf-16"', b"\xfe\xff", b"<content type='html'>", b"&eacute;",
    b"<rdf:RDF ", b"</rss>", b"<media:a/>", b"<!DOCTYPE a [", b"]>",
)  # fmt: skip


_WRAPPED = {"question": "q", "answer": "a", "idx": 3, "aliases": None}


def _documents(path: Path) -> Iterable[object]:
    return read_documents([path])


def _in_rss(description: bytes, author: bytes = b"A") -> bytes:
    item = (
        b"<item><title>T</title><author>" + author + b"</author><description>" + description + b"</description></item>"
    )
    return b"<rss><channel>" + item + b"</channel></rss>"


def _aimed_feeds() -> Iterable[bytes]:
    yield _in_rss(b"&lt;!--" * 15_000)
    yield _in_rss(b"&lt;a " * 15_000)
    yield _in_rss(b"&lt;script>&lt;/" * 6_000)
    yield _in_rss(b"&amp;#" + b"1" * 5000)
    yield _in_rss(b"x", b"a@" * 50_000)
    yield _in_rss(b"x", b"a@b" + b" " * 100_000 + b"x")
    yield b"<rss>" + b"<a>" * 30_000
    slips = (
        b"&",
        b"<",
        b"&a;",
        b"]]>",
        b"<![CDATA[",
        b"<!--",
        b"<?",
        b"<item>",
        b"</item>",
        b"<a:b/>",
        b"\xff",
        b"&#1;",
    )
    yield from (_in_rss(slip * (60_000 // len(slip))) for slip in (*slips, b"<!DOCTYPE a ["))
    yield from (
        b"<!DOCTYPE a" + b"'" * 60_000,
        b"<!DOCTYPE a [" + b" " * 60_000,
        b"<!-- -->" * 9_000,
        b"<" + b"a" * 60_000,
    )
    yield _bomb(b"<rss><channel><item><title>", fill=b"a")
    yield _bomb(b"<rss a='", fill=b"a")


def _aimed_csv() -> Iterable[bytes]:
    yield b'title,text\n"' + b"a," * 50_000
    yield b"title,text\n" + b'"a\n",' * 20_000
    yield _bomb(b'title,text\n"', fill=b"a")
    yield _bomb(b"title,text\n", fill=b",")
    yield _bomb(b'title,text\n"', fill=b'a\n","')


def _parquet_bytes(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


def _records() -> pa.Table:
    rows = [Record(id=str(n), question="Who?", answer=f"a{n}", answer_aliases=("b",)) for n in range(20)]
    return to_table(Record, rows)


def _parquet_samples(table: Callable[[], pa.Table]) -> Callable[[], list[bytes]]:
    return lambda: [
        _parquet_bytes(table(), compression="zstd"),
        _parquet_bytes(table(), compression="none", use_dictionary=False, row_group_size=5),
    ]


_PARQUET = (
    b"PAR1",
    b"\x15\x00",
    b"\x15\x04",
    b"\x19",
    b"\x00",
    b"\xff\xff\xff\x7f",
    b"\x1c",
    b"\x28",
    b"trailforge",
    b"1.0",
)


# Others


def _log(folder: Path, case: bytes) -> Path:
    (folder / "curation").mkdir(exist_ok=True)
    path = folder / "curation" / "decisions.jsonl"
    path.write_bytes(case)
    return path


_WORD = Decision(
    run_id="r", table="inputs", uid="u", who="A", when="2026-01-01T00:00:00.000000Z", action="fix", field="a.1",
    value='{"a": [1]}',
)  # fmt: skip
_WORDS = _lines(*(to_dict(w) for w in (_WORD,))) + _lines(
    to_dict(_WORD) | {"action": "reject", "reason": "x", "who": "B"}
)


def _decisions(case: bytes, folder: Path) -> None:
    """A word that is appended is there, whatever stood before it, and no whole line is lost."""
    path = _log(folder, case)
    whole = case.count(b"\n")
    append(folder, [_WORD])
    assert path.read_bytes().count(b"\n") in (whole + 1, whole + 2)
    assert path.read_bytes().startswith(case[: case.rfind(b"\n") + 1])
    decisions = read_decisions(folder)
    assert decisions[-1] == _WORD
    merge(decisions)


def _patterns(case: bytes, folder: Path) -> None:
    path = folder / "patterns.jsonl"
    path.write_bytes(case)
    refused_patterns(read_patterns(path))


_PATTERN = PatternDecision(run_id="r", field="title", pattern="a+", who="A", when="2026", action="refuse", reason="x")


def _presets(case: bytes, folder: Path) -> None:
    path = folder / "p.yaml"
    path.write_bytes(case)
    for load in (partial(load_preset, dataset="mcts_trajectories"), load_training_preset, load_bands):
        try:
            load(str(path))
        except InvalidInput:
            continue


def _graph(name: str) -> Callable[[bytes, Path], None]:
    def run(case: bytes, folder: Path) -> None:
        (folder / name).write_bytes(case)
        open_source(folder / name).read(Gathered())

    return run


_TRIPLE = {"head": "Q1", "relation": "P1", "tail": "Q2", "head_label": "A", "relation_label": "r", "tail_label": 5}
_KQA = {
    "concepts": {"c": {"name": "film", "instanceOf": []}},
    "entities": {"e": {"name": "M", "instanceOf": ["c"], "attributes": [], "relations": [
        {"predicate": "director", "object": "f", "direction": "forward"}]}},
}  # fmt: skip
_SCORED = {"uid": "u", "text": "<think>t</think><answer>Vienna</answer>", "answer": "Vienna", "protocol": "react",
           "num_hops": 2, "support_titles": ["M"]}  # fmt: skip


def _passages(path: Path) -> list[Document]:
    return list(cut(read_corpus(path), Chunking(tokens=5, overlap=2), lambda texts: [*map(count_tokens, texts)]))


def _json_target(name: str, read: Callable[[Path], Iterable[object] | object], row: Any, **options: Any) -> Target:
    keys = tuple(f'"{key}": '.encode() for key in row)
    return Target(
        name=name,
        run=_file(options.pop("file", "rows.jsonl"), read),
        may_raise=(InvalidInput,),
        samples=lambda: [_lines(row, row), json.dumps([row]).encode()],
        tokens=(*_JSON, *keys),
        aimed=lambda: [_deep(500), _lines(row) + _deep(101), _bomb(b'{"text": "', fill=b"a"), _bomb()],
        **options,
    )


TARGETS = (
    _questions("questions_musique", _MUSIQUE),
    _questions("questions_2wiki", _TWOWIKI, aimed=_aimed_evidence),
    _questions("questions_hotpot", _HOTPOT),
    _questions("questions_jsonl", _OWN, aimed=_aimed_rows),
    _questions("questions_options", _CHOICE),
    _questions("questions_gaia", _GAIA),
    _questions("questions_fanoutqa", _FANOUT),
    _questions("questions_phantomwiki", _PHANTOM),
    _questions("questions_gzip", _OWN, packed=lambda case: gzip.compress(case, 1)),
    Target(
        name="documents_json",
        run=_file("documents", _documents),
        may_raise=(InvalidInput,),
        samples=lambda: [_lines(_DOCUMENT, _ARXIV, _NEWS), json.dumps([_DOCUMENT, _ARXIV]).encode()],
        tokens=(*_JSON, b'"arxiv_id": ', b'"text": ', b'"published": ', b"arxiv.org/abs/", b"2504.00016", b";", b"en-"),
    ),
    Target(
        name="documents_csv",
        run=_file("documents", _documents),
        may_raise=(InvalidInput,),
        samples=lambda: [_CSV, _CSV.replace(b",", b"\t")],
        tokens=(
            b",",
            b";",
            b"\t",
            b'"',
            b'""',
            b"\n",
            b"\r",
            b"title",
            b"text,",
            b"\xff",
            b"\x00",
            b" ",
            b"2024-05-31",
        ),
        aimed=_aimed_csv,
    ),
    Target(
        name="documents_rss",
        run=_file("documents", _documents),
        may_raise=(InvalidInput,),
        samples=lambda: [_RSS, _in_rss(b"a &lt;b&gt; c")],
        tokens=_XML,
        aimed=_aimed_feeds,
    ),
    Target(
        name="documents_atom",
        run=_file("documents", _documents),
        may_raise=(InvalidInput,),
        samples=lambda: [_ATOM],
        tokens=_XML,
    ),
    Target(
        name="documents_gzip",
        run=_file("documents", _documents),
        may_raise=(InvalidInput,),
        samples=lambda: [gzip.compress(_RSS), gzip.compress(_CSV), gzip.compress(_lines(_DOCUMENT))],
        tokens=(b"\x1f\x8b", b"\x1f\x8b\x08\x00", b"\x00" * 4, b"\xff" * 4, gzip.compress(b"a"), b"\x03", b"\x1f"),
        aimed=lambda: [_bomb(b'{"text": "', fill=b"a"), _bomb(b"a,title,text\n")],
    ),
    Target(
        name="documents_parquet",
        run=_file("documents", _documents),
        may_raise=(InvalidInput,),
        samples=_parquet_samples(lambda: pa.Table.from_pylist([_DOCUMENT | {"id": str(n)} for n in range(20)])),
        tokens=_PARQUET,
    ),
    Target(
        name="iter_parquet",
        run=_file("rows.parquet", lambda path: read_parquet(path, Record)),
        may_raise=(InvalidInput,),
        samples=_parquet_samples(_records),
        tokens=_PARQUET,
    ),
    Target(
        name="questions_table",
        run=_file("questions", partial(read_questions, kinds=("text", "options", "set"))),
        may_raise=(InvalidInput,),
        samples=lambda: [
            b'query,gold,aliases,paragraphs,num_hops\nq,a,b|c,"[""One.""]",2\n',
            b"question\tanswer\tparagraphs\nq\ta\t['One.', {'title': 'T', 'text': 'x'}]\n",
        ],
        tokens=(*_JSON, b"\t", b"|", b";", b"answers", b"question", b"nan", b"'", b"(", b"{'a': ", b"-" * 50),
        aimed=lambda: [
            b'question,answer,paragraphs\nq,a,"' + _deep(5000) + b'"',
            b"question,answer\n" + b"a|" * 50_000,
        ],
    ),
    Target(
        name="questions_wrapped",
        run=_file("questions", partial(read_questions, kinds=("text", "options", "set"))),
        may_raise=(InvalidInput,),
        samples=lambda: [
            json.dumps({"version": "1", "data": [_WRAPPED, _WRAPPED]}, indent=1).encode(),
            json.dumps({"response": {"docs": [_WRAPPED]}, "empty": []}).encode(),
        ],
        tokens=(*_JSON, b'"data": [', b"]}", b"}\n{"),
        aimed=lambda: [
            b'{"a":' * 5000,
            b'{\n"a":[' * 3000,
            _bomb(b'{"data":[{"a":"', fill=b"a"),
            b'{"data":[' + b"{}," * 99_999,
        ],
    ),
    Target(
        name="column_map",
        run=lambda case, _: parse_columns(text_of(case)),
        may_raise=(InvalidInput,),
        samples=lambda: [b"title=headline,text=body,authors="],
        tokens=(b"=", b",", b"title", b"text", b" ", b"\n", b"kind"),
    ),
    Target(
        name="arxiv_page",
        run=lambda case, _: arxiv_page(case),
        may_raise=(ValueError, RequestRefused),
        samples=lambda: [_ATOM, _ATOM.replace(b"<entry>", b"<a:totalResults>12</a:totalResults><entry>", 1)],
        tokens=(*_XML, b"<a:totalResults", b"<totalResults>", b"12", b"<a"),
    ),
    Target(
        name="decisions",
        run=_decisions,
        may_raise=(InvalidInput,),
        samples=lambda: [_WORDS, _WORDS[:-20]],
        tokens=(*_JSON, b'"action": "withdraw"', b'"value": ', b'"field": "a"', b'"schema_version": '),
        aimed=lambda: [
            _deep(2000),
            b'{"a":' + _deep(2000) + b"}",
            _WORDS + _deep(500),
            _lines(to_dict(_WORD) | {"value": _deep(500).decode()}),
        ],
    ),
    Target(
        name="patterns",
        run=_patterns,
        may_raise=(InvalidInput,),
        samples=lambda: [_lines(to_dict(_PATTERN))],
        tokens=(*_JSON, b'"action": "withdraw"', b'"pattern": '),
        aimed=lambda: [_deep(2000), b'{"a":' + _deep(2000) + b"}\n"],
    ),
    Target(
        name="presets",
        run=_presets,
        may_raise=(),
        samples=lambda: [
            b"dataset: kg_questions\nsearch: {top_k: 5, name: 'a'}\nkg_questions:\n  - a: 5e-6\n    b: [1, 2.5]\n"
        ],
        tokens=(
            b"a: ",
            b"- ",
            b"\n",
            b"  ",
            b"{",
            b"}",
            b"[",
            b"]",
            b"&a ",
            b"*a",
            b"<<: ",
            b"!!int ",
            b"!!timestamp ",
            b"1e5",
            b"2001-99-99",
            b"0x",
            b"1:2",
            b"? ",
            b"|\n",
            b">\n",
            b"#",
            b'"',
            b"'",
            b"\\x",
            b"%YAML 9.9\n",
            b"---\n",
            b"\t",
            b"=",
        ),
        aimed=lambda: [b"a: " + b"[" * 3000, b"a: " + b"{b: " * 3000, b"a: &a {b: *a}", b"- " * 3000 + b"a"],
        aimed_bytes=10_000,
    ),
    _json_target("corpus", read_corpus, {"id": 1, "title": "M", "text": "A film.", "paragraph_text": "x"}),
    _json_target("corpus_json", read_corpus, {"id": 1, "title": "M", "text": "A film."}, file="corpus.json"),
    Target(
        name="corpus_markdown",
        run=_file("corpus.md", _passages),
        may_raise=(InvalidInput,),
        samples=lambda: [
            "# Lakes #\n\nTaupo is large. Mr. Smith swam it, twice. 雪雪雪雪雪\n".encode(),
            b"## \nText.",
        ],
        tokens=(b"#", b"# ", b"\n", b". ", b"\t", b"\xef\xbb\xbf", b"\xff", "\u2028".encode(), b"A", b'."', b"U.S. "),
        aimed=lambda: [b"# " + b"#" * 30_000 + b"x", b"a" * 30_000, b". A" * 10_000, b"# " + b" " * 30_000 + b"x\ny"],
    ),
    Target(
        name="corpus_table",
        run=_file("corpus.tsv", read_corpus),
        may_raise=(InvalidInput,),
        samples=lambda: [
            b'id\ttext\ttitle\n0\t"A ""river""."\tPo\n',
            b"0\tA text.\n1\tb\n",
            b'{"_id": 1, "contents": "\\"a\\"\\nb"}',
        ],
        tokens=(*_JSON, b"id", b"title", b"contents", b"_id", b"\t", b";", b'""', b"\r", b"&amp;", b"<p>", b"</p>"),
        aimed=_aimed_csv,
    ),
    Target(
        name="corpus_parquet",
        run=_file("corpus.parquet", read_corpus),
        may_raise=(InvalidInput,),
        samples=_parquet_samples(lambda: pa.Table.from_pylist([_DOCUMENT | {"id": str(n)} for n in range(20)])),
        tokens=_PARQUET,
    ),
    Target(
        name="kg_tsv",
        run=_graph("triples.tsv"),
        may_raise=(InvalidInput,),
        samples=lambda: [b"Q1\tP1\tQ2\nQ2\tP1\tQ1\n", b"head\trelation\ttail\thead_label\nQ1\tP1\tQ2\tA\n"],
        tokens=(b"\t", b"\n", b"Q1", b"head", b"id", b"\xff", b" ", b"\r", b"\x00", b"\xef\xbb\xbf"),
        aimed=lambda: [_bomb(b"Q1\t", fill=b"a"), _bomb()],
    ),
    Target(
        name="kg_statements",
        run=_graph("triples.nt"),
        may_raise=(InvalidInput,),
        samples=lambda: [b'<http://a/b> <http://a/c> <http://a/d> .\n_:a <http://a#e> "x"@en .\n# c\n'],
        tokens=(
            b"<",
            b">",
            b"<http://a>",
            b'"',
            b"\\",
            b"\\u00e9",
            b"_:",
            b" .",
            b"^^<http://a#date>",
            b"\n",
            b"@en",
            b"#",
        ),
        aimed=lambda: [
            b"<a> " * 20_000,
            b'<a> <b> "' + b"\\" * 60_001,
            b"<" * 60_000,
            b"_:" * 30_000,
            b" " * 60_000 + b"<",
        ],
    ),
    Target(
        name="kg_csv",
        run=_graph("triples.csv"),
        may_raise=(InvalidInput,),
        samples=lambda: [b'subject,predicate,object\n"a, b",c,d\n', b"[[1, 2, 3]]", b"1\n0 0 0\n"],
        tokens=(*_JSON, b"from", b"to", b"label", b"\t", b";", b"|", b"\r"),
    ),
    Target(
        name="kg_jsonl",
        run=_graph("triples.jsonl"),
        may_raise=(InvalidInput,),
        samples=lambda: [_lines(_TRIPLE, _TRIPLE)],
        tokens=(*_JSON, *(f'"{key}": '.encode() for key in _TRIPLE)),
        aimed=lambda: [_deep(500), _bomb(b'{"head": "', fill=b"a")],
    ),
    Target(
        name="kg_kqa",
        run=_graph("kb.json"),
        may_raise=(InvalidInput,),
        samples=lambda: [json.dumps(_KQA).encode()],
        tokens=(*_JSON, b'"instanceOf": ', b'"relations": ', b'"predicate": ', b'"entities": ', b'"name": '),
        aimed=lambda: [_deep(500), b'{"entities": {"e": {"name": "a", "instanceOf": 5, "relations": 5}}}'],
    ),
    Target(
        name="kg_parquet",
        run=_graph("triples.parquet"),
        may_raise=(InvalidInput,),
        samples=_parquet_samples(lambda: pa.Table.from_pylist([_TRIPLE] * 20)),
        tokens=_PARQUET,
    ),
    _json_target("benchmark", read_benchmark, {"question": "Who?", "Prompt": 5}),
    _json_target("training_benchmark", lambda path: read_benchmarks([str(path)], 5) and (), {"question": "Who?"}),
    _json_target("score_file", lambda path: score_episodes(path, REWARD_PRESETS["msearcher"]), _SCORED),
)
