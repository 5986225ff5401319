"""From what is seen of a transcript to what it is paid: every preset, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.truths import choice, truth
from trailforge.rewards.abstention import AbstentionConstants
from trailforge.rewards.dynasearcher import PAPER, DynaSearcherConstants
from trailforge.rewards.episode import (
    CONSTANTS,
    REWARD_PRESETS,
    Episode,
    RewardPreset,
    reward_preset,
    score,
    score_batch,
)
from trailforge.rewards.graph_r1 import GraphR1Constants
from trailforge.rewards.msearcher import MSearcherConstants
from trailforge.rewards.r_search import RSearchConstants
from trailforge.rewards.search_r1 import SearchR1Constants
from trailforge.schemas import GroundTruth, InvalidInput

FOUND = ("metropolis", "M", "Fritz  Lang (Director)")


def seen(**changes: Any) -> Episode:
    """A flawless episode of two searches with a right answer."""
    fields: dict[str, Any] = {
        "answer": "Vienna",
        "is_well_formed": True,
        "well_formed_turns": (True, True, True),
        "num_searches": 2,
        "retrieved_titles": FOUND,
        "plan": 1.0,
        "tokens": 900,
    }
    return Episode(**fields | changes)


def test_the_constants_are_the_papers() -> None:
    """Spelled out: a changed default is a changed paper."""
    assert {name: preset.constants for name, preset in REWARD_PRESETS.items()} == {
        "msearcher": MSearcherConstants(
            max_tokens=16_384, cache_tokens=4_096, format_penalty="floor_minus_one", malformed=-0.2, floor=-1.0
        ),
        "r-search": RSearchConstants(format_weight=0.25, dag_weight=0.25, answer_weight=0.5),
        "dynasearcher": DynaSearcherConstants(
            format_floor=0.1, length_ratio=3.0, gain_scale=0.5, penalty_floor=-0.2, penalty_decay=0.9,
            require_search=False, cover_characters=True,
        ),
        "ragsearch": GraphR1Constants(base=-1.0, pay_per_turn=0.5, most_pay=1.0),
        "search-r1": SearchR1Constants(structure=0.0, final=0.0),
        "abstention": AbstentionConstants(right=1.0, unknown=0.0, wrong=-0.1, malformed=-1.0),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("preset", "episode", "total", "parts"),
    [
        ("msearcher", seen(), 1.0, {"correct": 1.0, "length": 0.0, "format": 0.0}),
        ("msearcher", seen(answer="in Vienna"), 2 / 3, {"correct": 2 / 3, "length": 0.0, "format": 0.0}),
        ("msearcher", seen(tokens=14_336), 0.5, {"correct": 1.0, "length": -0.5, "format": 0.0}),
        ("msearcher", seen(tokens=None), 1.0, {"correct": 1.0, "length": None, "format": 0.0}),
        ("msearcher", seen(is_well_formed=False), -1.0, {"correct": 1.0, "length": 0.0, "format": -2.0}),
        ("r-search", seen(), 1.0, {"format": 1.0, "dag": 1.0, "answer": 1.0}),
        ("r-search", seen(plan=0.0), 0.75, {"format": 1.0, "dag": 0.0, "answer": 1.0}),
        ("r-search", seen(plan=None), 0.75, {"format": 1.0, "dag": 0.0, "answer": 1.0}),
        ("r-search", seen(is_well_formed=False, answer=""), 0.25, {"format": 0.0, "dag": 1.0, "answer": 0.0}),
        (
            "dynasearcher",
            seen(),
            1.5,
            {"r_acc": 1.0, "r_ans": 1.0, "r_recall": 1.0, "r_penalty": 0.0, "r_gain": 0.5},
        ),
        (
            "dynasearcher",
            seen(answer="Oslo", num_searches=3, retrieved_titles=("M", "Metropolis")),
            0.1 + 0.5 * (0.5 - 0.1),
            {"r_acc": 0.1, "r_ans": 0.0, "r_recall": 0.5, "r_penalty": 0.1, "r_gain": 0.2},
        ),
        (
            "dynasearcher",
            seen(is_well_formed=False),
            0.0,
            {"r_acc": 0.0, "r_ans": 1.0, "r_recall": 1.0, "r_penalty": 0.0, "r_gain": 0.0},
        ),
        ("ragsearch", seen(), 1.0, {"format": 1.0, "answer": 1.0}),
        ("ragsearch", seen(well_formed_turns=(True, False)), -0.5, {"format": 0.5, "answer": 1.0}),
        ("search-r1", seen(), 1.0, {"exact_match": 1.0, "format": 0.0}),
        ("search-r1", seen(answer="in Vienna"), 0.0, {"exact_match": 0.0, "format": 0.0}),
        ("search-r1", seen(answer="Wien", is_well_formed=False), 1.0, {"exact_match": 1.0, "format": 0.0}),
    ],
)
def test_presets(preset: str, episode: Episode, total: float, parts: dict[str, float | None]) -> None:
    reward = score(episode, truth(), REWARD_PRESETS[preset])
    assert reward.total == pytest.approx(total)
    assert reward.parts == {name: part if part is None else pytest.approx(part) for name, part in parts.items()}


@pytest.mark.parametrize(
    ("changes", "gain"), [({"num_hops": None}, 0.0), ({"num_hops": 0}, 0.0), ({"support_titles": ()}, 0.0)]
)
def test_without_gold_hops_or_documents_there_is_no_gain(changes: dict[str, Any], gain: float) -> None:
    assert score(seen(), truth(**changes), REWARD_PRESETS["dynasearcher"]).parts["r_gain"] == gain


def test_a_plan_that_was_mended_is_paid_unless_strict_ones_are_asked_for() -> None:
    mended, strict = seen(strict_plan=0.0), RewardPreset(name="mine", constants=RSearchConstants(strict_plan=True))
    assert score(mended, truth(), REWARD_PRESETS["r-search"]).parts["dag"] == 1.0
    assert score(mended, truth(), strict).parts["dag"] == 0.0
    assert score(seen(strict_plan=1.0), truth(), strict).parts["dag"] == 1.0


def test_naming_every_option_pays_nothing_but_by_the_papers_switch() -> None:
    asked = truth(target=("A, C",), answer_kind="options", options=("a", "b", "c", "d"), correct_options=("A", "C"))
    everything, papers = seen(answer="A, B, C and D"), RSearchConstants(pay_all_options=True)
    assert score(everything, asked, REWARD_PRESETS["r-search"]).parts["answer"] == 0.0
    paid = score(everything, asked, RewardPreset(name="papers", constants=papers)).parts["answer"]
    assert paid == pytest.approx(2 / 3)


def test_the_hole_of_the_gain_can_be_closed() -> None:
    lazy = seen(num_searches=0, retrieved_titles=())
    assert score(lazy, truth(), REWARD_PRESETS["dynasearcher"]).total == pytest.approx(1.1)
    closed = RewardPreset(name="mine", constants=DynaSearcherConstants())
    assert score(lazy, truth(), closed).total == 1.0


@pytest.mark.parametrize(
    ("answer", "f1", "exact"),
    [("A, C", 1.0, 1.0), ("C and A", 1.0, 1.0), ("A", 2 / 3, 0.0), ("A, B, C", 0.8, 0.0), ("B", 0.0, 0.0), ("", 0, 0)],
)
def test_choices_are_sets_of_letters_for_every_preset_that_takes_them(answer: str, f1: float, exact: float) -> None:
    """Words would not do: `a` is an article, which normalisation deletes."""
    episode = seen(answer=answer)
    parts = {name: score(episode, choice(), REWARD_PRESETS[name]).parts for name in REWARD_PRESETS.keys() - {PAID}}
    assert parts["msearcher"]["correct"] == parts["r-search"]["answer"] == parts["ragsearch"]["answer"]
    assert parts["msearcher"]["correct"] == pytest.approx(f1)
    assert parts["search-r1"]["exact_match"] == exact


PAID = "dynasearcher"


def test_dynasearcher_refuses_choices() -> None:
    with pytest.raises(InvalidInput, match="'answer_kind': the reward dynasearcher compares words"):
        score(seen(), choice(), REWARD_PRESETS[PAID])


# Judges


@pytest.mark.parametrize(("answer", "judge", "expected"), [("so", 0.7, 0.7), ("Vienna", 0.0, 0.0), ("", 1.0, 0.0)])
def test_a_judge_takes_the_place_of_f1(answer: str, judge: float, expected: float) -> None:
    reward = score(seen(answer=answer), truth(), REWARD_PRESETS["r-search"], judge=judge)
    assert reward.parts["answer"] == expected
    assert reward.total == pytest.approx(0.5 + 0.5 * expected)


def test_a_judge_that_nobody_listens_to_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="msearcher has no judge"):
        score(seen(), truth(), REWARD_PRESETS["msearcher"], judge=1.0)
    with pytest.raises(ValueError, match="judge_score"):
        score(seen(), truth(), REWARD_PRESETS["r-search"], judge=1.5)


# Names and kinds


def test_an_unknown_preset_gets_the_list_of_names() -> None:
    with pytest.raises(InvalidInput, match="no reward preset 'none'; there are msearcher, r-search, dynasearcher"):
        reward_preset("none")


def test_constants_say_of_which_kind_a_reward_is() -> None:
    assert RewardPreset(name="mine", constants=PAPER).kind == "dynasearcher"
    assert list(CONSTANTS) == ["msearcher", "r_search", "dynasearcher", "graph_r1", "search_r1", "abstention"]


# Many at once

ANSWERS = st.sampled_from(["Vienna", "Wien", "in Vienna", "Oslo", "A, C", "A", "the", ""])
EPISODES = st.builds(
    Episode,
    answer=ANSWERS,
    is_well_formed=st.booleans(),
    well_formed_turns=st.lists(st.booleans(), max_size=4).map(tuple),
    num_searches=st.integers(0, 12),
    retrieved_titles=st.lists(st.sampled_from([*FOUND, "Other"]), max_size=4).map(tuple),
    plan=st.sampled_from([None, 0.0, 1.0]),
    tokens=st.none() | st.integers(0, 20_000),
)
TRUTHS = st.builds(
    truth,
    num_hops=st.none() | st.integers(0, 5),
    support_titles=st.sampled_from([(), ("Metropolis",), ("M", "None")]),
    target=st.sampled_from([("Vienna", "Wien"), ("the",), ("Oslo",)]),
)
PAIRS = st.lists(st.tuples(EPISODES, TRUTHS, st.none() | st.floats(0, 1)), max_size=6)


@given(PAIRS, st.sampled_from(list(REWARD_PRESETS.values())))
def test_many_at_once_are_paid_as_one_by_one(
    rows: list[tuple[Episode, GroundTruth, float | None]], preset: RewardPreset
) -> None:
    episodes, truths, judges = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    takes = preset.kind == "r_search"
    expected = [score(e, t, preset, judge=j if takes else None) for e, t, j in rows]
    assert score_batch(episodes, truths, preset, judges=judges if takes else None) == expected


def test_lengths_have_to_agree() -> None:
    with pytest.raises(ValueError, match="zip"):
        score_batch([seen()], [], REWARD_PRESETS["msearcher"])


BOUNDS = {
    "msearcher": (-1.2, 1.0),
    "r-search": (0.0, 1.0),
    "dynasearcher": (-0.5, 1.6),
    "ragsearch": (-1.0, 1.0),
    "search-r1": (0.0, 1.0),
}


@given(EPISODES, TRUTHS.filter(lambda t: t.target != ("the",)), st.sampled_from(list(BOUNDS)))
def test_totals_stay_in_their_bounds_and_a_right_answer_is_never_paid_less(
    episode: Episode, against: GroundTruth, name: str
) -> None:
    low, high = BOUNDS[name]
    total = score(episode, against, REWARD_PRESETS[name]).total
    right = score(replace(episode, answer=against.target[0]), against, REWARD_PRESETS[name]).total
    assert low - 1e-9 <= total <= right + 1e-9 <= high + 1e-9
