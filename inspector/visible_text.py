"""Anyone's text for a terminal or a page: nothing in it acts, and what is invisible in it is seen.

Rows hold what was retrieved and what models wrote. The page shows it through this module alone (or in widgets that
take plain text), never as Markdown or HTML.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

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
LONGEST = 20_000
"""Characters of one text that a page shows; the rest is counted."""


def visible(text: str) -> str:
    """The text with a sign for each control or invisible character; one for one, so places in it stay."""
    return text.translate(_CONTROLS)


def escaped(text: str, longest: int = LONGEST) -> str:
    """The text as HTML that shows it as it is; cut, with a word on what is missing, when it is longer."""
    rest = f" … ({len(text) - longest:,} more characters)" if len(text) > longest else ""
    return html.escape(visible(text[:longest])) + rest


def marked(text: str, spans: Iterable[tuple[int, int, str]], longest: int = LONGEST) -> str:
    """As `escaped`, with `<mark class=…>` around spans (begin, end, class). Where two overlap the first one holds."""
    parts, at = [], 0
    shown = text[:longest]
    for begin, end, name in sorted(spans):
        begin, end = max(begin, at), min(end, len(shown))
        if begin < end:
            parts += [escaped(shown[at:begin]), f'<mark class="{html.escape(name)}">{escaped(shown[begin:end])}</mark>']
            at = end
    return "".join(parts) + escaped(text[at:], longest - at)


def label(text: str, longest: int = 60) -> str:
    """For a label in a drawing, which reads some HTML but no `&quot;`: one line, cut at a length."""
    line = " ".join(text.split())
    return drawn(line if len(line) <= longest else line[: longest - 1] + "…")


def drawn(text: str) -> str:
    """A line as a drawing takes it: Plotly reads tags and a few entities, those of quotation marks not among them."""
    return html.escape(visible(text), quote=False)
