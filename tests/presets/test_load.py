"""Presets by name and by path."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.config import run_config
from presets import load_preset, preset_names
from schemas import InvalidInput


def test_the_presets_of_the_house_are_known_by_name() -> None:
    assert preset_names() == ["demo", "msearcher"]
    assert load_preset("demo")["model"]["url"] == "embedded"


def test_a_description_is_for_people_only() -> None:
    assert all("description" not in load_preset(name) for name in preset_names())


def test_an_unknown_name_gets_the_list_of_names() -> None:
    with pytest.raises(InvalidInput, match=r"no preset 'nope'; there are demo, msearcher, or give a \.yaml file"):
        load_preset("nope")


@pytest.mark.parametrize("name", ["", "../presets/demo", "__init__", "demo.yaml.bak"])
def test_no_name_leads_out_of_the_folder_of_presets(name: str) -> None:
    with pytest.raises(InvalidInput, match="no preset"):
        load_preset(name)


@pytest.mark.parametrize("suffix", ["yaml", "yml"])
def test_a_file_is_read_as_it_is(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"mine.{suffix}"
    path.write_text("model: {name: ü}\n", encoding="utf-8")
    assert load_preset(str(path)) == {"model": {"name": "ü"}}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.yaml: no such preset file"):
        load_preset(str(tmp_path / "none.yaml"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "a preset is a mapping of sections"),
        (b"- a\n- b\n", "a preset is a mapping of sections"),
        (b"model: {name: x\n", "not valid YAML"),
        (b"a: b: c\n", "not valid YAML"),
        (b"model: {name: !!python/object/apply:os.getcwd []}\n", "not valid YAML"),
        (b"model: {name: '\xff'}\n", "UTF-8"),
        (b"model: {name: \x00}\n", "not valid YAML"),
        (b"1: {name: x}\n", "unknown"),
    ],
)
def test_what_is_no_preset_is_refused_in_one_line_that_names_the_file(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(InvalidInput) as raised:
        run_config(load_preset(str(path)), source=str(path))
    assert str(raised.value).startswith(str(path)) and problem in str(raised.value)
    assert "\n" not in str(raised.value)
