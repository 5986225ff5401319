"""PortableRunner on loopback: a job service and two external workers give the bytes of a local run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.support import trailforge
from tests.support import cluster
from tests.support.files import digests
from tests.support.model_server import running, stats
from tests.support.world import write_questions
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.pipelines.runs.verify import verify_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
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


def rows(folder: Path) -> dict[str, str]:
    """Rows and receipts of a run, byte for byte."""
    files = [p for t in MCTS.tables for p in folder.glob(f"{t}/*.parquet")] + list(folder.glob("shards/*.json"))
    return digests(folder, files)


def test_two_workers_make_the_bytes_of_a_local_run(site: Site, tmp_path: Path) -> None:
    out, before = site.folder / "portable", stats(site.url)["calls"]
    with cluster.running(tmp_path / "cluster") as workers:
        site.make(out, *workers.options)
    assert rows(out) == rows(site.local)
    assert len(rows(out)) > 3 * len(MCTS.tables)
    assert len({path.name.partition("-")[0] for path in out.glob("progress/*.json")}) == cluster.POOLS
    seen = stats(site.url)
    assert seen["unique"] == before, "the workers asked other things"
    assert seen["calls"] - 2 * before <= IN_FLIGHT, "more was paid twice than two workers may ask at the same moment"
    assert verify_run(out).problems == []


def test_workers_run_from_a_wheel_without_the_source_tree(site: Site, tmp_path: Path) -> None:
    """The wheel's packages are all that is needed, data files included."""
    code = tmp_path / "code"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    not_code = shutil.ignore_patterns(".*", "build", "dist", "datasets_out", "tests", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, tmp_path / "source", ignore=not_code)  # a build leaves its own files in there
    build = [*pip, "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w", "wheel", "./source"]
    subprocess.run(build, check=True, cwd=tmp_path)
    (wheel,) = (tmp_path / "wheel").glob("trailforge-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", code, wheel], check=True, cwd=tmp_path)
    with cluster.running(tmp_path / "cluster", code=code) as workers:
        site.make(site.folder / "wheel", *workers.options)
        assert str(ROOT) not in workers.log()
    assert rows(site.folder / "wheel") == rows(site.local)


def test_a_job_service_that_is_not_there_is_told_in_one_line(site: Site) -> None:
    arguments = ["--questions", site.folder / "questions.jsonl", "--preset", site.folder / "preset.yaml"]
    options = ["--runner", "PortableRunner", "--beam-option", "job_endpoint=127.0.0.1:9"]
    ended = trailforge("mcts-trajectories", *arguments, "--model", site.url, "--out", site.folder / "no", *options)
    assert ended.code == 10
    assert ended.error_line.startswith("error: no job service at 127.0.0.1:9 ")
