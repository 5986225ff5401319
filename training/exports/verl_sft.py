"""The part of verl's export for supervised training: turns for `MultiTurnSFTDataset`, or tokens for our own data
set.
"""

from __future__ import annotations

import pyarrow as pa

from trailforge.schemas import InvalidInput
from trailforge.training.chat_marks import CHATML
from trailforge.training.config import RlConfig, Scheduler, SftConfig, TrainerConfig
from trailforge.training.exports.common import (
    DEVICES,
    NO_VERL_SFT,
    SFT,
    SHUFFLES,
    STR,
    Export,
    fence,
    has,
    one_command,
    schema,
    sft_row,
    validation_of,
)
from trailforge.training.exports.native import NativeRows
from trailforge.training.exports.numbers import note_omissions, save_interval

TOKENS = schema([("input_ids", pa.list_(pa.int32())), ("loss_mask", pa.list_(pa.int8())), ("uid", STR)])
DATA_SET = ("pkg://trailforge.training.adapters.verl_sft", "TokenDataset")
"""The data set that reads `TOKENS` in verl: module and class."""
SCHEDULERS: tuple[Scheduler, ...] = ("constant", "cosine")
"""That verl's FSDP engine knows (0.9.1, `verl/workers/config/optimizer.py`)."""


def write_sft(export: Export) -> str:
    """Write `sft/`; returns the README's section on it, empty where there are no conversations. Raises `InvalidInput`
    for native calls when no model is named.
    """
    if export.is_native:
        return _write_tokens(export)
    if export.frame != CHATML:
        return NO_VERL_SFT
    export.parquet("sft", SFT, sft_row)
    return _section(export) if has(export, "sft") else ""


def _write_tokens(export: Export) -> str:
    if not export.base_model:
        raise InvalidInput(
            "the set has native tool calls; verl's own data set would write each turn by itself, without earlier "
            "thoughts: name the model (--base-model), for tokens of what a server reads",
            field="base_model",
        )
    native = NativeRows(export.base_model)
    export.parquet(
        "sft",
        TOKENS,
        lambda row, split, number: [
            {"input_ids": each.input_ids, "loss_mask": each.mask, "uid": row.uid} for each in native.of(row)
        ],
    )
    path, name = DATA_SET
    settings = (f"data.custom_cls.path={path}", f"data.custom_cls.name={name}")
    return f"{_section(export, *settings)}\n\n{_TOKENS_TEXT}" if has(export, "sft") else ""


_TOKENS_TEXT = """`sft/` has tokens in the model's own chat template (`input_ids`, `loss_mask`): each turn stands behind
the tokens that a server reads before it, and has its loss in one row, as `trailforge train sft` trains it. verl's own
`MultiTurnSFTDataset` is not used: it puts each turn into the template by itself, without the turns around it, and has
tools from Parquet, which gives each tool the keys of all others. `data.custom_cls` names the data set of trailforge
that reads tokens; it has to be installed on every machine."""


def _section(export: Export, *more: str) -> str:
    command = fence(_command(export, *more))
    return f"In this folder:\n\n{command}\n\n{SHUFFLES.format('verl')}{note_omissions(export.preset.sft, SCHEDULERS)}"


def _command(export: Export, *more: str) -> str:
    numbers = export.preset.sft
    return one_command(
        f"torchrun --standalone --nproc_per_node={export.devices} -m verl.trainer.sft_trainer",
        "data.train_files=sft/train.parquet",
        f"data.val_files={validation_of(export, 'sft')}",
        *(more or ("data.messages_key=messages",)),
        f"data.train_batch_size={numbers.batch_size}",
        f"data.max_length={numbers.max_tokens}",
        "data.truncation=right",
        f"data.max_token_len_per_gpu={numbers.max_tokens}",
        "model.path=$MODEL",
        *optimizer("optim", numbers),
        f"trainer.total_epochs={numbers.epochs}",
        *trainer("sft", numbers, export.devices),
    )


def trainer(stage: str, numbers: SftConfig | RlConfig, devices: int = DEVICES, log: str = "tensorboard") -> list[str]:
    """Return verl's options for names, logs without an account, and checkpoints, of which its RL writes none without an
    interval. `stage` is the name of the experiment, `log` the kind of log that verl writes beside the console.
    """
    return [
        "trainer.project_name=trailforge",
        f"trainer.experiment_name={stage}",
        f"trainer.logger=[{'console' if log == 'none' else f'console,{log}'}]",
        f"trainer.save_freq={save_interval(numbers)}",
        f"trainer.n_gpus_per_node={devices}",
    ]


def optimizer(section: str, numbers: TrainerConfig) -> list[str]:
    """Return verl's options for the optimizer. A schedule that verl lacks is left out, so that its own, a constant one,
    is used; `note_omissions` reports it.
    """
    schedule = [f"{section}.lr_scheduler_type={numbers.scheduler}"] if numbers.scheduler in SCHEDULERS else []
    return [
        f"{section}.lr={numbers.learning_rate}",
        *schedule,
        f"{section}.lr_warmup_steps_ratio={numbers.warmup_ratio}",
        f"{section}.weight_decay={numbers.weight_decay}",
        f"{section}.clip_grad={numbers.max_grad_norm}",
    ]
