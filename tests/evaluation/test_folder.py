"""Evaluations from when a paper's name said nothing of who had built a back end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.schemas.test_versions import BEFORE
from trailforge.evaluation.folder import (
    EARLIER,
    BackendChoice,
    Evaluation,
    claim_folder,
    read_episodes,
    read_evaluation,
    write_evaluation,
)
from trailforge.evaluation.results.table import read_table
from trailforge.schemas import InvalidInput, to_dict

WRITTEN = {"backend": "hippo_rag", "facts": "model", "filter": "model"}
FILTERED = {"backend": "hippo_rag", "facts": "sentences", "filter": "model"}
PLAIN = {"backend": "hippo_rag", "facts": "sentences", "filter": "entities"}
SERVED = {"backend": "hippo_rag"}


def before(folder: Path, name: str, config: dict[str, Any]) -> Evaluation:
    """An evaluation of then of one back end, with two episodes."""
    stored = pq.read_table(BEFORE / "agentepisode-1.1.parquet")
    rows = [row | {"backend": name, "index": "i"} for row in stored.to_pylist()]
    (cell := folder / "episodes" / "cell").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=stored.schema), cell / "part-00000-0.parquet")
    given = Evaluation(
        format=EARLIER,
        questions="q.jsonl",
        questions_sha256="a",
        dataset="made",
        num_questions=2,
        agents=(),
        backends=(BackendChoice(name=name, index="i", config=config, build_hours=2.0),),
        models=("m",),
        seeds=(0,),
        top_k=5,
    )
    write_evaluation(folder, given)
    return given


@pytest.mark.parametrize(
    ("name", "config", "now", "built"),
    [
        ("hippo_rag", PLAIN, "hippo_rag_plain", "hippo_rag_plain"),
        ("hippo_rag", WRITTEN, "hippo_rag", "hippo_rag"),
        ("hippo_rag", FILTERED, "hippo_rag", "hippo_rag"),
        ("hippo_rag", SERVED, "hippo_rag or hippo_rag_plain", "hippo_rag or hippo_rag_plain"),
        ("mine", PLAIN, "mine", "hippo_rag_plain"),
        ("raptor", PLAIN, "raptor", "hippo_rag_plain"),  # somebody's own name for it
        ("bm25", {"backend": "bm25", "k1": 1.2}, "bm25", "bm25"),
    ],
)
def test_what_asked_no_model_is_called_plain_and_nothing_else(
    tmp_path: Path, name: str, config: dict[str, Any], now: str, built: str
) -> None:
    before(tmp_path, name, config)
    (choice,) = read_evaluation(tmp_path).backends
    assert (choice.name, choice.config) == (now, config | {"backend": built})
    assert {episode.backend for episode in read_episodes(tmp_path)} == {now}
    assert {(row.backend, row.build_hours) for row in read_table(tmp_path).rows} == {(now, 2.0)}


@pytest.mark.parametrize("config", [PLAIN, WRITTEN, SERVED])
def test_it_is_not_gone_on_with(tmp_path: Path, config: dict[str, Any]) -> None:
    given, stored = before(tmp_path, "hippo_rag", config), (tmp_path / "evaluation.json").read_bytes()
    with pytest.raises(InvalidInput, match=r"do not say whether a model built them.*another --out"):
        claim_folder(tmp_path, replace(given, format=2))
    assert (tmp_path / "evaluation.json").read_bytes() == stored


def test_one_without_such_names_goes_on(tmp_path: Path) -> None:
    given = before(tmp_path, "bm25", {"backend": "bm25"})
    claim_folder(tmp_path, replace(given, format=2, seeds=(1,)))
    content = json.loads((tmp_path / "evaluation.json").read_text())
    assert (content["format"], content["seeds"]) == (2, [0, 1])
    assert content["backends"][0] == to_dict(given.backends[0])
