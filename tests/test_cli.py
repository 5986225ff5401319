"""How the command ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import trailforge
from trailforge import cli


def test_the_last_line_cannot_act_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may repeat what a server, a feed or a file said."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.delitem(sys.modules, "trailforge.flows", raising=False)  # no server of this process is to be stopped
    cli._end("status 400 (\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe)", 4)
    printed = capsys.readouterr().err
    assert codes == [4] and printed.startswith("error: status 400 (") and "owned" in printed
    assert not set(printed) & set("\x1b\x07\x9b\u202e")


def test_the_version_is_that_of_the_installed_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == trailforge.__version__


def test_every_command_stands_under_one_of_four_headings_and_each_is_named() -> None:
    """A name under a heading that no command has would leave that command under the wrong one."""
    root: Any = typer.main.get_command(cli.app)
    panels = {name: command.rich_help_panel for name, command in root.commands.items()}
    assert set(panels.values()) == set(cli._PANELS)
    assert {name for names in cli._PANELS.values() for name in names} <= set(panels)
    assert (panels["mcts-trajectories"], panels["train"]) == ("Make data", "Train and evaluate")
    assert panels["doctor"] == "Operate"


def test_completion_can_be_installed() -> None:
    assert {"--install-completion", "--show-completion"} <= {
        option for parameter in typer.main.get_command(cli.app).params for option in parameter.opts
    }


def test_a_package_that_is_not_installed_is_a_line_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class EndedError(Exception):
        """In place of the process's end."""

    def leave(code: int) -> None:
        raise EndedError(code)

    def absent(folder: Path) -> None:
        raise ModuleNotFoundError("No module named 'umap'", name="umap")

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr("trailforge.pipelines.runs.verify.verify_run", absent)
    monkeypatch.delitem(sys.modules, "trailforge.flows", raising=False)
    with pytest.raises(EndedError, match="2"):
        cli.main(["verify", str(tmp_path)])
    assert capsys.readouterr().err == (
        "error: this needs the package umap: pip install 'trailforge[bundles]' (`make install` in a checkout)\n"
    )
