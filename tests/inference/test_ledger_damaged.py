"""A sqlite with something wrong in it, or whose writer fails: calls are made again, or a clear error; never a wait."""

from __future__ import annotations

import asyncio
import json
import math
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.inference.support import allowing, answer, chat, completion, config, model_server, reply_to
from trailforge.inference import Caps, ModelClient, Usage
from trailforge.inference.ledgers import sqlite
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.schemas import OutputError

WITHIN_S = 60.0
DAMAGES = {
    "no zstd": b"nonsense",
    "empty": b"",
    "text": "nonsense",
    "no JSON": zstandard.compress(b"<html>"),
    "deep": zstandard.compress(b"[" * 100_000),
    "another shape": zstandard.compress(b"[]"),
    "no text": zstandard.compress(json.dumps({"request": chat().content, "reply": {"text": None}}).encode()),
}
ODD_COUNTS = [1.5, 7.0, None, "7", math.nan, math.inf, -1_000_000, 10**30, True]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "ledger.sqlite"


@contextmanager
def opened(path: Path) -> Iterator[SqliteLedger]:
    book = SqliteLedger(path)
    try:
        yield book
    finally:
        book.close()


def change(path: Path, statement: str, *values: object) -> None:
    """Change the file behind the ledger's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


async def begun(path: Path, *requests: Any) -> None:
    """A sqlite that holds these calls."""
    with opened(path) as book:
        for request in requests:
            await book.put(request, reply_to(request))


def odd_entry(count: Any) -> bytes:
    """As an earlier version kept it."""
    reply = {"text": "Fritz Lang", "reasoning": "", "finish_reason": "stop"}
    counts = {"prompt_tokens": count, "completion_tokens": count}
    return zstandard.compress(json.dumps({"request": chat().content, "reply": reply | counts}).encode())


# The writer


@pytest.mark.parametrize("error", [TypeError("odd"), OverflowError("large"), MemoryError(), SystemExit()])
@pytest.mark.parametrize("where", ["_insert", "_add_spent", "_connect"])
async def test_whatever_goes_wrong_while_writing_reaches_who_waits_and_the_next_call_is_kept(
    path: Path, monkeypatch: pytest.MonkeyPatch, where: str, error: BaseException
) -> None:
    def fail(*_: Any) -> None:
        raise error

    with opened(path) as book:
        assert book.entries() == 0
        with monkeypatch.context() as patch:
            patch.setattr(sqlite, where, fail)
            writes = [book.put(each, reply_to(each)) for each in (completion("1"), completion("2"))]
            ends = await asyncio.wait_for(asyncio.gather(*writes, return_exceptions=True), WITHIN_S)
        assert [type(end) for end in ends] == [OutputError, OutputError]
        assert str(path) in str(ends[0]) and type(error).__name__ in str(ends[0])
        assert book.entries() == 0 and await book.spent() == Usage()
        await asyncio.wait_for(book.put(chat(), reply_to(chat())), WITHIN_S)
        assert book.entries() == 1 and await book.spent() == Usage(calls=1, prompt_tokens=7, completion_tokens=2)


@pytest.mark.parametrize("count", ODD_COUNTS)
async def test_a_count_that_no_column_takes_is_refused_and_the_ledger_stays_sound(path: Path, count: Any) -> None:
    with opened(path) as book:
        bad = book.put(chat(), reply_to(chat(), prompt_tokens=count))
        good = book.put(completion(), reply_to(completion()))
        refused, kept = await asyncio.wait_for(asyncio.gather(bad, good, return_exceptions=True), WITHIN_S)
        assert kept == reply_to(completion())
        assert isinstance(refused, OutputError) and "prompt_tokens" in str(refused)
        assert book.entries() == 1 and await book.spent() == Usage(calls=1, prompt_tokens=7, completion_tokens=2)


async def test_a_sum_beyond_what_a_column_takes_stays_a_whole_number_and_never_shrinks(path: Path) -> None:
    most = 2**63 - 1
    await begun(path, chat())
    change(path, "UPDATE spent SET prompt_tokens = ?", most - 3)
    with opened(path) as book:
        for number in range(3):
            await book.put(completion(str(number)), reply_to(completion(str(number))))
        assert await book.spent() == Usage(calls=4, prompt_tokens=most, completion_tokens=8)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT typeof(prompt_tokens) FROM spent").fetchone() == ("integer",)


# Entries


@pytest.mark.parametrize("value", DAMAGES.values(), ids=DAMAGES.keys())
async def test_a_damaged_entry_is_none_is_counted_once_and_makes_room_for_a_new_reply(path: Path, value: Any) -> None:
    await begun(path, chat())
    change(path, "UPDATE calls SET value = ?", value)
    with opened(path) as book:
        for _ in range(2):
            assert book.get(chat().key) is None and await book.find_complete(chat()) is None
        assert book.damaged == {chat().key} == book.unreadable()
        reply = reply_to(chat(), "asked anew", completion_tokens=200)
        assert await book.put(chat(), reply) == reply
        found = book.get(chat().key)
        assert found is not None and found.text == "asked anew"
        assert await book.find_complete(allowing(199)) is None, "the index still knows the old reply"
        assert await book.find_complete(allowing(200)) == found
        assert book.unreadable() == set()
        assert await book.spent() == Usage(calls=2, prompt_tokens=14, completion_tokens=202)


async def test_a_damaged_entry_does_not_hide_a_sound_one_of_its_family(path: Path) -> None:
    short, long = allowing(16), allowing(64)
    await begun(path, short, long)
    change(path, "UPDATE calls SET value = ? WHERE key = ?", b"", min(short.key, long.key))
    with opened(path) as book:
        found = await book.find_complete(allowing(32))
        assert found is not None and found.key == max(short.key, long.key)


async def test_of_two_who_replace_a_damaged_entry_the_first_wins(path: Path) -> None:
    await begun(path, chat())
    change(path, "UPDATE calls SET value = ?", b"")
    with opened(path) as one, opened(path) as other:
        await one.put(chat(), reply_to(chat(), "first"))
        assert (await other.put(chat(), reply_to(chat(), "second"))).text == "first"


async def test_a_run_over_a_ledger_with_damaged_entries_pays_for_these_alone_and_says_so(path: Path) -> None:
    async with model_server() as server:
        requests = [chat(str(n)) for n in range(10)]
        await begun(path, *requests)
        change(path, "UPDATE calls SET value = ? WHERE key IN (?, ?)", b"x", requests[3].key, requests[7].key)
        client = ModelClient(config(server.url), SqliteLedger(path))
        replies = await asyncio.gather(*map(client.complete, requests))
        assert [reply.text for reply in replies] == ["Fritz Lang"] * 10
        assert server.calls == client.figures["paid_calls"] == client.figures["damaged_calls"] == 2
        await client.aclose()


@pytest.mark.parametrize("count", ODD_COUNTS)
async def test_a_ledger_whose_counts_an_earlier_version_took_from_a_server_is_read_and_its_books_are_made_anew(
    path: Path, count: Any
) -> None:
    """It opened, and every row that used such a call broke; or its sum was none."""
    await begun(path, chat())
    change(path, "UPDATE calls SET value = ?", odd_entry(count))
    change(path, "UPDATE spent SET prompt_tokens = ?, completion_tokens = ?", 1.5, -1_000_000)
    with opened(path) as book:
        for found in (book.get(chat().key), await book.find_complete(chat())):
            assert found is not None and found.text == "Fritz Lang"
            assert type(found.prompt_tokens) is type(found.completion_tokens) is int
            assert 0 < found.prompt_tokens < 1000 and 0 < found.completion_tokens < 1000
            spent = Usage(calls=1, prompt_tokens=found.prompt_tokens, completion_tokens=found.completion_tokens)
            assert await book.spent() == spent
        assert not book.damaged and not book.unreadable()


async def test_a_ledger_of_an_earlier_version_with_damaged_entries_is_counted_without_them(path: Path) -> None:
    requests = [chat(str(n)) for n in range(len(DAMAGES) + 3)]
    await begun(path, *requests)
    for request, value in zip(requests, DAMAGES.values(), strict=False):
        change(path, "UPDATE calls SET value = ? WHERE key = ?", value, request.key)
    change(path, "DROP TABLE spent")
    change(path, "DROP TABLE complete")
    with opened(path) as book:
        assert await book.spent() == Usage(calls=len(requests), prompt_tokens=21, completion_tokens=6)
        assert [await book.find_complete(each) is None for each in requests] == [True] * len(DAMAGES) + [False] * 3


async def test_caps_count_what_a_ledger_of_odd_counts_was_paid_for(path: Path) -> None:
    """Minus a million tokens of an earlier version make no room."""
    await begun(path, chat())
    change(path, "UPDATE spent SET prompt_tokens = -1000000")
    async with model_server() as server:
        server.replies = [answer(usage=(100, 50)) for _ in range(50)]
        client = ModelClient(config(server.url, caps=Caps(max_tokens=1000)), SqliteLedger(path))
        ends = await asyncio.gather(*(client.complete(chat(str(n))) for n in range(50)), return_exceptions=True)
        assert sum(not isinstance(end, Exception) for end in ends) == server.calls < 7
        await client.aclose()


# The file


@pytest.mark.parametrize("seed", range(8))
async def test_a_file_with_damaged_pages_gives_replies_none_or_an_error_of_ours_with_its_mend(
    path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    requests = [completion(f"{n} {random.Random(n).randbytes(400).hex()}") for n in range(100)]
    await begun(path, *requests)
    change(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    for _ in range(40):
        at = rng.randrange(16_384, len(content) - 64)
        content[at : at + 64] = rng.randbytes(64)
    path.write_bytes(content)
    ends = []
    for request in requests:
        with opened(path) as book:
            for ask in (book.find, lambda key: book.put(requests[int(key, 16) % 100], reply_to(requests[0]))):
                try:
                    ends.append(await asyncio.wait_for(ask(request.key), WITHIN_S))
                except OutputError as error:
                    assert str(path) in str(error) and "are then paid again" in str(error), str(error)
                    ends.append("error")
    assert "error" in ends or None in ends
