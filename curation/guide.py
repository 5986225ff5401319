"""Read curation.yaml: the reasons for which rows may be rejected, guidance for the people who decide, and who decides
on which rows.

Each row of a table belongs to one annotator. A share of the rows, the overlap, belongs to several, so that agreement
can be measured. Who a row belongs to follows from its uid and the names alone: the same for everybody, in whatever
order the files are, and another annotator takes over only the rows that are then theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trailforge.presets import load_guide
from trailforge.schemas import InvalidInput

GUIDE = "curation.yaml"
"""Name of the file, in a run's folder or in the one around it, which then is for all its runs."""
DEFAULT_REASONS = (
    "wrong answer",
    "not supported by the passages",
    "unclear, or several answers",
    "reasoning or searches make no sense",
    "badly written",
)
"""The most frequent reasons for a rejection, where no guide names others."""
MOST_REASONS = 9
"""Reasons of one table: each has a key from 1 on."""
_FEWEST = 2
_OF_A_TABLE = ("reasons", "guidelines", "overlap", "people")
_OF_ALL = (*_OF_A_TABLE, "annotators", "tables")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGuide:
    """What a guide says of one table: its reasons, its annotators, and the share of rows that several of them decide
    on.
    """

    reasons: tuple[str, ...] = DEFAULT_REASONS
    guidelines: str = ""
    """Text that is shown beside each row."""
    overlap: float = 0.0
    """Share of the rows, from 0 to 1, that `people` decide on instead of one person."""
    people: int = 2
    """Number of people who decide on a row of the overlap."""
    annotators: tuple[str, ...] = ()
    """Names of those who decide on rows of the table; empty: whoever comes decides on whatever they like."""

    def people_for(self, table: str, uid: str) -> tuple[str, ...]:
        """Return the annotators whom a row belongs to, its owner first; empty where the guide names none."""
        ranked = sorted(self.annotators, key=lambda name: _draw(name, table, uid))
        return tuple(ranked[: self.people if self._is_shared(table, uid) else 1])

    def _is_shared(self, table: str, uid: str) -> bool:
        return _draw("", table, uid) < self.overlap * 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class CurationGuide:
    """The content of a curation.yaml."""

    tables: Mapping[str, TableGuide] = field(default_factory=dict)

    def of(self, table: str) -> TableGuide:
        """Return what the guide says of a table, or the defaults for a table that it does not name."""
        return self.tables.get(table) or TableGuide()


def _draw(name: str, table: str, uid: str) -> int:
    """A number below 2**64 that follows from these alone."""
    return int.from_bytes(hashlib.sha256("\0".join((name, table, uid)).encode()).digest()[:8], "big")


def find_guide(folder: Path, given: Path | None = None) -> Path | None:
    """Return the file that guides curation of a run: the given one, or else curation.yaml in its folder or the one
    above; None without one. Raises `InvalidInput` for a given file that does not exist or is not named as YAML.
    """
    if given is not None:
        if not given.is_file():
            raise InvalidInput("no such file", file=given)
        if given.suffix not in {".yaml", ".yml"}:
            raise InvalidInput("expected a .yaml file; rename it", file=given)
        return given
    return next((path for path in (folder / GUIDE, folder.resolve().parent / GUIDE) if path.is_file()), None)


def read_guide(path: Path | None, tables: Collection[str]) -> CurationGuide:
    """Read a guide from a file; without a file return the default one. `tables` are the names of tables on whose rows
    people can decide. Raises `InvalidInput` naming the file and the field that is unknown or wrong.
    """
    if path is None:
        return CurationGuide()
    content = load_guide(path)
    _check_names(content, _OF_ALL, path, "")
    annotators = _annotators(content.get("annotators", ()), tables, path)
    sections = _mapping(content.get("tables", {}), path, "tables")
    for name in sections:
        if name not in tables:
            problem = f"no table that people decide on; there are {', '.join(tables)}"
            raise InvalidInput(problem, file=path, field=f"tables.{name}")
    of_tables: dict[str, TableGuide] = {}
    for name in tables:
        section = _mapping(sections.get(name, {}), path, f"tables.{name}")
        _check_names(section, _OF_A_TABLE, path, f"tables.{name}.")
        places = {each: f"tables.{name}.{each}" if each in section else each for each in _OF_A_TABLE}
        of_tables[name] = _table({**content, **section}, annotators.get(name, annotators[""]), path, places)
    return CurationGuide(tables=of_tables)


def _annotators(found: Any, tables: Collection[str], path: Path) -> dict[str, tuple[str, ...]]:
    """Of each table the names of those who decide on it; of "" those of every table that nobody is named for."""
    if not isinstance(found, dict):
        return {"": _texts(found, path, "annotators")}
    of_each = {str(name): _texts(own or (), path, f"annotators.{name}") for name, own in found.items()}
    _texts([*of_each], path, "annotators")
    for name, own in of_each.items():
        if unknown := [table for table in own if table not in tables]:
            problem = f"no table {unknown[0]!r} that people decide on; there are {', '.join(tables)}"
            raise InvalidInput(problem, file=path, field=f"annotators.{name}")
    named = [table for table in tables if any(table in own for own in of_each.values())]
    return {table: tuple(name for name, own in of_each.items() if not own or table in own) for table in ("", *named)}


def _table(
    content: Mapping[str, Any], annotators: tuple[str, ...], path: Path, places: Mapping[str, str]
) -> TableGuide:
    """What holds for a table. `places`: where in the file each of its fields stands."""
    base = TableGuide()
    reasons = _texts(content.get("reasons", base.reasons), path, places["reasons"])
    if not 0 < len(reasons) <= MOST_REASONS:
        problem = f"expected 1 to {MOST_REASONS} reasons, found {len(reasons)}"
        raise InvalidInput(problem, file=path, field=places["reasons"])
    guidelines = content.get("guidelines", "")
    if not isinstance(guidelines, str):
        raise InvalidInput("expected a text", file=path, field=places["guidelines"])
    overlap, people = content.get("overlap", base.overlap), content.get("people", base.people)
    if isinstance(overlap, bool) or not isinstance(overlap, int | float) or not 0 <= overlap <= 1:
        raise InvalidInput(f"expected a share from 0 to 1, found {overlap!r}", file=path, field=places["overlap"])
    if type(people) is not int or people < _FEWEST:
        raise InvalidInput(f"expected a whole number from 2 on, found {people!r}", file=path, field=places["people"])
    if overlap and len(annotators) < people:
        problem = f"{people} people are to share rows, and {len(annotators)} decide on the table"
        raise InvalidInput(problem, file=path, field=places["overlap"])
    return TableGuide(
        reasons=reasons, guidelines=guidelines.strip(), overlap=float(overlap), people=people, annotators=annotators
    )


def _texts(found: Any, path: Path, place: str) -> tuple[str, ...]:
    """A list of different texts that say something."""
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) and each.strip() for each in found):
        raise InvalidInput("expected a list of texts", file=path, field=place)
    texts = [" ".join(each.split()) for each in found]
    if twice := [each for number, each in enumerate(texts) if each in texts[:number]]:
        raise InvalidInput(f"{twice[0]!r} stands there twice; name it once", file=path, field=place)
    return tuple(texts)


def _mapping(found: Any, path: Path, place: str) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise InvalidInput("expected a mapping of names to values", file=path, field=place)
    return found


def _check_names(content: Mapping[str, Any], known: Sequence[str], path: Path, place: str) -> None:
    for name in content:
        if name not in known:
            raise InvalidInput(f"unknown; there are {', '.join(known)}", file=path, field=f"{place}{name}")
