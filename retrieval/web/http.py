"""Make polite requests to one provider: spaced, repeated when that may help, and with errors that show no key."""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urlsplit, urlunsplit

import aiohttp

from trailforge.inference.provider import is_sendable, retry_after
from trailforge.retrieval.base import Passing
from trailforge.schemas import InvalidInput, ProviderError, RequestRefused, ServerUnavailable, parse_json

T = TypeVar("T")

_PASSING = {408, 425, 429}
_ACCOUNT_REFUSED = {401, 402, 403, 432, 433}
"""The key, or what it is paid for (432 and 433 are Tavily's): no other request would pass."""
_NOT_HERE = {301, 302, 303, 307, 308, 404, 405, 410}
"""The address: no other request would pass either."""
_LARGEST_BODY = 1 << 25
_CHUNK = 1 << 16
_USER_AGENT = "trailforge"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfig:
    """Pace, time limit and attempts of requests to a provider."""

    interval_s: float = 1.0
    """Seconds between the beginnings of two requests."""
    timeout_s: float = 30.0
    """Seconds allowed for one request."""
    max_attempts: int = 5
    backoff_s: float = 1.0
    """Seconds before the second attempt where the provider names no time; doubled each time, with jitter."""
    longest_wait_s: float = 120.0
    """Longest wait in seconds between two attempts. A provider that asks for more is given up at once."""


class Provider:
    """A provider's name and pace. All requests of one process should share it; use it on one event loop."""

    def __init__(self, name: str, config: HttpConfig, key_variable: str = "") -> None:
        self._name, self._config, self._key_variable = name, config, key_variable
        self._pace = asyncio.Lock()
        self._next_at = 0.0

    @asynccontextmanager
    async def connection(self, key: str = "") -> AsyncIterator[Connection]:
        """Open a connection for the requests of one fetch or search. `key` is hidden wherever it might be shown."""
        timeout = aiohttp.ClientTimeout(total=self._config.timeout_s)
        headers = {"User-Agent": _USER_AGENT}
        async with aiohttp.ClientSession(timeout=timeout, headers=headers, trust_env=True) as session:
            yield Connection(self, session, key)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until the next request may be sent. Requests go one at a time, as arXiv asks for."""
        loop = asyncio.get_running_loop()
        async with self._pace:
            await asyncio.sleep(self._next_at - loop.time())
            self._next_at = loop.time() + self._config.interval_s
            yield

    def rest(self, attempt: int, failure: Passing) -> None:
        """Delay the next request, whichever task sends it, after attempt number `attempt` failed. Raises
        `ServerUnavailable` when there is to be no further attempt.
        """
        self._next_at = max(self._next_at, asyncio.get_running_loop().time() + self._delay_s(attempt, failure))

    def refusal(self, status: int, message: str) -> ProviderError:
        """Return the error for a status that no second attempt mends."""
        where = f"{self._name}: refused with status {status}" + (f" ({message})" if message else "")
        if status in _ACCOUNT_REFUSED:
            hint = f"; check the key in {self._key_variable} and its quota" if self._key_variable else ""
            return ProviderError(where + hint)
        if status in _NOT_HERE:
            return ProviderError(f"{where}; check the address")
        return RequestRefused(where)

    def _delay_s(self, attempt: int, failure: Passing) -> float:
        if attempt >= self._config.max_attempts:
            raise ServerUnavailable(f"{self._name}: {failure} after {attempt} attempts; try again later")
        if failure.wait_s is not None:
            if failure.wait_s > self._config.longest_wait_s:
                raise ServerUnavailable(f"{self._name}: {failure}; it asks to come back in {failure.wait_s:.0f} s")
            return failure.wait_s
        ceiling = self._config.backoff_s * 2 ** (attempt - 1)
        return min(self._config.longest_wait_s, ceiling) * (0.5 + random.random() / 2)


class Connection:
    """An open HTTP session with a provider."""

    def __init__(self, provider: Provider, session: aiohttp.ClientSession, key: str) -> None:
        self._provider, self._session, self._key = provider, session, key

    async def ask(
        self,
        url: str,
        parse: Callable[[bytes], T],
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> T:
        """Return what `parse` makes of the reply; a `ValueError` of it counts as a failed attempt. The request is a
        POST when there is a body.

        Raises `ServerUnavailable` after the last attempt, and `RequestRefused` or `ProviderError` for a refusal.
        """
        attempt = 1
        while True:
            try:
                async with self._provider.turn():
                    return await self._attempt(url, parse, params=params, headers=headers, json=body)
            except Passing as passing:
                self._provider.rest(attempt, passing)
            attempt += 1

    async def _attempt(self, url: str, parse: Callable[[bytes], T], **options: Any) -> T:
        method = "GET" if options["json"] is None else "POST"
        try:
            # A redirect is none of these APIs' replies, and would take the key along.
            async with self._session.request(method, url, allow_redirects=False, **options) as response:
                if len(content := await read_up_to(response, _LARGEST_BODY)) > _LARGEST_BODY:
                    raise ValueError(f"larger than {_LARGEST_BODY >> 20} MB")
                if response.status == 200:
                    return parse(content)
                status, wait_s = response.status, retry_after(response.headers)
        except TimeoutError:
            raise Passing("no reply in time") from None
        except (aiohttp.ClientError, OSError) as error:
            raise Passing(self._shown(str(error)) or type(error).__name__) from None  # the cause may repeat the key
        except ValueError as error:
            raise Passing(f"what it sends cannot be read ({self._shown(str(error))})") from None
        if status in _PASSING or status >= 500:
            raise Passing(f"status {status}", wait_s)
        raise self._provider.refusal(status, self._shown(_message(content)))

    def _shown(self, text: str) -> str:
        """The first line, without the key."""
        line = (text.strip().splitlines() or [""])[0]
        for form in {self._key, quote(self._key, safe=""), quote_plus(self._key)} - {""}:
            line = line.replace(form, "<key>")
        return line[:200]


async def read_up_to(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Read the body of a response; if it is larger than `most` bytes, only `most` + 1 of them."""
    content = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK):
        content += chunk
        if len(content) > most:
            break
    return bytes(content[: most + 1])


def _message(content: bytes) -> str:
    """What an error's body says: in JSON under `errors`, `message`, `detail` or `error`, else its first line."""
    text = content.decode("utf-8", errors="replace")
    try:
        problem = parse_json(text)
    except ValueError:
        return text
    for name in ("errors", "message", "detail", "error"):
        if isinstance(problem, dict) and problem.get(name):
            problem = problem[name]
            break
    if isinstance(problem, dict):
        problem = [f"{name}: {text}" for name, text in problem.items()]
    return "; ".join(map(str, problem)) if isinstance(problem, list) else str(problem)


_SERVES = re.compile(r"^(?:www|rss|feeds?|export)\d*\.")
_WWW = re.compile(r"^(?:www\.)+")
_TRACKS = re.compile(r"utm_\w+|fbclid|gclid|mc_[ce]id|cmpid|ocid", re.IGNORECASE)


def site_of(url: str) -> str:
    """Return the host without the part that says what it serves (`www.`, `rss.`); empty for a text that is no web
    address.
    """
    try:
        parts = urlsplit(url.strip())
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""
    return _SERVES.sub("", host) if parts.scheme in ("http", "https") else ""


def canonical_url(url: str) -> str:
    """Return the address as https, without `www.`, capitals in the host, fragment, last slash and tracking parameters.

    It serves for comparing only: it need not open. A text that is no web address stays as it is.
    """
    if not site_of(url):
        return url.strip()
    parts = urlsplit(url.strip())
    kept = [
        (name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if not _TRACKS.fullmatch(name)
    ]
    return urlunsplit(
        ("https", _WWW.sub("", parts.netloc.lower()), parts.path.rstrip("/"), urlencode(kept, errors="replace"), "")
    )


def text_field(value: object) -> str:
    """Return a reply's text, trimmed; empty for another value. Halves of surrogate pairs, which JSON may hold and UTF-8
    cannot, are replaced."""
    return value.strip().encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else ""


def rows_of_reply(content: bytes, name: str, missing: object = None) -> list[dict[str, Any]]:
    """Return the list of objects in the field `name` of a JSON reply. `missing` is what counts as the field where it is
    missing. Raises `ValueError` for a reply without such a list."""
    reply = parse_json(content)
    rows = reply.get(name, missing) if isinstance(reply, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"expected an object with a list of objects {name!r}")
    return rows


def key_from(variable: str, provider: str) -> str:
    """Return the key in an environment variable. Raises `InvalidInput` that names the variable, and never the key."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise InvalidInput(f"{provider} wants a key: set the environment variable {variable}")
    if not is_sendable(key):
        raise InvalidInput(f"the environment variable {variable} holds characters that no key has; set it anew")
    return key
