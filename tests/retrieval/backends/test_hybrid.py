"""Dense, lexical and title links together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.retrieval.backends.support import TableEncoder, bench
from tests.retrieval.support import run
from trailforge.retrieval.backends import FoundPassage, Index, load_backend
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.backends.hybrid import HybridConfig
from trailforge.schemas import Document, RetrievalError

DOCUMENTS = (
    Document(id="film", title="Metropolis (film)", text="Metropolis was directed by Fritz Lang in Berlin."),
    Document(id="director", title="Fritz Lang", text="He was born there."),
    Document(id="town", title="Berlin", text="It lies on the Spree."),
    Document(id="city", title="Berlin (Ohio)", text="It lies in Ohio."),
    Document(id="other", title="", text="Every metropolis is a town."),
)
COSINES = {
    "Metropolis (film)\nMetropolis was directed by Fritz Lang in Berlin.": 0.6,
    "Fritz Lang\nHe was born there.": 0.5,
    "Berlin\nIt lies on the Spree.": 0.3,
    "Berlin (Ohio)\nIt lies in Ohio.": 0.2,
    "Every metropolis is a town.": 0.4,
}
DENSE = {"film": 1.0, "director": 0.75, "town": 0.25, "city": 0.0, "other": 0.5}
"""Min-max cosines."""
QUESTION = "Who made Metropolis?"
BACKEND = load_backend("hybrid")
DEFAULT = HybridConfig()


def build(config: HybridConfig = DEFAULT) -> Index:
    """An index of the documents."""

    async def built() -> Index:
        return await BACKEND.build(DOCUMENTS, config, bench(TableEncoder(COSINES)))

    return run(built())


def find(index: Index, question: str = QUESTION, k: int = 5) -> list[FoundPassage]:
    """What it finds."""

    async def found() -> list[FoundPassage]:
        return await index.find(question, k)

    return run(found())


def scores(config: HybridConfig, question: str = QUESTION) -> dict[str, float]:
    """By id."""
    return {each.passage.id: each.passage.score for each in find(build(config), question)}


def test_the_parts_add_up_as_the_formula_says() -> None:
    """The film has the question's title; it names Lang and Berlin, of which there are two; nothing links to itself."""
    words = Bm25Retriever(DOCUMENTS).scores(QUESTION)
    assert words[1] == words[2] == words[3] == 0 < words[4]
    lexical = {document.id: 0.6 * float(word / words.max()) for document, word in zip(DOCUMENTS, words, strict=True)}
    own = {key: DENSE[key] + lexical[key] + 0.3 * (key == "film") for key in DENSE}
    linked = {key: own[key] + 0.3 * own["film"] * (key in ("director", "town", "city")) for key in own}
    assert scores(DEFAULT) == pytest.approx(linked, abs=2e-6)


@pytest.mark.parametrize("question", ["Who made Metropolis?", "who made it in berlin"])
def test_without_the_other_weights_it_is_min_max_cosine(question: str) -> None:
    plain = HybridConfig(lexical_weight=0, title_weight=0, link_weight=0)
    assert scores(plain, question) == pytest.approx(DENSE, abs=2e-6)


def test_a_title_is_also_found_in_a_question_without_capitals() -> None:
    alone = HybridConfig(lexical_weight=0, link_weight=0)
    wanted = {**DENSE, "town": 0.55, "city": 0.3}
    assert scores(alone, "which river is berlin on") == pytest.approx(wanted, abs=2e-6)


def test_only_the_best_passages_link() -> None:
    """Of one linking passage the film is the only one, and nobody when there are none."""
    links = HybridConfig(lexical_weight=0, title_weight=0, linking_passages=1)
    wanted = {**DENSE, "director": 1.05, "town": 0.55, "city": 0.3}
    assert scores(links, "who?") == pytest.approx(wanted, abs=2e-6)
    assert scores(replace(links, linking_passages=0), "who?") == pytest.approx(DENSE, abs=2e-6)


def test_it_says_why() -> None:
    why = {each.passage.id: each.why for each in find(build())}
    assert why["film"].startswith("cosine 0.600, BM25 ") and why["film"].endswith(", the question names its title")
    assert why["director"] == "cosine 0.500, BM25 0.000, Metropolis (film) names its title"


def test_a_saved_index_finds_the_same(tmp_path: Path) -> None:
    index = build()
    index.save(tmp_path)
    opened = BACKEND.open(tmp_path, DOCUMENTS, DEFAULT, bench(TableEncoder(COSINES)))
    for question in (QUESTION, "who was born in berlin", "?"):
        assert find(opened, question) == find(index, question)
    (tmp_path / "named_indptr.npy").unlink()
    with pytest.raises(RetrievalError, match="build the index again"):
        BACKEND.open(tmp_path, DOCUMENTS, DEFAULT, bench(TableEncoder(COSINES)))


def test_an_index_to_which_passages_are_added_is_that_of_all_of_them() -> None:
    encoder = TableEncoder(COSINES)

    async def grow() -> list[FoundPassage]:
        assert BACKEND.add is not None
        begun = await BACKEND.build(DOCUMENTS[:3], DEFAULT, bench(TableEncoder(COSINES)))
        grown = await BACKEND.add(begun, DOCUMENTS, DEFAULT, bench(encoder))
        return await grown.find(QUESTION, 5)

    assert run(grow()) == find(build())
    assert encoder.encoded == list(COSINES)[3:]


@pytest.mark.parametrize(("k", "count"), [(0, 0), (-1, 0), (99, 5)])
def test_k_may_be_anything(k: int, count: int) -> None:
    assert len(find(build(), QUESTION, k)) == count


@pytest.mark.parametrize("texts", [["", "?"], ["no name in here", ""]])
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


@pytest.mark.parametrize("question", ["", "unheard words", "黄山在哪"])
def test_words_that_match_nothing_add_nothing(question: str) -> None:
    """What is found is found by cosine then, and says so."""
    assert run(Bm25Retriever(DOCUMENTS).find(question, 5)) == []
    assert scores(DEFAULT, question) == pytest.approx(scores(replace(DEFAULT, lexical_weight=0.0), question))
    assert all("no passage has a word of the question" in each.why for each in find(build(), question))
