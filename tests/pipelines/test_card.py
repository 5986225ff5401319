"""The card: what a hub reads in front, then the figures of the manifest and of the rows."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.pipelines.support import CONFIG, FinishedRun, config_with
from trailforge.generators.mcts_trajectories.card import card
from trailforge.pipelines.runs.config import ModelConfig
from trailforge.schemas import Message, RejectedRow, SearchTree, Trajectory, read_rows


@pytest.fixture(scope="module")
def rows(original_run: FinishedRun) -> list[Trajectory]:
    return list(read_rows(sorted((original_run.folder / "mcts_trajectories").glob("*.parquet")), Trajectory))


@pytest.fixture(scope="module")
def text(original_run: FinishedRun) -> str:
    return (original_run.folder / "README.md").read_text()


def front_matter(text: str) -> dict[str, Any]:
    start, front, _ = text.split("---\n", 2)
    assert start == ""
    return yaml.safe_load(front)


def test_the_front_matter_names_the_tables_that_have_files(original_run: FinishedRun, text: str) -> None:
    front = front_matter(text)
    assert front["pretty_name"] == original_run.manifest.run_id
    assert [c["config_name"] for c in front["configs"]] == ["mcts_trajectories", "sft", "trees", "rejected", "inputs"]
    for config in front["configs"]:
        (files,) = config["data_files"]
        assert files["split"] == ("rejected" if config["config_name"] == "rejected" else "train")
        assert list(original_run.folder.glob(files["path"]))


def test_a_table_without_files_is_left_out(finished_run: FinishedRun) -> None:
    files = tuple(f for f in finished_run.manifest.files if not f.path.startswith("rejected/"))
    front = front_matter(card(finished_run.folder, replace(finished_run.manifest, files=files), CONFIG, []))
    assert [c["config_name"] for c in front["configs"]] == ["mcts_trajectories", "sft", "trees", "inputs"]


def test_the_funnel_is_that_of_the_manifest(original_run: FinishedRun, text: str) -> None:
    assert "| read | 21 | 20 | invalid_input 1 |  |" in text
    for line in original_run.manifest.stages:
        rejected = ", ".join(f"{count.reason} {count.count}" for count in line.rejected)
        assert f"| {line.name} | {line.inputs} | {line.accepted} | {rejected} |  |" in text


def test_kinds_and_origins_are_counted_over_the_rows(rows: list[Trajectory], text: str) -> None:
    kinds = Counter(row.reflection_error or row.kind for row in rows)
    assert {"correct", "reasoning"} <= set(kinds)
    for kind, count in (kinds + Counter(row.origin for row in rows)).items():
        assert f"| {kind} | {count} |" in text
    searches = sum(row.num_tool_calls for row in rows) / len(rows)
    assert f"- Rows: {len(rows)} trajectories; searches per trajectory: {searches:.2f}" in text


def test_errors_are_counted_by_where_they_come_from(finished_run: FinishedRun, rows: list[Trajectory]) -> None:
    (first, *others) = [row for row in rows if row.kind == "reflective"]
    assert others, "one reflective row tells no share"
    told = [replace(first, error_source="sampled"), *(replace(row, error_source="provoked") for row in others)]
    text = card(finished_run.folder, finished_run.manifest, CONFIG, told)
    assert f"| sampled | 1 | {1 / len(told):.0%} |" in text
    assert f"| provoked | {len(others)} | {len(others) / len(told):.0%} |" in text
    assert "errors of reflective rows" not in card(finished_run.folder, finished_run.manifest, CONFIG, [])


def test_the_yield_of_each_kind_is_what_was_kept_and_why_the_rest_was_not(
    original_run: FinishedRun, rows: list[Trajectory], text: str
) -> None:
    kept = Counter(row.reflection_error or row.kind for row in rows)
    reasons: dict[str, Counter[str]] = {kind: Counter() for kind in kept}
    files = sorted((original_run.folder / "rejected").glob("part-*.parquet"))
    for row in read_rows(files, RejectedRow):
        if row.stage == "filter":
            content = json.loads(row.payload)
            reasons.setdefault(content["reflection_error"] or content["kind"], Counter())[row.reason] += 1
    assert sum(map(Counter.total, reasons.values())), "nothing was rejected, so nothing is tested"
    for kind, why in reasons.items():
        told = ", ".join(f"{reason} {count}" for reason, count in sorted(why.items()))
        assert f"| {kind} | {kept[kind] + why.total()} | {kept[kind]} | {told} |" in text


def test_the_card_says_why_searches_ended(original_run: FinishedRun, text: str) -> None:
    stops = Counter(t.stop_reason for t in read_rows(sorted((original_run.folder / "trees").glob("*")), SearchTree))
    assert stops
    for reason, count in stops.items():
        assert f"| {reason} | {count} |" in text


def test_shares_are_of_the_rows(finished_run: FinishedRun, rows: list[Trajectory]) -> None:
    rows = [replace(row, follows_gold=None, thoughts="templates", judge_score=None) for row in rows[:4]]
    rows[0] = replace(rows[0], follows_gold=True, thoughts="model", judge_score=1.0)
    rows[1] = replace(rows[1], follows_gold=False)
    text = card(finished_run.folder, finished_run.manifest, CONFIG, rows)
    assert "| follow the gold decomposition | 1 | 50% |" in text
    assert "| answer was judged by a model | 1 | 25% |" in text
    assert "| thoughts written by the model | 1 | 25% |" in text


def test_calls_are_told_by_purpose(original_run: FinishedRun, text: str) -> None:
    m = original_run.manifest
    assert {each.purpose for each in m.calls_by_purpose} >= {"answer", "split"}
    assert sum(each.calls for each in m.calls_by_purpose) == m.calls
    for each in m.calls_by_purpose:
        assert f"| {each.purpose} | {each.calls} | {each.calls / m.calls:.0%} |" in text


def test_the_cost_is_that_of_the_manifest(original_run: FinishedRun, text: str) -> None:
    m = original_run.manifest
    assert (
        f"| {m.calls} | {m.cut_replies} | {m.prompt_tokens} | {m.completion_tokens} | {m.cost:.4f} "
        f"| {m.calls_per_accepted_row} | {m.cost_per_accepted_row:.4f} |" in text
    )


def test_where_it_came_from_is_said(original_run: FinishedRun, text: str) -> None:
    m = original_run.manifest
    assert f"- Questions: `{'/'.join(original_run.source.parts[-2:])}` (21 rows read)\n" in text
    assert f"Seed 0, configuration {m.config_hash}, trailforge {m.trailforge_version}" in text
    assert "- Model: scripted\n" in text


def test_there_is_one_example_of_each_kind(rows: list[Trajectory], text: str) -> None:
    kinds = {row.reflection_error or row.kind for row in rows}
    assert text.count("\n### ") == len(kinds) >= 2
    for kind in kinds:
        first = next(row for row in rows if kind == (row.reflection_error or row.kind))
        assert f"### {kind} (`{first.uid}`)" in text
        assert first.messages[1].content in text and first.messages[0].content not in text


def test_a_passage_cannot_close_the_block_it_is_shown_in(finished_run: FinishedRun, rows: list[Trajectory]) -> None:
    evil = Message(role="tool", content="```\n# A heading\n```", train=False)
    text = card(
        finished_run.folder, finished_run.manifest, CONFIG, [replace(rows[0], messages=(rows[0].messages[0], evil))]
    )
    example = text.split("### correct")[1]
    assert example.count("```") == 2
    assert "'''\n# A heading\n'''" in example


def test_a_long_message_is_cut(finished_run: FinishedRun, rows: list[Trajectory]) -> None:
    long = Message(role="tool", content="x" * 5000, train=False)
    text = card(
        finished_run.folder, finished_run.manifest, CONFIG, [replace(rows[0], messages=(rows[0].messages[0], long))]
    )
    assert "x" * 700 + " …" in text and "x" * 701 not in text


def test_a_run_without_rows_has_a_card_too(finished_run: FinishedRun) -> None:
    text = card(finished_run.folder, replace(finished_run.manifest, calls_per_accepted_row=None), CONFIG, [])
    assert "- Rows: 0 trajectories; searches per trajectory: none" in text
    assert "example of each kind" not in text


def test_rows_of_the_embedded_model_are_said_not_to_be_for_training(finished_run: FinishedRun, text: str) -> None:
    warning = "Not meant for training"
    assert warning not in text
    assert warning in card(
        finished_run.folder, finished_run.manifest, config_with(model=ModelConfig(url="embedded")), []
    )
