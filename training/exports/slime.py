"""Export to slime: messages with `step_loss_mask`, and questions in verl's form, which slime reads too."""

from __future__ import annotations

from typing import get_args

import pyarrow as pa
import yaml

from trailforge.schemas import SftRow
from trailforge.training.adapters.search_episodes import SETTINGS
from trailforge.training.config import RlConfig, Scheduler, SftConfig
from trailforge.training.exports.common import (
    INT,
    SEARCH_NOTE,
    STR,
    Export,
    Row,
    fence,
    has,
    marked_row,
    one_command,
    readme,
    schema,
    search_settings,
    template_note,
)
from trailforge.training.exports.numbers import note_omissions, save_interval
from trailforge.training.exports.verl import RL, rl_row

_TURNS = pa.list_(pa.struct([("role", STR), ("content", STR), ("step_loss_mask", INT)]))
SFT = schema([("messages", _TURNS), ("uid", STR), ("question", STR), ("data_source", STR)])
REWARD = "trailforge.training.adapters.slime.reward"
CENTER = "trailforge.training.adapters.slime.center_rewards"
GENERATE = "trailforge.training.adapters.slime.generate"
_ARRAYS = '"${MODEL_ARGS[@]}" "${CLUSTER_ARGS[@]}"'


def write(export: Export) -> str:
    """Write the files of the export, and return the README."""
    export.parquet("sft", SFT, _sft)
    export.parquet("rl", RL, rl_row)
    export.template()
    sections = {"Where the commands run": _ARGUMENTS}
    if has(export, "sft"):
        sections["Supervised training"] = (
            f"{fence(_sft_command(export))}\n\n"
            "Not `--loss-mask-type distill_qwen`: it trains the last turn alone, as does `qwen` with a tokenizer that "
            "has DeepSeek's `<｜Assistant｜>`. With this template `qwen3` gives the masks of `qwen`."
        )
    if has(export, "rl"):
        sections["Reinforcement learning"] = (
            f"Fill in the `documents` of `search.yaml`:\n\n{fence(_rl_command(export))}\n\n{_RL_TEXT}\n\n{SEARCH_NOTE}"
            f"{note_omissions(export.preset.rl, get_args(Scheduler))}"
        )
        export.text("search.yaml", yaml.safe_dump(search_settings(export.preset), sort_keys=False))
    return readme(
        "For slime",
        export,
        sections | {"Masks and template": template_note(export)},
        truth="reward_model.ground_truth",
        has_run="its `Sample` (624b824) with a scripted router, and the rule of its masks; none of its trainer, no GPU",
    )


_ARGUMENTS = """In slime's folder, with `EXPORT` the absolute path of this one and two arrays of the shell:
`MODEL_ARGS` as slime's `scripts/models/` has them, with `--hf-checkpoint` and `--load`, and `--ref-load` where there is
a KL term; `CLUSTER_ARGS` with `--actor-num-nodes`, `--actor-num-gpus-per-node`, how the model is parted, and for
episodes `--rollout-num-gpus` or `--colocate`."""
_RL_TEXT = f"""The rollout needs trailforge on every machine, and `{SETTINGS}` in the environment of slime's workers:
where the command is submitted to a Ray cluster, among the `env_vars` of its runtime environment. It asks the SGLang
router for tokens, stops at closing tags, and appends what the search finds as tokens without loss. It is not made for
`--partial-rollout`. Here `--global-batch-size` counts episodes, and `--rollout-max-response-len` all that follows the
prompt, results included."""


def _sft(row: SftRow, split: str, number: int) -> Row:
    return marked_row(row, "step_loss_mask", int)


def _sft_command(export: Export) -> str:
    numbers = export.preset.sft
    return one_command(
        f"python3 train_async.py {_ARRAYS}",
        "--rollout-function-path slime.rollout.sft_rollout.generate_rollout",
        "--prompt-data $EXPORT/sft/train.parquet",
        "--input-key messages",
        "--loss-type sft_loss",
        "--calculate-per-token-loss",
        "--loss-mask-type qwen3",
        "--debug-train-only",
        "--disable-compute-advantages-and-returns",
        f"--num-epoch {numbers.epochs}",
        f"--rollout-batch-size {numbers.batch_size}",
        f"--global-batch-size {numbers.batch_size}",
        *_optimizer(numbers),
        *_saved("sft", numbers),
    )


def _rl_command(export: Export) -> str:
    numbers = export.preset.rl
    return one_command(
        f"{SETTINGS}=$EXPORT/search.yaml python3 train.py {_ARRAYS}",
        "--prompt-data $EXPORT/rl/train.parquet",
        "--input-key prompt",
        "--label-key reward_model",
        "--metadata-key extra_info",
        "--apply-chat-template",
        f"--custom-generate-function-path {GENERATE}",
        f"--custom-rm-path {REWARD}",
        f"--custom-reward-post-process-path {CENTER}",
        f"--num-epoch {numbers.epochs}",
        f"--rollout-batch-size {numbers.prompts_per_step}",
        f"--n-samples-per-prompt {numbers.samples}",
        f"--global-batch-size {numbers.mini_batch}",
        f"--rollout-max-response-len {numbers.max_tokens}",
        f"--rollout-temperature {numbers.temperature}",
        f"--rollout-top-p {numbers.top_p}",
        "--advantage-estimator grpo",
        f"--eps-clip {numbers.clip_low}",
        f"--eps-clip-high {numbers.clip_high}",
        *(
            ["--use-kl-loss", f"--kl-loss-coef {numbers.kl.start}", "--kl-loss-type low_var_kl"]
            if numbers.kl.start
            else []
        ),
        *(["--calculate-per-token-loss"] if numbers.loss == "token" else []),
        *(["--use-tis", f"--tis-clip {numbers.importance_cap}"] if numbers.importance_weights != "none" else []),
        *([] if numbers.scale_rewards != "none" else ["--disable-grpo-std-normalization"]),
        *_optimizer(numbers),
        *_saved("rl", numbers),
    )


def _optimizer(numbers: SftConfig | RlConfig) -> list[str]:
    return [
        f"--lr {numbers.learning_rate}",
        f"--lr-decay-style {numbers.scheduler}",
        f"--lr-warmup-fraction {numbers.warmup_ratio}",
        f"--weight-decay {numbers.weight_decay}",
        f"--clip-grad {numbers.max_grad_norm}",
    ]


def _saved(stage: str, numbers: SftConfig | RlConfig) -> list[str]:
    """slime writes no checkpoint without them."""
    return [f"--save $EXPORT/{stage}-model", f"--save-interval {save_interval(numbers)}"]
