"""For OpenRLHF: conversations whose every assistant turn is trained, questions with a label as JSON."""

from __future__ import annotations

from trailforge.schemas import RlRow, SftRow
from trailforge.training.exports.common import (
    MESSAGES,
    STR,
    TEMPLATE_NOTE,
    Export,
    Row,
    fenced,
    has,
    one_command,
    prompt,
    readme,
    schema,
    truth_json,
    turns,
    validation_of,
)

SFT = schema([("messages", MESSAGES), ("uid", STR), ("question", STR), ("data_source", STR)])
RL = schema([("prompt", MESSAGES), ("label", STR), ("uid", STR), ("data_source", STR)])


def write(export: Export) -> str:
    """Write the files; returns the README."""
    export.parquet("sft", SFT, _sft)
    export.parquet("rl", RL, _rl)
    export.template()
    sections = {}
    if has(export, "sft"):
        sections["Supervised training"] = (
            f"In this folder:\n\n{fenced(_command(export))}\n\nOpenRLHF shuffles the rows, which stand in the order of "
            "learning; it has no option for that."
        )
    if has(export, "rl"):
        sections["Reinforcement learning"] = (
            "`rl/` has the columns `prompt` (`--data.input_key`) and `label` (`--data.label_key`): the ground truth as "
            "JSON, for a reward function of your own behind `--reward.remote_url`. Episodes that search need an agent "
            "file of OpenRLHF, which is not part of this export."
        )
    return readme("For OpenRLHF", export, sections | {"Masks and template": TEMPLATE_NOTE})


def _sft(row: SftRow, split: str, number: int) -> Row:
    return {"messages": turns(row), "uid": row.uid, "question": row.question, "data_source": row.data_source}


def _rl(row: RlRow, split: str, number: int) -> Row:
    return {"prompt": prompt(row), "label": truth_json(row), "uid": row.uid, "data_source": row.data_source}


def _command(export: Export) -> str:
    numbers = export.preset.sft
    return one_command(
        "deepspeed --module openrlhf.cli.train_sft",
        "--data.dataset sft/train.parquet",
        f"--eval.dataset {validation_of(export, 'sft')}",
        "--data.input_key messages",
        "--data.apply_chat_template",
        "--data.multiturn",
        f"--data.max_len {numbers.max_tokens}",
        "--model.model_name_or_path $MODEL",
        f"--train.batch_size {numbers.batch_size}",
        f"--train.micro_batch_size {numbers.per_device}",
        f"--train.max_epochs {numbers.epochs}",
        f"--adam.lr {numbers.learning_rate}",
        f"--lr_scheduler {numbers.transformers_scheduler}",
        f"--lr_warmup_ratio {numbers.warmup_ratio}",
        *(["--model.gradient_checkpointing_enable"] if numbers.gradient_checkpointing else []),
        "--ckpt.output_dir sft-model",
    )
