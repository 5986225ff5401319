"""How the command ends."""

from __future__ import annotations

import os
import sys

import pytest

from trailforge import cli


def test_the_last_line_cannot_act_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may repeat what a server, a feed or a file said."""
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.delitem(sys.modules, "trailforge.flows", raising=False)  # no server of this process is to be stopped
    cli._end("error: status 400 (\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe)", 4)
    printed = capsys.readouterr().err
    assert codes == [4] and printed.startswith("error: status 400 (") and "owned" in printed
    assert not set(printed) & set("\x1b\x07\x9b\u202e")
