"""Export to verl: rows for `MultiTurnSFTDataset` and `RLHFDataset`, and the entries of agent loop and reward.

Columns that are not used are left out and none is null: a null `tools`, `tools_kwargs` or `agent_name` stops verl 0.9.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from trailforge.protocols.browse import asking_of
from trailforge.retrieval.service import is_address
from trailforge.schemas import ClusterError, InvalidInput, RlRow
from trailforge.training.adapters.search_episodes import read_settings
from trailforge.training.config import RlConfig, TrainPreset, describe_preset
from trailforge.training.exports.common import (
    BOOL,
    DEVICES,
    FLOAT,
    INT,
    MESSAGES,
    SEARCH_NOTE,
    STR,
    Export,
    Row,
    fence,
    has,
    one_command,
    prompt,
    readme,
    schema,
    search_settings,
    template_note,
    truth_json,
    validation_of,
)
from trailforge.training.exports.numbers import note_omissions, prompt_room, save_interval
from trailforge.training.exports.verl_sft import SCHEDULERS, optimizer, trainer, write_sft
from trailforge.training.sets.files import SPLITS, open_set, questions_left

AGENT = "trailforge_search"
"""The agent loop's name in `agent_name`."""
AGENT_LOOP = "trailforge.training.adapters.verl_agent_loop.SearchAgentLoop"
REWARD = "trailforge.training.adapters.verl"
"""The module whose `compute_score` pays episodes."""
_CREATE = pa.struct([("corpus_id", STR), ("question", STR)])
_EXTRA = pa.struct(
    [
        ("index", INT),
        ("split", STR),
        ("uid", STR),
        ("question", STR),
        ("difficulty", FLOAT),
        ("curriculum_stage", INT),
        ("need_tools_kwargs", BOOL),
        ("tools_kwargs", pa.struct([("search", pa.struct([("create_kwargs", _CREATE)]))])),
    ]
)
RL = schema(
    [
        ("data_source", STR),
        ("prompt", MESSAGES),
        ("ability", STR),
        ("agent_name", STR),
        ("reward_model", pa.struct([("style", STR), ("ground_truth", STR)])),
        ("extra_info", _EXTRA),
    ]
)
_LOSS = {"token": "token-mean", "sequence": "seq-mean-token-mean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerlOptions:
    """How verl distributes a training over machines and their memory. Raises `InvalidInput` for impossible values."""

    nodes: int = 1
    """Machines of the Ray cluster in which the script is started; a cluster of one is started by verl itself."""
    devices_per_node: int = DEVICES
    memory: float = 0.5
    """Share of each device for vLLM while it samples; verl frees it to train."""
    tensor_parallel: int = 1
    """Number of devices of one vLLM."""
    sequence_parallel: int = 1
    """Number of devices that share the tokens of a row (Ulysses): a row of 16k on 2 is 8k on each."""
    offload: bool = False
    """Whether parameters and optimizer wait in the host's memory while vLLM samples."""
    fused_kernels: bool = False
    """Whether log-probabilities are made without the table of all logits; for the models that verl supports."""
    agent_workers: int = 8
    """Number of processes that run episodes; each opens what is searched, unless it is on a search server."""
    validate_every: int = 0
    """Steps between validations; 0: as often as a checkpoint is written."""
    overrides: tuple[str, ...] = ()
    """Further settings of verl, as `key=value`, which come last."""

    def __post_init__(self) -> None:
        for name in ("nodes", "devices_per_node", "tensor_parallel", "sequence_parallel", "agent_workers"):
            if getattr(self, name) < 1:
                raise InvalidInput("has to be 1 or more", field=name)
        if not 0.0 < self.memory < 1.0:
            raise InvalidInput("expected a share between 0 and 1", field="memory")
        if self.devices_per_node % self.tensor_parallel or self.devices_per_node % self.sequence_parallel:
            raise InvalidInput(
                f"{self.devices_per_node} devices cannot be parted into groups of {self.tensor_parallel} and of "
                f"{self.sequence_parallel}",
                field="devices_per_node",
            )


def write(export: Export) -> str:
    """Write the files of the export, and return the README."""
    sections = {}
    if text := write_sft(export):
        sections["Supervised training"] = text
    export.parquet("rl", RL, rl_row)
    if not export.is_native:
        export.template()
    if has(export, "rl"):
        loop = {"name": AGENT, "_target_": AGENT_LOOP, "search": search_settings(export.preset)}
        export.text("agent_loop.yaml", yaml.safe_dump([loop], sort_keys=False))
        sections["Reinforcement learning"] = (
            f"In this folder, with the packages of verl's extra `verl-core` and vLLM:\n\n{fence(_rl_command(export))}"
            f"\n\n{_RL_TEXT}\n\n{SEARCH_NOTE}{note_omissions(export.preset.rl, SCHEDULERS)}"
        )
    if not export.is_native:
        sections["Masks and template"] = template_note(export)
    has_run = "dataset, agent loop, weights and loss of 0.9.1 on a CPU; not its whole trainer, and no GPU"
    return readme("For verl", export, sections, truth="reward_model.ground_truth", has_run=has_run)


def rl_row(row: RlRow, split: str, number: int) -> Row:
    """Return a question in verl's form, which slime reads too."""
    return {
        "data_source": row.data_source,
        "prompt": prompt(row),
        "ability": row.ability,
        "agent_name": AGENT,
        "reward_model": {"style": row.reward_model.style, "ground_truth": truth_json(row)},
        "extra_info": {
            "index": number,
            "split": split,
            "uid": row.uid,
            "question": row.question,
            "difficulty": row.difficulty,
            "curriculum_stage": row.curriculum_stage,
            "need_tools_kwargs": True,
            "tools_kwargs": {"search": {"create_kwargs": {"corpus_id": row.corpus_id, "question": row.question}}},
        },
    }


_RL_TEXT = """`agent_loop.yaml` names the class that searches, which needs trailforge on every machine: fill in its
`documents`. Each worker of verl's `agent.num_workers` opens them for itself. With SGLang say
`actor_rollout_ref.rollout.name=sglang` and `actor_rollout_ref.rollout.skip_tokenizer_init=False`: turns end at closing
tags, which it does not see otherwise. Leave the reward manager `naive`: `dapo` does not tell the reward who wrote what.

verl counts questions, not episodes, in `ppo_mini_batch_size`. `ground_truth` is JSON, which the reward reads. For a
training preset of your own, with a judge or other constants, add
`+reward.custom_reward_function.reward_kwargs.preset=/path/to/preset.yaml`."""


def _importance_weights(numbers: RlConfig) -> list[str]:
    """Each token's probability to the trainer over that to vLLM, cut at the cap: as TRL's `token_truncate`."""
    is_weighed = numbers.importance_weights != "none"
    correction = "algorithm.rollout_correction"
    weighed = [f"{correction}.rollout_is=token", f"{correction}.rollout_is_threshold={numbers.importance_cap}"]
    return [f"actor_rollout_ref.rollout.calculate_log_probs={is_weighed}", *(weighed if is_weighed else [])]


def _rl_command(export: Export) -> str:
    return one_command(
        "python3 -m verl.trainer.main_ppo",
        *rl_arguments(
            export.preset.rl,
            VerlOptions(),
            prompt_room(export.training_set, {protocol for protocol, _ in export.rewards}),
            validation_of(export, "rl"),
        ),
        *trainer("rl", export.preset.rl, export.devices),
    )


def rl_arguments(
    numbers: RlConfig, options: VerlOptions, prompt_tokens: int, validation: str, model: str = "$MODEL"
) -> list[str]:
    """Return the options of `verl.trainer.main_ppo` for a recipe, run in a folder with `rl/` and `agent_loop.yaml`.
    `prompt_tokens`: the longest prompt; `validation`: path of the validation file; `model`: the model, by default a
    shell variable."""
    actor, rollout, ref = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.ref"
    return [
        "algorithm.adv_estimator=grpo",
        f"algorithm.norm_adv_by_std_in_grpo={numbers.scale_rewards != 'none'}",
        "algorithm.use_kl_in_reward=False",
        "data.train_files=rl/train.parquet",
        f"data.val_files={validation}",
        "data.shuffle=False",
        f"data.train_batch_size={numbers.prompts_per_step}",
        f"data.max_prompt_length={prompt_tokens}",
        f"data.max_response_length={numbers.max_tokens}",
        "data.return_raw_chat=True",
        f"actor_rollout_ref.model.path={model}",
        f"actor_rollout_ref.model.use_fused_kernels={options.fused_kernels}",
        f"actor_rollout_ref.model.use_liger={numbers.liger}",
        f"actor_rollout_ref.model.enable_gradient_checkpointing={numbers.gradient_checkpointing}",
        *optimizer(f"{actor}.optim", numbers),
        f"{actor}.ppo_mini_batch_size={numbers.mini_batch // numbers.samples}",
        f"{actor}.use_dynamic_bsz=True",
        f"{actor}.ppo_max_token_len_per_gpu={-(-(prompt_tokens + numbers.max_tokens) // options.sequence_parallel)}",
        f"{actor}.ulysses_sequence_parallel_size={options.sequence_parallel}",
        f"{actor}.fsdp_config.param_offload={options.offload}",
        f"{actor}.fsdp_config.optimizer_offload={options.offload}",
        f"{ref}.fsdp_config.param_offload={options.offload}",
        f"{actor}.clip_ratio_low={numbers.clip_low}",
        f"{actor}.clip_ratio_high={numbers.clip_high}",
        f"{actor}.loss_agg_mode={_LOSS[numbers.loss]}",
        f"{actor}.use_kl_loss={numbers.kl.start > 0}",
        f"{actor}.kl_loss_coef={numbers.kl.start}",
        f"{actor}.kl_loss_type=low_var_kl",
        f"{rollout}.name=vllm",
        f"{rollout}.n={numbers.samples}",
        f"{rollout}.temperature={numbers.temperature}",
        f"{rollout}.top_p={numbers.top_p}",
        *_importance_weights(numbers),
        f"{rollout}.gpu_memory_utilization={options.memory}",
        f"{rollout}.tensor_model_parallel_size={options.tensor_parallel}",
        f"{rollout}.multi_turn.enable=True",
        f"{rollout}.agent.num_workers={options.agent_workers}",
        f"{rollout}.agent.agent_loop_config_path=agent_loop.yaml",
        f"reward.custom_reward_function.path=pkg://{REWARD}",
        "reward.custom_reward_function.name=compute_score",
        f"trainer.nnodes={options.nodes}",
        f"trainer.total_epochs={numbers.epochs}",
        f"trainer.test_freq={options.validate_every or save_interval(numbers)}",
    ]


# A training that we start


@dataclass(frozen=True, slots=True)
class VerlFiles:
    """Writes the files with which verl runs a training, by a recipe's numbers and reward, including its judge."""

    recipe: TrainPreset
    options: VerlOptions
    base_model: str | None
    """The model that is trained; None: the recipe's."""
    python: str
    """The Python of verl's environment."""
    max_steps: int | None = None
    resume: bool = False
    audited: Path | None = None

    def write(self, training_set: Path, out: Path, documents: Sequence[Path], kg: str | None) -> Path:
        """Write to `OUT/verl/` what verl reads, and return the script that starts it. Only the questions in the
        recipe's protocol are written.

        Raises `InvalidInput` for settings that are missing or do not fit, for existing checkpoints unless they are to
        be resumed, and as `questions_of` does.
        """
        if (out / "checkpoints").exists() and not self.resume:
            raise InvalidInput("a training was begun there; go on with --resume, or take another folder", file=out)
        _check_expressible(self.recipe.rl, self.options)
        search = self._search(documents, kg, out)
        folder = out.absolute() / "verl"
        (folder / "rl").mkdir(parents=True, exist_ok=True)
        opened = open_set(training_set)
        for split in SPLITS:
            if split == "validation" and not opened.row_count("rl", split):
                continue
            asked = enumerate(questions_left(training_set, split, self.recipe.protocol, self.audited, out))
            rows = [rl_row(row, split, number) for number, row in asked]
            pq.write_table(pa.Table.from_pylist(rows, schema=RL), folder / f"rl/{split}.parquet")
        loop = {"name": AGENT, "_target_": AGENT_LOOP, "search": search}
        preset = describe_preset(self.recipe)
        for name, content in (("agent_loop.yaml", [loop]), ("preset.yaml", preset)):
            (folder / name).write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        script = folder / "train.sh"
        script.write_text(self._script(folder, prompt_room(opened, (self.recipe.protocol,))), encoding="utf-8")
        return script

    @property
    def note(self) -> str:
        """Say what of the recipe verl cannot do; empty when it can do everything."""
        return note_omissions(self.recipe.rl, SCHEDULERS).strip()

    def _search(self, documents: Sequence[Path], kg: str | None, out: Path) -> dict[str, object]:
        searches_graph = asking_of(self.recipe.protocol).searches == "graph"
        search = search_settings(self.recipe) | {
            "documents": [str(each.absolute()) for each in documents],
            "kg": (kg if is_address(kg) else str(Path(kg).absolute())) if kg and searches_graph else None,
            "keep_in": str(out.absolute()) if self.recipe.rl.keep_episodes else "",
        }
        read_settings(search)
        return search

    @property
    def _model(self) -> str:
        """The script runs in a folder of its own."""
        name = self.base_model or self.recipe.rl.base_model
        return str(Path(name).absolute()) if Path(name).is_dir() else name

    def _script(self, folder: Path, prompt_tokens: int) -> str:
        numbers, out = self.recipe.rl, folder.parent
        validation = next(name for name in ("rl/validation.parquet", "rl/train.parquet") if (folder / name).is_file())
        arguments = [
            *rl_arguments(numbers, self.options, prompt_tokens, validation, self._model),
            f"+reward.custom_reward_function.reward_kwargs.preset={folder / 'preset.yaml'}",
            *trainer("rl", numbers, self.options.devices_per_node, numbers.logging),
            f"data.seed={numbers.seed}",
            f"trainer.default_local_dir={out / 'checkpoints'}",
            f"trainer.rollout_data_dir={out / 'rollouts'}",
            f"trainer.validation_data_dir={out / 'validation'}",
            f"trainer.resume_mode={'auto' if self.resume else 'disable'}",
            *([] if self.max_steps is None else [f"trainer.total_training_steps={self.max_steps}"]),
            *self.options.overrides,
        ]
        python = str(Path(self.python).absolute()) if "/" in self.python else self.python
        run = one_command(f"exec {shlex.quote(python)} -m verl.trainer.main_ppo", *map(shlex.quote, arguments))
        logs = f"export PYTHONSAFEPATH=1 TENSORBOARD_DIR={shlex.quote(str(out / 'logs'))}"
        notes = [f"# {self.note}"] if self.note else []
        lines = ["#!/usr/bin/env bash", *notes, "set -euo pipefail", f"cd {shlex.quote(str(folder))}", logs, run]
        return "\n".join(lines) + "\n"


def start(script: Path) -> None:
    """Run a training's script to its end. Raises `ClusterError` when it fails."""
    if code := subprocess.run(["bash", script], check=False).returncode:
        raise ClusterError(f"{script} ended with code {code}; its output says why")


def _check_expressible(numbers: RlConfig, options: VerlOptions) -> None:
    """Of the shares verl asks the same, after it has loaded everything."""
    if numbers.lora is not None:
        raise InvalidInput("leave it out and name verl's own settings of LoRA in its `overrides`", field="rl.lora")
    if numbers.scale_rewards == "batch":
        raise InvalidInput("verl scales by the group's deviation or not: group or none", field="rl.scale_rewards")
    devices = options.nodes * options.devices_per_node
    if numbers.episodes_per_step % devices or numbers.mini_batch % devices:
        raise InvalidInput(
            f"{numbers.episodes_per_step} episodes of a step and {numbers.mini_batch} of a mini-batch cannot be parted "
            f"among {devices} devices",
            field="mini_batch",
        )
