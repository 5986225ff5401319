"""What is built and installed: sdist, wheel from the sdist, and the command where a user's modules lie."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.test_architecture import ROOT, declared, packages

pytestmark = pytest.mark.slow

SHIPPED = {".py", ".txt", ".yaml", ".svg", ".js"}
BESIDE = ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "cli.py")
USERS = ("schemas/__init__.py", "inference/__init__.py", "training/__init__.py", "prompts.py", "yaml.py", "openai.py")
"""Modules that a user's folder holds, some named as what we or our packages import."""


def build(folder: Path, kind: str, out: Path) -> Path:
    """Build an sdist or a wheel of the sources in a folder."""
    script = f"from setuptools import build_meta; build_meta.build_{kind}({str(out)!r})"
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a copy of the tree: a build leaves files behind. Links stay links."""
    copy = tmp_path_factory.mktemp("tree") / "trailforge"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in [*packages(ROOT), "trailforge", "trailforge_search", "tests"]:
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=ignored)
    for name in BESIDE:
        shutil.copy(ROOT / name, copy / name)
    return build(copy, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist alone."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return build(source, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; its dependencies are those of this one, without our checkout."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    pip = [sys.executable, "-m", "pip", "--python", folder, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True, capture_output=True, env=unpythonic(), timeout=120)
    site = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    # A line in a .pth file puts a folder on the path, and does not read the .pth files in it: ours names the checkout.
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


@pytest.fixture
def users_folder(tmp_path: Path) -> Path:
    """A folder whose modules must not be imported."""
    for name in USERS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"raise SystemExit('{name} of the user was imported')\n")
    return tmp_path


def unpythonic() -> dict[str, str]:
    """The environment without variables by which Python would find this checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def run(environment: Path, folder: Path, *words: str | Path) -> str:
    """What a program of the environment prints, started in a folder."""
    command = [environment / "bin" / words[0], *words[1:]]
    done = subprocess.run(command, cwd=folder, env=unpythonic(), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_of_the_sdist_holds_every_module_and_file_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    rooms = [path for room in packages(ROOT) for path in (ROOT / room).rglob("*")]
    face = [path for path in (ROOT / "trailforge").glob("*.py") if not path.is_symlink()]
    shipped = {path.relative_to(ROOT).as_posix() for path in [*rooms, ROOT / "cli.py"] if path.suffix in SHIPPED}
    expected = {f"trailforge/{name}" for name in shipped if "__pycache__" not in name}
    assert names == expected | {f"trailforge/{path.name}" for path in face} | {
        "trailforge/py.typed",
        "trailforge_search/__init__.py",
    }


def test_the_sdist_holds_no_links_and_no_tests(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    assert not [member.name for member in members if member.issym() or member.islnk()]
    assert not [member.name for member in members if "/tests/" in member.name]


def test_the_metadata_says_what_the_core_and_the_extras_need(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    requires = [str(text) for text in metadata.get_all("Requires-Dist") or ()]
    core = {re.match(r"[\w.-]+", text)[0].lower() for text in requires if "extra ==" not in text}  # type: ignore[index]
    assert core == {requirement.name for requirement in declared()[""]}
    assert not core & {"prefect", "apache-beam", "fastapi", "torch", "matplotlib", "openai"}
    assert set(metadata.get_all("Provides-Extra") or ()) == set(declared()) - {""}
    assert not [text for text in requires if "llm" in text], "it builds from source"


def test_the_command_works_in_a_folder_with_modules_of_the_users(environment: Path, users_folder: Path) -> None:
    run_it = ("-c", "import trailforge.schemas as s; print(s.__file__)")
    assert run(environment, users_folder, "python", "-P", *run_it).startswith(str(environment))
    assert "Make data" in run(environment, users_folder, "trailforge", "--help")
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", run(environment, users_folder, "trailforge", "--version"))
    questions = ROOT / "sample_data" / "musique_style_questions.jsonl"
    asked = ("mcts-trajectories", "--questions", questions, "--preset", "demo", "--dry-run")
    assert "calls" in run(environment, users_folder, "trailforge", *asked)
    assert {path.relative_to(users_folder).as_posix() for path in users_folder.rglob("*.*")} == set(USERS)


@pytest.mark.real_model
def test_the_small_models_server_starts_there(environment: Path, users_folder: Path) -> None:
    script = "from trailforge.small_model.server import EmbeddedServer as S\nwith S() as s: print(s.base_url)"
    assert "127.0.0.1" in run(environment, users_folder, "python", "-P", "-c", script)
