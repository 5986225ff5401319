"""What tests of this folder share: runs of the demo, by the commands of README.md, a Prefect server, what is installed.

Those over a graph ask for less than README's commands do: what is not recorded, the model takes seconds to say.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.end_to_end.guides import Guide
from tests.end_to_end.kills import CASES
from tests.end_to_end.support import (
    POOL,
    Made,
    Site,
    build,
    made,
    prefect_server,
    put_replies,
    readme_command,
    trailforge,
    unpythonic,
)
from tests.launching.slurm import write_program
from tests.support.bundle_rows import sample_documents
from tests.support.bundle_world import write_documents
from tests.support.world import write_questions
from tests.test_architecture import ROOT, packages

PACKED = ("train.jsonl.gz", "musique_train.jsonl.gz", "hotpotqa.jsonl.gz")
BESIDE = ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "cli.py")


@pytest.fixture(scope="package")
def demo_trajectories(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Made once, of the four questions that give every kind of trajectory, with recorded replies: the model's own take
    half a minute of a core, and differ between processors. `preview` asks the model.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:  # made by both processes, the tests would take minutes more
        (tmp_path_factory.getbasetemp().parent / "demo-was-made").touch(exist_ok=False)
    out = tmp_path_factory.mktemp("demo") / "run"
    put_replies(out, "mcts-trajectories")
    return made(out, "mcts-trajectories")


@pytest.fixture(scope="package")
def demo_bundles(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Of two bundles that give a question each, and one whose questions are rejected, with recorded replies. So few
    documents need no UMAP, which takes seconds to compile.
    """
    folder, documents = tmp_path_factory.mktemp("demo"), sample_documents()
    write_documents(folder / "documents.jsonl", [*documents[16:20], *documents[28:32], *documents[44:48]])
    put_replies(folder / "run", "document-bundles")
    return made(folder / "run", "document-bundles", documents=folder / "documents.jsonl")


@pytest.fixture(scope="package")
def sample_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph of the samples."""
    graph = tmp_path_factory.mktemp("demo") / "graph"
    built = trailforge(*readme_command("kg build", out=graph), timeout_s=60)
    assert built.code == 0, built.err
    return graph


@pytest.fixture(scope="package")
def demo_episodes(tmp_path_factory: pytest.TempPathFactory, sample_graph: Path) -> Made:
    """Episodes over documents and the graph of the samples, with recorded replies."""
    out = tmp_path_factory.mktemp("demo") / "run"
    put_replies(out, "kg-trajectories")
    return made(out, "kg-trajectories", "--limit", 1, kg=sample_graph)


@pytest.fixture(scope="package")
def demo_kg_questions(tmp_path_factory: pytest.TempPathFactory, sample_graph: Path) -> Made:
    """Questions of that graph, with recorded replies."""
    out = tmp_path_factory.mktemp("demo") / "run"
    put_replies(out, "kg-questions")
    return made(out, "kg-questions", "--count", 4, kg=sample_graph)


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server of its own, with the pool and the deployments of `prefect.yaml`."""
    home = tmp_path_factory.mktemp("prefect")
    with prefect_server(home / "server.log", home=home) as environment:
        _copy_database(home, Path(os.environ["PREFECT_HOME"]))
        site = Site(home, environment["PREFECT_API_URL"], {**os.environ, **environment})
        site.ask("work_pools/", name=POOL, type="process")
        site.prefect("deploy", "--all")
        yield site


def _copy_database(home: Path, other: Path) -> None:
    """What Prefect has just made, for the private server of tests that come later: its tables take ten seconds."""
    if not (other / "prefect.db").exists():
        with (
            closing(sqlite3.connect(home / "prefect.db")) as new,
            closing(sqlite3.connect(other / "prefect.db")) as copy,
        ):
            new.backup(copy)


@pytest.fixture(scope="package")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a copy of the tree: a build leaves files behind. Links stay links."""
    copy = tmp_path_factory.mktemp("tree") / "trailforge"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in [*packages(ROOT), "trailforge", "tests"]:
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
    for name in BESIDE:
        shutil.copy(ROOT / name, copy / name)
    return build(copy, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="package")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist alone."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return build(source, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="package")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; its dependencies are those of this one, without our checkout."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=800)
    pip = [sys.executable, "-m", "pip", "--python", folder, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True, capture_output=True, env=unpythonic(), timeout=800)
    site = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    # A line in a .pth file puts a folder on the path, and does not read the .pth files in it: ours names the checkout.
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guide]:
    """An empty folder with the sample data, files of questions, presets for small runs, and what clusters are asked
    through."""
    (tmp_path / "bin").mkdir()
    for name in ("sbatch", "kubectl"):
        write_program(tmp_path / "bin" / name, f'echo "{name} $*" >> {tmp_path}/cluster.log')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sample_data").symlink_to(ROOT / "sample_data")
    for command, case in CASES.items():
        Path(f"{command}.yaml").write_text(case.preset.replace("{size}", "4"))
    for name in ("train.jsonl", "test.jsonl", "musique_dev.jsonl", "nq.jsonl", "hotpot_dev.jsonl", *PACKED):
        write_questions(tmp_path / name, 4)  # what is packed is told by its content
    with ExitStack() as stack:
        yield Guide(tmp_path, stack)
