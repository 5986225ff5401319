"""What a ledger keeps of a call: back as it was, or nothing, and never an error of a library."""

from __future__ import annotations

import json
import math
import tracemalloc
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.inference.support import chat, reply_to
from trailforge.inference.provider.wire import MOST_TOKENS, pack, unpack
from trailforge.schemas import OutputError

REQUEST = chat()
KEPT = {"text": "Fritz Lang", "reasoning": "…", "finish_reason": "stop", "prompt_tokens": 7, "completion_tokens": 2}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
REPLY = st.fixed_dictionaries(dict.fromkeys(KEPT, JSON)) | JSON


def blob(content: object) -> bytes:
    """Anything, in the shell of an entry."""
    return zstandard.compress(json.dumps(content).encode())


def entry(**changes: Any) -> bytes:
    """An entry whose reply has these fields otherwise."""
    return blob({"request": REQUEST.content, "reply": KEPT | changes})


def bomb(size: int) -> bytes:
    """Little, that says it unpacks to so many bytes, and does."""
    pieces, compressor = [], zstandard.ZstdCompressor().compressobj(size=size)
    for _ in range(size // 2**20):
        pieces.append(compressor.compress(bytes(2**20)))
    return b"".join(pieces) + compressor.flush()


@pytest.mark.parametrize("tokens", [0, 7, MOST_TOKENS])
def test_an_entry_comes_back_as_it_was(tokens: int) -> None:
    reply = reply_to(REQUEST, "half an emoji \ud83d", prompt_tokens=tokens, completion_tokens=tokens)
    found = unpack(REQUEST.key, pack(REQUEST, reply))
    assert found is not None and found.reply == reply_to(
        REQUEST, "half an emoji \ud83d", prompt_tokens=tokens, completion_tokens=tokens, from_ledger=True
    )
    assert found.family == REQUEST.family


@pytest.mark.parametrize("tokens", [None, "7", 7.0, 1.5, math.nan, math.inf, -1, MOST_TOKENS + 1, 10**30, True, [7]])
@pytest.mark.parametrize("field", ["prompt_tokens", "completion_tokens"])
def test_a_count_that_no_ledger_takes_is_refused_by_name(field: str, tokens: Any) -> None:
    with pytest.raises(OutputError, match=field):
        pack(REQUEST, reply_to(REQUEST, **{field: tokens}))


@pytest.mark.parametrize("tokens", [None, "7", 7.5, math.nan, math.inf, -1, 10**30, True, [7]])
def test_of_an_entry_with_an_odd_count_the_text_counts_and_the_tokens_are_estimated(tokens: Any) -> None:
    """Earlier versions kept what the server said. The call was paid for: its text is not thrown away."""
    found = unpack(REQUEST.key, entry(prompt_tokens=tokens, completion_tokens=tokens))
    assert found is not None and found.reply.text == "Fritz Lang"
    for count in (found.reply.prompt_tokens, found.reply.completion_tokens):
        assert type(count) is int and 0 < count <= 300


DAMAGED: dict[str, object] = {
    "nothing": b"",
    "no zstd": b"nonsense",
    "cut": entry()[:-5],
    "bytes changed": entry()[:20] + b"\xff\xff\xff\xff" + entry()[24:],
    "text": "nonsense",
    "a number": 7,
    "null": None,
    "no UTF-8": zstandard.compress(b'{"reply": "\xff\xfe"}'),
    "no JSON": zstandard.compress(b"<html>"),
    "half of a JSON": zstandard.compress(b'{"reply": {"te'),
    "deep": zstandard.compress(b"[" * 100_000),
    "deep within": zstandard.compress(b'{"reply": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "a list": blob([]),
    "a string": blob("reply"),
    "no reply": blob({"request": REQUEST.content}),
    "no request": blob({"reply": KEPT}),
    "a request that is none": blob({"request": [], "reply": KEPT}),
    "a reply that is none": blob({"request": REQUEST.content, "reply": []}),
    "no text": entry(text=None),
    "a text of another kind": entry(text=["Fritz Lang"]),
    "reasoning of another kind": entry(reasoning=7),
    "no finish_reason": entry(finish_reason=None),
}


@pytest.mark.parametrize("value", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_entry_is_none(value: Any) -> None:
    assert unpack(REQUEST.key, value) is None


@given(content=JSON | st.fixed_dictionaries({"request": JSON, "reply": REPLY}))
def test_whatever_is_kept_gives_a_sound_reply_or_none(content: Any) -> None:
    found = unpack("key", blob(content))
    if found is not None:
        reply = found.reply
        assert all(type(n) is int and 0 <= n <= MOST_TOKENS for n in (reply.prompt_tokens, reply.completion_tokens))
        assert type(reply.text) is type(reply.reasoning) is type(reply.finish_reason) is str


@given(st.binary(max_size=200), st.integers(0, 200))
def test_whatever_bytes_are_kept_give_a_sound_reply_or_none(noise: bytes, at: int) -> None:
    whole = entry()
    for value in (noise, whole[:at] + noise + whole[at + len(noise) :]):
        found = unpack("key", value)
        assert found is None or isinstance(found.reply.text, str)


def test_an_entry_that_unpacks_to_a_gigabyte_is_not_unpacked() -> None:
    value = bomb(2**30)
    tracemalloc.start()
    try:
        assert unpack(REQUEST.key, value) is None
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
