"""A build that is killed (-9) goes on, pays for nothing twice, and gives the same bytes."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest

from tests.support import model_server
from tests.support.warm import Running
from trailforge.retrieval.indexes.manifest import IndexManifest, read_manifest

PASSAGES = 40


ASKING = ("--backend", "asking", "--set", "asks=true", "--model-name", "judge")
ENCODING = ("--backend", "encoding", "--set", "per_shard=8")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Distinct passages."""
    path = tmp_path_factory.mktemp("corpus") / "passages.jsonl"
    rows = [{"id": f"p{n}", "text": f"word{n} " * (n % 5 + 1)} for n in range(PASSAGES)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> IndexManifest:
    """Of a build that asks, and that nobody kills."""
    folder = tmp_path_factory.mktemp("whole")
    with model_server.running(judge=1) as url:
        build(0, folder / "worked", corpus, *ASKING, "--model", url, "--out", folder / "index")
        assert model_server.stats(url)["calls"] == PASSAGES
    return read_manifest(folder / "index")


def build(dies_at: int, worked: Path, *arguments: object) -> None:
    """Run the command; see `dying_build`."""
    command = [str(dies_at), str(worked), "index", "build", *map(str, arguments)]
    log = worked.with_name("log")
    done = Running(command, os.environ, log, log, module="tests.retrieval.indexes.dying_build").wait(120)
    assert done == (-signal.SIGKILL if dies_at else 0), log.read_text()


def begun(worked: Path) -> list[str]:
    return worked.read_text().splitlines() if worked.exists() else []


def finished(out: Path, part: str) -> set[str]:
    """Shards that have a receipt, by their numbers."""
    return {path.stem for path in out.parent.glob(f".{out.name}.building/*/{part}/[0-9]*.json")}


def kept_calls(out: Path) -> int:
    """In the ledger of an index."""
    with sqlite3.connect(f"file:{out}.ledger.sqlite?mode=ro", uri=True) as connection:
        return connection.execute("SELECT count(*) FROM calls").fetchone()[0]


@pytest.mark.parametrize("dies_at", [7, 12])  # 12: the last one, which gives the folder its name
def test_a_killed_build_that_asks_a_model_pays_for_nothing_twice(
    tmp_path: Path, corpus: Path, undisturbed: IndexManifest, dies_at: int
) -> None:
    out, worked = tmp_path / "index", tmp_path / "worked"
    with model_server.running(judge=1, latency=0.01) as url:
        build(dies_at, worked, corpus, *ASKING, "--model", url, "--out", out)
        assert not out.exists()
        done, kept, before = finished(out, "scores"), kept_calls(out), model_server.stats(url)["calls"]
        first = begun(worked)
        # The first rename is that of the texts; one is that of the progress, where a second has passed.
        assert dies_at - 5 <= len(done) <= dies_at - 2
        build(0, worked, corpus, *ASKING, "--model", url, "--out", out)
        assert model_server.stats(url)["calls"] - before == PASSAGES - kept, "what the ledger has is not asked again"
        again = {line.split()[1] for line in begun(worked)[len(first) :]}
        assert again.isdisjoint({f"p{int(number) * 4}" for number in done}) and len(again) == 10 - len(done)
    resumed = read_manifest(out)
    assert resumed.files == undisturbed.files
    assert resumed.figures.calls == undisturbed.figures.calls == PASSAGES
    assert resumed.figures.prompt_tokens == undisturbed.figures.prompt_tokens > 0
    assert not list(tmp_path.glob(".index*")), "nor is anything left beside it"


def test_a_killed_build_that_encodes_goes_on_with_what_is_missing(tmp_path: Path, corpus: Path) -> None:
    out, worked = tmp_path / "index", tmp_path / "worked"
    with model_server.running() as url:
        encoding = (*ENCODING, "--encoder", f"{url}#words")
        build(7, worked, corpus, *encoding, "--out", out)  # texts, then vectors and receipt of each shard
        done = finished(out, "vectors")
        assert 1 <= len(done) <= 3
        first = begun(worked)
        build(0, worked, corpus, *encoding, "--out", out)
        again = begun(worked)[len(first) :]
        assert len(again) == 5 - len(done)
        assert {line.split()[1] for line in again}.isdisjoint({f"p{int(number) * 8}" for number in done})
        build(0, tmp_path / "other", corpus, *encoding, "--out", tmp_path / "whole")
    assert read_manifest(out).files == read_manifest(tmp_path / "whole").files
