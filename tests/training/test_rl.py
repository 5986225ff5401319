"""Reinforcement learning of a tiny model on the CPU, with real searches over the sample."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import finished_runs as made
from tests.support.turns import answer_turn, search_turn
from tests.training.tiny import (
    Scripted,
    preset,
    retriever,
    rl_rows,
    searching,
    training_set,
)
from trailforge.evaluation.folder import read_trained
from trailforge.inspector.evaluations import is_training, open_training
from trailforge.protocols import GRAPH_R1, REACT
from trailforge.protocols.environment import Environment
from trailforge.protocols.turns import Search, Turn
from trailforge.schemas import InvalidInput, OutputError
from trailforge.schemas.agent_episode import AgentEpisode
from trailforge.training.config import KlConfig, RlConfig, TrainPreset, load_train_preset
from trailforge.training.masks import END
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.files import questions_of
from trailforge.training.trl.checkpoints import find_last_whole
from trailforge.training.trl.fit import count_accumulated
from trailforge.training.trl.rl import VllmOptions, check_questions, grpo_arguments, train_rl
from trailforge.training.weights import load_model

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training set of eight questions."""
    return training_set(tmp_path_factory.mktemp("set"), rl=rl_rows(copies=2))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What TRL takes the loss on: the inputs of each mini-batch, and the weight of KL at that time."""
    return keep_inputs(monkeypatch)


def keep_inputs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """See `seen`."""
    from trl.trainer.grpo_trainer import GRPOTrainer

    kept: list[dict[str, Any]] = []
    own: Callable[..., Any] = GRPOTrainer._compute_loss

    def spy(self: Any, model: Any, inputs: dict[str, Any]) -> Any:
        kept.append({**inputs, "beta": self.beta, "step": self.state.global_step})
        return own(self, model, inputs)

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", spy)
    return kept


def trained(questions: Path, tiny_model: Path, out: Path, script: Any, **changes: Any) -> list[Scripted]:
    """A short training with a scripted agent; its generator. Two steps, if not told otherwise."""
    generators: list[Scripted] = []
    resume, steps = changes.pop("resume", False), changes.pop("steps", 2)

    def scripted(trainer: Any) -> Scripted:
        generators.append(Scripted(trainer.processing_class, script))
        return generators[-1]

    train_rl(
        questions,
        preset(rl=changes),
        out,
        environment=Environment(documents=retriever(), top_k=2),
        base_model=str(tiny_model),
        resume=resume,
        max_steps=steps,
        open_generator=scripted,
    )
    return generators


def result(out: Path) -> dict[str, Any]:
    """Figures of a training."""
    return json.loads((out / "training.json").read_text())


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The log-probabilities that TRL takes the loss on; after the training they have their gradients."""
    from trl.trainer.grpo_trainer import GRPOTrainer

    kept: list[Any] = []
    own: Callable[..., Any] = GRPOTrainer._get_per_token_logps_and_entropies

    def spy(self: Any, *arguments: Any, **options: Any) -> Any:
        logprobs, *rest = own(self, *arguments, **options)
        if logprobs.requires_grad:
            logprobs.retain_grad()
            kept.append(logprobs)
        return logprobs, *rest

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", spy)
    return kept


def test_loss_is_on_the_agents_tokens_alone(
    questions: Path, tiny_model: Path, tmp_path: Path, tokenizer: Any, seen: list[dict[str, Any]], moved: list[Any]
) -> None:
    """In the tensors that TRL trains on: sampled tokens in, ends of turn only if sampled; what a tool said out. TRL's
    own loss, KL term included, moves the log-probability of every token of the agent and of no other."""

    def script(text: str, number: int) -> str:
        return searching(text, number) + (END if number % 2 else "")

    (generator,) = trained(questions, tiny_model, tmp_path / "out", script, kl=KlConfig(start=0.1))
    assert len(generator.asked) == 4  # two steps of a search and an answer
    assert all(len(round_) == 8 for round_ in generator.asked)
    assert len(seen) == 4  # two halves of each mini-batch
    ends = []
    for inputs, logprobs in zip(seen, moved, strict=True):
        mask = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
        assert ((logprobs.grad.abs() > 0) == mask).all()
        for ids, own, real in zip(inputs["completion_ids"], mask, inputs["completion_mask"].bool(), strict=True):
            text = tokenizer.decode(ids[own])
            ends.append(text.count(END))
            end, put = (END, "") if ends[-1] else ("", END)
            assert "tool_response" not in text and "<|im_start|>" not in text
            assert text.startswith("<think>Look it up.") and text.endswith(f"</answer>{end}")
            masked = tokenizer.decode(ids[real & ~own])
            assert masked.startswith(f"{put}\n<|im_start|>user\n<tool_response>\n1. (")
            assert masked.endswith(f"</tool_response><|im_end|>\n<|im_start|>assistant\n{put}")
    assert Counter(ends) == {0: 8, 2: 8}
    found = result(tmp_path / "out")
    assert found["steps"] == 2 and found["searches"] == [1.0, 1.0]
    assert 0 < found["rewards"][0] < 1


def test_the_ragsearch_preset_trains_on_questions_of_all_data_sets(
    tiny_model: Path, tmp_path: Path, tokenizer: Any, seen: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Asked in its protocol when the set is made: prompt, grammar and reward agree, and a right episode is paid 1."""
    asked = [made.question(number) for number in range(4)]
    runs = [
        made.mcts_run(tmp_path / "mcts", asked[:2], []),
        made.kg_run(tmp_path / "kg", asked[2:]),
        made.bundles_run(tmp_path / "bundles"),
    ]
    make_training_set(runs, tmp_path / "set", ViewConfig(validation_share=0.0, protocol="graph_r1"))
    paper = load_train_preset("ragsearch")
    small = {"prompts_per_step": 6, "samples": 2, "mini_batch": 12, "per_device": 6, "max_tokens": 700, "epochs": 1}
    here = {"precision": "float32", "logging": "none", "gradient_checkpointing": False, "rollouts": "transformers"}
    prompts: list[str] = []

    def script(text: str, number: int) -> str:
        if f"</{GRAPH_R1.result_tag}>{END}" in text:
            row = next(row for row in rows if row.question in text)
            answer = row.reward_model.ground_truth.target[0] if number % 2 else "something that no question has"
            return GRAPH_R1.render_turn(Turn(thought="So it is.", answer=answer))
        prompts.append(text)
        return GRAPH_R1.render_turn(Turn(thought="Look.", search=Search(query="Webb")))

    rows = questions_of(tmp_path / "set", "train", "graph_r1")
    capsys.readouterr()
    train_rl(
        tmp_path / "set",
        replace(paper, rl=replace(paper.rl, **small, **here)),
        tmp_path / "out",
        environment=Environment(documents=retriever(), top_k=1),
        base_model=str(tiny_model),
        max_steps=1,
        open_generator=lambda trainer: Scripted(trainer.processing_class, script),
    )
    told = "rl/train: 6 questions are in graph_r1; others are left out (r_search 2)"
    assert len(rows) == 6 and told in capsys.readouterr().err
    assert len(prompts) == 12 and all("<query>" in text and "<knowledge>" in text for text in prompts)
    assert not any("<tool_response>" in text or "boxed" in text for text in prompts)
    (figures,) = csv.DictReader((tmp_path / "out" / "curves.csv").read_text().splitlines())
    assert float(figures["episodes/well_formed"]) == float(figures["episodes/answered"]) == 1.0
    assert result(tmp_path / "out")["rewards"] == [pytest.approx(0.5)]  # the right half 1, the wrong half 0
    assert sum(int((inputs["advantages"] > 0).sum()) for inputs in seen) == 6


def test_a_training_goes_on_over_the_same_documents_only(
    questions: Path, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And with the same loss. What its steps take is said before them."""

    def train(searched: str, *, resume: bool = True, **of_rl: Any) -> None:
        train_rl(
            questions,
            preset(rl=of_rl),
            tmp_path / "out",
            environment=Environment(documents=retriever(), top_k=2, searched={"documents": [searched]}),
            base_model=str(tiny_model),
            resume=resume,
            max_steps=1,
            open_generator=lambda trainer: Scripted(trainer.processing_class, searching),
        )

    train("one", resume=False)
    said = re.search(
        r"8 questions; 1 steps of 2, each with 8 episodes of up to 1,500 tokens after a prompt of \d+ to \d+, "
        r"searches: 8 at one a hop, 24 at most, one update on all of them; to train on 1,000 tokens takes at least "
        r"([\d.]+) s here",
        capsys.readouterr().err,
    )
    assert said is not None and float(said[1]) <= result(tmp_path / "out")["seconds"]
    with pytest.raises(OutputError, match=r"other settings \(searched\)"):
        train("another")
    with pytest.raises(OutputError, match=r"other settings \(config\)"):
        train("one", importance_weights="none")
    train("one")


def test_a_token_that_vllm_found_unlikely_weighs_no_more_than_the_cap(
    questions: Path, tiny_model: Path, tmp_path: Path, seen: list[dict[str, Any]]
) -> None:
    """Every token has a weight of its own; the share of those that were cut is in the log."""
    import torch

    def as_vllm(trainer: Any) -> Scripted:
        trainer.use_vllm = True  # from here on TRL takes the episodes for vLLM's
        return Scripted(trainer.processing_class, searching, logprob=-6.2)

    environment = Environment(documents=retriever(), top_k=2)
    recipe = preset(rl={"importance_cap": 1.0})
    train_rl(
        questions,
        recipe,
        tmp_path / "out",
        environment=environment,
        base_model=str(tiny_model),
        max_steps=1,
        open_generator=as_vllm,
    )
    tokens = cut = 0
    for inputs in seen:
        trained = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
        ratios = torch.exp(inputs["old_per_token_logps"] + 6.2)[trained]
        assert torch.allclose(inputs["importance_sampling_ratio"][trained], ratios.clamp(max=1.0))
        tokens, cut = tokens + int(trained.sum()), cut + int((ratios >= 1.0).sum())
    (row,) = csv.DictReader((tmp_path / "out" / "curves.csv").read_text().splitlines())
    assert 0 < cut < tokens and float(row["sampling/truncated_tokens"]) == pytest.approx(cut / tokens)


@pytest.mark.parametrize("masks", [True, False])
def test_episodes_without_room_have_no_loss_whatever_they_end_with(
    questions: Path, tiny_model: Path, tmp_path: Path, seen: list[dict[str, Any]], tokenizer: Any, masks: bool
) -> None:
    """Here with the end of a turn, behind a search whose result does not fit."""

    def script(text: str, number: int) -> str:
        if number % 2:
            return answer_turn(REACT, "It says so.", "Ada")
        return search_turn(REACT, "Look it up.", "the James Webb Space Telescope")

    room = {"max_tokens": 110, "max_observation_tokens": 400, "mask_truncated": masks, "loss": "sequence"}
    trained(questions, tiny_model, tmp_path / "out", script, steps=1, **room)
    for inputs in seen:
        for row, ids in enumerate(inputs["completion_ids"]):
            real = inputs["completion_mask"][row].bool()
            ran_out = "<search>" in tokenizer.decode(ids)
            assert ids[real][-1] == tokenizer.eos_token_id
            assert bool((inputs["tool_mask"][row].bool() & real).any()) == (not masks or not ran_out)
            assert float(inputs["advantages"][row]) != 0.0
    (row,) = csv.DictReader((tmp_path / "out" / "curves.csv").read_text().splitlines())
    assert float(row["episodes/too_long"]) == 0.5


def accumulated_by(config: RlConfig, processes: int = 1) -> int:
    """As `train_rl` parts an optimizer step."""
    return count_accumulated(config.mini_batch, config.per_device, processes, field="rl.mini_batch")


def test_what_saves_memory_reaches_trl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sleep and tensor parallel of a colocated engine alone; kernels that are not installed are refused."""
    monkeypatch.setattr("trailforge.training.trl.rl.importlib.util.find_spec", lambda name: name)
    config, saving = recipe(rollouts="vllm-colocate", liger=True).rl, VllmOptions(sleep=True, tensor_parallel=2)
    found = grpo_arguments(config, tmp_path, accumulated_by(config), max_steps=1, vllm=saving)
    assert found.vllm_enable_sleep_mode and found.vllm_tensor_parallel_size == 2 and found.use_liger_kernel
    with pytest.raises(InvalidInput, match="for a colocated engine"):
        grpo_arguments(recipe().rl, tmp_path, accumulated_by(config), max_steps=1, vllm=saving)
    monkeypatch.setattr("trailforge.training.trl.rl.importlib.util.find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match="liger-kernel is not installed"):
        grpo_arguments(recipe(liger=True).rl, tmp_path, accumulated_by(config), max_steps=1, vllm=VllmOptions())


@pytest.mark.parametrize("kind", ["CP", "SP"])
def test_rows_that_accelerate_would_part_are_verls(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As its launcher tells processes; TRL itself asks its own arguments alone."""
    monkeypatch.setenv(f"PARALLELISM_CONFIG_{kind}_SIZE", "2")
    config = recipe().rl
    with pytest.raises(InvalidInput, match="--engine verl, with sequence_parallel"):
        grpo_arguments(config, tmp_path, accumulated_by(config), max_steps=1, vllm=VllmOptions())
    monkeypatch.setenv(f"PARALLELISM_CONFIG_{kind}_SIZE", "1")
    assert grpo_arguments(config, tmp_path, accumulated_by(config), max_steps=1, vllm=VllmOptions()).max_steps == 1


def test_a_vllm_that_is_not_there_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trailforge.training.trl.rl.importlib.util.find_spec", lambda name: None)
    config = recipe(rollouts="vllm-colocate").rl
    with pytest.raises(InvalidInput, match=r"needs the package vllm where the trainer runs; .*--rollouts transformers"):
        grpo_arguments(config, tmp_path, accumulated_by(config), max_steps=1, vllm=VllmOptions())


@pytest.fixture(scope="module")
def plain(questions: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training of two steps with the settings as they are, to be read only."""
    out = tmp_path_factory.mktemp("plain") / "out"
    trained(questions, tiny_model, out, searching)
    return out


def test_figures_of_each_step_are_beside_the_checkpoints(plain: Path) -> None:
    rows = list(csv.DictReader((plain / "curves.csv").read_text().splitlines()))
    assert [float(row["step"]) for row in rows] == [1, 2]
    assert [float(row["episodes/well_formed"]) for row in rows] == [1.0, 1.0]
    assert [float(row["reward"]) for row in rows] == pytest.approx(result(plain)["rewards"])
    assert rows[0].keys() >= {
        "loss",
        "reward",
        "entropy",
        "grad_norm",
        "learning_rate",
        "episodes/tokens",
        "episodes/searches",
    }


@dataclass(frozen=True)
class Whole:
    """A training of four steps, to be read only."""

    out: Path
    seen: list[dict[str, Any]]
    generator: Scripted
    changes: dict[str, Any]
    """Of its settings."""


@pytest.fixture(scope="module")
def annealed(questions: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """One update on the episodes of each step, against a reference model whose weight falls."""
    kl = KlConfig(start=0.1, end=0.01, annealing="linear")
    return trained_whole(questions, tiny_model, tmp_path_factory, {"kl": kl, "scale_rewards": "none"})


@pytest.fixture(scope="module")
def dapo(questions: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Two updates on the same episodes."""
    changes = {"algorithm": "dapo", "clip_high": 0.28, "mini_batch": 4, "learning_rate": 1e-2, "save_steps": 1}
    return trained_whole(questions, tiny_model, tmp_path_factory, changes)


def trained_whole(questions: Path, tiny_model: Path, factory: pytest.TempPathFactory, changes: dict[str, Any]) -> Whole:
    """With these settings."""
    out = factory.mktemp("whole") / "out"
    with pytest.MonkeyPatch.context() as patch:
        seen = keep_inputs(patch)
        (generator,) = trained(questions, tiny_model, out, searching, steps=4, **changes)
    return Whole(out, seen, generator, changes)


def test_dapo(dapo: Whole, tiny_model: Path) -> None:
    """Several updates on the same episodes, no reference model, weights that move."""
    import torch

    assert [inputs["step"] for inputs in dapo.seen] == [0, 1, 2, 3]
    assert all("ref_per_token_logps" not in inputs and "old_per_token_logps" in inputs for inputs in dapo.seen)
    before, after = load_model(str(tiny_model)), load_model(str(dapo.out / "model"))
    assert not torch.equal(before.lm_head.weight, after.lm_head.weight)
    assert len(result(dapo.out)["rewards"]) == 2  # two batches of episodes, two updates on each


def test_kl_weight_falls_over_the_steps(annealed: Whole) -> None:
    """From 0.1 at the first step to 0.01 at the last, against a reference model."""
    falling = [weight for weight in (0.1, 0.07, 0.04, 0.01) for _ in range(2)]  # two halves of each mini-batch
    assert [inputs["beta"] for inputs in annealed.seen] == pytest.approx(falling)
    assert all("ref_per_token_logps" in inputs for inputs in annealed.seen)
    # Rewards minus their group's mean, and not divided by anything: the group's sum is zero.
    of_a_step = [float(advantage) for inputs in annealed.seen[:2] for advantage in inputs["advantages"]]
    assert any(of_a_step) and sum(of_a_step) == pytest.approx(0, abs=1e-6)


def test_questions_are_asked_in_the_sets_order(annealed: Whole, tokenizer: Any) -> None:
    """Which is that of learning: two questions a step, each as many times as a group has episodes."""
    asked = [tokenizer.decode(prompts[place]) for prompts in annealed.generator.asked[::2] for place in (0, 4)]
    expected = [row.question for row in rl_rows(copies=2)]
    assert all(question in prompt for question, prompt in zip(expected, asked, strict=True))


@pytest.mark.parametrize("name", ["annealed", "dapo"])
def test_resumed_training_ends_in_the_same_weights(
    request: pytest.FixtureRequest, questions: Path, tiny_model: Path, tmp_path: Path, name: str
) -> None:
    """With the KL weight of the step, and other questions than before. No checkpoint lies between two updates on the
    same episodes, from which a training would make others."""
    import shutil

    import torch

    whole, out = request.getfixturevalue(name), tmp_path / "out"
    folders = {path.name for path in (whole.out / "checkpoints").glob("checkpoint-*")}
    assert folders == {"checkpoint-2", "checkpoint-4"}
    shutil.copytree(whole.out, out)
    for gone in ("model", "checkpoints/checkpoint-4"):
        shutil.rmtree(out / gone)
    trained(questions, tiny_model, out, searching, steps=4, resume=True, **whole.changes)
    before, after = (load_model(str(folder / "model")).state_dict() for folder in (whole.out, out))
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert result(out)["rewards"] == result(whole.out)["rewards"]


def test_told_to_stop_it_ends_with_the_episodes(
    questions: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first of two updates on them: after the second."""
    from trl.trainer.grpo_trainer import GRPOTrainer

    own: Any = GRPOTrainer.training_step

    def told(self: Any, *arguments: Any, **options: Any) -> Any:
        if self.state.global_step == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return own(self, *arguments, **options)

    monkeypatch.setattr(GRPOTrainer, "training_step", told)
    with pytest.raises(SystemExit):
        trained(questions, tiny_model, tmp_path / "out", searching, steps=4, mini_batch=4, save_steps=100)
    assert find_last_whole(tmp_path / "out") == tmp_path / "out" / "checkpoints" / "checkpoint-2"


# What is checked before anything runs


def recipe(**changes: Any) -> TrainPreset:
    """A preset with other RL settings."""
    return preset(rl=changes)


@pytest.mark.parametrize(
    ("changes", "processes", "accumulated", "per_generation"),
    [
        ({"prompts_per_step": 128, "samples": 8, "mini_batch": 256, "per_device": 4}, 8, 8, 32),
        ({"prompts_per_step": 8, "samples": 4, "mini_batch": 32, "per_device": 1}, 8, 4, 4),
        ({"prompts_per_step": 2, "samples": 4, "mini_batch": 8, "per_device": 4}, 1, 2, 2),
    ],
    ids=["msearcher", "r-search", "here"],
)
def test_batches_of_a_step(
    changes: dict[str, Any], processes: int, accumulated: int, per_generation: int, tmp_path: Path
) -> None:
    """MSearcher's 1,024 episodes make four updates of 256; R-Search's 32 one."""
    config = recipe(**changes).rl
    parts = accumulated_by(config, processes)
    assert parts == accumulated
    arguments = grpo_arguments(config, tmp_path, parts, max_steps=1, vllm=VllmOptions())
    assert arguments.steps_per_generation == per_generation
    assert arguments.steps_per_generation // arguments.gradient_accumulation_steps == config.updates_per_step
    assert not arguments.use_bias_correction_kl


@pytest.mark.parametrize(
    ("changes", "processes", "message"),
    [
        ({"per_device": 3}, 1, "8 sequences in an optimizer step cannot be parted into 1 processes x 3"),
        ({"per_device": 4}, 3, "into 3 processes x 4"),
    ],
)
def test_batches_that_cannot_be_parted(changes: dict[str, Any], processes: int, message: str) -> None:
    """The error has the numbers."""
    with pytest.raises(InvalidInput, match=message):
        accumulated_by(recipe(**changes).rl, processes)


def test_what_does_not_fit_is_refused_before_anything_is_written(
    questions: Path, tiny_model: Path, tmp_path: Path
) -> None:
    """Too few questions, too long episodes, a server without URL, no tools."""
    for changes, message in (
        ({"prompts_per_step": 16}, "8 questions, and a step takes 16"),
        ({"max_tokens": 2040}, "do not fit into the model's 2048"),
        ({"rollouts": "vllm-server"}, "--vllm-url"),
    ):
        with pytest.raises(InvalidInput, match=message):
            trained(questions, tiny_model, tmp_path / "out", searching, **changes)
    with pytest.raises(InvalidInput, match="--documents"):
        train_rl(questions, recipe(), tmp_path / "out", environment=Environment(), base_model=str(tiny_model))
    assert not (tmp_path / "out").exists()


def test_two_questions_with_one_id_are_refused_and_left_over_ones_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is loaded."""
    rows, config = rl_rows(), recipe().rl
    check_questions(rows, config)
    assert not capsys.readouterr().err
    check_questions(rows[:3], config)
    assert "the last 1 of 3 questions do not fill a step of 2: left out" in capsys.readouterr().err
    with pytest.raises(InvalidInput, match="same id"):
        check_questions([rows[0], rows[0]], config)


def kept(out: Path) -> list[AgentEpisode]:
    """The episodes in a training's folder."""
    return list(read_trained(out))


def test_every_episode_is_kept_with_its_step_and_what_it_was_paid(questions: Path, plain: Path) -> None:
    names = [path.name for path in sorted((plain / "episodes").iterdir())]
    assert names == ["step-000001-rank-0.parquet", "step-000002-rank-0.parquet"]
    rows = kept(plain)
    assert [row.training.step for row in rows if row.training] == [1] * 8 + [2] * 8
    assert len({row.uid for row in rows}) == 16 and {row.protocol for row in rows} == {"react"}
    curves = list(csv.DictReader((plain / "curves.csv").read_text().splitlines()))
    for step, figures in enumerate(curves, start=1):
        paid = [row.training for row in rows if row.training and row.training.step == step]
        assert float(figures["reward"]) == pytest.approx(sum(each.reward or 0.0 for each in paid) / 8, abs=1e-5)
        parts = {part.name: part.value for each in paid for part in each.parts}
        assert parts and {name for name in parts if f"episodes/reward_{name}" in figures} == {
            name for name, value in parts.items() if value is not None
        }
    one = rows[0]
    asked = {row.question_id: row for row in questions_of(questions, "train", "react")}[one.question_id]
    assert one.question == asked.question and one.golds == asked.reward_model.ground_truth.target
    assert len(one.searches) == 1 and one.searches[0].titles and len(one.searches[0].scores) == 2
    assert one.costs.calls == 2 and 0 < one.costs.completion_tokens < one.costs.prompt_tokens
    assert one.stop == "answered" and one.messages[-1].role == "assistant"
    opened = open_training(plain)
    assert is_training(plain) and opened.whole(9) == rows[9]
    assert opened.select({"step": 2, "stop": "answered"}) == list(range(8, 16))
    assert opened.select({"stop": "failed"}) == []


def test_a_training_that_goes_on_replaces_what_came_after_its_checkpoint(
    questions: Path, tiny_model: Path, tmp_path: Path
) -> None:
    """And keeps of every second batch alone, if told so, which another preset may change in between."""
    trained(questions, tiny_model, tmp_path / "out", searching, keep_every=2, save_steps=2, steps=3)
    folder = tmp_path / "out" / "episodes"
    assert [path.name[:11] for path in sorted(folder.iterdir())] == ["step-000001", "step-000003"]
    (folder / "step-000009-rank-0.parquet").write_bytes(b"of a run that was killed")
    trained(questions, tiny_model, tmp_path / "out", searching, keep_episodes=False, resume=True, save_steps=2, steps=3)
    assert len(list(folder.iterdir())) == 3
    trained(questions, tiny_model, tmp_path / "out", searching, resume=True, save_steps=2, steps=3)
    assert [path.name[:11] for path in sorted(folder.iterdir())] == ["step-000001", "step-000003"]
