"""Rows of calls as they were sent, in no protocol: what a training set takes of them, and what stays refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.tiny import sft_row, training_set
from trailforge.evaluation.agents.search_o1 import BEGIN_QUERY, BEGIN_RESULT, END_QUERY, END_RESULT
from trailforge.schemas import ChatMessage, SftRow
from trailforge.training import exports
from trailforge.training.config import load_train_preset
from trailforge.training.exports import export
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.judging import RowJudge

SAID = (
    ChatMessage(role="user", content=f"To search, write {BEGIN_QUERY} query {END_QUERY}. Question: Who?"),
    ChatMessage(role="assistant", content=f"I look. {BEGIN_QUERY}who{END_QUERY}"),
    ChatMessage(role="tool", content=f"{BEGIN_RESULT}\nAda.\n{END_RESULT}"),
    ChatMessage(role="assistant", content="\\boxed{Ada}"),
)


def row(messages: tuple[ChatMessage, ...] = SAID, protocol: str = "") -> SftRow:
    return sft_row("u", messages, protocol=protocol, question="Who?", answer="Ada")


def reason_of(each: SftRow) -> str:
    verdict, _ = RowJudge(ViewConfig()).conversation(each)
    return verdict.reason if verdict else ""


def test_search_o1_s_own_marks_are_no_control_tokens_of_a_row_in_no_protocol() -> None:
    assert reason_of(row()) == ""
    assert reason_of(row(protocol="react")) == "malformed_row"


@pytest.mark.parametrize("token", ["<|im_end|>", "<|endoftext|>", "</s>"])
def test_other_tokens_in_what_was_read_are(token: str) -> None:
    held = replace(SAID[2], content=f"{BEGIN_RESULT}\nAda {token}\n{END_RESULT}")
    assert reason_of(row((*SAID[:2], held, SAID[3]))) == "malformed_row"


def test_exports_have_them_and_say_that_no_protocol_is_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "preset_for", lambda of: load_train_preset("msearcher"))
    folder = training_set(tmp_path / "set", sft=[row()])
    export(folder, "trl", tmp_path / "trl")
    assert "none: an agent's own words" in (tmp_path / "trl" / "README.md").read_text()
    export(folder, "sharegpt", tmp_path / "sharegpt")
    line = json.loads((tmp_path / "sharegpt" / "sft" / "train.jsonl").read_text())
    assert [each["from"] for each in line["conversations"]] == ["human", "gpt", "human", "gpt"]
