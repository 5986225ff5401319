"""Runs of before, in which reasons have other names: they verify, and a reason that is none is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.bundles_support import FinishedBundles
from tests.pipelines.kg_support import FinishedKg
from tests.pipelines.support import forge
from tests.pipelines.test_curation import LOG, fix, rows_of
from trailforge.curation.apply import apply_rulings
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.runs.verify import verify_run, with_reasons_of_now
from trailforge.schemas import KgQuestion, RejectedRow, read_parquet, write_parquet


def as_before(run: Path, copy: Path, dataset: str) -> Path:
    """A copy of a run with the names that reasons had before, in its tables, its receipts and its manifest."""
    shutil.copytree(run, copy)
    records = load_dataset(dataset).records
    before = {now: old for old, now in load_dataset(dataset).earlier_reasons.items()}
    changed: dict[str, str] = {}
    for path in sorted(each for each in copy.glob("*/*.parquet") if each.parent.name in records):
        record, sha256 = records[path.parent.name], sha256_of(path)
        write_parquet(path, record, [with_reasons_of_now(row, before) for row in read_parquet(path, record)])
        changed[sha256] = sha256_of(path)
    for path in (copy / "manifest.json", *sorted((copy / "shards").glob("**/*.json"))):
        text = path.read_text()
        for now, old in changed.items():
            text = text.replace(now, old)
        content = json.loads(text)
        for line in content["stages"]:
            told = [{**each, "reason": before.get(each["reason"], each["reason"])} for each in line["rejected"]]
            line["rejected"] = sorted(told, key=lambda each: each["reason"])
        if "made_of" in content:
            content["made_of"] = ""  # as receipts of before it was told
        path.write_text(json.dumps(content))
    return copy


@pytest.fixture
def runs(original_bundles: FinishedBundles, original_kg: Mapping[str, FinishedKg]) -> dict[str, tuple[Path, str]]:
    """Finished runs, each with its data set."""
    of_graph = {name: (original_kg[name].folder, original_kg[name].dataset.name) for name in ("free", "written")}
    return {"bundles": (original_bundles.folder, "document_bundles"), **of_graph}


@pytest.mark.parametrize(
    ("name", "reason"), [("bundles", "answer_in_question"), ("free", "malformed"), ("written", "closed_book")]
)
def test_a_run_of_before_verifies_and_a_reason_that_is_none_is_found(
    runs: Mapping[str, tuple[Path, str]], name: str, reason: str, tmp_path: Path
) -> None:
    folder, dataset = runs[name]
    run = as_before(folder, tmp_path / "run", dataset)
    held = [
        {row.reason for row in read_parquet(path, RejectedRow)} for path in sorted((run / "rejected").glob("part-0*"))
    ]
    assert not set().union(*held) & set(load_dataset(dataset).earlier_reasons.values())
    assert verify_run(run).problems == []

    def blame(rows: list[Any]) -> list[Any]:
        return [replace(row, reason="no_such_rule") if row.reason == reason else row for row in rows]

    forge(
        run, "rejected", blame, record=RejectedRow, number=next(n for n, all_of in enumerate(held) if reason in all_of)
    )
    assert any("no_such_rule" in problem for problem in verify_run(run).problems)


def test_a_run_of_before_is_curated_and_verifies(original_kg: Mapping[str, FinishedKg], tmp_path: Path) -> None:
    run = as_before(original_kg["written"].folder, tmp_path / "run", "kg_questions")
    row = rows_of(run, "kg_questions", KgQuestion)[0]
    assert {"malformed", "closed_book"} <= {score.name for score in row.filters}
    apply_rulings(
        run, tmp_path / "out", [fix("kg_questions", row.uid, question=row.question.replace("?", ", then?"))], LOG
    )
    assert verify_run(tmp_path / "out").problems == []
    measured = {score.name for score in rows_of(tmp_path / "out", "kg_questions", KgQuestion)[0].filters}
    assert "malformed_question" in measured and "malformed" not in measured


def test_names_of_now_are_read_in_rows_and_in_what_was_rejected() -> None:
    now = {"malformed": "malformed_question"}
    payload = json.dumps({"uid": "é", "filters": [{"name": "malformed", "passed": False}]}, ensure_ascii=False)
    row = RejectedRow(uid="q", stage="filter", reason="malformed", score=1.0, detail="", payload=payload)
    told = payload.replace('"malformed"', '"malformed_question"')
    assert with_reasons_of_now(row, now) == replace(row, reason="malformed_question", payload=told)


@pytest.mark.parametrize(
    "payload",
    [
        'no JSON: "malformed"',
        '["malformed"]',
        '{"filters": ["malformed"]}',
        '{"filters": [{"name": ["malformed"]}]}',
        '{"filters": {"x": "malformed"}}',
    ],
)
def test_what_holds_no_scores_stays_as_it_is(payload: str) -> None:
    row = RejectedRow(uid="q", stage="filter", reason="shortcut", score=1.0, detail="", payload=payload)
    assert with_reasons_of_now(row, {"malformed": "malformed_question"}) == row
