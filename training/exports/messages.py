"""Export conversations as messages: for OpenRLHF, with questions and our agent, and in ShareGPT's form."""

from __future__ import annotations

import json
from typing import Any

import yaml

from trailforge.schemas import PreferenceRow, RlRow, SftRow, ToolCall, parse_json
from trailforge.training.adapters.search_episodes import SETTINGS
from trailforge.training.exports.common import (
    MESSAGES,
    PAIRS,
    SEARCH_NOTE,
    SFT,
    SHUFFLES,
    STR,
    Export,
    Row,
    fence,
    has,
    learnt,
    marked_row,
    offered_tools,
    one_command,
    pair_row,
    prompt,
    readme,
    schema,
    search_settings,
    sent_turns,
    sft_row,
    template_note,
    truth_json,
    validation_of,
)
from trailforge.training.masks import END, START

QUESTIONS = schema([("prompt", MESSAGES), ("label", STR), ("uid", STR), ("data_source", STR)])


def write_openrlhf(export: Export) -> str:
    """Write questions with a JSON label, and conversations as `SFT`; returns the README."""
    export.parquet("sft", SFT, sft_row)
    export.parquet("rl", QUESTIONS, _question)
    export.parquet("pairs", PAIRS, pair_row)
    export.template()
    sections = {}
    if has(export, "sft"):
        sections["Supervised training"] = (
            f"In this folder:\n\n{fence(_openrlhf_command(export))}\n\n{SHUFFLES.format('OpenRLHF')}"
        )
    if has(export, "rl"):
        export.text("search.yaml", yaml.safe_dump(search_settings(export.preset), sort_keys=False))
        sections["Reinforcement learning"] = f"{_RL_TEXT}\n\n{SEARCH_NOTE}"
    if has(export, "pairs"):
        sections["Training on pairs"] = (
            "`openrlhf.cli.train_dpo` reads `pairs/` by keys of the names `prompt`, `chosen` and `rejected`, with the "
            "tokenizer's chat template applied."
        )
    return readme(
        "For OpenRLHF",
        export,
        sections | {"Masks and template": template_note(export)},
        truth="label",
        has_run="its `SFTDataset` (0.11.2) and its reading of an agent's answer, on a CPU; none of its trainer, no GPU",
    )


_RL_TEXT = f"""`openrlhf.cli.train_ppo_ray` reads `rl/` with `--data.input_key prompt --data.label_key label
--data.apply_chat_template`: the label is the ground truth as JSON. Our agent searches and pays the episodes:
`--train.agent_func_path` is the path of `trailforge/training/adapters/openrlhf.py`, and `{SETTINGS}` in the workers'
environment that of `search.yaml`, with its `documents` filled in. `--data.max_len` is the longest episode, prompt
included. OpenRLHF reckons with groups of one size: of an episode whose search failed no token is trained, but what it
is paid counts in its group's mean."""


def _question(row: RlRow, split: str, number: int) -> Row:
    return {"prompt": prompt(row), "label": truth_json(row), "uid": row.uid, "data_source": row.data_source}


def _openrlhf_command(export: Export) -> str:
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


def openai_row(row: SftRow) -> Row:
    """Return a conversation in OpenAI's form: the agent's turns without loss have `weight` 0, and `tools` is a column
    beside it.
    """
    messages = [
        each | ({"weight": int(train)} if each["role"] == "assistant" else {})
        for each, train in zip(sent_turns(row), row.train, strict=True)
    ]
    return {"messages": messages[: len(learnt(row))]} | offered_tools(row)


def write_openai(export: Export) -> str:
    """Write conversations as plain messages in OpenAI's form; returns the README."""
    export.json_lines("sft", _weighted)
    return readme("JSON Lines in OpenAI's form", export, {"Masks": _WEIGHTS} if has(export, "sft") else {})


def _weighted(row: SftRow, split: str, number: int) -> Row:
    """Without native calls, what a search brought is a user's turn: a `tool` turn would have to answer a call."""
    if row.native is not None:
        return openai_row(row)
    turns = [
        {"role": message["role"], "content": message["content"]}
        | ({"weight": message["weight"]} if message["role"] == "assistant" else {})
        for message in marked_row(row, "weight", int)["messages"]
    ]
    return {"messages": turns}


_WEIGHTS = """`weight` is 0 at turns of the agent without loss, as OpenAI's fine-tuning reads it. Searches are tags in
the agent's text, and results are turns of the user; where the model made native tool calls, these and `tools` stand as
they were. `sft/` is in the order of learning. Questions and pairs are not here: `--to trl` has them."""


def write_sharegpt(export: Export) -> str:
    """Write conversations and pairs in ShareGPT's form, with the description by which LLaMA-Factory reads them; returns
    the README.
    """
    export.json_lines("sft", _called_or_said if export.is_native else _conversation)
    export.json_lines("pairs", _ranked)
    sections = {"Masks": _CALLED_MASKS if export.is_native else _MASKS}
    export.text(
        "dataset_info.json",
        json.dumps({_named(name): _entry(name, is_native=export.is_native) for name in export.rows}, indent=1),
    )
    if has(export, "pairs"):
        sections["Training on pairs"] = "`--stage dpo` with `--dataset trailforge_pairs_train`."
    if has(export, "sft"):
        command = fence(_llamafactory_command(export))
        sections["Supervised training"] = (
            f"In this folder, on {export.devices} devices:\n\n{command}\n\nA model that is "
            "too large to train on one of them also wants `--deepspeed` with a configuration of LLaMA-Factory's "
            "`examples/deepspeed/`."
        )
    ran = "nothing of LLaMA-Factory (0.9.5): the command was compared with a list of its options"
    return readme("As ShareGPT", export, sections, has_run=ran)


_COLUMNS = {
    "formatting": "sharegpt",
    "columns": {"messages": "conversations", "system": "system"},
    "tags": {"role_tag": "from", "content_tag": "value", "user_tag": "human", "assistant_tag": "gpt"},
}
_MASKS = """`gpt` turns are trained, `human` turns are not. What a search brought is a `human` turn as it stands: the
role `observation` would put tags around it a second time. Use the template `qwen` (ChatML)."""


_CALLED_MASKS = """`gpt` and `function_call` turns are trained, `human` and `observation` turns are not. No mark is
there for a turn of the agent without loss: conversations with one, as windows after the first, are not here: take
`--to trl --base-model MODEL`, or `trailforge train sft`. Choose the model's own template (as `qwen3`), which writes
`tools` and calls."""


def _named(file: str) -> str:
    table, _, split = file.removesuffix(".jsonl").partition("/")
    return f"trailforge_{split}" if table == "sft" else f"trailforge_{table}_{split}"


def _entry(file: str, *, is_native: bool) -> dict[str, object]:
    """How LLaMA-Factory reads a file."""
    entry: dict[str, object] = {"file_name": file, **_COLUMNS}
    if is_native and file.startswith("sft/"):
        tags = {**_COLUMNS["tags"], "observation_tag": "observation", "function_tag": "function_call"}  # type: ignore[dict-item]
        columns = {"messages": "conversations", "system": "system", "tools": "tools"}
        entry |= {"columns": columns, "tags": tags}
    if file.startswith("pairs/"):
        ends = {name: name for name in ("chosen", "rejected")}
        entry |= {"ranking": True, "columns": {"messages": "conversations", "system": "system", **ends}}
    return entry


def _ranked(row: PreferenceRow, split: str, number: int) -> Row | None:
    """Of a prompt `gpt` turns are the agent's earlier ones; the ends alone are trained."""
    if (made := pair_row(row, split, number)) is None:
        return None
    system, *turns = made["prompt"] if made["prompt"][0]["role"] == "system" else [{"content": ""}, *made["prompt"]]
    speakers = {"assistant": "gpt", "user": "human"}
    return {
        "conversations": [{"from": speakers[turn["role"]], "value": turn["content"]} for turn in turns],
        "system": system["content"],
        **{name: {"from": "gpt", "value": made[name][0]["content"]} for name in ("chosen", "rejected")},
        "uid": row.uid,
        "question": row.question,
        "ends_here": made["ends_here"],
    }


def _called_or_said(row: SftRow, split: str, number: int) -> Row | None:
    """Of a set in which some conversations have native calls; None where a turn of the agent has no loss."""
    if any(each.role == "assistant" and not train for each, train in learnt(row)):
        return None
    return _called(row) if row.native is not None else _conversation(row, split, number) | {"tools": ""}


def _called(row: SftRow) -> Row:
    """A conversation with native calls: `function_call` turns hold the calls as a JSON list behind their thought, and
    `observation` turns the results of one turn. It ends behind the last turn with a loss.
    """
    assert row.native is not None
    system, conversation = "", list[dict[str, str]]()
    for message in row.native.messages[: len(learnt(row))]:
        thought = f"<think>\n{message.reasoning}\n</think>\n\n" if message.reasoning else ""
        if message.role == "system":
            system = message.content
        elif message.role == "tool" and conversation[-1]["from"] == "observation":
            conversation[-1]["value"] += f"\n{message.content}"
        elif message.role == "assistant" and message.tool_calls:
            calls = [{"name": each.name, "arguments": _arguments(each)} for each in message.tool_calls]
            said = f"{message.content}\n" if message.content else ""
            value = f"{thought}{said}{json.dumps(calls, ensure_ascii=False)}"
            conversation.append({"from": "function_call", "value": value})
        else:
            speaker = {"assistant": "gpt", "tool": "observation"}.get(message.role, "human")
            conversation.append({"from": speaker, "value": f"{thought}{message.content}"})
    return {
        "conversations": conversation,
        "system": system,
        "tools": json.dumps([each["function"] for each in json.loads(row.native.tools)], ensure_ascii=False),
        "uid": row.uid,
        "question": row.question,
    }


def _arguments(call: ToolCall) -> Any:
    try:
        return parse_json(call.arguments)
    except ValueError:
        return call.arguments


def _conversation(row: SftRow, split: str, number: int) -> Row:
    """A `gpt` turn is trained, a `human` turn is not.

    Where only some of the agent's turns are trained, what stands before the trained turn becomes one `human` turn, with
    the marks of the template in its text.
    """
    system = row.messages[0].content if row.messages[0].role == "system" else ""
    conversation: list[dict[str, str]] = []
    for message, train in learnt(row):
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


def _llamafactory_command(export: Export) -> str:
    numbers = export.preset.sft
    return one_command(
        "llamafactory-cli train",
        "--stage sft --do_train --template qwen --finetuning_type full",
        "--dataset_dir . --dataset trailforge_train",
        "--model_name_or_path $MODEL --output_dir sft-model --disable_shuffling",
        f"--cutoff_len {numbers.max_tokens}",
        f"--per_device_train_batch_size 1 --gradient_accumulation_steps {numbers.batch_size // export.devices}",
        f"--num_train_epochs {numbers.epochs} --learning_rate {numbers.learning_rate}",
        f"--lr_scheduler_type {numbers.transformers_scheduler} --warmup_ratio {numbers.warmup_ratio} --bf16",
    )
