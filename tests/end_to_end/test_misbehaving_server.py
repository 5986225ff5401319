"""The real command at a model server that misbehaves: one line and its code, and the same folder goes on."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from tests.end_to_end.support import PRESET, leftovers, trailforge
from tests.inference import misbehaving as bad
from tests.support import world
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.pipelines.dataset import LEDGER
from trailforge.pipelines.runs.verify import verify_run

pytestmark = pytest.mark.slow


def kept_calls(folder: Path) -> int:
    """How many the ledger holds, all of which can be read."""
    ledger = SqliteLedger(folder / LEDGER)
    try:
        assert not ledger.unreadable()
        return ledger.entries()
    finally:
        ledger.close()


def spoil(folder: Path) -> None:
    """Two calls of the ledger: one as a disk may leave it, one with the tokens that an earlier version kept."""
    with closing(sqlite3.connect(folder / LEDGER)) as connection, connection:
        (one, _), (other, blob) = connection.execute("SELECT key, value FROM calls ORDER BY key LIMIT 2").fetchall()
        content = json.loads(zstandard.decompress(blob))
        content["reply"] |= {"prompt_tokens": 1.5, "completion_tokens": None}
        odd = zstandard.compress(json.dumps(content).encode())
        connection.executemany("UPDATE calls SET value = ? WHERE key = ?", [(b"\0" * 99, one), (odd, other)])
        connection.execute("UPDATE spent SET prompt_tokens = -1e9")


def test_a_run_meets_a_bad_server_and_a_spoilt_ledger_stays_within_its_caps_and_ends_well(tmp_path: Path) -> None:
    world.write_questions(tmp_path / "questions.jsonl", 4)
    (tmp_path / "preset.yaml").write_text(PRESET)
    out = tmp_path / "out"
    refuses = bad.status("400 Bad Request", body={"error": {"message": "\x1b]0;pwn\x07\x1b[2J no"}})
    without_usage = bad.changed(usage=bad.usage(None, 1.5))
    with bad.misbehaving_beside(bad.after(20, refuses), world.Model()) as server:
        command = ["mcts-trajectories", "--questions", tmp_path / "questions.jsonl", "--out", out]
        command += ["--preset", tmp_path / "preset.yaml", "--model", server.url]
        ended = trailforge(*command)
        assert ended.code == 4 and "refused with status 400" in ended.error_line
        assert ended.error_line.isprintable() and leftovers(out) == []
        assert (held := kept_calls(out)) == 20, "those that were answered before"
        spoil(out)
        server.mode, server.calls = without_usage, 0
        ended = trailforge(*command, "--max-tokens", 20_000)
        assert ended.code == 7 and "the cap on tokens is reached" in ended.error_line
        assert ", 1 unreadable and made again)" in ended.err
        assert kept_calls(out) == held - 1 + server.calls, "the damaged one was paid again, and no other"
        assert trailforge(*command, "--max-tokens", 10_000_000).code == 0
        assert kept_calls(out) == held - 1 + server.calls
    assert verify_run(out).problems == []
