"""The real command under a cap, and as a dry run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.support import PRESET, leftovers, trailforge
from tests.support.model_server import running, stats
from tests.support.world import write_questions
from trailforge.pipelines.runs.finish import MANIFEST

pytestmark = pytest.mark.slow


@pytest.fixture
def inputs(tmp_path: Path) -> list[object]:
    write_questions(tmp_path / "questions.jsonl", 8)
    (tmp_path / "preset.yaml").write_text(PRESET)
    return ["--questions", tmp_path / "questions.jsonl", "--preset", tmp_path / "preset.yaml"]


def test_a_run_stops_at_its_cap_and_goes_on_when_it_is_raised(inputs: list[object], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running() as url:
        command = ["mcts-trajectories", *inputs, "--model", url, "--out", out]
        for _ in range(2):  # the second time everything that is allowed is in the ledger
            ended = trailforge(*command, "--max-calls", 40)
            assert ended.code == 7 and ended.error_line.startswith("error: the cap on calls is reached: 40 of 40 spent")
            assert stats(url)["calls"] == 40 and leftovers(out) == []
        assert trailforge(*command, "--max-calls", 100_000).code == 0
        seen = stats(url)
    assert seen["calls"] == seen["unique"], "nothing was paid twice"
    assert (out / MANIFEST).exists()


def test_a_dry_run_prints_what_it_would_take_and_touches_nothing(inputs: list[object], tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    ended = trailforge("mcts-trajectories", *inputs, "--dry-run")
    assert ended.code == 0 and ended.err == ""
    for wanted in ("8 questions", "judge", "split", "rephrase", "answer", "all", "no prices", "server.price_per_hour"):
        assert wanted in ended.out
    assert sorted(tmp_path.iterdir()) == before


def test_a_dry_run_of_a_broken_file_is_one_clear_line(inputs: list[object], tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text("no JSON\n")
    ended = trailforge("mcts-trajectories", *inputs, "--dry-run")
    assert ended.code == 2 and "questions.jsonl, row 1" in ended.error_line and "JSON" in ended.error_line
