"""What `make demo` runs: the sample questions, the embedded model, and every kind of trajectory at the end."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.end_to_end.support import QUESTIONS, Made, trailforge
from trailforge.pipelines.runs.finish import read_manifest
from trailforge.schemas import SftRow, Trajectory, read_rows

pytestmark = [pytest.mark.slow, pytest.mark.real_model, pytest.mark.timeout(3600)]


def test_every_kind_of_trajectory_comes_out(demo_trajectories: Made) -> None:
    rows = list(read_rows(sorted(demo_trajectories.out.glob("mcts_trajectories/*.parquet")), Trajectory))
    kinds = Counter(row.reflection_error or "correct" for row in rows)
    assert set(kinds) == {"correct", "retrieval", "reasoning", "decomposition"}, kinds
    assert all(row.reward.cover_exact_match == 1.0 for row in rows)
    assert len({row.uid for row in rows}) == len(rows)


def test_the_end_shows_table_trajectory_and_the_way_on(demo_trajectories: Made) -> None:
    out, printed = demo_trajectories.out, demo_trajectories.printed
    manifest = read_manifest(out)
    assert manifest is not None
    for wanted in ("search", "filter", "retrieval", f"{manifest.calls:,}", "<answer>", "trailforge verify", str(out)):
        assert wanted in printed.replace("\n", "") or wanted in printed, wanted


def test_it_verifies_and_can_be_looked_at(demo_trajectories: Made) -> None:
    out = demo_trajectories.out
    assert trailforge("verify", out).code == 0
    tree = trailforge("show", out, "--tree")
    assert tree.code == 0 and "V" in tree.out and "N" in tree.out
    shown = trailforge("show", out, "--kind", "retrieval")
    assert shown.code == 0 and "<tool_response>" in shown.out


def test_sft_rows_train_assistant_turns_only(demo_trajectories: Made) -> None:
    for row in read_rows(sorted(demo_trajectories.out.glob("sft/*.parquet")), SftRow):
        roles = [message.role for message in row.messages]
        assert [role == "assistant" for role in roles] == list(row.train)
        assert roles[:2] == ["system", "user"] and roles[-1] == "assistant"


def test_the_sample_is_as_its_readme_says() -> None:
    rows = [json.loads(line) for line in QUESTIONS.read_text().splitlines()]
    hops = Counter(len(row["question_decomposition"]) for row in rows)
    assert len(rows) >= 24 and set(hops) == {2, 3, 4}
    for row in rows:
        assert 8 <= len(row["paragraphs"]) <= 20, row["id"]
        for hop in row["question_decomposition"]:
            support = row["paragraphs"][hop["paragraph_support_idx"]]
            assert support["is_supporting"] and hop["answer"].lower() in support["paragraph_text"].lower(), row["id"]
