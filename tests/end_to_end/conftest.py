"""What commands of this folder share: a Prefect server, which each would start for itself, and runs of the demo."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.support import (
    DOCUMENTS,
    POOL,
    QUESTIONS,
    ROOT,
    SERVER,
    Made,
    Site,
    made,
    prefect_server,
    trailforge,
)

SOME = 4
"""Questions, the first, that every kind of trajectory comes from."""
HALF = (*range(4), *range(16, 20), *range(44, 70))
"""Documents, by line: themes with questions, and copies; fewer than fifty, so that the map needs no UMAP, which takes
seconds to compile.
"""
FEW = 2
"""Questions that episodes are made of."""


@pytest.fixture(scope="package", autouse=True)
def _prefect_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prefect_server(tmp_path_factory.mktemp("prefect") / "server.log") as environment:
        os.environ.update(environment)
        yield environment[SERVER]
        os.environ.pop(SERVER, None)


@pytest.fixture(autouse=True)
def _prefect_is_named(_prefect_for_all: str, _environment_as_found: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER, _prefect_for_all)


@pytest.fixture(scope="package")
def demo_trajectories(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The first part of `make demo`, on some of its questions: all would take minutes."""
    if "PYTEST_XDIST_WORKER" in os.environ:  # made by both processes, the tests would take minutes more
        (tmp_path_factory.getbasetemp().parent / "demo-was-made").touch(exist_ok=False)
    out = tmp_path_factory.mktemp("demo") / "run"
    return made(out, "mcts-trajectories", "--questions", QUESTIONS, "--limit", SOME, own_server=True)


@pytest.fixture(scope="package")
def demo_bundles(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The second part, on half of the documents."""
    folder = tmp_path_factory.mktemp("demo")
    documents, lines = folder / "documents.jsonl", DOCUMENTS.read_text().splitlines(keepends=True)
    documents.write_text("".join(lines[position] for position in HALF))
    return made(folder / "run", "document-bundles", "--documents", documents)


@pytest.fixture(scope="package")
def sample_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph of the samples."""
    graph = tmp_path_factory.mktemp("demo") / "graph"
    built = trailforge("kg", "build", ROOT / "sample_data" / "kg", "--out", graph, timeout_s=60)
    assert built.code == 0, built.err
    return graph


@pytest.fixture(scope="package")
def demo_episodes(tmp_path_factory: pytest.TempPathFactory, sample_graph: Path) -> Made:
    """The part of the knowledge graph, on some questions."""
    out = tmp_path_factory.mktemp("demo") / "run"
    return made(out, "kg-trajectories", "--questions", QUESTIONS, "--kg", sample_graph, "--limit", FEW)


@pytest.fixture(scope="package")
def demo_kg_questions(tmp_path_factory: pytest.TempPathFactory, sample_graph: Path) -> Made:
    """The last part, with a few paths."""
    out = tmp_path_factory.mktemp("demo") / "run"
    return made(out, "kg-questions", "--kg", sample_graph, "--count", 6, "--as-of", "2026")


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server of its own, with the pool and the deployments of `prefect.yaml`."""
    home = tmp_path_factory.mktemp("prefect")
    with prefect_server(home / "server.log", home=home) as environment:
        site = Site(home, environment)
        site.prefect("work-pool", "create", POOL, "--type", "process")
        site.prefect("deploy", "--all")
        yield site
