"""Presets by name and by path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.pipelines.index_config import read_index_preset
from trailforge.pipelines.runs.config import read_config
from trailforge.presets import (
    datasets_of,
    declared_datasets,
    index_preset_names,
    load_evaluation_preset,
    load_preset,
    load_training_preset,
    preset_names,
)
from trailforge.retrieval.backends import PLAIN
from trailforge.schemas import InvalidInput

ROOT = Path(__file__).parents[2]


def test_the_presets_of_the_house_are_known_by_name() -> None:
    assert preset_names() == [
        "agent-trajectories", "browse", "demo", "dynasearcher", "gold-first", "kg-questions", "msearcher",
        "r-search", "tree-search",
    ]  # fmt: skip
    assert preset_names("document_bundles") == ["demo", "r-search"]
    assert load_preset("demo", "mcts_trajectories")["model"]["url"] == "embedded"


def test_a_description_is_for_people_only() -> None:
    assert all(
        "description" not in load_preset(name, dataset)
        for dataset in declared_datasets()
        for name in preset_names(dataset)
    )


def test_an_unknown_name_gets_the_list_of_names() -> None:
    with pytest.raises(
        InvalidInput,
        match=r"no preset 'nope'; there are demo, gold-first, msearcher, tree-search, or give a \.yaml file",
    ):
        load_preset("nope", "mcts_trajectories")


@pytest.mark.parametrize("name", ["", "../presets/demo", "__init__", "demo.yaml.bak"])
def test_no_name_leads_out_of_the_folder_of_presets(name: str) -> None:
    with pytest.raises(InvalidInput, match="no preset"):
        load_preset(name, "mcts_trajectories")


@pytest.mark.parametrize("suffix", ["yaml", "yml"])
def test_a_file_is_read_as_it_is(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"mine.{suffix}"
    path.write_text("model: {name: ü}\n", encoding="utf-8")
    assert load_preset(str(path), "mcts_trajectories") == {"model": {"name": "ü"}}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.yaml: no such preset file"):
        load_preset(str(tmp_path / "none.yaml"), "mcts_trajectories")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "expected a mapping of sections"),
        (b"- a\n- b\n", "expected a mapping of sections"),
        (b"model: {name: x\n", "not valid YAML"),
        (b"a: b: c\n", "not valid YAML"),
        (b"model: {name: !!python/object/apply:os.getcwd []}\n", "not valid YAML"),
        (b"model: {name: '\xff'}\n", "UTF-8"),
        (b"model: {name: \x00}\n", "not valid YAML"),
        (b"1: {name: x}\n", "unknown"),
        (b"a: " + b"[" * 3000, "not valid YAML: it is nested too deeply"),
        (b"a: " + b"{b: " * 3000, "not valid YAML: it is nested too deeply"),
        (b"a: 2001-99-99\n", "not valid YAML: month must be in 1..12"),
        (b"a: !!timestamp x\n", "not valid YAML"),
        (b"a: b\n" * 20_000, "larger than 64 KiB"),
    ],
)
def test_what_is_no_preset_is_refused_in_one_line_that_names_the_file(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(InvalidInput) as raised:
        read_config(MctsRunConfig, load_preset(str(path), "mcts_trajectories"), source=str(path))
    assert str(raised.value).startswith(str(path)) and problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_preset_for_another_data_set_is_refused_with_those_that_are_for_it() -> None:
    problem = (
        "msearcher: the preset is for mcts_trajectories, not for document_bundles; for that there are demo, r-search"
    )
    with pytest.raises(InvalidInput, match=problem):
        load_preset("msearcher", "document_bundles")


def test_what_a_preset_says_for_one_data_set_goes_over_what_it_says_for_all(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "model: {name: a, url: b}\n"
        "document_bundles: {model: {name: c}, writer: {}}\n"
        "mcts_trajectories: {generator: {}}\n"
    )
    assert load_preset(str(path), "document_bundles") == {"model": {"name": "c", "url": "b"}, "writer": {}}
    assert load_preset(str(path), "mcts_trajectories") == {"model": {"name": "a", "url": "b"}, "generator": {}}


def test_a_section_of_a_data_set_has_to_be_a_mapping(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("document_bundles: [1]\n")
    with pytest.raises(InvalidInput, match=r"mine\.yaml, field 'document_bundles': expected a mapping"):
        load_preset(str(path), "document_bundles")


def write_mine(folder: Path, text: str) -> str:
    (folder / "mine.yaml").write_text(text)
    return str(folder / "mine.yaml")


@pytest.mark.parametrize("dataset", declared_datasets())
def test_a_preset_that_builds_on_a_shipped_one_says_what_is_other(tmp_path: Path, dataset: str) -> None:
    """Field by field, at any depth, over what the shipped one says for all and for this data set."""
    mine = write_mine(tmp_path, "preset: demo\nmodel: {name: other}\noutput: {shard_size: 3}\nseed: 5\n")
    demo = load_preset("demo", dataset)
    assert load_preset(mine, dataset) == {
        **demo,
        "model": {**demo["model"], "name": "other"},
        "output": {**demo.get("output", {}), "shard_size": 3},
        "seed": 5,
    }
    assert datasets_of(mine) == datasets_of("demo")


def test_a_section_of_a_data_set_goes_over_the_shipped_one_for_that_alone(tmp_path: Path) -> None:
    mine = write_mine(tmp_path, "preset: demo\nkg_trajectories: {generator: {episodes: 2}}\n")
    for dataset in declared_datasets():
        before, after = load_preset("demo", dataset), load_preset(mine, dataset)
        changed = dataset == "kg_trajectories"
        assert (before != after) == changed
        if changed:
            assert after == {**before, "generator": {**before["generator"], "episodes": 2}}


def test_a_preset_that_builds_on_one_of_one_data_set_is_for_that(tmp_path: Path) -> None:
    mine = write_mine(tmp_path, "preset: dynasearcher\nretrieval: {kind: bm25}\n")
    assert datasets_of(mine) == ["kg_trajectories"]
    assert load_preset(mine, "kg_trajectories")["retrieval"]["kind"] == "bm25"
    with pytest.raises(InvalidInput, match="the preset is for kg_trajectories, not for mcts_trajectories"):
        load_preset(mine, "mcts_trajectories")


@pytest.mark.parametrize("base", ["[demo]", "mine.yaml", "1", "../presets/demo", "Demo"])
@pytest.mark.parametrize("load", [lambda path: load_preset(path, "kg_questions"), load_evaluation_preset])
def test_only_a_shipped_preset_can_be_built_on(tmp_path: Path, base: str, load: Callable[[str], object]) -> None:
    mine = write_mine(tmp_path, f"preset: {base}\n")
    with pytest.raises(InvalidInput, match=r"mine\.yaml, field 'preset': expected the name of a shipped preset .*demo"):
        load(mine)


def test_presets_of_trainings_and_evaluations_build_on_theirs(tmp_path: Path) -> None:
    mine = write_mine(tmp_path, "preset: ragsearch\nretrieval: {encoder: minilm}\n")
    for load in (load_training_preset, load_evaluation_preset):
        shipped = load("ragsearch")
        assert load(mine) == {**shipped, "retrieval": {**shipped["retrieval"], "encoder": "minilm"}}


@pytest.mark.parametrize("name", index_preset_names())
def test_an_index_preset_says_every_number_of_its_back_end(name: str) -> None:
    """None is left to a default in code: what a name stands for can be read in one file, or in the one below it."""
    config = read_index_preset(name)
    assert config.options.keys() == {each.name for each in fields(config.declared.config)}
    text = (ROOT / "presets" / "index" / f"{name}.yaml").read_text()
    assert text.startswith("# ") and "description: " in text


def test_the_published_methods_have_an_index_preset_each() -> None:
    assert {*PLAIN, "linear_rag"} <= {*index_preset_names()}
    cuts = {name: read_index_preset(name).chunk_tokens for name in index_preset_names()}
    assert cuts["raptor"] == 100 and cuts["hippo_rag"] is None
    local = read_index_preset("graph_rag_local")
    assert {**read_index_preset("graph_rag").options, "search": "local"} == local.options


def test_an_index_preset_of_ones_own_builds_on_a_shipped_one(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("preset: hippo_rag\noptions: {filter: entities}\nmodel: {url: 'http://127.0.0.1:8000/v1'}\n")
    config = read_index_preset(str(own))
    assert (config.options["filter"], config.options["facts"], config.model.name) == (
        "entities",
        "model",
        "gpt-4o-mini",
    )
    own.write_text("preset: hippo_rag\noptions: {facts: sentences, filter: none}\n")
    with pytest.raises(InvalidInput, match="that is hippo_rag_plain, and hippo_rag is the published build"):
        read_index_preset(str(own))
