"""Read calendar days in the forms in which files write them."""

from __future__ import annotations

import email.utils
import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

from trailforge.rows.fields import as_text
from trailforge.schemas import InvalidInput

_ISO = re.compile(r"(\d{4}-\d\d-\d\d|\d{8}|\d{4}-?W\d\d(?:-?\d)?)(?:[Tt ](\d\d.*))?")
_ZONE = re.compile(r"\s*(?:UTC|GMT)$|(?<=\d)\s+(?=[+-]\d\d:?\d\d$)")
_OF_MAIL = re.compile(r"(?:[^\W\d_]{2,9}\.?,?\s+)?\d{1,2}[\s-]+[A-Za-z]{3,9}\.?,?[\s-]+\d{2,4}(?:\s.*)?", re.DOTALL)
_NUMBER = re.compile(r"(\d{9,19})(?:\.\d*)?")
_COMPACT = {10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
"""Days with times in digits alone, by their number."""
_UNITS = ((9, 10, 1), (12, 13, 10**3), (15, 16, 10**6), (18, 19, 10**9))
"""Fewest and most digits of an epoch from 1973 on, and how many of its unit are a second."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_YEAR = 2100
_LONGEST = 80
"""Characters of a date; the patterns take more than linear time."""


def iso_date(value: Any, field: str) -> str:
    """Return the day of an ISO 8601 date or time, of an e-mail date as in RSS, where it was written (no change of
    zone), or of an epoch in seconds, milliseconds, microseconds or nanoseconds (UTC).

    Raises `InvalidInput` naming the field. A year or month alone is refused, and so is 31/05/2024: some read it 5 May.
    """
    text = as_text(value, field)
    try:
        if len(text) > _LONGEST:
            raise ValueError(text)
        if number := _NUMBER.fullmatch(text):
            return _of_digits(number[1]).isoformat()
        if iso := _ISO.fullmatch(_ZONE.sub("", text)):
            if iso[2]:
                datetime.fromisoformat(f"{iso[1]}T{iso[2]}")
            return date.fromisoformat(iso[1]).isoformat()
        if _OF_MAIL.fullmatch(text):
            return email.utils.parsedate_to_datetime(text).date().isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        pass
    raise InvalidInput(
        f"expected a date as 2024-05-31, found {text[:40]!r}; 31 May 2024 and seconds since 1970 are read "
        "too, months in digits only after the year",
        field=field,
    )


def _of_digits(digits: str) -> date:
    """Of an epoch, or of a day and its time in digits alone. Raises `ValueError` for neither, and for what may be both:
    2024053112 is a day of 2024 or one of 2034."""
    try:
        day = datetime.strptime(digits, _COMPACT.get(len(digits), "")).date()
    except ValueError:
        day = None
    per_second = next((unit for least, most, unit in _UNITS if least <= len(digits) <= most), None)
    if per_second is None and day is not None:
        return day
    if per_second is None or (day is not None and day.year >= 1900):
        raise ValueError(digits)
    found = (_EPOCH + timedelta(seconds=int(digits) // per_second)).date()
    if found.year > _LAST_YEAR:
        raise ValueError(digits)
    return found
