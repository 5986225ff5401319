"""What a person types to find rows: words, `field:value`, `reward<0.5`, "an exact phrase", - before what must not be.

All of it has to hold of a row. Upper and lower case are alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from trailforge.schemas import InvalidInput

pc: Any = pyarrow.compute
"""Its functions are made at import, so type checkers know none of them."""
HELP = (
    'All words have to be in the row; `"two words"` in this order; `-word` must not be. `reason:near` searches one '
    "field; `reward<0.5`, `hops>=3`, `seed=7` compare a number."
)
_FIELD = "search"
_TERM = re.compile(
    r'(?P<minus>-(?=\S))?(?:(?P<name>[A-Za-z_][\w.]*)(?P<by>:(?!//)|<=|>=|!=|<|>|=))?(?P<value>"[^"]*"?|\S*)\s*'
)
_HALF = re.compile(r"[\ud800-\udfff]")
"""What the command line makes of bytes that are no text, and a form of half an emoji; Arrow takes neither."""
_COMPARE: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "=": np.equal,
    "!=": np.not_equal,
}
_PARTS = ("total",)
"""Of a record of numbers, the one that is meant where only the record is named."""
_COUNTS = ("num_", "n_")
"""What stands before the name of a count in some tables."""
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class Term:
    """One condition of a search."""

    value: str
    name: str = ""
    """The field that it is about; empty: any text."""
    by: str = ""
    """`:` or a comparison, where a field is named."""
    is_negated: bool = False


def quote(text: str) -> str:
    """A search for exactly this text."""
    return f'"{text}"'


def parse_search(text: str) -> list[Term]:
    """The conditions of a search in the order in which they were typed, each once.

    Raises `InvalidInput` for an empty search, what is no text, a quotation mark without its second one, a field without
    a value, and a comparison with what is no number.
    """
    terms, at = [], 0
    text = text.strip()
    if _HALF.search(text):
        raise InvalidInput("holds bytes that are no UTF-8, or half a surrogate pair: no row has them", field=_FIELD)
    while at < len(text):
        match = _TERM.match(text, at)
        if match is None or match.end() == at:  # cannot be: the value takes anything
            raise InvalidInput(f"cannot be read from {text[at:]!r} on", field=_FIELD)
        terms.append(_read_term(match))
        at = match.end()
    if not any(term.value for term in terms):
        raise InvalidInput("nothing to search for", field=_FIELD)
    return list(dict.fromkeys(terms))


def _read_term(match: re.Match[str]) -> Term:
    name, by, value = match["name"] or "", match["by"] or "", match["value"]
    if value.startswith('"'):
        if len(value) < 2 or not value.endswith('"'):
            raise InvalidInput(f"the quotation mark of {value} has no second one", field=_FIELD)
        value = value[1:-1]
    if name and not value:
        raise InvalidInput(f"what is {name}{by} to be? say a value behind it", field=_FIELD)
    if by in _COMPARE:
        _read_number(name, by, value)
    return Term(value, name, by, bool(match["minus"]))


def _read_number(name: str, by: str, value: str) -> float:
    try:
        return float(value.replace(",", ""))
    except ValueError:
        whole = f"{name}{by}{value}"
        raise InvalidInput(
            f'{value!r} is no number; to search for the text itself, write "{whole}"', field=_FIELD
        ) from None


def texts_of(text: str) -> list[str]:
    """What a search wants to see in a row: to be marked where it stands. Empty for a search that cannot be read."""
    try:
        terms = parse_search(text)
    except InvalidInput:
        return []
    return [term.value for term in terms if term.by in ("", ":") and not term.is_negated and term.value]


@dataclass(frozen=True, slots=True)
class RowSearch:
    """Conditions, bound to a table: which columns they read, and which rows of a batch they hold of."""

    columns: tuple[str, ...]
    masks: tuple[Callable[[int, pa.RecordBatch], np.ndarray], ...]

    def rows(self, first: int, batch: pa.RecordBatch) -> list[int]:
        """Places in a batch, whose first row has the number `first`, of the rows of which all conditions hold."""
        holds = np.ones(batch.num_rows, bool)
        for mask in self.masks:
            holds &= mask(first, batch)
        return np.flatnonzero(holds).tolist()


def bind_search(text: str, schema: pa.Schema, numbers: Sequence[str], values: Callable[[str], np.ndarray]) -> RowSearch:
    """A search of a table with this schema.

    `numbers`: the paths of its numbers; `values`: a number of each row, by its path. Raises `InvalidInput` as
    `parse_search`, and for a field that the table has not, or several of.
    """
    anywhere = tuple(name for name in schema.names if _has_text(schema.field(name).type))
    columns: dict[str, None] = {}
    masks: list[Callable[[int, pa.RecordBatch], np.ndarray]] = []
    for term in parse_search(text):
        if not term.name:
            columns |= dict.fromkeys(anywhere)
            masks.append(_negate(term, _anywhere(term.value, anywhere)))
            continue
        path = _find_path(term, schema, numbers)
        if path in numbers:
            masks.append(_negate(term, _by_number(term, values(path))))
        else:
            columns[path.partition(".")[0]] = None
            masks.append(_negate(term, _by_field(term.value, path)))
    return RowSearch(tuple(columns) or (schema.names[0],), tuple(masks))


def _negate(
    term: Term, mask: Callable[[int, pa.RecordBatch], np.ndarray]
) -> Callable[[int, pa.RecordBatch], np.ndarray]:
    return (lambda first, batch: ~mask(first, batch)) if term.is_negated else mask


def _anywhere(text: str, names: Sequence[str]) -> Callable[[int, pa.RecordBatch], np.ndarray]:
    def mask(first: int, batch: pa.RecordBatch) -> np.ndarray:
        holds = np.zeros(batch.num_rows, bool)
        for name in names:
            holds |= _has(batch.column(name), (), text)
        return holds

    return mask


def _by_field(text: str, path: str) -> Callable[[int, pa.RecordBatch], np.ndarray]:
    name, *parts = path.split(".")
    return lambda first, batch: _has(batch.column(name), parts, text)


def _by_number(term: Term, known: np.ndarray) -> Callable[[int, pa.RecordBatch], np.ndarray]:
    """Rows without the number are in no relation to it."""
    by = "=" if term.by == ":" else term.by
    holds = _COMPARE[by](known, _read_number(term.name, by, term.value)) & ~np.isnan(known)
    return lambda first, batch: holds[first : first + batch.num_rows]


def _find_path(term: Term, schema: pa.Schema, numbers: Sequence[str]) -> str:
    """The path of the field that is meant: by its name, its last part, or that of a count without what is before."""
    texts = [] if term.by in _COMPARE else [path for path, kind in _paths(schema) if _is_read(kind)]
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
            raise InvalidInput(f"{term.name} may be {' or '.join(sorted(set(found)))}: write one of them", field=_FIELD)
    what = "number" if term.by in _COMPARE else "field"
    names = {part for path in known for part in (path, path.partition(".")[0], path.rpartition(".")[2])}
    near = get_close_matches(term.name, sorted(names), n=3) or sorted(path for path in known if "." not in path)[:8]
    raise InvalidInput(
        f"no {what} {term.name} here; there is {', '.join(near) or 'none'}. To search for the text itself, write "
        f'"{term.name}{term.by}{term.value}"',
        field=_FIELD,
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


def _has(array: pa.Array, parts: Sequence[str], text: str) -> np.ndarray:
    """Rows that have a text in a column, or in a part of it, however deep; of a part that is yes or no, this word."""
    found = np.zeros(len(array), bool)

    def look(array: pa.Array, parts: Sequence[str], row_of: Callable[[np.ndarray], np.ndarray]) -> None:
        if pa.types.is_list(array.type):
            parents = pc.list_parent_indices(array).to_numpy()
            look(pc.list_flatten(array), parts, lambda places: row_of(parents[places]))
        elif pa.types.is_struct(array.type):
            for name in [parts[0]] if parts else _texts_within(array.type):
                look(pc.struct_field(array, name), parts[1:], row_of)
        elif pa.types.is_string(array.type):
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
    """A column of truths as NumPy has them; what is null is false."""
    return pc.fill_null(array, False).to_numpy(zero_copy_only=False)
