"""Conversion of records to Arrow and back. The dataclass alone defines a row's shape; its Arrow schema is derived from
it.

`str, int, float, bool` become `string, int64, double, bool`; `tuple[X, ...]` a list; a record a struct; `Literal` of
strings a string; `X | None` a nullable field, everything else non-null. Each table's metadata names record and version.
"""

from __future__ import annotations

import contextlib
import dataclasses
import types
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from trailforge.schemas.errors import CountMismatch, InvalidInput, located
from trailforge.schemas.versions import Migration, is_read, migration_of, stored_name, version_of

Record = TypeVar("Record")

_SCALARS: dict[type, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
}
_ROWS_PER_GROUP = 500


@cache
def arrow_schema(record: type) -> pa.Schema:
    """Return the Arrow schema of a record class, with its name and version as metadata."""
    metadata = {"trailforge.record": stored_name(record), "trailforge.version": version_of(record)}
    return pa.schema(list(_fields(record)), metadata=metadata)


def to_table(record: type[Record], rows: Sequence[Record]) -> pa.Table:
    """Convert rows to an Arrow table. Raises `InvalidInput` naming row and field for a missing value or one of a wrong
    type."""
    schema = arrow_schema(record)
    values = [to_dict(row) for row in rows]
    try:
        table = pa.Table.from_pylist(values, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        _raise_bad_row(record, values, error)
        raise
    for number, value in enumerate(values):
        _refuse_null(value, list(schema), number, "")
    return table


def check_schema(record: type, schema: pa.Schema, *, source: object) -> Migration | None:
    """Raise an error for a table that does not hold this record in a readable version, with exactly that version's
    columns. Returns the migration that brings its rows to the current version; None when they have it already.
    """
    metadata = schema.metadata or {}
    name = metadata.get(b"trailforge.record", b"").decode()
    if not name:
        raise InvalidInput(
            "not a trailforge table (no record name in its metadata); give a file that trailforge wrote", file=source
        )
    version = metadata.get(b"trailforge.version", b"").decode()
    if name != stored_name(record) and not is_read(record, name, version):
        raise InvalidInput(f"holds {name} rows, expected {stored_name(record)}", file=source)
    migrate = migration_of(record, version, source=source, name=name)
    expected = arrow_schema(record)
    if migrate is None and not schema.equals(expected, check_metadata=False):
        odd = sorted(set(schema.names) ^ set(expected.names)) or ["types"]
        raise InvalidInput(
            f"columns differ from {name} {version} in: {', '.join(odd)}; the file was changed, so make it again",
            file=source,
            field=odd[0],
        )
    return migrate


def write_parquet(path: Path, record: type[Record], rows: Sequence[Record]) -> None:
    """Write rows as Parquet (zstd-3, row groups of 500). The same rows give the same bytes."""
    pq.write_table(
        to_table(record, rows),
        path,
        compression="zstd",
        compression_level=3,
        row_group_size=_ROWS_PER_GROUP,
    )


def read_parquet(path: Path, record: type[Record]) -> list[Record]:
    """Read a whole file that `write_parquet` made. Raises `InvalidInput` for anything else."""
    return [row for batch in iter_parquet(path, record) for row in batch]


def iter_parquet(path: Path, record: type[Record]) -> Iterable[list[Record]]:
    """Read a file a row group at a time. Raises `InvalidInput` for one that is not of this record, or damaged."""
    with _reading(path), pq.ParquetFile(path) as file:
        migrate = check_schema(record, file.schema_arrow, source=path)
        for group in range(file.num_row_groups):
            # So few rows are read before other threads have woken.
            yield _records(record, file.read_row_group(group, use_threads=False), migrate, path)


def read_columns(path: Path, record: type, columns: Sequence[str]) -> pa.Table:
    """Read some columns of a file. A file of the previous version is migrated row by row first. Raises `InvalidInput`
    for a file that is not of this record, or damaged.
    """
    with _reading(path), pq.ParquetFile(path) as file:
        if check_schema(record, file.schema_arrow, source=path) is None:
            return file.read(columns=list(columns))
    return to_table(record, read_parquet(path, record)).select(list(columns))


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say which file is missing or damaged, which shows when it is opened, or pages later."""
    try:
        yield
    except FileNotFoundError as error:
        raise InvalidInput("no such file", file=path) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInput(f"not a readable Parquet file ({error})", file=path) from error


def from_stored(record: type[Record], content: Any, *, source: object) -> Record:
    """Read a JSON object with its `schema_version` as a record, migrating one of an earlier version. `source` is where
    it comes from, for messages.

    Raises `InvalidInput` for a version that is not read, and for missing, unknown or ill-typed fields.
    """
    if not isinstance(content, dict):
        raise InvalidInput(f"expected an object, got {type(content).__name__}", file=source)
    migrate = migration_of(record, str(content.get("schema_version") or ""), source=source)
    with located(file=source):
        return from_dict(record, migrate(content) if migrate else content)


def from_payload(record: type[Record], content: Any) -> Record:
    """Read a record that another row holds as JSON, migrating one of an earlier version; not all records state their
    version.

    Raises `InvalidInput` for a version that is not read, and for missing, unknown or ill-typed fields.
    """
    if isinstance(content, dict) and "schema_version" in content:
        return from_stored(record, content, source=None)
    return from_dict(record, content)


def _records(record: type[Record], table: pa.Table, migrate: Migration | None, source: object) -> list[Record]:
    rows = table.to_pylist()
    with located(file=source):
        return [from_dict(record, row) for row in (map(migrate, rows) if migrate else rows)]


def to_dict(value: Any) -> Any:
    """Convert a record to plain dicts and lists."""
    if type(value) in _SCALARS:
        return value
    if dataclasses.is_dataclass(value):
        return {name: to_dict(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, (tuple, list)):
        return [to_dict(item) for item in value]
    return value


def from_dict(record: type[Record], value: dict[str, Any]) -> Record:
    """Convert plain dicts and lists to a record. Raises `InvalidInput` for missing, unknown or ill-typed fields."""
    if not isinstance(value, dict):
        raise InvalidInput(f"expected an object, got {type(value).__name__}", field=record.__name__)
    places = _places(record)
    if unknown := value.keys() - places.keys():
        mend = getattr(record, "GONE", {}).get(min(unknown), "")
        raise InvalidInput(f"unknown field of {record.__name__}{mend and f'; {mend}'}", field=min(unknown))
    fields = {}
    for name, (shape, is_required) in places.items():
        if name in value:
            item = value[name]
            is_plain = shape.is_scalar and type(item) is shape.inner
            fields[name] = item if is_plain else _revive(shape, item, name)
        elif is_required:
            raise InvalidInput(f"missing in {record.__name__}", field=name)
    return record(**fields)


@cache
def _names(record: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(record))


@cache
def _hints(record: type) -> dict[str, Any]:
    hints = get_type_hints(record)
    return {f.name: hints[f.name] for f in dataclasses.fields(record)}


def _fields(record: type) -> Iterable[pa.Field]:
    for name, hint in _hints(record).items():
        inner, nullable = _strip_none(hint)
        yield pa.field(name, _arrow_type(inner), nullable=nullable)


def _arrow_type(hint: Any) -> pa.DataType:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if get_origin(hint) is Literal:
        return pa.string()
    if get_origin(hint) is tuple:
        item, nullable = _strip_none(get_args(hint)[0])
        return pa.list_(pa.field("item", _arrow_type(item), nullable=nullable))
    if dataclasses.is_dataclass(hint):
        return pa.struct(list(_fields(hint)))  # type: ignore[arg-type]
    raise TypeError(f"no Arrow type for {hint!r}")


def _strip_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) in (Union, types.UnionType):
        rest = [arg for arg in get_args(hint) if arg is not type(None)]
        return rest[0], True
    return hint, False


class _Shape(NamedTuple):
    """What `_revive` asks of a type, found out once: a record has thousands of values of a few types."""

    inner: Any
    """Without `None`."""
    is_nullable: bool
    is_scalar: bool
    is_record: bool
    literals: tuple[str, ...]
    """What a `Literal` may be."""
    item: _Shape | None
    """Of a tuple."""


@cache
def _shape(hint: Any) -> _Shape:
    inner, is_nullable = _strip_none(hint)
    origin, arguments = get_origin(inner), get_args(inner)
    return _Shape(
        inner=dict if origin is dict else inner,  # whatever JSON has in it
        is_nullable=is_nullable,
        is_scalar=inner in _SCALARS,
        is_record=dataclasses.is_dataclass(inner),
        literals=arguments if origin is Literal else (),
        item=_shape(arguments[0]) if origin is tuple else None,
    )


@cache
def _places(record: type) -> dict[str, tuple[_Shape, bool]]:
    """The fields of a record: what they hold, and whether they have to be there."""
    missing, hints = dataclasses.MISSING, _hints(record)
    return {
        field.name: (_shape(hints[field.name]), field.default is missing and field.default_factory is missing)
        for field in dataclasses.fields(record)
    }


def _revive(shape: _Shape, value: Any, name: str) -> Any:
    inner, item = shape.inner, shape.item
    if shape.is_scalar and type(value) is inner:
        return value
    if value is None:
        if not shape.is_nullable:
            raise InvalidInput("must not be null", field=name)
        return None
    if item is not None:
        if not isinstance(value, (list, tuple)):
            raise InvalidInput(f"expected a list, got {type(value).__name__}", field=name)
        if item.is_scalar and {*map(type, value)} <= {item.inner}:  # thousands of numbers in a vector
            return tuple(value)
        return tuple([_revive(item, each, name) for each in value])
    if shape.is_record:
        if not isinstance(value, dict):
            raise InvalidInput(f"expected an object, got {type(value).__name__}", field=name)
        try:
            return from_dict(inner, value)
        except InvalidInput:
            with located(section=name):
                raise
    if shape.literals:
        if value not in shape.literals:
            raise InvalidInput(f"{value!r} is none of {', '.join(shape.literals)}", field=name)
        return value
    if inner is float and type(value) is int:
        return float(value)
    if type(value) is not inner:
        raise InvalidInput(f"expected {inner.__name__}, got {type(value).__name__}", field=name)
    return value


def _refuse_null(value: Any, fields: list[pa.Field], row: int, prefix: str) -> None:
    for field in fields:
        _refuse_null_value(value[field.name], field, row, f"{prefix}{field.name}")


def _refuse_null_value(value: Any, field: pa.Field, row: int, name: str) -> None:
    if value is None:
        if not field.nullable:
            raise InvalidInput("must not be null", row=row, field=name)
    elif pa.types.is_struct(field.type):
        _refuse_null(value, list(field.type), row, f"{name}.")
    elif pa.types.is_list(field.type):
        for item in value:
            _refuse_null_value(item, field.type.value_field, row, name)


def _raise_bad_row(record: type, values: list[dict[str, Any]], error: Exception) -> None:
    for number, value in enumerate(values):
        for field in arrow_schema(record):
            try:
                pa.array([value[field.name]], type=field.type)
            except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError):
                raise InvalidInput(f"{record.__name__}: {error}", row=number, field=field.name) from error


def read_rows(paths: Iterable[Path], record: type[Record]) -> Iterable[Record]:
    """Stream the rows of several files in order."""
    for path in paths:
        for batch in iter_parquet(path, record):
            yield from batch


def check_table_file(path: Path, record: type, expected: int) -> None:
    """Raise unless a file's footer says that it holds exactly `expected` rows of this record. No row is read.

    Raises `CountMismatch` for another number of rows, `InvalidInput` for anything else.
    """
    try:
        with pq.ParquetFile(path) as file:
            found, schema = file.metadata.num_rows, file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidInput(f"not a readable Parquet file ({error})", file=path) from error
    if found != expected:
        raise CountMismatch(f"{path}: {found} rows, the manifest says {expected}; make the run again")
    check_schema(record, schema, source=path)
