"""A plain question for a described thing: `the city where X was born` becomes `In what city was X born?`."""

from __future__ import annotations

import re

from trailforge.small_model.splitting.patterns import STRANDED, Kind
from trailforge.small_model.splitting.verbs import base_form
from trailforge.small_model.splitting.words import AUXILIARIES, PERSON_BARE, PERSON_NOUNS, RELATIONAL, STOOD_ON

_AUX_WORDS = set(AUXILIARIES.split())
_THIRD_PERSON = {
    "containing": "contains", "featuring": "features", "starring": "stars", "including": "includes", "having": "has",
    "hosting": "hosts", "bordering": "borders", "lying": "lies", "owning": "owns", "holding": "holds",
    "playing": "plays", "serving": "serves", "surrounding": "surrounds", "covering": "covers",
    "publishing": "publishes", "operating": "operates", "producing": "produces", "singing": "sings",
    "leading": "leads", "using": "uses",
}  # fmt: skip


def ask_for(kind: Kind, match: re.Match[str], question: str) -> str:
    """A plain question for a span."""
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
    """Without a plural s."""
    return noun[:-1] if noun.endswith("s") and noun not in RELATIONAL else noun
