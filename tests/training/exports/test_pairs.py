"""Pairs in the formats of those who train on them: each end is one turn of the agent."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from tests.support import finished_runs as made
from trailforge.schemas import PreferenceRow
from trailforge.training.exports import export
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.files import open_set

ASKED = [made.question(number) for number in range(4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set with pairs in `set/`, and its exports beside it."""
    home = tmp_path_factory.mktemp("pairs")
    runs = [made.kg_run(home / "kg", ASKED, pairs=True), made.bundles_run(home / "bundles")]
    make_training_set(runs, home / "set", ViewConfig(validation_share=0.3))
    for name in ("trl", "openrlhf", "sharegpt", "verl", "slime"):
        export(home / "set", name, home / name)
    return home


def pairs(folder: Path) -> list[PreferenceRow]:
    return list(open_set(folder / "set").rows("pairs", "train", PreferenceRow))


@pytest.mark.parametrize("trainer", ["trl", "openrlhf"])
def test_each_end_is_the_agents_turn_alone(folder: Path, trainer: str) -> None:
    """The better end goes on with a search, whose result a trainer would learn."""
    rows = pq.read_table(folder / trainer / "pairs" / "train.parquet").to_pylist()
    assert len(rows) == len(pairs(folder)) > 0
    for row, pair in zip(rows, pairs(folder), strict=True):
        assert row["uid"] == pair.uid and not row["ends_here"] and len(pair.chosen) > 1
        assert [turn["content"] for turn in row["prompt"]] == [message.content for message in pair.prompt]
        for name, end in (("chosen", pair.chosen), ("rejected", pair.rejected)):
            assert row[name] == [{"role": "assistant", "content": end[0].content}]


def test_sharegpt_ranks_them(folder: Path) -> None:
    lines = (folder / "sharegpt" / "pairs" / "train.jsonl").read_text().splitlines()
    row, pair = json.loads(lines[0]), pairs(folder)[0]
    assert (row["chosen"]["value"], row["rejected"]["value"]) == (pair.chosen[0].content, pair.rejected[0].content)
    assert row["conversations"][-1]["from"] == "human" and row["system"] == pair.prompt[0].content
    described = json.loads((folder / "sharegpt" / "dataset_info.json").read_text())["trailforge_pairs_train"]
    assert described["ranking"] is True and described["columns"]["chosen"] == "chosen"


def test_settings_are_known_to_trl(folder: Path) -> None:
    trl = pytest.importorskip("trl")
    from trl.scripts.utils import ScriptArguments
    from trl.trainer.model_config import ModelConfig

    known = {each.name for kind in (trl.DPOConfig, ScriptArguments, ModelConfig) for each in dataclasses.fields(kind)}
    settings: dict[str, Any] = yaml.safe_load((folder / "trl" / "dpo.yaml").read_text())
    assert not settings.keys() - known and settings["beta"] == 0.1


def test_where_pairs_are_and_whose_numbers_stands_in_the_readme(folder: Path) -> None:
    readmes = {name: (folder / name / "README.md").read_text() for name in ("trl", "openrlhf", "verl", "slime")}
    for name in ("trl", "openrlhf"):
        assert "`ends_here`" in readmes[name] and "| `pairs/train.parquet` |" in readmes[name]
    for name in ("verl", "slime"):
        assert "4 pairs are not here" in readmes[name]
    for text in readmes.values():
        assert "| `dynasearcher` | `dynasearcher` |" in text and "| `r-search` | `r-search` |" in text
