"""An answer that equals its gold answer is right, by every measure and in every paper's reward.

Gold answers of articles or signs alone are known from evaluators' trackers: github.com/stanford-crfm/helm/pull/4315
("A", "An"), OpenBMB/UltraRAG/issues/509 (a gold "A" that every answer covered), stanfordnlp/dspy/pull/10066 ("...",
which is no vote). They are letters of options, blood groups, bands, operators, marks of other scripts.
"""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import Literal, get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.truths import truth
from trailforge.rewards import cover_exact_match, exact_match, f1, mcts_reward, mentions, same_answer
from trailforge.rewards.dynasearcher import DynaSearcherConstants, r_ans
from trailforge.rewards.episode import REWARD_PRESETS, Episode, score_batch
from trailforge.rewards.r_search import answer_reward

Form = Literal["NFC", "NFD"]
FORMS: tuple[Form, ...] = get_args(Form)
EMPTIED = ["A", "An", "The", "The The", "The A", "a an the", "!!!", "%", "+", "-", "...", "?", "A.", "The!", "$", "&"]
OTHERS = [
    "。",
    "「」",
    "…",
    "¿?",
    "→",
    "½",
    "Я",
    "東京",
    "น้ำ",
    "हिन्दी",
    "İzmir",
    "ΐ",
    "ﬁ",
    "Å",
    "e\u0301",
    "\u0301",
    "à",
    "É.",
    "'n'",
    "≠",
]
VISIBLE = st.text(min_size=1, max_size=20) | st.lists(
    st.sampled_from([*EMPTIED, *OTHERS, "Oslo", "not", "unknown", "or", "yes", "no", "1,5"]), min_size=1, max_size=4
).map(" ".join)


def is_visible(text: str) -> bool:
    return any(unicodedata.category(sign)[0] not in "CZ" for sign in text)


def answer_scores(answer: str, gold: str) -> dict[str, float]:
    """Every measure of an answer."""
    return {
        "EM": exact_match(answer, [gold]),
        "F1": f1(answer, [gold]),
        "cover": cover_exact_match(answer, [gold]),
        "cover by words": cover_exact_match(answer, [gold], word_boundary=True),
        "right": mcts_reward(answer, [gold]),
        "R-Search": answer_reward(answer, golds=[gold]),
        "DynaSearcher": r_ans(answer, [gold]),
        "DynaSearcher, paper": r_ans(answer, [gold], DynaSearcherConstants(cover_characters=True)),
    }


def paid(answer: str, gold: str) -> dict[str, float]:
    """What each preset pays a flawless episode with this answer."""
    episode = Episode(
        answer=answer,
        is_well_formed=True,
        well_formed_turns=(True, True),
        num_searches=1,
        retrieved_titles=(),
        plan=1.0,
    )
    asked = replace(truth(), target=(gold,))
    return {name: score_batch([episode], [asked], preset)[0].total for name, preset in REWARD_PRESETS.items()}


FULL = paid("Oslo", "Oslo")


def check_is_right(answer: str, gold: str) -> None:
    assert set(answer_scores(answer, gold).values()) == {1.0}, answer_scores(answer, gold)
    assert paid(answer, gold) == FULL


@pytest.mark.parametrize("gold", [*EMPTIED, *OTHERS])
def test_gold_answers_without_words_are_right(gold: str) -> None:
    for form in FORMS:
        answer = f" {unicodedata.normalize(form, gold)}\n"
        check_is_right(answer, gold)
    assert mentions(gold, gold)


@given(VISIBLE, st.sampled_from(FORMS), st.sampled_from(FORMS), st.sampled_from(["", " ", "\n\t "]))
def test_the_gold_answer_is_right_by_every_measure(text: str, form: Form, other: Form, space: str) -> None:
    assume(is_visible(text))
    gold, answer = unicodedata.normalize(form, text), space + unicodedata.normalize(other, text) + space
    check_is_right(answer, gold)
    assert same_answer(answer, gold) and same_answer(gold, answer)


@pytest.mark.parametrize("one", EMPTIED)
@pytest.mark.parametrize("other", [*EMPTIED, "B", "C", "D", "Paris", "th", "A plane", "5%", ""])
def test_what_is_emptied_is_no_other_answer(one: str, other: str) -> None:
    if one != other:
        for answer, gold in ((one, other), (other, one)):
            assert set(answer_scores(answer, gold).values()) == {0.0}, answer_scores(answer, gold)
