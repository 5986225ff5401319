"""What a reply is charged: never less than its server reports, as far as that can be; and nothing that cannot be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.inference.support import ModelServer, answer, chat, completion, model_server, reply_to
from tests.inference.test_client import client_of
from trailforge.inference import Caps, Sampling
from trailforge.inference.budget import MOST_REPORTED, charged_tokens, own_tokens
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.schemas import BudgetExceeded


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as started:
        yield started


OWN = object()
"""A figure that is counted by us."""
ABSENT = object()
IMPOSSIBLE: list[tuple[Any, Any, Any]] = [
    *((usage, OWN, OWN) for usage in (ABSENT, None, [], "7", {}, {"total_tokens": 14})),
    ({"prompt_tokens": 20}, 20, OWN),
    ({"completion_tokens": 3}, OWN, 3),
    *(
        ({"prompt_tokens": 20, "completion_tokens": bad}, 20, OWN)
        for bad in (None, "3", 1.5, True, -1, 0, 2**21, 2**31, 10**30)
    ),
    *(
        ({"prompt_tokens": bad, "completion_tokens": 3}, OWN, 3)
        for bad in (None, "20", 20.0, True, -1, 0, 2**21, 2**63, 10**30)
    ),
    ({"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 3000}, 20, 2980),
    ({"prompt_tokens": float("nan"), "completion_tokens": float("inf")}, OWN, OWN),
]


@pytest.mark.parametrize(
    ("usage", "prompt", "completed"),
    IMPOSSIBLE,
    ids=["absent" if row[0] is ABSENT else str(row[0]) for row in IMPOSSIBLE],
)
@pytest.mark.parametrize("ask", [chat, completion])
async def test_what_usage_does_not_say_is_counted_by_us(
    server: ModelServer, tmp_path: Path, usage: Any, prompt: Any, completed: Any, ask: Any
) -> None:
    body = answer("Fritz Lang", usage=None) | ({} if usage is ABSENT else {"usage": usage})
    server.replies = [web.Response(text=json.dumps(body), content_type="application/json")]
    request, path = ask(), tmp_path / "ledger.sqlite"
    async with client_of(server.url, path) as client:
        reply = await asyncio.wait_for(client.complete(request), 60)
        assert (client.figures["disbelieved_usage"], client.counters.retries) == (1, 0)
    async with client_of(server.url, path) as client:
        kept = await client.complete(request)
    assert kept.from_ledger and server.calls == 1
    own = own_tokens(request, reply_to(request, "Fritz Lang"))
    expected = own[0] if prompt is OWN else prompt, own[1] if completed is OWN else completed
    for each in (reply, kept):
        assert type(each.prompt_tokens) is type(each.completion_tokens) is int
        assert (each.prompt_tokens, each.completion_tokens) == expected


@pytest.mark.parametrize("usage", [(1000, 256), (2000, 9000), (20, 257), (5000, 3)])
async def test_usage_that_can_be_is_taken(server: ModelServer, usage: tuple[int, int]) -> None:
    """Thoughts that no bound of ours ends, and prompts that a server adds to, are paid for as well."""
    server.replies = [answer("Fritz Lang", usage=usage)]
    async with client_of(server.url) as client:
        reply = await client.complete(chat())
        assert client.figures["disbelieved_usage"] == 0
    assert (reply.prompt_tokens, reply.completion_tokens) == usage


def test_a_prompt_that_cannot_be_does_not_unsay_the_completion() -> None:
    """As where cached tokens are left out."""
    request = chat("x" * 8000, sampling=Sampling(max_tokens=1024))
    reply = reply_to(request, "Paris")
    usage = {"prompt_tokens": 5, "completion_tokens": 900, "total_tokens": 905}
    assert charged_tokens(usage, request, reply) == (own_tokens(request, reply)[0], 900, False)


@pytest.mark.parametrize("usage", [None, (0, 0), (-1_000_000, -1_000_000), (1, 0)])
async def test_caps_hold_whatever_a_server_says(server: ModelServer, tmp_path: Path, usage: Any) -> None:
    server.replies = [answer("word " * 100, usage=usage) for _ in range(100)]
    async with client_of(server.url, tmp_path / "ledger.sqlite", caps=Caps(max_tokens=3000), max_in_flight=1) as client:
        with pytest.raises(BudgetExceeded):
            for number in range(100):
                await client.complete(chat(str(number)))
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    spent = await ledger.spent()
    ledger.close()
    assert 5 <= server.calls <= 24  # 125 tokens of reply each at the least, if only four bytes were a token
    assert 2000 < spent.tokens <= 3000


COUNTS = st.integers() | st.integers(0, 5000) | st.floats() | st.booleans()


@given(
    usage=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), COUNTS)
    ),
    prompt=st.text(),
    text=st.text(),
    reasoning=st.text(),
    longest=st.integers(1, 1000),
)
def test_what_is_charged_is_bounded(usage: Any, prompt: str, text: str, reasoning: str, longest: int) -> None:
    request = chat(prompt, sampling=Sampling(max_tokens=longest))
    reply = reply_to(request, text, reasoning=reasoning)
    own_prompt, own_completion = own_tokens(request, reply)
    charged_prompt, charged_completion, is_said = charged_tokens(usage, request, reply)
    sent, received = len(prompt.encode()), len((text + reasoning).encode())
    assert sent / 128 <= charged_prompt <= MOST_REPORTED and received / 128 <= charged_completion <= MOST_REPORTED
    said = {name: count for name, count in usage.items() if type(count) is int and 0 <= count <= MOST_REPORTED}
    assert charged_prompt >= said.get("prompt_tokens", 0)
    assert charged_completion >= said.get("completion_tokens", 0)
    assert charged_prompt + charged_completion >= said.get("total_tokens", 0)
    assert is_said is (
        (charged_prompt, charged_completion) == (said.get("prompt_tokens"), said.get("completion_tokens"))
    )
    if not said:
        assert (charged_prompt, charged_completion) == (own_prompt, own_completion)
    assert own_prompt >= sent / 2
    assert min(received / 2, longest) <= own_completion
    assert own_completion <= longest or own_completion == received // 4
