"""What a run holds on a bundle: each question once, with what became of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.inspector.bundle_run import ALONE, KEPT, REJECTED, opened, rejected, write, write_bundles, write_questions
from tests.schemas.test_versions import BEFORE
from tests.support.bundle_questions import BUNDLE, PAPER, STREET
from trailforge.generators.document_bundles.bundle_rows import (
    Hold,
    chips_of,
    documents_of,
    list_columns,
    question_in,
    questions_of,
    rejections_of,
)
from trailforge.schemas import (
    Bundle,
    BundleLink,
    BundleQuestion,
    RejectedRow,
    SearchEpisode,
    read_parquet,
    to_dict,
)


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


def link(first: str, second: str, cosine: float, shared: float | None = 0.0, copied: float | None = 0.0) -> BundleLink:
    return BundleLink(first=first, second=second, cosine=cosine, shared=shared, copied=copied)


def test_what_holds_a_bundle_is_asked_of_the_document_that_is_held_least() -> None:
    """A joins B and C, which share nothing with each other: half of the others are enough."""
    links = (link("a", "b", 0.7, 5.0, 0.1), link("a", "c", 0.5, 4.5, 0.3), link("b", "c", 0.6, 0.0, 0.0))
    hold = Hold.of(("a", "b", "c"), links, 0.0)
    assert hold is not None and (hold.cosine, hold.shared, hold.copied) == (pytest.approx(0.55), 4.5, 0.3)
    far = Hold.of(("a", "b", "c"), links, 0.55)
    assert far is not None and far.shared == 0.0, "names join only documents that are near: c has b alone"
    pairs = (*links, link("a", "d", 0.9, 9.0), link("b", "d", 0.9, 6.0), link("c", "d", 0.9, 1.0))
    four = Hold.of(("a", "b", "c", "d"), pairs, 0.0)
    assert four is not None and four.shared == 1.0, "of three others two are half: c has 4.5 and 1"


def test_bundles_of_earlier_runs_do_not_say_what_they_share() -> None:
    assert Hold.of(("a", "b"), (), 0.0) is None
    assert Hold.of(("a", "b"), (link("a", "b", 0.7, None, None),), 0.0) == Hold(cosine=0.7, shared=None, copied=None)


def test_the_outcome_of_a_bundle_is_its_best_question_or_why_most_were_rejected(tmp_path: Path) -> None:
    ids = ("kept", "waiting", "known", "empty", "broken", "unasked")
    write(tmp_path, "bundles", Bundle, [replace(ALONE, uid=id) for id in ids])
    write(tmp_path, "bundle_questions", BundleQuestion, [replace(KEPT, bundle_id="kept")])
    twin = replace(KEPT, uid="twin", bundle_id="known")
    waiting = replace(KEPT, uid="w", bundle_id="waiting")
    write(tmp_path, "candidates", BundleQuestion, [replace(KEPT, bundle_id="kept"), waiting, twin])
    lost = [replace(REJECTED, uid=f"r{number}", bundle_id="known") for number in range(3)]
    rows = [
        replace(rejected(twin, "duplicate_question"), stage="select"),
        rejected(lost[0], "closed_book"), rejected(lost[1], "closed_book"),
        rejected(replace(REJECTED, bundle_id="kept"), "closed_book"),
        replace(rejected(replace(ALONE, uid="empty"), "no_question"), stage="write"),
        replace(rejected(ALONE, "malformed_reply"), uid="broken", stage="write", payload="not JSON"),
        replace(rejected(ALONE, "alone"), uid="unasked", stage="bundle"),
    ]  # fmt: skip
    write(tmp_path, "rejected", RejectedRow, rows)
    columns = list_columns(opened(tmp_path))
    assert dict(zip(ids, columns["outcome"], strict=True)) == {
        "kept": "kept", "waiting": "waiting", "known": "closed_book", "empty": "no_question",
        "broken": "malformed_reply", "unasked": "not asked",
    }  # fmt: skip
    assert columns["least_cosine"] == [None] * len(ids)


def test_the_list_has_what_each_bundle_rests_on(tmp_path: Path) -> None:
    near = replace(BUNDLE, links=(link("news:1", "arxiv:2", 0.7, 5.5, 0.25),))
    write(tmp_path, "bundles", Bundle, [near, ALONE])
    columns = list_columns(opened(tmp_path))
    assert {name: values[0] for name, values in columns.items()} == {
        "outcome": "not asked", "least_cosine": 0.7, "shared_names": 5.5, "shared_text": 0.25,
    }  # fmt: skip


@pytest.mark.parametrize(("asked", "kinds"), [((0.5, 4.0), ["", "", "warn"]), ((0.65, 5.2), ["warn", "warn", "warn"])])
def test_a_figure_that_hardly_reaches_what_is_asked_is_marked(asked: tuple[float, float], kinds: list[str]) -> None:
    run = opened(Path("none"))
    run.config["bundles"] = {"min_cosine": asked[0], "min_shared": asked[1]}
    chips = chips_of(run, replace(BUNDLE, links=(link("news:1", "arxiv:2", 0.7, 5.5, 0.3),)))
    assert [chip.kind for chip in chips] == kinds
    assert [chip.text for chip in chips] == [
        f"cosine 0.70 ≥ {asked[0]:g}", f"names 5.50 ≥ {asked[1]:g}", "shared text 30%",
    ]  # fmt: skip
