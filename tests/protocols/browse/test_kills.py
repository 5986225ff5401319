"""An episode of more than sixty calls that is killed ten times: the same bytes, and no finished call is made again."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.support import model_server
from tests.support.warm import Running

KILLS, STOPS = 10, 32
"""A road of so many stops takes a search and an opening each, and a find at every fifth."""


def begin(url: str, folder: Path, writing: str, context: str, out: Path) -> Running:
    arguments = [url, str(folder / "ledger.sqlite"), writing, context, str(STOPS), str(out)]
    said = folder / "said.txt"
    return Running(arguments, os.environ, said, said, module="tests.support.browse_run")


def answered(log: Path) -> int:
    return log.read_text().count("out ") if log.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize(("writing", "context"), [("native", "all"), ("tags", "newest:3")])
def test_a_killed_episode_goes_on_from_its_ledger(tmp_path: Path, writing: str, context: str) -> None:
    log, out, whole = tmp_path / "calls.log", tmp_path / "out.json", tmp_path / "whole.json"
    with model_server.running(browse=1, latency=0.02, log=log) as url:
        killed = 0
        while killed < KILLS:
            before = answered(log)
            child = begin(url, tmp_path, writing, context, out)
            while answered(log) < before + 4 and child.poll() is None:
                time.sleep(0.002)
            assert child.poll() is None, "it ended before it could be killed"
            child.send_signal(signal.SIGKILL)
            assert child.wait() == -signal.SIGKILL
            killed += 1
        assert begin(url, tmp_path, writing, context, out).wait() == 0
        figures = model_server.stats(url)
        assert 0 <= figures["calls"] - figures["unique"] <= KILLS  # one call is in flight at a time
        fresh = tmp_path / "fresh"
        fresh.mkdir()
        assert begin(url, fresh, writing, context, whole).wait() == 0
        assert begin(url, fresh, writing, context, out.with_suffix(".again")).wait() == 0
        after = model_server.stats(url)
    assert after["calls"] - figures["calls"] == figures["unique"]  # a run from a whole ledger asks nothing
    stop, answer, record = json.loads(out.read_bytes())
    assert (stop, answer) == ("answered", "Oslo") and len(record["calls"]) >= 60
    assert out.read_bytes() == whole.read_bytes() == out.with_suffix(".again").read_bytes()
