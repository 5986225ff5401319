"""PortableRunner on loopback: a job service and two external workers give the bytes of a local run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.elsewhere import ROOT, check_bundles, trajectory_files
from tests.end_to_end.support import trailforge
from tests.support import cluster
from tests.support.model_server import running, stats
from tests.support.world import write_questions
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.pipelines.runs.verify import verify_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

QUESTIONS = 18
IN_FLIGHT = 8
PRESET = f"""
model: {{name: scripted, max_in_flight: {IN_FLIGHT}}}
retrieval: {{kind: bm25}}
schedule: {{questions_in_flight: 6, tail_questions: 4, worker_start_s: 90, worker_silence_s: 30}}
output: {{shard_size: 3}}
"""


class Site:
    """A folder with questions, a preset and a model server, and a run without a cluster."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url, self.local = folder, url, folder / "local"

    def make(self, out: Path, *options: str) -> None:
        """Run the command to its end."""
        arguments = ["--questions", self.folder / "questions.jsonl", "--preset", self.folder / "preset.yaml"]
        ended = trailforge("mcts-trajectories", *arguments, "--model", self.url, "--out", out, *options, timeout_s=240)
        assert ended.code == 0, ended.err


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("portable")
    write_questions(folder / "questions.jsonl", QUESTIONS)
    (folder / "preset.yaml").write_text(PRESET)
    with running(latency=0.02, slots=32, error_rate=0.3) as url:
        site = Site(folder, url)
        site.make(site.local)
        yield site


def test_two_workers_with_our_wheel_make_the_bytes_of_a_local_run(
    site: Site, environment: Path, tmp_path: Path
) -> None:
    """They have no source tree: the packages of the wheel are all that is needed, data files included."""
    (code,) = environment.glob("lib/python*/site-packages")
    out, before = site.folder / "portable", stats(site.url)["calls"]
    with cluster.running(tmp_path, code=code) as workers:
        site.make(out, *workers.options)
        assert str(ROOT) not in workers.log()
    assert trajectory_files(out) == trajectory_files(site.local)
    assert len(trajectory_files(out)) > 3 * len(MCTS.tables)
    assert len({path.name.partition("-")[0] for path in out.glob("progress/*.json")}) == cluster.POOLS
    seen = stats(site.url)
    assert seen["unique"] == before, "the workers asked other things"
    assert seen["calls"] - 2 * before <= IN_FLIGHT, "more was paid twice than two workers may ask at the same moment"
    assert verify_run(out).problems == []


def test_two_workers_make_the_bundles_of_a_local_run(site: Site, tmp_path: Path) -> None:
    with cluster.running(tmp_path / "cluster") as workers:
        check_bundles(tmp_path, site.url, workers.options, workers.log)


def test_a_job_service_that_is_not_there_is_told_in_one_line(site: Site) -> None:
    arguments = ["--questions", site.folder / "questions.jsonl", "--preset", site.folder / "preset.yaml"]
    options = ["--runner", "PortableRunner", "--beam-option", "job_endpoint=127.0.0.1:9"]
    ended = trailforge("mcts-trajectories", *arguments, "--model", site.url, "--out", site.folder / "no", *options)
    assert ended.code == 10
    assert ended.error_line.startswith("error: no job service at 127.0.0.1:9 ")
