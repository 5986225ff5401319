"""Exports of training sets with native tool calls: what each trainer gets, and who is refused."""

from __future__ import annotations

import asyncio
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.native_models import THINKING, native_tokenizer
from tests.training.exports.commands import command_in, verl_settings
from tests.training.test_native import tokenizer_of
from tests.training.tiny import rl_rows, training_set
from tests.training.views.test_build import ALL, build
from tests.training.views.test_writings import agents_run
from trailforge.protocols.browse import BROWSE
from trailforge.protocols.browse.native import TOOLS, TOOLS_JSON
from trailforge.schemas import InvalidInput, RlRow, SftRow, count_tokens
from trailforge.training.adapters.verl_sft import TokenDataset
from trailforge.training.config import load_train_preset
from trailforge.training.exports import VerlFiles, VerlOptions, export
from trailforge.training.native.tokens import native_tokens


@pytest.fixture(scope="module")
def native_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of four episodes. To be read only."""
    folder = tmp_path_factory.mktemp("native")
    build([asyncio.run(agents_run(folder / "run", 4))], folder / "set", ALL)
    return folder / "set"


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "sft" / "train.jsonl").read_text().splitlines()]


def rows_of(folder: Path) -> list[SftRow]:
    from trailforge.training.sets.files import open_set

    return list(open_set(folder).rows("sft", "train", SftRow))


def test_openai_and_trl_get_calls_with_their_tools(native_set: Path, tmp_path: Path) -> None:
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


def test_with_a_model_trl_gets_the_tokens_that_train_sft_trains(native_set: Path, tmp_path: Path) -> None:
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


def test_sharegpt_gets_conversations_of_which_every_turn_is_trained(native_set: Path, tmp_path: Path) -> None:
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


def test_verl_gets_the_tokens_that_train_sft_trains(native_set: Path, tmp_path: Path) -> None:
    """By our data set, as verl makes it by the names that the README's command gives."""
    tokenizer = native_tokenizer(THINKING)
    tokenizer.save_pretrained(tmp_path / "model")
    with pytest.raises(InvalidInput, match="--base-model"):
        export(native_set, "verl", tmp_path / "verl")
    export(native_set, "verl", tmp_path / "verl", base_model=str(tmp_path / "model"))
    given = verl_settings("sft_trainer_engine", sft_words(tmp_path / "verl"))
    assert given["data.custom_cls.path"] == f"pkg://{TokenDataset.__module__}"
    assert given["data.custom_cls.name"] == TokenDataset.__name__
    files = str(tmp_path / "verl" / "sft" / "train.parquet")
    data = TokenDataset(files, tokenizer, {"pad_mode": "no_padding", "max_length": 100_000, "truncation": "right"})
    expected = [
        each
        for row in rows_of(native_set)
        for each in native_tokens(tokenizer, row.native, row.train)  # type: ignore[arg-type]
    ]
    assert len(data) == len(expected) > 0
    for number, each in enumerate(expected):
        found = data[number]
        assert found["input_ids"].tolist() == each.input_ids and found["loss_mask"].tolist() == each.mask
        assert found["position_ids"].tolist() == list(range(len(each.mask)))
    cut = TokenDataset([files], tokenizer, {"max_length": 5, "truncation": "right"}, max_samples=1)
    assert len(cut) == 1 and cut[0]["input_ids"].tolist() == expected[0].input_ids[:5]
    with pytest.raises(InvalidInput, match="5 fit"):
        TokenDataset(files, tokenizer, {"max_length": 5})[0]
    with pytest.raises(InvalidInput, match="never padded"):
        TokenDataset(files, tokenizer, {"pad_mode": "right"})


def sft_words(folder: Path) -> list[str]:
    words = command_in(folder / "README.md", "verl.trainer.sft_trainer")
    return words[words.index("verl.trainer.sft_trainer") + 1 :]


@pytest.mark.parametrize("to", ["openrlhf", "slime"])
def test_who_takes_no_calls_is_refused(native_set: Path, tmp_path: Path, to: str) -> None:
    with pytest.raises(InvalidInput, match="writings tags"):
        export(native_set, to, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("to", ["openrlhf", "slime"])
def test_questions_of_research_agents_are_refused_where_nothing_calls(tmp_path: Path, to: str) -> None:
    asked = training_set(tmp_path / "set", rl=rl_rows(BROWSE))
    with pytest.raises(InvalidInput, match="cannot train; take --to verl"):
        export(asked, to, tmp_path / "out")


async def test_verl_has_room_for_tools_that_stand_in_no_row(tmp_path: Path) -> None:
    """Whoever starts it, also where the model makes half as many tokens more than the set was measured by."""
    opened = build([await agents_run(tmp_path / "run", 4)], tmp_path / "set", replace(ALL, protocol=BROWSE))
    longest = max(opened.rows("rl", "train", RlRow), key=lambda row: sum(len(said.content) for said in row.prompt))
    assert longest.reward_model.ground_truth.protocol == BROWSE
    read = sum(count_tokens(said.content) for said in longest.prompt) + count_tokens(TOOLS_JSON)
    native_tokenizer(THINKING).save_pretrained(tmp_path / "model")
    export(tmp_path / "set", "verl", tmp_path / "verl", base_model=str(tmp_path / "model"))
    exported = command_in(tmp_path / "verl" / "README.md", "verl.trainer.main_ppo")
    recipe = load_train_preset(BROWSE)
    recipe = replace(recipe, retrieval=recipe.retrieval.of_kind("http://127.0.0.1:9"))
    files = VerlFiles(recipe, VerlOptions(), str(tmp_path / "model"), "python3")
    started = shlex.split(files.write(tmp_path / "set", tmp_path / "out", (), None).read_text().replace("\\\n", " "))
    for words in (exported, started):
        (room,) = (int(word.partition("=")[2]) for word in words if word.startswith("data.max_prompt_length="))
        assert 1.5 * read < room < recipe.rl.max_tokens
