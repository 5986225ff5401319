"""`trailforge kg` over the sample graph."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from trailforge.cli import app
from trailforge.schemas import InvalidInput, TrailforgeError

SAMPLE = Path(__file__).parents[2] / "sample_data" / "kg"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["kg", *map(str, arguments)])
    if isinstance(result.exception, TrailforgeError | typer.BadParameter):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("kg") / "store"
    lines = (SAMPLE / "triples.tsv").read_text().splitlines()
    assert f"{len(lines):,} triples" in run("build", SAMPLE, "--out", out)
    return out


def test_a_name_with_a_typo_finds_its_entity_and_what_is_asked_of_it(store: Path) -> None:
    shown = run("query", store, "Mari Currie", "--relation", "place of birth", "--count", 1)
    assert "Marie Curie" in shown and "Warsaw" in shown and "1867" not in shown


def test_figures_are_those_of_the_files(store: Path) -> None:
    stats = json.loads(run("stats", store, "--check"))
    assert stats["triples"] == len((SAMPLE / "triples.tsv").read_text().splitlines())
    assert stats["entities"] == len((SAMPLE / "entities.tsv").read_text().splitlines())
    assert stats["invalid_rows"] == stats["duplicate_triples"] == stats["unnamed_entities"] == 0


def test_columns_of_a_table_are_named(tmp_path: Path) -> None:
    table = tmp_path / "facts.jsonl"
    table.write_text('{"subject": "a", "verb": "likes", "object": "b"}\n')
    columns = "head=subject,relation=verb,tail=object"
    assert "2 entities, 1 triples" in run("build", table, "--out", tmp_path / "kg", "--columns", columns)


@pytest.mark.parametrize("columns", ["head", "head=", "=x"])
def test_a_pair_that_is_none_is_refused(tmp_path: Path, columns: str) -> None:
    result = CliRunner().invoke(app, ["kg", "build", str(SAMPLE), "--out", str(tmp_path / "kg"), "--columns", columns])
    assert isinstance(result.exception, InvalidInput) and "column map" in str(result.exception)


def test_a_folder_without_a_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no knowledge graph"):
        run("query", tmp_path, "Marie Curie")
