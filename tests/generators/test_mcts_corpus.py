"""What a run of MCTS trajectories searches: the corpus that is named, or each question's own paragraphs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import world
from tests.support.world import write_questions
from trailforge.generators.mcts_trajectories.config import MctsRunConfig, configure
from trailforge.pipelines.runs.config import read_config
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.presets import load_preset
from trailforge.schemas import InvalidInput
from trailforge.schemas.errors import NOTICE


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    texts = [{"title": d.title, "text": d.text} for n in range(3) for d in world.question(n, 2).paragraphs]
    path.write_text("".join(json.dumps({"id": str(n), **text}) + "\n" for n, text in enumerate(texts)))
    return path


def configured(preset: str, *files: Path, **options: Any) -> MctsRunConfig:
    config = read_config(MctsRunConfig, load_preset(preset, "mcts_trajectories"), source=preset)
    return configure(config, RunInputs(dataset="mcts_trajectories", files=files, options=options))


def test_the_preset_that_is_recommended_searches_the_corpus_that_is_named(corpus: Path) -> None:
    retrieval = configured("tree-search", documents=corpus, retrieval="bm25").retrieval
    assert (retrieval.scope, retrieval.corpus_index) == ("corpus", str(corpus)) and retrieval.corpus_hash
    moved = corpus.rename(corpus.with_name("elsewhere.jsonl"))
    again = configured("tree-search", documents=moved, retrieval="bm25").retrieval
    assert again.corpus_hash == retrieval.corpus_hash and again.row_settings() == retrieval.row_settings()
    moved.write_text(moved.read_text() + '{"id": "new", "text": "One more."}\n')
    assert (
        configured("tree-search", documents=moved, retrieval="bm25").retrieval.row_settings()
        != retrieval.row_settings()
    )


def test_without_a_corpus_each_question_searches_its_own_paragraphs_and_that_is_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "not-asked")
    own = configured("tree-search").retrieval
    assert own.searches_paragraphs and own == configured("tree-search", scope="question").retrieval
    assert [record.levelno for record in caplog.records] == [NOTICE]
    assert "--documents" in caplog.text and "--scope question" in caplog.text
    assert configured("tree-search", retrieval="web").retrieval.scope == "corpus"
    assert configured("msearcher").retrieval.searches_paragraphs
    assert configured("gold-first").retrieval.searches_paragraphs
    assert len(caplog.records) == 1
    with pytest.raises(InvalidInput, match=r"none is given: give --documents .*--scope question") as refused:
        configured("tree-search", scope="corpus")
    assert "\n" not in str(refused.value)


def test_the_runs_own_questions_are_no_corpus(tmp_path: Path, corpus: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    write_questions(questions, count=2)
    for given in (questions, tmp_path / "none" / ".." / "questions.jsonl"):
        with pytest.raises(InvalidInput, match="are the questions of the run"):
            configured("tree-search", questions, documents=given, retrieval="bm25")
    assert configured("tree-search", questions, documents=corpus, retrieval="bm25").retrieval.corpus_hash


def test_a_setting_of_before_is_refused_with_what_to_write() -> None:
    content = load_preset("gold-first", "mcts_trajectories")
    content["generator"]["search"]["oracle_first"] = True
    with pytest.raises(InvalidInput, match="say oracle: first or last"):
        read_config(MctsRunConfig, content, source="mine.yaml")


def test_the_presets_differ_in_what_their_names_say() -> None:
    searches = {
        name: configured(name, scope="question").generator for name in ("msearcher", "tree-search", "gold-first")
    }
    assert {name: each.search.oracle for name, each in searches.items()} == {
        "msearcher": "last",
        "tree-search": "last",
        "gold-first": "first",
    }
    assert {name: each.search.errors for name, each in searches.items()} == {
        "msearcher": "sampled",
        "tree-search": "provoked",
        "gold-first": "provoked",
    }
    assert searches["msearcher"].thoughts.source == "templates" and searches["tree-search"].thoughts.source == "model"
    assert searches["msearcher"].search.exploration == 0.6
    assert searches["msearcher"].policy == searches["tree-search"].policy
