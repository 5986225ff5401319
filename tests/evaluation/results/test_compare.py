"""Two runs over the same questions, against scipy."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, bootstrap, chi2

from benchmarks._gaps import GapChange, compare_gaps
from tests.support.agent_episodes import episode
from trailforge.evaluation.results.compare import bootstrap_mean, compare_episodes, mcnemar, paired_bootstrap
from trailforge.evaluation.results.metrics import MEASURES
from trailforge.schemas import InvalidInput
from trailforge.schemas.agent_episode import AgentEpisode

COUNTS = st.integers(0, 40)


def pairs_of(both: int, only_first: int, only_second: int, neither: int) -> list[tuple[bool, bool]]:
    kinds = ((True, True), (True, False), (False, True), (False, False))
    counts = (both, only_first, only_second, neither)
    return [kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)]


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_mcnemar_is_scipy_s_binomial_test_and_chi_squared(both: int, first: int, second: int, neither: int) -> None:
    tested = mcnemar(pairs_of(both, first, second, neither))
    assert (tested.both, tested.only_first, tested.only_second, tested.neither) == (both, first, second, neither)
    unlike = first + second
    assert tested.exact == pytest.approx(binomtest(first, unlike).pvalue if unlike else 1.0)
    statistic = max(abs(first - second) - 1, 0) ** 2 / unlike if unlike else 0.0
    assert tested.statistic == pytest.approx(statistic)
    assert tested.corrected == pytest.approx(chi2.sf(statistic, 1))


def test_mcnemar_of_a_whole_test_set_is_exact_too() -> None:
    tested = mcnemar(pairs_of(5000, 2600, 2900, 3767))
    assert tested.exact == pytest.approx(binomtest(2600, 5500).pvalue, rel=1e-9)
    assert mcnemar([]).exact == mcnemar([]).corrected == 1.0


def test_a_table_worked_out_by_hand() -> None:
    """10 against 2: exact p = 2 (1 + 12 + 66) / 4096; chi-squared (8 - 1)² / 12."""
    tested = mcnemar(pairs_of(30, 10, 2, 8))
    assert tested.exact == 158 / 4096
    assert tested.statistic == 49 / 12


@pytest.mark.parametrize("confidence", [0.9, 0.95])
@pytest.mark.parametrize("kind", ["verdicts", "scores"])
def test_the_bootstrap_is_scipy_s(kind: str, confidence: float) -> None:
    """Ends of the interval differ by the draws alone: by less than a fifth of a standard error (five of its own)."""
    generator = np.random.default_rng(5)
    first, second = generator.random(300), generator.random(300) ** 0.8
    if kind == "verdicts":
        first, second = np.round(first), np.round(second)
    values = second - first
    theirs = bootstrap(
        (first, second),
        lambda one, other, axis: np.mean(other - one, axis=axis),
        paired=True,
        method="percentile",
        n_resamples=10_000,
        confidence_level=confidence,
        rng=np.random.default_rng(7),
    ).confidence_interval
    ours = paired_bootstrap(values.tolist(), confidence=confidence, seed=3)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.2 * values.std() / sqrt(300))


def test_an_interval_of_ninety_in_a_hundred_holds_the_truth_in_about_so_many() -> None:
    generator = np.random.default_rng(11)
    held = 0
    for seed in range(300):
        values = generator.normal(0.1, 1.0, 80)
        low, high = paired_bootstrap(values.tolist(), confidence=0.9, resamples=500, seed=seed)
        held += low <= 0.1 <= high
    assert 0.85 <= held / 300 <= 0.95


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), min_size=1, max_size=20), st.integers(0, 5))
def test_an_interval_lies_within_the_differences_and_is_drawn_again_the_same(values: list[float], seed: int) -> None:
    low, high = paired_bootstrap(values, resamples=200, seed=seed)
    assert min(values) <= low <= high <= max(values)
    assert (low, high) == paired_bootstrap(values, resamples=200, seed=seed)
    if len(set(values)) == 1:
        assert low == high == values[0]


def test_many_questions_are_drawn_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).random(50).tolist()
    at_once = paired_bootstrap(values, resamples=999)
    monkeypatch.setattr("trailforge.evaluation.results.compare._DRAWS_AT_ONCE", 120)
    assert paired_bootstrap(values, resamples=999) == at_once
    with pytest.raises(ValueError, match="no differences"):
        paired_bootstrap([])


def run(right: str, *, seeds: tuple[int, ...] = (0,), first: int = 0) -> list[AgentEpisode]:
    """A question a letter: `+` right, `-` wrong."""
    return [
        episode(f"q{n}", seed=seed, answer="Paris" if sign == "+" else "Rome")
        for seed in seeds
        for n, sign in enumerate(right, start=first)
    ]


def test_only_questions_in_both_are_compared_and_the_others_named() -> None:
    found = compare_episodes(run("+-+-"), run("+++-", first=1))
    assert (found.questions, found.only_in_first, found.only_in_second) == (3, ("set:q0",), ("set:q4",))
    right = found.differences["right"]
    assert (right.questions, right.first, right.second) == (3, pytest.approx(1 / 3), 1.0)
    assert right.difference == pytest.approx(2 / 3)
    assert (found.right.both, found.right.only_second) == (1, 2)
    assert set(found.not_compared) == {"judge", "supporting_recall", "answer_in_text"}


def test_order_of_rows_is_nothing_and_order_of_runs_turns_the_sign() -> None:
    first, second = run("++-+--+"), run("-++++-+")
    there = compare_episodes(first, second[::-1])
    assert there == compare_episodes(first, second)
    back = compare_episodes(second, first)
    assert back.differences["f1"].difference == -there.differences["f1"].difference
    assert (back.right.only_first, back.right.only_second) == (there.right.only_second, there.right.only_first)


def test_a_question_counts_once_whatever_its_seeds() -> None:
    first = [*run("+-"), *[each for seed in (1, 2) for each in run("--", seeds=(seed,))]]
    second = [*run("++", seeds=(0, 5)), *run("--", seeds=(6,))]
    found = compare_episodes(first, second)
    assert found.questions == found.differences["right"].questions == 2
    assert found.differences["right"].first == pytest.approx((1 / 3 + 0) / 2)
    assert found.differences["right"].second == pytest.approx(2 / 3)
    assert (found.right.both, found.right.only_first, found.right.only_second) == (0, 0, 2)
    assert (found.seeds_only_in_first, found.seeds_only_in_second) == ((1, 2), (5, 6))


def test_half_right_is_not_right() -> None:
    first = [*run("+"), *run("-", seeds=(1,))]
    assert compare_episodes(first, run("+")).right.only_second == 1


def test_a_measure_is_compared_where_both_know_it() -> None:
    first = [episode("a", scores={"judge": 1.0}), episode("b", scores={"judge": 0.0}), episode("c")]
    second = [episode("a", scores={"judge": 0.5}), episode("b"), episode("c", scores={"judge": 1.0})]
    judged = compare_episodes(first, second).differences["judge"]
    assert (judged.questions, judged.first, judged.second, judged.difference) == (1, 1.0, 0.5, -0.5)


def test_runs_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(InvalidInput, match="no question in common"):
        compare_episodes(run("+"), run("+", first=7))
    with pytest.raises(InvalidInput, match="another question in each run"):
        compare_episodes(run("+"), [replace(episode("q0"), question="Else?")])
    with pytest.raises(InvalidInput, match="one agent, back end and model at a time"):
        compare_episodes(run("+"), [*run("+"), *run("-")])


def test_a_gap_that_an_agent_closes_is_the_difference_of_two_differences() -> None:
    """Of four questions dense has 1 and graph 3 at once; with the agent dense has 3 and graph 4: from 2/4 to 1/4."""

    def run(right: str) -> list[AgentEpisode]:
        return [episode(name, answer="Paris" if name in right else "Rome") for name in "abcd"]

    change = compare_gaps((run("a"), run("abc")), (run("abc"), run("abcd")), MEASURES["right"])
    assert change is not None and change.questions == 4
    assert (change.before, change.after, change.change) == (0.5, 0.25, -0.25)
    per_question = np.array([0, -1, -1, 1])  # a: 0 -> 0, b and c: 1 -> 0, d: 0 -> 1
    assert change.change == per_question.mean()
    assert (change.low, change.high) == paired_bootstrap(per_question.tolist())
    assert (change.before_low, change.before_high) == paired_bootstrap([0, 1, 1, 0])
    assert (change.after_low, change.after_high) == paired_bootstrap([0, 0, 0, 1])


def test_gaps_are_compared_over_the_questions_of_which_all_four_know_the_measure() -> None:
    runs = [[episode(name, scores={"judge": 1.0}) for name in names] for names in ("abc", "bcd", "bce", "bcf")]
    change = compare_gaps((runs[0], runs[1]), (runs[2], runs[3]), MEASURES["judge"])
    assert change is not None and change.questions == 2
    runs[3] = [episode(name) for name in "bc"]
    assert compare_gaps((runs[0], runs[1]), (runs[2], runs[3]), MEASURES["judge"]) is None


def test_the_interval_of_a_mean_is_scipy_s_over_questions() -> None:
    right = {f"q{number}": [number % 3 == 0, number % 2 == 0] for number in range(80)}
    episodes = [
        episode(name, seed=seed, answer="Paris" if each else "Rome")
        for name, answers in right.items()
        for seed, each in enumerate(answers)
    ]
    means = np.array([sum(answers) / 2 for answers in right.values()])
    ours = bootstrap_mean(episodes, MEASURES["right"])
    theirs = bootstrap((means,), np.mean, method="percentile", rng=np.random.default_rng(1)).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=means.std() / sqrt(len(means)) / 5)


@pytest.mark.parametrize(
    ("before", "after", "change", "verdict"),
    [
        ((-0.1, 0.3), (0.0, 0.1), (-0.3, -0.1), "none"),
        ((0.1, 0.3), (0.0, 0.2), (-0.3, 0.1), "unclear"),
        ((0.1, 0.3), (-0.1, 0.2), (-0.3, -0.1), "narrows"),
        ((-0.3, -0.1), (-0.2, 0.1), (0.1, 0.3), "narrows"),
        ((0.1, 0.3), (-0.2, -0.1), (-0.5, -0.2), "turns"),
        ((-0.3, -0.1), (0.1, 0.2), (0.2, 0.5), "turns"),
        ((0.1, 0.3), (0.4, 0.6), (0.1, 0.3), "widens"),
        ((-0.3, -0.1), (-0.6, -0.4), (-0.4, -0.2), "widens"),
    ],
)
def test_what_the_intervals_say_of_a_gap(
    before: tuple[float, float], after: tuple[float, float], change: tuple[float, float], verdict: str
) -> None:
    found = GapChange(
        questions=9, before=fmean(before), before_low=before[0], before_high=before[1], after=fmean(after),
        after_low=after[0], after_high=after[1], change=fmean(change), low=change[0], high=change[1],
    )  # fmt: skip
    assert found.verdict == verdict
