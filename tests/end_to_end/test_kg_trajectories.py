"""`trailforge kg-trajectories` on the packaged model and the sample graph, as a person runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.support import QUESTIONS, Made, trailforge
from tests.support.files import contents
from trailforge.schemas import ContrastivePair, KgTrajectory, SftRow, read_rows


def rows(folder: Path, table: str, record: type) -> list:
    return list(read_rows(sorted((folder / table).glob("*.parquet")), record))


@pytest.mark.slow
def test_episodes_over_documents_and_graph(demo_episodes: Made) -> None:
    out, command = demo_episodes.out, demo_episodes.command
    episodes = rows(out, "kg_trajectories", KgTrajectory)
    assert episodes and {row.uid for row in rows(out, "sft", SftRow)} == {row.uid for row in episodes}
    for row in episodes:
        assert row.origin == "oracle" and row.reward.total >= 1
        assert any(step.triples_kept and step.entities[0].entity_id for step in row.steps)
        assert [m.train for m in row.messages] == [m.role == "assistant" for m in row.messages]
    assert {pair.good_uid for pair in rows(out, "pairs", ContrastivePair)} <= {row.uid for row in episodes}
    before = contents(out)
    assert trailforge(*command, timeout_s=60).code == 0 and contents(out) == before
    assert trailforge("verify", out, timeout_s=60).code == 0
    assert episodes[0].uid in trailforge("show", out, timeout_s=60).out


def test_without_a_graph_the_command_says_how_to_get_one(tmp_path: Path) -> None:
    command = ("kg-trajectories", "--preset", "demo", "--questions", QUESTIONS)
    ended = trailforge(*command, "--out", tmp_path / "run", timeout_s=60)
    assert ended.code == 2 and "give --kg, a folder that `trailforge kg build` made" in ended.error_line
    ended = trailforge(*command, "--kg", tmp_path, "--out", tmp_path / "run", timeout_s=60)
    assert ended.code == 2 and "holds no knowledge graph" in ended.error_line
    assert not (tmp_path / "run").exists()
