"""Dates as files and feeds write them, to `YYYY-MM-DD`."""

from __future__ import annotations

import email.utils
import re
from datetime import date, datetime

from trailforge.schemas import InvalidInput

_BEGINS_AS_ISO = re.compile(r"\d{4}-?(?:\d\d|W\d\d)")


def iso_date(text: str, field: str) -> str:
    """The day of an ISO 8601 date or time, or of an e-mail date as in RSS, where it was written (no change of zone).

    Raises `InvalidInput` naming the field. A year or month alone is refused, and so is 31/05/2024: some read it 5 May.
    """
    text = text.strip()
    try:
        if _BEGINS_AS_ISO.match(text):
            return (date.fromisoformat(text) if len(text) <= 10 else datetime.fromisoformat(text).date()).isoformat()
        return email.utils.parsedate_to_datetime(text).date().isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        raise InvalidInput(f"expected a date as 2024-05-31, found {text[:40]!r}", field=field) from None
