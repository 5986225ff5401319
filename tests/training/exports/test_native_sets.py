"""Exports of training sets with native tool calls: what each trainer gets, and who is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.training.test_native import tokenizer_of
from tests.training.views.test_build import ALL, build
from tests.training.views.test_writings import agents as agents  # a fixture
from trailforge.protocols.browse.native import TOOLS
from trailforge.schemas import InvalidInput, SftRow
from trailforge.training.exports import export
from trailforge.training.native import native_tokens


@pytest.fixture
async def native_set(agents: Path, tmp_path: Path) -> Path:
    build([agents], tmp_path / "set", ALL)
    return tmp_path / "set"


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "sft" / "train.jsonl").read_text().splitlines()]


def rows_of(folder: Path) -> list[SftRow]:
    from trailforge.training.sets.files import open_set

    return list(open_set(folder).rows("sft", "train", SftRow))


async def test_openai_and_trl_get_calls_with_their_tools(native_set: Path, tmp_path: Path) -> None:
    export(native_set, "openai", tmp_path / "openai")
    export(native_set, "trl", tmp_path / "trl")
    for row, plain, made in zip(rows_of(native_set), lines(tmp_path / "openai"), lines(tmp_path / "trl"), strict=True):
        assert plain["tools"] == made["tools"] == list(TOOLS)
        weights = [message["weight"] for message in plain["messages"] if message["role"] == "assistant"]
        assert weights == [int(flag) for m, flag in zip(row.messages, row.train, strict=True) if m.role == "assistant"]
        assert len(made["prompt"]) == row.train.index(True)
        called = {each["id"] for message in plain["messages"] for each in message.get("tool_calls", ())}
        answered = {message["tool_call_id"] for message in plain["messages"] if message["role"] == "tool"}
        assert answered and answered <= called  # the last turn of a window calls, too


async def test_with_a_model_trl_gets_the_tokens_that_train_sft_trains(native_set: Path, tmp_path: Path) -> None:
    tokenizer = tokenizer_of("qwen3")
    tokenizer.save_pretrained(tmp_path / "model")
    export(native_set, "trl", tmp_path / "trl", base_model=str(tmp_path / "model"))
    expected = [
        {"input_ids": each.input_ids, "labels": each.labels}
        for row in rows_of(native_set)
        for each in native_tokens(tokenizer, row.native, row.train)  # type: ignore[arg-type]
    ]
    assert [{name: row[name] for name in ("input_ids", "labels")} for row in lines(tmp_path / "trl")] == expected
    assert "chat_template_path" in (tmp_path / "trl" / "README.md").read_text()


async def test_sharegpt_gets_conversations_of_which_every_turn_is_trained(native_set: Path, tmp_path: Path) -> None:
    export(native_set, "sharegpt", tmp_path / "out")
    made = lines(tmp_path / "out")
    whole = [row for row in rows_of(native_set) if row.segment_index == 0]
    assert len(made) == len(whole) > 0
    for row in made:
        assert [each["name"] for each in json.loads(row["tools"])] == ["search", "open", "find"]
        speakers = [each["from"] for each in row["conversations"]]
        assert speakers[0] == "human" and speakers[1::2] == ["function_call"] * len(speakers[1::2])
        thought, _, calls = row["conversations"][1]["value"].rpartition("\n")
        assert thought.startswith("<think>") and json.loads(calls)[0]["name"] == "search"
    info = json.loads((tmp_path / "out" / "dataset_info.json").read_text())["trailforge_train"]
    assert info["tags"]["function_tag"] == "function_call" and info["columns"]["tools"] == "tools"


@pytest.mark.parametrize("to", ["verl", "openrlhf", "slime"])
async def test_who_takes_no_calls_is_refused(native_set: Path, tmp_path: Path, to: str) -> None:
    with pytest.raises(InvalidInput, match="writings tags"):
        export(native_set, to, tmp_path / "out")
    assert not (tmp_path / "out").exists()
