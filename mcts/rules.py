"""Splits and atomicity by rule, for models too small to split a question: cut out a noun phrase that has to be looked up.

A phrase can be cut out if it describes something by way of a name: "the director of Metropolis", "the country that
produced Fist Power", "Suzanne Farrington's mother". It begins at an article or at a possessive and ends with a name (or a
`#k`), or with the question. `first` asks for the phrase, `second` has `[E]` in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

ENTITY = "[E]"

_TOKEN = re.compile(r"#\d+|[\w.&-]+(?:['’][a-rt-z]\w*)?|['’]s\b|[^\w\s]")
_ARTICLES = {"the", "a", "an"}
_RELATIVE = {"that", "which", "who", "whom", "whose", "where", "when"}
_LINKS = _RELATIVE | set(
    "of in by from for to at on with about after near behind as featuring called named located situated made written "
    "directed produced founded created composed invented designed performed published owned played born "
    "containing including starring".split()
)
_NAME_GLUE = {"of", "the", "and", "in", "on", "de", "la", "le", "du", "von", "van", "for", "to", "a", "at", "with", "&"}
_FUNCTION_WORDS = (
    _ARTICLES
    | _RELATIVE
    | set(
        "what whom whose how is are was were be been being do does did done has have had can could will would "
        "in of by to on at from for with and or its his her their name many much long".split()
    )
)
_PERSONS = set(
    "actor actress architect artist author ballerina brother captain character chancellor child commander composer "
    "conductor creator daughter designer developer director discoverer emperor empress engineer explorer father founder "
    "general governor guitarist husband inventor king leader man mayor member mother musician novelist owner painter "
    "parent performer person philosopher physicist player poet president producer queen ruler scientist sculptor singer "
    "sister son songwriter spouse star teacher wife winner woman writer".split()
)
_PLACES = set(
    "area borough capital city continent country county department district island municipality nation province region "
    "river state territory town university village".split()
)
_EMPTY_HEADS = {"name", "date", "place", "year", "number", "time", "kind", "type", "list", "end", "beginning", "start"}
_LONGEST_FIRST = 24


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        return self.text[:1].isupper() or self.text.startswith("#") or self.text[:1].isdigit()


@dataclass(frozen=True, slots=True, order=True)
class _Span:
    cost: int
    """The lower the better."""
    start: int
    end: int


def candidate_splits(sub_question: str) -> list[tuple[str, str]]:
    """Splits (first, second), the most promising first; empty when nothing can be cut out."""
    question = sub_question.strip()
    splits = []
    for span in sorted(set(_spans(question))):
        phrase = question[span.start : span.end]
        second = f"{question[: span.start]}{ENTITY}{question[span.end :]}"
        if _asks_something(second):
            splits.append((_ask_for(phrase), second))
    return list(dict.fromkeys(splits))


def is_decomposable(sub_question: str) -> bool:
    """Can something be cut out?"""
    return bool(candidate_splits(sub_question))


def _spans(question: str) -> Iterator[_Span]:
    tokens = [_Token(m[0], m.start(), m.end()) for m in _TOKEN.finditer(question)]
    while tokens and tokens[-1].text in "?.!":
        tokens.pop()
    names = _names(tokens)
    yield from _possessives(tokens, names)
    for position in range(1, len(tokens)):
        if tokens[position].text.lower() in _ARTICLES:
            yield from _described(tokens, names, position)


def _names(tokens: list[_Token]) -> list[tuple[int, int]]:
    """Runs of tokens that make a name, as (first, last + 1): capitals, with small words between capitals."""
    runs: list[tuple[int, int]] = []
    position = 1  # the first word of a question is capitalised whatever it is
    while position < len(tokens):
        if not tokens[position].is_name:
            position += 1
            continue
        end = position + 1
        while end < len(tokens):
            ahead = end
            while ahead < len(tokens) and ahead - end < 2 and tokens[ahead].text.lower() in _NAME_GLUE:
                ahead += 1
            if ahead >= len(tokens) or not tokens[ahead].is_name or tokens[ahead].text.startswith("#"):
                break
            if ahead > end and tokens[position].text.startswith("#"):
                break
            end = ahead + 1
        runs.append((position, end))
        position = end
    return runs


def _possessives(tokens: list[_Token], names: list[tuple[int, int]]) -> Iterator[_Span]:
    """NAME's noun: up to the last small word of the noun phrase, at most three."""
    for first, last in names:
        if last >= len(tokens) or tokens[last].text not in ("'s", "’s"):
            continue
        end = last + 1
        while end < len(tokens) and end - last <= 3 and _is_noun_like(tokens[end]):
            end += 1
        if end < len(tokens) and end > last + 1 and tokens[end].text in ("'s", "’s"):
            yield _Span(0, tokens[first].start, tokens[end - 1].end)
        elif end > last + 1:
            for stop in range(last + 2, end + 1):
                cost = 1 if tokens[stop - 1].text.lower() in _PERSONS | _PLACES else 4 + stop
                yield _Span(cost, tokens[first].start, tokens[stop - 1].end)


def _described(tokens: list[_Token], names: list[tuple[int, int]], article: int) -> Iterator[_Span]:
    """the noun … NAME, with a link between noun and name; and, after a relative pronoun, also to the question's end."""
    head = article + 1
    if head >= len(tokens) or tokens[head].is_name:
        return
    links = [i for i in range(head + 1, len(tokens)) if tokens[i].text.lower() in _LINKS]
    if not links or tokens[links[0] - 1].text.lower() in _EMPTY_HEADS:
        return
    relative = tokens[links[0]].text.lower() in _RELATIVE or tokens[links[0] + 1 : links[0] + 2] and tokens[links[0] + 1].text.lower() in _RELATIVE
    inside = sum(t.text.lower() in _ARTICLES and not _followed_by_name(tokens, t) for t in tokens[head:])
    known = tokens[links[0] - 1].text.lower() in _PERSONS | _PLACES
    base = 2 * inside + (0 if known else 2)
    for rank, (first, last) in enumerate(run for run in names if run[0] > links[0]):
        if tokens[last : last + 1] and tokens[last].text in ("'s", "’s"):
            continue
        ends_in_verb = relative and first == links[0] + 1
        yield _Span(base + rank * 3 + (4 if ends_in_verb else 0), tokens[article].start, tokens[last - 1].end)
    if relative and tokens[-1].end - tokens[article].start > 0:
        yield _Span(base + 3, tokens[article].start, tokens[-1].end)


def _followed_by_name(tokens: list[_Token], article: _Token) -> bool:
    position = tokens.index(article)
    return position + 1 < len(tokens) and tokens[position + 1].is_name


def _is_noun_like(token: _Token) -> bool:
    word = token.text.lower()
    return word.isalpha() and not token.is_name and word not in _FUNCTION_WORDS and word not in _LINKS


def _asks_something(second: str) -> bool:
    """Is there a content word beside the placeholder, so that the second half asks for more than the first?"""
    rest = second.replace(ENTITY, " ")
    words = [token for token in _TOKEN.findall(rest) if token[:1].isalnum() or token.startswith("#")]
    return any(word.lower() not in _FUNCTION_WORDS | {"who", "where", "when"} for word in words)


def _ask_for(phrase: str) -> str:
    """A plain question for a noun phrase."""
    words = _TOKEN.findall(phrase)
    possessives = [i for i, word in enumerate(words) if word in ("'s", "’s")]
    if words and words[0].lower() in _ARTICLES:
        link = next((i for i, word in enumerate(words) if word.lower() in _LINKS), len(words))
        head = words[link - 1].lower()
    else:
        head = words[-1].lower() if possessives else ""
    article = phrase if words[:1] and words[0].lower() != "a" and words[0].lower() != "an" else f"the {phrase.split(' ', 1)[1]}"
    return f"{'Who' if head in _PERSONS else 'What'} is {article}?"


__all__ = ["candidate_splits", "is_decomposable"]
