"""Data sets by name, and what a manifest says of their tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pipelines.support import FinishedRun
from trailforge.pipelines.dataset import DataSet, Stage, Table, resolve
from trailforge.pipelines.datasets import dataset_names, load_dataset, with_roles
from trailforge.pipelines.life import Life
from trailforge.pipelines.runs.config import RunConfig
from trailforge.pipelines.runs.finish import MANIFEST, read_manifest
from trailforge.pipelines.runs.verify import RowChecks, verify_run
from trailforge.presets import preset_names
from trailforge.schemas import InvalidInput, Manifest, Question, to_dict


@pytest.mark.parametrize("name", dataset_names())
def test_a_declaration_names_only_what_is_there(name: str) -> None:
    dataset = load_dataset(name)
    stages = [each for s in dataset.stages for each in (s.run, s.follow, s.is_wanted) if each is not None]
    tables = [each for t in dataset.all_tables.values() for each in (t.made_of, t.refit, t.sft) if each is not None]
    assert all(callable(resolve(each)) for each in (*stages, *tables, dataset.take_in, dataset.card))
    checks = resolve(dataset.checks)
    assert issubclass(resolve(dataset.config), RunConfig)
    assert isinstance(getattr(checks, "__self__", None), Life) or issubclass(checks, RowChecks)
    assert dataset.preset in preset_names(name) and dataset.rows in dataset.tables and dataset.name == name
    assert {dataset.candidates, dataset.conversations} <= {"", *dataset.tables}
    assert all(callable(resolve(each)) for each in dataset.lists.values())


@pytest.mark.parametrize("name", dataset_names())
def test_columns_that_a_declaration_names_are_columns_of_the_record(name: str) -> None:
    for table in load_dataset(name).all_tables.values():
        known = set(table.record.__dataclass_fields__)
        assert {*table.kind, *table.fixable, *filter(None, [table.source.split(".")[0]])} <= known


def test_a_manifest_of_before_1_3_gets_its_roles_when_it_is_read(finished_run: FinishedRun) -> None:
    new = read_manifest(finished_run.folder)
    assert new is not None and {each.role for each in new.schema_versions} == {"", "questions", "sft"}
    content = to_dict(new) | {"schema_version": "1.2"}
    for each in content["schema_versions"]:
        del each["role"], each["protocol"]
    (finished_run.folder / MANIFEST).write_text(json.dumps(content))
    assert read_manifest(finished_run.folder) == new
    assert verify_run(finished_run.folder).problems == []


def test_the_roles_of_a_data_set_that_is_not_installed_are_those_that_its_manifest_says(
    finished_run: FinishedRun, tmp_path: Path
) -> None:
    manifest = read_manifest(finished_run.folder)
    assert isinstance(manifest, Manifest)
    strange = replace(manifest, dataset="films")
    assert with_roles(strange) == strange


@pytest.mark.parametrize(
    ("stages", "missing"),
    [
        ((Stage(name="make", unit="rows"),), "stages.make.run"),
        ((Stage(name="make", unit="rows", run="a:run"), Stage(name="select", unit="rows")), "stages.select.run"),
        ((Stage(name="make", unit="rows", run="a:run"),), "checks"),
    ],
)
def test_a_declaration_without_a_life_says_how_its_stages_run_and_its_rows_are_checked(
    stages: tuple[Stage, ...], missing: str
) -> None:
    with pytest.raises(InvalidInput, match="missing in the declaration; give it, or the `life` of its rows") as caught:
        DataSet(name="films", config="a:Config", tables={"films": Table(record=Question)}, rows="films", stages=stages)
    assert (caught.value.file, caught.value.field) == ("films", missing)
