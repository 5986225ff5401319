"""Many changes of one table, each of a row of its own, held by one verification."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

from tests.pipelines.support import forge
from trailforge.pipelines.runs import verify

Changes = Callable[[Any], dict[str, Any]]


@dataclass(frozen=True)
class Forgeries:
    """Changes by name, and which rows of a table may be changed."""

    table: str
    record: type
    changes: Mapping[str, Changes]
    is_meant: Callable[[Any], bool] = lambda row: True
    key: Callable[[Any], str] = lambda row: row.uid
    """By what problems name a row beside its uid: there is one change for each."""

    def found(self, original: Path, copies: Path) -> dict[str, str]:
        """What is found of each change in copies of a run, with hashes and counts made to fit: what names its row."""
        found: dict[str, str] = {}
        while left := {name: change for name, change in self.changes.items() if name not in found}:
            copy = copies / f"{self.table}-{len(left)}"
            shutil.copytree(original, copy)
            names = self._forge(copy, left)
            assert names, f"no row is changed by {', '.join(left)}"
            with mock.patch.object(verify, "_MOST_SHOWN", 1000):
                problems = verify.verify_run(copy).problems
            for name, known in names.items():
                found[name] = "\n".join(p for p in problems if any(f", {each}: " in p for each in known))
        return found

    def _forge(self, copy: Path, left: dict[str, Changes]) -> dict[str, set[str]]:
        """Make as many of the changes as there are rows for; by what the row of each is named."""
        names: dict[str, set[str]] = {}
        taken: set[str] = set()

        def edit(rows: list[Any]) -> list[Any]:
            return [changed(row) if self.is_meant(row) and self.key(row) not in taken else row for row in rows]

        def changed(row: Any) -> Any:
            made = {name: replace(row, **change(row)) for name, change in left.items() if name not in names}
            for name, other in made.items():
                if other != row:
                    names[name] = {self.key(row), row.uid, other.uid}
                    taken.add(self.key(row))
                    return other
            return row

        for number in range(len(list((copy / self.table).glob("part-0*.parquet")))):
            forge(copy, self.table, edit, record=self.record, number=number)
        return names


def flip_bytes(paths: Iterable[Path]) -> list[str]:
    """Change a byte in the midst of each file; the problems that a verification has to find, sorted."""
    said = []
    for path in paths:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        said.append(f"{path.parent.name}/{path.name}: not as it was written (its sha256 differs)")
    return sorted(said)


def not_found(said: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str]:
    """Of what is said of each change, what lacks what is wanted of it."""
    return {name: said[name] for name, text in wanted.items() if text not in said[name]}
