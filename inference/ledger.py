"""The durable record of every model call, by content: what was answered once is never paid again.

SQLite in WAL mode with `synchronous=NORMAL`: a committed call survives kill -9 of every process that uses the file, and
several processes of one machine may use it at once. (A power cut may take the last commits; the file stays sound.)
"""

from __future__ import annotations

import asyncio
import json
import queue
import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from inference.request import Reply, Request, family_of
from inference.usage import Usage
from schemas import InvalidInput, OutputError

FORMAT = 1
"""Of what is kept under a key; see `packed`."""
_PAGE_BYTES = 16_384
_BUSY_MS = 60_000
_MOST_PER_COMMIT = 256
_compressors = threading.local()
"""One per thread, kept: to make one costs more than to compress a call."""
_FIND_COMPLETE = """
SELECT key, value FROM calls WHERE key =
(SELECT key FROM complete WHERE family = ? AND completion_tokens <= ? ORDER BY completion_tokens, key LIMIT 1)
"""


class Ledger(Protocol):
    """Keeps replies by the key of their request."""

    async def find(self, key: str) -> Reply | None:
        """The reply to an earlier call, or None."""
        ...

    async def find_complete(self, request: Request) -> Reply | None:
        """A reply that ended by itself, and within this request's `max_tokens`, to a request of the same family."""
        ...

    async def put(self, request: Request, reply: Reply) -> Reply:
        """Keep a reply; back when it is safe. Who came first wins: what is kept is what is returned."""
        ...

    async def spent(self) -> Usage:
        """Calls and tokens that the run ever paid for, whoever paid."""
        ...

    async def aclose(self) -> None:
        """Finish what is under way."""
        ...


@dataclass(slots=True)
class _Entry:
    key: str
    family: str
    reply: Reply
    blob: bytes
    loop: asyncio.AbstractEventLoop
    kept: asyncio.Future[bytes]


class SqliteLedger:
    """The ledger of one machine. Opens on first use; a thread of its own commits what is waiting together."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader: sqlite3.Connection | None = None
        self._writer: threading.Thread | None = None
        self._waiting: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()

    async def find(self, key: str) -> Reply | None:
        """See `Ledger`. A file is read faster than another thread is asked."""
        return self.get(key)

    def get(self, key: str) -> Reply | None:
        """`find`, for who has no event loop."""
        row = self._open().execute("SELECT value FROM calls WHERE key = ?", (key,)).fetchone()
        return unpacked(key, row[0]) if row else None

    async def find_complete(self, request: Request) -> Reply | None:
        """See `Ledger`."""
        row = self._open().execute(_FIND_COMPLETE, (request.family, request.sampling.max_tokens)).fetchone()
        return unpacked(*row) if row else None

    async def put(self, request: Request, reply: Reply) -> Reply:
        """See `Ledger`. Raises `OutputError` when it cannot be written."""
        self._open()
        if self._writer is None:
            self._writer = threading.Thread(target=self._write, name="trailforge-ledger", daemon=True)
            self._writer.start()
        loop = asyncio.get_running_loop()
        entry = _Entry(reply.key, request.family, reply, packed(request, reply), loop, loop.create_future())
        self._waiting.put(entry)
        kept = await entry.kept
        return reply if kept is entry.blob else unpacked(reply.key, kept)

    def entries(self) -> int:
        """How many calls are kept."""
        return self._open().execute("SELECT count(*) FROM calls").fetchone()[0]

    async def spent(self) -> Usage:
        """See `Ledger`. A file belongs to one run: of what other processes pay, all that is in the file."""
        calls, prompt, completion = self._open().execute("SELECT * FROM spent").fetchone()
        return Usage(calls=calls, prompt_tokens=prompt, completion_tokens=completion)

    def damage(self) -> str | None:
        """What SQLite finds wrong with the file, in a line; None when it is sound. Reads all of it."""
        try:
            found = self._open().execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            found = str(error)
        return None if found == "ok" else found.splitlines()[-1]

    async def aclose(self) -> None:
        """See `Ledger`."""
        self.close()

    def close(self) -> None:
        """`aclose`, for who has no event loop."""
        if self._writer is not None:
            self._waiting.put(None)
            self._writer.join()
            self._writer = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open(self) -> sqlite3.Connection:
        if self._reader is None:
            self._reader = _connect(self.path)
        return self._reader

    def _write(self) -> None:
        connection, last = None, False
        try:
            while not last and (first := self._waiting.get()) is not None:
                batch = [first]
                while len(batch) < _MOST_PER_COMMIT and not self._waiting.empty():
                    entry = self._waiting.get()
                    if entry is None:
                        last = True
                        break
                    batch.append(entry)
                try:
                    connection = connection or _connect(self.path)
                except (InvalidInput, OutputError) as error:
                    for entry in batch:
                        _resolve(entry, None, error)
                else:
                    self._commit(connection, batch)
        finally:
            if connection is not None:
                connection.close()

    def _commit(self, connection: sqlite3.Connection, batch: list[_Entry]) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
            kept = [_insert(connection, entry) for entry in batch]
            first = (entry for entry, blob in zip(batch, kept, strict=True) if blob is entry.blob)
            _add_complete(connection, ((entry.family, entry.reply) for entry in first))
            _add_spent(connection, [entry.reply for entry in batch])
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            for entry in batch:
                _resolve(entry, None, _output_error(self.path, error))
            return
        for entry, blob in zip(batch, kept, strict=True):
            _resolve(entry, blob, None)


def _connect(path: Path) -> sqlite3.Connection:
    deadline = time.monotonic() + _BUSY_MS / 1000
    while True:
        connection = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            _prepare(connection, path)
            return connection
        except (sqlite3.Error, OSError, InvalidInput) as error:
            if connection is not None:
                connection.close()
            if isinstance(error, InvalidInput):
                raise
            # SQLite does not wait for its turn to WAL mode: of two who make the file at once, one is refused.
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise _output_error(path, error) from error
        time.sleep(0.01)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Look at the format before anything is written: a newer trailforge's ledger stays as it is."""
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        _check_format(connection, path)
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # before WAL, or it is ignored
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
    connection.execute("CREATE TABLE IF NOT EXISTS meta (format INTEGER NOT NULL)")
    connection.execute("INSERT INTO meta SELECT ? WHERE NOT EXISTS (SELECT 1 FROM meta)", (FORMAT,))
    _check_format(connection, path)
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'spent'").fetchone():
        _begin_books(connection)


def _begin_books(connection: sqlite3.Connection) -> None:
    """Make the index of complete replies and the one row that says what was spent, from the calls that are there."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS complete (family TEXT NOT NULL, completion_tokens INTEGER NOT NULL, "
        "key TEXT NOT NULL, PRIMARY KEY (family, completion_tokens, key)) WITHOUT ROWID"
    )
    connection.execute(
        "CREATE TABLE IF NOT EXISTS spent "
        "(calls INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL)"
    )
    if not connection.execute("SELECT 1 FROM spent").fetchone():
        connection.execute("INSERT INTO spent VALUES (0, 0, 0)")
        for key, blob in connection.execute("SELECT key, value FROM calls"):
            content = unpacked_content(blob)
            reply = Reply(key=key, **content["reply"])
            _add_complete(connection, [(family_of(content["request"]), reply)])
            _add_spent(connection, [reply])
    connection.execute("COMMIT")


def _add_complete(connection: sqlite3.Connection, replies: Iterable[tuple[str, Reply]]) -> None:
    """Index replies that ended by themselves under their family."""
    rows = [(family, reply.completion_tokens, reply.key) for family, reply in replies if is_complete(reply)]
    connection.executemany("INSERT OR IGNORE INTO complete VALUES (?, ?, ?)", rows)


def _add_spent(connection: sqlite3.Connection, replies: list[Reply]) -> None:
    """Calls count when they were paid for, also when another process had kept its reply before."""
    connection.execute(
        "UPDATE spent SET calls = calls + ?, prompt_tokens = prompt_tokens + ?, "
        "completion_tokens = completion_tokens + ?",
        (len(replies), sum(r.prompt_tokens for r in replies), sum(r.completion_tokens for r in replies)),
    )


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("SELECT format FROM meta").fetchone()
    if found is not None and found[0] != FORMAT:
        raise InvalidInput(
            f"ledger of format {found[0]}; this trailforge reads {FORMAT}: upgrade trailforge", file=path
        )


def _insert(connection: sqlite3.Connection, entry: _Entry) -> bytes:
    """The blob that the ledger holds under this key from now on."""
    cursor = connection.execute("INSERT OR IGNORE INTO calls VALUES (?, ?)", (entry.key, entry.blob))
    if cursor.rowcount:
        return entry.blob
    return connection.execute("SELECT value FROM calls WHERE key = ?", (entry.key,)).fetchone()[0]


def _resolve(entry: _Entry, blob: bytes | None, error: Exception | None) -> None:
    def resolve() -> None:
        if entry.kept.done():
            return
        if error is not None:
            entry.kept.set_exception(error)
        else:
            assert blob is not None
            entry.kept.set_result(blob)

    if not entry.loop.is_closed():
        entry.loop.call_soon_threadsafe(resolve)


def packed(request: Request, reply: Reply) -> bytes:
    """Request and reply as they are kept, in whatever store."""
    import zstandard

    content = {
        "request": request.content,
        "reply": {
            "text": reply.text,
            "reasoning": reply.reasoning,
            "finish_reason": reply.finish_reason,
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.completion_tokens,
        },
    }
    if not hasattr(_compressors, "one"):
        _compressors.one = zstandard.ZstdCompressor(level=3)
    return _compressors.one.compress(json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def unpacked(key: str, blob: bytes) -> Reply:
    """The reply of what `packed` made."""
    return Reply(key=key, from_ledger=True, **unpacked_content(blob)["reply"])


def unpacked_content(blob: bytes) -> dict[str, Any]:
    """`request` and `reply` of what `packed` made."""
    import zstandard

    return json.loads(zstandard.decompress(blob).decode("utf-8", "surrogatepass"))


def is_complete(reply: Reply) -> bool:
    """The model ended it, and a longer `max_tokens` would not have changed it."""
    return reply.finish_reason == "stop"


def _output_error(path: Path, error: Exception) -> OutputError:
    text = str(error)
    mend = "give another --out"
    if "full" in text or "disk I/O" in text or getattr(error, "errno", None) == 28:
        mend = "the disk is full: free some space and run the same command again"
    return OutputError(f"cannot write the ledger {path} ({text}): {mend}")
