"""Lexical retrieval."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.retrieval.support import DOCUMENTS, ids, run
from trailforge.retrieval import Bm25Retriever
from trailforge.schemas import Document

RETRIEVER = Bm25Retriever(DOCUMENTS)


def test_shared_words_rank_and_ties_keep_the_order_of_the_documents() -> None:
    passages = run(RETRIEVER.retrieve("capital of Austria", 3))
    assert ids(passages) == ["2", "3", "0"]
    assert passages[0].score == passages[1].score == round(passages[0].score, 6) > passages[2].score
    assert run(RETRIEVER.retrieve("capital of Austria", 3)) == passages


@pytest.mark.parametrize("query", ["", "?!", "unheard words"])
def test_a_query_that_nothing_shares_gives_the_first_documents(query: str) -> None:
    passages = run(RETRIEVER.retrieve(query, 2))
    assert ids(passages) == ["0", "1"]
    assert passages[0].score == 0.0


@pytest.mark.parametrize(("k", "found"), [(1, 1), (99, 5), (0, 0), (-1, 0)])
def test_k_may_be_anything(k: int, found: int) -> None:
    assert len(run(RETRIEVER.retrieve("Vienna", k))) == found


def test_documents_without_a_word() -> None:
    retriever = Bm25Retriever([Document(id="a", title="", text=""), Document(id="b", title="", text="!")])
    assert ids(run(retriever.retrieve("word", 2))) == ["a", "b"]


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
