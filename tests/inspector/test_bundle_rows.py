"""What a run holds on a bundle: each question once, with what became of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.inspector.bundle_run import ALONE, KEPT, REJECTED, opened, rejected, write, write_bundles, write_questions
from tests.schemas.test_versions import BEFORE
from tests.support.bundle_questions import PAPER, STREET
from trailforge.generators.document_bundles.bundle_rows import documents_of, question_in, questions_of, rejections_of
from trailforge.schemas import BundleQuestion, RejectedRow, SearchEpisode, read_parquet, to_dict


def test_each_question_comes_once_with_its_fate(tmp_path: Path) -> None:
    write_bundles(tmp_path)
    write_questions(tmp_path)
    asked = questions_of(opened(tmp_path), "b")
    assert [(each.row.uid, each.fate) for each in asked] == [
        ("kept", "kept"), ("rejected", "rejected"), ("waiting", "candidate"),
    ]  # fmt: skip
    assert asked[0].row == KEPT  # with what all filters measured, which its candidate does not have
    assert asked[1].row == REJECTED and asked[1].rejected and asked[1].rejected.reason == "not_answerable"


def test_a_bundle_may_be_rejected_itself(tmp_path: Path) -> None:
    write_bundles(tmp_path)
    write_questions(tmp_path)
    run = opened(tmp_path)
    assert questions_of(run, "alone") == []
    assert [each.reason for each in rejections_of(run, "alone")] == ["no_question"]


def test_lost_questions_are_counted_by_type_and_neither_draws_nor_what_got_no_episode(tmp_path: Path) -> None:
    write_bundles(tmp_path)
    write(tmp_path, "bundle_questions", BundleQuestion, [KEPT])
    draw = read_parquet(BEFORE / "searchepisode-1.0.parquet", SearchEpisode)[0]
    assert draw.type and KEPT.type == "factual"
    causal, lost = replace(REJECTED, type="causal"), replace(rejected(KEPT, "low_reward"), stage="episode")
    drawn = replace(lost, uid=draw.uid, stage="draw", payload=json.dumps(to_dict(draw)))
    rows = [rejected(causal, "not_answerable"), rejected(ALONE, "no_question"), lost, drawn]
    write(tmp_path, "rejected", RejectedRow, rows)
    assert opened(tmp_path).count_rejected("bundle_questions", "type") == {"causal": 1}


def test_a_run_of_bundles_alone_has_no_questions(tmp_path: Path) -> None:
    write_bundles(tmp_path)
    assert questions_of(opened(tmp_path), "b") == []


def test_documents_come_with_the_bundle_or_by_their_ids(tmp_path: Path) -> None:
    write_bundles(tmp_path, documents=(PAPER, STREET))
    run = opened(tmp_path)
    assert documents_of(run, "b") == (PAPER, STREET)
    assert documents_of(run, "alone") == (STREET, PAPER)
    assert documents_of(run, "unknown", ["arxiv:2", "gone", "arxiv:2"]) == (PAPER,)


def test_other_rejected_rows_are_no_questions() -> None:
    assert question_in(rejected(ALONE, "no_question")) is None
    assert question_in(rejected(REJECTED, "x")) == REJECTED
