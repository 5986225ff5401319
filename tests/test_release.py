"""`make release`: what it refuses, each in one line, and what it leaves."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_architecture import ROOT

PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "trailforge"
version = "2.0.0"
readme = "README.md"
license = "Apache-2.0"

[tool.other]
version = "0.0.1"
"""
README = "# Hi\n\nRead [the guide](docs/guide.md).\n"
NOTES = "# Changelog\n\n## 2.0.0 (2026-11-30)\n\n### New\n\n- A thing.\n\n## 1.0.0 (2026-01-01)\n\n- The first.\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small project, committed, with our script and the environment of these tests."""
    (tmp_path / ".ci").mkdir()
    for name in (".ci/release", ".ci/index_readme.py"):
        shutil.copy(ROOT / name, tmp_path / ".ci")
    files = {"pyproject.toml": PROJECT, "CHANGELOG.md": NOTES, "README.md": README, ".gitignore": ".venv\ndist/\n"}
    for name, text in {**files, "trailforge/__init__.py": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "All")
    return tmp_path


def git(tree: Path, *words: str) -> str:
    """What git prints."""
    named = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *named, *words], cwd=tree, check=True, capture_output=True, text=True).stdout


def release(tree: Path, **environment: str) -> tuple[int, str]:
    """Its exit code, and what it says at the end."""
    named = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(
        [tree / ".ci/release"], env={**os.environ, **named, "DRY": "", **environment}, capture_output=True, text=True,
        timeout=400, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr if done.returncode else done.stdout


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"README.md": "other\n"}, "error: the tree has changes that are not committed"),
        ({"new.py": ""}, "error: the tree has changes that are not committed"),
        ({"CHANGELOG.md": "# Changelog\n\n## 1.0.0 (2026-01-01)\n"}, 'has no heading "## 2.0.0 (date)"'),
        ({"CHANGELOG.md": "# Changelog\n\n## 2.0.0 (2026-11-30)\n"}, "CHANGELOG.md says nothing under"),
        ({"CHANGELOG.md": NOTES.replace("2026-11-30", "unreleased")}, "CHANGELOG.md dates no release"),
    ],
    ids=["changed", "untracked", "no_notes", "empty_notes", "unreleased"],
)
def test_it_refuses_in_one_line(tree: Path, changed: dict[str, str], said: str) -> None:
    for name, text in changed.items():
        (tree / name).write_text(text)
    if "CHANGELOG.md" in changed:
        git(tree, "commit", "--quiet", "--all", "--message", "Notes")
    code, error = release(tree)
    assert code == 1 and said in error and len(error.splitlines()) == 1, error
    assert not (tree / "dist").exists() and not git(tree, "tag")


def test_a_tag_is_set_once(tree: Path) -> None:
    git(tree, "tag", "v2.0.0")
    code, error = release(tree)
    assert code == 1 and "the tag v2.0.0 is there" in error and len(error.splitlines()) == 1, error


def index_readme(tree: Path, urls: str) -> str:
    """README.md as the release writes it for an index."""
    (tree / "pyproject.toml").write_text(f"{PROJECT}\n[project.urls]\n{urls}\n")
    text = "# Hi\n\n![A page](docs/a.png)\n[docs/b.md](docs/b.md#c), [its guide](docs/b.md), [x](https://x.y/z).\n"
    (tree / "README.md").write_text(text)
    subprocess.run([sys.executable, ROOT / ".ci/index_readme.py", tree], check=True)
    return (tree / "README.md").read_text()


def test_on_an_index_the_links_of_the_readme_lead_to_the_tag(tree: Path) -> None:
    said = index_readme(tree, 'Repository = "https://example.org/forge/"')
    assert "![A page](https://example.org/forge/raw/v2.0.0/docs/a.png)" in said
    assert "[docs/b.md](https://example.org/forge/blob/v2.0.0/docs/b.md#c)" in said and "[x](https://x.y/z)" in said


def test_without_a_repository_they_are_the_paths_of_the_sdist(tree: Path) -> None:
    """All of which it has."""
    said = index_readme(tree, "")
    assert said.startswith("# Hi\n\n*Paths are those of the source distribution (`pip download --no-deps ")
    assert "*A page*\n`docs/b.md#c`, its guide (`docs/b.md`), [x](https://x.y/z)." in said
    named = {
        target.partition("#")[0] for target in re.findall(r"\]\((?!\w+:)([^)]+)\)", (ROOT / "README.md").read_text())
    }
    _, *rules = [line.split() for line in (ROOT / "MANIFEST.in").read_text().splitlines()]
    whole = {name for kind, *names in rules if kind == "include" for name in names}
    (kinds,) = [patterns for kind, folder, *patterns in rules if (kind, folder) == ("recursive-include", "docs")]
    assert named and not {
        name for name in named - whole if not (name.startswith("docs/") and f"*{Path(name).suffix}" in kinds)
    }


@pytest.mark.skipif(os.environ.get("CI") != "true", reason="asks the package index, which CI alone does")
def test_a_release_leaves_what_was_built_its_notes_and_a_tag(tree: Path) -> None:
    """A dry one leaves no tag, also of a tree that is changed; only what is committed is in it."""
    (tree / "trailforge/new.py").write_text("")
    code, said = release(tree, DRY="1")
    assert code == 0 and "no tag was set" in said and not git(tree, "tag"), said
    (tree / "trailforge/new.py").unlink()
    code, said = release(tree)
    assert code == 0 and "the tag v2.0.0 is set" in said, said
    built = {"trailforge-2.0.0.tar.gz", "trailforge-2.0.0-py3-none-any.whl", "notes-2.0.0.md"}
    assert {path.name for path in (tree / "dist").iterdir()} == built
    assert (tree / "dist/notes-2.0.0.md").read_text() == "### New\n\n- A thing.\n\n"
    assert git(tree, "tag", "--list", "--format=%(contents)").strip() == "### New\n\n- A thing."
    assert not git(tree, "status", "--porcelain")
