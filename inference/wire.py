"""HTTP with one server: a whole answer within bounds of time and size, or why there is none.

Connections, TLS, proxies and headers are those of the openai package with its aiohttp back end. Its typed layer, which
costs more than all the rest of a call, is left out: requests and answers are bytes here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inference.keys import KEY_VARIABLES, api_key, is_sendable
from schemas import InvalidInput, ProviderError

PATHS = ("/chat/completions", "/completions", "/models")
MOST_BYTES = 8 * 2**20
"""Of one answer. A hundred thousand tokens of thoughts, every character escaped in JSON, are a fifth of it; one that is
hostile stops the loop for a second."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server sent, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        """It is what was asked for, by its status."""
        return 200 <= self.status < 300


class Unanswered(Exception):
    """Nothing came, or not all of it in time."""


class Untaken(Exception):
    """What comes is too much, or in a form that is not read."""


class Wire:
    """Connections to a server. Use it on one event loop."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._url, self._timeout_s = url.rstrip("/"), timeout_s
        self._http: Any = None
        self._headers: Any = None
        self._addresses: dict[str, Any] = {}

    def open(self) -> None:
        """Make ready to send. Raises `ProviderError` for a key that no header can hold, `InvalidInput` for no URL."""
        if self._http is not None:
            return
        import httpx2
        from openai import AsyncOpenAI, DefaultAioHttpClient

        key = api_key() or "none"
        if not is_sendable(key):
            raise ProviderError(f"the API key holds characters that no key has; set {KEY_VARIABLES[0]} anew")
        # Where a server sends us on to may be anyone's: prompts go nowhere but where a person said.
        http = DefaultAioHttpClient(timeout=self._timeout_s, follow_redirects=False)
        try:
            sdk = AsyncOpenAI(base_url=self._url, api_key=key, http_client=http)
            self._addresses = {path: httpx2.URL(self._url + path) for path in PATHS}
        except httpx2.InvalidURL as error:
            raise InvalidInput(f"{self._url} is no URL ({error})", field="model.url") from None
        sent = {**sdk.auth_headers, **sdk.default_headers, "Accept-Encoding": "identity"}
        self._headers = httpx2.Headers(
            {name: value for name, value in sent.items() if isinstance(value, str) and name[:11] != "X-Stainless"}
        )
        self._http = http

    async def send(self, path: str, body: bytes | None = None) -> Answer:
        """POST a body to one of `PATHS`, or GET it, once. Raises `Unanswered` or `Untaken`."""
        import aiohttp
        import httpx2

        self.open()
        method = "GET" if body is None else "POST"
        # As a stream: aiohttp adds length and host anyway, and httpx2 works long to find them out.
        stream = httpx2.ByteStream(body or b"")
        request = httpx2.Request(method, self._addresses[path], headers=self._headers, stream=stream)
        request.read()
        try:
            async with asyncio.timeout(self._timeout_s):  # of the whole answer: one that drips has an end, too
                response = await self._http.send(request, stream=True)
                try:
                    return Answer(response.status_code, response.headers, await _read(response))
                finally:
                    await response.aclose()
        except TimeoutError:
            raise Unanswered(f"no whole reply within {self._timeout_s:g} s") from None
        except (httpx2.HTTPError, aiohttp.ClientError, OSError) as error:
            raise Unanswered(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Close its connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None


async def _read(response: Any) -> bytes:
    """The body as it came. A compressed one may be a thousand times larger than what bounds see, and none was asked."""
    encoding = response.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        raise Untaken("it is compressed, though plain text was asked for")
    chunks, size = [], 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > MOST_BYTES:
            raise Untaken(f"it is larger than {MOST_BYTES >> 20} MiB")
        chunks.append(chunk)
    return b"".join(chunks)
