"""The hypergraph of facts: the published ranking by hand and read slowly, passages, and a model's facts."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.cut_replies import CutModel
from tests.support.scripted import Script, ScriptedModel, prompt_text
from trailforge.inference import Meter
from trailforge.inference.asker import Asker
from trailforge.retrieval.backends import Workbench, load_backend
from trailforge.retrieval.backends.facts import Fact, sentence_facts
from trailforge.retrieval.backends.facts import FactEntity as Joined
from trailforge.retrieval.backends.graph import NameFinder
from trailforge.retrieval.backends.hyper_graph_rag import HyperGraphRagConfig, HyperGraphRagIndex, join_facts
from trailforge.retrieval.backends.vectors import Vectors
from trailforge.schemas import Document, RetrievalError

BACKEND = load_backend("hyper_graph_rag")
RECORDED = Path(__file__).parent / "facts_read_by_a_strong_model.json.gz"
DOCUMENTS = (
    Document(id="a", title="Metropolis (1927 film)", text="Metropolis is a silent film. Fritz Lang directed it."),
    Document(id="b", title="Fritz Lang", text="Fritz Lang was born in Vienna. He died in Beverly Hills."),
    Document(id="c", title="Vienna", text="Vienna is the capital of Austria."),
    Document(id="d", title="Austria", text="Vienna is the capital of Austria."),
)
LANG_DIRECTED = Fact("Fritz Lang directed Metropolis.", 9.0, (Joined("Metropolis", 90.0), Joined("Fritz Lang", 80.0)))
LANG_BORN = Fact("Fritz Lang was born in Vienna.", 10.0, (Joined("Fritz Lang", 100.0), Joined("Vienna", 60.0)))
LANG_DIED = Fact("Fritz Lang died in Beverly Hills.", 8.0, (Joined("Fritz Lang", 100.0), Joined("Beverly Hills", 50.0)))
CAPITAL = Fact("Vienna is the capital of Austria.", 10.0, (Joined("Vienna", 100.0), Joined("the Austria", 70.0)))
AGAIN = CAPITAL._replace(text="vienna is the capital of Austria")
FACTS = ((LANG_DIRECTED,), (LANG_BORN, LANG_DIED), (CAPITAL,), (AGAIN,))
NEARNESS = {"Fritz Lang": 0.9, "Vienna": 0.8, LANG_DIRECTED.text: 0.9, LANG_BORN.text: 0.8}
"""To every query; 0.1 for all else."""


class _TableEncoder:
    """Vectors of two dimensions, of which the first is the nearness to any query."""

    dimension = 2
    per_shard = 1024

    def __init__(self, nearness: dict[str, float]) -> None:
        self._nearness = nearness

    async def query(self, text: str) -> np.ndarray:
        return np.array([1.0, 0.0], np.float32)

    async def documents(self, texts: Sequence[str]) -> np.ndarray:
        return self.encode(texts)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        cosines = np.array([self._nearness.get(text.partition(", x")[0], 0.1) for text in texts])
        return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1).astype(np.float32).reshape(-1, 2)


def index_of(
    facts: Sequence[Sequence[Fact] | None],
    config: HyperGraphRagConfig,
    nearness: dict[str, float] = NEARNESS,
    documents: Sequence[Document] = DOCUMENTS,
) -> HyperGraphRagIndex:
    encoder: Any = _TableEncoder(nearness)
    graph, _ = join_facts(facts, len(documents))
    entities, texts = (Vectors(encoder.encode(each.to_pylist())) for each in (graph.names, graph.texts))
    return HyperGraphRagIndex(documents, config, encoder, graph, entities, texts, NameFinder.of(documents))


def workbench(nearness: dict[str, float], script: Script = str) -> Workbench:
    encoder: Any = _TableEncoder(nearness)
    return Workbench(encoder=encoder, asker=asker_of(ScriptedModel(script)))


def asker_of(client: ScriptedModel) -> Asker:
    return Asker(client=client, model="m", style="chat", seed=0, meter=Meter())


SENTENCES = HyperGraphRagConfig(facts="sentences", unit="passages")
"""As the plain build."""
TWO = replace(SENTENCES, entities=2, hyperedges=2)


async def test_the_published_ranking_by_hand() -> None:
    """Degrees: Lang 3 facts, Vienna 2; each fact has 2 entities. List 1, by degrees together and weight: of Lang born
    (5, 100), died (5, 100), directed (5, 80); of Vienna capital (4, 200: two passages state it), born (4, 60). List 2,
    of the two nearest facts by weight: born 10, directed 9. So born has 1/1 + 1/5 + 1/1, directed 1/3 + 1/2, died 1/2,
    capital 1/4.
    """
    found = await index_of(FACTS, TWO).find("q", 9)
    assert [(each.passage.id, each.passage.score) for each in found] == [
        ("b", 2.2),
        ("a", 0.833333),
        ("c", 0.25),
        ("d", 0.25),
    ]
    assert found[0].why == (
        "“Fritz Lang was born in Vienna.” (of Fritz Lang, of Vienna, near the query); "
        "“Fritz Lang died in Beverly Hills.” (of Fritz Lang)"
    )
    assert [each.sources for each in found] == [("b",), ("a",), ("c",), ("d",)]


async def test_facts_can_be_what_is_found() -> None:
    found = await index_of(FACTS, replace(SENTENCES, entities=2, hyperedges=2, unit="facts")).find("q", 9)
    assert [(each.passage.text, each.passage.score, each.sources) for each in found] == [
        (LANG_BORN.text, 2.2, ("b",)),
        (LANG_DIRECTED.text, 0.833333, ("a",)),
        (LANG_DIED.text, 0.5, ("b",)),
        (CAPITAL.text, 0.25, ("c", "d")),
    ]
    assert [(each.passage.id, each.passage.title) for each in found[:1]] == [("fact-1", "Fritz Lang")]


async def test_both_lists_can_go_by_similarity() -> None:
    """List 1: of Lang directed (.9), born (.8; of Vienna again), died (.1), capital (.1). List 2: directed, born."""
    found = await index_of(FACTS, replace(SENTENCES, entities=2, hyperedges=2, order="similarity")).find("q", 9)
    scores = [(each.passage.id, each.passage.score) for each in found]
    assert scores == [("a", 2.0), ("b", round(1 / 2 + 1 / 3 + 1 / 2, 6)), ("c", 0.2), ("d", 0.2)]


async def test_a_search_can_begin_with_what_the_query_names() -> None:
    """A list for each: of Austria capital; of Vienna capital, born (less weight). Near is directed."""
    config = replace(SENTENCES, entities=2, hyperedges=1, seeds="names")
    index = index_of(FACTS, config)
    found = await index.find("Is Vienna in Austria?", 9)
    scores = [(each.passage.id, each.passage.score) for each in found]
    assert scores == [("c", 2.0), ("d", 2.0), ("a", 1.0), ("b", 0.5)]
    assert found[0].why == "“Vienna is the capital of Austria.” (of Vienna, of the Austria)"
    assert await index.find("Who was it?", 9) == await index_of(FACTS, replace(config, seeds="query")).find("q", 9)


async def test_what_no_entity_leads_to_comes_by_similarity() -> None:
    alone = {"Fritz Lang": 0.9, LANG_BORN.text: 0.95, CAPITAL.text: 0.3}
    found = await index_of(FACTS, replace(SENTENCES, entities=1, hyperedges=1), alone).find("q", 9)
    assert [(each.passage.id, each.passage.score) for each in found] == [
        ("b", 2.0),
        ("a", round(1 / 3, 6)),
        ("c", -0.7),
        ("d", -0.7),
    ]
    assert found[2].why == "“Vienna is the capital of Austria.” (near the query)"


def _slowly(
    facts: Sequence[Sequence[Fact]], nearness: dict[str, float], entities: int, hyperedges: int
) -> dict[str, float]:
    """Coherence of facts, read off the published environment: two lists in full, then 1/rank summed."""
    stated: dict[str, float] = {}
    joined: dict[tuple[str, str], float] = {}
    for fact in (fact for passage in facts for fact in passage):
        stated[fact.text] = stated.get(fact.text, 0) + fact.weight
        for each in fact.entities:
            joined.setdefault((each.name, fact.text), 0)
            joined[each.name, fact.text] += each.weight
    names = sorted(dict.fromkeys(name for name, _ in joined), key=lambda name: -nearness[name])[:entities]
    degree = {node: sum(node in pair for pair in joined) for pair in joined for node in pair}
    pairs = [pair for name in names for pair in joined if pair[0] == name]
    pairs.sort(key=lambda pair: (-(degree[pair[0]] + degree[pair[1]]), -joined[pair]))
    near = sorted(sorted(stated, key=lambda text: -nearness[text])[:hyperedges], key=lambda text: -stated[text])
    coherence: dict[str, float] = {}
    for ranked in ([text for _, text in pairs], near):
        for rank, text in enumerate(ranked, start=1):
            coherence[text] = coherence.get(text, 0) + 1 / rank
    return coherence


@pytest.mark.parametrize("seed", range(12))
async def test_any_graph_is_ranked_as_a_slow_reading_ranks_it(seed: int, tmp_path: Path) -> None:
    """Also when it was saved and opened; fewer results are the first of more, and every passage is found once."""
    rng = random.Random(seed)
    names = [f"name{n}" for n in range(rng.randint(1, 9))]
    documents = [Document(id=str(n), title="", text="") for n in range(rng.randint(1, 12))]
    facts = [
        [
            Fact(f"fact{row} {n}", rng.random() * 10, tuple(Joined(name, rng.random() * 100) for name in some))
            for n in range(rng.randint(1, 3))
            for some in [rng.sample(names, rng.randint(0, min(4, len(names))))]
        ]
        for row in range(len(documents))
    ]
    nearness = {each: rng.random() for each in [*names, *(fact.text for passage in facts for fact in passage)]}
    entities, hyperedges = rng.randint(1, 6), rng.randint(1, 6)
    config = replace(SENTENCES, entities=entities, hyperedges=hyperedges, unit="facts")
    index = index_of(facts, config, nearness, documents)
    slow = _slowly(facts, nearness, entities, hyperedges)
    found = await index.find("q", 99)
    assert {each.passage.text: each.passage.score for each in found} == {
        text: pytest.approx(score, abs=1e-6) for text, score in slow.items()
    }, "of facts those of the two lists alone, as published"
    assert [each.passage.score for each in found] == sorted((each.passage.score for each in found), reverse=True)
    assert len({each.passage.id for each in found}) == len(found)
    passages = index_of(facts, replace(SENTENCES, entities=entities, hyperedges=hyperedges), nearness, documents)
    passages.save(tmp_path)
    tools = workbench(nearness)
    opened = BACKEND.open(tmp_path, documents, passages.config, tools)
    every = await passages.find("q", 99)
    assert sorted(each.passage.id for each in every) == sorted(document.id for document in documents)
    for k in (1, 2, 5, 99):
        assert await opened.find("q", k) == every[:k]


def test_sentences_are_facts_about_their_names_and_the_title() -> None:
    facts = sentence_facts(DOCUMENTS, NameFinder.of(DOCUMENTS))
    assert [[(fact.text, {each.name for each in fact.entities}) for fact in stated] for stated in facts[:2]] == [
        [
            ("Metropolis (1927 film). Metropolis is a silent film.", {"metropolis"}),
            ("Metropolis (1927 film). Fritz Lang directed it.", {"metropolis", "fritz lang"}),
        ],
        [
            ("Fritz Lang. Fritz Lang was born in Vienna.", {"fritz lang", "vienna"}),
            ("Fritz Lang. He died in Beverly Hills.", {"fritz lang", "beverly hills"}),
        ],
    ]


async def test_without_a_model_an_index_is_built_of_sentences() -> None:
    nearness = {"metropolis": 0.9, "Metropolis (1927 film). Fritz Lang directed it.": 0.9}
    tools = workbench(nearness)
    index = await BACKEND.build(DOCUMENTS, replace(SENTENCES, entities=1, hyperedges=1), tools)
    assert [each.passage.id for each in await index.find("q", 2)] == ["a", "b"]
    assert await index.find("q", 0) == []
    assert BACKEND.asks_model(SENTENCES) == ()


@pytest.mark.parametrize("unit", ["passages", "facts"])
async def test_a_corpus_without_a_word_finds_what_there_is(unit: Any) -> None:
    tools = workbench({})
    assert await (await BACKEND.build([], replace(SENTENCES, unit=unit), tools)).find("q", 3) == []
    empty = [Document(id="0", title="", text=""), Document(id="1", title="", text="??")]
    index = await BACKEND.build(empty, replace(SENTENCES, unit=unit), tools)
    assert len(await index.find("q", 3)) == 2


def test_a_damaged_index_says_that_it_has_to_be_built_again(tmp_path: Path) -> None:
    index_of(FACTS, TWO).save(tmp_path)
    (tmp_path / "texts.arrow").write_bytes(b"nothing")
    tools = workbench({})
    with pytest.raises(RetrievalError, match="build the index again"):
        BACKEND.open(tmp_path, DOCUMENTS, TWO, tools)


ASKED = HyperGraphRagConfig(unit="passages", entities=2, hyperedges=2)


def reply_of(*facts: Fact) -> str:
    """What a model would reply that reads these facts out of a passage."""
    described = {each.name: each for fact in facts for each in fact.entities}
    entities = [
        {"name": m.name, "type": "x", "description": m.about, "importance": m.weight} for m in described.values()
    ]
    named = [{"fact": f.text, "completeness": f.weight, "entities": [m.name for m in f.entities]} for f in facts]
    return json.dumps({"entities": entities, "facts": named})


def script_of(replies: Mapping[str, Sequence[str]]) -> Script:
    """Replies by the passage's title, one for each time that facts of it are asked for; then there are no more."""

    def script(request: Any) -> str:
        first = request.prompt[0].content
        title = next(title for title in replies if f"\nTitle: {title}\n" in first)
        known = first.partition("there already:\n")[2].partition("\n\n")[0]
        rounds = [*replies[title], reply_of()]
        stated = 0
        while known.count("- ") > stated and len(rounds) > 1:
            stated += len(json.loads(rounds.pop(0))["facts"])
        return rounds[0]

    return script


async def test_a_model_reads_facts_and_is_asked_again_for_what_it_left_out() -> None:
    replies = {
        DOCUMENTS[0].title: [reply_of(LANG_DIRECTED)],
        DOCUMENTS[1].title: [reply_of(LANG_BORN), reply_of(LANG_DIED)],
        DOCUMENTS[2].title: [reply_of(CAPITAL)],
        DOCUMENTS[3].title: [reply_of(AGAIN)],
    }
    tools = workbench(NEARNESS, script_of(replies))
    index = await BACKEND.build(DOCUMENTS, ASKED, tools)
    assert await index.find("q", 9) == await index_of(FACTS, TWO).find("q", 9)
    prompts = [prompt_text(request) for request in tools.model.client.requests]  # type: ignore[attr-defined]
    assert len(prompts) == 4 + 4 + 1
    of_lang = [prompt for prompt in prompts if "Title: Fritz Lang\n" in prompt]
    assert [prompt.count("\n- Fritz Lang was born in Vienna.") for prompt in of_lang] == [0, 1, 1]
    assert "\n- Fritz Lang died in Beverly Hills." in of_lang[2]
    assert list(BACKEND.asks_model(ASKED)) == ["build"]


@pytest.mark.parametrize("gleanings", [0, 1])
async def test_no_more_is_asked_than_so_many_gleanings(gleanings: int) -> None:
    endless = [reply_of(Fact(f"Fact {n}.", 9.0, ())) for n in range(9)]
    tools = workbench({}, script_of({DOCUMENTS[2].title: endless}))
    config = HyperGraphRagConfig(facts="model", gleanings=gleanings, unit="facts")
    index = await BACKEND.build(DOCUMENTS[2:3], config, tools)
    assert len(await index.find("q", 99)) == len(tools.model.client.requests) == 1 + gleanings  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["prose", "other form", "cut"])
async def test_a_reply_that_cannot_be_read_costs_its_passage_its_facts_and_is_counted(how: str, tmp_path: Path) -> None:
    good = script_of({document.title: [reply_of(CAPITAL)] for document in DOCUMENTS})
    bad = {"prose": "There are two facts.", "other form": '{"facts": ["Lang was born."]}', "cut": reply_of(LANG_BORN)}

    def is_bad(request: Any) -> bool:
        return "Title: Fritz Lang\n" in request.prompt[0].content

    client = CutModel(
        lambda request: bad[how] if is_bad(request) else good(request), lambda request: how == "cut" and is_bad(request)
    )
    tools = replace(workbench({}), asker=asker_of(client))
    index = await BACKEND.build(DOCUMENTS, ASKED, tools)
    assert [each.passage.id for each in await index.find("q", 9)] == ["a", "c", "d"]
    index.save(tmp_path)
    opened = BACKEND.open(tmp_path, DOCUMENTS, ASKED, tools)
    assert isinstance(opened, HyperGraphRagIndex) and opened.graph.lost == 1


async def test_what_was_read_stays_when_the_next_reply_cannot_be_read() -> None:
    tools = workbench({}, lambda request: "no JSON" if "there already" in prompt_text(request) else reply_of(CAPITAL))
    index = await BACKEND.build(DOCUMENTS[2:3], ASKED, tools)
    assert isinstance(index, HyperGraphRagIndex) and index.graph.lost == 0
    assert index.graph.texts.to_pylist() == [CAPITAL.text]


async def test_odd_replies_are_brought_into_form() -> None:
    """Weights within their bounds, one line, and an entity that only a fact names has the usual weight."""
    fact = {"fact": "Vienna is \n the capital of Austria.", "completeness": 11, "entities": ["vienna", "Austria", "!"]}
    entity = {"name": "Vienna", "type": "city", "description": "The\ncapital.", "importance": -3}
    empty = {"fact": " ", "completeness": 9, "entities": []}
    reply = json.dumps({"entities": [entity], "facts": [fact, empty]})
    tools = workbench(
        {}, lambda request: '{"entities": [], "facts": []}' if "there already" in prompt_text(request) else reply
    )
    index = await BACKEND.build(DOCUMENTS[2:3], ASKED, tools)
    assert isinstance(index, HyperGraphRagIndex)
    graph = index.graph
    assert graph.texts.to_pylist() == [CAPITAL.text] and graph.names.to_pylist() == ["Vienna", "Austria"]
    assert graph.weights.tolist() == [10.0] and graph.joins.toarray().tolist() == [[0.0], [50.0]]


def test_facts_in_other_words_are_several_and_in_other_marks_one() -> None:
    graph, described = join_facts(
        [
            [Fact("Vienna is the capital.", 5.0, (Joined("The Vienna", 1.0, "A capital."),))],
            None,
            [
                Fact("Vienna is the capital", 4.0, (Joined("vienna", 2.0, "On the Danube."),)),
                Fact("The capital is Vienna.", 3.0, ()),
            ],
        ],
        3,
    )
    assert graph.texts.to_pylist() == ["Vienna is the capital.", "The capital is Vienna."]
    assert graph.weights.tolist() == [9.0, 3.0] and graph.joins.toarray().tolist() == [[3.0, 0.0]]
    assert graph.sources.toarray().tolist() == [[1, 0, 1], [0, 0, 1]]
    assert described == ["The Vienna, A capital. On the Danube."] and graph.lost == 1


async def test_a_strong_models_facts_join_passages() -> None:
    """27 paragraphs of two questions of MuSiQue, with all that a strong model replied: prose once, fences once."""
    rows = json.loads(gzip.decompress(RECORDED.read_bytes()))
    documents = [Document(id=row["title"], title=row["title"], text=row["text"]) for row in rows]
    replies = {row["title"]: iter([*row["replies"], reply_of()]) for row in rows}

    def script(request: Any) -> str:
        asked = request.prompt[0].content
        return next(next(each for title, each in replies.items() if f"\nTitle: {title}\n" in asked))

    config = HyperGraphRagConfig(entities=999, hyperedges=999)  # all that there are
    index = await BACKEND.build(documents, config, workbench({}, script))
    assert isinstance(index, HyperGraphRagIndex)
    found = await index.find("q", 999)
    assert (index.graph.lost, len(found)) == (0, 104)
    texts = {document.id: document.text for document in documents}
    for each in found:
        (source,) = each.sources
        numbers = re.findall(r"\d+", each.passage.text)
        assert all(number in texts[source] + source for number in numbers), each.passage.text

    def passages_of(name: str) -> set[str]:
        facts = index.graph.joins[[index.rows[name]], :].indices
        return {documents[row].title for row in index.graph.sources[facts, :].indices}

    assert passages_of("phoebe atwood taylor") == {"Dead Ernest (novel)", "The Adventures of Leonidas Witherall"}
    assert {"Sweden at the 1920 Summer Olympics", "Vittorio Zucca"} < passages_of("1920 summer olympics")
    assert passages_of("sweden") >= {"Hans Edler", "Sweden at the 1920 Summer Olympics"}
