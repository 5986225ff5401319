"""Names in a question: quoted titles, `#k`, and runs of capitalised words with small words between them."""

from __future__ import annotations

import re

from trailforge.small_model.splitting.words import (
    DETERMINERS,
    FOREIGN_ARTICLES,
    LOOSE_GLUE,
    SENTENCE_STARTERS,
    TITLE_GLUE,
)

MASK = "ꙮ"
"""Stands for every letter of a name: a word character that no question holds."""

WORD = re.compile(r"#\d+|[^\W_][\w.&/-]*(?:['’](?!s\b)\w+)*")
_QUOTED = re.compile(r"\"[^\"]+\"|“[^”]+”|(?<!\w)'[^']+'(?!\w)")


def mask_names(question: str) -> str:
    """The question with every character of a name, a quoted title or a `#k` replaced by one letter: same length."""
    masked = list(question)
    for start, end in _name_runs(question):
        masked[start:end] = MASK * (end - start)
    return "".join(masked)


def _name_runs(question: str) -> list[tuple[int, int]]:
    """Where names stand: quoted titles, references, and runs of capitalised words with small words between them."""
    quoted = [match.span() for match in _QUOTED.finditer(question)]
    words = [m for m in WORD.finditer(question) if not any(s <= m.start() < e for s, e in quoted)]
    runs: list[tuple[int, int]] = []
    i = 0
    while i < len(words):
        if not _is_name(words, i):
            i += 1
            continue
        last = i
        while (following := _next_of_name(question, words, last)) is not None:
            last = following
        runs.append((words[i].start(), words[last].end()))
        i = last + 1
    return sorted(quoted + runs)


def _is_name(words: list[re.Match[str]], i: int) -> bool:
    """Capitalised, a number or a reference; the first word only when it cannot begin a question otherwise."""
    text = words[i][0]
    if text.startswith("#") or text[0].isdigit():
        return True
    if not text[0].isupper():
        return False
    if words[i].start() == 0 and text.lower() in SENTENCE_STARTERS:
        return text.lower() in DETERMINERS.split() and len(words) > 1 and words[1][0][0].isupper()
    return True


def _next_of_name(question: str, words: list[re.Match[str]], last: int) -> int | None:
    """Index of the word that continues the name that ends with word `last`."""
    if words[last][0].startswith("#"):
        return None
    for i in range(last + 1, min(last + 4, len(words))):
        gap = question[words[i - 1].end() : words[i].start()]
        text = words[i][0]
        if gap.strip(" :-") not in ("", "'s", "’s", "'", "’", ",", "&", "...") or text.startswith("#"):
            return None
        if gap.strip(" ") == "," and not (text[:1].isupper() and i == last + 1):
            return None
        if text[0].isupper() or text[0].isdigit() or words[i - 1][0] in FOREIGN_ARTICLES:
            return i
        if text not in TITLE_GLUE and text not in LOOSE_GLUE:
            return None
    return None
