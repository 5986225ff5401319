"""The ledger of runs on several machines: a table in a PostgreSQL database.

A call is acknowledged once the server has committed it. The primary key decides which write came first, however many
workers write. When the server is away for a while, reading and writing wait for it; a write that is repeated because it
may not have arrived finds itself, or an earlier write, and changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from trailforge.inference.provider.wire import FORMAT, is_complete, least_length, pack, unpack
from trailforge.inference.request import Reply, Request
from trailforge.inference.usage import Usage
from trailforge.schemas import InvalidInput, OutputError

if TYPE_CHECKING:
    import asyncpg

MOST_CONNECTIONS = 4
"""Largest number of connections of one process."""
_CONNECT_WITHIN_S = 10.0
_ANSWER_WITHIN_S = 30.0
_AGAIN_S = 0.25
_ONE_AT_A_TIME = 0x7472_6169_6C66_6F72
"""Key of the advisory lock under which the tables are made: `CREATE TABLE IF NOT EXISTS` alone may collide."""
_TABLES = f"""
CREATE TABLE IF NOT EXISTS trailforge_calls (
    key text PRIMARY KEY, value bytea NOT NULL, prompt_tokens integer NOT NULL, completion_tokens integer NOT NULL,
    family text);
CREATE INDEX IF NOT EXISTS trailforge_complete ON trailforge_calls (family, completion_tokens, key);
CREATE TABLE IF NOT EXISTS trailforge_ledger (format integer NOT NULL);
CREATE TABLE IF NOT EXISTS trailforge_spent (
    run text, backend integer, calls bigint NOT NULL, prompt_tokens bigint NOT NULL, completion_tokens bigint NOT NULL,
    PRIMARY KEY (run, backend));
INSERT INTO trailforge_ledger SELECT {FORMAT} WHERE NOT EXISTS (SELECT 1 FROM trailforge_ledger);
"""
_FIND = "SELECT key, value FROM trailforge_calls WHERE key = $1"
_FIND_COMPLETE = """
SELECT key, value FROM trailforge_calls WHERE family = $1 AND completion_tokens <= $2
ORDER BY completion_tokens, key
"""
"""`family` is null where the reply was cut; `completion_tokens` is its `least_length` here, and in full in `spent`."""
_KEEP = """
WITH paid AS (
    INSERT INTO trailforge_spent AS spent VALUES ($5, pg_backend_pid(), 1, $3, $4)
    ON CONFLICT (run, backend) DO UPDATE SET calls = spent.calls + 1,
    prompt_tokens = spent.prompt_tokens + $3, completion_tokens = spent.completion_tokens + $4)
INSERT INTO trailforge_calls AS kept VALUES ($1, $2, $3, $7, $6)
ON CONFLICT (key) DO UPDATE SET key = kept.key RETURNING value
"""
"""Gives back what is kept under the key from now on. (`DO NOTHING` would give back nothing for who comes second.)

Spending has a row per connection, so that no two commits wait for each other; a write that is repeated because its
connection was lost may be counted twice, which errs on the side of the cap.
"""
_REPLACE = """
UPDATE trailforge_calls SET value = $2, prompt_tokens = $3, completion_tokens = $4, family = $5
WHERE key = $1 AND value = $6 RETURNING key
"""
"""Of several who find the same damaged value the first replaces it; the others look again."""
_SPENT = """
SELECT coalesce(sum(calls), 0), coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0)
FROM trailforge_spent WHERE run = $1
"""
_MENDS = {
    "28": "the user or the password is refused; set TRAILFORGE_LEDGER_PASSWORD",
    "3D": "make that database first",
    "42": "the user may not make or use the tables trailforge_calls, trailforge_spent and trailforge_ledger",
    "53": "the database server is full: make room there and run the same command again",
}
"""By the class of the server's error."""
_PASSING_CLASSES = {"08", "40", "57"}
"""Connection lost, deadlock, server going down or coming up."""
_TOO_MANY_CONNECTIONS = "53300"


class PostgresLedger:
    """A ledger that workers on several machines share. Connects on first use; use it on one event loop."""

    def __init__(self, url: str, password: str | None = None, *, run: str = "", patience_s: float = 60.0) -> None:
        """`url`: without a password. `run`: whose spending is added up. `patience_s`: how long a call waits for a
        server that is away.
        """
        self._url, self._password, self._run, self._patience_s = url, password, run, patience_s
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()
        self._writes: set[asyncio.Task[Reply]] = set()
        self.damaged: set[str] = set()
        """See `Ledger`."""

    @property
    def where(self) -> str:
        """Return server and database, for messages."""
        parts = urlsplit(self._url)
        return f"{parts.hostname or 'local'}:{parts.port or 5432}{parts.path}"

    async def check(self) -> None:
        """Raise `OutputError` at once when the database cannot be reached or refuses the connection."""
        try:
            await self._open()
        except InvalidInput:
            raise
        except Exception as error:
            raise self._error(error) from error

    async def find(self, key: str) -> Reply | None:
        """Return the reply to an earlier call, or None; see `Ledger.find`."""
        return await self._first(_FIND, key)

    async def find_complete(self, request: Request) -> Reply | None:
        """Return a complete reply to the same request with another `max_tokens`, or None; see
        `Ledger.find_complete`.
        """
        return await self._first(_FIND_COMPLETE, request.family, request.sampling.max_tokens)

    async def put(self, request: Request, reply: Reply) -> Reply:
        """Store a reply; see `Ledger.put`. Raises `OutputError` when it cannot be written. Cancelling the caller does
        not stop the write.
        """
        write = asyncio.create_task(self._keep(request, reply))
        self._writes.add(write)
        write.add_done_callback(self._written)
        return await asyncio.shield(write)

    async def spent(self) -> Usage:
        """Return the calls and tokens that the run has paid for so far; see `Ledger.spent`."""
        ((calls, prompt, completion),) = await self._ask(_SPENT, self._run)
        return Usage(calls=int(calls), prompt_tokens=int(prompt), completion_tokens=int(completion))

    async def entries(self) -> int:
        """Return the number of stored calls, of all runs."""
        return (await self._ask("SELECT count(*) FROM trailforge_calls"))[0][0]

    async def aclose(self) -> None:
        """Finish pending writes and close the connections; see `Ledger.aclose`."""
        while self._writes:
            await asyncio.wait(self._writes)
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    def _written(self, write: asyncio.Task[Reply]) -> None:
        self._writes.discard(write)
        if not write.cancelled():
            write.exception()  # seen, also when nobody waits for it any more

    async def _first(self, query: str, *arguments: object) -> Reply | None:
        """Of the entries found the first that can be read; the ones before it are noted."""
        for key, blob in await self._ask(query, *arguments):
            if entry := unpack(key, blob):
                return entry.reply
            self.damaged.add(key)
        return None

    async def _keep(self, request: Request, reply: Reply) -> Reply:
        blob, family = pack(request, reply), request.family if is_complete(reply) else None
        length = least_length(reply, request.sampling.max_tokens)
        row = (reply.key, blob, reply.prompt_tokens)
        while True:
            ((kept,),) = await self._ask(_KEEP, *row, reply.completion_tokens, self._run, family, length)
            if kept == blob:
                return reply
            if entry := unpack(reply.key, kept):
                return entry.reply
            if await self._ask(_REPLACE, *row, length, family, kept):
                return reply

    async def _ask(self, query: str, *arguments: object) -> list[Any]:
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                pool = await self._open()
                return await pool.fetch(query, *arguments)
            except InvalidInput:
                raise
            except Exception as error:
                if not _passes(error) or time.monotonic() > deadline:
                    raise self._error(error) from error
            await asyncio.sleep(_AGAIN_S)

    async def _open(self) -> asyncpg.Pool:
        async with self._opening:
            if self._pool is None:
                self._pool = await self._connect()
            return self._pool

    async def _connect(self) -> asyncpg.Pool:
        import asyncpg

        asked = {"password": self._password, "timeout": _CONNECT_WITHIN_S, "command_timeout": _ANSWER_WITHIN_S}
        settings = {"application_name": "trailforge"}
        connection = await asyncpg.connect(self._url, server_settings=settings, **asked)
        try:
            await self._prepare(connection)
            if await connection.fetchval("SHOW synchronous_commit") == "off":
                settings["synchronous_commit"] = "on"  # of a server that acknowledges before it has written
        finally:
            await connection.close()
        return await asyncpg.create_pool(
            self._url, min_size=0, max_size=MOST_CONNECTIONS, server_settings=settings, **asked
        )

    async def _prepare(self, connection: asyncpg.Connection) -> None:
        """Make the tables if need be. A user who may not make any can use those that are there."""
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({_ONE_AT_A_TIME})")
            if await connection.fetchval("SELECT to_regclass('trailforge_spent')") is None:
                await connection.execute(_TABLES)
        found = await connection.fetchval("SELECT format FROM trailforge_ledger")
        if found != FORMAT:
            raise InvalidInput(
                f"ledger of format {found}; this trailforge reads {FORMAT}: upgrade trailforge", file=self.where
            )

    def _error(self, error: Exception) -> OutputError:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if self._password:
            text = text.replace(self._password, "<password>")
        mend = _MENDS.get(_state(error)[:2], "start or mend it, then run the same command again")
        return OutputError(f"cannot use the ledger in PostgreSQL at {self.where} ({text}): {mend}")


def _state(error: Exception) -> str:
    return getattr(error, "sqlstate", None) or ""


def _passes(error: Exception) -> bool:
    import asyncpg

    state = _state(error)
    if isinstance(error, asyncpg.PostgresError):
        return state[:2] in _PASSING_CLASSES or state == _TOO_MANY_CONNECTIONS
    # The driver's own state may be out of step on a connection that was just lost.
    return isinstance(error, OSError | EOFError | asyncpg.InterfaceError | asyncpg.InternalClientError)
