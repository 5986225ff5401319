"""How right a reply to a bundle's question is: by its options, by the matcher, by a judge or by its key facts.

The filters of questions and the rewards of episodes ask the same function, so that both mean the same by a right
answer. Word F1 is no such measure: right explanations and half ones have the same share of words in common with the
gold one.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from trailforge.inference import Asker
from trailforge.inference.judge import Judged, JudgeOptions, grade
from trailforge.rewards import (
    choose_options,
    is_abstention,
    is_near_miss,
    mcts_reward,
    normalize_answer,
    option_f1,
    states,
)
from trailforge.schemas import BundleQuestion

ScoredBy = Literal["options", "matching", "judge", "key_facts"]
_CHOICE_OF = re.compile(
    r"\b(?:of|among|between) ([^?;:]+?)(?:, (?:which|who|whose)\b|[?]|$)|[,:] ([^?;:]+ or [^?;:,]+)[?]", re.IGNORECASE
)
"""The list of "Of the harbours A, B and C, which …", of "Which of A, B and C …?" and of "Which …, A, B or C?"."""
_FEWEST_ITEMS = 3
AskJudge = Callable[[Judged], Awaitable[float | None]]
"""Asks a judge for the score of an answer, from 0 to 1; None for a verdict that cannot be read."""

_WORDINGS = "|"
"""Between wordings of one key fact."""
_TIMES = re.compile(r"\b(\d+(?:\.\d+)?)\s*(?:[x×](?!\w)|-?\s?fold\b|times\b)", re.IGNORECASE)
"""54x, 54-fold, 54 times."""
_BETWEEN_ITEMS = re.compile(r"(?:[,;](?=\s)|\n|\s&\s|\band\b)+(?:\s*\band\b)?", re.IGNORECASE)
_ORDERED = re.compile(
    r"\b(?:respectively|orders?|ordered|rank(?:ed|ing)?|first|then|earlier|later|followed|sorted|sequence)\b",
    re.IGNORECASE,
)
"""In a question: the order of the answer says something."""
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"[^\W_]+")
_ENDINGS = re.compile(r"(?:ings?|edly|ed|ly|es|s|e)$")
_SHORTEST_STEM = 3
_EMPTY_WORDS = frozenset(
    "a an the of in on at to for from by with as and or that which who whom whose this these those it its he his she "
    "her they their them is are was were be been being has have had do does did so such than then there also only just "
    "about into over under while whereas because since after before would could can may might will shall s".split()
)
"""A key fact is the same without them. Negators are none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerJudgeOptions(JudgeOptions):
    """Settings of the model that judges answers, as in `JudgeOptions`, for a data set whose questions also ask for
    explanations. Here near misses include a phrase without names and figures where the gold answer is one.
    """

    free_answers: bool = False
    """Whether a judge scores explanations, whatever words they share with the gold one. If not, all of its key facts
    have to be in them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerScorer:
    """Scores replies to bundle questions, and tells which scores count as right."""

    judge: AskJudge | None = None
    options: AnswerJudgeOptions = AnswerJudgeOptions()

    async def score(self, question: BundleQuestion, reply: str) -> tuple[float | None, ScoredBy]:
        """Score a reply from 0 to 1 and say what scored it; the score is None when the judge gave no verdict.

        Options are scored by the F1 of their letters. Everything else is first compared by the matcher, lists item by
        item, and is right if it matches. A near miss of a fact, a phrase where the answer is one, and an explanation go
        to the judge. Without a judge an explanation's score is the share of its key facts that it states.
        """
        if question.options:
            return option_f1(choose_options(reply, question.options), question.correct_options), "options"
        golds = (question.answer, *question.aliases)
        if is_abstention(reply) or not normalize_answer(reply):
            return 0.0, "matching"
        if mcts_reward(_even_out(reply), [_even_out(gold) for gold in golds]):
            return 1.0, "matching"
        is_free = question.type == "causal"
        if not is_free and any(is_same_list(reply, gold, question.question) for gold in golds):
            return 1.0, "matching"
        is_judged = self.options.free_answers if is_free else self.options.near_misses and _may_be_right(reply, golds)
        if self.judge is not None and is_judged:
            facts = question.key_facts if is_free else ()
            judged = Judged(question=question.question, answer=reply, golds=golds, key_facts=facts)
            return await self.judge(judged), "judge"
        if is_free and question.key_facts:
            said = [states_fact(reply, fact) for fact in question.key_facts]
            return round(sum(said) / len(said), 6), "key_facts"
        return 0.0, "matching"

    def accepts(self, score: float | None, by: ScoredBy) -> bool:
        """Tell whether a score means a right answer: for a judge's, from the threshold on; for any other, only 1."""
        return self.options.accepts(score) if by == "judge" else score == 1.0


def open_scorer(options: AnswerJudgeOptions, asker: Asker) -> AnswerScorer:
    """Open the scorer of a run. Its judge is the run's own model, unless the options name another one."""
    if not (options.near_misses or options.free_answers):
        return AnswerScorer(options=options)
    return AnswerScorer(judge=lambda judged: grade(judged, options, asker), options=options)


def _may_be_right(reply: str, golds: Sequence[str]) -> bool:
    """Whether a judge should look at a reply that the matcher refuses. Two phrases without names and figures may say
    the same and share no word: too few nurses, a staff shortage."""
    return is_near_miss(reply, golds) or (_is_phrase(reply) and any(map(_is_phrase, golds)))


def _is_phrase(text: str) -> bool:
    words = " ".join(text.split())
    return " " in words and not any(map(str.isdigit, words)) and not any(map(str.isupper, words[1:]))


def is_same_list(reply: str, gold: str, question: str) -> bool:
    """Tell whether two lists name the same things, each once: "Chris Coons, Jack Reed" for "Jack Reed and Chris Coons".

    Only names may be in another order, and only where the question asks for none: the order of figures and dates tells
    which is whose.
    """
    given, wanted = _items_of(reply), _items_of(gold)
    if len(given) != len(wanted) or len(wanted) < 2:
        return False
    if all(map(_is_item, given, wanted)):
        return True
    if _ORDERED.search(question) or any(_DIGIT.search(item) for item in wanted):
        return False
    left = list(wanted)
    for item in given:
        found = next((each for each in left if _is_item(item, each)), None)
        if found is None:
            return False
        left.remove(found)
    return True


def _is_item(given: str, wanted: str) -> bool:
    return bool(mcts_reward(given, (wanted,)))


def _items_of(text: str) -> list[str]:
    return [item for item in map(str.strip, _BETWEEN_ITEMS.split(text.strip().rstrip("."))) if item]


def states_fact(text: str, fact: str) -> bool:
    """Tell whether a text states a key fact in one of its wordings, literally or with all of its words somewhere. Only
    words are compared, so a text that says the opposite in the same words counts as stating it.
    """
    wordings = [_even_out(wording) for wording in fact.split(_WORDINGS) if wording.strip()]
    text = _even_out(text)
    if any(states(text, wording) for wording in wordings):
        return True
    said = content_stems(text)
    return any((wanted := content_stems(wording)) and wanted <= said for wording in wordings)


def speaks_of_fact(text: str, fact: str) -> bool:
    """Tell whether a text states a key fact, or has at least half of the words of one of its wordings.

    This is looser than `states_fact`, since the gold answer and its key facts may word the same thing differently.
    """
    said, wordings = content_stems(_even_out(text)), map(content_stems, map(_even_out, fact.split(_WORDINGS)))
    return states_fact(text, fact) or any(2 * len(wanted & said) >= len(wanted) for wanted in wordings if wanted)


def _even_out(text: str) -> str:
    return _TIMES.sub(r"\1 times", text)


def content_stems(text: str) -> set[str]:
    """Return the content words of a text, stemmed and without the commas in numbers."""
    words = _WORD.findall(re.sub(r"(?<=\d),(?=\d{3})", "", text.casefold()))
    return {_stem(word) for word in words if word not in _EMPTY_WORDS}


def _stem(word: str) -> str:
    stem = _ENDINGS.sub("", word)
    return stem if len(stem) >= _SHORTEST_STEM else word


def names_two_sides(row: BundleQuestion) -> bool:
    """Tell whether the question is a comparison that names its answer, under any of its names, as one of two, or in a
    list to choose from.
    """
    asked = f" {normalize_answer(row.question)} "
    names = [name for name in map(normalize_answer, (row.answer, *row.aliases)) if name]
    if row.type != "factual":
        return False
    return any(f" {name} or " in asked or f" or {name} " in asked or _is_listed(row.question, name) for name in names)


def _is_listed(question: str, answer: str) -> bool:
    """Whether a question asks which of three or more, and has the answer among them."""
    for found in _CHOICE_OF.finditer(question):
        items = [re.sub("^the ", "", item) for item in re.split(r", (?:and |or )?| and | or ", found[1] or found[2])]
        is_list = len(items) >= _FEWEST_ITEMS and all(item[:1].isupper() or item[:1].isdigit() for item in items[1:])
        bare = [normalize_answer(item) for item in items]
        if is_list and any(item.startswith(answer) or item.endswith(answer) for item in bare):
            return True
    return False
