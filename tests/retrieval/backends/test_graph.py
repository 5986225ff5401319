"""Names in passages and questions, and PageRank."""

from __future__ import annotations

from pathlib import Path

import igraph
import numpy as np
import pytest

from trailforge.retrieval.backends.graph import (
    KnownNames,
    NamedSentence,
    NameFinder,
    PassageGraph,
    key_of,
    min_max,
    title_key,
)
from trailforge.retrieval.backends.vectors import best_rows
from trailforge.schemas import Document, RetrievalError

DOCUMENTS = (
    Document(id="0", title="Metropolis (1927 film)", text="Metropolis is a silent film. Fritz Lang directed it."),
    Document(id="1", title="Fritz Lang", text="He was born in Vienna, and he died in Beverly Hills."),
    Document(id="2", title="It", text="It is a novel by Stephen King."),
    Document(id="3", title="The Woman in the Moon", text=""),
)
FINDER = NameFinder.of(DOCUMENTS)


def test_a_walk_along_a_path_is_where_the_formula_says() -> None:
    """x = .5 P x + .5 e₀ on 0 – 1 – 2 with weights 1 and 3.

    P: from 0 all to 1; from 1 a quarter to 0 and three to 2; from 2 all to 1. So x₀ = x₁/8 + 1/2, x₁ = x₀/2 + x₂/2 and
    x₂ = 3 x₁/8: x₁ = 1/3, x₀ = 13/24, x₂ = 1/8.
    """
    graph = PassageGraph.of(3, np.array([[0, 1], [1, 2]]), np.array([1.0, 3.0]))
    assert graph.page_rank(np.array([2.0, 0, 0]), 0.5) == pytest.approx([13 / 24, 1 / 3, 1 / 8], abs=1e-8)


@pytest.mark.parametrize("damping", [0.15, 0.5, 0.85])
def test_page_rank_is_that_of_igraph(damping: float) -> None:
    """Also with parallel edges, weights, and nodes without an edge, of which the last is a start."""
    rng = np.random.default_rng(0)
    edges, weights = rng.integers(0, 58, (90, 2)), rng.random(90)
    edges = edges[edges[:, 0] != edges[:, 1]]
    weights = weights[: len(edges)]
    reset = np.where(rng.random(60) < 0.2, rng.random(60), 0.0)
    reset[59] = 1.0
    there = igraph.Graph(n=60, edges=edges.tolist(), directed=False)
    theirs = there.personalized_pagerank(
        directed=False, damping=damping, weights=weights.tolist(), reset=reset.tolist(), implementation="prpack"
    )
    assert PassageGraph.of(60, edges, weights).page_rank(reset, damping) == pytest.approx(theirs, abs=1e-8)


def test_a_saved_graph_walks_the_same_way(tmp_path: Path) -> None:
    graph = PassageGraph.of(4, np.array([[0, 1], [1, 2]]), np.array([1.0, 3.0]))
    graph.save(tmp_path)
    opened = PassageGraph.open(tmp_path)
    reset = np.array([0.0, 1, 0, 1])
    assert len(opened) == 4
    assert opened.page_rank(reset, 0.5).tolist() == graph.page_rank(reset, 0.5).tolist()
    (tmp_path / "graph_indices.npy").write_bytes(b"half")
    with pytest.raises(RetrievalError, match="build the index again"):
        PassageGraph.open(tmp_path)


def test_a_key_is_the_same_however_a_name_is_written() -> None:
    assert key_of("The O’Neal Bros.") == key_of("o'neal bros") == "o neal bros"
    assert key_of("Beyoncé") == "beyonce"
    assert title_key("Metropolis (1927 film)") == "metropolis"
    assert title_key("(500)") == "500"


def test_min_max_of_equal_scores_is_one() -> None:
    assert min_max(np.array([2.0, 4.0, 3.0])).tolist() == [0.0, 1.0, 0.5]
    assert min_max(np.array([2.0, 2.0])).tolist() == [1.0, 1.0]
    assert min_max(np.zeros(0)).tolist() == []


def test_each_sentence_has_the_title_of_its_passage_among_its_names() -> None:
    assert list(FINDER.sentences(DOCUMENTS)) == [
        NamedSentence(0, "Metropolis is a silent film.", ["metropolis"]),
        NamedSentence(0, "Fritz Lang directed it.", ["metropolis", "fritz lang"]),
        NamedSentence(
            1, "He was born in Vienna, and he died in Beverly Hills.", ["fritz lang", "vienna", "beverly hills"]
        ),
        NamedSentence(2, "It is a novel by Stephen King.", ["it", "stephen king"]),
        NamedSentence(3, "The Woman in the Moon", ["woman in the moon"]),
    ]


def test_titles_are_found_where_they_are_written_as_names() -> None:
    assert FINDER.names("Who saw Woman in the Moon, the woman in the moon and it?") == ["woman in the moon"]


def test_names_of_a_question_are_the_longest_known_and_then_others() -> None:
    known = {"fritz lang": 0, "lang": 1, "metropolis": 2, "who": 3}
    assert FINDER.question_names("Who was Fritz Lang to Thea von Harbou, Lang?", known) == [
        "fritz lang",
        "lang",
        "thea von harbou",
    ]
    assert FINDER.question_names("who directed metropolis with fritz lang", known) == ["metropolis", "fritz lang"]


def test_a_saved_finder_reads_questions_the_same_way(tmp_path: Path) -> None:
    FINDER.save(tmp_path)
    opened = NameFinder.open(tmp_path)
    for question in ("Film by Fritz Lang?", "Born in Vienna?", "was the silent film by lang"):
        assert opened.question_names(question, {"lang": 1}) == FINDER.question_names(question, {"lang": 1})
    (tmp_path / "names.json").write_text("[]")
    with pytest.raises(RetrievalError, match="build the index again"):
        NameFinder.open(tmp_path)


def test_the_best_rows_are_the_first_of_all_also_where_scores_tie() -> None:
    scores = np.array([0.5, 0.7, 0.5 + 1e-7, 0.5, 0.1])
    assert best_rows(scores, 2) == [(1, 0.7), (0, 0.5)]
    assert best_rows(scores, 9) == [(1, 0.7), (0, 0.5), (2, 0.5), (3, 0.5), (4, 0.1)]
    assert best_rows(scores, 0) == best_rows(scores, -1) == best_rows(np.zeros(0), 3) == []


def test_an_unknown_name_is_the_known_one_that_shares_most_words(tmp_path: Path) -> None:
    names = KnownNames(["nicholas i of russia", "nicholas ii of russia", "lahave river", "nicholas", "the of"])
    assert names.nearest("nicholas i") == (0, 0.5)
    assert names.nearest("nicholas ii russia") == (1, 0.75)
    assert names.nearest("lahave") == (2, 0.5)
    assert names.nearest("lahave town hall") is None
    assert names.nearest("of the") is None
    names.save(tmp_path)
    assert KnownNames.open(tmp_path).rows == names.rows
    (tmp_path / "keys.json").write_text('["half')
    with pytest.raises(RetrievalError, match="build the index again"):
        KnownNames.open(tmp_path)
