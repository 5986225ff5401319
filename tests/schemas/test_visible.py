"""Text that cannot act."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from schemas.visible import visible

TURNS = {*map(chr, range(0x202A, 0x202F)), *map(chr, range(0x2066, 0x206A))}


@given(st.text(alphabet=st.characters() | st.sampled_from(sorted(TURNS))))
def test_nothing_that_acts_is_left_and_all_else_stays(text: str) -> None:
    shown = visible(text)
    assert len(shown) == len(text)
    for before, after in zip(text, shown, strict=True):
        acts = before in TURNS or (unicodedata.category(before) == "Cc" and before not in "\n\t")
        assert (after != before) == acts
        assert unicodedata.category(after) != "Cc" or after in "\n\t"
