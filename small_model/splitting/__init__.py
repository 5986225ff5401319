"""Split questions by rule, for models that are too small to: cut out a phrase that has to be looked up.

Four stages. Names, quoted titles and `#k` are masked, so that nothing is cut inside them. Every stretch of the masked
question that one of `PATTERNS` matches as a whole is a span. `first` asks for it, `second` is the question with `[E]`
in its place; a span counts only if it reads as a noun phrase and both halves read as questions (`grammar`). Its score
is the pattern's weight, moved by what stands around and inside it. A question that the grammar cannot read is not cut.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from trailforge.small_model.splitting.grammar import base_form, is_noun_phrase, is_question
from trailforge.small_model.splitting.patterns import (
    APPOSITION,
    BEGINS_SPAN,
    MASK,
    PATTERNS,
    RELATIVE_KINDS,
    STRANDED,
    WORD,
    Kind,
    mask_names,
)
from trailforge.small_model.splitting.words import (
    APPOSED,
    AUXILIARIES,
    FUNCTION_WORDS,
    LIGHT,
    PERSON_BARE,
    PERSON_NOUNS,
    PREPOSITIONS,
    RELATIONAL,
    RELATIVES,
    SITUATED,
    STOOD_ON,
)

_GOOD_ENOUGH = 4.3
_LONGEST = 1000
"""Characters of a question that is read: the patterns take more than linear time."""


def candidate_splits(sub_question: str) -> list[tuple[str, str]]:
    """Return splits (first, second), the most promising first; empty when nothing can be cut out."""
    return [split for _, split in _ranked_splits(sub_question)]


def is_decomposable(sub_question: str) -> bool:
    """Tell whether a sub-question has a split that is worth two searches."""
    return any(score >= _GOOD_ENOUGH for score, _ in _ranked_splits(sub_question)[:1])


@lru_cache(4096)
def _ranked_splits(sub_question: str) -> tuple[tuple[float, tuple[str, str]], ...]:
    """(score, split), best first."""
    question = sub_question.strip()
    if ENTITY in question or len(question) > _LONGEST:
        return ()
    if ">>" in question:
        return _relation_chain(question)
    best: dict[tuple[str, str], float] = {}
    for span in spans(question):
        split = (span.first, span.second)
        if span.score > best.get(split, 0.0):
            best[split] = span.score
    return tuple(sorted(((score, split) for split, score in best.items()), key=lambda item: -item[0]))


def _relation_chain(question: str) -> tuple[tuple[float, tuple[str, str]], ...]:
    """`A >> r1 >> r2`: the first hop, then the others. A single hop is atomic."""
    subject, *relations = (part.strip() for part in question.split(">>"))
    if len(relations) < 2 or not subject or not all(relations):
        return ()
    split = (f"{subject} >> {relations[0]}", " >> ".join((ENTITY, *relations[1:])))
    return ((_GOOD_ENOUGH, split),)


_TOKEN = re.compile(r"[^\s,;:?!()]+")
_SUPERLATIVE = re.compile(r"(?:\w+est|first|last|most \w+)\s", re.IGNORECASE)
_NATIONALITY = re.compile(r"\w+(?:an|ese|ish)")
_RELATIVE_WORDS = set(RELATIVES.split())
_PREPOSITION_WORDS = set(PREPOSITIONS.split())
ENTITY = "[E]"
"""The placeholder in the second half of a split for the answer of the first half."""
_WORTH_LISTING = 1.0
_LONGEST_SPAN = 26
_MOST_TOKENS = 90
_AUX_WORDS = set(AUXILIARIES.split())
_THIRD_PERSON = {
    "containing": "contains", "featuring": "features", "starring": "stars", "including": "includes", "having": "has",
    "hosting": "hosts", "bordering": "borders", "lying": "lies", "owning": "owns", "holding": "holds",
    "playing": "plays", "serving": "serves", "surrounding": "surrounds", "covering": "covers",
    "publishing": "publishes", "operating": "operates", "producing": "produces", "singing": "sings",
    "leading": "leads", "using": "uses",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the question that can be looked up on its own, and the question that asks for it."""

    start: int
    end: int
    kind: Kind
    score: float
    first: str
    second: str
    """The question with `[E]` in the place of the stretch."""


def spans(question: str) -> list[Span]:
    """Return every part of a question that a pattern matches and that leaves two questions, with its score."""
    masked = mask_names(question)
    body_end = len(masked.rstrip(" ?.!"))
    tokens = [match.span() for match in _TOKEN.finditer(masked, 0, body_end)][:_MOST_TOKENS]
    found: list[Span] = []
    for i, (start, token_end) in enumerate(tokens):
        if BEGINS_SPAN.fullmatch(masked, start, token_end):
            ends = (end for _, end in tokens[i + 1 : i + _LONGEST_SPAN])
            here = [span for end in ends if (span := _span(question, masked, start, end, body_end)) is not None]
            found += (span for span in here if not _cut_short(masked, span, here))
    return found


def _span(question: str, masked: str, start: int, end: int, body_end: int) -> Span | None:
    """The stretch, by the first pattern that makes two questions of it; None when none does."""
    second = f"{question[:start]}{ENTITY}{question[end:]}"
    for pattern in PATTERNS:
        match = pattern.regex.fullmatch(masked, start, end)
        if match is None or not _asks_something(f"{masked[:start]} {masked[end:]}", pattern.kind):
            continue
        score = pattern.weight + _inside(pattern.kind, match, question) + _around(masked, end, body_end)
        first = ask_for(pattern.kind, match, question)
        if score >= _WORTH_LISTING and is_question(first) and _is_cut_clean(question[start:end], second):
            return Span(start, end, pattern.kind, score, first, second)
    return None


def _is_cut_clean(phrase: str, second: str) -> bool:
    """Is the phrase whole, and the question without it too? Else the cut has torn a verb from its auxiliary."""
    return is_noun_phrase(phrase) and is_question(second)


def _cut_short(masked: str, span: Span, others: list[Span]) -> bool:
    """Is there a longer stretch from the same word, and nothing that speaks for ending here?

    A prepositional phrase at the cut belongs to the nearest word that can have it; a relative clause goes as far as it
    can, but for what `and`, `or` or a comma adds.
    """
    if all(other.end <= span.end for other in others):
        return False
    last = masked[span.start : span.end].split()[-1].lower()
    comma, following = _next_word(masked[span.end :])
    if {last, following if not comma else ""} & _PREPOSITION_WORDS:
        return True
    return span.kind in RELATIVE_KINDS and not comma and following not in ("", "and", "or")


def _next_word(rest: str) -> tuple[bool, str]:
    """Does a comma come first, and which word is next? Empty at the end."""
    match = re.match(r"\s*(,?)\s*([^\s,?.!]*)", rest)
    assert match is not None, "every part of the pattern may be empty"
    return bool(match[1]), match[2].lower()


def _inside(kind: Kind, match: re.Match[str], question: str) -> float:
    """What a span holds: one look-up's worth, with a name to look it up by."""
    groups = match.groupdict()
    text = match[0]
    head = groups["head"].split()[-1].lower()
    score = -0.12 * len(text.split())
    if MASK not in text:
        score -= 2.5 if kind in RELATIVE_KINDS else 8
    if kind == "compound" and (singular(head) not in RELATIONAL or _describes(question[slice(*match.span("name"))])):
        score -= 8
    if _SUPERLATIVE.match(groups["head"]):
        score += 1.0
    if head in LIGHT:
        score -= 4
    score += 1.0 if singular(head) in RELATIONAL else -1.0
    if kind == "of" and head in APPOSED and APPOSITION.fullmatch(text):
        score -= 8
    return score


def _describes(name: str) -> bool:
    """Is the name before a noun an ordinal, a year or a nationality? `The German chancellor` is nobody's chancellor."""
    return name[0].isdigit() or _NATIONALITY.fullmatch(name) is not None


def _around(masked: str, end: int, body_end: int) -> float:
    """What stands after a span: best nothing, worst what belongs to its last noun."""
    comma, following = _next_word(masked[end:body_end])
    if not following:
        return 1.5
    begins_question = comma and following == "who"
    if following == "of" or (following in _RELATIVE_WORDS and not begins_question):
        return -4.0
    return -0.5 if following in ("and", "or") else 0.5


def _asks_something(rest: str, kind: Kind) -> bool:
    """Is there a content word left outside the span, so that the second half asks for more than the first?"""
    light = LIGHT | (SITUATED if kind in ("of", "place", "possessive") else set())
    return any(word not in FUNCTION_WORDS and word not in light for word in WORD.findall(rest.lower()))


def ask_for(kind: Kind, match: re.Match[str], question: str) -> str:
    """Return a plain question that asks for a span of `question`. `match` is how the pattern of this kind matches the
    question with its names masked.
    """
    part = {name: question[slice(*match.span(name))] for name in match.groupdict() if match.start(name) >= 0}
    text = question[match.start() : match.end()]
    noun = part["head"].split()[-1].lower()
    which = "Which" if noun in PERSON_NOUNS else "What"
    if kind == "subject_relative":
        return f"{'Who' if noun in PERSON_BARE else which + ' ' + part['head']} {part['clause']}?"
    if kind == "whose":
        return f"{which} {part['head']}'s {part['clause']}?" if noun not in PERSON_BARE else f"Whose {part['clause']}?"
    if kind == "object_relative":
        return _inverted(which, part) or f"{_wh(noun)} is {_definite(text)}?"
    if kind == "participle":
        return _ask_participle(which, part) or f"{_wh(noun)} is {_definite(text)}?"
    verb = "are" if noun.endswith("s") and noun not in RELATIONAL and noun[-2:] not in ("ss", "us", "is") else "is"
    if kind == "compound":
        return f"{_wh(noun)} {verb} the {part['head']} of {part['name']}?"
    return f"{_wh(noun)} {verb} {_definite(text)}?"


def _wh(noun: str) -> str:
    return "Who" if singular(noun) in PERSON_NOUNS or noun in PERSON_NOUNS else "What"


def _definite(phrase: str) -> str:
    """`a` and `an` become `the`, as does a `The` that began the question."""
    return re.sub(r"^(?:an?|the|this|that) ", "the ", phrase, flags=re.IGNORECASE)


def _inverted(which: str, part: dict[str, str]) -> str | None:
    """`city where X was born` -> `In what city was X born?`; None when the verb's base form is not known."""
    preposition, _, _ = part["link"].rpartition(" ")
    if part["link"].lower() == "where" and not STRANDED.search(part["verb"]):
        preposition = "on" if part["head"].split()[-1].lower() in STOOD_ON else "in"
    asked = (
        f"{which} {part['head']}" if not preposition else f"{preposition.capitalize()} {which.lower()} {part['head']}"
    )
    verb, _, rest = part["verb"].partition(" ")
    if verb.lower() in _AUX_WORDS:
        return f"{asked} {verb} {part['subject']}{' ' + rest if rest else ''}?"
    base = base_form(verb.lower())
    if base is None:
        return None
    auxiliary = "does" if verb.lower().endswith("s") else "did"
    return f"{asked} {auxiliary} {part['subject']} {base}{' ' + rest if rest else ''}?"


def _ask_participle(which: str, part: dict[str, str]) -> str | None:
    verb, _, rest = part["link"].partition(" ")
    asked = f"{which} {part['head']}"
    if not verb.endswith("ing"):
        auxiliary = "was" if rest == "by" else "is"
        return f"{asked} {auxiliary} {part['link']} {part['clause']}?"
    present = _THIRD_PERSON.get(verb)
    return f"{asked} {present} {rest + ' ' if rest else ''}{part['clause']}?" if present else None


def singular(noun: str) -> str:
    """Return a noun without its plural s."""
    return noun[:-1] if noun.endswith("s") and noun not in RELATIONAL else noun
