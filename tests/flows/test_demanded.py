"""Runs by quotas: which questions a run takes, which paths a graph gives, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import finished_runs as made
from trailforge.flows.execute import RunRequest, check_inputs
from trailforge.pipelines.dataset import DataSet, resolve
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.runs.intake import Settings
from trailforge.retrieval.kg import build_kg, open_source
from trailforge.schemas import FactChain, InvalidInput, NothingLeft, Question, read_parquet, to_dict

SAMPLE = Path(__file__).parents[2] / "sample_data" / "kg"


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Eight questions of two hops, then four of three."""
    asked = [made.question(number, hops=2 if number < 8 else 3) for number in range(12)]
    told = [replace(each, num_hops=None) for each in asked]
    path = tmp_path / "asked.jsonl"
    path.write_text("".join(f"{json.dumps(to_dict(each))}\n" for each in told))
    return path


def quotas(folder: Path, *asked: dict[str, object]) -> Path:
    path = folder / "demand.yaml"
    path.write_text(json.dumps({"quotas": list(asked)}))
    return path


def take_in(dataset: DataSet, request: RunRequest) -> Settings:
    config, inputs = check_inputs(request, dataset)
    return resolve(dataset.take_in)(inputs, request.out, config)


def taken(out: Path, settings: Settings, record: type) -> list[object]:
    return [row for entry in settings.files for row in read_parquet(out / ".intake" / entry.path, record)]


@pytest.mark.parametrize(("limit", "counted"), [(4, {3: 3, 2: 1}), (None, {3: 4, 2: 1})])
def test_a_run_takes_the_questions_that_quotas_ask_for(
    questions: Path, tmp_path: Path, limit: int | None, counted: dict[int, int]
) -> None:
    demand = quotas(tmp_path, {"share": 0.75, "hops": 3}, {"share": 0.25, "hops": 2})
    dataset = load_dataset("mcts_trajectories")
    request = RunRequest(
        dataset=dataset.name, out=tmp_path / "run", preset="demo", files=(questions,), limit=limit, demand=demand
    )
    settings = take_in(dataset, request)
    rows = taken(request.out, settings, Question)
    assert Counter(row.hop_count for row in rows if isinstance(row, Question)) == counted
    plain, _ = check_inputs(replace(request, demand=None), dataset)
    asked, _ = check_inputs(request, dataset)
    assert plain.hash != asked.hash and asked.hash == settings.config_hash


def test_what_was_seen_over_another_back_end_is_not_asked_for(questions: Path, tmp_path: Path) -> None:
    dataset = load_dataset("mcts_trajectories")
    request = RunRequest(dataset=dataset.name, out=tmp_path / "run", preset="demo", files=(questions,), limit=6)
    kind = check_inputs(request, dataset)[0].retrieval.kind  # type: ignore[attr-defined]
    both = quotas(tmp_path, {"share": 0.5, "hops": 3, "backend": "raptor"}, {"share": 0.5, "hops": 2, "backend": kind})
    settings = take_in(dataset, replace(request, demand=both))
    assert {row.hop_count for row in taken(request.out, settings, Question)} == {2}  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match=f"no quota for the back end {kind}"):
        check_inputs(replace(request, demand=quotas(tmp_path, {"share": 1, "backend": "raptor"})), dataset)
    with pytest.raises(NothingLeft, match="no question is one that a quota"):
        take_in(dataset, replace(request, demand=quotas(tmp_path, {"share": 1, "hops": 9})))


def test_a_graph_gives_the_paths_that_quotas_ask_for(tmp_path: Path) -> None:
    build_kg(open_source(SAMPLE), tmp_path / "kg")
    demand = quotas(tmp_path, {"share": 0.5, "hops": 1}, {"share": 0.5, "hops": 3, "shape": "chain"})
    dataset = load_dataset("kg_questions")
    options = {"kg": tmp_path / "kg", "count": 12}
    request = RunRequest(dataset=dataset.name, out=tmp_path / "run", preset="demo", options=options, demand=demand)
    settings = take_in(dataset, request)
    rows = [row for row in taken(request.out, settings, FactChain) if isinstance(row, FactChain)]
    assert Counter((len(row.facts), row.shape) for row in rows) == {(1, "chain"): 6, (3, "chain"): 6}


def test_documents_are_no_questions(tmp_path: Path) -> None:
    dataset, documents = load_dataset("document_bundles"), tmp_path / "d.jsonl"
    documents.write_text('{"title": "T", "text": "A text."}\n')
    request = RunRequest(dataset=dataset.name, out=tmp_path, preset="demo", files=(documents,), demand=quotas(tmp_path))
    with pytest.raises(InvalidInput, match="neither takes nor makes any"):
        check_inputs(request, dataset)
