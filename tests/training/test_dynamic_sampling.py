"""Groups without advantage: replaced by other questions' groups, and masked where no try helps."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.training.tiny import FACTS, Scripted, preset, retriever, rl_rows, searching
from trailforge.protocols.environment import Environment
from trailforge.training.trl.rl import limits_of, make_pay
from trailforge.training.trl.rollouts import TRIES, SearchRollouts

SIZE = 4


def only_first(text: str, number: int) -> str:
    """The first fact alone is answered now rightly, now wrongly."""
    return searching(text, number if FACTS[0][0] in text else 0)


@pytest.fixture
def opened() -> Iterator[list[SearchRollouts]]:
    """Rollouts to close."""
    made: list[SearchRollouts] = []
    yield made
    for each in made:
        each.close()


def rolled(
    opened: list[SearchRollouts], tokenizer: Any, prompts: list[str], *, rows: Any = None, dynamic: bool = True
) -> tuple[dict[str, Any], Scripted]:
    """What TRL gets for groups of these rows, and the generator."""
    generator = Scripted(tokenizer, only_first)
    recipe = preset()
    rollouts = SearchRollouts(
        rl_rows() if rows is None else rows,
        Environment(documents=retriever(), top_k=1),
        make_pay(recipe),
        protocol="react",
        tokenizer=tokenizer,
        limits=limits_of(recipe.rl),
        open_generator=lambda trainer: generator,
        dynamic_sampling=dynamic,
    )
    opened.append(rollouts)
    state, accelerator = SimpleNamespace(global_step=0), SimpleNamespace(process_index=0)
    trainer = SimpleNamespace(num_generations=SIZE, state=state, accelerator=accelerator, beta=0.0)
    return rollouts([uid for uid in prompts for _ in range(SIZE)], trainer), generator


def asked_of(result: dict[str, Any], tokenizer: Any) -> list[int]:
    """Which fact each group's prompt asks for."""
    prompts = [tokenizer.decode(ids) for ids in result["prompt_ids"][::SIZE]]
    return [next(place for place, fact in enumerate(FACTS) if fact[0] in prompt) for prompt in prompts]


def test_a_group_without_advantage_is_replaced(opened: list[SearchRollouts], tokenizer: Any) -> None:
    """By the one question that has one: prompt, tokens and rewards are that question's, and all is trained."""
    rows = rl_rows()[:2]
    result, generator = rolled(opened, tokenizer, ["1-0"], rows=rows)
    assert asked_of(result, tokenizer) == [0]
    assert result["episode_reward"] == [0.0, 1.0, 0.0, 1.0]
    assert all(sum(mask) for mask in result["env_mask"])
    assert result["episode_figures"][0]["groups_dropped"] == 0
    assert len(generator.asked) == 4  # a search and an answer, twice


def test_what_stays_without_advantage_is_masked(opened: list[SearchRollouts], tokenizer: Any) -> None:
    """One of two groups finds a better question; the other keeps its own, and counts in no mean over tokens."""
    result, _ = rolled(opened, tokenizer, ["1-0", "2-0"])
    groups = asked_of(result, tokenizer)
    assert sorted(groups)[0] == 0 and sorted(groups)[1] in (1, 2)
    for number, fact in enumerate(groups):
        masks = result["env_mask"][number * SIZE : (number + 1) * SIZE]
        assert all(bool(sum(mask)) == (fact == 0) for mask in masks)
    assert result["episode_figures"][0]["groups_dropped"] == 1


def test_tries_are_limited(opened: list[SearchRollouts], tokenizer: Any) -> None:
    """Of many questions without advantage so many are tried."""
    rows = [row for row in rl_rows(copies=8) if not row.uid.startswith("0-")]
    result, generator = rolled(opened, tokenizer, ["1-0"], rows=rows)
    assert len(generator.asked) == 2 * (1 + TRIES)
    assert asked_of(result, tokenizer) == [1]
    assert not any(map(sum, result["env_mask"]))


def test_without_it_groups_stay_as_they_are(opened: list[SearchRollouts], tokenizer: Any) -> None:
    """Nothing is masked or made anew; the same question gives the same episodes again."""
    result, generator = rolled(opened, tokenizer, ["1-0", "0-0"], dynamic=False)
    assert asked_of(result, tokenizer) == [1, 0]
    assert len(generator.asked) == 2
    assert all(sum(mask) for mask in result["env_mask"])
    assert result["logprobs"] is None
    again, _ = rolled(opened, tokenizer, ["1-0", "0-0"], dynamic=False)
    assert again["completion_ids"] == result["completion_ids"]
