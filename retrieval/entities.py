"""Find the named entities of English texts by rule: people, places, organisations, products, data sets, models.

A name is a run of words with capitals that is no ordinary word. Which words are ordinary, the texts themselves say: one
that they write more often without a capital than with one. So it needs no model, and headlines in title case, sentence
starts and terms that a paper writes with capitals once are distinguished from names.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from trailforge.retrieval.sentences import split_sentences
from trailforge.retrieval.words import COMMON_WORDS

_TOKEN = re.compile(r"(?:[^\W\d_]\.){2,}|\w+(?:['’&‑-]\w+|\.\d\w*)*")
"""Also U.S., Bankman-Fried, O'Neal, AT&T, Qwen2.5-7B."""
_POSSESSIVE = re.compile(r"['’]s?$")
_EXPLAINED = re.compile(r"\b(\w+) \((\w*[A-Z][\w-]*[A-Z])s?\)")
"""The last word of what an acronym in brackets is short for: magnetic resonance imaging (MRI)."""
_MANY = re.compile(r"\b([A-Z]{2,})s\b")
"""An acronym in the plural: GPUs."""
_FEWEST_PLURALS = 2
"""Texts that have it, for it to be a kind of thing."""
_PLURAL = re.compile(r"(?<=[A-Z][A-Z])s$|(?<=[a-z][A-Z])s$")
"""Of an acronym: LLMs, ViTs."""
_NO_NAMES = frozenset(
    "january february march april may june july august september october november december jan feb mar apr jun jul aug "
    "sept sep oct nov dec monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun "
    "spring summer autumn winter christmas easter am pm est edt pst pdt gmt bst utc "
    "mr mrs ms dr prof professor sir lady lord president chairman ceo governor senator representative justice "
    "secretary minister chancellor judge captain coach "
    "f1 auc roc auroc map mae rmse mse bleu rouge sota acc api faq pdf phd".split()
)
"""Times, titles before names, measures and kinds of file: many texts hold them, and they join nothing."""
_QUANTITY = re.compile(r"\d+(?:[.,]\d+)?(?:[a-z]|st|nd|rd|th|[kmgt]b)?|[a-z]\d?")
"""7B, 128k, 3D, 2nd; a single letter."""
_BEFORE_NAMES = frozenset("new north south east west los las san st saint great united".split())
"""Common words that names begin with."""
_WITHIN = frozenset("of de la van von der den del bin al el &".split())
"""Joins two parts of a name: Bank of America."""
_PLAIN = str.maketrans({"’": "'", "‑": "-"})
_LONGEST = 5
"""Words of a name; a longer run with capitals is a heading."""
_LONGEST_ABBREVIATION = 5
"""Letters."""
_LIST_NAMES = 8
"""In one sentence, from which on they are a list: who signs, who attends, where a firm has offices."""
_FIELD_SHARE = 1 / 3
"""Of an abbreviation's uses, from which on it is a field's: of 1,831 arXiv abstracts LiDAR has 0.83, GUI 0.65, SQL 0.41
and LLaMA 0.39; MATH 0.27, SAM 0.26, MMLU 0.18."""


class Name(NamedTuple):
    """A named entity of a document."""

    key: str
    """Key of the name: case-folded, without possessive, and equal for the same name."""
    text: str
    """The name as it is first written."""
    count: int
    """Number of times that the name occurs in title and text."""
    is_in_title: bool
    in_lists: int = 0
    """Number of these occurrences that are in a list of names, such as that of a letter's signers."""

    def joined(self, other: Name) -> Name:
        """Merge two names of a document that are the same, under this one's key."""
        return Name(
            self.key,
            max(self.text, other.text, key=len),
            self.count + other.count,
            self.is_in_title or other.is_in_title,
            self.in_lists + other.in_lists,
        )


@dataclass(frozen=True, slots=True)
class CaseCounts:
    """Number of texts in which words and pairs of words occur with and without capitals. Counts of parts can be
    added."""

    plain: Counter[str]
    capital: Counter[str]

    @classmethod
    def of(cls, texts: Iterable[str]) -> CaseCounts:
        """Count over running texts; the first word of a sentence counts neither way."""
        counts = cls(Counter(), Counter())
        for text in texts:
            plain, capital = set[str](), set[str]()
            for sentence in split_sentences(text):
                tokens = _tokens(sentence)
                for at, token in enumerate(tokens):
                    if at or token.text[0].islower():
                        (capital if _has_capital(token.text) else plain).add(token.key)
                    before = tokens[at - 1]
                    if (
                        token.is_joined
                        and not _has_capital(f"{before.text}{token.text}")
                        and _has_content(before, token)
                    ):
                        plain.add(f"{before.key} {token.key}")
                    parts = token.text.split("-")
                    for part in filter(_is_abbreviation, parts):
                        counts.capital[_use(_key(part))] += 1
                        counts.plain[_use(_key(part))] += any(map(_is_word, parts)) or _is_before_noun(tokens, at)
                for last, acronym in _EXPLAINED.findall(sentence):
                    if last[0].casefold() == acronym[-1].casefold():
                        (plain if last.islower() else capital).add(f"({_key(acronym)})")
                plain.update(f"({_key(acronym)})s" for acronym in _MANY.findall(sentence))
            counts.plain.update(plain)
            counts.capital.update(capital)
        return counts

    def is_ordinary(self, key: str) -> bool:
        """Tell whether a key is an ordinary word of the language, although it may be written with a capital."""
        if key in COMMON_WORDS or key in _NO_NAMES or 2 * self.plain[key] > self.capital[key]:
            return True
        explained, as_name = self.plain[f"({key})"], self.capital[f"({key})"]
        if explained or as_name:
            return 3 * explained >= as_name
        # Nobody says what GPUs are, and there are many: a kind of thing, as a word in small letters.
        many = self.plain[f"({key})s"]
        return many >= _FEWEST_PLURALS and 4 * many > self.capital[key]

    def is_field_word(self, name: str) -> bool:
        """Tell whether a name only says what kind of thing something is: all its parts are ordinary words or a field's
        abbreviations.

        Examples are `GUI`, since most texts say `GUI agents`; LMM, since many say `LMMs`; and `LLM-Based`.
        """
        parts = re.split(r"[\s-]+", name)
        return all(part.isalpha() and (self.is_ordinary(_key(part)) or self._is_of_field(part)) for part in parts)

    def _is_of_field(self, word: str) -> bool:
        key = _key(word)
        uses, texts = self.capital[_use(key)], self.capital[key]
        is_kind = 3 * self.plain[f"({key})s"] >= texts or self.plain[_use(key)] >= _FIELD_SHARE * uses
        return _is_abbreviation(word) and bool(uses) and is_kind


class _Token(NamedTuple):
    text: str
    """Without possessive."""
    key: str
    is_joined: bool
    """Only a space stands between it and the token before."""
    is_owner: bool
    """Written as a possessive, which ends a name."""


def names_of(title: str, text: str, counts: CaseCounts) -> list[Name]:
    """Return the named entities of a document, each once, in order of appearance. `counts` are over texts of the same
    sort.
    """
    found: dict[str, Name] = {}
    sentences = [list(_names(sentence, counts, is_heading=False)) for sentence in split_sentences(text)]
    known = frozenset(_key(name) for names in sentences for name in names)
    titled = list(_names(title, counts, is_heading=_is_title_case(title), known=known))
    for number, names in enumerate((titled, *sentences)):
        is_list = number > 0 and len(names) >= _LIST_NAMES
        for name in names:
            key = _key(name)
            before = found.get(key, Name(key, name, 0, number == 0))
            found[key] = before._replace(count=before.count + 1, in_lists=before.in_lists + is_list)
    return list(found.values())


def merge_short_names(documents: Sequence[Sequence[Name]]) -> list[list[Name]]:
    """Return the names of documents, with a last name replaced by the full name: that of its document, else the most
    frequent one.

    This needs the full name to be in at least half as many documents as the last name alone: "Swift" becomes "Taylor
    Swift", but "COVID-19" does not become the "VA COVID-19" of a single text.
    """
    frequencies = document_frequencies(documents)
    usual: dict[str, str] = {}
    for key in sorted(filter(_has_last_name, frequencies), key=lambda key: (frequencies[key], key)):
        last = key.rsplit(" ", 1)[1]
        if 2 * frequencies[key] >= frequencies.get(last, 0):
            usual[last] = key
    merged: list[list[Name]] = []
    for names in documents:
        own = {name.key.rsplit(" ", 1)[1]: name.key for name in names if _has_last_name(name.key)}
        full = {name.key: own.get(name.key, usual[name.key]) for name in names if name.key in usual}
        merged.append(_merged(names, full))
    return merged


def document_frequencies(names: Iterable[Iterable[Name]]) -> Counter[str]:
    """Count in how many documents each name occurs; counters of parts can be added."""
    return Counter(key for each in names for key in {name.key for name in each})


def rarity(key: str, frequencies: Mapping[str, int], documents: int) -> float:
    """Return how significant it is that two documents share this name: ln(documents / its document frequency)."""
    return math.log(documents / max(frequencies.get(key, 1), 1))


def _has_last_name(key: str) -> bool:
    words = key.split(" ")
    return len(words) in (2, 3) and not _WITHIN & set(words) and words[0] not in _BEFORE_NAMES


def _merged(names: Sequence[Name], full: Mapping[str, str]) -> list[Name]:
    found: dict[str, Name] = {}
    for name in names:
        key = full.get(name.key, name.key)
        before = found.get(key)
        found[key] = name._replace(key=key) if before is None else before.joined(name)
    return list(found.values())


def _names(text: str, counts: CaseCounts, *, is_heading: bool, known: frozenset[str] = frozenset()) -> Iterator[str]:
    """Names of a sentence or title. `is_heading`: its capitals say nothing but of names that are `known`."""
    is_heading = is_heading or text.isupper()
    tokens, run = _tokens(text), list[_Token]()
    for at, token in enumerate(tokens):
        begins = _begins(tokens, at, counts, is_strict=is_heading or not at)
        capital = begins if is_heading else _has_capital(token.text)
        joins = token.key in _WITHIN and token.text[0].islower() and _is_capital(tokens, at + 1)
        goes_on = token.is_joined and (joins or (capital and token.key not in _NO_NAMES))
        if run and not run[-1].is_owner and goes_on:
            run.append(token)
            continue
        yield from _checked(run, counts, is_heading, known)
        run = [token] if begins else []
    yield from _checked(run, counts, is_heading, known)


def _begins(tokens: Sequence[_Token], at: int, counts: CaseCounts, *, is_strict: bool) -> bool:
    token = tokens[at]
    if not _has_capital(token.text) or token.key in _NO_NAMES or _QUANTITY.fullmatch(token.key):
        return False
    if token.key in _BEFORE_NAMES and _is_capital(tokens, at + 1):
        return True
    return not (counts.is_ordinary(token.key) if is_strict else token.key in COMMON_WORDS)


def _checked(run: list[_Token], counts: CaseCounts, is_heading: bool, known: frozenset[str]) -> Iterator[str]:
    """The run as a name; of a term that only looks like one, the words that are names."""
    if not run or len(run) > _LONGEST:
        return
    name = " ".join(token.text for token in run)
    is_ordinary = [counts.is_ordinary(token.key) for token in run if token.key not in _WITHIN]
    is_term = any(counts.plain[f"{one.key} {two.key}"] for one, two in pairwise(run))
    is_doubtful = is_term or (is_heading and _key(name) not in known)
    if len(run) > 1 and not (is_doubtful and any(is_ordinary)):
        yield name
    else:
        for token in run:
            is_name = not (counts.is_ordinary(token.key) or _QUANTITY.fullmatch(token.key))
            if is_name and token.key not in _BEFORE_NAMES:
                yield token.text


@lru_cache(maxsize=4096)
def _tokens(text: str) -> tuple[_Token, ...]:
    """Of a sentence: words are counted first, and then names are read."""
    tokens: list[_Token] = []
    end = 0
    text = unicodedata.normalize("NFC", text)
    for match in _TOKEN.finditer(text):
        word = match[0]
        bare = _PLURAL.sub("", _POSSESSIVE.sub("", word)) or word
        is_owner = bare != word
        if "-" in bare and _has_capital(bare):
            shorter = _without_plain_parts(bare)
            bare, is_owner = shorter, is_owner or not bare.endswith(shorter)
        gap = text[end : match.start()]
        is_joined = bool(tokens) and (gap == " " or (gap == ". " and len(tokens[-1].text) == 1))
        tokens.append(_Token(bare, _key(bare), is_joined, is_owner))
        end = match.end()
    return tuple(tokens)


def _key(name: str) -> str:
    return name.translate(_PLAIN).casefold().removeprefix("the ")


def _without_plain_parts(compound: str) -> str:
    """`LLM-based` as LLM, `non-English` as English; but `Self-supervised` in small letters, which is a word."""
    parts = compound.split("-")
    while _is_word(parts[0]):
        parts.pop(0)
    named = list(parts)
    while _is_word(named[-1]):
        named.pop()
    marks = sum(letter.isupper() or letter.isdigit() for part in named for letter in part)
    return "-".join(named) if named == parts or marks > 1 else compound.casefold()


def _is_abbreviation(word: str) -> bool:
    """`SQL`, `LiDAR`; but neither `Qwen2`, `OpenAI` nor `Mamba`."""
    return len(word) <= _LONGEST_ABBREVIATION and word.isalpha() and 2 * sum(map(str.isupper, word)) > len(word)


def _use(key: str) -> str:
    """Under which uses of an abbreviation are counted, not texts."""
    return f"{key} …"


def _is_before_noun(tokens: Sequence[_Token], at: int) -> bool:
    """`GUI agents`, not `GUI is`."""
    after = tokens[at + 1] if at + 1 < len(tokens) else None
    return after is not None and after.is_joined and not _has_capital(after.text) and after.key not in COMMON_WORDS


def _is_word(part: str) -> bool:
    return part.isalpha() and part.islower()


def _has_capital(word: str) -> bool:
    return any(map(str.isupper, word))


def _has_content(*tokens: _Token) -> bool:
    """Whether none of them is grammar: pairs of such words are terms, and few enough to be counted."""
    return not any(token.key in COMMON_WORDS for token in tokens)


def _is_capital(tokens: Sequence[_Token], at: int) -> bool:
    return at < len(tokens) and tokens[at].is_joined and tokens[at].text[0].isupper()


def _is_title_case(title: str) -> bool:
    """Whether most words of more than three letters begin with a capital."""
    words = [token.text for token in _tokens(title) if len(token.text) > 3]
    return sum(word[0].isupper() for word in words) > 0.6 * len(words)
