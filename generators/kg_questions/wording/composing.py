"""Phrases put together: the question from its answer down, and one sub-question for each thing that is found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trailforge.generators.kg_questions.wording.mentions import mention_of
from trailforge.generators.kg_questions.wording.phrases import PERSON, UNKNOWN, Phrase, phrase_of
from trailforge.schemas import FactChain, KgNode

_SHORT = 9
"""Words of what may stand inside a question, with its verb after it."""
_CLAUSE = re.compile(r"\b(?:that|who|whose|where|which)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """A chain in words."""

    question: str
    sub_questions: tuple[str, ...]
    """One for each of `FactChain.found`; `#k` is the answer of the k-th."""


def compose(chain: FactChain) -> Wording:
    """The question, in which no bridge has its name, and its sub-questions."""
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
            (phrase_of(fact, kind_of[fact.triple.head]), texts[fact.known]) for fact in chain.leading_to(node)
        ]  # fmt: skip
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
        return f"the {self._noun} {relative} {self._says(f', and {relative} ')}"

    def question(self) -> str:
        """The question for it."""
        phrase, text = self._facts[0]
        is_one = len(self._facts) == 1
        if is_one and phrase.ask and _is_short(text):
            question = phrase.ask.replace("{k}", self._noun).replace("{who}", self._whom())
            return _ended(_capital(question.removesuffix("?").replace("{x}", text)))
        if is_one and self._kind in phrase.name.partition("{x}")[0].split():
            return _ended(f"What is {phrase.name.replace('{x}', text)}")
        if is_one and " whose " in phrase.name:
            return _ended(f"Which is {phrase.name.replace('{k}', self._noun).replace('{x}', text)}")
        if self._kind == PERSON:
            subject = f"Which {self._noun}" if not is_one and self._noun != PERSON else "Who"
        else:
            says_kind = len({each.says for each, _ in self._facts}) == 1 and self._kind in phrase.says.split()
            subject = "What" if says_kind or self._kind == UNKNOWN else f"Which {self._kind}"
        return _ended(f"{subject} {self._says(', and ')}")

    def _says(self, joint: str) -> str:
        """All predicates. The joint, where a clause before it could take what follows for its own."""
        predicates = {phrase.says for phrase, _ in self._facts}
        if len(self._facts) > 1 and len(predicates) == 1:
            return predicates.pop().replace("{x}", "both " + " and ".join(text for _, text in self._facts))
        said = [phrase.says.replace("{x}", text) for phrase, text in self._facts]
        return (joint if _CLAUSE.search(said[0]) else " and ").join(said)

    def _whom(self) -> str:
        return "whom" if self._kind == PERSON else "what" if self._kind == UNKNOWN else f"which {self._kind}"


def _weight(fact: tuple[Phrase, str]) -> tuple[int, int]:
    """Without clauses first, then the shorter one: what is long is understood best at the end."""
    text = fact[0].says.replace("{x}", fact[1])
    return len(_CLAUSE.findall(text)), len(text.split())


def _is_short(text: str) -> bool:
    return len(text.split()) <= _SHORT and not _CLAUSE.search(text)


def _ended(text: str) -> str:
    """With its question mark, which may be that of a title."""
    return text if text.endswith("?") else f"{text}?"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
