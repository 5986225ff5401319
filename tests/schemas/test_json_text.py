"""JSON that others wrote."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.schemas import parse_json
from trailforge.schemas.files import MOST_DEEP

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_what_was_written_is_read(value: object) -> None:
    assert parse_json(json.dumps(value)) == value


def nested(levels: int, opening: str = "[", closing: str = "]") -> str:
    return opening * levels + "0" + closing * levels


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_has_a_limit(opening: str, closing: str) -> None:
    assert parse_json(nested(MOST_DEEP, opening, closing))
    for levels in (MOST_DEEP + 1, 900, 100_000):
        with pytest.raises(ValueError, match="nested"):
            parse_json(nested(levels, opening, closing))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\ud800", b"\xff\xfe", b'"\xc3"', "1" * 5000])
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)
