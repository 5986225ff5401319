"""Episodes that searched well and answered wrongly, as a share of a training set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.generators.agent_trajectories.made_rows import FOUND, QUESTION, row_of, run_of
from tests.support import finished_runs as made
from tests.training.views.test_build import ALL, build, reasons
from trailforge.cli import app
from trailforge.generators.agent_trajectories.choice import choose_rows
from trailforge.generators.agent_trajectories.filters import AgentFilterConfig
from trailforge.generators.agent_trajectories.rows import sft_rows
from trailforge.pipelines.engine.model_stage import rejected_row
from trailforge.schemas import InvalidInput, Question, RejectedRow, SftRow, to_dict
from trailforge.schemas.agent_episode import AgentTrajectory
from trailforge.training.sets.conversations import count_wanted
from trailforge.training.sets.files import TrainingSet

WRONG, POOR, RIGHT = range(6), range(6, 8), range(8, 16)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Eight right rows, six wrong ones with sound searches, two that found nothing of the second hop."""
    asked = [replace(QUESTION, id=f"q{n}", question=f"{n}: {QUESTION.question}") for n in range(16)]
    rows = {n: row_of(run_of(FOUND, answer="Linz", question=asked[n]), question=asked[n]) for n in WRONG}
    rows |= {n: row_of(run_of(FOUND[:1], answer="Linz", question=asked[n]), question=asked[n]) for n in POOR}
    rejected = [each for n in (*WRONG, *POOR) for each in choose_rows([rows[n]], AgentFilterConfig()).rejected]
    right = [row_of(run_of(FOUND, question=asked[n]), question=asked[n]) for n in RIGHT]
    sft = [each for row in right for each in sft_rows(row, data_source="agent_trajectories")]
    aside = [rejected_row("filter", row.uid, against, to_dict(row)) for row, against in rejected]
    tables = {
        "inputs": (Question, asked), "agent_trajectories": (AgentTrajectory, right), "sft": (SftRow, sft),
        "rejected": (RejectedRow, aside),
    }  # fmt: skip
    return made.write_run(tmp_path / "run", "agent_trajectories", tables)


def wrong_ones(built: TrainingSet) -> list[SftRow]:
    return [row for row in built.rows("sft", "train", SftRow) if row.is_wrong]


def test_none_is_kept_unless_they_are_asked_for(run: Path, tmp_path: Path) -> None:
    built = build([run], tmp_path / "out")
    assert not wrong_ones(built) and built.row_count("sft", "train") == len(RIGHT)
    assert all(line.name != "sft_wrong" for line in built.manifest.stages)


def test_a_share_is_drawn_by_lot_and_the_books_tell_of_the_others(run: Path, tmp_path: Path) -> None:
    built = build([run], tmp_path / "out", replace(ALL, keep_wrong=0.2))
    kept = wrong_ones(built)
    assert len(kept) == 2 and built.row_count("sft", "train") == 10
    assert all(row.train[-1] is False and any(row.train) and "Linz" in row.messages[-1].content for row in kept)
    told = reasons(tmp_path / "out")
    assert told["sft_wrong", "surplus_wrong"] == 4 and told["sft_wrong", "poorly_searched"] == 2
    again = wrong_ones(build([run], tmp_path / "again", replace(ALL, keep_wrong=0.2)))
    other = [wrong_ones(build([run], tmp_path / f"s{n}", replace(ALL, keep_wrong=0.2, seed=n))) for n in (1, 2, 3)]
    assert again == kept and any({row.uid for row in rows} != {row.uid for row in kept} for rows in other)


def test_there_are_no_more_than_there_are(run: Path, tmp_path: Path) -> None:
    assert len(wrong_ones(build([run], tmp_path / "out", replace(ALL, keep_wrong=0.9)))) == len(WRONG)


def test_segments_are_made_of_their_searches_and_not_of_their_answer(run: Path, tmp_path: Path) -> None:
    built = build([run], tmp_path / "out", replace(ALL, keep_wrong=0.2, segments=True))
    kept = wrong_ones(built)
    assert len(kept) == 4 and all(row.segment_count == 2 and "Linz" not in row.messages[-1].content for row in kept)


def test_the_command_takes_the_share(run: Path, tmp_path: Path) -> None:
    command = ["training-set", str(run), "--validation", "0", "--keep-wrong", "0.5", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0 and "sft_wrong: 8 rows, 6 accepted; poorly_searched 2" in result.output


@pytest.mark.parametrize(
    ("share", "right", "wanted"), [(0.0, 9, 0), (0.5, 9, 9), (0.2, 8, 2), (0.1, 8, 0), (0.2, 0, 0)]
)
def test_a_share_is_of_all_conversations(share: float, right: int, wanted: int) -> None:
    assert count_wanted(share, right) == wanted


def test_a_share_that_leaves_no_right_one_is_refused() -> None:
    with pytest.raises(InvalidInput, match="keep_wrong"):
        replace(ALL, keep_wrong=1.0)
