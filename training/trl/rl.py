"""Reinforcement learning on questions, by GRPO or DAPO with TRL, using our own rollouts and rewards.

Of one step `prompts_per_step` x `samples` episodes are made (`training.trl.rollouts`), which are trained in
mini-batches of `mini_batch` episodes. In TRL's terms, for P processes with `per_device` episodes each:

    gradient_accumulation_steps = mini_batch / (per_device P)
    steps_per_generation        = prompts_per_step samples / (per_device P)

TRL's own punishment of overlong episodes is not used: it is a part of our rewards that have one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trailforge.inference.judge import open_thread_safe_judge, read_rubric
from trailforge.inference.provider import check_server_url
from trailforge.launching import NO_SEQUENCE_PARALLEL
from trailforge.pipelines.sources import NOT_AUDITED, Audited, write_set_aside
from trailforge.protocols.browse import BROWSE, asking_of
from trailforge.protocols.environment import Environment
from trailforge.rewards.episode import Reward
from trailforge.schemas import InvalidInput, RlRow
from trailforge.training.config import KlConfig, RlConfig, TrainPreset
from trailforge.training.generation import (
    Generator,
    TransformersGenerator,
    TurnServer,
    VllmColocatedGenerator,
    VllmServerGenerator,
)
from trailforge.training.kept_episodes import EpisodeWriter, make_place
from trailforge.training.masks import prompt_ids
from trailforge.training.native import opening_ids, read_run
from trailforge.training.processes import is_main_process, log, process_rank, processes
from trailforge.training.scoring import ToScore, scorer_of_training
from trailforge.training.sets.files import questions_of, set_aside
from trailforge.training.token_episodes import TokenEpisode, limits_of
from trailforge.training.trl.checkpoints import step_of
from trailforge.training.trl.fit import (
    begin,
    count_accumulated,
    finish,
    fit,
    peft_config,
    trainer_arguments,
    weight_settings,
)
from trailforge.training.trl.memory import check_memory
from trailforge.training.trl.rollouts import Pay, SearchRollouts, StepKeeper, episode_reward
from trailforge.training.trl.work import describe_rl
from trailforge.training.weights import base_model as resolved
from trailforge.training.weights import load_model, load_own_tokenizer, load_tokenizer

_FIGURES = {"rewards": "reward", "searches": "episodes/searches"}
"""Figures of a training by their names in TRL's log."""
_LOSSES = {"token": "dapo", "sequence": "grpo"}
"""TRL's names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmOptions:
    """Settings of vLLM, for `rollouts: vllm-server` and `vllm-colocate`."""

    server: str | None = None
    """URL of the server."""
    memory: float = 0.3
    """Share of a device's memory that a colocated engine takes."""
    sleep: bool = False
    """Whether a colocated engine gives its memory back while the trainer trains."""
    tensor_parallel: int = 1
    """Devices over which a colocated engine spreads the model; a server is told when it is started."""

    def __post_init__(self) -> None:
        check_server_url(self.server or "", "--vllm-url", "as TRL asks the server without one")


def train_rl(
    training_set: Path,
    preset: TrainPreset,
    out: Path,
    *,
    environment: Environment,
    base_model: str | None = None,
    resume: bool = False,
    max_steps: int | None = None,
    vllm: VllmOptions = VllmOptions(),
    audited: Audited = NOT_AUDITED,
    open_generator: Callable[[Any], Generator | TurnServer] | None = None,
) -> Path:
    """Train on the questions in `training_set`/rl/train that are asked in the preset's protocol; returns the model's
    folder. Agents search `environment`.

    Run by `accelerate launch` or torchrun, all processes call this. `audited` is an audit whose unanswerable questions
    are left out. `open_generator` opens the generator of a trainer, instead of the preset's `rollouts`. Raises what
    `train_sft`, tools and judge raise; also `InvalidInput` for a model without the ChatML tokens, since vLLM and the
    reference model are loaded from its original folder.
    """
    config = preset.rl
    environment.check(asking_of(preset.protocol))
    if preset.judge is not None:
        open_thread_safe_judge(preset.judge).check()
    rows, aside = set_aside(questions_of(training_set, "train", preset.protocol), audited)
    check_questions(rows, config)
    accumulated = count_accumulated(config.mini_batch, config.per_device, processes(), field="rl.mini_batch")
    source = resolved(base_model or config.base_model)
    tokenizer = load_own_tokenizer(source) if preset.protocol == BROWSE else load_tokenizer(source)
    arguments = grpo_arguments(config, out, accumulated, max_steps=max_steps, vllm=vllm)
    # The prompt comes on top of `max_tokens`; rows are short against it.
    engine = vllm.memory if config.rollouts == "vllm-colocate" and not vllm.sleep else 0.0
    check_memory(source, config, config.max_tokens, with_reference=config.kl.start > 0, engine_share=engine)
    model = load_model(source, attention=config.attention)
    prompts = measure_prompts(rows, tokenizer, model, preset)
    decided = _decided_by(preset, environment) | ({"audited": audited.hash} if audited.known else {})
    checkpoint = begin("rl", source, training_set, out, decided, max_steps=max_steps, resume=resume)
    if is_main_process():
        write_set_aside(out, aside)
    rollouts = SearchRollouts(
        rows,
        environment,
        make_pay(preset),
        protocol=preset.protocol,
        tokenizer=tokenizer,
        limits=limits_of(config, config.max_tokens),
        open_generator=open_generator or (lambda trainer: make_generator(trainer, config)),
        mask_too_long=config.mask_truncated,
        keeper=open_keeper(out, preset, environment, source, done=step_of(checkpoint)),
    )
    trainer = grpo_trainer(model, tokenizer, rows, arguments, config, rollouts)
    log(describe_rl(model, config, rows, prompts, has_judge=preset.judge is not None, max_steps=max_steps))
    try:
        done = fit(trainer, out, checkpoint, every=config.updates_per_step)
    finally:
        rollouts.close()
    history = [entry for entry in trainer.state.log_history if "reward" in entry]
    figures = {"questions": len(rows)} | {name: [each[key] for each in history] for name, key in _FIGURES.items()}
    return finish("rl", trainer, tokenizer, out, figures, done.metrics["train_runtime"])


def grpo_trainer(
    model: Any, tokenizer: Any, rows: Sequence[RlRow], arguments: Any, config: RlConfig, rollouts: SearchRollouts
) -> Any:
    """Return TRL's trainer with our rollouts, ready to train."""
    from datasets import Dataset

    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # it warns of `rollout_func`, for which we pin its version
    trainer: Any = _trainer_class()(
        model=model,
        reward_funcs=episode_reward,
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": [row.uid for row in rows]}),
        processing_class=tokenizer,
        peft_config=peft_config(config),
        rollout_func=rollouts,
    )
    trainer.add_callback(kl_annealing(trainer, config.kl))
    return trainer


def _trainer_class() -> Any:
    """TRL's trainer, which also logs what share of the trained tokens has a weight that was cut to the cap."""
    import torch
    from trl.trainer.grpo_trainer import GRPOTrainer

    class Trainer(GRPOTrainer):
        """Looks at the weights when TRL has made them."""

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            made: Any = super()._generate_and_score_completions(inputs)
            weights = made.get("importance_sampling_ratio")
            if weights is not None:
                trained = (made["completion_mask"] * made["tool_mask"]).bool()
                cut = trained & (weights >= self.vllm_importance_sampling_clip_max)
                counts: Any = self.accelerator.gather(torch.stack([cut.sum(), trained.sum()]))
                at_cap, tokens = counts.view(-1, 2).sum(dim=0).tolist()
                self._metrics["train"]["sampling/truncated_tokens"].append(at_cap / max(1, tokens))
            return made

    return Trainer


def grpo_arguments(config: RlConfig, out: Path, accumulated: int, *, max_steps: int | None, vllm: VllmOptions) -> Any:
    """Return TRL's configuration. Raises `InvalidInput` for settings that TRL does not support."""
    from trl.trainer.grpo_config import GRPOConfig

    if any(int(os.environ.get(f"PARALLELISM_CONFIG_{kind}_SIZE", "1")) > 1 for kind in ("CP", "SP")):
        raise InvalidInput(NO_SEQUENCE_PARALLEL, field="parallelism_config")  # accelerate's; TRL looks elsewhere
    if config.rollouts == "vllm-server" and not vllm.server:
        raise InvalidInput("a vLLM server needs its URL: give --vllm-url", field="rl.rollouts")
    if config.rollouts != "vllm-server" and vllm.server:
        raise InvalidInput(
            f"{config.rollouts} asks no vLLM server: give --rollouts vllm-server, or no --vllm-url", field="rl.rollouts"
        )
    if config.rollouts != "vllm-colocate" and (vllm.sleep or vllm.tensor_parallel > 1):
        raise InvalidInput(
            "--vllm-sleep and --vllm-tensor-parallel are for a colocated engine: give --rollouts vllm-colocate, or "
            "leave them out",
            field="rl.rollouts",
        )
    uses_vllm = config.rollouts != "transformers"
    if uses_vllm and importlib.util.find_spec("vllm") is None:
        raise InvalidInput(
            f"{config.rollouts} needs the package vllm where the trainer runs; install it, or give "
            "--rollouts transformers",
            field="rl.rollouts",
        )
    common = trainer_arguments(config, out, accumulated, max_steps=max_steps)
    # Between two updates on the same episodes there is nothing to go on from: checkpoints do not hold episodes.
    common["save_steps"] = -(-config.save_steps // config.updates_per_step) * config.updates_per_step
    return GRPOConfig(
        **common,
        steps_per_generation=accumulated * config.updates_per_step,
        num_generations=config.samples,
        max_completion_length=config.max_tokens,
        shuffle_dataset=False,  # a training set stands in the order of learning
        temperature=config.temperature,
        top_p=config.top_p,
        beta=config.kl.start,
        use_bias_correction_kl=False,  # the papers' KL term, not one weighted by the ratio
        epsilon=config.clip_low,
        epsilon_high=config.clip_high,
        loss_type=_LOSSES[config.loss],
        scale_rewards=config.scale_rewards,
        mask_truncated_completions=False,  # it looks at the last token; the rollouts mask by why an episode ended
        use_vllm=uses_vllm,
        vllm_mode=config.rollouts.removeprefix("vllm-") if uses_vllm else "colocate",
        vllm_server_base_url=vllm.server,
        vllm_gpu_memory_utilization=vllm.memory,
        vllm_enable_sleep_mode=vllm.sleep,
        vllm_tensor_parallel_size=vllm.tensor_parallel,
        vllm_importance_sampling_correction=config.importance_weights != "none",
        vllm_importance_sampling_mode="token_truncate",
        vllm_importance_sampling_clip_max=config.importance_cap,
    )


def check_questions(rows: Sequence[RlRow], config: RlConfig) -> None:
    """Raise `InvalidInput` when the questions do not fill one step, or two have the same id."""
    if len(rows) < config.prompts_per_step:
        raise InvalidInput(
            f"{len(rows)} questions, and a step takes {config.prompts_per_step}: give more, or lower it",
            field="rl.prompts_per_step",
        )
    if len({row.uid for row in rows}) < len(rows):
        raise InvalidInput("two questions have the same id; make the training set again", field="uid")
    if left := len(rows) % config.prompts_per_step:
        log(f"the last {left} of {len(rows)} questions do not fill a step of {config.prompts_per_step}: left out")


def _decided_by(preset: TrainPreset, environment: Environment) -> dict[str, Any]:
    """What decides episodes, rewards and loss: of a judge not where it is served or how fast."""
    judge = None
    if preset.judge is not None:
        rubric = hashlib.sha256(read_rubric(preset.judge).encode()).hexdigest()[:12]
        judge = {"model": preset.judge.model, "rubric": rubric, "max_tokens": preset.judge.max_tokens}
    return {
        "protocol": preset.protocol,
        "reward": asdict(preset.reward),
        "judge": judge,
        "searched": environment.searched,
        "config": weight_settings(preset.rl),
    }


def measure_prompts(rows: Sequence[RlRow], tokenizer: Any, model: Any, preset: TrainPreset) -> list[int]:
    """Return the lengths of the prompts in tokens. Raises `InvalidInput` when the longest one and an episode do not fit
    into the model's context.
    """
    config, window = preset.rl, model.config.max_position_embeddings
    if preset.protocol == BROWSE:
        limits = limits_of(config, config.max_tokens)
        prompts = [len(opening_ids(tokenizer, row.prompt, limits)) for row in rows]
    else:
        prompts = [len(prompt_ids(tokenizer, row.prompt)) for row in rows]
    if max(prompts) + config.max_tokens > window:
        raise InvalidInput(
            f"prompts of up to {max(prompts)} tokens and episodes of {config.max_tokens} do not fit into the model's "
            f"{window}: lower it",
            field="rl.max_tokens",
        )
    return prompts


def make_pay(preset: TrainPreset) -> Pay:
    """Return the function that computes episodes' rewards by the preset."""
    scorer = scorer_of_training(preset)

    def pay(played: Sequence[tuple[RlRow, TokenEpisode]]) -> list[Reward]:
        return scorer.score([to_score(row, episode) for row, episode in played])

    return pay


def open_keeper(
    out: Path, preset: TrainPreset, environment: Environment, model: str, *, done: int
) -> StepKeeper | None:
    """Return the writer of this process's episodes; None where the preset stores none. Episodes of steps after `done`,
    from which a training resumes, are removed.
    """
    config = preset.rl
    if not config.keep_episodes:
        return None
    writer = EpisodeWriter(out, str(process_rank()))
    if is_main_process():
        writer.drop_after(done)
    place = make_place(preset.protocol, environment, model, str(process_rank()))
    return StepKeeper(writer, place, every=config.keep_every, updates=config.updates_per_step)


def to_score(row: RlRow, episode: TokenEpisode) -> ToScore:
    """Return an episode on a question in the form in which it is scored."""
    return ToScore(
        messages=episode.messages,
        truth=row.reward_model.ground_truth,
        question=row.question,
        tokens=len(episode.ids),
        read=read_run(episode.run, len(episode.ids)),
    )


def make_generator(trainer: Any, config: RlConfig) -> Generator | TurnServer:
    """Return the generator that the preset's `rollouts` names. Raises `InvalidInput` where the model is distributed
    over processes.
    """
    if config.rollouts == "vllm-colocate":
        return VllmColocatedGenerator(trainer)
    if config.rollouts == "vllm-server":
        return VllmServerGenerator(trainer)
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        raise InvalidInput("a model spread over processes cannot generate by itself: take vLLM", field="rl.rollouts")
    return TransformersGenerator(
        trainer.accelerator.unwrap_model(trainer.model),
        trainer.processing_class,
        temperature=config.temperature,
        top_p=config.top_p,
    )


def kl_annealing(trainer: Any, kl: KlConfig) -> Any:
    """Return a callback that sets the weight of the KL term before each optimizer step: `kl.start` at the first,
    `kl.end` at the last. It depends on the step alone, so a resumed training has the same weights.
    """
    from transformers import TrainerCallback

    class KlAnnealing(TrainerCallback):
        """Called by the trainer."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **options: Any) -> None:
            trainer.beta = kl.at(state.global_step / max(1, state.max_steps - 1))

    return KlAnnealing()
