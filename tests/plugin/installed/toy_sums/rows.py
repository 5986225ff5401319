"""The record of the data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """Two numbers, added."""

    STORED_AS: ClassVar[str] = "Sum"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    uid: str
    question_id: str
    question: str
    answer: str
    size: str
    """`small`, or `large` from ten on."""
    remark: str
