"""Anyone's text where a terminal, a log or a page shows it."""

from __future__ import annotations

_CONTROLS = (
    {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
    | {0x7F: "\u2421"}
    | dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd")
)
"""What is shown in place of C0 and C1 controls, and of those that turn the direction of writing."""


def visible(text: str) -> str:
    """The text with a sign for each control character; one sign for one character, so places in it stay."""
    return text.translate(_CONTROLS)
