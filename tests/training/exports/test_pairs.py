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
from tests.support.files import restate
from trailforge.schemas import PreferenceRow, write_parquet
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
    for name, column in (("trl", "ground_truth"), ("openrlhf", "label"), ("verl", "reward_model.ground_truth")):
        assert (
            "No column of a question is a reward" in readmes[name] and f"`{column}`: `reward_preset`" in readmes[name]
        )


def test_pairs_whose_first_turns_do_not_tell_which_is_better_are_left_out(tmp_path: Path) -> None:
    """Of two ends that search first it is only known that the later answer of one is wrong."""
    asked = ASKED[:2]
    run = made.kg_run(tmp_path / "kg", asked, pairs=True)
    make_training_set([run], tmp_path / "all", ViewConfig(validation_share=0.0))
    with_pairs = open_set(tmp_path / "all")
    told, other = with_pairs.rows("pairs", "train", PreferenceRow)
    later = dataclasses.replace(other, rejected=(*other.chosen[:2], *other.rejected), parts_at_fault=False)
    path = with_pairs.files("pairs", "train")[0]
    write_parquet(path, PreferenceRow, [told, later])
    restate(tmp_path / "all")
    for name in ("trl", "openrlhf"):
        export(tmp_path / "all", name, tmp_path / name)
        assert pq.read_table(tmp_path / name / "pairs" / "train.parquet")["uid"].to_pylist() == [told.uid]
        assert "1 of the set's 2 pairs are left out" in (tmp_path / name / "README.md").read_text()
    export(tmp_path / "all", "sharegpt", tmp_path / "sharegpt")
    assert len((tmp_path / "sharegpt" / "pairs" / "train.jsonl").read_text().splitlines()) == 1


def test_the_readme_names_the_reward_that_questions_name_and_where_its_preset_pays_another(tmp_path: Path) -> None:
    run = made.kg_run(tmp_path / "kg", ASKED[:2])
    for reward, named in ((None, "dynasearcher"), ("search-r1", "search-r1")):
        make_training_set([run], tmp_path / named / "set", ViewConfig(validation_share=0.0, reward=reward))
        export(tmp_path / named / "set", "verl", tmp_path / named / "verl")
        text = (tmp_path / named / "verl" / "README.md").read_text()
        assert f"| `kg_search` | 4 | `dynasearcher` | `{named}` |" in text
        assert ("itself pays by `dynasearcher`" in text) == (reward is not None)


def test_pairs_of_a_set_that_is_mostly_something_else_have_their_own_numbers(tmp_path: Path) -> None:
    """MSearcher's preset has none for pairs; those here are of DynaSearcher's agent."""
    asked = [*ASKED, *(made.question(number) for number in range(4, 9))]
    rows = [row for each in asked for row in made.mcts_rows(each)]
    runs = [made.mcts_run(tmp_path / "m", asked, rows), made.kg_run(tmp_path / "kg", ASKED[:1], pairs=True)]
    make_training_set(runs, tmp_path / "set", ViewConfig(validation_share=0.0))
    export(tmp_path / "set", "trl", tmp_path / "trl")
    text = (tmp_path / "trl" / "README.md").read_text()
    assert "those of the preset `msearcher`" in text and "with the numbers of the preset `dynasearcher`" in text
    assert yaml.safe_load((tmp_path / "trl" / "dpo.yaml").read_text())["dataset_name"] == "pairs"
