"""Measure how many bundle questions pass all filters when the reader only guesses, and when it reads the documents.

No model is asked: readers go by rule (`tests/support/simulated_readers.py`) and answer in the prompts and at the
settings of a preset. Guesser: any answer that the form of the question allows, whatever it is shown. Reader: right
from all documents that a question needs, half of an explanation from fewer, and else a guess: among the options, among
four candidates in the last document, among fifty without it. Every question is sound. Columns: questions of all that
pass, and calls per question (closed book, reads, verdicts; not its share of the writing call).

    make bench B=question_readers
    make bench B=question_readers ARGS="--questions 500"
"""

from __future__ import annotations

import argparse
import asyncio

from rich.console import Console
from rich.table import Table

from tests.support.simulated_readers import passes, sound_case
from trailforge.generators.document_bundles import DATASET
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.pipelines.runs.config import read_config
from trailforge.presets import load_preset
from trailforge.schemas import BundleQuestionType

KINDS: tuple[tuple[BundleQuestionType, int], ...] = (
    ("factual", 0), ("causal", 0), ("single_choice", 4), ("single_choice", 5), ("multiple_choice", 5),
    ("multiple_choice", 6),
)  # fmt: skip


async def measure(
    kind: BundleQuestionType,
    options: int,
    documents: int,
    questions: int,
    config: BundleRunConfig,
    only_guesses: bool,
) -> tuple[float, float]:
    """Return the share of questions that pass, and the model calls per question."""
    results = [
        await passes(sound_case(n, kind, documents, options), config, only_guesses=only_guesses, seed=n)
        for n in range(questions)
    ]
    return sum(passed for passed, _ in results) / questions, sum(calls for _, calls in results) / questions


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=2000, help="of each kind and number of documents")
    parser.add_argument("--preset", default="r-search")
    given = parser.parse_args()
    config = read_config(BundleRunConfig, load_preset(given.preset, DATASET.name), source=given.preset)
    table = Table("type", "options", "documents", "guesser passes", "calls", "reader passes", "calls")
    for kind, options in KINDS:
        for documents in (2, 3, 4):
            cells = []
            for only_guesses in (True, False):
                share, calls = asyncio.run(measure(kind, options, documents, given.questions, config, only_guesses))
                cells += [f"{share:.3f}", f"{calls:.1f}"]
            table.add_row(kind, str(options or "-"), str(documents), *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
