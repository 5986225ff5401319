"""As ShareGPT conversations, with the description by which LLaMA-Factory reads them. SFT only.

A `gpt` turn is trained, a `human` turn is not. A row in which only some of the agent's turns are trained cannot be said
so: what stands before the trained turn becomes one `human` turn, with the marks of the template in its text.
"""

from __future__ import annotations

import json

from trailforge.schemas import SftRow
from trailforge.training.exports.common import Export, Row, fenced, has, one_command, readme
from trailforge.training.masks import END, START


def write(export: Export) -> str:
    """Write the files; returns the README."""
    export.json_lines("sft", _sft)
    sections = {"Masks": _MASKS}
    if has(export, "sft"):
        entries = {
            f"trailforge_{name.split('/')[1].removesuffix('.jsonl')}": {"file_name": name, **_COLUMNS}
            for name in export.rows
        }
        export.text("dataset_info.json", json.dumps(entries, indent=1))
        sections["Supervised training"] = (
            f"In this folder, on {_GPUS} devices:\n\n{fenced(_command(export))}\n\nA model that is too large to train "
            "on one of them also wants `--deepspeed` with a configuration of LLaMA-Factory's `examples/deepspeed/`."
        )
    return readme("As ShareGPT", export, sections)


_GPUS = 8
_COLUMNS = {
    "formatting": "sharegpt",
    "columns": {"messages": "conversations", "system": "system"},
    "tags": {"role_tag": "from", "content_tag": "value", "user_tag": "human", "assistant_tag": "gpt"},
}
_MASKS = """`gpt` turns are trained, `human` turns are not. What a search brought is a `human` turn as it stands: the
role `observation` would put tags around it a second time. Use the template `qwen` (ChatML)."""


def _sft(row: SftRow, split: str, number: int) -> Row:
    system = row.messages[0].content if row.messages[0].role == "system" else ""
    conversation: list[dict[str, str]] = []
    for message, train in zip(row.messages, row.train, strict=True):
        if message.role == "system":
            continue
        if message.role == "assistant" and train:
            conversation.append({"from": "gpt", "value": message.content})
        elif conversation and conversation[-1]["from"] == "human":
            role = "assistant" if message.role == "assistant" else "user"
            conversation[-1]["value"] += f"{END}\n{START}{role}\n{message.content}"
        else:
            conversation.append({"from": "human", "value": message.content})
    return {"conversations": conversation, "system": system, "uid": row.uid, "question": row.question}


def _command(export: Export) -> str:
    numbers = export.preset.sft
    return one_command(
        "llamafactory-cli train",
        "--stage sft --do_train --template qwen --finetuning_type full",
        "--dataset_dir . --dataset trailforge_train",
        "--model_name_or_path $MODEL --output_dir sft-model --disable_shuffling",
        f"--cutoff_len {numbers.max_tokens}",
        f"--per_device_train_batch_size 1 --gradient_accumulation_steps {numbers.batch_size // _GPUS}",
        f"--num_train_epochs {numbers.epochs} --learning_rate {numbers.learning_rate}",
        f"--lr_scheduler_type {numbers.transformers_scheduler} --warmup_ratio {numbers.warmup_ratio} --bf16",
    )
