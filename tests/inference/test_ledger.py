"""The ledger: what is acknowledged is kept, whatever happens to the processes that use it."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.inference.support import chat, check_families, completion, reply_to
from tests.support.ledger_writers import acknowledged, begin
from trailforge.inference.ledgers import sqlite
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.schemas import InvalidInput, OutputError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "ledger.sqlite"


@contextmanager
def opened(path: Path) -> Iterator[SqliteLedger]:
    ledger = SqliteLedger(path)
    try:
        yield ledger
    finally:
        ledger.close()


@contextmanager
def writer(
    path: Path, name: str, *, own: int = 0, shared: int = 0, size: int = 8, limit: Callable[[], None] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process that is ready to write."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.inference.ledger_writer", str(path), name, str(own), str(shared), str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        preexec_fn=limit,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def is_sound(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    finally:
        connection.close()


async def test_a_reply_comes_back_as_it_was_kept(path: Path) -> None:
    request = chat()
    reply = reply_to(request, "Fritz Lang", reasoning="Metropolis …", finish_reason="length", prompt_tokens=99)
    with opened(path) as ledger:
        assert ledger.get(request.key) is None
        kept = await ledger.put(request, reply)
        found = ledger.get(request.key)
    assert kept == reply
    assert found is not None and found.from_ledger
    assert found == reply_to(request, "Fritz Lang", **{
        "reasoning": "Metropolis …", "finish_reason": "length", "prompt_tokens": 99, "from_ledger": True
    })  # fmt: skip


@given(text=st.text() | st.just("half an emoji \ud83d, a zero \x00"), reasoning=st.text(max_size=5))
def test_every_text_comes_back(tmp_path_factory: pytest.TempPathFactory, text: str, reasoning: str) -> None:
    request = completion(text)
    with opened(tmp_path_factory.mktemp("any") / "ledger.sqlite") as ledger:
        asyncio.run(ledger.put(request, reply_to(request, text, reasoning=reasoning)))
        found = ledger.get(request.key)
    assert found is not None
    assert (found.text, found.reasoning) == (text, reasoning)


async def test_a_complete_reply_serves_every_length_that_it_fits_and_a_cut_one_none_but_its_own(path: Path) -> None:
    with opened(path) as ledger:
        await check_families(ledger)


async def test_a_ledger_that_is_opened_again_knows_its_calls(path: Path) -> None:
    requests = [completion(str(n)) for n in range(30)]
    with opened(path) as ledger:
        await asyncio.gather(*(ledger.put(each, reply_to(each, str(each.prompt))) for each in requests))
    with opened(path) as ledger:
        assert ledger.entries() == 30
        assert [ledger.get(each.key).text for each in requests] == [each.prompt for each in requests]  # type: ignore[union-attr]


async def test_who_came_first_wins(path: Path) -> None:
    request = completion()
    with opened(path) as ledger:
        await ledger.put(request, reply_to(request, "first"))
        kept = await ledger.put(request, reply_to(request, "second"))
        found = ledger.get(request.key)
    assert kept.text == "first" and kept.from_ledger
    assert found == kept


async def test_who_came_first_wins_within_one_commit_too(path: Path) -> None:
    request = completion()
    with opened(path) as ledger:
        kept = await asyncio.gather(*(ledger.put(request, reply_to(request, str(n))) for n in range(50)))
        assert ledger.entries() == 1
    assert {reply.text for reply in kept} == {"0"}


async def test_a_reply_that_is_kept_can_be_read_through_another_connection_at_once(path: Path) -> None:
    request = completion()
    with opened(path) as one, opened(path) as other:
        assert other.get(request.key) is None
        await one.put(request, reply_to(request, "seen"))
        found = other.get(request.key)
    assert found is not None and found.text == "seen"


def test_a_second_process_sees_what_the_first_kept(path: Path) -> None:
    request = completion("asked here")
    with opened(path) as ledger, writer(path, "there", own=5) as process:
        asyncio.run(ledger.put(request, reply_to(request, "answered here")))
        begin(process)
        assert process.stdout is not None
        there = acknowledged([process.stdout.readline() for _ in range(5)])
        assert {key: ledger.get(key).text for key in there} == there  # type: ignore[union-attr]
        assert ledger.entries() == 6
    with writer(path, "there", own=5) as process:
        begin(process)
        assert acknowledged(process.communicate()[0].splitlines(keepends=True)) == there


def test_two_processes_that_write_at_once_lose_nothing_and_agree(path: Path) -> None:
    with writer(path, "one", own=200, shared=200) as one, writer(path, "two", own=200, shared=200) as two:
        begin(one)
        begin(two)
        said = [process.communicate()[0].splitlines(keepends=True) for process in (one, two)]
    kept_by_one, kept_by_two = map(acknowledged, said)
    assert len(kept_by_one) == len(kept_by_two) == 400
    shared = kept_by_one.keys() & kept_by_two.keys()
    assert len(shared) == 200
    assert {key: kept_by_one[key] for key in shared} == {key: kept_by_two[key] for key in shared}
    with opened(path) as ledger:
        assert ledger.entries() == 600
        everything = kept_by_one | kept_by_two
        assert {key: ledger.get(key).text for key in everything} == everything  # type: ignore[union-attr]


async def test_who_opens_a_file_that_another_is_just_making_waits_for_its_turn(path: Path) -> None:
    path.parent.mkdir()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE anything (at_all INTEGER)")
    other.execute("BEGIN IMMEDIATE")  # SQLite refuses others the turn to WAL at once, whatever their patience
    with opened(path) as ledger:
        opening = asyncio.create_task(asyncio.to_thread(ledger.entries))
        await asyncio.sleep(0.1)
        other.execute("COMMIT")
        other.close()
        assert await opening == 0


def test_a_process_that_is_killed_has_lost_nothing_that_it_was_told_is_kept(path: Path) -> None:
    """The same file for all, so that each writer finds what the one before left behind."""
    rng = random.Random(1)
    promised: dict[str, str] = {}
    for attempt in range(5):
        with writer(path, f"killed-{attempt}", own=3_000, shared=0, size=rng.choice((8, 4000))) as process:
            assert process.stdout is not None
            begin(process)
            lines = [process.stdout.readline() for _ in range(rng.randint(1, 300))]
            os.kill(process.pid, signal.SIGKILL)
            lines += process.stdout.readlines()
            assert process.wait() == -signal.SIGKILL, "it had finished before it was killed"
        said = acknowledged(lines)
        assert said
        promised |= said
        with opened(path) as ledger:
            found = {key: reply.text for key in promised if (reply := ledger.get(key)) is not None}
            assert found == promised
        assert is_sound(path)


def test_a_ledger_of_a_newer_format_is_refused_and_left_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE meta (format INTEGER NOT NULL)")
    connection.execute("INSERT INTO meta VALUES (2)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match=r"ledger of format 2.*upgrade trailforge") as caught, opened(path) as ledger:
        ledger.get("key")
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_a_file_that_is_no_ledger_is_refused_and_left_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("a shopping list, by mistake\n" * 100)
    with pytest.raises(OutputError, match="not a database") as caught, opened(path) as ledger:
        ledger.get("key")
    assert str(path) in str(caught.value)
    assert path.read_text().startswith("a shopping list")


async def test_a_folder_that_cannot_be_made_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    request = completion()
    with opened(tmp_path / "file" / "ledger.sqlite") as ledger:
        with pytest.raises(OutputError, match="cannot use the ledger"):
            ledger.get(request.key)
        with pytest.raises(OutputError, match="--out"):
            await ledger.put(request, reply_to(request))


async def test_a_ledger_whose_writer_cannot_open_it_says_so_and_does_not_wait_for_ever(path: Path) -> None:
    request = completion()
    with opened(path) as ledger:
        assert ledger.entries() == 0
        shutil.rmtree(path.parent)
        path.mkdir(parents=True)  # opened for reading before, can no longer be opened for writing
        for _ in range(2):
            with pytest.raises(OutputError, match="cannot use the ledger"):
                await asyncio.wait_for(ledger.put(request, reply_to(request)), 60)
        path.rmdir()


async def test_who_keeps_the_file_to_himself_is_to_be_ended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that stands still in the middle of a commit does."""
    monkeypatch.setattr(sqlite, "_BUSY_MS", 50)
    with opened(path) as ledger:
        assert ledger.entries() == 0
        with closing(sqlite3.connect(path)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(OutputError, match=r"is locked.*end the one that stands still, then run the same"):
                await ledger.put(completion(), reply_to(completion()))
        assert await ledger.put(completion(), reply_to(completion()))


async def test_who_reads_does_not_wait_for_who_writes(path: Path) -> None:
    request = completion()
    with opened(path) as ledger:
        await ledger.put(request, reply_to(request))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        other.execute("DELETE FROM calls")
        found = await asyncio.wait_for(asyncio.to_thread(ledger.get, request.key), 60)
        other.execute("ROLLBACK")
        other.close()
    assert found is not None


async def test_closing_finishes_what_is_under_way(path: Path) -> None:
    requests = [completion(str(n)) for n in range(5000)]  # more than one commit takes
    ledger = SqliteLedger(path)
    writes = [asyncio.create_task(ledger.put(each, reply_to(each))) for each in requests]
    await asyncio.sleep(0)
    ledger.close()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM calls").fetchone() == (5000,)
    connection.close()
    assert len(await asyncio.gather(*writes)) == 5000


async def test_a_caller_who_gives_up_does_not_keep_a_reply_from_being_kept(path: Path) -> None:
    request, other = completion("given up"), completion("waited for")
    with opened(path) as ledger:
        write = asyncio.create_task(ledger.put(request, reply_to(request)))
        await asyncio.sleep(0)
        write.cancel()
        await ledger.put(other, reply_to(other))
        assert write.cancelled()
        assert ledger.get(request.key) is not None


async def test_a_closed_ledger_may_be_used_again(path: Path) -> None:
    ledger = SqliteLedger(path)
    for number in range(3):
        request = completion(str(number))
        await ledger.put(request, reply_to(request))
        ledger.close()
        ledger.close()
    assert ledger.entries() == 3
    ledger.close()


def test_nothing_is_made_before_first_use(path: Path) -> None:
    with opened(path):
        pass
    assert not path.parent.exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if os.geteuid() != 0 or mount is None or unmount is None:
        pytest.skip("only root may mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run([mount, "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run([unmount, folder], check=True)


def noise(seed: int, size: int) -> str:
    """Text that does not compress well."""
    return random.Random(seed).randbytes(size).hex()


async def test_a_full_disk_is_a_clear_error_and_leaves_the_ledger_as_it_was(small_disk: Path) -> None:
    path = small_disk / "ledger.sqlite"
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 2_400_000)
    kept = []
    with opened(path) as ledger:
        with pytest.raises(OutputError, match="the disk is full: free some space and run the same command again"):
            for number in range(100):
                request = completion(str(number))
                await ledger.put(request, reply_to(request, noise(number, 40_000)))
                kept.append(request)
        assert len(kept) > 3
        assert [ledger.get(each.key).text for each in kept] == [noise(n, 40_000) for n in range(len(kept))]  # type: ignore[union-attr]
    with opened(path) as ledger:
        assert ledger.entries() == len(kept), "still full, and still to be read"
    ballast.unlink()
    assert is_sound(path)
    with opened(path) as ledger:
        assert ledger.entries() == len(kept)
        again = completion("after some space was freed")
        await ledger.put(again, reply_to(again))
        assert ledger.get(again.key) is not None


def test_a_file_that_may_not_grow_is_a_clear_error_and_leaves_the_ledger_as_it_was(path: Path) -> None:
    """The same without root: the system stops the process's files at 1 MiB."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))

    with writer(path, "large", own=60, size=40_000, limit=limit) as process:
        begin(process)
        lines = process.communicate()[0].splitlines(keepends=True)
    kept, errors = acknowledged(lines), [line for line in lines if line.startswith("error")]
    assert kept and errors
    assert len(kept) + len(errors) == 60
    for line in errors:
        assert line.startswith("error OutputError cannot use the ledger") and "free some space" in line
    with opened(path) as ledger:
        assert {key: ledger.get(key).text for key in kept} == kept  # type: ignore[union-attr]
        assert ledger.entries() == len(kept)
    assert is_sound(path)


async def test_a_thread_that_cannot_be_started_is_a_clear_error_and_nobody_waits_for_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    request, again = completion(), completion("again")
    with opened(path) as ledger:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            for _ in range(2):
                with pytest.raises(OutputError, match=r"cannot use the ledger .*can't start new thread"):
                    await asyncio.wait_for(ledger.put(request, reply_to(request)), 60)
        await asyncio.wait_for(ledger.put(again, reply_to(again)), 60)
        assert ledger.get(request.key) is None and ledger.get(again.key) is not None
