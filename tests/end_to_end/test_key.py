"""The key of a hosted model is in no file, no log, no ledger entry, no row, and on no command line."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from tests.end_to_end.support import PRESET, ROOT, trailforge
from tests.support.model_server import fail_next, running
from tests.support.world import write_questions
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.pipelines.dataset import LEDGER
from trailforge.schemas import Question, read_rows, to_dict

pytestmark = pytest.mark.slow

KEY = "sk-7f3a9c-not-to-be-found-anywhere"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """With the key, all of Prefect's logs, and a home of its own for Prefect's database."""
    home = str(tmp_path / "prefect")
    return {"TRAILFORGE_API_KEY": KEY, "PREFECT_HOME": home, "PREFECT_LOGGING_LEVEL": "DEBUG"}


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """A run of eight questions, without the URL of the model."""
    write_questions(tmp_path / "questions.jsonl", 8)
    (tmp_path / "preset.yaml").write_text(PRESET)
    options = {"questions": "questions.jsonl", "preset": "preset.yaml", "out": "run"}
    parts = [part for name, file in options.items() for part in (f"--{name}", str(tmp_path / file))]
    return ["mcts-trajectories", *parts, "--model"]


def files_with_the_key(folder: Path) -> list[Path]:
    """Files that hold the key as it is."""
    return [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def compressed_texts(run: Path) -> Iterator[str]:
    """What the run's ledger and Parquet files hold under compression."""
    with closing(sqlite3.connect(run / LEDGER)) as ledger:
        for (blob,) in ledger.execute("SELECT value FROM calls"):
            yield zstandard.decompress(blob).decode()
    for table, record in {**MCTS.records, "inputs": Question}.items():
        for row in read_rows(sorted((run / table).glob("*.parquet")), record):
            yield json.dumps(to_dict(row))


def command_lines() -> str:
    """Of all processes of this machine."""
    return subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout


def test_a_run_with_a_key_leaves_no_trace_of_it(
    tmp_path: Path, command: list[str], environment: dict[str, str]
) -> None:
    log, seen = tmp_path / "run.log", []
    with running(latency=0.1, log=tmp_path / "calls.log") as url:
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "trailforge", *command, url],
                cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            )  # fmt: skip
        while process.poll() is None:
            seen.append(command_lines())
            time.sleep(0.2)
    assert process.returncode == 0, log.read_text()
    assert any(url in lines for lines in seen), "the run was never seen"
    assert not [lines for lines in seen if KEY in lines]
    assert files_with_the_key(tmp_path) == []
    texts = list(compressed_texts(tmp_path / "run"))
    assert len(texts) > 8 and not [text for text in texts if KEY in text]


def test_a_server_that_repeats_the_key_in_its_refusal_does_not_get_it_into_errors_or_logs(
    tmp_path: Path, command: list[str], environment: dict[str, str]
) -> None:
    with running() as url:
        fail_next(url, *[{"status": 400, "body": {"error": {"message": f"what is {KEY}?"}}}] * 500)
        ended = trailforge(*command, url, environment=environment)
        found = [trailforge(*told, environment=environment) for told in asked_about(tmp_path, url)]
    assert ended.code == 4 and "what is <key>?" in ended.err
    assert list((tmp_path / "run" / "errors").glob("*.json"))
    assert KEY not in "".join(each.out + each.err for each in (ended, *found))
    assert [each.code for each in found] == [0, 11], found
    assert files_with_the_key(tmp_path) == []


def asked_about(folder: Path, url: str) -> list[list[str]]:
    """`status` and `doctor` of the run."""
    doctor = ["doctor", "--preset", str(folder / "preset.yaml"), "--model", url, "--call"]
    return [["status", str(folder / "run")], [*doctor, "--out", str(folder / "run")]]
