"""Decide by comparing words whether an answer follows from the passages that were read, or from answers found
before.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from trailforge.mcts import references
from trailforge.retrieval import split_sentences, strip_accents, words_of
from trailforge.rewards import (
    country_names,
    is_near_miss,
    is_never_quoted,
    is_people,
    mentions,
    normalize_answer,
    same_answer,
    spell_in_figures,
    states,
)
from trailforge.rewards.reading import fold, is_number, keep_for_texts, read
from trailforge.schemas import Document, Passage, Step

CHOICE = re.compile(r"\bor\b|\bbetween\b|\bamong\b|\bboth\b|#\d+.*#\d+", re.IGNORECASE)

_GRAMMAR = frozenset(
    "what which who whom whose when where why how in on at of for from to by with is was are were be been did does do "
    "has have had the a an and or s".split()
)
_NAME = re.compile(r"\b[A-Z\d][\w'’.&-]*")
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:,\d{3})*(?![\w,]|\.\d)")
_ITEMS = re.compile(r",\s*(?:and\s+)?|;\s*|\s+and\s+")
_GENITIVE = re.compile(
    r"(?:the\s+)?(?P<what>[a-z][a-z -]*?) of (?:the\s+)?(?P<whose>[A-Z][\w.'’-]*(?: [A-Z][\w.'’-]*)*)"
)
_TAKEN_TOGETHER = frozenset({"both", "neither", "neither of them", "both of them", "same", "different"})
_GLUED = re.compile(r"(?<=\d)(?=[A-Z][a-z])|(?<=[a-z]{3})(?=\d{2})|(?<=[a-z] \d{4})(?=\d{1,2} [A-Z][a-z]{2})")
"""Where a figure and a word were run together, or two dates: "1908San Diego", "July1908", "21 March 192011 January"."""
_IS_SAID = frozenset("is was are were born".split())
_AFTER_SUBJECT = 40
"""Characters that are looked at behind what a text begins with."""
_BEFORE_SUBJECT = 5
"""Characters of what a sentence may begin with before its subject: "The "."""
_STEM = 5
"""Letters that two longer words share when one is a form of the other ("Mexican", "Mexico")."""


def is_grounded(step: Step, earlier: Sequence[Step] = (), also: Sequence[str] = ()) -> bool:
    """Tell whether a passage of the step supports its answer, or the answer follows from those found before.

    An answer that the model itself says is from memory is not grounded: the model reads a relation ("died in") where
    words alone see two names. `earlier` are the accepted steps before it. `also` are shorter answers that mean the
    same: "march" for "Margraviate (frontier march)".
    """
    if step.from_memory:
        return False
    given = given_answers(step, earlier)
    supported = any(
        supports(passage, step.query, answer, given) for passage in step.passages for answer in (step.answer, *also)
    )
    return supported or is_computed(step, earlier)


def why_ungrounded(step: Step) -> str:
    """Say in one clause why an answer is not grounded: it is from the model's memory, in no passage, or only in
    passages that are not about the subject.
    """
    if step.from_memory:
        return f"{step.answer!r} is from memory"
    if any(says(passage, step.answer) for passage in step.passages):
        return f"the passage that says {step.answer!r} is not about what was asked"
    return f"no passage says {step.answer!r}"


def supports(passage: Passage | Document, query: str, answer: str, given: Collection[str] = ()) -> bool:
    """Tell whether a passage states the answer and is about what the query asks.

    Each of the `given` answers that the query builds on must be named in it, by one of its words, and so must one of
    the query's names and numbers, or half of all its words. In a query without capitals the passage's title is a name.
    A passage that uses an alias or a pronoun throughout is not recognised: 2 in 100 of the gold paragraphs of MuSiQue's
    hops are not taken for support.
    """
    return says(passage, answer) and speaks_of(passage, query, given)


def bears_out(passage: Passage, quote: str, query: str, answer: str, given: Collection[str] = ()) -> bool:
    """Tell whether a quote from a passage, or its title, has a word of the answer, and the passage is about what is
    asked. What the words say of the two is not checked.
    """
    cited = _Words(_text_of(replace(passage, text=quote)))
    has_answer = says(replace(passage, text=quote), answer) or cited.count(_words(answer)) > 0
    return has_answer and speaks_of(passage, query, given)


def says(passage: Passage | Document, answer: str) -> bool:
    """Tell whether a passage contains the answer, whatever it says of it.

    A list is contained when all of its items are, in any order; a number and what it counts may be turned round: "third
    season" is "season 3". A country may have any of its names, but not that of its people: the USSR is the Soviet
    Union, but a French writer need not be in France.
    """
    text = _text_of(passage)
    is_named = any(states(text, name) for name in (answer, *country_names(answer)))
    return is_named or _states_all(text, answer) or says_turned(text, answer) or _says_genitive(text, answer)


def tells_of(passage: Passage | Document, answer: str, subjects: Collection[str]) -> bool:
    """Tell whether a passage says the answer of one of the subjects, and not of something else that it is about.

    Its title is the subject, or its title is the answer and its text names the subject; or a sentence with the answer
    names the subject, or the sentence before it does. An adjective of nationality ("American") stands beside anything:
    its sentence has to begin with the subject.
    """
    text = _text_of(passage)
    if not says(passage, answer):
        return False
    if any(_is_named(each, passage.title) for each in subjects):
        return True
    if is_people(answer):
        said = (sentence for sentence in split_sentences(text) if states(sentence, answer))
        return any(_is_named(each, sentence[: len(each) + _BEFORE_SUBJECT]) for sentence in said for each in subjects)
    if states(passage.title, answer):
        return any(_is_named(each, text) for each in subjects)
    sentences = split_sentences(text)
    pairs = (f"{before} {sentence}" for before, sentence in pairwise(("", *sentences)) if states(sentence, answer))
    return any(_is_named(each, pair) for pair in pairs for each in subjects)


def _is_named(subject: str, text: str) -> bool:
    """By more than half of its words, or by the last of them, as people are."""
    words = _words(subject)
    last = subject.split()[-1:]
    is_short = bool(last) and re.search(rf"(?<!\w){re.escape(last[0])}(?!\w)", text) is not None
    return is_short or (bool(words) and 2 * _Words(text).count(words) > len(words))


def says_in_other_form(passage: Passage | Document, answer: str) -> bool:
    """Tell whether a passage has all words of an answer, some in another form: "Western European powers" for "Western
    Europe", or "Hormann" for "Horman". Numbers have no other form.
    """
    words = _words(answer)
    is_figure = any(map(str.isdigit, answer))
    return bool(words) and not is_figure and _Words(_text_of(passage)).count(words) == len(words)


def is_title_of_gold(answer: str, passages: Iterable[Passage | Document], golds: Sequence[str]) -> bool:
    """Tell whether an answer is the title of a passage that was read, whose text begins with a gold answer.

    Then the answer is the corpus' spelling: "Tumi Inc." of the passage "Tumi Holdings, Inc., is …", "Anna Amalie" of
    one on "Anna Amalia (born …". The title has to share a word with the gold answer, so that what a passage begins with
    is the same thing and not part of it.
    """
    return any(
        normalize_answer(answer) == normalize_answer(passage.title) != ""
        and any(is_near_miss(passage.title, (gold,)) and _is_subject(passage.text, gold) for gold in golds)
        for passage in passages
    )


def _is_subject(text: str, name: str) -> bool:
    """Does a text begin with a name, and go on to say what that is?"""
    words, wanted = (
        read(fold(text[: 2 * len(name) + _AFTER_SUBJECT]), joined=False),
        read(fold(name), joined=False).words,
    )
    count = len(wanted)
    if not wanted or words.words[:count] != wanted:
        return False
    is_apposed = words.gaps[count].lstrip(" .\"'")[:1] in ("(", ",")
    return is_apposed or not _IS_SAID.isdisjoint(words.words[count : count + 1])


def _text_of(passage: Passage | Document) -> str:
    """Title and text; what was run together is parted, and stands there as it was, too."""
    return _with_parted(f"{passage.title}. {passage.text}")


@keep_for_texts
def _with_parted(text: str) -> str:
    parted = _GLUED.sub(" ", text)
    return text if parted == text else f"{text}\n{parted}"


def speaks_of(passage: Passage | Document, query: str, given: Collection[str] = ()) -> bool:
    """Tell whether a passage is about what the query asks; the rules are in `supports`."""
    there = _Words(_text_of(passage))
    if not all(there.count(_words(each)) for each in given if _words(each)):
        return False
    asked, title = _words(query), _words(passage.title)
    names = {word for name in _NAME.findall(query) for word in _words(name)}
    if not names and title and 2 * len(title & asked) >= len(title):
        return True
    return bool(there.count(names)) or 2 * there.count(asked) >= len(asked)


def says_turned(text: str, answer: str) -> bool:
    """Tell whether a text has a number and what it counts the other way round: "season three" for "third season"."""
    words = spell_in_figures(fold(answer)).split()
    if len(words) != 2 or sum(map(is_number, words)) != 1:
        return False
    return states(text, " ".join(reversed(words)))


def _says_genitive(text: str, answer: str) -> bool:
    """Does a text have an answer the other way round: "Lyons' death" for "the death of Joseph Lyons", whom it names?"""
    match = _GENITIVE.fullmatch(answer.strip())
    if match is None or not states(text, match["whose"]):
        return False
    last = match["whose"].split()[-1]
    wanted = rf"\b{re.escape(last)}['’]s?\s+(?:\w+\s+)?{re.escape(match['what'])}\b"
    return re.search(wanted, text, re.IGNORECASE) is not None


def _states_all(text: str, answer: str) -> bool:
    """Of an answer that lists several things, each has to stand in the text, in whatever order."""
    items = list_items(answer)
    return len(items) > 1 and all(states(text, item) for item in items)


def list_items(answer: str) -> list[str]:
    """Return the things that an answer lists; a single one where it is no list."""
    return [item for item in _ITEMS.split(answer) if normalize_answer(item)]


def is_computed(step: Step, earlier: Sequence[Step]) -> bool:
    """Tell whether the answer follows from the earlier ones, so that no text has to say it.

    That holds for yes, no, both and neither; one of the things that a choice is made between; a count of what an
    earlier answer lists; a difference or a sum of two numbers that the query was given (an age may be one less).
    """
    if is_never_quoted(step.answer) or normalize_answer(step.answer) in _TAKEN_TOGETHER:
        return True
    if CHOICE.search(step.sub_question) and earlier:
        named = mentions(step.query, step.answer) or any(mentions(each.query, step.answer) for each in earlier)
        if named or any(same_answer(step.answer, each.answer) for each in earlier):
            return True
    given = given_answers(step, earlier)
    return bool(given) and _is_reckoned(step, given)


def _is_reckoned(step: Step, given: Sequence[str]) -> bool:
    answer = _numbers(step.answer)
    if len(answer) != 1:
        return False
    numbers = _numbers(step.query)
    pairs = [(a, b) for n, a in enumerate(numbers) for b in numbers[n + 1 :]]
    results = {result for a, b in pairs for result in (a + b, abs(a - b), abs(a - b) - 1)}
    counts = {len(_ITEMS.split(each)) for each in given if len(_ITEMS.split(each)) > 1}
    return answer[0] in results | counts


def given_answers(step: Step, earlier: Sequence[Step]) -> list[str]:
    """Return the answers that the step refers to; where two steps hold the same place in the plan, the later one's."""
    answers = {each.index + 1: each.answer for each in earlier}
    return [answers[place] for place in dict.fromkeys(references(step.sub_question)) if place in answers]


def _numbers(text: str) -> list[int]:
    return [int(number.replace(",", "")) for number in _NUMBER.findall(text)]


class _Words:
    """The words of a text, to be looked up with some slack."""

    def __init__(self, text: str) -> None:
        self._all = _words(text)
        self._stems = {word[:_STEM] for word in self._all}

    def count(self, words: Collection[str]) -> int:
        """How many of these stand in the text, as they are or in another form."""
        return sum(word in self._all or (len(word) >= _STEM and word[:_STEM] in self._stems) for word in words)


def _words(text: str) -> set[str]:
    """The words that mean something: lower case, without accents."""
    return {word for word in words_of(strip_accents(text)) if word not in _GRAMMAR}


def shown_at(steps: Sequence[Step], place: int) -> int | None:
    """Return the position of the last step before `place` that had already shown a passage: the first one that supports
    the answer of the step at `place`. None when no step had. None, too, for a mistake, for a step that mends one, and
    for an answer that follows from earlier answers.
    """
    step, before = steps[place], steps[:place]
    accepted = [earlier for earlier in before if not earlier.is_mistake]
    if step.is_mistake or (before and before[-1].is_mistake) or is_computed(step, accepted):
        return None
    given = given_answers(step, accepted)
    support = next((p.id for p in step.passages if supports(p, step.query, step.answer, given)), None)
    showing = [n for n, earlier in enumerate(before) if any(p.id == support for p in earlier.passages)]
    return max(showing, default=None)
