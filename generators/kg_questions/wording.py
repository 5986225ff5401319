"""Put facts into words by rule: a question that describes intermediate entities instead of naming them, and its
sub-questions.

A fact describes what it leads to by its relation's entry in `prompts/kg_relations.yaml`, else by its names. Phrases are
put together from the answer down; a start is named with its kind where the name alone may mean something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from trailforge.inference import Prompts
from trailforge.retrieval.english import PARTICIPLES, PREPOSITIONS, is_finite
from trailforge.schemas import FactChain, KgFact, KgNode

PROMPTS = Prompts("trailforge.generators.kg_questions", "trailforge.generators")
RELATIONS = "kg_relations"
"""Name of the file of phrases: by relation, then by the end that they describe, then by their use."""
PERSON = "person"
UNKNOWN = "one"
"""The kind of an entity that may be anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """A phrase for an entity that a fact leads to; `{x}` stands for the fact's other end, `{k}` for the kind of the
    entity.
    """

    kind: str = UNKNOWN
    """What the entity is called where the graph does not say its kind."""
    says: str
    """A predicate that is true of the entity."""
    name: str = ""
    """A description of the entity, with its article (`{w}`: whom or which); empty: `the {k} that`, and the
    predicate."""
    ask: str = ""
    """A whole question for the entity, for an `{x}` of few words; `{who}`: whom, what or which kind. Empty: made of
    `says`."""
    same: str = ""
    """A predicate in the place of `says`, of whom the entity shares something with: "belongs to the same genre as
    {x}"."""
    shared: str = ""
    """How a description of what is shared begins: "the genre of "."""


def phrase_of(fact: KgFact, head_kind: str = "") -> Phrase:
    """Return the phrase for the entity to which a fact leads. `head_kind` is the kind of the triple's subject, by which
    verbs are chosen; empty where it is not known.
    """
    label = fact.triple.relation_label.casefold()
    known = PROMPTS.phrases(RELATIONS).get(label)
    if known is not None:
        verbs = known.get("verbs", {"": ""})
        verb, _, noun = verbs.get(head_kind, verbs[""]).partition("|")
        fields = known["tail" if fact.is_forward else "head"]
        if "same" in fields:
            fields = {**fields, "shared": known["tail"]["name"].removesuffix("{x}")}
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
    return Phrase(says=f"has {{x}} as {article_of(label)} {label}")


def _is_participle(name: str) -> bool:
    """Is it like `directed by`, `located in the region of`?"""
    words = re.findall(r"[\w-]+", name)
    return len(words) > 1 and words[0] in PARTICIPLES and words[1] in PREPOSITIONS


_SOUNDS_LIKE_A_CONSONANT = re.compile(r"(?i)(?:uni(?!n|m)|eu|use|usu|ut[ei]|one\b|once\b|ubi)")


def article_of(noun: str) -> str:
    """Return `a` or `an`, as a noun is pronounced in English: a university, an album."""
    return "an" if noun[:1].lower() in "aeiou" and not _SOUNDS_LIKE_A_CONSONANT.match(noun) else "a"


_WITH_KIND = frozenset(
    "album ballet book film memoir novel novella opera painting palace play poem ship song sculpture symphony musical "
    "asteroid comet".split()
) | {"short story", "musical group", "space probe", "computer program", "video game"}
"""Works and things whose names are often words, or other things' names."""
_WITH_ARTICLE = frozenset(
    "river sea ocean strait bay empire dynasty canal museum theatre ship particle award".split()
) | {"mountain range", "film award", "space telescope"}
_FIRST = re.compile(
    r"(?:\w+ )?"
    r"(?:University|Battle|Republic|States|Kingdom|Museum|Church|Palace|Tower|House|Treaty|Isle|Bay|Gulf|Sea|Strait|"
    r"Institute|Academy|Order|Duchy|Empire|Temple|Statue|Bank|Government|Siege|Library|College) (?:of|for) "
)
_LAST = re.compile(
    r" (?:River|Sea|Ocean|Museum|Prize|Award|Empire|Dynasty|Academy|Orchestra|Party|League|Strait|Canal|Republic|Union|"
    r"Kingdom|Islands|States|Emirates|Nations|Gallery|Alps|Mountains|Institute|Basin|Peninsula|Desert|Band|Medal)$"
)
_BARE = re.compile(r"(?i)(?:the|la|le|les|el|los|las|il)\b|.* (?:Castle|Hall)$")
"""With an article of their own, in whatever language, or without any."""
_NAMED_SO = frozenset("Netherlands Philippines Maldives Bahamas Gambia Vatican Moon Sun Beatles".split())


def mention_of(node: KgNode) -> str:
    """Return an entity's label as it is written within a sentence."""
    label = node.label
    if node.kind in _WITH_KIND and node.kind.split()[-1] not in label.casefold().split():
        return f"the {node.kind} {label}"
    if _BARE.match(label) or label[:1].islower() or label[:1].isdigit():
        return label
    wants = node.kind in _WITH_ARTICLE or _FIRST.match(label) or _LAST.search(label) or label in _NAMED_SO
    return f"the {label}" if wants and "'" not in label.split()[0] else label


_SHORT = 9
"""Words of what may stand inside a question, with its verb after it."""
_CLAUSE = re.compile(r"\b(?:that|who|whose|where|which)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """A question and its sub-questions that word a chain of facts."""

    question: str
    sub_questions: tuple[str, ...]
    """One sub-question for each of `FactChain.found`; `#k` is the answer of the k-th."""


def compose(chain: FactChain) -> Wording:
    """Put a chain of facts into words: a question that names no intermediate entity, and its sub-questions."""
    texts = {start.id: mention_of(start) for start in chain.starts}
    numbered = texts | {node.id: f"#{number}" for number, node in enumerate(chain.bridges, start=1)}
    for bridge in chain.bridges:
        texts[bridge.id] = _Described(chain, bridge, texts).name()
    return Wording(
        question=_Described(chain, chain.answer, texts).question(),
        sub_questions=tuple(_Described(chain, node, numbered).question() for node in chain.found),
    )


class _Described:
    """A bridge or the answer, and the words for what leads to it."""

    def __init__(self, chain: FactChain, node: KgNode, texts: Mapping[str, str]) -> None:
        kind_of = {each.id: each.kind for each in (*chain.starts, *chain.found)}
        facts = [
            _without_echo(phrase_of(fact, kind_of[fact.triple.head]), texts[fact.known])
            for fact in chain.leading_to(node)
        ]
        self._facts: list[tuple[Phrase, str]] = sorted(facts, key=_weight)
        kinds = [phrase.kind for phrase, _ in self._facts if phrase.kind != UNKNOWN]
        self._kind = node.kind or (kinds[0] if kinds else UNKNOWN)
        self._noun = node.role if self._kind == PERSON and node.role else self._kind

    def name(self) -> str:
        """A description in place of its name."""
        phrase, text = self._facts[0]
        if len(self._facts) == 1 and phrase.name and (_is_short(text) or phrase.name.endswith("{x}")):
            pronoun = "whom" if self._kind == PERSON else "which"
            named = phrase.name.replace("{k}", self._noun).replace("{w}", pronoun)
            return named.replace("{x}", text)
        relative = "who" if self._kind == PERSON else "that"
        return f"the {self._noun} {relative} {self._join_predicates(f', and {relative} ')}"

    def question(self) -> str:
        """The question for it."""
        phrase, text = self._facts[0]
        is_one = len(self._facts) == 1
        if is_one and phrase.ask and _is_short(text):
            question = phrase.ask.replace("{k}", self._noun).replace("{who}", self._whom())
            return _ended(capital(question.removesuffix("?").replace("{x}", text)))
        if is_one and self._kind in phrase.name.partition("{x}")[0].split():
            return _ended(f"What is {phrase.name.replace('{x}', text)}")
        if is_one and " whose " in phrase.name:
            return _ended(f"Which is {phrase.name.replace('{k}', self._noun).replace('{x}', text)}")
        if self._kind == PERSON:
            subject = f"Which {self._noun}" if not is_one and self._noun != PERSON else "Who"
        else:
            says_kind = len({each.says for each, _ in self._facts}) == 1 and self._kind in phrase.says.split()
            subject = "What" if says_kind or self._kind == UNKNOWN else f"Which {self._kind}"
        return _ended(f"{subject} {self._join_predicates(', and ')}")

    def _join_predicates(self, joint: str) -> str:
        """All predicates. The joint, where a clause before it could take what follows for its own."""
        predicates = {phrase.says for phrase, _ in self._facts}
        if len(self._facts) > 1 and len(predicates) == 1:
            return predicates.pop().replace("{x}", "both " + " and ".join(text for _, text in self._facts))
        phrases = [phrase.says.replace("{x}", text) for phrase, text in self._facts]
        if _CLAUSE.search(phrases[0]):
            return joint.join(phrases)
        return " and ".join(filter(None, (", ".join(phrases[:-1]), phrases[-1])))

    def _whom(self) -> str:
        return "whom" if self._kind == PERSON else "what" if self._kind == UNKNOWN else f"which {self._kind}"


def _without_echo(phrase: Phrase, text: str) -> tuple[Phrase, str]:
    """Say "the same genre as X" where the words would be "the genre of the genre of X"."""
    if phrase.same and text.startswith(phrase.shared):
        return replace(phrase, says=phrase.same), text.removeprefix(phrase.shared)
    return phrase, text


def _weight(fact: tuple[Phrase, str]) -> tuple[int, int]:
    """Without clauses first, then the shorter one: what is long is understood best at the end."""
    text = fact[0].says.replace("{x}", fact[1])
    return len(_CLAUSE.findall(text)), len(text.split())


def _is_short(text: str) -> bool:
    return len(text.split()) <= _SHORT and not _CLAUSE.search(text)


def _ended(text: str) -> str:
    """With its question mark, which may be that of a title."""
    return text if text.endswith("?") else f"{text}?"


def capital(text: str) -> str:
    """Return the text with its first letter in upper case."""
    return text[:1].upper() + text[1:]
