"""Lexical retrieval."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import bm25s
import numpy as np
import pytest

from tests.retrieval.support import DOCUMENTS, ids, run
from trailforge.retrieval.backends.bm25 import Bm25Retriever, near_best
from trailforge.retrieval.words import words_of
from trailforge.schemas import Document, RetrievalError

RETRIEVER = Bm25Retriever(DOCUMENTS)


def test_shared_words_rank_and_ties_keep_the_order_of_the_documents() -> None:
    passages = run(RETRIEVER.retrieve("capital of Austria", 3))
    assert ids(passages) == ["2", "3", "0"]
    assert passages[0].score == passages[1].score == round(passages[0].score, 6) > passages[2].score
    assert run(RETRIEVER.retrieve("capital of Austria", 3)) == passages


@pytest.mark.parametrize("query", ["", "?!", "unheard words"])
def test_a_query_that_matches_nothing_finds_nothing(query: str) -> None:
    assert run(RETRIEVER.retrieve(query, 2)) == [] == run(RETRIEVER.find(query, 2))


@pytest.mark.parametrize(("k", "found"), [(1, 1), (99, 5), (0, 0), (-1, 0)])
def test_k_may_be_anything(k: int, found: int) -> None:
    retriever = Bm25Retriever([Document(id=str(n), title="", text="Vienna") for n in range(5)])
    assert len(run(retriever.retrieve("Vienna", k))) == found


def test_documents_without_a_word() -> None:
    retriever = Bm25Retriever([Document(id="a", title="", text=""), Document(id="b", title="", text="!")])
    assert run(retriever.retrieve("word", 2)) == []


def test_importing_retrieval_loads_no_heavy_package() -> None:
    heavy = "{'torch', 'faiss', 'bm25s', 'sentence_transformers'}"
    code = f"import sys, trailforge.retrieval; sys.exit(str(sorted({heavy} & set(sys.modules)) or ''))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


@pytest.mark.parametrize("k", [1, 2, 5, 39, 40])
def test_the_best_few_are_the_first_of_all(k: int) -> None:
    """Also where the cut goes through documents of one score, which are as many as those that are looked at."""
    texts = [f"river {'river ' * (n % 3)}bank {n % 4}" for n in range(40)]
    retriever = Bm25Retriever([Document(id=str(n), title="", text=text) for n, text in enumerate(texts)])
    every = run(retriever.retrieve("river 3", 1000))
    assert len({passage.score for passage in every}) < 40 == len(every)
    assert sorted(every, key=lambda passage: (-passage.score, int(passage.id))) == every
    assert run(retriever.retrieve("river 3", k)) == every[:k]


@pytest.mark.parametrize("kind", ["spread", "equal", "sparse", "close"])
@pytest.mark.parametrize("count", [1, 5, 100])
def test_the_best_are_among_those_that_are_put_in_order(kind: str, count: int) -> None:
    """Whatever the scores: all that have a place among the best by the rule of ties, and none of score 0."""
    dice = np.random.default_rng(count)
    scores = {
        "spread": lambda: dice.random(20_000) * 40,
        "equal": lambda: dice.integers(0, 4, 20_000) * 1.5,
        "sparse": lambda: dice.random(20_000) * (dice.random(20_000) < 0.002),
        "close": lambda: 20 + dice.integers(0, 4, 20_000) * 5e-7,
    }[kind]().astype(np.float32)
    near = near_best(scores, count).tolist()
    order = sorted(range(len(scores)), key=lambda row: (-round(float(scores[row]), 6), row))
    assert {row for row in order[:count] if scores[row] > 0} <= set(near)
    assert near == sorted(near) and all(scores[row] > 0 for row in near)
    assert len(near) < 200 or kind in ("equal", "close")


def test_documents_that_share_no_word_are_not_found() -> None:
    """Also where the words are in fewer documents than are asked for, of many."""
    documents = [Document(id=str(n), title="", text="rare" if n in (70, 300) else f"usual {n}") for n in range(500)]
    passages = run(Bm25Retriever(documents).retrieve("rare", 5))
    assert ids(passages) == ["70", "300"] and passages[1].score > 0


def test_the_index_holds_the_scores_that_its_package_gives() -> None:
    """To the bit: rows made before stay what they are."""
    draw = random.Random(0)
    texts = [" ".join(f"w{int(draw.paretovariate(0.6))}" for _ in range(draw.randrange(60))) for _ in range(300)]
    documents = [Document(id=str(n), title="", text=text) for n, text in enumerate(texts)]
    retriever = Bm25Retriever(documents)
    theirs = bm25s.BM25(k1=1.5, b=0.75)
    theirs.index([words_of(text) or [""] for text in texts], show_progress=False)
    for text in [*texts[:50], "w1 w2 w2 w3", "w7 unheard"]:
        if words := words_of(text):
            assert retriever.scores(text).tobytes() == theirs.get_scores(words).tobytes()


def test_no_documents_give_nothing() -> None:
    assert run(Bm25Retriever([]).retrieve("word", 3)) == []


def test_what_is_kept_answers_alike_and_is_mapped(tmp_path: Path) -> None:
    RETRIEVER.save(tmp_path)
    opened = Bm25Retriever.open(tmp_path, DOCUMENTS)
    for query in ("capital of Austria", "Who directed Metropolis?", "unheard"):
        assert run(opened.find(query, 3)) == run(RETRIEVER.find(query, 3))
    maps = Path("/proc/self/maps")
    assert not maps.exists() or str(tmp_path) in maps.read_text()
    (tmp_path / "bm25" / "data.csc.index.npy").write_bytes(b"nothing")
    with pytest.raises(RetrievalError, match="holds no BM25 index"):
        Bm25Retriever.open(tmp_path, DOCUMENTS)


@pytest.mark.parametrize(("texts", "is_elsewhere"), [(3, False), (2_001, True)])
def test_a_search_of_many_documents_leaves_the_event_loop_alone(
    monkeypatch: pytest.MonkeyPatch, texts: int, is_elsewhere: bool
) -> None:
    """And one of a few is done sooner than another thread comes to it."""
    retriever = Bm25Retriever([Document(id=str(n), title="", text=f"river {n}") for n in range(texts)])
    scores, threads = retriever.scores, []
    monkeypatch.setattr(retriever, "scores", lambda query: threads.append(threading.get_ident()) or scores(query))
    assert ids(run(retriever.retrieve("river 2", 1))) == ["2"]
    assert [thread != threading.get_ident() for thread in threads] == [is_elsewhere]
