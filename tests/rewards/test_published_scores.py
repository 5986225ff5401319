"""The scores against ones that others computed: data set `metric_cases`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.truths import truth
from trailforge.rewards import cover_exact_match, exact_match, f1, mcts_reward
from trailforge.rewards.episode import REWARD_PRESETS, Episode, score_batch

Score = Callable[[str, Sequence[str]], float]


class Published(NamedTuple):
    """Counts over a whole file of `rows` predictions, of which the data set holds most."""

    rows: int
    exact: int
    covered: int


R1_SEARCHER = {
    "hotpotqa_llama": Published(500, 291, 317),
    "hotpotqa_qwen": Published(500, 288, 325),
    "2wiki_qwen": Published(500, 277, 320),
    "bamboogle_llama": Published(125, 55, 59),
    "bamboogle_qwen": Published(125, 57, 61),
}


def rows_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_natural_questions_as_published(data_dir: Path) -> None:
    rows = rows_of(data_dir / "metric_cases" / "nq500_predictions.jsonl.gz")
    expected = json.loads((data_dir / "metric_cases" / "nq500_expected.json").read_text())
    assert len(rows) == expected["count"]
    assert _mean(exact_match, rows) == pytest.approx(expected["em"], abs=5e-4)
    assert _mean(f1, rows) == pytest.approx(expected["f1"], abs=5e-4)


@pytest.mark.parametrize("name", R1_SEARCHER)
def test_counts_fit_the_whole_files(data_dir: Path, name: str) -> None:
    """The rows that are not in the data set can hold the difference, and no more."""
    rows = rows_of(data_dir / "metric_cases" / f"r1searcher_{name}.jsonl.gz")
    published = R1_SEARCHER[name]
    left_out = published.rows - len(rows)
    for score, whole in ((exact_match, published.exact), (cover_exact_match, published.covered)):
        count = sum(score(row["prediction"], [row["answer"]]) for row in rows)
        assert whole - left_out <= count <= whole


@pytest.mark.parametrize("name", R1_SEARCHER)
def test_what_we_call_right_the_judge_calls_right(data_dir: Path, name: str) -> None:
    """GPT-4o's verdict: one exact match in all five files is judged wrong, and at most 3 % of the MCTS rewards."""
    rows = rows_of(data_dir / "metric_cases" / f"r1searcher_{name}.jsonl.gz")
    exact = [row for row in rows if exact_match(row["prediction"], [row["answer"]])]
    assert sum(not row["judge"] for row in exact) == (name == "hotpotqa_llama")
    rewarded = [row for row in rows if mcts_reward(row["prediction"], [row["answer"]])]
    assert sum(not row["judge"] for row in rewarded) <= 0.03 * len(rewarded)


def test_presets_pay_what_was_published(data_dir: Path) -> None:
    """EM and F1 of the same file, as Search-R1, MSearcher and Graph-R1 pay them for flawless episodes."""
    rows = rows_of(data_dir / "metric_cases" / "nq500_predictions.jsonl.gz")
    expected = json.loads((data_dir / "metric_cases" / "nq500_expected.json").read_text())
    episodes = [
        Episode(
            answer=row["prediction"],
            is_well_formed=True,
            well_formed_turns=(True, True),
            num_searches=1,
            retrieved_titles=(),
            tokens=100,
        )
        for row in rows
    ]
    truths = [truth(target=tuple(row["gold"])) for row in rows]
    for name, published in (("search-r1", "em"), ("msearcher", "f1"), ("ragsearch", "f1")):
        paid = [reward.total for reward in score_batch(episodes, truths, REWARD_PRESETS[name])]
        assert sum(paid) / len(paid) == pytest.approx(expected[published], abs=5e-4)


def _mean(score: Score, rows: list[dict[str, Any]]) -> float:
    return sum(score(row["prediction"], row["gold"]) for row in rows) / len(rows)
