"""What agents read of what a search found: the same filters for data, evaluation and training."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.retrieval.kg.support import store_of
from tests.retrieval.service.support import serving
from tests.support.recorded import recorded
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.inference import Request
from trailforge.inference.thread_safe import ServedModel
from trailforge.protocols import KG_SEARCH, SEARCH_R1
from trailforge.protocols.environment import Environment, EnvironmentConfig, GraphFound, open_environment
from trailforge.protocols.grammar import Grammar
from trailforge.protocols.result_filters import ResultFilter
from trailforge.protocols.turns import Observation, Search
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.base import SearchPatience
from trailforge.retrieval.kg import KgTool
from trailforge.retrieval.service.server import SearchServer
from trailforge.schemas import Document, InvalidInput, RetrievalError, ServerUnavailable

DOCUMENTS = [Document(id=str(n), title=f"Title {n}", text=f"Fritz Lang made film number {n}.") for n in range(1, 5)]
SEARCH = Search(query="What did Fritz Lang make?", entities=("Fritz Lang",), relations=("director",))


def triples(count: int) -> list[tuple[str, str, str]]:
    return [(f"F{n}", "director", "Q1") for n in range(count)]


async def searched(tmp_path: Path, films: int, filters: ResultFilter, grammar: str = "graph") -> Observation:
    pytest.importorskip("rapidfuzz")
    names = {"Q1": ["Fritz Lang"]} | {f"F{n}": [f"Film {n}"] for n in range(films)}
    store = store_of(tmp_path / f"store-{films}-{filters.rule}", triples(films), names)
    environment = Environment(documents=Bm25Retriever(DOCUMENTS), kg=KgTool(store), filters=filters, top_k=3)
    return await environment.respond(KG_SEARCH if grammar == "graph" else SEARCH_R1, "Which film?")(SEARCH)


def keeping(numbers: list[int]) -> ScriptedModel:
    return ScriptedModel(lambda request: json.dumps({"keep": numbers}))


@pytest.mark.parametrize(("films", "asked"), [(5, False), (6, True)])
async def test_the_triples_filter_is_asked_only_where_it_has_to_choose(tmp_path: Path, films: int, asked: bool) -> None:
    model = keeping([2])
    found = await searched(tmp_path, films, ResultFilter(rule="model", client=model, model="m"))
    assert len(found.triples) == (1 if asked else films) and len(model.requests) == asked
    assert isinstance(found.detail, GraphFound) and len(found.detail.found.triples) == films


@pytest.mark.parametrize("grammar", ["graph", "documents"])
async def test_the_filter_of_documents_keeps_those_that_help_in_their_order(tmp_path: Path, grammar: str) -> None:
    model = keeping([3, 1, 9])
    plain = await searched(tmp_path, 1, ResultFilter(), grammar)
    found = await searched(tmp_path / "again", 1, ResultFilter(documents="model", client=model, model="m"), grammar)
    assert [p.title for p in found.passages] == [plain.passages[0].title, plain.passages[2].title]
    (request,) = model.requests
    assert request.purpose == "keep_documents" and f"2. ({plain.passages[1].title})" in prompt_text(request)
    nothing = ResultFilter(documents="model", client=keeping([]), model="m")
    assert (await searched(tmp_path / "none", 1, nothing, grammar)).passages == ()


def test_a_filter_that_asks_a_model_wants_one(tmp_path: Path) -> None:
    """Also where nobody said so: triples are filtered as the data were made, and never by another rule in silence."""
    for config in (EnvironmentConfig(kind="bm25"), EnvironmentConfig(kind="bm25", kg_filter="model")):
        with pytest.raises(InvalidInput, match="--kg-filter first"):
            open_environment(KG_SEARCH, DOCUMENTS, search=config, kg=tmp_path)
        assert open_environment(SEARCH_R1, DOCUMENTS, search=config).filters.rule == "none"
    with pytest.raises(InvalidInput, match="url and model"):
        EnvironmentConfig(document_filter="model")
    with pytest.raises(InvalidInput, match="say which one"):
        ResultFilter(documents="model")


async def test_an_environment_that_is_opened_asks_the_model_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As training and evaluation open it, from whatever loop."""
    pytest.importorskip("rapidfuzz")
    asked: list[Request] = []

    class ThreadSafeModel:
        def check(self) -> None:
            pass

        async def complete(self, request: Request, meter: object = None) -> object:
            asked.append(request)
            return await keeping([1]).complete(request)

    monkeypatch.setattr(
        "trailforge.protocols.result_filters.open_thread_safe_model", lambda served, name: ThreadSafeModel()
    )
    store = store_of(tmp_path / "store", triples(7), {"Q1": ["Fritz Lang"]})
    config = EnvironmentConfig(
        kind="bm25",
        kg_filter="model",
        document_filter="model",
        filter_model=ServedModel(url="http://nobody", model="judge"),
    )
    environment = open_environment(KG_SEARCH, DOCUMENTS, search=config, kg=store.folder)
    found = await environment.respond(KG_SEARCH, "Which film?")(SEARCH)
    assert (len(found.triples), len(found.passages)) == (1, 1)
    assert {(request.purpose, request.model) for request in asked} == {
        ("keep_triples", "judge"),
        ("keep_documents", "judge"),
    }


@pytest.mark.parametrize("grammar", [KG_SEARCH, SEARCH_R1])
async def test_documents_come_from_the_web_and_triples_from_the_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grammar: Grammar
) -> None:
    pytest.importorskip("rapidfuzz")
    store = store_of(tmp_path / "store", triples(2), {"Q1": ["Fritz Lang"]})
    hits = [{"title": f"Page {n}", "url": f"https://a.example/{n}", "content": "Lang made M. " * 9} for n in range(4)]
    async with recorded(json.dumps({"results": hits})) as server:
        live = EnvironmentConfig(
            kind="web", web_url=server.url, web_interval_s=0.0, longest_web_passage=6, kg_filter="first"
        )
        monkeypatch.delenv("TAVILY_API_KEY", raising=False)
        with pytest.raises(InvalidInput, match="set the environment variable TAVILY_API_KEY"):
            open_environment(grammar, None, search=live, kg=store.folder)
        monkeypatch.setenv("TAVILY_API_KEY", "k")
        monkeypatch.setenv("no_proxy", "*")
        environment = open_environment(grammar, DOCUMENTS, search=live, kg=store.folder, top_k=3)
        found = await environment.respond(grammar, "Which film?")(SEARCH)
    assert [passage.id for passage in found.passages] == [f"https://a.example/{n}" for n in range(3)]
    assert {passage.text for passage in found.passages} == {"Lang made M. Lang made M. …"}
    assert len(found.triples) == (2 if grammar is KG_SEARCH else 0)
    assert server.asked == [{"query": SEARCH.query, "max_results": 3}]


async def test_a_graph_behind_a_server_gives_what_its_folder_does(tmp_path: Path) -> None:
    pytest.importorskip("rapidfuzz")
    store = store_of(
        tmp_path / "store", triples(3), {"Q1": ["Fritz Lang"]} | {f"F{n}": [f"Film {n}"] for n in range(3)}
    )
    config = EnvironmentConfig(kind="bm25", kg_filter="first")
    async with serving(SearchServer([], kg=KgTool(store))) as url:
        for kg in (str(store.folder), url):
            environment = await asyncio.to_thread(open_environment, KG_SEARCH, DOCUMENTS, search=config, kg=kg)
            found = await environment.respond_or_fail(KG_SEARCH, "Which film?")(SEARCH)
            assert isinstance(found.detail, GraphFound) and len(found.triples) == 3
            assert [match.label for each in found.detail.found.entities for match in each.matches] == ["Fritz Lang"]
    assert environment.patience == SearchPatience()
    down = replace(environment, patience=SearchPatience(timeout_s=0.1, attempts=1))
    assert "a search failed: " in (await down.respond_or_fail(KG_SEARCH, "Which film?")(SEARCH)).failure
    with pytest.raises(RetrievalError):
        await down.respond(KG_SEARCH, "Which film?")(SEARCH)


def test_a_filter_whose_server_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    """Before a graph is read. The option names another."""
    pytest.importorskip("openai")
    nobody = ServedModel(url="http://127.0.0.1:9/v1", model="judge")
    config = EnvironmentConfig(kind="bm25", filter_model=nobody)
    with pytest.raises(ServerUnavailable, match=r"judge at http://127\.0\.0\.1:9/v1 .*--kg-filter first") as caught:
        open_environment(KG_SEARCH, DOCUMENTS, search=config, kg=tmp_path)
    assert "\n" not in str(caught.value)
    other = config.filtered_by(None, "http://127.0.0.1:8/v1#mine")
    assert other.filter_model == replace(nobody, url="http://127.0.0.1:8/v1", model="mine")
    assert config.filtered_by("first", None).kg_filter == "first"
    with pytest.raises(InvalidInput, match="URL#MODEL"):
        config.filtered_by(None, "http://127.0.0.1:8/v1")
