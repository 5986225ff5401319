"""Limit how much an agent reads of each search to a number of tokens of its own tokenizer.

count = open_tokenizer("Qwen/Qwen2.5-7B-Instruct")
documents = BudgetedRetriever(documents, tokens=1024, count=count)        as many passages as fit, whatever is asked for
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from trailforge.protocols import passage_lines
from trailforge.retrieval import Retriever, first_sentences
from trailforge.schemas import InvalidInput, Passage, estimate_tokens, install_hint

CountTokens = Callable[[str], int]
"""Counts the tokens of a text."""

_USUAL_PASSAGE = 64
"""Tokens of a short one: how many are asked for first. If all of them fit, twice as many are, and so on."""
_MOST_PASSAGES = 1_000
"""Of a search; a search server gives no more."""
_COUNTED_TEXTS = 1 << 14


class SearchClock:
    """A clock for searches that leaves out the extra searches by which a `BudgetedRetriever` finds how many passages
    fit.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.spans: list[_Span] = []

    def stop(self, began: float, ended: float) -> None:
        """Add to the clock the seconds from `began` to `ended`, without those of the extra searches between them."""
        ends = sorted({began, ended, *(at for span in self.spans for at in span[:2] if began < at < ended)})
        for start, end in pairwise(ends):
            counted = [span.counts for span in self.spans if span.began <= start and end <= span.ended]
            self.seconds += end - start if not counted or any(counted) else 0.0


class _Span(NamedTuple):
    began: float
    ended: float
    counts: bool


_clock: ContextVar[SearchClock | None] = ContextVar("clock", default=None)


@contextmanager
def timing() -> Iterator[SearchClock]:
    """Measure how long everything retrieved within a `with` block takes, tasks that it starts included, as if it were
    one search.
    """
    clock, began = SearchClock(), time.perf_counter()
    token = _clock.set(clock)
    try:
        yield clock
    finally:
        _clock.reset(token)
        clock.stop(began, time.perf_counter())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Retrieves:
    """One search, which may retrieve several times. The longest counts: by what it asks or encodes others go faster."""

    retriever: Retriever
    query: str
    spans: list[tuple[float, float]] = field(default_factory=list)

    async def __call__(self, k: int) -> list[Passage]:
        began = time.perf_counter()
        try:
            return await self.retriever.retrieve(self.query, k)
        finally:
            self.spans.append((began, time.perf_counter()))

    def note(self) -> None:
        """Tell the clock, where there is one."""
        if (clock := _clock.get()) is not None and self.spans:
            longest = max(self.spans, key=lambda span: span[1] - span[0])
            clock.spans += [_Span(*span, counts=span is longest) for span in self.spans]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetedRetriever:
    """A retriever that returns another one's passages up to a number of tokens.

    Passages stay whole and in order. A first passage that is longer than the limit is cut after a sentence.
    """

    retriever: Retriever
    tokens: int
    count: CountTokens
    asks_once: bool = False
    """Whether each search is made once, as where it costs money: what is shown is then a beginning of what it found
    first.
    """

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """Return the passages for a query that fit the token limit; `k` is ignored.

        A back end may divide `k` between kinds of text, such as passages and reports. So the largest `k` is used whose
        results all fit, rather than the beginning of a longer list.
        """
        retrieve = _Retrieves(retriever=self.retriever, query=query)
        try:
            return await self._retrieve(retrieve)
        finally:
            retrieve.note()

    async def _retrieve(self, retrieve: _Retrieves) -> list[Passage]:
        most = min(max(4, self.tokens // _USUAL_PASSAGE), _MOST_PASSAGES)
        found = await retrieve(most)
        while not self.asks_once and len(found) == most < _MOST_PASSAGES and self._length(found) <= self.tokens:
            most = min(2 * most, _MOST_PASSAGES)
            found = await retrieve(most)
        if not found or self._length(found) <= self.tokens:
            return found
        fitting = self._beginning(found)
        shown = fitting if self.asks_once else await self._largest(retrieve, fitting, most)
        return shown or self._cut(found[0])

    async def _largest(self, retrieve: _Retrieves, fitting: list[Passage], most: int) -> list[Passage]:
        """What is found for the largest `k` below `most` that fits. `fitting`: a beginning that does, which that is
        unless kinds of texts have their shares."""
        low, high, best, k = 0, most, list[Passage](), len(fitting)
        while low < k < high:
            found = await retrieve(k)
            if found == fitting:
                return found
            if self._length(found) <= self.tokens:
                low, best = k, found
            else:
                high = k
            k = (low + high) // 2
        return best

    def _length(self, passages: Sequence[Passage]) -> int:
        return sum(map(self.count, passage_lines(passages)))

    def _beginning(self, passages: Sequence[Passage]) -> list[Passage]:
        room, kept = self.tokens, list[Passage]()
        for passage, line in zip(passages, passage_lines(passages), strict=True):
            room -= self.count(line)
            if room < 0:
                break
            kept.append(passage)
        return kept

    def _cut(self, passage: Passage) -> list[Passage]:
        """The longest beginning of a passage that fits; none where not even its title does."""
        low, high, best = 1, len(passage.text.split()), None
        while low <= high:
            words = (low + high) // 2
            tried = replace(passage, text=first_sentences(passage.text, words))
            fits = self._length([tried]) <= self.tokens
            best = tried if fits else best
            low, high = (words + 1, high) if fits else (low, words - 1)
        return [best] if best else []


def open_tokenizer(name: str) -> CountTokens:
    """Return a function that counts the tokens of a text by the tokenizer of this folder or name.

    Special tokens at the ends are not counted. Without a name the tokens are estimated. Raises `InvalidInput` for an
    unknown tokenizer, or when the package that reads it is missing.
    """
    if not name:
        return estimate_tokens
    try:
        tokenizer = load_tokenizer(name)
    except InvalidInput as error:
        raise InvalidInput(f"{error.problem}; --tokenizer names that of the agent's model", file=name) from error

    @lru_cache(_COUNTED_TEXTS)
    def count(text: str) -> int:
        return len(tokenizer(text, add_special_tokens=False)["input_ids"])

    return count


def load_tokenizer(name: str) -> Any:
    """Load a tokenizer of transformers, by its folder or name. Raises `InvalidInput` as `open_tokenizer` does."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise InvalidInput(f"tokenizers need the package transformers: {install_hint('train')}") from error
    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError, KeyError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InvalidInput(
            f"no tokenizer there ({first}); give the folder or name of a model that has one", file=name
        ) from error
