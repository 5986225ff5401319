"""Which retrieval back end shows most of what multi-hop questions rest on, by passages and by tokens, and how fast?

The paragraphs of all questions of a set are one corpus; asked are the questions that rest on two paragraphs or more.
Each is searched for once, without a language model, and what comes is shown as to an agent: the first k passages, and
as many as fit into so many tokens. Recall: the share of a question's supporting paragraphs that what is shown is or was
made from; a summary is one passage and counts for all of its sources, as in evaluations (`metrics.find_supporting`).
Answer in text: whether a line of what is shown states a gold answer, where one can be stated. In brackets are 95 %
intervals, for which the questions are drawn again. Seconds of a build and milliseconds of a query are of CPU, in one
thread, and without encoding, but for texts that a query has encoded besides itself.

    make bench B=backends ARGS="--backends dense,bm25,hybrid,linear_rag --cache FOLDER --out table.md"
    make bench B=backends ARGS="--backends linear_rag --sets musique --half tune --grid linear_rag.threshold=.3,.4,.5"

Of the questions, drawn by a fixed seed, 125 of a set are the half `tune`, on which constants were chosen, and 125
`test`. `--cache` keeps corpora and vectors: `SET/passages.jsonl`, `SET/questions.jsonl` and `SET/encoded.npy`.
$TRAILFORGE_DATA holds the question files.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from _corpora import FILES, Asked, KeptEncoder, QuestionSet
from threadpoolctl import threadpool_limits

from trailforge.evaluation.agents.reading_budget import BudgetedRetriever, CountTokens, open_tokenizer
from trailforge.protocols.base import passage_lines
from trailforge.retrieval.backends import BACKENDS, BackendRetriever, Workbench, load_backend
from trailforge.retrieval.backends.declaration import MadePassage
from trailforge.rewards.targets import state_gold
from trailforge.schemas import Passage

_RESAMPLES = 10_000
_HEAD = (
    "| back end | recall at {k} | answer in text | tokens | recall in {n} tokens | answer in text | tokens | passages "
    "| over {first} at {k} | in {n} tokens | build, CPU s | texts encoded, thousand | query, CPU ms p50 / p99 |"
)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a back end's searches showed, as lists with one number for each question."""

    recall: np.ndarray
    """0 to 1."""
    answer: np.ndarray
    """1.0 where the answer is stated, else 0.0; NaN where it cannot be, as yes and no."""
    tokens: np.ndarray
    passages: np.ndarray


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of one back end on one question set: recall, tokens and seconds."""

    by_passages: Shown
    by_tokens: Shown
    build: float
    """Seconds of CPU without encoding."""
    encoded: int
    """Texts, for the build."""
    queries: np.ndarray
    """Milliseconds of CPU of each search for k passages, without its encoding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The limit on what a search may show an agent: a number of passages or of tokens."""

    passages: int
    tokens: int
    count: CountTokens


async def measure(
    backend: str, config: Any, corpus: QuestionSet, half: str, encoder: KeptEncoder, room: Room
) -> Figures:
    """Build the back end's index over a corpus, ask the questions of one half of it, and return the figures."""
    encoder.seconds, encoder.texts = 0.0, 0
    begun = time.process_time()
    index = await load_backend(backend).build(corpus.passages, config, Workbench(encoder=encoder))
    build, encoded = time.process_time() - begun - encoder.seconds, encoder.texts
    encoder.save()
    asked = [each for each in corpus.questions if half in (each.half, "all")]
    for each in asked:
        encoder.encode_query(each.question)
    plain = BackendRetriever(index, corpus.passages)
    fitting = BudgetedRetriever(retriever=plain, tokens=room.tokens, count=room.count)
    await plain.retrieve(asked[0].question, room.passages)
    took, first, filling = list[float](), list[list[Passage]](), list[list[Passage]]()
    with threadpool_limits(1):
        for each in asked:
            begun = time.process_time()
            first.append(await plain.retrieve(each.question, room.passages))
            took.append(1e3 * (time.process_time() - begun))
            filling.append(await fitting.retrieve(each.question, room.passages))
    encoder.save()
    return Figures(_read(asked, first, room), _read(asked, filling, room), build, encoded, np.array(took))


def _read(asked: Sequence[Asked], found: Sequence[Sequence[Passage]], room: Room) -> Shown:
    lines = [passage_lines(each) for each in found]
    stated = [state_gold(shown, each.golds) for each, shown in zip(asked, lines, strict=True)]
    return Shown(
        recall=np.array([share_found(each.supporting, shown) for each, shown in zip(asked, found, strict=True)]),
        answer=np.array([np.nan if each is None else float(each) for each in stated]),
        tokens=np.array([sum(map(room.count, shown)) for shown in lines]),
        passages=np.array([len(each) for each in found]),
    )


def share_found(supporting: frozenset[str], found: Sequence[Passage]) -> float:
    """Return the share of the supporting documents that are among the passages found, or among the sources these were
    made from.
    """
    ids = {each.id for each in found}
    ids |= {id for each in found if isinstance(each, MadePassage) for id, _ in each.sources}
    return len(supporting & ids) / len(supporting)


def interval(numbers: np.ndarray) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean of these numbers."""
    drawn = np.random.default_rng(0).integers(0, len(numbers), (_RESAMPLES, len(numbers)))
    low, high = np.percentile(numbers[drawn].mean(axis=1), (2.5, 97.5))
    return float(low), float(high)


def _points(shares: np.ndarray, sign: str = "") -> str:
    """In percent, with an interval, of the questions that have a share."""
    known = 100 * shares[~np.isnan(shares)]
    low, high = interval(known)
    return f"{known.mean():{sign}.1f} [{low:.1f}, {high:.1f}]"


def describe(name: str, figures: Figures, first: Figures) -> str:
    """Return one row of the table; `first` holds the figures of the back end that others are compared with."""
    plain, fitting = figures.by_passages, figures.by_tokens
    gains = ["", ""]
    if figures is not first:
        pairs = (plain, first.by_passages), (fitting, first.by_tokens)
        gains = [_points(own.recall - other.recall, "+") for own, other in pairs]
    middle, last = np.percentile(figures.queries, (50, 99))
    cells = [
        *(name, _points(plain.recall), _points(plain.answer), f"{fmean(plain.tokens):,.0f}"),
        *(_points(fitting.recall), _points(fitting.answer), f"{fmean(fitting.tokens):,.0f}"),
        *(f"{fmean(fitting.passages):.1f}", *gains),
        *(f"{figures.build:.1f}", f"{figures.encoded / 1000:.1f}", f"{middle:.1f} / {last:.1f}"),
    ]
    return f"| {' | '.join(cells)} |"


def _configs(backend: str, grid: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The default, and the default with each value of a grid for this back end."""
    default = load_backend(backend).config()
    yield backend, default
    for each in grid:
        where, _, values = each.partition("=")
        name, _, fields = where.partition(".")
        if name == backend:
            names = fields.split("+")
            for value in values.split(","):
                parts = [ast.literal_eval(part) for part in value.split("+")]
                yield f"{backend}, {fields} {value}", replace(default, **dict(zip(names, parts, strict=True)))


async def _table(given: argparse.Namespace) -> list[str]:
    lines: list[str] = []
    room = Room(passages=given.top_k, tokens=given.context_tokens, count=open_tokenizer(given.tokenizer))
    backends = given.backends.split(",")
    for name in given.sets.split(","):
        corpus = QuestionSet.read(name, given.cache)
        encoder = KeptEncoder(given.cache / name if given.cache else None, corpus.passages)
        asked = sum(given.half in (each.half, "all") for each in corpus.questions)
        lines += ["", f"**{name}**: {len(corpus.passages):,} passages, {asked} questions (`{given.half}`)", ""]
        lines += [_HEAD.format(k=given.top_k, n=f"{given.context_tokens:,}", first=backends[0]), "|---" * 13 + "|"]
        first = None
        for backend in backends:
            for label, config in _configs(backend, given.grid):
                figures = await measure(backend, config, corpus, given.half, encoder, room)
                first = first or figures
                lines.append(describe(label, figures, first))
                print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure the back ends that the options name, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", default="dense,bm25,hybrid,linear_rag", help=f"of {', '.join(BACKENDS)}")
    parser.add_argument("--sets", default=",".join(FILES))
    parser.add_argument("--half", default="all", choices=("tune", "test", "all"))
    parser.add_argument("--top-k", type=int, default=5)
    parser.add_argument("--context-tokens", type=int, default=1000)
    parser.add_argument("--tokenizer", default="", help="folder or name; without one tokens are estimated")
    parser.add_argument("--grid", action="append", default=[], metavar="BACKEND.FIELD=VALUE,VALUE")
    parser.add_argument("--cache", type=Path, help="folder that keeps corpora and vectors")
    parser.add_argument("--out", type=Path, help="Markdown file")
    given = parser.parse_args()
    text = "\n".join(asyncio.run(_table(given)))
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
