"""HippoRAG 2, against examples worked out by the paper's formulas, with and without a model."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import Any, cast

import igraph
import numpy as np
import pytest
from scipy.sparse import csr_array

from tests.retrieval.backends.support import TableEncoder
from tests.retrieval.support import run
from tests.support.cut_replies import CutModel
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.inference import Meter, Request
from trailforge.inference.asker import Asker
from trailforge.retrieval.backends import FoundPassage, Index, Workbench, load_backend
from trailforge.retrieval.backends.facts import FactTable, StatedFact
from trailforge.retrieval.backends.hippo_rag import HippoRagConfig, HippoRagIndex
from trailforge.schemas import Document, RetrievalError

BACKEND = load_backend("hippo_rag")
DOCUMENTS = (
    Document(id="film", title="Metropolis", text="Metropolis was directed by Fritz Lang."),
    Document(id="director", title="Fritz Lang", text="He was born in Vienna."),
    Document(id="town", title="Wien", text="It lies on the Danube."),
    Document(id="other", title="Oslo", text="It lies in Norway."),
)
TRIPLES = {
    "Metropolis": [["Metropolis", "was directed by", "Fritz Lang"]],
    "Fritz Lang": [["Fritz Lang", "was born in", "Vienna"]],
    "Wien": [["Wien", "lies on the", "Danube"]],
    "Oslo": [["Oslo", "lies in", "Norway"]],
}
COSINES = {
    "Metropolis\nMetropolis was directed by Fritz Lang.": 0.5,
    "Fritz Lang\nHe was born in Vienna.": 0.3,
    "Wien\nIt lies on the Danube.": 0.1,
    "Oslo\nIt lies in Norway.": 0.1,
    "Metropolis was directed by Fritz Lang": 0.8,
    "Fritz Lang was born in Vienna": 0.6,
    "Wien lies on the Danube": 0.2,
    "Oslo lies in Norway": 0.0,
    "Metropolis. Metropolis was directed by Fritz Lang.": 0.8,
    "Fritz Lang. He was born in Vienna.": 0.9,
    "Wien. It lies on the Danube.": 0.6,
    "Oslo. It lies in Norway.": 0.1,
}
PHRASES = ("metropolis", "fritz lang", "vienna", "wien", "danube", "oslo", "norway")
QUESTION = "Where was the director of Metropolis born?"
PAPER = HippoRagConfig(facts="model", filter="none", top_facts=2)
SENTENCES = HippoRagConfig(facts="sentences", filter="entities")
"""As the plain build."""


class PhraseEncoder(TableEncoder):
    """Phrases stand at right angles to each other, but for Vienna and Wien, whose cosine is .9."""

    dimension = 2 + len(PHRASES)

    async def query(self, text: str) -> np.ndarray:
        return np.eye(self.dimension, dtype=np.float32)[0]

    async def documents(self, texts: Sequence[str]) -> np.ndarray:
        plain = await super().documents(texts)
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        vectors[:, :2] = plain
        for row, text in enumerate(texts):
            if text in PHRASES:
                vectors[row] = np.eye(self.dimension)[2 + PHRASES.index(text)]
            if text == "wien":
                vectors[row] *= math.sqrt(1 - 0.9**2)
                vectors[row, 2 + PHRASES.index("vienna")] = 0.9
        return vectors


class CrowdEncoder(TableEncoder):
    """Texts stand around forty points, as names stand around kinds."""

    dimension = 32

    def __init__(self) -> None:
        super().__init__({})
        self._points = np.random.default_rng(0).normal(size=(40, self.dimension))

    async def query(self, text: str) -> np.ndarray:
        return (await self.documents([text]))[0]

    async def documents(self, texts: Sequence[str]) -> np.ndarray:
        drawn = [np.random.default_rng(zlib.crc32(text.encode())) for text in texts]
        vectors = np.stack([self._points[draw.integers(40)] + 0.4 * draw.normal(size=self.dimension) for draw in drawn])
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def reply(request: Request, triples: Mapping[str, Any] = TRIPLES) -> str:
    """What a model that reads perfectly replies, in either call of a passage."""
    title = prompt_text(request).rpartition("Title: ")[2].split("\n")[0]
    if request.purpose == "extract_names":
        parts = {part for each in triples[title] for part in (each[0], each[2])}
        return json.dumps({"names": sorted(parts - ({"It"} - {title}))})
    parts = ("subject", "relation", "object")
    return json.dumps({"triples": [dict(zip(parts, each, strict=True)) for each in triples[title]]})


def bench(client: ScriptedModel | None = None, encoder: TableEncoder | None = None) -> Workbench:
    """A workbench with a scripted model."""
    asker = Asker(client=client or ScriptedModel(reply), model="m", style="chat", seed=0, meter=Meter())
    return Workbench(encoder=cast(Any, encoder or PhraseEncoder(COSINES)), asker=asker)


def build(
    config: HippoRagConfig = PAPER, tools: Workbench | None = None, documents: Sequence[Document] = DOCUMENTS
) -> HippoRagIndex:
    """An index of documents."""
    return cast(HippoRagIndex, run(cast(Any, BACKEND.build(documents, config, tools or bench()))))


def find(index: Index, question: str = QUESTION, k: int = 4) -> list[FoundPassage]:
    """What it finds."""
    return run(cast(Any, index.find(question, k)))


def scores(found: Sequence[FoundPassage]) -> dict[str, float]:
    """Scores by id."""
    return {each.passage.id: each.passage.score for each in found}


def best_is_one(scores: Sequence[float]) -> list[float]:
    """As shares of the best."""
    return [score / max(scores) for score in scores]


def test_a_search_gives_what_the_papers_formulas_give() -> None:
    """Facts score 1, 3/4, 1/4 and 0 (min-max); the best two are kept. Metropolis weighs 1; Fritz Lang, in two passages,
    the mean of 1/2 and 3/8; Vienna 3/4. Passages weigh .05 × (1, 1/2, 0, 0). A fact's edge is made from each end, as is
    that of the synonyms; a passage has one edge to each of its phrases.
    """
    film, director, town, other = 7, 8, 9, 10
    edges = {(0, 1): 2.0, (1, 2): 2.0, (3, 4): 2.0, (5, 6): 2.0, (2, 3): 1.8}
    edges |= {(film, 0): 1, (film, 1): 1, (director, 1): 1, (director, 2): 1}
    edges |= {(town, 3): 1, (town, 4): 1, (other, 5): 1, (other, 6): 1}
    weights = np.zeros((11, 11))
    for (one, two), weight in edges.items():
        weights[one, two] = weights[two, one] = weight
    start = np.array([1, 0.4375, 0.75, 0, 0, 0, 0, 0.05, 0.025, 0, 0])
    walked = np.linalg.solve(np.eye(11) - 0.5 * weights / weights.sum(axis=0), 0.5 * start / start.sum())
    expected = dict(zip(("film", "director", "town", "other"), best_is_one(walked[7:]), strict=True))
    found = find(build())
    assert scores(found) == pytest.approx(expected, abs=2e-6)
    assert [each.passage.id for each in found] == ["film", "director", "town", "other"]


def test_a_search_gives_what_the_released_code_gives() -> None:
    """It adds an edge for each end of a fact and of synonyms to an igraph graph, and walks with prpack."""
    pairs = [(0, 1), (1, 2), (3, 4), (5, 6)]
    between = [(7, 0), (7, 1), (8, 1), (8, 2), (9, 3), (9, 4), (10, 5), (10, 6)]
    graph = igraph.Graph(n=11, edges=[*pairs, *((b, a) for a, b in pairs), (2, 3), (3, 2), *between])
    graph.es["weight"] = [1.0] * 8 + [0.9] * 2 + [1.0] * 8
    start = [1, 0.4375, 0.75, 0, 0, 0, 0, 0.05, 0.025, 0, 0]
    walked = graph.personalized_pagerank(
        damping=0.5, directed=False, weights="weight", reset=start, implementation="prpack"
    )
    assert list(scores(find(build())).values()) == pytest.approx(best_is_one(walked[7:]), abs=2e-6)


def test_each_passage_says_what_led_to_it() -> None:
    found = {each.passage.id: each.why for each in find(build())}
    assert found["film"] == "states: Metropolis was directed by Fritz Lang"
    assert found["director"] == "states: Fritz Lang was born in Vienna"
    assert found["town"] == "reached from metropolis, vienna, fritz lang"
    assert found["other"] == "near to the question"
    assert find(build(replace(PAPER, top_facts=1)))[1].why == "speaks of fritz lang"


def test_without_a_model_sentences_about_names_of_the_question_lead_to_passages() -> None:
    """The nearest sentence is of Fritz Lang; but the question names Metropolis, whose only sentence is kept."""
    index = build(SENTENCES)
    assert index.parts.table.phrases.keys == ["metropolis", "fritz lang", "vienna", "wien", "danube", "oslo", "norway"]
    found = find(index)
    assert [each.passage.id for each in found[:2]] == ["film", "director"]
    assert found[0].why == "states: Metropolis. Metropolis was directed by Fritz Lang."
    assert found[1].why == "speaks of fritz lang"


def test_names_of_the_question_begin_the_walk_beside_the_best_phrases_of_facts() -> None:
    """One phrase of a fact is kept: Metropolis, of (.8 - .1) / (.9 - .1). As a name it weighs 2."""
    index = build(replace(SENTENCES, top_phrases=1))
    begun = index.begin(index.near(QUESTION, np.eye(9, dtype=np.float32)[0]))
    assert begun == {0: pytest.approx(2.0)}
    index = build(replace(SENTENCES, top_phrases=2, name_weight=0.0))
    begun = index.begin(index.near(QUESTION, np.eye(9, dtype=np.float32)[0]))
    assert begun == {0: pytest.approx(0.875, abs=1e-6), 1: pytest.approx(0.4375, abs=1e-6)}


def test_a_sentence_shares_its_weight_among_its_phrases() -> None:
    """Of three phrases each pair has a half; the edge is made from both ends."""
    documents = [Document(id="0", title="Metropolis", text="Metropolis by Fritz Lang plays in Vienna.")]
    index = build(replace(SENTENCES, synonym_similarity=1.1), documents=documents)
    edges, weights = index.parts.table.edges(index.parts.table.about.T @ index.parts.table.about * 0)
    assert sorted(map(tuple, edges.tolist()))[:6] == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert weights.tolist() == [0.5] * 6 + [1.0] * 3


def test_a_fact_is_one_whoever_states_it_and_another_where_it_is_about_others() -> None:
    said = [(0, ("b", "a")), (1, ("a", "b", "a")), (1, ("b", "a")), (1, ("a", "c"))]
    table = FactTable.of((StatedFact(passage, "a is b", about) for passage, about in said), 3)
    assert table.phrases.keys == ["b", "a", "c"] and [fact.text for fact in table.facts] == ["a is b"] * 2
    assert table.about.toarray().tolist() == [[1, 1, 0], [0, 1, 1]]
    assert table.stated.toarray().tolist() == [[1, 2, 0], [0, 1, 0]]
    assert table.held.toarray().tolist() == [[1, 1, 0], [1, 1, 1], [0, 0, 0]]


def test_being_synonyms_takes_the_place_of_sharing_a_fact() -> None:
    """Each of two synonyms has an edge of their cosine, and none of the fact beside it."""
    triples = {"Wien": [["Vienna", "is called", "Wien"]]}
    client = ScriptedModel(lambda request: reply(request, triples))
    index = build(tools=bench(client), documents=DOCUMENTS[2:3])
    cosine = csr_array(np.array([[0, 0.9], [0.9, 0]]))
    edges, weights = index.parts.table.edges(cosine)
    assert edges.tolist() == [[0, 1], [1, 0], [2, 0], [2, 1]]
    assert weights.tolist() == [0.9, 0.9, 1.0, 1.0]


@pytest.mark.parametrize("question", ["What was it?", "", "Who wrote Hamlet?"])
def test_a_question_that_names_nothing_known_is_answered_by_embedding(question: str) -> None:
    found = find(build(SENTENCES), question)
    assert [each.passage.id for each in found] == ["film", "director", "town", "other"]
    assert {each.why for each in found} == {"no fact fits; near to the question"}
    assert found[0].passage.score == pytest.approx(0.5, abs=1e-6)


def test_passages_without_text_or_names_are_found_by_embedding_alone() -> None:
    documents = [*DOCUMENTS, Document(id="empty", title="", text=""), Document(id="dull", title="", text="so it is")]
    found = find(build(SENTENCES, documents=documents), k=10)
    assert {each.passage.id for each in found} == {document.id for document in documents}
    assert scores(found)["empty"] == scores(found)["dull"] == 0.0


@pytest.mark.parametrize("config", [PAPER, SENTENCES])
def test_one_passage_is_an_index_too(config: HippoRagConfig) -> None:
    assert scores(find(build(config, documents=DOCUMENTS[:1]))) == {"film": 1.0}


def test_passages_that_say_the_same_come_in_the_order_of_the_documents() -> None:
    twins = [replace(DOCUMENTS[1], id="b"), replace(DOCUMENTS[1], id="a")]
    found = find(build(SENTENCES, documents=twins), "Where was Fritz Lang born?")
    assert [each.passage.id for each in found] == ["b", "a"]
    assert found[0].passage.score == found[1].passage.score


def test_no_passage_is_found_when_none_is_asked_for() -> None:
    assert find(build(), k=0) == []


@pytest.mark.parametrize("config", [PAPER, SENTENCES])
def test_a_saved_index_finds_the_same(tmp_path: Path, config: HippoRagConfig) -> None:
    index = build(config)
    index.save(tmp_path)
    opened = BACKEND.open(tmp_path, DOCUMENTS, config, bench())
    assert find(opened) == find(index) == find(build(config))
    with pytest.raises(RetrievalError):
        BACKEND.open(tmp_path / "none", DOCUMENTS, config, bench())


def test_an_index_says_how_synonyms_were_searched_and_an_earlier_one_that_all_were_compared(tmp_path: Path) -> None:
    parts = replace(build(SENTENCES).parts, lost=2, searched=(8, 0.995))
    HippoRagIndex(parts, DOCUMENTS, SENTENCES, bench()).save(tmp_path)
    opened = cast(HippoRagIndex, BACKEND.open(tmp_path, DOCUMENTS, SENTENCES, bench()))
    assert opened.stats == {
        "facts": 4, "phrases": 7, "lost_passages": 2, "synonym_lists": 8, "synonym_recall": 0.995
    }  # fmt: skip
    np.save(tmp_path / "lost.npy", 3)
    earlier = cast(HippoRagIndex, BACKEND.open(tmp_path, DOCUMENTS, SENTENCES, bench()))
    assert earlier.stats == {"facts": 4, "phrases": 7, "lost_passages": 3}


def test_more_phrases_than_are_compared_are_searched_among_lists() -> None:
    names = ["".join(letters).title() for letters in islice(product("abcdefg", repeat=4), 1200)]
    documents = [Document(id=name, title=name, text=f"{name} is a town.") for name in names]
    tools = Workbench(encoder=cast(Any, CrowdEncoder()))
    exact, listed = (build(replace(SENTENCES, compared_up_to=size), tools, documents) for size in (1200, 1199))
    assert "synonym_lists" not in exact.stats
    assert listed.stats["synonym_lists"] > 0
    assert listed.stats["synonym_recall"] >= 0.99
    found, wanted = (
        {(name, each.passage.id) for name in names[::60] for each in find(index, f"Where is {name}?", 10)}
        for index in (listed, exact)
    )
    assert len(found & wanted) >= 0.98 * len(wanted) == 0.98 * 200


@pytest.mark.parametrize("config", [PAPER, SENTENCES])
def test_an_index_with_more_added_finds_what_one_of_all_does(config: HippoRagConfig) -> None:
    encoder, client = PhraseEncoder(COSINES), ScriptedModel(reply)
    index = build(config, bench(client, encoder), DOCUMENTS[:2])
    encoder.encoded.clear()
    client.requests.clear()
    assert BACKEND.add is not None
    grown = run(cast(Any, BACKEND.add(index, DOCUMENTS, config, bench(client, encoder))))
    assert find(grown) == find(build(config))
    assert not {"metropolis", "Metropolis\nMetropolis was directed by Fritz Lang."} & set(encoder.encoded)
    assert len(client.requests) == (4 if config.facts == "model" else 0)


@pytest.mark.parametrize("call", ["extract_names", "extract_triples"])
@pytest.mark.parametrize("fault", ["cut", "malformed", "of another form"])
def test_a_reply_that_cannot_be_used_loses_the_facts_of_its_passage_alone(call: str, fault: str) -> None:
    def is_hit(request: Request) -> bool:
        return request.purpose == call and "Title: Oslo" in prompt_text(request)

    def script(request: Request) -> str:
        if fault != "cut" and is_hit(request):
            return "I see none." if fault == "malformed" else '{"facts": []}'
        return reply(request)

    client = CutModel(script, is_cut=lambda request: fault == "cut" and is_hit(request))
    index = build(tools=bench(client))
    assert index.parts.lost == 1
    assert index.parts.table.phrases.keys == list(PHRASES[:5])
    assert scores(find(index))["film"] == 1.0


def test_what_names_nothing_is_no_phrase() -> None:
    triples = TRIPLES | {"Oslo": [["It", "lies in", "Norway"], ["Oslo", "is", "…"], ["Oslo", "lies in", "Norway"]]}
    index = build(tools=bench(ScriptedModel(lambda request: reply(request, triples))))
    assert [fact.text for fact in index.parts.table.facts[3:]] == ["Oslo lies in Norway"]


def test_what_is_called_as_a_pronoun_is_a_phrase_where_the_passage_names_it() -> None:
    triples = {"It": [["It", "was written by", "Stephen King"], ["Pete Townshend", "plays in", "The Who"]]}
    client = ScriptedModel(lambda request: reply(request, triples))
    index = build(tools=bench(client), documents=[Document(id="it", title="It", text="A novel.")])
    assert list(index.parts.table.phrases.keys) == ["it", "stephen king", "pete townshend", "who"]


@pytest.mark.parametrize(
    ("one", "other", "is_joined"),
    [("1920 Olympics", "1924 Olympics", False), ("1920 Olympics", "Olympics 1920", True), ("Rome", "Roma", True)],
)
def test_phrases_whose_numbers_differ_are_not_of_one_meaning(one: str, other: str, is_joined: bool) -> None:
    """However near their embeddings are: here they are the same. Synonyms alone lead from one to the other."""
    triples = {"First": [[one, "is in", "Antwerp"]], "Second": [[other, "is in", "Paris"]]}
    client, encoder = ScriptedModel(lambda request: reply(request, triples)), TableEncoder({"antwerp": 1, "paris": -1})
    documents = [Document(id=title, title=title, text="") for title in triples]
    parts = build(tools=bench(client, encoder), documents=documents).parts
    phrases = list(parts.table.phrases.keys)
    reached = parts.graph.page_rank(np.eye(len(phrases) + 2)[phrases.index(one.lower())], 0.5)
    assert bool(reached[phrases.index("paris")] > 0) == is_joined


def test_a_triple_is_asked_for_with_the_names_that_were_found() -> None:
    client = ScriptedModel(reply)
    build(tools=bench(client), documents=DOCUMENTS[:1])
    assert [request.purpose for request in client.requests] == ["extract_names", "extract_triples"]
    assert prompt_text(client.requests[1]).endswith('Names: ["Fritz Lang", "Metropolis"]')


def filtering(useful: str) -> Workbench:
    """A workbench whose model says that these facts are useful."""
    return bench(ScriptedModel(lambda request: useful if request.purpose == "filter_facts" else reply(request)))


def test_a_model_says_which_of_the_nearest_facts_the_walk_begins_with() -> None:
    config = replace(PAPER, filter="model")
    tools = filtering('{"useful": [1, 7]}')
    assert find(build(config, tools)) == find(build(replace(PAPER, top_facts=1)))
    asked = prompt_text(cast(ScriptedModel, tools.model.client).requests[-1])
    facts = "1. Metropolis was directed by Fritz Lang\n2. Fritz Lang was born in Vienna\n"
    assert facts in asked
    assert f"Question: {QUESTION}" in asked


def test_passages_come_by_embedding_when_the_model_holds_no_fact_useful() -> None:
    found = find(build(replace(PAPER, filter="model"), filtering('{"useful": []}')))
    assert found[0].why == "no fact fits; near to the question"


def test_a_reply_of_the_filter_that_cannot_be_used_leaves_no_fact() -> None:
    """As published: what a filter does not vouch for leads nowhere."""
    none = find(build(replace(PAPER, filter="model"), filtering('{"useful": []}')))
    assert find(build(replace(PAPER, filter="model"), filtering("none of them"))) == none


@pytest.mark.parametrize(
    ("config", "asks"),
    [(SENTENCES, []), (PAPER, ["build"]), (HippoRagConfig(), ["build", "find"])],
)
def test_a_model_is_asked_only_where_the_configuration_says_so(config: HippoRagConfig, asks: list[str]) -> None:
    assert BACKEND.asks_model(config) == asks
