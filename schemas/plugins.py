"""Load plugins by entry point: a preset names a part, and any installed distribution may provide it."""

from __future__ import annotations

import functools
import importlib.metadata
from typing import Any

from trailforge.schemas.errors import InvalidInput


@functools.cache
def installed_plugins(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Return the entry points of a group by name, from all installed distributions; nothing is imported."""
    return {each.name: each for each in importlib.metadata.entry_points(group=group)}


def check_plugin(group: str, name: str, *, field: str, built_in: tuple[str, ...] = ()) -> None:
    """Raise `InvalidInput` for a name that is neither built in nor an entry point's of this group. `field` is the
    setting that holds the name, for the message.
    """
    if name not in built_in and name not in installed_plugins(group):
        known = ", ".join([*built_in, *sorted(installed_plugins(group))])
        raise InvalidInput(f"{name!r} is not one of {known}", field=field)


def load_plugin(group: str, name: str, *, field: str) -> Any:
    """Import what an entry point names. Raises `InvalidInput` when no distribution has one of this name; `field` is the
    setting that holds the name, for the message.
    """
    check_plugin(group, name, field=field)
    return installed_plugins(group)[name].load()
