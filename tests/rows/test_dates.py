"""Days: what is one in any way of writing it, and what only looks like one.

Ways of writing them are those of the documentation of NewsAPI, Mediastack, the New York Times, GDELT, BigQuery and
RFC 2822; epochs are those of HN, of JavaScript's `Date.now()` and of Parquet's microseconds, as people meet them side
by side (pandas-dev/pandas#17860: milliseconds and microseconds in one column; pola-rs/polars#5329: seconds to
nanoseconds; Arize-ai/phoenix#269: milliseconds taken for seconds).
"""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.rows.dates import iso_date
from trailforge.schemas import InvalidInput

UNITS = (1, 10**3, 10**6, 10**9)


@pytest.mark.parametrize(
    ("value", "day"),
    [
        ("2024-05-31", "2024-05-31"),
        ("20240531", "2024-05-31"),
        (20240531, "2024-05-31"),
        (20240531.0, "2024-05-31"),
        ("2024-05-31T23:30:00Z", "2024-05-31"),
        ("2024-05-31T23:30:00+0000", "2024-05-31"),
        ("2024-05-31 23:30:00 UTC", "2024-05-31"),
        ("2024-05-31 23:30:00 +02:00", "2024-05-31"),
        ("2024-05-31 23:30:00.123456", "2024-05-31"),
        ("20240531T233000Z", "2024-05-31"),
        ("20240531233000", "2024-05-31"),
        ("2024-W22-5", "2024-05-31"),
        ("Fri, 31 May 2024 23:30:00 GMT", "2024-05-31"),
        ("31 May 2024 23:30 +0200", "2024-05-31"),
        ("1709123100", "2024-02-28"),
        (1709123100, "2024-02-28"),
        ("1709123100.0", "2024-02-28"),
        (1709123100.5, "2024-02-28"),
        ("1709123100000", "2024-02-28"),
        (1709123100000, "2024-02-28"),
        ("1709123100000000", "2024-02-28"),
        ("1612121300000", "2021-01-31"),
        ("915148800", "1999-01-01"),
        ("915148800000", "1999-01-01"),
    ],
)
def test_days(value: object, day: str) -> None:
    assert iso_date(value, "date") == day


@pytest.mark.parametrize(
    "value",
    [
        *("2024", "2024-05", "202405", "31/05/2024", "05/31/2024", "2024-02-30", "2024-13-01", "20240532", "0"),
        *("-1709123100", "45443", "2024-05-31junk", "2024-05-3112:00", "2024-05-31x12:00", "soon"),
        *("4133980800", "99999999999", "9999999999999", "12345678901234567890", "1e9", "2024053112"),
        *("202405311230", "20241332000000", "2024-05-31T25:00:00", "3 days ago", "Friday", "May", "1.7e12"),
        *("0000-00-00", "1709-12-31 x", "10 Downing Street", "5 May", True, [], {}, 2024, 5.0),
    ],
)
def test_what_is_none_is_refused_and_named(value: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        iso_date(value, "date")
    assert caught.value.field == "date"


@given(
    when=st.datetimes(datetime(1975, 1, 1), datetime(2029, 12, 31)),
    unit=st.sampled_from(UNITS),
    is_text=st.booleans(),
)
def test_epochs_of_any_unit_are_their_day(when: datetime, unit: int, is_text: bool) -> None:
    """Before 2030 none can be taken for a day with its hour."""
    seconds = int(when.replace(tzinfo=UTC).timestamp())
    number = seconds * unit
    try:
        found = iso_date(str(number) if is_text else number, "date")
    except InvalidInput:  # ms of 1976 in twelve digits, that are also a day with its time
        assert len(str(number)) == 12
    else:
        assert found == when.date().isoformat()


@given(digits=st.from_regex(r"\d{1,20}", fullmatch=True))
def test_digits_are_a_day_that_they_may_mean(digits: str) -> None:
    try:
        day = date.fromisoformat(iso_date(digits, "date"))
    except InvalidInput:
        return
    assert day.isoformat().replace("-", "") == digits[:8] or 1970 <= day.year <= 2100


@given(st.dates())
def test_a_day_is_itself(day: date) -> None:
    assert iso_date(day.isoformat(), "date") == day.isoformat()
