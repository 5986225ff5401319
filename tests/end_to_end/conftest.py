"""What tests of this folder share: runs of the demo, by the commands of README.md, and a Prefect server.

Those over a graph ask for less than README's commands do: the model takes most of their time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.support import (
    POOL,
    Made,
    Site,
    made,
    prefect_server,
    readme_command,
    trailforge,
)


@pytest.fixture(scope="package")
def demo_trajectories(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Made once, of the four questions that give every kind of trajectory."""
    if "PYTEST_XDIST_WORKER" in os.environ:  # made by both processes, the tests would take minutes more
        (tmp_path_factory.getbasetemp().parent / "demo-was-made").touch(exist_ok=False)
    return made(tmp_path_factory.mktemp("demo") / "run", "mcts-trajectories")


@pytest.fixture(scope="package")
def demo_bundles(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Of the first documents, whose bundles give two questions; so few need no UMAP, which takes seconds to compile."""
    return made(tmp_path_factory.mktemp("demo") / "run", "document-bundles", "--limit", 20)


@pytest.fixture(scope="package")
def sample_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph of the samples."""
    graph = tmp_path_factory.mktemp("demo") / "graph"
    built = trailforge(*readme_command("kg build", out=graph), timeout_s=60)
    assert built.code == 0, built.err
    return graph


@pytest.fixture(scope="package")
def demo_episodes(tmp_path_factory: pytest.TempPathFactory, sample_graph: Path) -> Made:
    """Episodes over documents and the graph of the samples."""
    return made(tmp_path_factory.mktemp("demo") / "run", "kg-trajectories", "--limit", 1, kg=sample_graph)


@pytest.fixture(scope="package")
def demo_kg_questions(tmp_path_factory: pytest.TempPathFactory, sample_graph: Path) -> Made:
    """Questions of that graph."""
    return made(tmp_path_factory.mktemp("demo") / "run", "kg-questions", "--count", 6, kg=sample_graph)


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server of its own, with the pool and the deployments of `prefect.yaml`."""
    home = tmp_path_factory.mktemp("prefect")
    with prefect_server(home / "server.log", home=home) as environment:
        site = Site(home, environment)
        site.ask("work_pools/", name=POOL, type="process")
        site.prefect("deploy", "--all")
        yield site
