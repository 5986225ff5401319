"""A finished run without rows is an error of its own, with what took them and what to try."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from trailforge.flows.configuration import configuration_of
from trailforge.pipelines.datasets import dataset_names, load_dataset
from trailforge.pipelines.runs.finish import check_kept
from trailforge.pipelines.runs.intake import Settings
from trailforge.schemas import Count, FileEntry, Manifest, NothingKept, StageCount, to_dict


def finished(dataset: str, folder: Path, *reasons: Count, kept: int = 0, **sections: bool) -> tuple[Manifest, Settings]:
    """A run of so many questions or documents, of which each was rejected or kept."""
    declared = load_dataset(dataset)
    config = replace(configuration_of(declared, "demo"), **sections)
    total = sum(each.count for each in reasons) + kept
    line = StageCount(name=declared.counted, inputs=total, accepted=kept, rejected=reasons)
    files = (FileEntry(path=f"{declared.rows}/part-00000.parquet", rows=kept, sha256=""),) if kept else ()
    settings = Settings(
        dataset=dataset, run_id="r", config_hash="c", config=json.dumps(to_dict(config)), sources=(), limit=None,
        shards=(), files=(), books=(),
    )  # fmt: skip
    manifest = Manifest(
        run_id="r", dataset=dataset, schema_versions=(), config_hash="c", inputs=(), stages=(line,), files=files,
        model="m", calls=0, prompt_tokens=0, completion_tokens=0, cut_replies=0, cost=0.0, seconds=0.0,
        calls_per_accepted_row=None, cost_per_accepted_row=None, trailforge_version="0",
    )  # fmt: skip
    return manifest, settings


@pytest.mark.parametrize("dataset", [name for name in dataset_names() if load_dataset(name).demo])
def test_every_data_set_says_what_took_most_and_what_to_try(tmp_path: Path, dataset: str) -> None:
    declared = load_dataset(dataset)
    known = next(iter(declared.hints))
    manifest, settings = finished(dataset, tmp_path, Count(reason="rare", count=1), Count(reason=known, count=4))
    with pytest.raises(NothingKept) as caught:
        check_kept(manifest, settings, tmp_path)
    line = str(caught.value)
    assert caught.value.exit_code == 14 and "\n" not in line
    for part in (str(tmp_path), "nothing was kept of", declared.stages[0].unit, f"({known} 4, rare 1)",
                 declared.hints[known], f"--table rejected --kind {known}` shows them"):  # fmt: skip
        assert part in line
    check_kept(*finished(dataset, tmp_path, Count(reason=known, count=4), kept=1), tmp_path)


def test_a_reason_without_a_hint_still_shows_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(NothingKept, match=r"\(odd 2\); `trailforge show .* --kind odd` shows them"):
        check_kept(*finished("mcts_trajectories", tmp_path, Count(reason="odd", count=2)), tmp_path)


def test_bundles_alone_are_what_was_asked_for(tmp_path: Path) -> None:
    check_kept(*finished("document_bundles", tmp_path, Count(reason="alone", count=2), questions=False), tmp_path)


@pytest.mark.parametrize("dataset", [name for name in dataset_names() if load_dataset(name).demo])
def test_each_of_the_first_reasons_has_its_sentence_once(tmp_path: Path, dataset: str) -> None:
    """Of reasons that any data set has, too; two reasons of one sentence have it once."""
    hints = load_dataset(dataset).hints
    by_sentence = {hint: reason for reason, hint in hints.items()}
    one = next(reason for reason, hint in hints.items() if by_sentence[hint] != reason)
    twin = by_sentence[hints[one]]
    reasons = [Count(reason=one, count=5), Count(reason="prompt_refused", count=4), Count(reason=twin, count=3)]
    with pytest.raises(NothingKept) as caught:
        check_kept(*finished(dataset, tmp_path, *reasons), tmp_path)
    told = str(caught.value)
    assert told.count(hints[one]) == 1 and "with --redo refused" in told
    assert told.index(hints[one]) < told.index("--redo refused") < told.index("shows them")


@pytest.mark.parametrize("dataset", [name for name in dataset_names() if load_dataset(name).demo])
def test_a_hint_is_one_short_sentence(dataset: str) -> None:
    for reason, hint in load_dataset(dataset).hints.items():
        assert reason.isidentifier() and len(hint) < 250 and "\n" not in hint and not hint.endswith((".", ";")), reason
