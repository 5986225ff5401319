"""Names and versions of stored records, and how rows of the previous version are read.

A record's name and version stand in the file, not in the code: `STORED_AS` and `SCHEMA_VERSION`. `EARLIER` says of each
earlier version that is still read how a stored row becomes a present one:

    STORED_AS: ClassVar[str] = "Question"
    SCHEMA_VERSION: ClassVar[str] = "1.1"
    EARLIER: ClassVar[Earlier] = {"1.0": migration(renamed={"answer_aliases": "aliases"}, removed=("dataset",))}

Every reader migrates in memory; the file stays as it is. The version before stays for one release. Where a record took
the place of another one, that one's rows are read, too, as `"Remark 1.0"`: its name before its version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from trailforge.schemas.errors import InvalidInput

Row = dict[str, Any]
Migration = Callable[[Row], Row]
"""A function that turns a stored row of an earlier version, as plain dicts and lists, into one of the current
version."""
Earlier = Mapping[str, Migration]
"""Migrations by the version that they start from; where the record had another name, that name stands before the
version."""

_NONE: Mapping[str, Any] = MappingProxyType({})


CALLED_PLAIN: Mapping[str, str] = MappingProxyType(
    {name: f"{name}_plain" for name in ("hippo_rag", "raptor", "hyper_graph_rag", "graph_rag")}
)
"""New names of back ends that use no model, since a paper's name now stands for the back end that a model builds."""


def migration(
    *, renamed: Mapping[str, str] = _NONE, added: Mapping[str, Any] = _NONE, removed: tuple[str, ...] = ()
) -> Migration:
    """Return a migration that renames fields (`renamed`, from old to new names), removes some and adds others.

    A new field that has a default in the record needs no value here. Changes within nested records need a function of
    their own.
    """

    def migrate(row: Row) -> Row:
        return {**added, **{renamed.get(name, name): value for name, value in row.items() if name not in removed}}

    return migrate


def either_name(name: str) -> str:
    """Return how a row names its back end when it is not known whether a model built it: both names, joined by "or",
    where the back end can be built either way; else the name itself.
    """
    return f"{name} or {CALLED_PLAIN[name]}" if name in CALLED_PLAIN else name


def rename_back_end(row: Row) -> Row:
    """Rename the back end in a row from before the field `backend` said whether a model built it.

    For a question's own paragraphs no model did; for an index, of which the row has only the hash, both names are given
    (`either_name`).
    """
    name = row["backend"]
    return row | {"backend": either_name(name) if row.get("index") else CALLED_PLAIN.get(name, name)}


def stored_name(record: type) -> str:
    """Return the name of the record in files; renaming its class changes no file."""
    return record.STORED_AS  # type: ignore[attr-defined]


def version_of(record: type) -> str:
    """Return the record's schema version, `major.minor`."""
    return record.SCHEMA_VERSION  # type: ignore[attr-defined]


def is_read(record: type, name: str, version: str) -> bool:
    """Tell whether rows stored with this name and version can be read as the record."""
    return _key(record, name, version) in (version_of(record), *_earlier(record))


def migration_of(record: type, version: str, *, source: object, name: str = "") -> Migration | None:
    """Return the migration from a stored version to the current one; None for the current one. `name` is the stored
    record's name. Raises `InvalidInput` for a version that is not read, saying what to do.
    """
    ours, key = version_of(record), _key(record, name or stored_name(record), version)
    if key == ours:
        return None
    earlier = _earlier(record)
    if key not in earlier:
        newer = _as_numbers(version) > _as_numbers(ours)
        mend = "upgrade trailforge" if newer else "make it again with this trailforge"
        own = sorted((ours, *(each for each in earlier if " " not in each)), key=_as_numbers)
        raise InvalidInput(
            f"{stored_name(record)} of schema version {version or 'unknown'}; this trailforge reads "
            f"{', '.join(own)}: {mend}",
            file=source,
        )
    migrate = earlier[key]

    def now(row: Row) -> Row:
        migrated = migrate(row)
        return migrated | {"schema_version": ours} if "schema_version" in migrated else migrated

    return now


def _key(record: type, name: str, version: str) -> str:
    return version if name == stored_name(record) else f"{name} {version}"


def _earlier(record: type) -> Earlier:
    return getattr(record, "EARLIER", _NONE)


def _as_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal() and len(part) < 10)
