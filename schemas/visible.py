"""Anyone's text where a terminal, a log or a page shows it."""

from __future__ import annotations

_INVISIBLE = (
    *range(0x80, 0xA0),  # C1 controls
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFEFF, 0xFFA0),  # soft hyphen, fillers …
    *range(0x180B, 0x1810),  # Mongolian selectors
    *range(0x200B, 0x2010),  # zero width; marks of direction
    *range(0x2028, 0x202F),  # ends of line and paragraph; what turns the direction of writing
    *range(0x2060, 0x2070),  # word joiner, invisible operators, more of direction
    *range(0xFE00, 0xFE10),  # variation selectors, in which text can be hidden
    *range(0xFFF0, 0xFFFC),  # annotations
    *range(0x13430, 0x13440),  # format controls of hieroglyphs, shorthand and music
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),  # tags and more selectors: whole texts can be hidden in them
)
_CONTROLS = (
    {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
    | {0x7F: "\u2421"}
    | dict.fromkeys(_INVISIBLE, "\ufffd")
)
"""What is shown in place of control characters and of all others that nobody would see."""


def visible(text: str) -> str:
    """The text with a sign for each control or invisible character; one for one, so places in it stay."""
    return text.translate(_CONTROLS)
