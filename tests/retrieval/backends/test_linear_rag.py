"""LinearRAG, against an example worked out by the paper's formulas."""

from __future__ import annotations

from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest

from tests.retrieval.backends.support import TableEncoder, bench
from tests.retrieval.support import run
from trailforge.retrieval.backends import FoundPassage, Index, load_backend
from trailforge.retrieval.backends.graph import NamedSentence
from trailforge.retrieval.backends.linear_rag import LinearRagConfig, NameLinks
from trailforge.schemas import Document, RetrievalError

DOCUMENTS = (
    Document(id="film", title="Metropolis", text="Metropolis was directed by Fritz Lang."),
    Document(id="director", title="Fritz Lang", text="He was born in Vienna."),
    Document(id="town", title="Vienna", text="It lies on the Danube."),
    Document(id="other", title="Oslo", text="It lies in Norway."),
)
COSINES = {
    "Metropolis\nMetropolis was directed by Fritz Lang.": 0.5,
    "Fritz Lang\nHe was born in Vienna.": 0.3,
    "Vienna\nIt lies on the Danube.": 0.2,
    "Oslo\nIt lies in Norway.": 0.1,
    "Metropolis. Metropolis was directed by Fritz Lang.": 0.8,
    "Fritz Lang. He was born in Vienna.": 0.9,
    "Vienna. It lies on the Danube.": 0.6,
    "Oslo. It lies in Norway.": 0.1,
}
QUESTION = "Where was the director of Metropolis born?"
PAPER = LinearRagConfig(
    damping=0.5, rounds=2, sentences_per_name=1, threshold=0.5, dense_weight=1.5, passage_weight=0.05
)
BACKEND = load_backend("linear_rag")


def build(config: LinearRagConfig = PAPER, encoder: TableEncoder | None = None, count: int = 4) -> Index:
    """An index of the first documents."""
    return run(_build(config, encoder or TableEncoder(COSINES), count))


async def _build(config: LinearRagConfig, encoder: TableEncoder, count: int) -> Index:
    return await BACKEND.build(DOCUMENTS[:count], config, bench(encoder))


def find(index: Index, question: str = QUESTION, k: int = 4) -> list[FoundPassage]:
    """What it finds."""
    return run(_find(index, question, k))


async def _find(index: Index, question: str, k: int) -> list[FoundPassage]:
    return await index.find(question, k)


def walk(names: list[float], bonuses: list[float]) -> dict[str, float]:
    """Shares of the best passage on the path Metropolis – film – Lang – director – Vienna – town – Danube.

    Each passage holds two names, once each, so that every edge weighs a half. `names` and `bonuses`: where the walk
    begins, by the formulas; min-max cosines are 1, 1/2, 1/4 and, of the passage on the path between Oslo and Norway, 0.
    """
    passages = [0.05 * (1.5 * dense + log(1 + bonus)) for dense, bonus in zip((1, 0.5, 0.25), bonuses, strict=True)]
    start = np.array([names[0], passages[0], names[1], passages[1], names[2], passages[2], names[3]])
    start /= start.sum()
    steps = np.diag(np.ones(6), 1) + np.diag(np.ones(6), -1)
    steps /= steps.sum(axis=0)
    scores = np.linalg.solve(np.eye(7) - 0.5 * steps, 0.5 * start)[1::2]
    return dict(zip(("film", "director", "town"), scores / scores.max(), strict=True))


def test_the_worked_example() -> None:
    """Metropolis hands .8 of its 1 to itself and Lang; Lang .9 of that, .72, to himself and Vienna; then it ends.

    A name adds score × ln(1 + 1) / tier to its passages, by the score and tier it had last: Metropolis .8 / 2, Lang and
    Vienna .72 / 3. The walk begins at names by the sum of all that they were handed.
    """
    two = log(2)
    wanted = walk(
        [1 + 0.8, 0.8 + 0.72, 0.72, 0],
        [(0.8 / 2 + 0.72 / 3) * two, (0.72 / 3 + 0.72 / 3) * two, 0.72 / 3 * two],
    )
    found = find(build())
    assert {each.passage.id: each.passage.score for each in found} == pytest.approx({**wanted, "other": 0}, abs=2e-6)
    assert [each.passage.id for each in found] == ["film", "director", "town", "other"]
    assert [each.why for each in found[:2]] == [
        "names metropolis (led to), fritz lang (led to)",
        "names fritz lang (led to), vienna (led to)",
    ]
    assert found[0].sources == ("film",)


def test_what_falls_below_the_threshold_is_neither_reached_nor_hands_on() -> None:
    """Of .8 × .9 nothing is left at a threshold of .75."""
    two = log(2)
    wanted = walk([1 + 0.8, 0.8, 0, 0], [(0.8 / 2 + 0.8 / 2) * two, 0.8 / 2 * two, 0])
    found = find(build(replace(PAPER, threshold=0.75)))
    assert {each.passage.id: each.passage.score for each in found} == pytest.approx({**wanted, "other": 0}, abs=2e-6)


def test_without_a_round_only_the_names_of_the_question_count() -> None:
    wanted = walk([1, 0, 0, 0], [log(2), 0, 0])
    found = find(build(replace(PAPER, rounds=0)))
    assert {each.passage.id: each.passage.score for each in found} == pytest.approx({**wanted, "other": 0}, abs=2e-6)
    assert found[0].why == "names metropolis"


def test_a_name_hands_on_through_as_many_sentences_as_it_may() -> None:
    """Lang's two sentences: his own is nearer, but that which names him leads to Metropolis."""
    question = "Which film did Fritz Lang direct?"
    nearest = find(build(replace(PAPER, rounds=1)), question)
    both = find(build(replace(PAPER, rounds=1, sentences_per_name=2)), question)
    assert {each.passage.id: each.why for each in nearest}["film"] == "names fritz lang (led to)"
    assert {each.passage.id: each.why for each in both}["film"] == "names fritz lang (led to), metropolis (led to)"


def test_a_question_that_names_nothing_is_answered_by_cosine() -> None:
    found = find(build(), "what is the largest of all?", 2)
    assert [(each.passage.id, each.passage.score) for each in found] == [("film", 0.5), ("director", 0.3)]


def test_a_name_that_the_corpus_lacks_is_the_one_that_shares_its_words() -> None:
    found = find(build(replace(PAPER, rounds=0)), "Who is Norbert Lang?")
    assert [each.why for each in found if each.why.startswith("names f")] == []
    found = find(build(replace(PAPER, rounds=0)), "Who is Lang?")
    assert {each.passage.id for each in found if each.why == "names fritz lang"} == {"film", "director"}


def test_a_saved_index_finds_the_same(tmp_path: Path) -> None:
    index = build()
    index.save(tmp_path)
    opened = BACKEND.open(tmp_path, DOCUMENTS, PAPER, bench(TableEncoder(COSINES)))
    for question in (QUESTION, "who is lang", "which one?"):
        assert find(opened, question) == find(index, question)
    (tmp_path / "sentences_of_name_data.npy").unlink()
    with pytest.raises(RetrievalError, match="build the index again"):
        BACKEND.open(tmp_path, DOCUMENTS, PAPER, bench(TableEncoder(COSINES)))


def test_an_index_to_which_passages_are_added_is_that_of_all_of_them() -> None:
    """Also where a new title is a name in an old text; and only what is new is encoded."""
    documents = (*DOCUMENTS[:3], Document(id="new", title="Metropolis Was", text="So it was. Lang saw it."))
    old, new = TableEncoder(COSINES), TableEncoder(COSINES)

    async def grow() -> tuple[list[FoundPassage], list[FoundPassage]]:
        assert BACKEND.add is not None
        begun = await BACKEND.build(documents[:3], PAPER, bench(old))
        grown = await BACKEND.add(begun, documents, PAPER, bench(new))
        whole = await BACKEND.build(documents, PAPER, bench(TableEncoder(COSINES)))
        question = "Who was in Metropolis Was?"
        return await grown.find(question, 4), await whole.find(question, 4)

    grown, whole = run(grow())
    assert grown == whole
    assert len(old.encoded) == 6
    assert new.encoded == [
        "Metropolis Was\nSo it was. Lang saw it.",
        "Metropolis Was. So it was.",
        "Metropolis Was. Lang saw it.",
    ]
    assert "metropolis was" in {each.passage.id: each.why for each in grown}["film"]


@pytest.mark.parametrize(("k", "count"), [(0, 0), (-1, 0), (99, 4)])
def test_k_may_be_anything(k: int, count: int) -> None:
    assert len(find(build(), QUESTION, k)) == count


@pytest.mark.parametrize("texts", [["", "?"], ["no name in here", ""], []])
def test_passages_without_names_or_words_can_be_searched(texts: list[str], tmp_path: Path) -> None:
    documents = [Document(id=text, title="", text=text) for text in texts]
    tools = bench(TableEncoder({"no name in here": 0.5}))

    async def asked() -> list[list[FoundPassage]]:
        index = await BACKEND.build(documents, BACKEND.config(), tools)
        index.save(tmp_path)
        opened = BACKEND.open(tmp_path, documents, BACKEND.config(), tools)
        return [await each.find(query, 5) for each in (index, opened) for query in ("", "Who is Fritz Lang?")]

    for found in run(asked()):
        assert sorted(each.passage.id for each in found) == sorted(texts)


def test_links_count_names_in_passages_and_mark_them_in_sentences() -> None:
    sentences = [NamedSentence(0, "", ["a", "b", "b"]), NamedSentence(0, "", ["a"]), NamedSentence(2, "", ["b"])]
    links = NameLinks.of(sentences, 3)
    assert links.names.keys == ["a", "b"]
    assert links.passages_of_name.toarray().tolist() == [[2, 0, 0], [2, 0, 1]]
    assert links.names_of_sentence.toarray().tolist() == [[1, 1], [1, 0], [0, 1]]
    assert links.sentences_of_name.toarray().tolist() == [[1, 1, 0], [1, 0, 1]]
