"""Kill -9 in every stage of a run of bundles, then the same command: the same bytes, and nothing paid twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from inference import SqliteLedger
from pipelines.dataset import LEDGER
from pipelines.document_bundles import TABLES, stages_of
from pipelines.finish import read_manifest
from pipelines.intake import Settings, read_settings
from pipelines.status import read_status
from pipelines.verify import verify_run
from tests.end_to_end.support import ROOT
from tests.support.bundle_rows import sample_documents
from tests.support.bundle_world import write_benchmark, write_documents
from tests.support.files import digests
from tests.support.model_server import running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

IN_FLIGHT = 4
PRESET = f"""
model: {{name: scripted, max_in_flight: {IN_FLIGHT}}}
content: {{min_words: 20, min_characters: 100}}
bundles: {{method: greedy, min_cosine: 0.25}}
episodes: {{plan: sampled, samples: 3}}
schedule: {{questions_in_flight: 2}}
output: {{documents_per_shard: 3, bundles_per_shard: 1, questions_per_shard: 2}}
"""


@dataclass(frozen=True)
class Site:
    """A folder with documents and a preset, a model server that notes every call."""

    folder: Path
    url: str

    def start(self, out: Path) -> subprocess.Popen[str]:
        """The command in a process group of its own."""
        files = {"--documents": "documents.jsonl", "--preset": "preset.yaml", "--benchmark": "benchmark.jsonl"}
        arguments = [part for option, name in files.items() for part in (option, self.folder / name)]
        with (out.parent / f"{out.name}.log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "cli.py", "document-bundles", *arguments, "--model", self.url, "--out", out],
                cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True,
                start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def finish(self, out: Path) -> None:
        """Run to the end."""
        process = self.start(out)
        assert process.wait(200) == 0, (out.parent / f"{out.name}.log").read_text()[-3000:]

    def asked(self) -> list[str]:
        """Keys of all calls that the server received, in order."""
        return [
            line.split()[1] for line in (self.folder / "calls.log").read_text().splitlines() if line.startswith("in")
        ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Eight documents, two bundles: so few that the map of documents needs no UMAP, which takes seconds to compile."""
    folder = tmp_path_factory.mktemp("killed")
    documents = sample_documents()
    write_documents(folder / "documents.jsonl", [*documents[:4], *documents[16:20]])
    write_benchmark(folder / "benchmark.jsonl")
    (folder / "preset.yaml").write_text(PRESET)
    server = running(bundles=1, latency=0.1, spread=0.5, slots=IN_FLIGHT, log=folder / "calls.log")
    with server as url:
        yield Site(folder, url)


def test_a_run_that_is_killed_in_every_stage_ends_in_the_same_bytes(site: Site) -> None:
    whole, out = site.folder / "whole", site.folder / "killed"
    site.finish(whole)
    calls = site.asked()
    assert len(calls) == len(set(calls)), "a call was made twice without any kill"
    assert verify_run(whole).problems == []

    os.truncate(site.folder / "calls.log", 0)
    lost = 0
    for name, has_begun in moments(site, out).items():
        lost += killed_when(site, out, name, has_begun)
    site.finish(out)

    asked = site.asked()
    print(f"{len(calls)} calls; {lost} lost in kills, {len(asked) - len(set(asked))} paid again")
    assert set(asked) == set(calls), "the killed run asked other things"
    assert len(asked) - len(set(asked)) <= lost <= 2 * IN_FLIGHT
    assert rows(out) == rows(whole)
    assert {path.parent.name for path in map(Path, rows(whole))} >= {*TABLES, "plots", "inputs"} - {"rejected"}
    assert not list(out.rglob("*.tmp*")) and not (out / "work").exists()
    assert verify_run(out).problems == []
    manifests = read_manifest(out), read_manifest(whole)
    assert all(m is not None for m in manifests)
    assert len({(m.run_id, m.stages, m.files, m.calls, m.cost) for m in manifests if m is not None}) == 1


def moments(site: Site, out: Path) -> dict[str, Callable[[], bool]]:
    """By stage, what tells that it is under way; it has more to do then."""
    receipts = out / "shards"
    asked_before: list[int] = []

    def episodes_are_asked_for() -> bool:
        if not asked_before and (receipts / "selection.json").exists():
            asked_before.append(len(site.asked()))
        return bool(asked_before) and len(site.asked()) > asked_before[0] + 3

    return {
        "clean": lambda: (out / "run.json").exists(),
        "embed": lambda: any(receipts.glob("*-embed.json")),
        "bundle": lambda: (out / "work").exists(),
        "write": lambda: len(site.asked()) > 15,
        "episode": episodes_are_asked_for,
    }


def killed_when(site: Site, out: Path, name: str, has_begun: Callable[[], bool]) -> int:
    """Start, and kill the group when a stage has begun; how many calls were in flight then."""
    asked_before, kept_before = len(site.asked()), calls_kept(out)
    process = site.start(out)
    try:
        while not has_begun():
            assert process.poll() is None, f"it ended before stage {name} was seen"
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    names = [stage.name for stage in stages_of(out, settings_of(out))]
    found = read_status(out)
    assert found.state == "stopped" and found.stage in names[names.index(name) :][:2], found
    return (len(site.asked()) - asked_before) - (calls_kept(out) - kept_before)


def settings_of(out: Path) -> Settings:
    settings = read_settings(out)
    assert settings is not None
    return settings


def calls_kept(out: Path) -> int:
    """In the ledger."""
    if not (out / LEDGER).exists():
        return 0
    ledger = SqliteLedger(out / LEDGER)
    try:
        return ledger.entries()
    finally:
        ledger.close()


def rows(folder: Path) -> dict[str, str]:
    """Rows, pictures and receipts of a run, byte for byte."""
    tables = [p for t in ("inputs", *TABLES) for p in folder.glob(f"{t}/*.parquet")]
    files = [*tables, *folder.glob("plots/*.png"), *folder.glob("shards/*.json")]
    return digests(folder, files)
