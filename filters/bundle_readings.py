"""Reasons to reject a bundle's question by what a model answers: without documents, from all that it needs, from fewer.

The cheapest of these checks comes first, and asking stops once the question is decided. Where a guess can be right, one
right answer shows nothing: so many in a row are needed that guessing rarely gives them, unless the reader has said that
it does not know where it had no documents. A reply that was cut, or that the judge gave no verdict on, shows nothing
either, and a question that depends on one is not taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import comb
from typing import Protocol

from trailforge.filters.answers import AnswerScorer, names_two_sides
from trailforge.filters.bundles import FEWEST_CORRECT, MOST_CORRECT, judge_unread
from trailforge.rewards import is_abstention
from trailforge.schemas import BundleInput, BundleQuestion, InvalidInput, SourceDocument, Verdict

_KNOWN, _MOST_DRAWS = 0.7, 16
"""How often a model is right that knows an answer, guesses aside; and more draws than this are not made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleFilterConfig:
    """Which filters a bundle's question has to pass, with their limits."""

    review: bool = False
    """Whether an editor who sees the documents is asked first if it is one question with one answer, and how it is
    said well."""
    asked: bool = False
    """Whether somebody who sees the question alone, without its options, is asked if anybody would ask it."""
    halves: bool = False
    """Whether it is asked of an explanation if what one document gives to it would do for whoever asks."""
    closed_book_samples: int = 3
    """Most draws without documents for a question that nobody can guess; 0: none is made."""
    known_rate: float = 0.5
    """Share of the draws without documents, corrected for chance, from which on the model is taken to know the
    answer.
    """
    most_known_kept: float = 1 / 3
    """Share of the questions that a model knows in seven of ten draws which may pass for unknown; 1: any share.

    Where a guess can be right, as many more draws are made as this takes.
    """
    most_chance: float = 0.02
    """How often guessing may pass for reading, for a question with options. It sets how many right answers are asked
    for.
    """
    right_reads: int = 2
    """Fewest right replies in a row that show that a smaller set of documents suffices: a single one may be a guess
    among the things that the set names.
    """
    leave_one_out: bool = False
    """Whether the filter also asks that all documents but one do not suffice. R-Search asks only that no single one
    does.
    """
    since: str | None = None
    """ISO date: every document has to be at least as recent. None: any date."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for shares of which nothing can be decided."""
        for name in ("known_rate", "most_chance", "most_known_kept"):
            if not 0 < getattr(self, name) <= 1:
                raise InvalidInput(f"has to be above 0 and at most 1, got {getattr(self, name)}", field=name)
        if self.closed_book_samples < 0:
            raise InvalidInput("has to be 0 or more", field="closed_book_samples")
        if self.right_reads < 1:
            raise InvalidInput("has to be 1 or more", field="right_reads")


class DocumentReader(Protocol):
    """A model that answers from the documents it is given or, without any, from memory. It may say that it does not
    know.
    """

    async def answer(self, row: BundleQuestion, documents: Sequence[SourceDocument], sample: int) -> str | None:
        """Answer a question from these documents. `sample` is the number of the draw. Returns None when the reply was
        cut: then it is no answer, right or wrong.
        """
        ...


async def judge_question(
    row: BundleQuestion,
    item: BundleInput,
    reader: DocumentReader,
    config: BundleFilterConfig,
    scorer: AnswerScorer | None = None,
) -> list[Verdict]:
    """Return the verdicts of all filters that need no model, and then of those that do, up to the first that rejects.
    The reader is called only for questions that pass the filters without a model. The default `scorer` has no judge.
    """
    documents = {document.id: document for document in item.documents}
    verdicts = judge_unread(row, item.bundle, documents, since=config.since)
    used = [documents[name] for name in dict.fromkeys(hop.document_id for hop in row.hops) if name in documents]
    asked = MeasuredQuestion(row=row, reader=reader, config=config, scorer=scorer or AnswerScorer())
    for ask in (
        partial(closed_book, asked),
        partial(fewer_documents_suffice, asked, used),
        partial(not_answerable, asked, used),
    ):
        if not all(verdict.keep for verdict in verdicts):
            break
        verdicts.append(await ask())
    return verdicts


@dataclass(frozen=True, slots=True)
class ScoredReply:
    """A reader's reply and its score."""

    reply: str | None
    score: float | None
    """The score from 0 to 1; None when the reply was cut or the judge gave no verdict."""
    is_right: bool


@dataclass(slots=True, kw_only=True)
class MeasuredQuestion:
    """A question with the reader, the scorer and the limits by which it is measured."""

    row: BundleQuestion
    reader: DocumentReader
    config: BundleFilterConfig
    scorer: AnswerScorer
    is_guessing: bool = True
    """Whether the reader may be guessing. Once it says without documents that it does not know, its right replies from
    documents are no luck.
    """

    async def draw(self, documents: Sequence[SourceDocument], sample: int) -> ScoredReply:
        """Draw one reply from these documents and return it with its score."""
        reply = await self.reader.answer(self.row, documents, sample)
        if reply is None:
            return ScoredReply(None, None, False)
        score, by = await self.scorer.score(self.row, reply)
        return ScoredReply(reply, score, self.scorer.accepts(score, by))

    async def draws_until_wrong(
        self, documents: Sequence[SourceDocument], least: int = 1, *, guesses: bool = False
    ) -> list[ScoredReply]:
        """Draw replies until one is not right; where several options are correct, a right reply names all and no other.

        Drawing ends after as many right replies as guessing rarely gives, or after `right_reads` of a reader that says
        when it does not know. `least` is the minimal number of draws; `guesses` asks the reader to guess.
        """
        draws: list[ScoredReply] = []
        needed = right_draws_needed(guess_rate(self.row), self.config.most_chance)
        if not (self.is_guessing or guesses):
            needed = min(needed, self.config.right_reads)
        for sample in range(max(least, needed)):
            draws.append(await self.draw(documents, sample))
            if not draws[-1].is_right:
                break
        return draws


def unasked_question(fault: str) -> Verdict:
    """Reject a question that only somebody who has read its documents would ask. `fault` is what a model that sees the
    question alone says against it; empty when it would be asked.

    Score: 1 without a fault, else 0.
    """
    return Verdict(keep=not fault, reason="unasked_question", score=float(not fault), detail=fault)


def half_answers(fault: str) -> Verdict:
    """Reject a question for an explanation when what a single document says already answers it. `fault` is what a model
    says of that document's part; empty when no part is an answer by itself. Score: 1 without a fault, else 0.
    """
    return Verdict(keep=not fault, reason="half_answers", score=float(not fault), detail=fault)


async def closed_book(asked: MeasuredQuestion) -> Verdict:
    """Reject a question that the model answers without any document: it would not need a search (R-Search).

    Score: share of right draws, corrected for chance: (share - chance) / (1 - chance), 0 when negative. An answer is
    known when the score is `known_rate` or more, with as many right draws as guessing rarely gets. A draw of an
    explanation that has only part of the key facts is not right, but counts in the score for what it has. When the
    reader says in the first draw that it does not know, no other is made: a further draw rarely knows more.
    """
    config, chance = asked.config, guess_rate(asked.row)
    most = closed_book_draws(chance, config)
    needed = hits_needed(most, chance, config)
    enough_misses = most - needed + 1
    draws: list[ScoredReply] = []
    hits = misses = 0
    while hits < needed and misses < enough_misses and len(draws) < most:
        # The first alone, which settles most; then as many at once as it takes at least, whatever they say.
        count = min(needed - hits, enough_misses - misses, most - len(draws)) if draws else 1
        samples = range(len(draws), len(draws) + count)
        draws += await asyncio.gather(*(asked.draw((), sample) for sample in samples))
        hits = sum(draw.is_right for draw in draws)
        misses = sum(not draw.is_right and draw.score is not None for draw in draws)
        if len(draws) == 1 and is_abstention(draws[0].reply or ""):
            misses = enough_misses
    replies = [draw.reply for draw in draws if draw.reply is not None]
    asked.is_guessing = not replies or not all(map(is_abstention, replies))
    worth = sum(_score(draw) for draw in draws) if asked.row.type == "causal" else hits
    share = worth / (hits + misses) if hits + misses else 0.0
    detail = ""
    if hits >= needed:
        first = next(draw.reply for draw in draws if draw.is_right)
        detail = f"{hits} of {len(draws)} draws know it, as {first!r}"
    elif misses < enough_misses and most:
        detail = f"no verdict: {len(draws) - hits - misses} of {len(draws)} draws were cut or not judged"
    score = max(0.0, (share - chance) / (1 - chance))
    return Verdict(keep=not detail, reason="closed_book", score=round(score, 6), detail=detail)


async def not_answerable(asked: MeasuredQuestion, documents: Sequence[SourceDocument]) -> Verdict:
    """Reject a question that a model does not answer from all documents quoted by its hops. Score: that of the worst
    reply, 0 to 1.
    """
    draws = await asked.draws_until_wrong(documents, asked.config.right_reads if asked.row.options else 1)
    last = draws[-1]
    if last.is_right:
        return Verdict(keep=True, reason="not_answerable", score=min(_score(draw) for draw in draws))
    gold = ", ".join(asked.row.correct_options) if asked.row.options else asked.row.answer
    given = f"all documents give {last.reply!r} and not {gold!r}"
    detail = f"no verdict: {_why_none(last)} of all documents" if last.score is None else given
    return Verdict(keep=False, reason="not_answerable", score=_score(last), detail=detail)


async def fewer_documents_suffice(asked: MeasuredQuestion, documents: Sequence[SourceDocument]) -> Verdict:
    """Reject a question that one document alone answers or, with `leave_one_out`, that all documents but one answer.

    Of several correct options the answer is all of them and no other: who has a part of them has still to search.

    The reader gives what fits best there: a question whose answer a document lends itself to, since it tells of one
    thing of the kind, needs no second search.

    Score: how right the best of these smaller sets is, 0 to 1: the mean score of its replies. The document of the last
    hop is read first, as it most often gives the answer away; the first set that suffices, or was not read to an end,
    ends it.
    """
    best = 0.0
    for part in smaller_sets(tuple(reversed(documents)), leave_one_out=asked.config.leave_one_out):
        draws = await asked.draws_until_wrong(part, asked.config.right_reads, guesses=True)
        best = max(best, sum(_score(draw) for draw in draws) / len(draws))
        names, last = " and ".join(document.id for document in part), draws[-1]
        detail = f"{names} give it: {last.reply!r}" if last.is_right else ""
        if last.score is None:
            detail = f"no verdict: {_why_none(last)} of {names}"
        if detail:
            return Verdict(keep=False, reason="fewer_documents_suffice", score=round(best, 6), detail=detail)
    return Verdict(keep=True, reason="fewer_documents_suffice", score=round(best, 6))


def guess_rate(row: BundleQuestion) -> float:
    """Return the chance, 0 to 1, that a guess is right that knows the form of the answer: one option, or one of the
    sets of options that may be correct. It is 0 for open questions, but a half for a comparison that names its answer
    as one of two.
    """
    count = len(row.options)
    if not count:
        return 0.5 if names_two_sides(row) else 0.0
    if row.type == "single_choice":
        return 1 / count
    sizes = range(FEWEST_CORRECT, min(MOST_CORRECT, count - 1) + 1)
    return 1 / sum(comb(count, size) for size in sizes)


def right_draws_needed(chance: float, most_chance: float) -> int:
    """Return the least number of right replies in a row that guessing gives with a probability of at most
    `most_chance`; 1 where nobody can guess.
    """
    needed = 1
    while chance**needed > most_chance:
        needed += 1
    return needed


def hits_needed(samples: int, chance: float, config: BundleFilterConfig) -> int:
    """Return how many of `samples` draws must be right to show that a model knows the answer.

    This is the smallest number whose share, corrected for chance, is `known_rate` and which guessing reaches with a
    probability of at most `most_chance`; all of them when there is none.
    """
    for hits in range(1, samples + 1):
        rate = (hits / samples - chance) / (1 - chance)
        by_luck = sum(comb(samples, k) * chance**k * (1 - chance) ** (samples - k) for k in range(hits, samples + 1))
        if rate >= config.known_rate and by_luck <= config.most_chance:
            return hits
    return max(samples, 1)


def closed_book_draws(chance: float, config: BundleFilterConfig) -> int:
    """Return the maximal number of draws without documents: `closed_book_samples`, or more where a guess is right with
    the probability `chance`, so that questions whose answer the model knows are still detected.

    Guessing among four options rarely gets three of three right, and a model that knows the answer in seven of ten
    draws does so in less than half of all cases. Four of five are as rare for guessing, and more common for such a
    model.
    """
    samples = config.closed_book_samples
    right = _KNOWN + (1 - _KNOWN) * chance
    for draws in range(samples, _MOST_DRAWS + 1) if samples else ():
        hits = hits_needed(draws, chance, config)
        if _share_below(hits, draws, right) <= config.most_known_kept:
            return draws
    return samples


def _share_below(hits: int, draws: int, right: float) -> float:
    """How often fewer than so many of the draws are right."""
    return sum(comb(draws, k) * right**k * (1 - right) ** (draws - k) for k in range(hits))


def smaller_sets(
    documents: Sequence[SourceDocument], *, leave_one_out: bool = False
) -> list[tuple[SourceDocument, ...]]:
    """Return every single document and, with `leave_one_out`, every set that lacks one document: each set once."""
    sizes = dict.fromkeys((1, len(documents) - 1) if leave_one_out else (1,))
    return [part for size in sizes for part in combinations(documents, size) if 0 < size < len(documents)]


def _score(draw: ScoredReply) -> float:
    return draw.score or 0.0


def _why_none(draw: ScoredReply) -> str:
    return "the reading was cut" if draw.reply is None else "the judge gave none on the reading"
