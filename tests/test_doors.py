"""The doors of rooms: what they give out, when it is loaded, and what is said where it cannot be."""

from __future__ import annotations

import ast
import importlib
from importlib.machinery import SourcelessFileLoader
from pathlib import Path

import pytest

import trailforge.inference
from tests.test_architecture import ROOT, loaded_by
from trailforge.doors import lazy_names, names_given
from trailforge.schemas import InvalidInput

OF_TRAINERS = ("openai", "torch", "verifiers", "verl")
"""What names of some doors load, which is not installed everywhere."""


READER = "trailforge.rows"
"""Its `__init__` is the reader of rows itself, which reads Parquet."""


def doors() -> list[str]:
    """Packages that give out names lazily."""
    files = [file for file in ROOT.glob("[a-z]*/**/__init__.py") if "lazy_names(__name__)" in file.read_text()]
    parts = [file.relative_to(ROOT).parent.parts for file in files]
    return sorted(".".join(each if each[0] == "trailforge" else ("trailforge", *each)) for each in parts)


def seen_by_type_checkers(file: Path) -> dict[str, str | None]:
    """Names of the first `if TYPE_CHECKING:` of a file, as Python reads it."""
    block = next(node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.If))
    found = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module for node in found for alias in node.names}


@pytest.mark.parametrize("door", doors())
def test_a_door_gives_out_what_type_checkers_see(door: str) -> None:
    package = importlib.import_module(door)
    assert package.__file__ is not None
    assert names_given(door) == seen_by_type_checkers(Path(package.__file__))
    for name in names_given(door):
        try:
            assert getattr(package, name) is not None
        except ModuleNotFoundError as error:
            assert (error.name or "").partition(".")[0] in OF_TRAINERS
    assert names_given(door).keys() <= set(dir(package))


def test_importing_the_doors_loads_next_to_nothing() -> None:
    light = [door for door in doors() if door.count(".") <= 1 and door != READER]
    loaded = loaded_by("import " + ", ".join(light))
    assert "trailforge" in loaded
    assert not loaded & {"apache_beam", "faiss", "numpy", "openai", "prefect", "pyarrow", "torch", "typer"}


def test_a_door_says_what_it_has_not() -> None:
    with pytest.raises(AttributeError, match=r"module 'trailforge\.inference' has no attribute 'no_such_name'"):
        _ = trailforge.inference.no_such_name  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"):
        exec("from trailforge.inference import no_such_name", {})


def test_what_is_replaced_in_its_file_is_replaced_at_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    load, _ = lazy_names("trailforge")
    assert load("InvalidInput") is InvalidInput
    monkeypatch.setattr("trailforge.schemas.InvalidInput", ValueError)
    assert load("InvalidInput") is ValueError
    monkeypatch.undo()
    assert load("InvalidInput") is InvalidInput


def test_without_its_source_a_door_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trailforge.inference, "__loader__", SourcelessFileLoader("trailforge.inference", "none.pyc"))
    names_given.cache_clear()
    with pytest.raises(ImportError, match=r"trailforge\.inference is installed without its source"):
        names_given("trailforge.inference")
