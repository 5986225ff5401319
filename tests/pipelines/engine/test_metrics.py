"""What Prometheus reads of a stage."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from trailforge.pipelines.engine.metrics import METRICS, write_metrics
from trailforge.pipelines.engine.progress import FOLDER, NAMES, ProgressFile, begin_progress, show_progress
from trailforge.pipelines.engine.shards import Shard

SHARDS = [Shard(name="part-00000", input="inputs/0.parquet", first=0, rows=5)]


def read(path: Path) -> dict[tuple[str, ...], float]:
    """Value by name, folder, stage and, of rows, kind."""
    families = text_string_to_metric_families(path.read_text())
    samples = [each for family in families for each in family.samples]
    return {(s.name, *(s.labels[n] for n in ("folder", "stage", "kind") if n in s.labels)): s.value for s in samples}


def test_a_stage_writes_what_its_workers_counted(tmp_path: Path) -> None:
    begin_progress(tmp_path, [])
    for calls in (3, 4):
        ProgressFile(tmp_path).write({"items": 1, "paid_calls": calls, "prompt_tokens": 100, "correct": 2})
    with show_progress(tmp_path, "questions", SHARDS, counts_items=True):
        pass
    found = read(tmp_path / FOLDER / METRICS)
    of = (str(tmp_path), "questions")
    assert found["trailforge_items", *of] == 5 and found["trailforge_items_done", *of] == 2
    assert found["trailforge_calls_paid", *of] == 7 and found["trailforge_prompt_tokens", *of] == 200
    assert found["trailforge_calls_in_flight", *of] == 0
    assert {key: value for key, value in found.items() if key[0] == "trailforge_rows"} == {
        ("trailforge_rows", *of, "correct"): 4
    }
    begin_progress(tmp_path, [])
    assert not (tmp_path / FOLDER / METRICS).exists(), "the next stage does not begin with another one's figures"


def test_any_label_can_be_read_again(tmp_path: Path) -> None:
    labels = {"folder": 'a "b"\\c\nd', "stage": "x"}
    write_metrics(tmp_path / METRICS, labels, 1, 2, {}, {'a "kind"': 1})
    found = read(tmp_path / METRICS)
    assert found["trailforge_items_done", *labels.values()] == 1
    assert found["trailforge_rows", *labels.values(), 'a "kind"'] == 1


def test_the_names_are_a_run_s_own_and_a_folder_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    assert all(re.fullmatch(NAMES, name) for name in (METRICS, f"{METRICS}.123.456"))
    assert not re.fullmatch(NAMES, f"{METRICS}.txt")
    shutil.rmtree(tmp_path)
    write_metrics(tmp_path / METRICS, {"folder": "a"}, 1, 2, {}, {})


def test_beside_the_core_alone_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    write_metrics(tmp_path / METRICS, {"folder": "a"}, 1, 2, {}, {})
    assert not list(tmp_path.iterdir())
