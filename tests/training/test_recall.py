"""Recall of supporting documents as training scores it: by title, by words, by the encoder of the recipe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.turns import answer_turn, result_turn
from tests.training.tiny import truth
from trailforge.protocols import KG_SEARCH
from trailforge.protocols.environment import EnvironmentConfig
from trailforge.protocols.turns import Search, Turn
from trailforge.rewards.dynasearcher import PAPER
from trailforge.rewards.episode import RewardPreset
from trailforge.schemas import ChatMessage, Passage
from trailforge.training import scoring
from trailforge.training.scoring import Scorer, ToScore

GOLD = "Fritz Lang was born in Vienna in 1890 and died in Beverly Hills."
PAGE = "Vienna is where the director Lang came into the world."
MINILM = EnvironmentConfig(kind="dense", encoder="minilm", passage_prefix="passage: ")
TRUTH = replace(
    truth("Vienna", "kg_search"),
    num_hops=1,
    support_titles=("Fritz Lang",),
    support_texts=(GOLD,),
    reward_preset="none",
)


class Near:
    """An encoder that finds all texts equally near, and notes how it was opened."""

    opened: list[tuple[str, ...]]

    def __init__(self, *names: str) -> None:
        self.opened.append(names)

    def similarity(self, one: str, other: str) -> float:
        assert (one, other) == (GOLD, PAGE)
        return 0.85


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    Near.opened = []
    monkeypatch.setattr(scoring, "_open_encoder", Near)
    return Near.opened


def paid(text: str, threshold: float, search: EnvironmentConfig | None, **known: Any) -> float | None:
    """The recall of an episode that found one page."""
    ask = KG_SEARCH.render_turn(Turn(thought="Look.", search=Search(query="Where was Lang born?")))
    found = result_turn(KG_SEARCH, [Passage(id="0", title="A page", text=text, score=1.0)])
    messages = [
        ChatMessage(role="assistant", content=ask),
        ChatMessage(role="tool", content=found),
        ChatMessage(role="assistant", content=answer_turn(KG_SEARCH, "So.", "Vienna")),
    ]
    preset = RewardPreset(name="mine", constants=replace(PAPER, recall_similarity=threshold))
    scorer = Scorer(preset=preset, protocol="kg_search", search=search)
    pending = scorer.begin(ToScore(messages=messages, truth=TRUTH, **known))
    return pending.reward().parts["r_recall"]


@pytest.mark.parametrize(("threshold", "recall"), [(0.8, 1.0), (0.9, 0.0)])
def test_below_one_the_recipes_encoder_is_asked(opened: list[tuple[str, ...]], threshold: float, recall: float) -> None:
    assert paid(PAGE, threshold, MINILM) == recall
    assert set(opened) == {("minilm", "", "passage: ", "cpu")}


def test_without_an_encoder_or_at_one_words_decide(opened: list[tuple[str, ...]]) -> None:
    assert paid(PAGE, 1.0, MINILM) == paid(PAGE, 0.8, None) == paid(PAGE, 0.8, EnvironmentConfig(kind="bm25")) == 0.0
    assert paid(f"Of him: {GOLD}", 1.0, None) == 1.0
    assert opened == []


def test_what_was_measured_before_is_not_measured_again(opened: list[tuple[str, ...]]) -> None:
    assert paid(PAGE, 0.8, MINILM, nearest=(0.9,)) == 1.0
    assert paid(PAGE, 0.8, MINILM, nearest=(0.7,)) == 0.0
    assert opened == []
