"""What is built and installed: sdist, wheel from the sdist, and the command where a user's modules lie."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tests.end_to_end.support import QUESTIONS, unpythonic
from tests.test_architecture import ROOT, declared, packages

pytestmark = pytest.mark.slow

SHIPPED = {".py", ".txt", ".yaml", ".svg", ".js"}
USERS = ("schemas/__init__.py", "inference/__init__.py", "training/__init__.py", "prompts.py", "yaml.py", "openai.py")
"""Modules that a user's folder holds, some named as what we or our packages import."""


@pytest.fixture
def users_folder(tmp_path: Path) -> Path:
    """A folder whose modules must not be imported."""
    for name in USERS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"raise SystemExit('{name} of the user was imported')\n")
    return tmp_path


def run(environment: Path, folder: Path, *words: str | Path) -> str:
    """What a program of the environment prints, started in a folder."""
    command = [environment / "bin" / words[0], *words[1:]]
    done = subprocess.run(command, cwd=folder, env=unpythonic(), capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_of_the_sdist_holds_every_module_and_file_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    rooms = [path for room in packages(ROOT) for path in (ROOT / room).rglob("*")]
    face = [path for path in (ROOT / "trailforge").glob("*.py") if not path.is_symlink()]
    shipped = {path.relative_to(ROOT).as_posix() for path in [*rooms, ROOT / "cli.py"] if path.suffix in SHIPPED}
    expected = {f"trailforge/{name}" for name in shipped if "__pycache__" not in name}
    assert names == expected | {f"trailforge/{path.name}" for path in face} | {"trailforge/py.typed"}
    assert {name.partition("/")[0] for name in names} == {"trailforge"}


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


@pytest.mark.skipif(os.environ.get("CI") != "true", reason="asks the package index, which CI alone does")
def test_the_core_is_installed_with_its_own_dependencies_and_works(wheel: Path, users_folder: Path) -> None:
    """As a person installs it: no package is there but those that the wheel's metadata asks for."""
    fresh = users_folder / "fresh"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", fresh], check=True, timeout=800)
    pip = (sys.executable, "-m", "pip", "--python", str(fresh))
    for words in (("install", "--quiet", "--no-compile", str(wheel)), ("check",)):
        done = subprocess.run([*pip, *words], cwd=fresh, env=unpythonic(), capture_output=True, text=True, timeout=800)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "Make data" in run(fresh, users_folder, "trailforge", "--help")
    names = "import trailforge; print(all(getattr(trailforge, name) is not None for name in trailforge.__all__))"
    assert run(fresh, users_folder, "python", "-P", "-c", names) == "True\n"
    asked = [fresh / "bin" / "trailforge", "mcts-trajectories", "--questions", QUESTIONS, "--preset", "demo"]
    asked += ["--out", "out"]
    done = subprocess.run(asked, cwd=users_folder, env=unpythonic(), capture_output=True, text=True, timeout=800)
    assert done.returncode == 2 and "pip install 'trailforge[agent,dense," in done.stderr, done.stderr


@pytest.mark.real_model
def test_the_small_models_server_starts_there(environment: Path, users_folder: Path) -> None:
    script = "from trailforge.small_model.server import EmbeddedServer as S\nwith S() as s: print(s.base_url)"
    assert "127.0.0.1" in run(environment, users_folder, "python", "-P", "-c", script)
