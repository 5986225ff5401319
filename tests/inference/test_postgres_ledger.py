"""The shared ledger, against a real PostgreSQL server: the same promises as the file's, and a server that goes away."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.inference.support import chat, check_families, completion, reply_to
from tests.support import postgres
from tests.support.ledger_writers import acknowledged, begin
from trailforge.inference import Usage
from trailforge.inference.ledgers import PASSWORD_VARIABLE
from trailforge.inference.ledgers.postgres import PostgresLedger
from trailforge.schemas import InvalidInput, OutputError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    with postgres.running() as running:
        yield running


@pytest.fixture(autouse=True)
def empty(server: postgres.Server) -> None:
    server.ask("DROP TABLE IF EXISTS trailforge_calls, trailforge_spent, trailforge_ledger")


@asynccontextmanager
async def opened(server: postgres.Server, **changes: Any) -> AsyncIterator[PostgresLedger]:
    ledger = PostgresLedger(server.url, server.password, **changes)
    try:
        yield ledger
    finally:
        await ledger.aclose()


@contextmanager
def writer(server: postgres.Server, name: str, *, own: int = 0, shared: int = 0) -> Iterator[subprocess.Popen[str]]:
    """A process that is ready to write."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.inference.ledger_writer", server.url, name, str(own), str(shared), "8"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        env=os.environ | {PASSWORD_VARIABLE: server.password},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


async def kept(server: postgres.Server, keys: list[str]) -> dict[str, str]:
    async with opened(server) as ledger:
        return {key: reply.text for key in keys if (reply := await ledger.find(key)) is not None}


async def test_a_reply_comes_back_as_it_was_kept(server: postgres.Server) -> None:
    request = chat("half an emoji \ud83d, a zero \x00")
    reply = reply_to(request, "Fritz \x00 Lang \ud83d", reasoning="…", finish_reason="length", prompt_tokens=99)
    async with opened(server) as ledger:
        assert await ledger.find(request.key) is None
        assert await ledger.put(request, reply) == reply
    async with opened(server) as ledger:
        found = await ledger.find(request.key)
        assert await ledger.entries() == 1
    assert found == reply_to(request, "Fritz \x00 Lang \ud83d", **{
        "reasoning": "…", "finish_reason": "length", "prompt_tokens": 99, "from_ledger": True
    })  # fmt: skip


async def test_a_complete_reply_serves_every_length_that_it_fits_and_a_cut_one_none_but_its_own(
    server: postgres.Server,
) -> None:
    async with opened(server) as ledger:
        await check_families(ledger)


async def test_what_a_run_spent_is_added_up_over_its_workers_and_no_other_run_s(server: postgres.Server) -> None:
    one, two = {"run": "one"}, {"run": "two"}
    async with opened(server, **one) as here, opened(server, **one) as there, opened(server, **two) as other:
        requests = [completion(str(n)) for n in range(40)]
        await asyncio.gather(*((here, there)[n % 2].put(r, reply_to(r)) for n, r in enumerate(requests)))
        await other.put(requests[0], reply_to(requests[0]))
        assert await here.spent() == await there.spent() == Usage(calls=40, prompt_tokens=280, completion_tokens=80)
        assert await other.spent() == Usage(calls=1, prompt_tokens=7, completion_tokens=2)


async def test_who_came_first_wins(server: postgres.Server) -> None:
    request = completion()
    async with opened(server) as one, opened(server) as other:
        await one.put(request, reply_to(request, "first"))
        second = await other.put(request, reply_to(request, "second"))
        found = await one.find(request.key)
    assert second.text == "first" and second.from_ledger
    assert found == second


async def test_of_many_at_once_one_wins_and_all_agree(server: postgres.Server) -> None:
    request = completion()
    async with opened(server) as one, opened(server) as other:
        replies = [(one, other)[n % 2].put(request, reply_to(request, str(n))) for n in range(60)]
        assert len({reply.text for reply in await asyncio.gather(*replies)}) == 1
        assert await one.entries() == 1


def test_three_processes_that_make_the_tables_and_write_at_once_lose_nothing_and_agree(
    server: postgres.Server,
) -> None:
    with (
        writer(server, "one", own=150, shared=150) as one,
        writer(server, "two", own=150, shared=150) as two,
        writer(server, "three", own=150, shared=150) as three,
    ):
        for process in (one, two, three):
            begin(process)
        said = [acknowledged(process.communicate()[0].splitlines(keepends=True)) for process in (one, two, three)]
    assert [len(each) for each in said] == [300, 300, 300]
    shared = said[0].keys() & said[1].keys() & said[2].keys()
    assert len(shared) == 150
    assert all(len({each[key] for each in said}) == 1 for key in shared)
    everything = said[0] | said[1] | said[2]
    assert server.ask("SELECT count(*) FROM trailforge_calls") == len(everything) == 600
    assert asyncio.run(kept(server, list(everything))) == everything


def test_a_worker_that_is_killed_has_lost_nothing_that_it_was_told_is_kept(server: postgres.Server) -> None:
    rng = random.Random(1)
    promised: dict[str, str] = {}
    for attempt in range(4):
        with writer(server, f"killed-{attempt}", own=3_000) as process:
            assert process.stdout is not None
            begin(process)
            lines = [process.stdout.readline() for _ in range(rng.randint(1, 300))]
            os.kill(process.pid, signal.SIGKILL)
            lines += process.stdout.readlines()
            assert process.wait() == -signal.SIGKILL, "it had finished before it was killed"
        promised |= acknowledged(lines)
    assert len(promised) > 4
    assert asyncio.run(kept(server, list(promised))) == promised


def test_a_server_that_is_killed_has_lost_nothing_either_and_its_workers_wait_for_it(server: postgres.Server) -> None:
    with writer(server, "patient", own=600) as process:
        assert process.stdout is not None
        begin(process)
        lines = [process.stdout.readline() for _ in range(100)]
        server.kill()
        time.sleep(0.5)
        server.start()
        lines += process.stdout.readlines()
    said = acknowledged(lines)
    assert len(said) == len(lines) == 600, [line for line in lines if line.startswith("error")]
    assert asyncio.run(kept(server, list(said))) == said


async def test_a_server_that_acknowledges_before_it_has_written_is_told_to_write_first(server: postgres.Server) -> None:
    await server.asked("ALTER ROLE forger SET synchronous_commit = off")
    try:
        async with opened(server) as ledger:
            assert (await ledger._ask("SHOW synchronous_commit"))[0][0] == "on"
    finally:
        await server.asked("ALTER ROLE forger RESET synchronous_commit")


async def test_a_caller_who_gives_up_does_not_keep_a_reply_from_being_kept(server: postgres.Server) -> None:
    request = completion("given up")
    async with opened(server) as ledger:
        await ledger.check()
        write = asyncio.create_task(ledger.put(request, reply_to(request)))
        await asyncio.sleep(0)
        write.cancel()
    async with opened(server) as ledger:
        assert write.cancelled()
        assert await ledger.find(request.key) is not None


async def test_a_user_who_may_make_no_tables_can_use_those_that_are_there(server: postgres.Server) -> None:
    await server.asked("DROP ROLE IF EXISTS guest")
    await server.asked("CREATE ROLE guest LOGIN PASSWORD 'welcome'")
    url, request = server.url.replace(postgres.USER, "guest"), completion()
    guest = PostgresLedger(url, "welcome")
    with pytest.raises(OutputError, match="may not make or use the tables"):
        await guest.check()
    async with opened(server) as ledger:
        await ledger.check()
    for table in ("trailforge_calls", "trailforge_spent", "trailforge_ledger"):
        await server.asked(f"GRANT SELECT, INSERT, UPDATE ON {table} TO guest")
    assert (await guest.put(request, reply_to(request))).text == "Fritz Lang"
    await guest.aclose()
    await server.asked("DROP OWNED BY guest")
    await server.asked("DROP ROLE guest")


async def test_a_ledger_of_a_newer_format_is_refused(server: postgres.Server) -> None:
    async with opened(server) as ledger:
        await ledger.check()
    await server.asked("UPDATE trailforge_ledger SET format = 2")
    with pytest.raises(InvalidInput, match=r"ledger of format 2.*upgrade trailforge"):
        async with opened(server) as ledger:
            await ledger.find("key")


async def test_a_wrong_password_is_told_at_once_and_not_shown(server: postgres.Server) -> None:
    ledger = PostgresLedger(server.url, "not-the-password")
    for ask in (ledger.check(), ledger.find("key")):
        with pytest.raises(OutputError, match="set TRAILFORGE_LEDGER_PASSWORD") as caught:
            await asyncio.wait_for(ask, 60)
        assert "not-the-password" not in str(caught.value)


async def test_a_server_that_is_not_there_is_told_at_once_by_check_and_after_a_while_by_calls() -> None:
    ledger = PostgresLedger("postgresql://forger@127.0.0.1:9/calls", "secret", patience_s=0.6)
    with pytest.raises(OutputError, match=r"PostgreSQL at 127\.0\.0\.1:9/calls .*run the same command again"):
        await asyncio.wait_for(ledger.check(), 60)
    started = time.monotonic()
    with pytest.raises(OutputError, match="start or mend it"):
        await ledger.put(completion(), reply_to(completion()))
    assert time.monotonic() - started > 0.6


async def test_a_database_that_does_not_exist_is_named(server: postgres.Server) -> None:
    ledger = PostgresLedger(server.url.replace("/postgres", "/nowhere"), server.password)
    with pytest.raises(OutputError, match=r"/nowhere .*make that database first"):
        await ledger.check()


@pytest.mark.parametrize("count", [None, "7", 1.5, -1, 2**31, True])
async def test_a_count_that_no_column_takes_is_refused_by_name(server: postgres.Server, count: Any) -> None:
    async with opened(server) as ledger:
        with pytest.raises(OutputError, match="completion_tokens"):
            await asyncio.wait_for(ledger.put(chat(), reply_to(chat(), completion_tokens=count)), 60)
        assert await ledger.entries() == 0
        assert await ledger.put(chat(), reply_to(chat())) == reply_to(chat())


@pytest.mark.parametrize("value", [b"", b"nonsense", zstandard.compress(b"[]"), zstandard.compress(b"[" * 100_000)])
async def test_a_damaged_entry_is_none_and_makes_room_for_one_new_reply(server: postgres.Server, value: bytes) -> None:
    async with opened(server) as one, opened(server) as other:
        await one.put(chat(), reply_to(chat()))
        await one._ask("UPDATE trailforge_calls SET value = $1", value)
        assert await one.find(chat().key) is None and await one.find_complete(chat()) is None
        assert one.damaged == {chat().key}
        texts = ("first", "second")
        put = (book.put(chat(), reply_to(chat(), text)) for book, text in zip((one, other), texts, strict=True))
        kept = await asyncio.gather(*put)
        found = await other.find(chat().key)
        assert found is not None and {reply.text for reply in kept} == {found.text} <= set(texts)
        assert (await one.spent()).calls >= 3
