"""What people may say of rows, as the views need it. The rules themselves are with the curated data set's maker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from schemas import Ruling


@dataclass(frozen=True, slots=True, kw_only=True)
class Curation:
    """The rules of a run's data set, and who decides."""

    tables: tuple[str, ...]
    """On whose rows people decide, those that matter most first."""
    fixable: Callable[[str], tuple[str, ...]]
    """Fields of a table that can be fixed."""
    check: Callable[[Mapping[str, Any], Ruling], None]
    """Raises `InvalidInput` when people cannot decide this, or when a fix leaves no valid row."""
    who: str
    """Name under which decisions are written unless another is given on the page."""
