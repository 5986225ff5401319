"""A long conversation: each call is hashed and kept by what is new in it, under the keys that it has by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from trailforge.inference import ChatTurn, LongChat, Reply, Request, Sampling
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.inference.provider import chat_message
from trailforge.inference.provider.wire import pack, unpack
from trailforge.schemas import ToolCall

TEXTS = st.text(max_size=8) | st.sampled_from(['"prompt": null', "\x7f", "é", "]"])
TURNS = st.builds(
    ChatTurn,
    role=st.sampled_from(["user", "assistant", "tool"]),
    content=TEXTS,
    reasoning=TEXTS,
    tool_call_id=st.sampled_from(["", "c1"]),
)


def asked(turns: tuple[ChatTurn, ...], conversation: LongChat | None, most: int = 64, model: str = "m") -> Request:
    return Request(model=model, prompt=turns, sampling=Sampling(max_tokens=most), conversation=conversation)


def reply_to(request: Request, text: str = "Yes.") -> Reply:
    return Reply(text=text, finish_reason="stop", prompt_tokens=9, completion_tokens=2, key=request.key)


def entry_of(blob: bytes) -> Any:
    return json.loads(zstandard.decompress(blob))["request"]


@given(st.lists(st.tuples(st.lists(TURNS, max_size=3), st.integers(0, 9), st.integers(1, 3)), max_size=6), TEXTS)
def test_keys_are_those_of_the_same_calls_alone(steps: list[tuple[list[ChatTurn], int, int]], model: str) -> None:
    """Whatever grows, is cut off or replaced, and however long a reply may be."""
    conversation, turns = LongChat(), list[ChatTurn]()
    for new, cut, most in steps:
        turns = turns[: len(turns) - cut if cut < 4 else len(turns)] + new
        if turns and cut == 9:
            turns[0] = replace(turns[0], content=f"{turns[0].content}.")  # equal in nothing but its place
        told, alone = (asked(tuple(turns), each, most, model) for each in (conversation, None))
        assert (told.key, told.family, told.form) == (alone.key, alone.family, alone.form)
        assert (told.sent_turns, told.sums) == (alone.sent_turns, alone.sums)
        assert f"[{told.sent_turns}]" == json.dumps([chat_message(turn) for turn in turns], ensure_ascii=False)
        assert told.sums.size == sum(len(text.encode()) for t in turns for text in t.words)
        conversation.keep(told, told.key)
        kept = unpack(told.key, pack(told, reply_to(told)))
        assert kept is not None and kept == unpack(alone.key, pack(alone, reply_to(alone)))


def grown(calls: int) -> tuple[list[Request], list[bytes]]:
    """The calls of one conversation, each with a result more, and their entries."""
    conversation, requests, blobs = LongChat(), list[Request](), list[bytes]()
    turns = [ChatTurn(role="user", content="Where does the road end?")]
    for number in range(calls):
        requests.append(asked(tuple(turns), conversation))
        blobs.append(pack(requests[-1], reply_to(requests[-1])))
        conversation.keep(requests[-1], requests[-1].key)
        call = ToolCall(id=f"c{number}", name="open", arguments="{}")
        turns.append(ChatTurn(role="assistant", content="", tool_calls=(call,)))
        turns.append(ChatTurn(role="tool", content=f"{number} " * 300, tool_call_id=f"c{number}"))
    return requests, blobs


def test_what_is_kept_grows_as_the_conversation_does() -> None:
    """Each entry has what is new, and says where the rest stands: together they have every turn once."""
    requests, blobs = grown(20)
    entries = [entry_of(blob) for blob in blobs]
    told = [turn for entry in entries for turn in entry["prompt"]]
    assert told == [turn.identity for turn in requests[-1].prompt if isinstance(turn, ChatTurn)]
    assert [entry.get("after") for entry in entries] == [None, *(request.key for request in requests[:-1])]
    assert max(map(len, blobs)) < 2 * len(blobs[1])


def test_an_entry_that_takes_its_own_place_is_whole() -> None:
    """It was damaged and paid again, so that nothing else has its turns."""
    requests, _ = grown(3)
    again = pack(requests[-1], reply_to(requests[-1]))
    assert len(entry_of(again)["prompt"]) == len(requests[-1].prompt) and "after" not in entry_of(again)


@pytest.mark.parametrize("lost", [0, 1])
async def test_replies_are_found_by_calls_alone_and_whatever_else_is_lost(tmp_path: Path, lost: int) -> None:
    """A ledger of deltas answers calls without a conversation, and keeps each reply though an earlier entry is gone."""
    requests, _ = grown(3)
    conversation, ledger = LongChat(), SqliteLedger(tmp_path / "l.sqlite")
    for number, each in enumerate(requests):
        request = replace(each, conversation=conversation)
        await ledger.put(request, reply_to(request, f"Reply {number}."))
        conversation.keep(request, request.key)
    assert ledger._writer is not None
    ledger._writer.execute("UPDATE calls SET value = x'00' WHERE key = ?", (requests[lost].key,))
    for number, each in enumerate(requests):
        found = await ledger.find(replace(each, conversation=None).key)
        assert (found.text if found else None) == (None if number == lost else f"Reply {number}.")
    longer = replace(requests[2], sampling=Sampling(max_tokens=128), conversation=None)
    other = await ledger.find_complete(longer)
    assert other is not None and other.text == "Reply 2."
    await ledger.aclose()
