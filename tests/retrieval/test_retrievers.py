"""Back ends by name: what is asked for is checked before anything is loaded, and nothing is taken that nobody said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.retrieval.support import DOCUMENTS, ids, run
from tests.support.indexes import save_index
from trailforge.commands.options import BACK_ENDS
from trailforge.protocols.environment import EnvironmentConfig
from trailforge.retrieval import RetrievalConfig, RetrieverConfig, check_retrieval, open_retrieval, open_tools
from trailforge.retrieval import retrievers as module
from trailforge.retrieval.backends import BACKENDS, PLAIN, load_backend
from trailforge.retrieval.backends.bm25 import Bm25Config
from trailforge.schemas import InvalidInput, Question, RetrievalError, from_dict, to_dict

QUESTION = Question(id="q", question="q", answer="a", paragraphs=DOCUMENTS)
CONFIGS = (RetrieverConfig, RetrievalConfig, EnvironmentConfig)


def test_help_lists_all_back_ends() -> None:
    assert tuple(BACK_ENDS.split(", ")) == tuple(name for name in BACKENDS if name not in PLAIN)


@pytest.mark.parametrize("record", CONFIGS)
def test_a_kind_is_a_back_end_the_web_or_an_address(record: type) -> None:
    for kind in (*BACKENDS, "web", "", "http://10.0.0.5:8990/?corpus=wiki", "https://search.example"):
        assert from_dict(record, {"kind": kind}).kind == kind
    with pytest.raises(
        InvalidInput, match=r"'solr' is none of dense, bm25, .*, web, nor the URL of a server"
    ) as caught:
        from_dict(record, {"kind": "solr"})
    assert caught.value.field == "kind"


@pytest.mark.parametrize("record", CONFIGS)
@pytest.mark.parametrize(
    ("content", "field", "problem"),
    [
        ({"kind": "bm25", "options": {"k2": 1.0}}, "options.k2", "unknown field of Bm25Config; options of bm25: k1, b"),
        ({"kind": "bm25", "options": {"k1": "much"}}, "options.k1", "expected float, got str"),
        ({"options": {"k1": 1.0}}, "options", "of which back end"),
        ({"kind": "web", "options": {"k1": 1.0}}, "options", "of which back end"),
        ({"kind": "bm25", "options": ["k1"]}, "options", "expected dict, got list"),
    ],
)
def test_options_are_those_of_the_back_end(record: type, content: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        from_dict(record, content)
    assert caught.value.field == field


def test_options_reach_the_back_end() -> None:
    config = RetrievalConfig(kind="bm25", options={"k1": 3, "b": 0.0})
    assert config.numbers("bm25") == Bm25Config(k1=3.0, b=0.0)
    assert from_dict(RetrievalConfig, to_dict(config)) == config

    async def scores(config: RetrievalConfig) -> list[float]:
        found = await (await open_retrieval(config).for_question(QUESTION)).retrieve("capital of Austria", 2)
        assert ids(found) == ["2", "3"]
        return [passage.score for passage in found]

    assert run(scores(config)) != run(scores(RetrievalConfig(kind="bm25")))
    assert config.of_kind("dense") == RetrievalConfig(kind="dense")
    assert config.of_kind("bm25") is config.of_kind(None) is config


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes BM25 one that asks a model."""

    def change(*when: str) -> None:
        changed = replace(load_backend("bm25"), asks_model=lambda config: when if config.k1 > 2 else ())
        monkeypatch.setattr(module, "load_backend", lambda name: changed)
        monkeypatch.setattr("trailforge.retrieval.scope.load_backend", lambda name: changed)

    return change


@pytest.mark.parametrize("when", ["build", "find"])
def test_nothing_is_built_in_memory_that_asks_a_model(asking: Callable[..., None], tmp_path: Path, when: str) -> None:
    """Who pays, and what goes on after a kill, is the matter of `trailforge index build`."""
    asking(when)
    config = RetrievalConfig(kind="bm25", options={"k1": 3.0})
    (tmp_path / "passages.jsonl").write_text('{"text": "Vienna"}\n')
    corpus = replace(config, scope="corpus", corpus_index=str(tmp_path / "passages.jsonl"))
    tools = RetrieverConfig(kind="bm25", options={"k1": 3.0})
    for look in (
        lambda: check_retrieval(config),
        lambda: open_retrieval(config),
        lambda: open_retrieval(corpus),
        lambda: open_tools(tools, []),
    ):
        with pytest.raises(InvalidInput, match=r"bm25 asks a model with these; .*trailforge index build") as caught:
            look()
        assert caught.value.field == "options"
    check_retrieval(RetrievalConfig(kind="bm25"))


def test_an_index_whose_searches_ask_a_model_is_to_be_served(asking: Callable[..., None], tmp_path: Path) -> None:
    folder = save_index(DOCUMENTS, tmp_path / "index", "bm25", Bm25Config(k1=3.0))
    config = RetrievalConfig(scope="corpus", corpus_index=str(folder))
    asking("build")
    assert open_retrieval(config).corpus is not None
    asking("find")
    for look in (check_retrieval, open_retrieval):
        with pytest.raises(InvalidInput, match=r"every search of this bm25 asks a model; serve it .*serve-search"):
            look(config)


def test_an_index_brings_its_back_end_and_its_numbers(tmp_path: Path) -> None:
    folder = save_index(DOCUMENTS, tmp_path / "index", "bm25", Bm25Config(k1=3.0))
    corpus = RetrievalConfig(scope="corpus", corpus_index=str(folder))
    assert corpus.encoder_name is None
    for said in ({}, {"kind": "bm25"}, {"kind": "bm25", "options": {"k1": 3.0}}, {"encoder": "e5"}):
        assert open_retrieval(replace(corpus, **said)).name.startswith("bm25 ")
    with pytest.raises(RetrievalError, match=r"the options\.k1 3\.0, not 2\.0; .* preset .*options\.k1: 3.*--set k1=2"):
        check_retrieval(replace(corpus, kind="bm25", options={"k1": 2.0}))
    with pytest.raises(RetrievalError, match=r"kind 'bm25', not 'dense'; give --retrieval .bm25., or build it"):
        check_retrieval(replace(corpus, kind="dense"))
