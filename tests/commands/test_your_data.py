"""What docs/your-data.md shows is read as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trailforge.pipelines.sources import read_questions
from trailforge.pipelines.sources.documents import read_documents
from trailforge.pipelines.sources.jsonl import parse_columns
from trailforge.presets import load_preset
from trailforge.retrieval.indexes.corpus import read_corpus
from trailforge.retrieval.kg import KgStore
from trailforge.retrieval.kg.build import build_kg
from trailforge.retrieval.kg.sources import open_source
from trailforge.schemas import Question, SourceDocument

PAGE = (Path(__file__).parents[2] / "docs/your-data.md").read_text()
FILES = dict(re.findall(r"```\w+ (\S+\.\w+)\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    return tmp_path


def test_questions(folder: Path) -> None:
    rows = list(read_questions(folder / "questions.jsonl"))
    questions = [row for row in rows if isinstance(row, Question)]
    assert len(rows) == len(questions) == 5
    assert questions[1].id == "7" and questions[1].answer_aliases == ("1926-06-10",)
    assert [paragraph.title for paragraph in questions[2].paragraphs] == ["", "Vienna"]
    assert questions[3].hop_count == 2 and questions[4].supporting_documents[0].title == "Metropolis (novel)"


def test_a_table_of_questions(folder: Path) -> None:
    columns = re.search(r"--columns (question=\S+)", PAGE)
    assert columns is not None
    rows = list(read_questions(folder / "questions.csv", column_map=parse_columns(columns[1])))
    questions = [row for row in rows if isinstance(row, Question)]
    assert len(rows) == len(questions) == 2
    assert questions[1].answer_aliases == ("1926-06-10", "June 1926")
    assert [len(question.paragraphs) for question in questions] == [2, 1]


def test_a_preset_of_ones_own(folder: Path) -> None:
    mine = str(folder / "mine.yaml")
    shipped, kg = load_preset("demo", "kg_trajectories"), load_preset(mine, "kg_trajectories")
    assert (kg["output"], kg["generator"]) == ({"shard_size": 2}, {**shipped["generator"], "episodes": 2})
    mcts = {**load_preset("demo", "mcts_trajectories"), "output": {"shard_size": 2}}
    assert load_preset(mine, "mcts_trajectories") == mcts


def test_documents(folder: Path) -> None:
    rows = list(read_documents([folder / "news.jsonl"]))
    documents = [row for row in rows if isinstance(row, SourceDocument)]
    assert len(rows) == len(documents) == 3
    assert [document.published for document in documents] == ["2026-05-31", "2026-06-01", "2026-06-01"]
    assert documents[1].text == "Trains run again." and documents[1].source == "Wire"
    assert documents[2].authors == () and documents[2].url == ""


def test_a_corpus(folder: Path) -> None:
    found = [(document.id, document.title, document.text) for document in read_corpus(folder / "corpus.jsonl")]
    assert found[0] == ("0", "Vienna", "Vienna is the capital of Austria.")
    assert found[1] == ("d1", "Danube", "The Danube flows through Vienna.")
    assert len(found) == 3


def test_a_graph(folder: Path) -> None:
    build_kg(open_source(folder / "triples.tsv"), folder / "kg")
    assert KgStore.open(folder / "kg").stats.triples == 3
