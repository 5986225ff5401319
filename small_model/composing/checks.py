"""Whether a composed question is well formed, stands by itself and needs its description; all by rule."""

from __future__ import annotations

import re

from trailforge.retrieval.english import PREPOSITIONS, is_finite
from trailforge.rewards import mentions
from trailforge.small_model.composing.composing import GAP
from trailforge.small_model.composing.mentions import mentions_of
from trailforge.small_model.splitting.words import FUNCTION_WORDS

LONGEST_QUESTION = 45
LONGEST_DESCRIPTION = 26
"""Words."""
_CONTENT = 3
"""`That was launched in 2004` has two, and describes many."""
_POINTS_OUTSIDE = re.compile(
    r"\b(?:it|its|itself|he|him|his|she|hers?|they|them|their|we|us|our|i|my|you|your|this|these|those|such|there|here|now"
    r"|today|yesterday|tomorrow|ago|recently|currently|earlier|later|so far|another|others|again|also|too|then|latter"
    r"|former|respectively|however|not|never|no|(?:last|next|this) (?:week|month|year|spring|summer|autumn|winter)"
    r"|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|both|same|said|says|say|year before|day after)\b",
    re.IGNORECASE,
)
"""Words that mean something only in their text, or turn a statement round."""
_THE = re.compile(r"\b[Tt]he (?P<noun>[a-z][\w-]*(?: [a-z][\w-]*)*)")
_SAYS_WHICH = re.compile(
    r" (?:[A-Z0-9]|(?:of|for|between|that|which|who|whom|whose)\b"
    rf"|(?:{'|'.join(PREPOSITIONS)}) (?:(?:the|an?) )?(?:[A-Z0-9]|{GAP}))"
)
"""After a noun: a name beside it, or what is said of it to tell it from others."""
_ONLY_ONE = frozenset("sun moon earth world universe sea sky air ground internet equator north south east west".split())
_TROUBLE = re.compile(r"\?.+|[;:\"“”()\[\]{}$\\]|\.\.|\s,|\s{2}|\b(\w+) \1\b|\b(?:that|which|who) (?:that|which|who)\b")


def problem_of(question: str, answer: str, bridge: str, description: str) -> str | None:
    """Why a composed question cannot be asked; None when it can."""
    if not question.endswith("?") or question.count("?") > 1 or _TROUBLE.search(question):
        return "not one well-formed question"
    if len(question.split()) > LONGEST_QUESTION or len(description.split()) > LONGEST_DESCRIPTION:
        return "too long"
    if outside := _POINTS_OUTSIDE.search(question):
        return f"{outside[0]!r} points outside of the question"
    if noun := _known_from_text(question.replace(description, GAP)):
        return f"which {noun} is meant is known only from its text"
    if any(mention.kind == "day" for mention in mentions_of(f"x {question}")):
        return "it has a day without a year"
    if names_bridge(question, bridge):
        return "it names what it describes"
    if mentions(question, answer):
        return "it gives its answer away"
    return None


def _known_from_text(question: str) -> str | None:
    """The first noun after `the` with nothing that says which: `hear of the prize`, but not `the crew of X`."""
    for the in _THE.finditer(question):
        first, *others = the["noun"].split()
        ends = (i for i, word in enumerate(others) if word in FUNCTION_WORDS or word in PREPOSITIONS or is_finite(word))
        words = [first, *others[: next(ends, len(others))]]
        after = question[the.start("noun") + len(" ".join(words)) :]
        if words[-1] not in _ONLY_ONE and not _SAYS_WHICH.match(after):
            return " ".join(words)
    return None


def names_bridge(text: str, bridge: str) -> bool:
    """Does a text name it, or use a telling part of its name?"""
    if mentions(text, bridge):
        return True
    parts = [word for word in re.findall(r"[\w-]+", bridge) if word[0].isupper() or any(c.isdigit() for c in word)]
    return any(
        re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in parts if word.lower() not in FUNCTION_WORDS
    )


def singles_out(question: str, gap: str) -> bool:
    """Whether a question finds its document by names, dates or figures of its own, beside what fills its gap."""
    return any(mention.text != gap for mention in mentions_of(f"x {question[:1].lower()}{question[1:]}"))


def is_telling(description: str, bridge: str) -> bool:
    """Whether it can single something out: a name, a date or a figure of its own, and `_CONTENT` telling words."""
    body = description.partition(" ")[2]
    words = [word for word in body.split()[1:] if word.casefold() not in FUNCTION_WORDS]
    return len(words) >= _CONTENT and any(mention.text not in bridge for mention in mentions_of(f"x {body}"))
