"""PortableRunner on loopback: a job service and two external workers give the bytes of a local run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.end_to_end.support import trailforge
from tests.pipelines.bundles_support import begin_run, run_until
from tests.support import cluster
from tests.support.bundle_rows import sample_documents
from tests.support.bundle_world import write_documents
from tests.support.files import contents, digests
from tests.support.model_server import running, stats
from tests.support.world import write_questions
from trailforge.flows.configuration import configuration_of
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.runs.verify import verify_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
QUESTIONS = 18
IN_FLIGHT = 8
PRESET = f"""
model: {{name: scripted, max_in_flight: {IN_FLIGHT}}}
retrieval: {{kind: bm25}}
schedule: {{questions_in_flight: 6, tail_questions: 4, worker_start_s: 90, worker_silence_s: 30}}
output: {{shard_size: 3}}
"""
BUNDLES_PRESET = """\
encoder: {{name: "{url}#words"}}
content: {{min_words: 20, min_characters: 100}}
bundles: {{method: partitioned, part_size: 4, within: greedy, min_cosine: 0.25}}
output: {{documents_per_shard: 3}}
"""
FOLDERS = ("inputs", "documents", "rejected", "embeddings", "bundles", "bundle_inputs", "plots", "shards")
"""That a run has before the questions."""


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


def test_two_workers_with_our_wheel_make_the_bytes_of_a_local_run(
    site: Site, environment: Path, tmp_path: Path
) -> None:
    """They have no source tree: the packages of the wheel are all that is needed, data files included."""
    (code,) = environment.glob("lib/python*/site-packages")
    out, before = site.folder / "portable", stats(site.url)["calls"]
    with cluster.running(tmp_path, code=code) as workers:
        site.make(out, *workers.options)
        assert str(ROOT) not in workers.log()
    assert rows(out) == rows(site.local)
    assert len(rows(out)) > 3 * len(MCTS.tables)
    assert len({path.name.partition("-")[0] for path in out.glob("progress/*.json")}) == cluster.POOLS
    seen = stats(site.url)
    assert seen["unique"] == before, "the workers asked other things"
    assert seen["calls"] - 2 * before <= IN_FLIGHT, "more was paid twice than two workers may ask at the same moment"
    assert verify_run(out).problems == []


def test_two_workers_make_the_bundles_of_a_local_run(site: Site, tmp_path: Path) -> None:
    """The folder of the run is named from where the command stands, which is not where the workers stand."""
    preset, source = tmp_path / "preset.yaml", tmp_path / "documents.jsonl"
    preset.write_text(BUNDLES_PRESET.format(url=site.url))
    documents = sample_documents()
    write_documents(source, [*documents[:4], documents[4], *documents[16:20]])
    config = configuration_of(load_dataset("document_bundles"), str(preset))
    run_until(tmp_path / "local", begin_run(tmp_path / "local", source, replace(config, questions=False)))

    out = tmp_path / "portable"
    with cluster.running(tmp_path / "cluster") as workers:
        ended = trailforge(
            *("document-bundles", "--bundles-only", "--documents", source, "--preset", preset),
            *("--out", os.path.relpath(out, ROOT), *workers.options),
            timeout_s=300,
        )
        assert ended.code == 0, f"{ended.err}\n{workers.log()}"
    (out / "plots" / "funnel.png").unlink()  # drawn with the card, which the local run has not come to
    for name in FOLDERS:
        assert contents(out / name) == contents(tmp_path / "local" / name), name
    assert len(contents(out / "bundles")) == 1 and len(contents(out / "documents")) == 3


def test_a_job_service_that_is_not_there_is_told_in_one_line(site: Site) -> None:
    arguments = ["--questions", site.folder / "questions.jsonl", "--preset", site.folder / "preset.yaml"]
    options = ["--runner", "PortableRunner", "--beam-option", "job_endpoint=127.0.0.1:9"]
    ended = trailforge("mcts-trajectories", *arguments, "--model", site.url, "--out", site.folder / "no", *options)
    assert ended.code == 10
    assert ended.error_line.startswith("error: no job service at 127.0.0.1:9 ")
