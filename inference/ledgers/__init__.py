"""Open the ledger of a run, which stores every model reply: a file in its folder, or a PostgreSQL database shared by
its workers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit, urlunsplit

from trailforge.doors import lazy_names
from trailforge.inference.ledgers.postgres import PostgresLedger
from trailforge.inference.ledgers.sqlite import Ledger, SqliteLedger
from trailforge.schemas import InvalidInput

if TYPE_CHECKING:
    from trailforge.inference.ledgers.postgres import MOST_CONNECTIONS as MOST_CONNECTIONS
else:
    __getattr__, __dir__ = lazy_names(__name__)


URL_VARIABLE = "TRAILFORGE_LEDGER_URL"
PASSWORD_VARIABLE = "TRAILFORGE_LEDGER_PASSWORD"
_SCHEMES = ("postgresql", "postgres")


def open_ledger(url: str, path: Path, *, run: str = "") -> Ledger:
    """Return the ledger at a URL or, without one, in the file. Nothing is opened before the first use. `run` names the
    run whose spending a shared ledger sums.
    """
    return PostgresLedger(url, _password(), run=run) if url else SqliteLedger(path)


async def check_ledger(url: str) -> None:
    """Raise `OutputError` when the ledger does not exist, or refuses the connection. A file is created on first use."""
    if url:
        ledger = PostgresLedger(url, _password())
        try:
            await ledger.check()
        finally:
            await ledger.aclose()


def check_ledger_url(url: str) -> None:
    """Raise `InvalidInput` for a URL of another kind of ledger, or with a password in it. The message never shows the
    URL."""
    if not url:
        return
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InvalidInput("is no URL; expected postgresql://user@host:5432/database", field="ledger") from None
    if parts.scheme not in _SCHEMES or not parts.path.strip("/"):
        raise InvalidInput("expected postgresql://user@host:5432/database", field="ledger")
    named = parse_qs(parts.query, keep_blank_values=True)
    if parts.password is not None or any(name.strip().lower().endswith("password") for name in named):
        raise InvalidInput(f"holds a password; set {PASSWORD_VARIABLE} instead", field="ledger")


def ledger_url(configured: str) -> str:
    """Return the ledger URL that the environment names, without its password; else the configured one."""
    url = os.environ.get(URL_VARIABLE, "").strip()
    if not url:
        return configured
    try:
        parts = urlsplit(url)
        user, at, host = parts.netloc.rpartition("@")
        url = urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}"))
        check_ledger_url(url)
    except (InvalidInput, ValueError) as error:
        problem = error.problem if isinstance(error, InvalidInput) else "is no URL"
        raise InvalidInput(f"{URL_VARIABLE}: {problem}") from None
    return url


def _password() -> str | None:
    """From the environment; None leaves it to PGPASSWORD and ~/.pgpass."""
    from urllib.parse import unquote

    named = os.environ.get(PASSWORD_VARIABLE, "")
    inside = urlsplit(os.environ.get(URL_VARIABLE, "").strip()).password
    return named or (unquote(inside) if inside else None)
