"""The durable record of every model call, by the content of its request: what was answered once is never paid for
again.

SQLite in WAL mode with `synchronous=NORMAL`: a committed call survives kill -9 of every process that uses the file, and
several processes of one machine may use it at once. (A power cut may take the last commits; the file stays sound.)
An entry that cannot be read counts as absent: its call is made again, and its reply takes that place.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trailforge.inference.provider.wire import FORMAT, LedgerEntry, is_complete, least_length, pack, unpack
from trailforge.inference.request import Reply, Request
from trailforge.inference.usage import Usage
from trailforge.schemas import InvalidInput, OutputError, TrailforgeError

_PAGE_BYTES = 16_384
_BUSY_MS = 60_000
_MOST_PER_COMMIT = 256
_MOST_SPENT = 2**63 - 1
"""What a column takes; a sum that goes over it stays there."""
_ENTRY = "SELECT key, CAST(value AS BLOB) FROM calls"
_FIND = f"{_ENTRY} WHERE key = ?"
_FIND_COMPLETE = f"""
{_ENTRY} JOIN complete USING (key) WHERE family = ? AND completion_tokens <= ? ORDER BY completion_tokens, key
"""


class Ledger(Protocol):
    """A durable store of replies, found by a hash of their request."""

    @property
    def damaged(self) -> Set[str]:
        """Return the keys of entries that were looked up in this process and could not be read."""
        ...

    async def find(self, key: str) -> Reply | None:
        """Return the reply to an earlier call, or None."""
        ...

    async def find_complete(self, request: Request) -> Reply | None:
        """Return a reply to the same request with another `max_tokens`, if the model ended it by itself within this
        request's limit; else None.
        """
        ...

    async def put(self, request: Request, reply: Reply) -> Reply:
        """Store a reply, and return once it is safely on disk. Of several replies to one key the first is kept, and
        that one is returned.
        """
        ...

    async def spent(self) -> Usage:
        """Return the calls and tokens that the run has paid for so far, from any process."""
        ...

    async def aclose(self) -> None:
        """Finish pending writes and close the ledger."""
        ...


@dataclass(slots=True)
class _Write:
    """A reply that waits to be kept, and who waits for it."""

    reply: Reply
    family: str
    length: int
    """See `LedgerEntry`."""
    blob: bytes
    loop: asyncio.AbstractEventLoop
    kept: asyncio.Future[Reply]

    def end(self, outcome: Reply | TrailforgeError) -> None:
        """Give it to who waits, if anyone still does. On their loop."""
        if self.kept.done():
            return
        if isinstance(outcome, Reply):
            self.kept.set_result(outcome)
        else:
            self.kept.set_exception(outcome)


class SqliteLedger:
    """The ledger of one machine. It opens on first use; a thread of its own commits waiting writes together."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged: set[str] = set()
        """See `Ledger`."""
        self._reader: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: deque[_Write] = deque()
        self._is_called = False
        """The thread will look at what is waiting."""

    async def find(self, key: str) -> Reply | None:
        """Return the reply to an earlier call, or None."""
        return self.get(key)

    def get(self, key: str) -> Reply | None:
        """Return the reply to an earlier call, or None, for callers without an event loop."""
        return self._first(_FIND, key)

    async def find_complete(self, request: Request) -> Reply | None:
        """Return a complete reply to the same request with another `max_tokens`, or None; see
        `Ledger.find_complete`.
        """
        return self._first(_FIND_COMPLETE, request.family, request.sampling.max_tokens)

    async def put(self, request: Request, reply: Reply) -> Reply:
        """Store a reply; see `Ledger.put`. Raises `OutputError` when it cannot be written."""
        self._open()
        loop = asyncio.get_running_loop()
        length = least_length(reply, request.sampling.max_tokens)
        write = _Write(reply, request.family, length, pack(request, reply), loop, loop.create_future())
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="trailforge-ledger")
        self._waiting.append(write)
        if not self._is_called:
            self._call_thread(self._thread)
        return await write.kept

    def entries(self) -> int:
        """Return the number of stored calls."""
        with self._reading() as connection:
            return connection.execute("SELECT count(*) FROM calls").fetchone()[0]

    async def spent(self) -> Usage:
        """Return the calls and tokens in the file, which belongs to one run, from all its processes; see
        `Ledger.spent`."""
        with self._reading() as connection:
            calls, prompt, completion = connection.execute("SELECT * FROM spent").fetchone()
            (cached,) = connection.execute("SELECT min(cached_tokens, ?) FROM spent_cached", (prompt,)).fetchone()
        return Usage(calls=calls, prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached)

    def damage(self) -> str | None:
        """Return in one line what SQLite finds wrong with the file; None when it is sound. Reads the whole file."""
        try:
            found = self._open().execute("PRAGMA quick_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            found = str(error)
        return None if found == "ok" else found.splitlines()[-1]

    def unreadable(self) -> set[str]:
        """Return the keys of all entries that cannot be read. Reads the whole file."""
        with self._reading() as connection:
            return {key for key, blob in connection.execute(_ENTRY) if unpack(key, blob) is None}

    async def aclose(self) -> None:
        """Finish pending writes and close the file; see `Ledger.aclose`."""
        self.close()

    def close(self) -> None:
        """Finish pending writes and close the file, for callers without an event loop."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        self._close_writer()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open(self) -> sqlite3.Connection:
        if self._reader is None:
            self._reader = _connect(self.path)
        return self._reader

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        connection = self._open()
        try:
            yield connection
        except sqlite3.Error as error:
            raise _output_error(self.path, error) from error

    def _first(self, query: str, *values: object) -> Reply | None:
        """Of the entries found the first that can be read; the ones before it are noted."""
        with self._reading() as connection:
            for key, blob in connection.execute(query, values):
                if entry := unpack(key, blob):
                    return entry.reply
                self.damaged.add(key)
        return None

    def _call_thread(self, thread: ThreadPoolExecutor) -> None:
        """Where none can be started, who waits is told."""
        self._is_called = True  # first: the thread takes it back
        try:
            thread.submit(self._commit_waiting)
        except RuntimeError as error:
            self._is_called = False  # first, as in `_commit_waiting`
            refused = [self._waiting.popleft() for _ in range(len(self._waiting))]
            _end_all(refused, [_output_error(self.path, error)] * len(refused))

    def _commit_waiting(self) -> None:
        """Runs in the thread, until nobody waits."""
        self._is_called = False  # first: who comes from here on calls again
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST_PER_COMMIT))]
            try:
                outcomes: Sequence[Reply | TrailforgeError] = self._commit(batch)
            except BaseException as error:  # whatever it is, nobody may wait for ever
                self._close_writer()  # which rolls back
                failure = error if isinstance(error, TrailforgeError) else _output_error(self.path, error)
                outcomes = [failure] * len(batch)
            _end_all(batch, outcomes)

    def _commit(self, batch: list[_Write]) -> list[Reply]:
        """What the ledger holds for each from now on."""
        if self._writer is None:
            self._writer = _connect(self.path)
        connection = self._writer
        connection.execute("BEGIN IMMEDIATE")
        kept = [_insert(connection, write) for write in batch]
        first = (write for write, reply in zip(batch, kept, strict=True) if reply is write.reply)
        _add_complete(connection, (LedgerEntry(write.reply, write.family, write.length) for write in first))
        _add_spent(connection, [write.reply for write in batch])
        connection.execute("COMMIT")
        return kept

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _end_all(writes: Sequence[_Write], outcomes: Sequence[Reply | TrailforgeError]) -> None:
    """Wake each loop once, however many of its calls were kept."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Write, Reply | TrailforgeError]]] = {}
    for write, outcome in zip(writes, outcomes, strict=True):
        by_loop.setdefault(write.loop, []).append((write, outcome))
    for loop, ended in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_end_each, ended)


def _end_each(ended: Iterable[tuple[_Write, Reply | TrailforgeError]]) -> None:
    for write, outcome in ended:
        write.end(outcome)


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
    # A table of its own, so that earlier versions read the others: what they pay for counts as not cached.
    connection.execute("CREATE TABLE IF NOT EXISTS spent_cached (cached_tokens INTEGER NOT NULL)")
    connection.execute("INSERT INTO spent_cached SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM spent_cached)")
    if not _has_sound_books(connection):
        _make_books(connection)


def _has_sound_books(connection: sqlite3.Connection) -> bool:
    """Earlier versions had none, or added up whatever servers said."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'spent'").fetchone():
        return False
    rows = connection.execute("SELECT * FROM spent").fetchall()
    return len(rows) == 1 and all(isinstance(count, int) and count >= 0 for count in rows[0])


def _make_books(connection: sqlite3.Connection) -> None:
    """Make the index of complete replies and the one row that says what was spent, from the calls that are there."""
    connection.execute("BEGIN IMMEDIATE")
    if not _has_sound_books(connection):  # of several who open it the first makes them
        connection.execute("DROP TABLE IF EXISTS complete")
        connection.execute("DROP TABLE IF EXISTS spent")
        connection.execute(
            "CREATE TABLE complete (family TEXT NOT NULL, completion_tokens INTEGER NOT NULL, "
            "key TEXT NOT NULL, PRIMARY KEY (family, completion_tokens, key)) WITHOUT ROWID"
        )
        connection.execute(
            "CREATE TABLE spent "
            "(calls INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL)"
        )
        connection.execute("INSERT INTO spent SELECT count(*), 0, 0 FROM calls")
        connection.execute("UPDATE spent_cached SET cached_tokens = 0")
        for key, blob in connection.execute(_ENTRY):
            if entry := unpack(key, blob):
                _add_complete(connection, [entry])
                _add_spent(connection, [entry.reply], calls=0)
    connection.execute("COMMIT")


def _add_complete(connection: sqlite3.Connection, entries: Iterable[LedgerEntry]) -> None:
    rows = [(family, length, reply.key) for reply, family, length in entries if is_complete(reply)]
    connection.executemany("INSERT OR IGNORE INTO complete VALUES (?, ?, ?)", rows)


def _add_spent(connection: sqlite3.Connection, replies: list[Reply], calls: int | None = None) -> None:
    """Calls count when they were paid for, also when another process had kept its reply before."""
    sums = (sum(r.prompt_tokens for r in replies), sum(r.completion_tokens for r in replies))
    connection.execute(
        f"UPDATE spent SET calls = calls + ?, prompt_tokens = min(prompt_tokens + ?, {_MOST_SPENT}), "
        f"completion_tokens = min(completion_tokens + ?, {_MOST_SPENT})",
        (len(replies) if calls is None else calls, *sums),
    )
    if cached := sum(reply.cached_tokens for reply in replies):
        connection.execute(f"UPDATE spent_cached SET cached_tokens = min(cached_tokens + ?, {_MOST_SPENT})", (cached,))


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("SELECT format FROM meta").fetchone()
    if found is not None and found[0] != FORMAT:
        raise InvalidInput(
            f"ledger of format {found[0]}; this trailforge reads {FORMAT}: upgrade trailforge", file=path
        )


def _insert(connection: sqlite3.Connection, write: _Write) -> Reply:
    """The reply that the ledger holds under this key from now on."""
    key = write.reply.key
    if connection.execute("INSERT OR IGNORE INTO calls VALUES (?, ?)", (key, write.blob)).rowcount:
        return write.reply
    if entry := unpack(*connection.execute(_FIND, (key,)).fetchone()):
        return entry.reply
    connection.execute("UPDATE calls SET value = ? WHERE key = ?", (write.blob, key))
    connection.execute("DELETE FROM complete WHERE key = ?", (key,))
    return write.reply


def _output_error(path: Path, error: BaseException) -> OutputError:
    text = str(error)
    if "full" in text or "disk I/O" in text or getattr(error, "errno", None) == 28:
        mend = "the disk is full: free some space and run the same command again"
    elif isinstance(error, sqlite3.Error) and ("decode" in text or not isinstance(error, sqlite3.OperationalError)):
        mend = f"put a copy of it in its place, or move {path.parent} away: its calls are then paid again"
        return OutputError(f"the ledger {path} is damaged ({text}): {mend}")
    elif "locked" in text:
        seconds = f"{_BUSY_MS / 1000:g}"
        mend = f"a process has kept it for {seconds} s: end the one that stands still, then run the same command again"
    elif isinstance(error, sqlite3.Error | OSError):
        mend = "give another --out"
    else:  # nothing is wrong with the disk
        text, mend = f"{type(error).__name__}: {text}", "run the same command again; report it if it comes again"
    return OutputError(f"cannot use the ledger {path} ({text}): {mend}")
