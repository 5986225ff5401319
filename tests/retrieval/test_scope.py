"""Retrieval over a question's paragraphs and over a corpus, and building a corpus."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.retrieval.support import DOCUMENTS, ids, run
from tests.support.indexes import save_index
from trailforge.pipelines.sources import read_questions
from trailforge.retrieval import Retrieval, RetrievalConfig, check_retrieval, open_retrieval
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.retrieval.indexes.corpus import read_corpus
from trailforge.schemas import InvalidInput, Passage, Question, RetrievalError

QUESTION = Question(id="q", question="q", answer="a", paragraphs=DOCUMENTS)
ROWS = [{"id": d.id, "title": d.title, "text": d.text} for d in DOCUMENTS]


def corpus(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    return path


async def found(retrieval: Retrieval, query: str, question: Question = QUESTION) -> list[str]:
    return ids(await (await retrieval.for_question(question)).retrieve(query, 2))


@pytest.mark.real_model
def test_dense_and_lexical_over_the_questions_paragraphs(encoder: Encoder) -> None:
    assert run(found(Retrieval(encoder, None), "capital of Austria")) == ["2", "3"]
    assert run(found(open_retrieval(RetrievalConfig(kind="bm25")), "capital of Austria")) == ["2", "3"]


def test_a_question_without_paragraphs_is_refused() -> None:
    retrieval = open_retrieval(RetrievalConfig(kind="bm25"))
    with pytest.raises(InvalidInput, match="question q has no paragraphs"):
        run(found(retrieval, "x", Question(id="q", question="q", answer="a")))


@pytest.mark.real_model
@pytest.mark.usefixtures("encoder")
def test_one_corpus_for_all_questions(tmp_path: Path) -> None:
    source = corpus(tmp_path / "passages.jsonl.gz", ROWS)
    save_index(source, tmp_path / "index")
    dense = open_retrieval(RetrievalConfig(scope="corpus", corpus_index=str(tmp_path / "index")))
    lexical = open_retrieval(RetrievalConfig(kind="bm25", scope="corpus", corpus_index=str(source)))
    for retrieval in (dense, lexical):
        assert run(found(retrieval, "capital of Austria", Question(id="q", question="q", answer="a"))) == ["2", "3"]
    ((passage, sentence),) = run(_best_sentence(dense))
    assert (passage.id, sentence) == ("1", "Fritz Lang was born in Vienna.")


async def _best_sentence(retrieval: Retrieval) -> list[tuple[Passage, str]]:
    retriever = await retrieval.for_question(QUESTION)
    passages = await retriever.retrieve("Where was Fritz Lang born?", 3)
    return await retrieval.best_sentences("Where was Fritz Lang born?", passages, 1)


PREFIXES = {"passage_prefix": "passage: ", "query_prefix": "query: "}


@pytest.mark.real_model
@pytest.mark.parametrize("said", [{}, PREFIXES, {"query_prefix": "query: "}])
def test_an_index_brings_its_prefixes_along(tmp_path: Path, encoder: Encoder, said: dict[str, Any]) -> None:
    """Whoever searches may say them too, as a preset does, or leave them to the index."""
    save_index(DOCUMENTS, tmp_path / "index", **PREFIXES)
    opened = open_retrieval(RetrievalConfig(scope="corpus", corpus_index=str(tmp_path / "index"), **said))
    (first, _) = run(_passages(opened, "capital of Austria"))
    texts = ["passage: Vienna\nVienna is the capital of Austria."]
    cosine = encoder.encode_documents(texts)[0] @ encoder.encode_query("query: capital of Austria")
    assert (first.id, first.score) == ("2", pytest.approx(float(cosine), abs=1e-5))


@pytest.mark.real_model
def test_what_is_said_of_queries_goes_over_the_index(tmp_path: Path, encoder: Encoder) -> None:
    save_index(DOCUMENTS, tmp_path / "index", query_prefix="query: ")
    config = RetrievalConfig(scope="corpus", corpus_index=str(tmp_path / "index"), query_prefix="ask: ")
    (first, _) = run(_passages(open_retrieval(config), "capital of Austria"))
    cosine = encoder.encode_documents(["Vienna\nVienna is the capital of Austria."])[0] @ encoder.encode_query(
        "ask: capital of Austria"
    )
    assert first.score == pytest.approx(float(cosine), abs=1e-5)


async def _passages(retrieval: Retrieval, query: str) -> list[Passage]:
    return await (await retrieval.for_question(QUESTION)).retrieve(query, 2)


@pytest.mark.real_model
def test_an_index_that_does_not_fit_is_refused_before_the_encoder_is_loaded(
    tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = corpus(tmp_path / "passages.jsonl.gz", ROWS)
    save_index(source, tmp_path / "index")
    monkeypatch.setattr(
        "trailforge.retrieval.encoders.encoder._load", lambda name, device: pytest.fail(f"{name} was loaded")
    )
    (tmp_path / "empty").mkdir()
    for changes, problem in (
        ({"corpus_index": str(tmp_path / "empty")}, "holds no index: make one with `trailforge index build`"),
        ({"corpus_index": str(tmp_path / "none")}, "no such file or folder; give an index that `trailforge index"),
        ({"kind": "bm25"}, "was made with the kind 'dense', not 'bm25'"),
        (
            {"encoder": "e5"},
            "with the encoder 'minilm', not 'e5'; give --encoder \"minilm\", or build it again",
        ),
        ({"passage_prefix": "passage: "}, 'build it again .trailforge index build … --passage-prefix "passage: ".'),
        (  # a preset of another encoder: all at once, and what is to be given is enough
            {"kind": "hybrid", "encoder": "e5", "passage_prefix": "passage: "},
            "the kind 'dense', not 'hybrid', the encoder 'minilm', not 'e5', the passage_prefix '', not 'passage: '; "
            'give --retrieval "dense" --encoder "minilm", or build it again .trailforge index build … --backend '
            '"hybrid" --encoder "e5" --passage-prefix "passage: ".',
        ),
    ):
        config = replace(RetrievalConfig(scope="corpus", corpus_index=str(tmp_path / "index")), **changes)
        for look in (check_retrieval, open_retrieval):
            with pytest.raises((RetrievalError, InvalidInput), match=problem):
                look(config)


def test_the_corpus_scope_needs_an_index() -> None:
    with pytest.raises(InvalidInput, match=r"give --documents .* or search each question's own paragraphs: --scope"):
        check_retrieval(RetrievalConfig(scope="corpus", kind="bm25"))


def test_a_corpus_is_json_lines_or_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)) + "\n\n")
    expected = [(d.id, d.title, d.text) for d in DOCUMENTS]
    for path in (tmp_path / "rows.parquet", tmp_path / "rows.jsonl", corpus(tmp_path / "rows", ROWS)):
        assert [(d.id, d.title, d.text) for d in read_corpus(path)] == expected


def test_a_passage_needs_a_text_alone(tmp_path: Path) -> None:
    (only,) = read_corpus(corpus(tmp_path / "rows", [{"text": " text "}]))
    assert (only.id, only.title, only.text) == ("1", "", "text")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"text": " "}', "row 1, field 'text': must be a text that is not empty"),
        (b'{"title": "t"}', "row 1, field 'text': no column for the text; there are title. Say which: trailforge"),
        (b'{"text": "a", "id": 1}\n{"text": "b", "id": "1"}', "row 2, field 'id': '1' is the id of an earlier row"),
        (b'{"text": "a"}\n{', "row 2: not JSON"),
        (b"[1]", "row 1: expected an object, found a whole number"),
        (b'{"text": "a", "more": ' + b"[" * 900 + b"]" * 900 + b"}", "row 1: not JSON"),
        (b"\xff", "not UTF-8 text; expected JSON Lines, JSON"),
        (gzip.compress(b'{"text": "a"}' * 99)[:-9], "the gzip file is cut short"),
    ],
)
def test_a_bad_corpus_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "rows"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=re.escape(str(path))) as caught:
        list(read_corpus(path))
    assert problem in str(caught.value)


def test_a_corpus_that_is_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        list(read_corpus(tmp_path / "none"))
    (tmp_path / "rows.parquet").write_bytes(b"PAR1no parquet")
    with pytest.raises(InvalidInput, match="the Parquet file is damaged"):
        list(read_corpus(tmp_path / "rows.parquet"))
    with pytest.raises(InvalidInput, match="holds no passages"):
        open_retrieval(RetrievalConfig(kind="bm25", scope="corpus", corpus_index=str(corpus(tmp_path / "rows", []))))


@pytest.mark.slow
@pytest.mark.real_model
def test_gold_paragraphs_of_real_hops_are_found(data_dir: Path, encoder: Encoder) -> None:
    """3 MuSiQue questions, 20 paragraphs each, gold answers in the place of `#k`: recall at 3 is at least 0.7."""
    rows = read_questions(data_dir / "musique" / "musique_original20.jsonl.gz")
    questions = [row for row in islice(rows, 3) if isinstance(row, Question)]
    hits = run(_hits(Retrieval(encoder, None), questions))
    assert len(hits) == 6
    assert sum(hits) / len(hits) >= 0.7


async def _hits(retrieval: Retrieval, questions: list[Question]) -> list[bool]:
    """Per hop, whether its paragraph is among the best three."""
    hits = []
    for question in questions:
        retriever = await retrieval.for_question(question)
        answers = [hop.answer for hop in question.decomposition]
        for hop in question.decomposition:
            query = re.sub(r"#(\d+)", lambda match, known=answers: known[int(match[1]) - 1], hop.question)
            hits.append(hop.support_id in ids(await retriever.retrieve(query, 3)))
    return hits
