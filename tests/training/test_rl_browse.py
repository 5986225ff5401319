"""Reinforcement learning of a research agent: a tiny model, native calls, real searches over pages."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from tests.protocols.browse.test_loop import Agent
from tests.support.browse_agent import ANSWER, QUESTION, Road, opening_turn
from tests.support.native_models import THINKING, native_tokenizer, served
from tests.training.test_native_rollouts import Speaker
from tests.training.test_rl import keep_inputs
from tests.training.tiny import preset, rl_rows, save_tiny_model, training_set
from trailforge.commands import training
from trailforge.evaluation.folder import read_trained
from trailforge.inference import Sampling
from trailforge.protocols.browse import BROWSE, BROWSE_QUESTIONS, BrowseConfig, run_browse_episode
from trailforge.protocols.browse.actions import AnswerAction, BrowseTurn
from trailforge.rewards.episode import reward_preset
from trailforge.schemas import InvalidInput, RlRow
from trailforge.training.config import TrainPreset, describe_preset, load_train_preset
from trailforge.training.search_sources import open_training_environment
from trailforge.training.sets.files import open_set
from trailforge.training.trl.rl import train_rl

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
CALLS = 6


def opening_agent(prompt: str) -> BrowseTurn:
    """Opens page after page, and then says where the road ends."""
    turn = opening_turn(prompt)
    assert isinstance(turn, BrowseTurn)
    return turn


class Wavering:
    """The agent of a road; of two episodes the second answers wrongly."""

    def __init__(self) -> None:
        self.answers = 0

    def __call__(self, prompt: str) -> BrowseTurn:
        turn = opening_agent(prompt)
        if turn.answer is None:
            return turn
        self.answers += 1
        return turn if self.answers % 2 else replace(turn, answer=AnswerAction(text="Bergen"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random one, whose chat template knows calls."""
    home = tmp_path_factory.mktemp("native")
    return save_tiny_model(home / "model", window=4096, tokenizer=native_tokenizer(THINKING))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "road.jsonl"
    Road(3).write(path)
    return path


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four questions with one answer, asked of research agents."""
    rows = []
    for row in rl_rows(BROWSE):
        truth = replace(row.reward_model.ground_truth, target=(ANSWER,), reward_preset=BROWSE_QUESTIONS.reward)
        prompt = BROWSE_QUESTIONS.opening(QUESTION)
        rows.append(
            replace(row, question=QUESTION, prompt=prompt, reward_model=replace(row.reward_model, ground_truth=truth))
        )
    return training_set(tmp_path_factory.mktemp("set"), rl=rows)


def recipe(**rl: Any) -> TrainPreset:
    given = {"max_tokens": 1900, "max_observation_tokens": 1000, "max_searches": CALLS, "samples": 2, "mini_batch": 4}
    made = preset(rl=given | rl)
    made = replace(made, protocol=BROWSE, reward=reward_preset(BROWSE_QUESTIONS.reward))
    return replace(made, retrieval=made.retrieval.of_kind("bm25"))


async def test_two_steps_are_trained_on_what_was_served(
    questions: Path, model: Path, pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the tensors that TRL trains on, each turn stands behind what a server reads, and nothing else has a loss."""
    seen = keep_inputs(monkeypatch)
    environment = open_training_environment(BROWSE, [pages], search=recipe().retrieval, top_k=2)
    speakers: list[Speaker] = []

    def open_speaker(trainer: Any) -> Speaker:
        speakers.append(Speaker(trainer.processing_class, Wavering()))
        return speakers[-1]

    train_rl(
        questions,
        recipe(),
        tmp_path / "out",
        environment=environment,
        base_model=str(model),
        max_steps=2,
        open_generator=open_speaker,
    )
    tokenizer = speakers[0].tokenizer
    agent = Agent(opening_agent)
    config = BrowseConfig(writing="native", sampling=Sampling(max_tokens=500), max_calls=CALLS, top_k=2)
    assert environment.pages is not None
    done = await run_browse_episode(QUESTION, environment.pages, client=agent, model="m", config=config, clock=None)
    prompts = served(tokenizer, agent.requests)
    trained = 0
    for inputs in seen:
        for row in range(len(inputs["completion_ids"])):
            mask = (inputs["completion_mask"][row] * inputs["tool_mask"][row]).bool().tolist()
            prompt = inputs["prompt_ids"][row][inputs["prompt_mask"][row].bool()].tolist()
            ids = inputs["completion_ids"][row].tolist()
            begins = [at for at, own in enumerate(mask) if own and not (at and mask[at - 1])]
            assert [[*prompt, *ids[:at]] for at in begins] == prompts
            text = tokenizer.decode([token for token, own in zip(ids, mask, strict=True) if own])
            assert text.count("<|im_end|>") == len(begins) and "tool_response" not in text
            trained += 1
        advantages = inputs["advantages"].flatten().tolist()
        assert any(each > 0 for each in advantages) and any(each < 0 for each in advantages)
    assert trained == 8
    figures = json.loads((tmp_path / "out" / "training.json").read_text())
    assert figures["rewards"] == pytest.approx([0.45, 0.45]) and len(figures["searches"]) == 2
    kept = list(read_trained(tmp_path / "out"))
    assert len(kept) == 8 and {row.answer for row in kept} == {ANSWER, "Bergen"}
    calls = [(call.tool, call.query, call.page) for call in done.record.calls]
    assert [tool for tool, _, _ in calls] == ["search", "open"]  # the search's passages say where the road goes on
    for row in kept:
        assert row.browse is not None and [(c.tool, c.query, c.page) for c in row.browse.calls] == calls
    assert {row.training.reward for row in kept if row.training} == {1.0, -0.1}


def test_the_models_own_turns_are_trained(questions: Path, model: Path, pages: Path, tmp_path: Path) -> None:
    """A random model says nothing that can be read: its episodes are paid so, and the training goes on."""
    environment = open_training_environment(BROWSE, [pages], search=recipe().retrieval, top_k=2)
    made = train_rl(
        questions, recipe(max_tokens=120), tmp_path / "out", environment=environment, base_model=str(model), max_steps=2
    )
    assert (made / "chat_template.jinja").read_text() == native_tokenizer(THINKING).chat_template
    figures = json.loads((tmp_path / "out" / "training.json").read_text())
    assert figures["rewards"] == [-1.0, -1.0]


def test_the_command_trains_by_the_shipped_preset(
    questions: Path, model: Path, pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`train rl` over pages, by the preset `browse` with numbers that a test has the time for; as it is, it wants more
    questions."""
    app = typer.Typer()
    training.register(app)

    def run(preset: str, out: str, *more: str) -> Any:
        given = ["train", "rl", questions, "--preset", preset, "--documents", pages, "--retrieval", "bm25"]
        given += ["--base-model", model, "--rollouts", "transformers", "--logging", "none", "--out", tmp_path / out]
        return CliRunner().invoke(app, [*map(str, given), *more], standalone_mode=False)

    shipped = load_train_preset("browse")
    refused = run("browse", "refused").exception
    assert isinstance(refused, InvalidInput) and f"a step takes {shipped.rl.prompts_per_step}" in str(refused)
    limits = {"max_tokens": 1900, "max_observation_tokens": 1000, "max_searches": CALLS, "top_k": 2}
    small = {"prompts_per_step": 2, "samples": 2, "mini_batch": 4, "per_device": 4, "precision": "float32"}
    described = describe_preset(replace(shipped, name="small"))
    described["rl"] |= limits | small
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(described))

    def speaking(trainer: Any, config: Any) -> Speaker:
        return Speaker(trainer.processing_class, Wavering())

    monkeypatch.setattr("trailforge.training.trl.rl.make_generator", speaking)  # a random model makes no call
    done = run(str(tmp_path / "small.yaml"), "out", "--max-steps", "1")
    assert done.exception is None and str(tmp_path / "out" / "model") in done.output
    kept = list(read_trained(tmp_path / "out"))
    assert {(row.answer, row.training.reward) for row in kept if row.training} == {(ANSWER, 1.0), ("Bergen", -0.1)}
    for row in kept:
        assert row.browse is not None and row.browse.writing == "native"
        assert [call.tool for call in row.browse.calls] == ["search", "open"]
        assert f"You may make {CALLS} calls" in row.browse.messages[0].content
    (asked, *_) = open_set(questions).rows("rl", "train", RlRow)
    assert f"You may make {BrowseConfig().max_calls} calls" in asked.prompt[0].content
