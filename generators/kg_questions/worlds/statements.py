"""State a fact in sentences: whole ones for a document, and for a query without the entity that is looked for."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from trailforge.generators.kg_questions.wording import (
    PERSON,
    PROMPTS,
    RELATIONS,
    UNKNOWN,
    article_of,
    capital,
    mention_of,
    phrase_of,
)
from trailforge.inference import Prompts
from trailforge.retrieval import words_of
from trailforge.retrieval.english import PARTICIPLES, PREPOSITIONS, is_finite
from trailforge.schemas import KgFact, KgNode

_FURTHER = Prompts("trailforge.generators.kg_questions.worlds")
_FILE = "world_statements"
_REPLACED = "_replaced"


@dataclass(frozen=True, slots=True)
class Statement:
    """One way to state a fact in a sentence."""

    form: str
    """Sentence with `{h}` for the head of the triple and `{t}` for its tail."""
    text: str
    """A sentence without its full stop, with both ends by name."""
    query: str
    """The sentence without the name that is looked for."""
    predicate: str
    """All that follows the known end, in a sentence that begins with it; else empty."""

    def shared(self, words: frozenset[str]) -> int:
        """Count the words of the statement that are among `words`."""
        return len(words & set(words_of(self.text)))


def statements_of(fact: KgFact, known: KgNode, found: KgNode) -> list[Statement]:
    """Return all ways to state a fact that leads from the entity `known` to the entity `found`, the plainest first; at
    least two for most relations.
    """
    nodes = {known.id: known, found.id: found}
    head, tail = nodes[fact.triple.head], nodes[fact.triple.tail]
    label = fact.triple.relation_label.casefold()
    further = _FURTHER.phrases(_FILE)
    forms = (
        [] if label in further[_REPLACED] else _phrase_fact(fact, head, tail) if _is_known(label) else _generic(label)
    )
    forms += further.get(label, [])
    if label in ("year of founding", "year of publication"):
        forms = [f"{{h}} {phrase_of(_forward(fact, is_forward=False), head.kind).says.replace('{x}', '{t}')}", *forms]
    holder = "{h}" if known.id == head.id else "{t}"
    kind = found.kind or phrase_of(fact, head.kind).kind
    sentences = [_filled(form, head, tail, holder, kind) for form in dict.fromkeys(forms)]
    seen: set[str] = set()
    return [each for each in sentences if not (each.text in seen or seen.add(each.text))]


def keywords_of(fact: KgFact, known: KgNode) -> list[str]:
    """Return queries for a fact that are no sentences: the name of the entity `known` with the relation's label, and
    with its kind.
    """
    label = fact.triple.relation_label.rpartition(" / ")[2]
    kind = known.role or known.kind
    return [f"{known.label} {label}", f"{kind} {known.label} {label}".strip()]


def _filled(form: str, head: KgNode, tail: KgNode, holder: str, kind: str) -> Statement:
    """`holder`: the field of the end that is known; `kind`: what the other end is."""
    hole = "{t}" if holder == "{h}" else "{h}"
    texts = {"{h}": mention_of(head), "{t}": mention_of(tail)}
    text = _with_article(capital(form.replace("{h}", texts["{h}"]).replace("{t}", texts["{t}"])))
    query = _searched(form.replace(holder, texts[holder]), hole, kind)
    begins = form.startswith(f"{holder} ") and not form.startswith(f"{holder} and ")
    predicate = form.removeprefix(f"{holder} ").replace(hole, texts[hole]) if begins else ""
    return Statement(form=form, text=text, query=query, predicate=_with_article(predicate))


def _searched(form: str, hole: str, kind: str) -> str:
    """A statement as one searches for it: its hole left out at the end, else called what it is."""
    within = "someone" if kind == PERSON else "something" if kind == UNKNOWN else f"the {kind}"
    before, _, after = (part.strip() for part in form.partition(hole))
    if not before:
        begins = f"{kind} {'who' if kind == PERSON else 'that'}" if kind != UNKNOWN else "what"
        form = f"{within if after.startswith('and ') else begins} {after}"
    elif not after:
        form = before.removesuffix(" the").removesuffix(" is").removesuffix(",")
    else:
        form = f"{before} {within} {after}".replace(" the the ", " the ").replace(" ,", ",")
    return _with_article(form)


def _phrase_fact(fact: KgFact, head: KgNode, tail: KgNode) -> list[str]:
    """By the phrases that questions have: `was directed by {t}`, `the director of {h}`, `directed {h}`."""
    of_tail = phrase_of(_forward(fact, is_forward=True), head.kind)
    of_head = phrase_of(_forward(fact, is_forward=False), head.kind)
    forms = [f"{{h}} {of_head.says.replace('{x}', '{t}')}"]
    for phrase, node, own, other in ((of_tail, tail, "{t}", "{h}"), (of_head, head, "{h}", "{t}")):
        kind = node.kind or phrase.kind
        if phrase.name and "{w}" not in phrase.name and kind != UNKNOWN:
            forms.append(f"{capital(phrase.name.replace('{k}', kind).replace('{x}', other))} is {own}")
    forms.append(f"{{t}} {of_tail.says.replace('{x}', '{h}')}")
    return forms


def _generic(label: str) -> list[str]:
    """By the label alone, which may be a noun (`mascot`), a participle (`owned by`) or a verb (`replaces`)."""
    label = label.rpartition(" / ")[2]
    words = re.findall(r"[\w-]+", label)
    if len(words) > 1 and words[0] in PARTICIPLES and words[1] in PREPOSITIONS:
        return [f"{{h}} was {label} {{t}}", f"It is on record that {{h}} was {label} {{t}}"]
    if words and is_finite(words[0]):
        return [f"{{h}} {label} {{t}}", f"It is on record that {{h}} {label} {{t}}"]
    return [
        f"The {label} of {{h}} is {{t}}",
        f"{{t}} is the {label} of {{h}}",
        f"{{h}} has {{t}} as {article_of(label)} {label}",
    ]


def _is_known(label: str) -> bool:
    return label in PROMPTS.phrases(RELATIONS)


def _forward(fact: KgFact, *, is_forward: bool) -> KgFact:
    """The fact as it is followed from its head, or from its tail."""
    ends = (fact.triple.head, fact.triple.tail) if is_forward else (fact.triple.tail, fact.triple.head)
    return replace(fact, known=ends[0], found=ends[1])


def _with_article(text: str) -> str:
    """With one article where a pattern and a name both have it."""
    return re.sub(r"\b([Tt]he|present-day) [Tt]he\b", r"\1", text)
