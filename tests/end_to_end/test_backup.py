"""A run is backed up while it works, killed, and goes on elsewhere from the backup, which pays for nothing twice."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.end_to_end.kills import CASES, Site, calls_kept, receipts_of, site_of
from tests.end_to_end.support import trailforge
from tests.support.files import digests
from trailforge.flows.backup import back_up
from trailforge.pipelines.runs.verify import verify_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_run_goes_on_elsewhere_from_its_backup(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "prefect.db")) as prefect:
        prefect.execute("CREATE TABLE runs (name TEXT)")
        prefect.commit()
    case = replace(CASES["mcts-trajectories"], size=12, latency=0.08)
    with site_of(case, tmp_path / "site", {}) as site:
        calls = site.finish(site.folder / "whole")[-1].calls
        kept = back_up_and_kill(site, calls, tmp_path)
        site.forget()
        out = site.folder / "elsewhere"
        told = trailforge("restore", tmp_path / "kept", "--out", out, "--prefect", tmp_path / "p.db")
        assert told.code == 0 and "the same commands go on" in told.out and receipts_of(out), told.err
        site.finish(out)
        assert 0 < kept < calls and len(site.asked()) == len(set(site.asked())) == calls - kept
    assert verify_run(out).problems == []
    whole, other = (digests(folder, folder.rglob("*.parquet")) for folder in (site.folder / "whole", out))
    assert whole == other and whole, "its rows are not those of the undisturbed run"
    with closing(sqlite3.connect(tmp_path / "p.db")) as prefect:
        assert prefect.execute("SELECT count(*) FROM runs").fetchone() == (0,)


def back_up_and_kill(site: Site, calls: int, folder: Path) -> int:
    """Half-way through a run, which is gone then; how many calls the backup holds."""
    out = site.folder / "live"
    site.forget()
    process = site.start(out)
    try:
        while not (len(site.asked()) > calls // 3 and receipts_of(out)):
            assert process.poll() is None, site.log(out)
            time.sleep(0.02)
        # In this process: the run may end before another command has started.
        back_up(out, folder / "kept", prefect=folder / "prefect.db", shown=lambda files, *_: files)
    finally:
        process.end_group()
    site.settle()
    told = trailforge("backup", out, "--out", folder / "killed")
    assert told.code == 0 and "trailforge restore" in told.out, told.err
    assert calls_kept(folder / "killed") >= calls_kept(folder / "kept")
    out.rename(folder / "lost")
    return calls_kept(folder / "kept")
