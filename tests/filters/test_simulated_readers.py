"""Guessers are parted from readers at the production preset's settings. Long form: `benchmarks/question_readers.py`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.simulated_readers import passes, sound_case, without_judge
from trailforge.generators.document_bundles import DATASET
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.pipelines.runs.config import read_config
from trailforge.presets import load_preset
from trailforge.schemas import BundleQuestionType

CASES: list[tuple[BundleQuestionType, int]] = [
    ("single_choice", 4), ("single_choice", 5), ("multiple_choice", 5), ("multiple_choice", 6),
]  # fmt: skip
OPEN: list[tuple[BundleQuestionType, int]] = [("factual", 0), ("causal", 0)]


def preset() -> BundleRunConfig:
    return read_config(BundleRunConfig, load_preset("r-search", DATASET.name), source="r-search")


async def share_that_passes(
    kind: BundleQuestionType, options: int, documents: int, *, only_guesses: bool, config: BundleRunConfig
) -> float:
    cases = [sound_case(number, kind, documents, options) for number in range(100)]
    passed = [
        (await passes(case, config, only_guesses=only_guesses, seed=number))[0] for number, case in enumerate(cases)
    ]
    return sum(passed) / len(passed)


@pytest.mark.parametrize(("kind", "options"), CASES)
async def test_who_only_guesses_passes_no_more_than_two_in_a_hundred_choices(
    kind: BundleQuestionType, options: int
) -> None:
    config = preset()
    shares = [
        await share_that_passes(kind, options, documents, only_guesses=True, config=config) for documents in (2, 3, 4)
    ]
    # At a true rate of 0.015 more than 12 of 300 come up once in a thousand times, and so do more than 6 of 100.
    assert sum(shares) / 3 <= 0.04 and max(shares) <= 0.06


async def test_a_guesser_would_pass_where_one_right_answer_is_enough() -> None:
    config = preset()
    careless = replace(config, filters=replace(config.filters, most_chance=1.0, right_reads=1))
    assert await share_that_passes("single_choice", 4, 2, only_guesses=True, config=careless) > 0.08


@pytest.mark.parametrize("documents", [2, 4])
@pytest.mark.parametrize(("kind", "options"), [*CASES, *OPEN])
async def test_who_knows_his_documents_passes_nine_in_ten_questions_of_every_type(
    kind: BundleQuestionType, options: int, documents: int
) -> None:
    assert await share_that_passes(kind, options, documents, only_guesses=False, config=preset()) >= 0.9


async def test_explanations_pass_by_their_key_facts_where_no_judge_is_asked() -> None:
    assert await share_that_passes("causal", 0, 3, only_guesses=False, config=without_judge(preset())) >= 0.9
    assert await share_that_passes("causal", 0, 3, only_guesses=True, config=without_judge(preset())) == 0
