"""Bundles first, looked at, and then their questions: in one folder, as if they had been made at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.bundles_support import CONFIG, documents_file, make_bundles, run_until, scripted_client
from tests.support.files import contents
from trailforge.flows.execute import prepare
from trailforge.generators.document_bundles import DATASET as BUNDLES
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.pipelines.runs.config import ModelConfig
from trailforge.pipelines.runs.finish import MANIFEST, finish_run
from trailforge.pipelines.runs.intake import SETTINGS, RunInputs, read_settings
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import Bundle, BundleQuestion, OutputError, read_rows

CHANGES = {SETTINGS, MANIFEST, "README.md", "plots/funnel.png"}
BUNDLES_ALONE = replace(CONFIG, questions=False, model=ModelConfig(name=""))
"""As `--bundles-only` leaves a preset, whose model nobody named yet."""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(ModelWork, "client", scripted_client)
    return documents_file(tmp_path / "documents.jsonl")


def test_questions_are_asked_about_bundles_that_are_there(source: Path, tmp_path: Path) -> None:
    """What is there keeps its bytes, `run.json` says both halves, and the rows are those of one run."""
    out, inputs = tmp_path / "out", RunInputs(dataset="document_bundles", files=(source,))
    first, _ = make_bundles(out, source, BUNDLES_ALONE)
    before = contents(out)

    settings, finished = prepare(out, BUNDLES, CONFIG, inputs, replace_run=False)
    assert finished is None and not (out / MANIFEST).exists()
    assert settings.begun_as == first.config_hash and settings.run_id != first.run_id
    assert read_settings(out) == settings
    again, _ = prepare(out, BUNDLES, CONFIG, inputs, replace_run=False)
    assert again == settings  # stopped and started once more, it knows of both halves

    run_until(out, settings)
    finish_run(out, settings, BUNDLES, seconds=1.0)
    after = contents(out)
    assert {path: after[path] for path in before if path not in CHANGES} == {
        path: content for path, content in before.items() if path not in CHANGES
    }
    assert verify_run(out).problems == []

    at_once = tmp_path / "at_once"
    make_bundles(at_once, source, CONFIG)
    assert rows(out, "bundles", Bundle) == rows(at_once, "bundles", Bundle) != []
    asked = [(row.question, row.answer, row.hops) for row in rows(out, "bundle_questions", BundleQuestion)]
    assert asked == [(row.question, row.answer, row.hops) for row in rows(at_once, "bundle_questions", BundleQuestion)]
    assert asked


def rows(folder: Path, table: str, record: type) -> list[Any]:
    return list(read_rows(sorted((folder / table).glob("*.parquet")), record))


def test_other_documents_in_place_of_the_first_half_are_named_as_in_a_folder_of_their_own(
    source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    make_bundles(out, source, BUNDLES_ALONE)
    source.write_text("".join(source.read_text().splitlines(keepends=True)[:-2]))
    inputs = RunInputs(dataset="document_bundles", files=(source,))
    replaced, _ = prepare(out, BUNDLES, CONFIG, inputs, replace_run=True)
    fresh, _ = prepare(tmp_path / "fresh", BUNDLES, CONFIG, inputs, replace_run=False)
    assert replaced == fresh and not replaced.begun_as


@pytest.mark.parametrize("change", ["seed", "other documents"])
def test_other_bundles_are_refused(change: str, source: Path, tmp_path: Path) -> None:
    out, config = tmp_path / "out", CONFIG
    make_bundles(out, source, BUNDLES_ALONE)
    if change == "seed":
        config = replace(CONFIG, seed=7)
    else:
        source.write_text("".join(source.read_text().splitlines(keepends=True)[:-2]))
    before = contents(out)
    with pytest.raises(OutputError, match="holds a run with other"):
        prepare(out, BUNDLES, config, RunInputs(dataset="document_bundles", files=(source,)), replace_run=False)
    assert contents(out) == before
