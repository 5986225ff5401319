"""Kill -9 of the whole process group at random moments, then the same command: the short form of `make kills`.

What was finished stays as it is, nothing is lost, doubled or paid twice, and the bytes are those of an undisturbed run.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.end_to_end.kills import CASES, Moment, Site, draw_moments, kill_runs, site_of
from tests.support import model_server
from tests.support.warm import Running
from trailforge.pipelines.runs.finish import read_manifest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

KILLS = 2
SIZES = {
    "mcts-trajectories": 12,
    "document-bundles": 12,
    "kg-trajectories": 10,
    "kg-questions": 12,
    "agent-trajectories": 10,
}
"""Five shards or more, so that some are finished and some under way at a kill."""


def test_who_has_the_number_of_what_ended_long_ago_is_left_alone(tmp_path: Path) -> None:
    """Numbers of processes come round again within minutes where many are started."""
    stranger, url = model_server.start()
    ended = Running(["--version"], os.environ, tmp_path / "out", tmp_path / "err")
    ended.wait(300)
    ended.pid = stranger.pid
    ended.end_group()
    assert model_server.stats(url)["limited"] == 0, "it answers"
    stranger.end_group()
    assert stranger.returncode == -signal.SIGKILL


@pytest.fixture(params=SIZES)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    case = CASES[request.param]
    short = replace(case, size=SIZES[case.command], latency=case.latency / 2)
    with site_of(short, tmp_path / request.param, {}) as site:
        yield site


def test_a_killed_run_keeps_what_is_finished_and_ends_in_the_same_rows(site: Site) -> None:
    tally = kill_runs(site, kills=KILLS, per_run=KILLS, seed=0, say=print)
    assert tally.found() == []
    assert tally.between and tally.kept, "no kill came with some shards finished and some under way"


@pytest.mark.parametrize("site", ["mcts-trajectories"], indirect=True)
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_told_to_stop_stops_at_once_and_says_how_to_go_on(sent: int, code: int, site: Site) -> None:
    out = site.folder / "stopped"
    process = site.start(out)
    try:
        while len(site.asked()) < 50 and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(sent)
        assert process.wait(20) == code
    finally:
        process.end_group()
    assert site.log(out).rstrip().endswith("the same command goes on from here")
    assert read_manifest(out) is None


def test_moments_are_spread_over_the_states_with_some_shards_finished() -> None:
    passed = [Moment(calls, calls // 10) for calls in range(101) for _ in range(1 + calls % 3)]
    for seed in range(50):
        moments = draw_moments(random.Random(seed), passed, 5)
        busy = [moment for moment in moments if moment is not None]
        assert len(moments) == 5 and len(busy) == 4 and busy == sorted(set(busy))
        assert all(0 < moment.receipts < 9 for moment in busy)
