"""How a fact describes what it leads to: by its relation's entry in `prompts/kg_relations.yaml`, else by its names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trailforge.inference.prompts import Prompts
from trailforge.retrieval.english import PARTICIPLES, PREPOSITIONS, is_finite
from trailforge.schemas import KgFact

PROMPTS = Prompts("trailforge.generators.kg_questions", "trailforge.generators")
RELATIONS = "kg_relations"
"""The file of phrases: by relation, then by the end that they describe, then by their use."""
PERSON = "person"
UNKNOWN = "one"
"""The kind of what may be anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """Words for an entity that a fact leads to; `{x}` is the other end, `{k}` its own kind."""

    kind: str = UNKNOWN
    """What it is called where the graph does not say."""
    says: str
    """A predicate: what is true of it."""
    name: str = ""
    """A description, with its article (`{w}`: whom or which); empty: `the {k} that`, and the predicate."""
    ask: str = ""
    """A whole question for it, for an `{x}` of few words; `{who}`: whom, what or which kind. Empty: made of `says`."""


def phrase_of(fact: KgFact, head_kind: str = "") -> Phrase:
    """The words for `fact.found`. `head_kind`: what the head of the triple is, by which verbs are chosen."""
    label = fact.triple.relation_label.casefold()
    known = PROMPTS.phrases(RELATIONS).get(label)
    if known is not None:
        verbs = known.get("verbs", {"": ""})
        verb, _, noun = verbs.get(head_kind, verbs[""]).partition("|")
        fields = known["tail" if fact.is_forward else "head"]
        return Phrase(**{name: text.replace("{v}", verb).replace("{n}", noun) for name, text in fields.items()})
    label = label.rpartition(" / ")[2]  # Freebase's paths have two steps, of which the last says what is meant
    names = (label, *(alias.casefold() for alias in fact.relation_aliases))
    return _tail(label) if fact.is_forward else _head(label, names)


def _tail(label: str) -> Phrase:
    if _is_participle(label):
        return Phrase(says=f"is what {{x}} was {label}", name=f"what {{x}} was {label}", ask=f"What was {{x}} {label}?")
    if is_finite(label.split()[0]):
        return Phrase(says=f"is what {{x}} {label}", name=f"what {{x}} {label}")
    return Phrase(says=f"is the {label} of {{x}}", name=f"the {label} of {{x}}", ask=f"What is the {label} of {{x}}?")


def _head(label: str, names: tuple[str, ...]) -> Phrase:
    participle = next(filter(_is_participle, names), None)
    if participle:
        return Phrase(says=f"was {participle} {{x}}")
    if is_finite(label.split()[0]):
        return Phrase(says=f"{label} {{x}}")
    return Phrase(says=f"has {{x}} as {_article(label)} {label}")


def _is_participle(name: str) -> bool:
    """Is it like `directed by`, `located in the region of`?"""
    words = re.findall(r"[\w-]+", name)
    return len(words) > 1 and words[0] in PARTICIPLES and words[1] in PREPOSITIONS


def _article(noun: str) -> str:
    return "an" if noun[:1] in "aeiou" else "a"
