"""Text that cannot act."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from trailforge.schemas.text import visible

SEEN = {*map(chr, (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD))}
"""Signs of the category of formats that have a shape."""
HIDDEN = [0xAD, 0x200B, 0x200D, 0x202E, 0x2028, 0x2060, 0x2066, 0xFEFF, 0xFE0F, 0x115F, 0x3164, 0xE0041]


@given(st.text(alphabet=st.characters() | st.sampled_from(sorted(map(chr, HIDDEN)))))
def test_nothing_that_acts_or_hides_is_left(text: str) -> None:
    shown = visible(text)
    assert len(shown) == len(text)
    for before, after in zip(text, shown, strict=True):
        is_hidden = unicodedata.category(before) in ("Cc", "Cf", "Zl", "Zp") and before not in {"\n", "\t", *SEEN}
        assert after != before or not is_hidden
        assert visible(after) == after


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_what_is_seen_stays(text: str) -> None:
    fillers = {*map(chr, (0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0))}
    assert [a for b, a in zip(text, visible(text), strict=True) if b not in fillers] == [
        b for b in text if b not in fillers
    ]
