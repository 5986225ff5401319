"""Clean the text of a collected document: Unicode, white space, and lines that a site puts around every article.

All functions are idempotent: what they return they leave as it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import replace

from trailforge.schemas import SourceDocument

_INVISIBLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u2060\ufeff\ufff9-\ufffb\ud800-\udfff]")
"""Control characters that are no white space, soft hyphens, zero-width spaces, byte order marks, lone surrogates.

Joiners and marks of direction stay: Persian, Indic scripts and Hebrew need them.
"""
_DIGITS = re.compile(r"\d+")

_MOST_BOILERPLATE_WORDS = 30
"""A longer line is a paragraph, which may well speak of cookies or newsletters."""
_SITES = r"(?:facebook|twitter|linkedin|whatsapp|reddit|pinterest|telegram|bluesky|e-?mail|print|copy link)"
_BOILERPLATE = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"^(?:©|\(c\)|copyright\b).*(?:\d{4}|reserved|limited|ltd|inc)\b",
        r"\ball rights reserved\b",
        rf"^(?:(?:share|tweet|pin|post|save|send|like|e-?mail)\b[\s:|,]*)?(?:(?:this|on|via|to|by|with|and|article|story|page)\b\s*)*"
        rf"(?:{_SITES}[\s:|,/·•]*)+$",
        r"^(?:share|tweet|pin it|share (?:this|the) (?:article|story|page|post)|share this:?|print this page)$",
        r"\b(?:we|site|website|page) uses? (?:\w+ ){0,3}cookies\b",
        r"^(?:accept|reject|manage|allow)(?: all| your)? cookies?\b|^cookie (?:policy|settings|notice|preferences)$",
        r"\b(?:sign up|subscribe|join)\b.*\b(?:newsletters?|inbox|mailing list|e-?mail updates)\b",
        r"^(?:follow|like|join|find) us (?:on|at)\b",
        r"^(?:advertisement|sponsored(?: content)?)$",
        r"^(?:skip to (?:main )?content|back to top|read more:?|continue reading)$",
        r"^(?:click|tap) here (?:to|for)\b",
        r"^(?:privacy policy|terms of (?:use|service)|contact us|about us|log ?in|sign in|menu|search)"
        r"(?:\s*+[|·•/]\s*+\w[\w ]*+)*+$",
        r"^(?:related|recommended|more|most read)(?: articles| stories| posts| news)$",
    )
]


def normalise(text: str, repeated: Collection[str] = frozenset()) -> str:
    """Cleaned text: NFC, one space between words, at most one empty line, no boilerplate.

    `repeated`: keys of lines to drop, of this document's source; see `repeated_lines`.
    """
    kept: list[str] = []
    for raw in text.splitlines():
        line = one_line(raw)
        if line and (is_boilerplate(line) or line_key(line) in repeated):
            continue
        if line or (kept and kept[-1]):  # no empty line at the start or after another
            kept.append(line)
    return "\n".join(kept).rstrip("\n")


def normalise_document(document: SourceDocument, repeated: Collection[str] = frozenset()) -> SourceDocument:
    """The document with cleaned title and text."""
    return replace(document, title=one_line(document.title), text=normalise(document.text, repeated))


def one_line(text: str) -> str:
    """A title or line: NFC, without invisible characters, words with one space between them."""
    return " ".join(unicodedata.normalize("NFC", _INVISIBLE.sub("", text)).split())


def is_boilerplate(line: str) -> bool:
    """Whether a cleaned line is a site's own: share buttons, cookie notices, sign-ups, copyright, navigation."""
    return len(line.split()) <= _MOST_BOILERPLATE_WORDS and any(pattern.search(line) for pattern in _BOILERPLATE)


def line_key(line: str) -> str:
    """What a cleaned line is counted under: case and numbers do not matter, so `Page 2` and `page 3` are one."""
    return _DIGITS.sub("0", line.casefold())


def line_keys(text: str) -> set[str]:
    """The keys of a document's lines, each once: what is summed per source for `repeated_lines`."""
    return {line_key(line) for line in normalise(text).split("\n") if line}


def repeated_lines(
    counts: Mapping[str, int], documents: int, *, min_documents: int = 5, min_share: float = 0.05
) -> frozenset[str]:
    """Keys of the lines of one source that are the site's and not the article's.

    `counts`: in how many of the source's `documents` each key stands. Taken are those in at least `min_documents` and
    in at least `min_share` of all: a source changes its page every few months, so a footer need not be in all.
    """
    least = max(min_documents, min_share * documents)
    return frozenset(key for key, count in counts.items() if count >= least)
