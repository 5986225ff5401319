"""Rows are made over any back end, in memory, of an index or behind a URL, say so, and training opens the same."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pipelines.support import config_with, make_run, questions_file
from tests.support.indexes import save_index, serving
from tests.support.world import question
from trailforge.generators.mcts_trajectories.config import MctsRunConfig, configure
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.protocols.environment import Environment, EnvironmentConfig
from trailforge.retrieval import RetrievalConfig
from trailforge.retrieval.indexes.store import open_index
from trailforge.retrieval.scope import corpus_hash
from trailforge.retrieval.service.client import SearchClientConfig
from trailforge.schemas import Document, InvalidInput, RetrievalError, SftRow, Trajectory, read_rows
from trailforge.training.adapters.search_episodes import environment_of, read_settings
from trailforge.training.search_sources import open_training_environment

QUESTIONS = 2


def configured(retrieval: RetrievalConfig) -> MctsRunConfig:
    """As a command has it, once it has looked at what is searched."""
    return configure(config_with(retrieval=retrieval), RunInputs(dataset="mcts_trajectories"))


def rows_of(folder: Path, retrieval: RetrievalConfig) -> list[Trajectory]:
    """Of a run of the scripted model."""
    source = questions_file(folder.with_suffix(".jsonl"), count=QUESTIONS, broken_row=None)
    make_run(folder, source, configured(retrieval))
    rows = list(read_rows(sorted((folder / "mcts_trajectories").glob("*.parquet")), Trajectory))
    trained = list(read_rows(sorted((folder / "sft").glob("*.parquet")), SftRow))
    assert {row.provenance.retriever for row in trained} == {row.provenance.retriever for row in rows}
    return rows


def finds_the_same(environment: Environment, rows: list[Trajectory]) -> bool:
    """Whether an agent that asks what a row asked finds what the row found."""
    assert environment.documents is not None
    steps = [step for row in rows for step in row.steps if step.passages]
    found = [asyncio.run(environment.documents.retrieve(step.query, len(step.passages))) for step in steps]
    return bool(steps) and [list(step.passages) for step in steps] == found


@pytest.fixture(scope="module")
def passages() -> list[Document]:
    """The paragraphs of all questions as one corpus."""
    asked = [question(number, hops) for number in range(QUESTIONS) for hops in (2, 3, 4)]
    texts = {(each.title, each.text): each for one in asked for each in one.paragraphs}
    return [replace(document, id=str(number)) for number, document in enumerate(texts.values())]


@pytest.mark.real_model
def test_an_index_of_any_back_end_makes_rows_and_agents_search_the_same(
    tmp_path: Path, passages: list[Document]
) -> None:
    folder = save_index(passages, tmp_path / "index", "hybrid", query_prefix="query: ", passage_prefix="passage: ")
    rows = rows_of(tmp_path / "run", RetrievalConfig(scope="corpus", corpus_index=str(folder)))
    assert {row.provenance.retriever for row in rows} == {f"hybrid {corpus_hash(folder)[:12]}"}
    environment = open_training_environment("react", [folder])
    assert finds_the_same(environment, rows)
    assert environment.searched == {
        "documents": [corpus_hash(folder)],
        "retrieval": "hybrid",
        "encoder": "minilm",
        "query_prefix": "query: ",
        "passage_prefix": "passage: ",
        "kg": None,
    }
    assert finds_the_same(environment_of("react", read_settings({"documents": [str(folder)]})), rows)
    for said, problem in (
        (EnvironmentConfig(kind="dense"), "kind 'hybrid', not 'dense'"),
        (EnvironmentConfig(encoder="e5"), "encoder 'minilm', not 'e5'"),
    ):
        with pytest.raises(RetrievalError, match=f"was made with the {problem}"):
            open_training_environment("react", [folder], search=said)


@pytest.mark.real_model
def test_a_server_makes_the_rows_of_the_index_that_it_serves(tmp_path: Path, passages: list[Document]) -> None:
    folder = save_index(passages, tmp_path / "index", "linear_rag")
    by_index = rows_of(tmp_path / "run", RetrievalConfig(scope="corpus", corpus_index=str(folder)))
    with serving(open_index(folder)) as url:
        by_url = rows_of(tmp_path / "served", RetrievalConfig(kind=f"{url}/?corpus=wiki"))
        again = rows_of(tmp_path / "again", RetrievalConfig(scope="corpus", corpus_index=url))
        environment = open_training_environment("react", (), search=EnvironmentConfig(kind=url))
        assert finds_the_same(environment, by_index)
        with pytest.raises(RetrievalError, match="has wiki, not news"):
            configured(RetrievalConfig(kind=f"{url}/?corpus=news"))
    for rows in (by_url, again):
        assert [(row.uid, row.steps) for row in rows] == [(row.uid, row.steps) for row in by_index]
        assert {row.provenance.retriever for row in rows} == {row.provenance.retriever for row in by_index}
    assert environment.searched["retrieval"] == environment.retriever == by_index[0].provenance.retriever


def test_each_questions_paragraphs_are_searched_by_any_back_end(tmp_path: Path) -> None:
    rows = rows_of(tmp_path / "run", RetrievalConfig(kind="bm25", options={"k1": 0.9}))
    assert rows and {row.provenance.retriever for row in rows} == {"bm25"}


def test_where_a_corpus_is_does_not_decide_the_rows_and_what_is_in_it_does(tmp_path: Path) -> None:
    for name, text in (("a", "One."), ("b", "One."), ("c", "Other.")):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"text": "{text}"}}\n')
        save_index(tmp_path / f"{name}.jsonl", tmp_path / name, "bm25")
    for suffix in (".jsonl", ""):
        config = RetrievalConfig(kind="bm25", scope="corpus")
        here, there, other = (
            configured(replace(config, corpus_index=str(tmp_path / f"{name}{suffix}"))) for name in "abc"
        )
        assert here.hash == there.hash != other.hash
        assert here.retrieval.corpus_index != there.retrieval.corpus_index
    assert configured(replace(config, device="cuda:3", corpus_index=str(tmp_path / "a"))).hash == here.hash


def test_a_server_that_is_not_there_is_said_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trailforge.retrieval.scope._IN_TIME", SearchClientConfig(timeout_s=1.0, limit_s=1.0))
    with pytest.raises(RetrievalError, match=r"127\.0\.0\.1:9/.*is the search server up"):
        configured(RetrievalConfig(kind="http://127.0.0.1:9"))
    with pytest.raises(InvalidInput, match="is no address of a search server"):
        configured(RetrievalConfig(kind="http://:9"))
