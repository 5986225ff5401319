"""`trailforge rewards` on a file of transcripts."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.support.transcripts import cases
from tests.support.truths import score_messages
from trailforge.commands import look
from trailforge.schemas import InvalidInput

CHOSEN = [case for case in cases() if case.protocol == "react"]


def run(*arguments: object) -> str:
    app = typer.Typer()
    app.command("other")(lambda: None)  # with one command alone, Typer knows no names
    look.register(app)
    result = CliRunner().invoke(app, ["rewards", *map(str, arguments)])
    if isinstance(result.exception, InvalidInput):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def file(tmp_path: Path) -> Path:
    lines = [
        {
            "uid": case.name,
            "messages": [{"role": m.role, "content": m.content} for m in case.messages],
            "ground_truth": asdict(case.truth),
            "tokens": case.tokens,
        }
        for case in CHOSEN
    ]
    path = tmp_path / "episodes.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_every_row_as_json(file: Path) -> None:
    rows = [json.loads(line) for line in run(file, "--preset", "msearcher", "--json").splitlines()]
    assert [row["uid"] for row in rows] == [case.name for case in CHOSEN]
    for row, case in zip(rows, CHOSEN, strict=True):
        reward = score_messages(case.messages, case.truth, tokens=case.tokens)
        assert row["total"] == reward.total
        assert {name: row[name] for name in reward.parts} == reward.parts


def test_a_table_with_the_parts_and_their_means(file: Path) -> None:
    shown = run(file, "--preset", "msearcher", "--limit", 3)
    for text in ("total", "correct", "length", "format", "react 0", "react 2", "mean", "of 10"):
        assert text in shown
    assert "react 3" not in shown
    totals = [score_messages(case.messages, case.truth, tokens=case.tokens).total for case in CHOSEN]
    assert f"{sum(totals) / len(totals):.3f}" in shown


def test_a_training_preset_of_ones_own(file: Path, tmp_path: Path) -> None:
    house = Path(__file__).parents[2] / "presets" / "train" / "msearcher.yaml"
    mine = tmp_path / "mine.yaml"
    mine.write_text(house.read_text().replace("floor_minus_one", "literal"))
    paid = [json.loads(line)["total"] for line in run(file, "--preset", mine, "--json").splitlines()]
    usual = [json.loads(line)["total"] for line in run(file, "--preset", "msearcher", "--json").splitlines()]
    assert paid != usual and all(mine >= ours for mine, ours in zip(paid, usual, strict=True))


def test_an_empty_file_and_an_unknown_preset(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    assert "no episodes" in run(tmp_path / "none.jsonl", "--preset", "msearcher")
    with pytest.raises(InvalidInput, match="no reward preset 'x'"):
        run(tmp_path / "none.jsonl", "--preset", "x")
