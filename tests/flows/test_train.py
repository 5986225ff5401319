"""The flow of a training: finished runs in, a model out by two processes, and a record that names both."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.pipelines.support import make_run, questions_file
from tests.training.tiny import save_tiny_model
from trailforge.flows.train import make_set, train
from trailforge.presets import load_training_preset
from trailforge.schemas import CountMismatch, InvalidInput
from trailforge.training.sets.config import ViewConfig

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, a tiny model, a preset that suits both."""
    folder = tmp_path_factory.mktemp("train")
    make_run(folder / "run", questions_file(folder / "questions.jsonl", count=11, broken_row=None))
    save_tiny_model(folder / "model", window=4096)
    preset = load_training_preset("msearcher")
    small = {"batch_size": 4, "epochs": 1, "max_tokens": 4096, "precision": "float32", "logging": "none"}
    preset["sft"] |= {**small, "gradient_checkpointing": False}
    (folder / "preset.yaml").write_text(yaml.safe_dump(preset))
    return folder


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_two_processes_train_on_a_finished_run(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    path = train(
        [lab / "run"],
        lab / "set",
        lab / "trained",
        preset=str(lab / "preset.yaml"),
        base_model=str(lab / "model"),
        more=["--max-steps", "2"],
        launcher="accelerate",
        launch={"devices_per_node": 2, "sharding": "none", "use_cpu": True, "precision": "no"},
        view={"validation_share": 0.2},
    )
    record = json.loads(path.read_text())
    assert path == lab / "trained-launch" / "record.json"
    (run,) = record["runs"]
    assert run["manifest_sha256"] == sha256(lab / "run" / "manifest.json")
    assert record["training_set_sha256"] == sha256(lab / "set" / "manifest.json")
    weights = lab / "trained" / "model" / "model.safetensors"
    assert record["model_sha256"][weights.name] == sha256(weights) != sha256(lab / "model" / weights.name)
    assert record["command"][:3] == ["trailforge", "train", "sft"] and record["launch"]["devices_per_node"] == 2
    done = json.loads((lab / "trained" / "training.json").read_text())
    assert (done["stage"], done["steps"]) == ("sft", 2)


def test_a_run_that_does_not_verify_is_not_trained_on(lab: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(lab / "run", tmp_path / "run"))
    next((broken / "sft").glob("*.parquet")).unlink()
    with pytest.raises(CountMismatch, match=r"sft/part-.*: missing"):
        train([broken], tmp_path / "set", tmp_path / "out")
    assert not (tmp_path / "set").exists() and not (tmp_path / "out").exists()


def test_a_set_of_other_runs_is_refused(lab: Path, tmp_path: Path) -> None:
    shutil.copytree(lab / "run", tmp_path / "run")
    manifest = tmp_path / "run" / "manifest.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"seconds": content["seconds"] + 1}))
    with pytest.raises(InvalidInput, match="a training set of other runs"):
        train([tmp_path / "run"], lab / "set", tmp_path / "out")


def test_a_set_of_other_settings_is_refused(lab: Path, tmp_path: Path) -> None:
    """As when a benchmark was added, whose questions the set there may hold."""
    folder, config = tmp_path / "set", ViewConfig(validation_share=0.2)
    make_set.fn([lab / "run"], folder, config)
    before = sha256(folder / "manifest.json")
    make_set.fn([lab / "run"], folder, config)
    with pytest.raises(InvalidInput, match=r"of other settings \(seed, benchmarks\)"):
        make_set.fn([lab / "run"], folder, replace(config, seed=3, benchmarks=("exam.jsonl",)))
    assert sha256(folder / "manifest.json") == before
