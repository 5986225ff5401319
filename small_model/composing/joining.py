"""Join two documents that mention the same name: what one says about it, and what can be asked of the other.

What is composed has to be well formed, stand by itself and need its description: all by rule (`problem_of`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from trailforge.retrieval import split_sentences
from trailforge.retrieval.english import PARTICIPLES, PREPOSITIONS, is_finite
from trailforge.rewards import mentions
from trailforge.schemas import SourceDocument
from trailforge.small_model.composing.clauses import clauses_of
from trailforge.small_model.composing.composing import GAP, GapQuestion, descriptions_of, questions_of
from trailforge.small_model.composing.mentions import is_person_noun, mentions_of, names_of, noun_of, shared_names
from trailforge.small_model.splitting.words import FUNCTION_WORDS

LONGEST_QUESTION = 45
LONGEST_DESCRIPTION = 26
"""Most words of a description of a name."""
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


@dataclass(frozen=True, slots=True)
class Bridge:
    """A name in two documents, by which a question leads from one to the other. Positions of documents in the bundle
    count from 0.
    """

    name: str
    noun: str
    first: int
    """Position of the document that describes the name."""
    second: int
    """Position of the document that is asked about the name."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A question that joins two documents, with the sentences from which it was made."""

    bridge: Bridge
    description: str
    described_in: str
    """The sentence of the first document that describes the name."""
    asked: GapQuestion
    """The one-fact question about `GAP`."""
    asked_of: str
    """The sentence of the second document that answers it."""

    @property
    def question(self) -> str:
        """Return the question as it is asked."""
        return self.asked.about(self.description)


def bridges_of(documents: Sequence[SourceDocument], nouns: dict[str, str]) -> list[Bridge]:
    """Return every pair of documents from different origins that share a name whose noun is known (`nouns`), in either
    direction.
    """
    return [
        Bridge(name, nouns[name], first, second)
        for first, second in permutations(range(len(documents)), 2)
        if documents[first].origin != documents[second].origin
        for name in shared_names(documents[first], documents[second], documents)
        if name in nouns
    ]


def nouns_of(documents: Sequence[SourceDocument]) -> tuple[dict[str, str], list[str]]:
    """Return what kind of thing the names in these documents are, by rule, and the shared names for which no rule says
    it.
    """
    known = {name: noun for name in sorted(names_of(documents)) if (noun := noun_of(name, documents))}
    shared = {n for a, b in permutations(documents, 2) for n in shared_names(a, b)}
    return known, sorted(shared - known.keys())


def sentences_naming(name: str, documents: Sequence[SourceDocument]) -> list[str]:
    """Return the sentences of all documents in which a name stands, in reading order."""
    return [s for d in documents for s in split_sentences(d.text) if any(m.text == name for m in mentions_of(s))]


def joined_by(bridge: Bridge, documents: Sequence[SourceDocument], nouns: dict[str, str]) -> Iterator[Joined]:
    """Yield every sound way to join the two documents of a bridge."""
    first, second = documents[bridge.first], documents[bridge.second]
    questions = [
        (quote, asked)
        for quote, masked in masked_sentences(bridge, second)
        for asked in _questions(masked, nouns)
        if not singles_out(asked.question, GAP)
    ]
    if not questions:
        return
    for described_in, masked in masked_sentences(bridge, first):
        for description in dict.fromkeys(_descriptions(masked, bridge.noun)):
            if not is_telling(description, bridge.name):
                continue
            for asked_of, asked in questions:
                joined = Joined(bridge, description, described_in, asked, asked_of)
                if problem_of(joined.question, asked.answer, bridge.name, description) is None:
                    yield joined


def masked_sentences(bridge: Bridge, document: SourceDocument) -> Iterator[tuple[str, str]]:
    """Yield quotes of a document about a name, and the sentence of each with `GAP` in place of its only mention.

    Where the document has only one such thing, `the telescope` stands for it once it was named, and so does `it` after
    a sentence of which it was the subject; the quote then begins with the sentence before.
    """
    rivals = _others_of_its_kind(bridge, document)
    quote, is_subject = "", False
    for sentence in split_sentences(document.text):
        named = list(re.finditer(rf"(?<![\w-]){re.escape(bridge.name)}(?![\w-])", sentence))
        masked = None
        if len(named) == 1:
            masked = _masked(sentence, named[0].start(), named[0].end(), bridge.noun)
        elif not named and quote and not rivals:
            masked = _masked_noun(sentence, bridge.noun) or (_masked_pronoun(sentence, bridge) if is_subject else None)
        quote = sentence if named else f"{quote} {sentence}" if masked else ""
        is_subject = bool(masked) and masked.startswith(GAP)
        if masked:
            yield quote, masked


def _masked_pronoun(sentence: str, bridge: Bridge) -> str | None:
    """`It`, `He` or `She` at the start, and no other."""
    word = re.match(r"(?:He|She) " if is_person_noun(bridge.noun) else r"It (?=\w)", sentence)
    if word is None or re.search(r"\b(?:it|he|she|him|her) ", sentence[word.end() :]):
        return None
    return f"{GAP} {sentence[word.end() :]}"


def _masked(sentence: str, start: int, end: int, noun: str) -> str | None:
    """The whole noun phrase is masked: `the Japanese spacecraft NAME`."""
    before = re.search(rf"(?:[Tt]he|[Aa]n?) (?:[\w-]+ ){{0,2}}?{re.escape(noun)} (?:of )?$", sentence[:start])
    article = before if before and _is_phrase(before[0]) else re.search(r"[Tt]he $", sentence[:start])
    start = article.start() if article else start
    if _goes_before(sentence[:start]):
        return None
    return f"{sentence[:start]}{GAP}{sentence[end:]}" if _ends_here(sentence[end:]) else None


def _goes_before(before: str) -> bool:
    """Whether the words before are part of a longer phrase or name: `the whole`, `Boris`."""
    phrase = re.search(r"(?:^|\W)(?:[Tt]he|[Aa]n?)(?: [\w-]+)? ([\w-]+) $", before)
    if phrase and phrase[1] not in FUNCTION_WORDS and not is_finite(phrase[1]) and phrase[1] not in PARTICIPLES:
        return True
    name = re.search(r"\S ([^\W\d_a-z][\w-]*) $", before)
    return bool(name and name[1].casefold() not in FUNCTION_WORDS)


def _masked_noun(sentence: str, noun: str) -> str | None:
    found = list(re.finditer(rf"(?<![\w-])[Tt]he {re.escape(noun)}(?![\w-])", sentence))
    if len(found) != 1 or not _ends_here(sentence[found[0].end() :]):
        return None
    return f"{sentence[: found[0].start()]}{GAP}{sentence[found[0].end() :]}"


def _is_phrase(text: str) -> bool:
    article, *words = text.removesuffix(" of ").split()
    return article.casefold() in ("the", "a", "an") and not any(w in FUNCTION_WORDS or is_finite(w) for w in words)


def _ends_here(after: str) -> bool:
    """Whether what follows does not go on with the name: no genitive, no noun that it describes."""
    word = re.match(r" ([\w-]+)", after)
    if word is None:
        return not re.match(r"['’-]|\s\(", after)
    return word[1] in FUNCTION_WORDS or is_finite(word[1]) or word[1].endswith("ly") or word[1][0].isdigit()


def _others_of_its_kind(bridge: Bridge, document: SourceDocument) -> bool:
    """Whether `the NOUN` may mean something else in this document."""
    other = rf"(?:[Aa]n?|[Aa]nother|[Tt]wo|[Oo]ther|[Tt]hese) (?:[\w-]+ )?{bridge.noun}s?\b|\b{bridge.noun}s\b"
    names = {m.text for s in split_sentences(document.text) for m in mentions_of(s) if m.kind == "name"}
    return bool(re.search(other, document.text)) or any(
        name not in bridge.name and bridge.name not in name and name.lower().endswith(bridge.noun) for name in names
    )


def _questions(masked: str, nouns: dict[str, str]) -> Iterator[GapQuestion]:
    for clause in clauses_of(masked):
        yield from questions_of(clause, nouns)


def _descriptions(masked: str, noun: str) -> Iterator[str]:
    for clause in clauses_of(masked):
        yield from descriptions_of(clause, noun)
    yield from asides_of(masked, noun)


def asides_of(masked: str, noun: str) -> Iterator[str]:
    """Yield what asides say about `GAP`, as in `GAP, who did this, …` and `GAP, the head of that, …`."""
    relative = re.search(rf"{GAP}, (who|which) ([^,]+)[,.]", masked)
    if relative:
        yield f"the {noun} {'who' if relative[1] == 'who' else 'that'} {relative[2].strip()}"
    apposed = re.search(rf"{GAP}, (?:the|an?) ((?:[\w-]+ )+?(?:of|in|for|that|which|who) [^,]+)[,.]", masked)
    if apposed:
        yield f"the {apposed[1].strip()}"


def problem_of(question: str, answer: str, bridge: str, description: str) -> str | None:
    """Return why a composed question cannot be used; None when it can."""
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
    """Tell whether a text has the shared name or a characteristic part of it."""
    if mentions(text, bridge):
        return True
    parts = [word for word in re.findall(r"[\w-]+", bridge) if word[0].isupper() or any(c.isdigit() for c in word)]
    return any(
        re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in parts if word.lower() not in FUNCTION_WORDS
    )


def singles_out(question: str, gap: str) -> bool:
    """Tell whether a question finds its document by names, dates or figures of its own, without what fills its gap."""
    return any(mention.text != gap for mention in mentions_of(f"x {question[:1].lower()}{question[1:]}"))


def is_telling(description: str, bridge: str) -> bool:
    """Tell whether a description can identify something: it needs a name, a date or a figure of its own, and `_CONTENT`
    content words.
    """
    body = description.partition(" ")[2]
    words = [word for word in body.split()[1:] if word.casefold() not in FUNCTION_WORDS]
    return len(words) >= _CONTENT and any(mention.text not in bridge for mention in mentions_of(f"x {body}"))
