"""Make any text safe to show in a terminal or on a page: nothing in it is executed, and invisible characters become
visible.

Rows hold what was retrieved and what models wrote. The page shows it through this module alone (or in widgets that
take plain text), never as Markdown or HTML.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from trailforge.schemas import visible

LONGEST = 20_000
"""Number of characters of one text that a page shows; the rest is counted."""


def escape_text(text: str, longest: int = LONGEST) -> str:
    """Write a text as HTML that shows it literally; a longer text is cut, with a note on how much is missing."""
    rest = f" … ({len(text) - longest:,} more characters)" if len(text) > longest else ""
    return html.escape(visible(text[:longest])) + rest


def mark_spans(text: str, spans: Iterable[tuple[int, int, str]], longest: int = LONGEST) -> str:
    """Write a text as `escape_text` does, with `<mark class=…>` around spans (begin, end, class). Where two overlap,
    the first one counts.
    """
    parts, at = [], 0
    shown = text[:longest]
    for begin, end, name in sorted(spans):
        begin, end = max(begin, at), min(end, len(shown))
        if begin < end:
            parts += [
                escape_text(shown[at:begin]),
                f'<mark class="{html.escape(name)}">{escape_text(shown[begin:end])}</mark>',
            ]
            at = end
    return "".join(parts) + escape_text(text[at:], longest - at)


def label(text: str, longest: int = 60) -> str:
    """Return a label for a drawing, on one line and cut at a length; drawings read some HTML, but not `&quot;`."""
    line = " ".join(text.split())
    return drawn(line if len(line) <= longest else line[: longest - 1] + "…")


def drawn(text: str) -> str:
    """Return a line for a Plotly drawing, which reads tags and a few entities, but not those of quotation marks."""
    return html.escape(visible(text), quote=False)
