"""Which graph a run is over: its content decides, a damaged one is refused, and so is a date that is none."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pipelines.kg_support import FREE, WRITTEN
from tests.support.kg_agent import paths_store
from tests.support.kg_worlds import film_store
from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_trajectories.config import KgRunConfig, configure
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.presets import load_preset
from trailforge.retrieval.kg.layout import MANIFEST
from trailforge.schemas import InvalidInput, RetrievalError, from_dict
from trailforge.training.config import load_train_preset


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return paths_store(tmp_path / "graph").folder


def test_the_content_of_the_graph_decides_and_not_its_place(graph: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(graph, tmp_path / "elsewhere"))
    other = film_store(tmp_path / "films").folder
    for config in (FREE, WRITTEN):
        assert config.on_graph(graph).hash == config.on_graph(moved).hash != config.on_graph(other).hash
        assert config.on_graph(moved).kg == str(moved)
    assert replace(FREE, kg=str(graph)).on_graph(None).kg_hash == FREE.on_graph(graph).kg_hash


@pytest.mark.parametrize("name", ["out.neighbours.npy", MANIFEST])
def test_a_graph_that_was_cut_short_is_refused_before_anything_is_written(graph: Path, name: str) -> None:
    content = (graph / name).read_bytes()
    (graph / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(RetrievalError, match=rf"{name} is (missing or )?damaged: build the store again"):
        FREE.on_graph(graph)
    (graph / name).unlink()
    with pytest.raises((RetrievalError, InvalidInput), match=r"build the store again|holds no knowledge graph"):
        WRITTEN.on_graph(graph)


def test_a_graph_with_another_bit_is_refused_before_anything_is_written(graph: Path) -> None:
    path = graph / "out.neighbours.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for config in (FREE, WRITTEN):
        with pytest.raises(RetrievalError, match=r"out\.neighbours\.npy is damaged: build the store again"):
            config.on_graph(graph)


@pytest.mark.parametrize("as_of", ["2019", "2019-07", "2019-07-01", ""])
def test_a_date_is_a_day_a_month_or_a_year(as_of: str) -> None:
    assert KgQuestionRunConfig(as_of=as_of).as_of == as_of


@pytest.mark.parametrize(
    "as_of", ["19", "2019-7", "2019-13", "2019-02-30", "2019-07-01T00:00", "2019-07-01-01", "July"]
)
def test_what_is_no_date_is_refused(as_of: str) -> None:
    with pytest.raises(InvalidInput, match="is no date as 2019-07-01, 2019-07 or 2019"):
        KgQuestionRunConfig(as_of=as_of)


def test_no_path_is_too_few() -> None:
    with pytest.raises(InvalidInput, match="has to be 1 or more"):
        KgQuestionRunConfig(count=0)


def paper_config() -> KgRunConfig:
    content = load_preset("dynasearcher", "kg_trajectories")
    return from_dict(KgRunConfig, {name: section for name, section in content.items() if name != "server"})


def test_the_papers_preset_searches_a_corpus_that_has_to_be_said_before_a_graph_is_read(graph: Path) -> None:
    paper = paper_config()
    assert paper.retrieval.scope == "corpus"
    with pytest.raises(InvalidInput, match=r"give --documents .* or search each question's own paragraphs: --scope"):
        configure(paper, RunInputs(dataset="kg_trajectories", options={"kg": graph / "nowhere"}))
    both = {"scope": "question", "documents": graph}
    with pytest.raises(InvalidInput, match="leave --documents out"):
        configure(paper, RunInputs(dataset="kg_trajectories", options=both))


def test_training_searches_with_the_encoder_and_the_prefixes_that_data_is_made_with() -> None:
    paper = paper_config()
    training = load_train_preset("dynasearcher").retrieval
    for name in ("kind", "encoder", "query_prefix", "passage_prefix"):
        assert getattr(training, name) == getattr(paper.retrieval, name), name
    assert training.graph == paper.generator.kg


def test_the_web_is_searched_in_place_of_a_corpus_and_wants_its_key_first(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def configured(**options: object) -> KgRunConfig:
        given = {"kg": graph, "retrieval": "web"} | options
        return configure(paper_config(), RunInputs(dataset="kg_trajectories", options=given))

    monkeypatch.setenv("TAVILY_API_KEY", "k")
    retrieval = configured().retrieval
    assert retrieval.kind == "web" and not retrieval.searches_paragraphs
    for options in ({"scope": "question"}, {"documents": graph}):
        with pytest.raises(InvalidInput, match=r"the web is searched.*leave them out"):
            configured(**options)
    with pytest.raises(InvalidInput, match=r"--retrieval.*'solr' is none of dense, bm25"):
        configured(retrieval="solr")
    assert configured(retrieval="bm25", scope="question").retrieval.searches_paragraphs
    assert [configured(**each).generator.kg_filter for each in ({}, {"kg_filter": "first"})] == ["model", "first"]
    with pytest.raises(InvalidInput, match="expected model, asked, first, none"):
        configured(kg_filter="best")
    monkeypatch.delenv("TAVILY_API_KEY")
    with pytest.raises(InvalidInput, match="set the environment variable TAVILY_API_KEY"):
        configured()
