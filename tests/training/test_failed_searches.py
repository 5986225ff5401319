"""Searches that fail or hang: their episodes end and do not count, the others and the step go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.rolled_out import rolled_out
from tests.support.turns import answer_turn, plan_turn, search_turn
from tests.training.tiny import FACTS, Scripted, preset, retriever, rl_rows, training_set
from trailforge.protocols import R_SEARCH, REACT, nl_dag
from trailforge.protocols.environment import Environment
from trailforge.retrieval.base import SearchPatience
from trailforge.schemas import Passage, PlanNode, RetrievalError
from trailforge.training.adapters import search_episodes
from trailforge.training.adapters.search_episodes import SearchSettings, known_of, logprobs_of, search_episode
from trailforge.training.generation import Continuation
from trailforge.training.token_episodes import RolloutLimits, TokenEpisode
from trailforge.training.trl.rl import train_rl

PATIENCE = SearchPatience(timeout_s=1.0, attempts=2, backoff_s=0.01)
FAILS, HANGS = 3, 5
"""Numbers of the episodes whose searches do."""
LIMITS = RolloutLimits(max_tokens=1500, max_observation_tokens=300, max_searches=3)


class Shaky:
    """Searches the sample, but for two of the episodes, which stand in their queries."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        self.asked.append(query)
        if query.endswith(f" by {FAILS}"):
            raise ConnectionError("the line is down")
        if query.endswith(f" by {HANGS}"):
            await asyncio.Event().wait()
        return await retriever().retrieve(query, k)


def numbered() -> Callable[[str, int], str]:
    """A script whose first turns search with their numbers, and whose second ones answer, every other one rightly."""

    def script(text: str, number: int) -> str:
        _, answer, query = next(fact for fact in FACTS if fact[0] in text)
        if "<tool_response>\n" not in text:
            return search_turn(REACT, "Look it up.", f"{query} by {number}")
        return answer_turn(REACT, "It says so.", answer if number % 2 else "nobody")

    return script


def failed_of(episodes: Sequence[TokenEpisode]) -> list[int]:
    """Which did, all of whose tokens are out of the loss."""
    assert all(len(each.ids) == len(each.mask) == len(each.logprobs) > 0 for each in episodes)
    assert all(bool(sum(each.mask)) != each.failed for each in episodes)
    return [number for number, each in enumerate(episodes) if each.failed]


def test_one_of_sixteen_searches_fails_and_one_hangs_and_fourteen_episodes_count(tokenizer: Any) -> None:
    shaky = Shaky()
    environment = Environment(documents=shaky, top_k=1, patience=PATIENCE)
    prompts = [row.prompt for row in rl_rows(copies=4)]
    episodes = rolled_out(
        prompts,
        "react",
        environment,
        generator=Scripted(tokenizer, numbered(), -0.5),
        tokenizer=tokenizer,
        limits=LIMITS,
    )
    assert failed_of(episodes) == [FAILS, HANGS]
    failed, hung = (episodes[number] for number in (FAILS, HANGS))
    assert "ConnectionError: the line is down" in failed.run.error and "within 1 s" in hung.run.error
    for each in (failed, hung):
        assert each.run.num_searches == 0 and each.messages[-1].role == "assistant" and not each.run.answer
        assert not any(each.logprobs)
    assert {each.run.stop for each in episodes if not each.failed} == {"answered"}
    assert len(shaky.asked) == 16 + 2  # each of the two is tried again


def test_trl_leaves_failed_episodes_out_of_loss_and_advantage(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the tensors of one step of its own trainer: two groups of eight, each with one that failed."""
    from trl.trainer.grpo_trainer import GRPOTrainer

    seen: list[dict[str, Any]] = []
    own: Callable[..., Any] = GRPOTrainer._compute_loss

    def spy(self: Any, model: Any, inputs: dict[str, Any]) -> Any:
        seen.append(inputs)
        return own(self, model, inputs)

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", spy)
    monkeypatch.setattr(f"{__name__}.HANGS", 12)
    step = {"prompts_per_step": 2, "samples": 8, "mini_batch": 16, "per_device": 16}
    train_rl(
        training_set(tmp_path / "set", rl=rl_rows()),
        preset(rl=step),
        tmp_path / "out",
        environment=Environment(documents=Shaky(), top_k=1, patience=PATIENCE),
        base_model=str(tiny_model),
        max_steps=1,
        open_generator=lambda trainer: Scripted(trainer.processing_class, numbered()),
    )
    (inputs,) = seen
    trained = (inputs["completion_mask"] * inputs["tool_mask"]).sum(1) > 0
    advantages = inputs["advantages"].flatten()
    assert int((~trained).sum()) == 2 and not advantages[~trained].any()
    assert advantages[trained].all()  # above or below the mean of seven
    assert float(advantages.sum()) == pytest.approx(0.0, abs=1e-3)
    (log,) = (tmp_path / "out" / "curves.csv").read_text().splitlines()[1:]
    header = (tmp_path / "out" / "curves.csv").read_text().splitlines()[0].split(",")
    assert float(dict(zip(header, log.split(","), strict=True))["episodes/failed"]) == 2 / 16


async def test_the_core_of_verl_and_slime_goes_on_with_fourteen_of_sixteen(
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = Environment(documents=Shaky(), top_k=1, patience=PATIENCE)
    monkeypatch.setattr(search_episodes, "open_training_environment", lambda *args, **options: environment)
    settings = SearchSettings(documents=("made up for this test",), kind="bm25", patience=PATIENCE)
    script = numbered()

    async def episode(number: int, row: Any) -> TokenEpisode:
        async def go_on(ids: list[int], room: int, stop: Sequence[str], end_ids: Collection[int]) -> Continuation:
            made = tokenizer.encode(script(tokenizer.decode(ids), number), add_special_tokens=False)
            return Continuation(made, [-0.5] * len(made))

        return await search_episode(row.prompt, "react", settings, go_on=go_on, tokenizer=tokenizer, max_tokens=1500)

    episodes = await asyncio.gather(*(episode(number, row) for number, row in enumerate(rl_rows(copies=4))))
    assert failed_of(episodes) == [FAILS, HANGS]
    known = known_of(episodes[FAILS])
    assert known["stop"] == "failed" and "the line is down" in known["error"]
    assert logprobs_of(episodes[FAILS]) == [0.0] * len(episodes[FAILS].ids)


async def test_a_plan_fails_when_none_of_its_nodes_found_anything(tokenizer: Any) -> None:
    """One node that fails is told to the agent, as when data is made."""

    def plan(*numbers: int) -> str:
        nodes = tuple(PlanNode(node_id=f"N{n}", query=f"Webb by {n}", tool="General") for n in numbers)
        return plan_turn("a", nl_dag.SearchPlan(nodes=nodes, edges=()))

    async def played(*numbers: int) -> TokenEpisode:
        def script(text: str, number: int) -> str:
            return answer_turn(R_SEARCH, "", "b") if "</result><|im_end|>" in text else plan(*numbers)

        environment = Environment(plan_tools={"General": Shaky()}, top_k=1, patience=PATIENCE)
        generator, prompt = Scripted(tokenizer, script), rl_rows("r_search")[0].prompt
        (episode,) = await asyncio.to_thread(
            rolled_out, [prompt], "r_search", environment, generator=generator, tokenizer=tokenizer, limits=LIMITS
        )
        return episode

    one, all_of_them = await played(1, FAILS, HANGS), await played(FAILS, HANGS)
    assert one.run.stop == "answered" and one.messages[3].content.count("The search failed.") == 2
    assert all_of_them.run.stop == "failed" and "the line is down" in all_of_them.run.error


def test_nothing_goes_on_when_search_after_search_fails(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whatever episodes and steps; one that finds something in between is a new beginning."""
    monkeypatch.setattr("trailforge.retrieval.base._MOST_FAILURES", 4)
    down = [True]

    class Down:
        async def retrieve(self, query: str, k: int) -> list[Passage]:
            if down[0]:
                raise ConnectionError("nobody there")
            return []

    environment = Environment(documents=Down(), patience=SearchPatience(attempts=1))

    def rolled(count: int) -> list[int]:
        prompts = [row.prompt for row in rl_rows()[:count]]
        generator = Scripted(tokenizer, numbered())
        return failed_of(
            rolled_out(prompts, "react", environment, generator=generator, tokenizer=tokenizer, limits=LIMITS)
        )

    assert rolled(3) == [0, 1, 2]
    down[0] = False
    assert rolled(1) == []
    down[0] = True
    assert rolled(3) == [0, 1, 2]
    with pytest.raises(RetrievalError, match=r"4 searches failed one after the other.*nobody there"):
        rolled(1)
