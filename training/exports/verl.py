"""For verl: `MultiTurnSFTDataset` and `RLHFDataset`, the agent loop's entry, the reward's entry.

Columns that are not used are left out and none is null: a null `tools`, `tools_kwargs` or `agent_name` stops verl 0.9.
"""

from __future__ import annotations

import pyarrow as pa
import yaml

from trailforge.schemas import RlRow
from trailforge.training.config import RlConfig, Scheduler, SftConfig, TrainerConfig
from trailforge.training.exports.common import (
    BOOL,
    FLOAT,
    INT,
    MESSAGES,
    SEARCH_NOTE,
    SFT,
    STR,
    TEMPLATE_NOTE,
    Export,
    Row,
    fence,
    has,
    longest_prompt,
    note_unsaid,
    one_command,
    prompt,
    readme,
    save_interval,
    schema,
    search_settings,
    sft_row,
    truth_json,
    validation_of,
)

AGENT = "trailforge_search"
"""The agent loop's name in `agent_name`."""
AGENT_LOOP = "trailforge.training.adapters.verl_agent_loop.SearchAgentLoop"
REWARD = "trailforge.training.adapters.verl"
"""Module whose `compute_score` pays."""
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
_GPUS = 8
_SCHEDULERS: tuple[Scheduler, ...] = ("constant", "cosine")
"""That verl's FSDP engine knows (0.9.1, `verl/workers/config/optimizer.py`)."""
_LOSS = {"token": "token-mean", "sequence": "seq-mean-token-mean"}


def write(export: Export) -> str:
    """Write the files; returns the README."""
    export.parquet("sft", SFT, sft_row)
    export.parquet("rl", RL, rl_row)
    export.template()
    sections = {}
    if has(export, "sft"):
        sections["Supervised training"] = (
            f"In this folder:\n\n{fence(_sft_command(export))}\n\nverl shuffles the rows, which stand in the order of "
            f"learning; it has no option for that.{note_unsaid(export.preset.sft, _SCHEDULERS)}"
        )
    if has(export, "rl"):
        loop = {"name": AGENT, "_target_": AGENT_LOOP, "search": search_settings(export)}
        export.text("agent_loop.yaml", yaml.safe_dump([loop], sort_keys=False))
        sections["Reinforcement learning"] = (
            f"In this folder, with the packages of verl's extra `verl-core` and vLLM:\n\n{fence(_rl_command(export))}"
            f"\n\n{_RL_TEXT}\n\n{SEARCH_NOTE}{note_unsaid(export.preset.rl, _SCHEDULERS)}"
        )
    return readme("For verl", export, sections | {"Masks and template": TEMPLATE_NOTE})


def rl_row(row: RlRow, split: str, number: int) -> Row:
    """slime reads this view too."""
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
tags, which it does not see otherwise. Where verl is to correct for what the sampler computed differently, add
`algorithm.rollout_correction.rollout_is=token`. Leave the reward manager `naive`: `dapo` does not tell the reward who
wrote what.

verl counts questions, not episodes, in `ppo_mini_batch_size`. `ground_truth` is JSON, which the reward reads. For a
training preset of your own, with a judge or other constants, add
`+reward.custom_reward_function.reward_kwargs.preset=/path/to/preset.yaml`."""


def _sft_command(export: Export) -> str:
    numbers = export.preset.sft
    return one_command(
        f"torchrun --standalone --nproc_per_node={_GPUS} -m verl.trainer.sft_trainer",
        "data.train_files=sft/train.parquet",
        f"data.val_files={validation_of(export, 'sft')}",
        "data.messages_key=messages",
        f"data.train_batch_size={numbers.batch_size}",
        f"data.max_length={numbers.max_tokens}",
        "data.truncation=right",
        f"data.max_token_len_per_gpu={numbers.max_tokens}",
        "model.path=$MODEL",
        f"optim.lr={numbers.learning_rate}",
        *_schedule("optim", numbers),
        f"optim.lr_warmup_steps_ratio={numbers.warmup_ratio}",
        f"trainer.total_epochs={numbers.epochs}",
        *_trainer("sft", numbers),
    )


def _trainer(stage: str, numbers: SftConfig | RlConfig) -> list[str]:
    """Names, logs without an account, checkpoints: verl's RL writes none, not even at its end, without an interval."""
    return [
        "trainer.project_name=trailforge",
        f"trainer.experiment_name={stage}",
        "'trainer.logger=[console,tensorboard]'",
        f"trainer.save_freq={save_interval(numbers)}",
        f"trainer.n_gpus_per_node={_GPUS}",
    ]


def _schedule(optimizer: str, numbers: TrainerConfig) -> list[str]:
    """Nothing for one that verl does not know, which `note_unsaid` tells: its own is constant."""
    return [f"{optimizer}.lr_scheduler_type={numbers.scheduler}"] if numbers.scheduler in _SCHEDULERS else []


def _rl_command(export: Export) -> str:
    numbers = export.preset.rl
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    prompt_tokens = longest_prompt(export)
    return one_command(
        "python3 -m verl.trainer.main_ppo",
        "algorithm.adv_estimator=grpo",
        f"algorithm.norm_adv_by_std_in_grpo={numbers.scale_rewards != 'none'}",
        "algorithm.use_kl_in_reward=False",
        "data.train_files=rl/train.parquet",
        f"data.val_files={validation_of(export, 'rl')}",
        "data.shuffle=False",
        f"data.train_batch_size={numbers.prompts_per_step}",
        f"data.max_prompt_length={prompt_tokens}",
        f"data.max_response_length={numbers.max_tokens}",
        "data.return_raw_chat=True",
        "actor_rollout_ref.model.path=$MODEL",
        f"{actor}.optim.lr={numbers.learning_rate}",
        *_schedule(f"{actor}.optim", numbers),
        f"{actor}.ppo_mini_batch_size={numbers.mini_batch // numbers.samples}",
        f"{actor}.use_dynamic_bsz=True",
        f"{actor}.ppo_max_token_len_per_gpu={prompt_tokens + numbers.max_tokens}",
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
        f"{rollout}.multi_turn.enable=True",
        f"{rollout}.agent.agent_loop_config_path=agent_loop.yaml",
        f"reward.custom_reward_function.path=pkg://{REWARD}",
        "reward.custom_reward_function.name=compute_score",
        f"trainer.total_epochs={numbers.epochs}",
        *_trainer("rl", numbers),
    )
