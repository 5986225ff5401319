"""`import trailforge`: its names, what they load, and the examples of docs/python.md."""

from __future__ import annotations

import ast
import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import trailforge
from tests.test_architecture import ROOT, loaded_by
from trailforge.doors import names_given
from trailforge.schemas import InvalidInput, Question, write_parquet

GUIDE = ROOT / "docs" / "python.md"
FACE = ROOT / "trailforge" / "__init__.py"
FOR_VERIFIERS = {"SearchEnv", "SearchHarness", "SearchTaskset", "load_environment"}
"""Public where verifiers is installed, which looks for them in `__all__`."""


def test_every_public_name_is_there() -> None:
    assert len(trailforge.__all__) == len(set(trailforge.__all__)) <= 79
    for name in trailforge.__all__:
        assert getattr(trailforge, name) is not None
    assert set(trailforge.__all__) <= set(dir(trailforge))
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        _ = trailforge.no_such_name  # type: ignore[attr-defined]


def test_what_it_gives_out_is_public_or_a_room() -> None:
    """What type checkers see is what there is (`doors.names_given`), and `__all__` leaves nothing of it out."""
    given = names_given("trailforge")
    rooms = {name for name, home in given.items() if home == "trailforge"}
    assert rooms <= {path.name for path in FACE.parent.iterdir() if path.is_symlink()}
    assert set(trailforge.__all__) | FOR_VERIFIERS == {*given, "__version__"} - (rooms - set(trailforge.__all__))


def test_importing_it_loads_nothing_of_ours_and_a_name_only_its_room() -> None:
    heavy = {"numpy", "pyarrow", "yaml", "typer", "aiohttp"}
    assert not loaded_by("import trailforge; trailforge.__all__; dir(trailforge)") & heavy
    loaded = loaded_by("from trailforge import exact_match, rewards, InvalidInput; exact_match('a', ['a'])")
    assert "trailforge" in loaded and not loaded & heavy


def test_what_verifiers_looks_for_is_public_where_it_is_installed() -> None:
    """Elsewhere a star import has to work without it."""
    names = set(trailforge.__all__) & FOR_VERIFIERS
    assert names == (FOR_VERIFIERS if find_spec("verifiers") else set())
    if not names:
        with pytest.raises(ModuleNotFoundError, match="'verifiers'"):
            _ = trailforge.load_environment


def test_the_guide_names_all_of_them() -> None:
    table = GUIDE.read_text().partition("## Names")[2].partition("## Extras")[0]
    named = set(re.findall(r"`(\w+)`", table))
    assert named - set(trailforge.__all__) - FOR_VERIFIERS <= {"from", "trailforge"}
    assert set(trailforge.__all__) - named == {"__version__"} and named >= FOR_VERIFIERS


def test_the_examples_of_the_guide_run_and_print_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)\n```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) == 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
        assert capsys.readouterr().out.splitlines() == re.findall(r"^print\(.*\)  # (.*)$", block, re.MULTILINE)


def test_the_imports_in_the_readme_are_names_of_the_face() -> None:
    blocks = re.findall(r"```python\n(.*?)\n```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for node in ast.parse("\n".join(blocks)).body:
        if isinstance(node, ast.ImportFrom):
            assert node.module == "trailforge" and {alias.name for alias in node.names} <= set(trailforge.__all__)


def test_the_examples_need_the_core_alone() -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)\n```", GUIDE.read_text(), re.DOTALL))
    script = f"import os, tempfile; os.chdir(tempfile.mkdtemp())\nexec({code!r}, {{}})"
    heavy = {"torch", "prefect", "apache_beam", "fastapi", "openai", "matplotlib", "faiss", "transformers"}
    assert not loaded_by(script) & heavy


def test_rows_of_a_finished_run_are_those_that_its_manifest_names(tmp_path: Path) -> None:
    table = tmp_path / "run" / "inputs"
    table.mkdir(parents=True)
    for name in ("a", "b"):
        write_parquet(table / f"{name}.parquet", Question, [Question(id=name, question="?", answer="!")])

    def ids(source: Path) -> list[str]:
        return [row.id for row in trailforge.read_rows(source, Question)]

    assert ids(table) == ["a", "b"] and ids(table / "b.parquet") == ["b"]
    files = [{"path": "inputs/b.parquet"}, {"path": "sft/c.parquet"}]
    (tmp_path / "run" / "manifest.json").write_text(json.dumps({"files": files}))
    assert ids(table) == ["b"]
    with pytest.raises(InvalidInput, match="no such file or folder"):
        ids(tmp_path / "nowhere")
