"""Evaluate a search over the columns of a table: find the rows of a batch for which all its conditions hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from trailforge.pipelines.search.query import COMPARISONS, FIELD, Term, hint_quotes, parse_search, read_number
from trailforge.schemas import InvalidInput

pc: Any = pyarrow.compute
"""The functions of `pyarrow.compute`, which are made at import, so that type checkers know none of them."""
_COMPARE: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "=": np.equal,
    "!=": np.not_equal,
}
Mask = Callable[[int, pa.RecordBatch], np.ndarray]
"""A function that says for each row of a batch, whose first row has this number, whether a condition holds."""
_WHOLE = ("=", "!=")
"""Signs that compare all that a field of text says."""
_PARTS = ("total",)
"""Of a record of numbers, the one that is meant where only the record is named."""
_COUNTS = ("num_", "n_")
"""What stands before the name of a count in some tables."""
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class RowSearch:
    """The conditions of a search, bound to a table, so that they know which columns to read and can be applied to a
    batch of rows.
    """

    columns: tuple[str, ...]
    """Empty where what is compared is known of all rows by their numbers."""
    masks: tuple[Mask, ...]

    def rows(self, first: int, batch: pa.RecordBatch) -> list[int]:
        """Return the positions in a batch of the rows for which all conditions hold; the first row of the batch has the
        number `first`.
        """
        holds = np.ones(batch.num_rows, bool)
        for mask in self.masks:
            holds &= mask(first, batch)
        return np.flatnonzero(holds).tolist()


def bind_search(
    text: str, schema: pa.Schema, numbers: Sequence[str], values: Callable[[str], np.ndarray],
    near: Collection[int] = (),
) -> RowSearch:  # fmt: skip
    """Bind a search text to a table with this schema.

    `numbers` are the paths of the table's numbers, and `values` returns a number of each row by its path. `near` are
    the rows similar to the one that the search names. Raises `InvalidInput` as `parse_search` does, for a field that
    the table lacks or that several columns could be, and where a number is compared with something else.
    """
    anywhere = tuple(name for name in schema.names if _has_text(schema.field(name).type))
    columns: dict[str, None] = {}
    masks: list[Mask] = []
    for term in parse_search(text):
        if term.is_like:
            masks.append(_among(np.fromiter(near, np.int64, len(near))))
            continue
        if not term.name:
            columns |= dict.fromkeys(anywhere)
            masks.append(_negate(term.is_negated, _anywhere(term.value, anywhere)))
            continue
        path = _find_path(term, schema, numbers)
        if path in numbers:
            masks.append(_negate(term.is_negated, _by_number(term, values(path))))
        else:
            columns[path.partition(".")[0]] = None
            mask = _by_field(term.value, path, is_whole=term.by in _WHOLE)
            masks.append(_negate(term.is_negated != (term.by == "!="), mask))
    return RowSearch(tuple(columns), tuple(masks))


def _negate(is_negated: bool, mask: Mask) -> Mask:
    return (lambda first, batch: ~mask(first, batch)) if is_negated else mask


def _among(numbers: np.ndarray) -> Mask:
    return lambda first, batch: np.isin(np.arange(first, first + batch.num_rows), numbers)


def _anywhere(text: str, names: Sequence[str]) -> Mask:
    def mask(first: int, batch: pa.RecordBatch) -> np.ndarray:
        holds = np.zeros(batch.num_rows, bool)
        for name in names:
            holds |= _has(batch.column(name), (), text)
        return holds

    return mask


def _by_field(text: str, path: str, *, is_whole: bool) -> Mask:
    name, *parts = path.split(".")
    return lambda first, batch: _has(batch.column(name), parts, text, is_whole=is_whole)


def _by_number(term: Term, known: np.ndarray) -> Mask:
    """Rows without the number are in no relation to it."""
    by = "=" if term.by == ":" else term.by
    holds = _COMPARE[by](known, read_number(term)) & ~np.isnan(known)
    return lambda first, batch: holds[first : first + batch.num_rows]


def _find_path(term: Term, schema: pa.Schema, numbers: Sequence[str]) -> str:
    """The path of the field that is meant: by its name, its last part, or that of a count without what is before."""
    is_order = term.by in COMPARISONS and term.by not in _WHOLE
    texts = [] if is_order else [path for path, kind in _paths(schema) if _is_read(kind)]
    known = [*texts, *numbers]
    tails = [path for path in known if path.rpartition(".")[2] == term.name]
    for found in (
        [path for path in known if path == term.name],
        [f"{term.name}.{part}" for part in _PARTS if f"{term.name}.{part}" in known],
        [path for path in known if path in {f"{prefix}{term.name}" for prefix in _COUNTS}],
        tails,
    ):
        if len(set(found)) == 1:
            return found[0]
        if found:
            raise InvalidInput(f"{term.name} may be {' or '.join(sorted(set(found)))}: write one of them", field=FIELD)
    what = "number" if is_order else "field"
    names = {part for path in known for part in (path, path.partition(".")[0], path.rpartition(".")[2])}
    near = get_close_matches(term.name, sorted(names), n=3) or sorted(path for path in known if "." not in path)[:8]
    raise InvalidInput(
        f"no {what} {term.name} here; there is {', '.join(near) or 'none'}; {hint_quotes(term)}",
        field=FIELD,
    )


def _paths(schema: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    """Every field and part of one, by path; lists are passed through."""

    def walk(kind: pa.DataType, path: str) -> Iterator[tuple[str, pa.DataType]]:
        kind = _within(kind)
        yield path, kind
        if pa.types.is_struct(kind):
            for field in kind:
                yield from walk(field.type, f"{path}.{field.name}")

    for name in schema.names:
        yield from walk(schema.field(name).type, name)


def _within(kind: pa.DataType) -> pa.DataType:
    while pa.types.is_list(kind):
        kind = kind.value_type
    return kind


def _is_read(kind: pa.DataType) -> bool:
    return _has_text(kind) or pa.types.is_boolean(kind)


def _has_text(kind: pa.DataType) -> bool:
    kind = _within(kind)
    return bool(_texts_within(kind)) if pa.types.is_struct(kind) else pa.types.is_string(kind)


def _has(array: pa.Array, parts: Sequence[str], text: str, *, is_whole: bool = False) -> np.ndarray:
    """Rows that have a text in a column, or in a part of it, however deep; of a part that is yes or no, this word.

    `is_whole`: the text has to be all that is there.
    """
    found = np.zeros(len(array), bool)

    def look(array: pa.Array, parts: Sequence[str], row_of: Callable[[np.ndarray], np.ndarray]) -> None:
        if pa.types.is_list(array.type):
            parents = pc.list_parent_indices(array).to_numpy()
            look(pc.list_flatten(array), parts, lambda places: row_of(parents[places]))
        elif pa.types.is_struct(array.type):
            for name in [parts[0]] if parts else _texts_within(array.type):
                look(pc.struct_field(array, name), parts[1:], row_of)
        elif pa.types.is_string(array.type):
            if is_whole:
                mask = pc.equal(pc.utf8_lower(array), text.lower())
            else:
                mask = pc.match_substring(array, text, ignore_case=True)
            found[row_of(np.flatnonzero(as_mask(mask)))] = True
        elif pa.types.is_boolean(array.type) and text.lower() in _TRUTHS:
            found[row_of(np.flatnonzero(as_mask(pc.equal(array, _TRUTHS[text.lower()]))))] = True

    look(array, parts, lambda places: places)
    return found


def _texts_within(kind: pa.DataType) -> list[str]:
    """Parts of a record that hold text."""
    return [field.name for field in kind if _has_text(field.type)]


def as_mask(array: pa.Array) -> np.ndarray:
    """Return a column of truth values as a NumPy array; null becomes false."""
    return pc.fill_null(array, False).to_numpy(zero_copy_only=False)
