"""Two data sets on a cluster of two workers give the bytes of a local run, also where a worker is killed under way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.end_to_end.elsewhere import check_bundles, trajectory_files
from tests.end_to_end.kills import CASES, Site, changed_files, finished_files, site_of
from tests.end_to_end.support import trailforge
from tests.support import dask_cluster, model_server
from trailforge.pipelines.runs.verify import verify_run

pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dask_cluster.DaskCluster]:
    with dask_cluster.running(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """So few questions at a time that most shards wait when a worker is killed."""
    case = CASES["mcts-trajectories"]
    preset = case.preset.replace("questions_in_flight: 8", "questions_in_flight: 4")
    with site_of(replace(case, preset=preset), tmp_path / "site", {}) as site:
        yield site


def test_a_killed_worker_costs_its_own_shards_and_a_late_one_gets_work(
    site: Site, cluster: dask_cluster.DaskCluster
) -> None:
    """The command goes on by itself. What is finished at the kill is not made again."""
    whole, out = site.folder / "whole", site.folder / "killed"
    site.finish(whole)
    calls = len(site.asked())
    site.forget()
    process = site.start(out, *cluster.options)
    try:
        while len(set(site.asked())) < calls // 3 or not finished_files(out):
            assert process.poll() is None, site.log(out)
            time.sleep(0.02)
        finished = finished_files(out)
        cluster.workers[0].end_group()
        late = cluster.add_worker()
        assert process.wait(300) == 0, site.log(out) + cluster.log()
    finally:
        process.end_group()
    assert trajectory_files(out) == trajectory_files(whole)
    assert not changed_files(out, finished)
    asked = site.asked()
    assert len(set(asked)) == calls, "it asked other things"
    assert len(asked) - calls <= 2 * site.case.in_flight
    assert list(out.glob(f"progress/{late.pid}-*.json")), "the late worker got nothing"
    assert verify_run(out).problems == []


def test_workers_of_a_killed_command_stop_and_the_same_command_goes_on(
    site: Site, cluster: dask_cluster.DaskCluster
) -> None:
    """Nothing more is paid for, though nobody tells them."""
    out = site.folder / "driver-killed"
    process = site.start(out, *cluster.options)
    try:
        while len(set(site.asked())) < 60:
            assert process.poll() is None, site.log(out)
            time.sleep(0.02)
    finally:
        process.end_group()
    asked = 0
    while asked != (now := len(site.asked())):  # on a busy machine it takes a moment until all have seen it
        asked = now
        time.sleep(2.0)
    assert asked < 300, "they went on as if nothing had been"
    process = site.start(out, *cluster.options)
    try:
        assert process.wait(300) == 0, site.log(out) + cluster.log()
    finally:
        process.end_group()
    assert len(site.asked()) - len(set(site.asked())) <= 2 * site.case.in_flight
    assert verify_run(out).problems == []


def test_bundles_are_those_of_a_local_run(cluster: dask_cluster.DaskCluster, tmp_path: Path) -> None:
    with model_server.running() as url:
        check_bundles(tmp_path, url, cluster.options, cluster.log)


def test_a_scheduler_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    ended = trailforge(
        *("mcts-trajectories", "--questions", "sample_data/musique_style_questions.jsonl", "--preset", "demo"),
        *("--out", tmp_path / "no", "--cluster", "tcp://127.0.0.1:9"),
    )
    assert ended.code == 10
    assert ended.error_line.startswith("error: no scheduler of Dask at tcp://127.0.0.1:9 ")
