"""Processes of `tests.inference.ledger_writer`: told to begin, and what they say that is kept."""

from __future__ import annotations

import subprocess


def begin(process: subprocess.Popen[str]) -> None:
    """Let one that is ready write."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def acknowledged(lines: list[str]) -> dict[str, str]:
    """Key -> kept text of every whole line."""
    return dict(line.split() for line in lines if line.endswith("\n") and not line.startswith("error"))
