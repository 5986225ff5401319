"""Export to TRL: conversations whose template marks the loss, and questions as prompts with the columns that rewards
get.
"""

from __future__ import annotations

import pyarrow as pa
import yaml

from trailforge.launching import ACCELERATE, LaunchConfig, accelerate_config
from trailforge.protocols.browse import asking_of
from trailforge.schemas import RlRow, SftRow
from trailforge.training.config import DpoConfig, TrainPreset, load_train_preset
from trailforge.training.exports.common import (
    BOOL,
    FLOAT,
    INT,
    MESSAGES,
    PAIRS,
    STR,
    TEMPLATE,
    Export,
    Make,
    Row,
    fence,
    has,
    marked_row,
    offered_tools,
    pair_row,
    prompt,
    readme,
    schema,
    sent_turns,
    template_note,
    truth_json,
)
from trailforge.training.exports.native import NativeRows

_TURNS = pa.list_(pa.struct([("role", STR), ("content", STR), ("train", BOOL)]))
SFT = schema([("messages", _TURNS), ("uid", STR), ("question", STR), ("data_source", STR), ("protocol", STR)])
RL = schema(
    [
        ("prompt", MESSAGES),
        ("ground_truth", STR),
        ("uid", STR),
        ("question", STR),
        ("answer", STR),
        ("support_titles", pa.list_(STR)),
        ("num_hops", INT),
        ("data_source", STR),
        ("protocol", STR),
        ("reward_preset", STR),
        ("corpus_id", STR),
        ("curriculum_stage", INT),
        ("difficulty", FLOAT),
    ]
)


def write(export: Export) -> str:
    """Write the files of the export, and return the README."""
    if export.is_native:
        export.json_lines("sft", _native(export))
    else:
        export.parquet("sft", SFT, _sft)
        export.template()
    export.parquet("rl", RL, _rl)
    export.parquet("pairs", PAIRS, pair_row)
    sections = {}
    if export.is_native:
        sections["Supervised training"] = _TOKENS_TEXT if export.base_model else _CALLS_TEXT
    elif has(export, "sft"):
        export.text("sft.yaml", _yaml(_sft_settings(export)))
        export.text(ACCELERATE, _yaml(accelerate_config(LaunchConfig(devices_per_node=export.devices))))
        command = fence(f"accelerate launch --config_file {ACCELERATE} -m trl.scripts.sft --config sft.yaml")
        sections["Supervised training"] = (
            f"In this folder:\n\n{command}\n\nA message's `train` says whether the loss is taken on it; the template "
            f"`{TEMPLATE}` reads it. The rows stand in the order of learning, so they are not shuffled. `{ACCELERATE}` "
            f"spreads the model over {export.devices} devices of one node (FSDP2); `--devices` of the export is for "
            "another number."
        )
    if has(export, "rl"):
        sections["Reinforcement learning"] = _RL_TEXT
    if has(export, "pairs") and (preset := _preset_of_pairs(export)).dpo is not None:
        export.text("dpo.yaml", _yaml(_dpo_settings(export, preset.dpo)))
        command = fence(f"accelerate launch --config_file {ACCELERATE} -m trl.scripts.dpo --config dpo.yaml")
        sections["Training on pairs"] = (
            f"In this folder, with the numbers of the preset `{preset.name}`:\n\n{command}\n\nPairs of several "
            "protocols are trained together; `protocol` tells them apart."
        )
        export.text(ACCELERATE, _yaml(accelerate_config(LaunchConfig(devices_per_node=export.devices))))
    if not export.is_native:
        sections["Masks and template"] = template_note(export)
    return readme(
        "For TRL",
        export,
        sections,
        has_run="TRL's own trainers on these files, on a CPU, with a small model; no GPU and no FSDP",
    )


def _native(export: Export) -> Make:
    """Makes the rows of a set with native calls: tokens where the model is known, else messages with tools."""
    if not export.base_model:
        return lambda row, split, number: windowed_row(row)
    native = NativeRows(export.base_model)
    return lambda row, split, number: [
        {"input_ids": each.input_ids, "labels": each.labels, "uid": row.uid} for each in native.of(row)
    ]


_TOKENS_TEXT = """`sft/train.jsonl` has tokens (`input_ids`, `labels`) in the model's own chat template, which TRL's
`SFTTrainer` takes as they are: each turn stands behind the tokens that a server reads before it, and has its loss in
one row. Leave `assistant_only_loss`, `completion_only_loss` and `chat_template_path` out, and set
`train_sampling_strategy: sequential`, as the rows stand in the order of learning. `trailforge train sft` trains the
same."""
_CALLS_TEXT = """`sft/train.jsonl` has `prompt`, `completion` and `tools`, a row for each window. A `completion` begins
with the first turn that is trained; results of tools stand in it, too. Train with `completion_only_loss=True` and
`assistant_only_loss=True`: TRL then takes a training template of its own, which may show earlier thoughts that the
model's own template drops. With `--base-model` the rows are tokens of what a server reads, and no template is needed.
`arguments` of calls are JSON as text; a template that writes them by `tojson` needs them as objects."""
_RL_TEXT = """`trailforge train rl` trains on TRL with a rollout that searches; it reads the training set itself and
no file from here. For a script of your own: TRL answers in one turn, and a search agent needs a `rollout_func`.
`trailforge.training.trl.rollouts.SearchRollouts` is one, for prompts that are ids of rows, and
`trailforge.training.adapters.trl.reward_function()` a reward for any.

Every column but `prompt` reaches the reward by its name; `ground_truth` is all that it needs, as JSON. `num_hops` is 0
where it is not known."""


def _sft(row: SftRow, split: str, number: int) -> Row:
    return marked_row(row, "train", bool) | {"protocol": row.protocol}


def windowed_row(row: SftRow) -> Row:
    """Return a context window of a long episode: `completion` begins with the first turn that is trained, and `tools`
    is a column beside it.
    """
    first, messages = row.train.index(True), sent_turns(row)
    return {"prompt": messages[:first], "completion": messages[first:]} | offered_tools(row)


def _rl(row: RlRow, split: str, number: int) -> Row:
    truth = row.reward_model.ground_truth
    return {
        "prompt": prompt(row),
        "ground_truth": truth_json(row),
        "uid": row.uid,
        "question": row.question,
        "answer": truth.target[0],
        "support_titles": list(truth.support_titles),
        "num_hops": truth.num_hops or 0,
        "data_source": row.data_source,
        "protocol": truth.protocol,
        "reward_preset": truth.reward_preset,
        "corpus_id": row.corpus_id,
        "curriculum_stage": row.curriculum_stage,
        "difficulty": row.difficulty,
    }


def _sft_settings(export: Export) -> dict[str, object]:
    numbers = export.preset.sft
    settings: dict[str, object] = {
        "model_name_or_path": export.base_model or numbers.base_model,
        "dataset_name": "sft",
        "output_dir": "sft-model",
        "assistant_only_loss": True,
        "chat_template_path": TEMPLATE,
        "eos_token": export.frame.end,
        "max_length": numbers.max_tokens,
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": numbers.batch_size // export.devices,
        "num_train_epochs": numbers.epochs,
        "learning_rate": numbers.learning_rate,
        "lr_scheduler_type": numbers.transformers_scheduler,
        "warmup_steps": numbers.warmup_ratio,
        "train_sampling_strategy": "sequential",
        "bf16": True,
    }
    if "sft/validation.parquet" in export.rows:
        settings |= {"dataset_test_split": "validation", "eval_strategy": "epoch"}
    return settings


def _preset_of_pairs(export: Export) -> TrainPreset:
    """That of the export, or of the protocol of most pairs where it has no numbers for them."""
    if export.preset.dpo is not None:
        return export.preset
    ((protocol, _),) = export.paired.most_common(1)
    return load_train_preset(asking_of(protocol).training)


def _dpo_settings(export: Export, numbers: DpoConfig) -> dict[str, object]:
    settings: dict[str, object] = {
        "model_name_or_path": export.base_model or numbers.base_model,
        "dataset_name": "pairs",
        "output_dir": "dpo-model",
        "max_length": numbers.max_tokens,
        "beta": numbers.beta,
        "per_device_train_batch_size": 1,
        "gradient_accumulation_steps": numbers.batch_size // export.devices,
        "num_train_epochs": numbers.epochs,
        "learning_rate": numbers.learning_rate,
        "lr_scheduler_type": numbers.transformers_scheduler,
        "warmup_steps": numbers.warmup_ratio,
        "bf16": True,
    }
    if "pairs/validation.parquet" in export.rows:
        settings |= {"dataset_test_split": "validation", "eval_strategy": "epoch"}
    return settings


def _yaml(settings: dict[str, object]) -> str:
    return yaml.safe_dump(settings, sort_keys=False)
