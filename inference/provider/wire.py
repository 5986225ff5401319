"""HTTP with one server: return a whole answer within limits of time and size, or say why there is none.

Connections, TLS, proxies and headers are those of the openai package with its aiohttp back end. Its typed layer, which
costs more than all the rest of a call, is left out: requests and answers are bytes here. Its version 3 speaks through
httpx2, version 2 through httpx; both have what is used here. The key comes from the environment and nowhere else.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from trailforge.inference.provider.endings import TOOL_CALLS
from trailforge.inference.request import Reply, Request, family_of, join_json, write_json
from trailforge.inference.usage import estimated_tokens
from trailforge.schemas import InvalidInput, OutputError, ProviderError, ToolCall, missing_package, parse_json, visible

PATHS = ("/chat/completions", "/completions", "/embeddings", "/models")
MOST_BYTES = 8 * 2**20
"""Largest size in bytes of one answer. A hundred thousand tokens of thoughts, every character escaped in JSON, are a
fifth of it; a hostile answer of this size blocks the event loop for a second."""
_MOST_STREAMED = 8 * MOST_BYTES
"""Of one that comes as an event stream, where a token is some three hundred bytes."""
_ERROR_BODY_S = 5.0
"""What comes with an error is waited for so long: its status says most, and `Retry-After` runs."""
_MOST_SAID = 320
"""Characters of a server's sentence that are shown."""
KEY_VARIABLES = ("TRAILFORGE_API_KEY", "OPENAI_API_KEY")
"""Environment variables of the API key; the first one that is set counts."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer of a server, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        """Tell whether the answer's status is a success."""
        return _is_success(self.status)

    @property
    def kind(self) -> str:
        """Return the answer's content type, in small letters."""
        return self.headers.get("content-type", "").strip().lower()


class Unanswered(Exception):
    """The error for a server that sent nothing, or not all of its answer in time."""


class Untaken(Exception):
    """The error for a server's answer that is too large, or in an unknown form."""


class Wire:
    """Connections to a server. Use it on one event loop."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        self._url, self._timeout_s = url, timeout_s
        self._http: Any = None
        self._headers: Any = None
        self._addresses: dict[str, Any] = {}

    def open(self) -> None:
        """Prepare for sending. Raises `ProviderError` for a key that no header can hold, `InvalidInput` for an invalid
        URL."""
        if self._http is not None:
            return
        httpx, openai = _libraries()
        key = api_key() or "none"
        if not is_sendable(key):
            raise ProviderError(f"the API key holds characters that no key has; set {KEY_VARIABLES[0]} anew")
        # Where a server sends us on to may be anyone's: prompts go nowhere but where a person said.
        trusted = _trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        http = openai.DefaultAioHttpClient(timeout=self._timeout_s, follow_redirects=False, verify=trusted)
        try:
            sdk = openai.AsyncOpenAI(base_url=self._url, api_key=key, http_client=http)
            base = httpx.URL(self._url)
        except httpx.InvalidURL as error:
            raise InvalidInput(f"{self._url} is no URL ({error})", field="model.url") from None
        start, mark, query = base.raw_path.partition(b"?")
        self._addresses = {
            path: base.copy_with(raw_path=start.rstrip(b"/") + path.encode() + mark + query) for path in PATHS
        }
        sent = {**sdk.auth_headers, **sdk.default_headers, "Accept-Encoding": "identity"}
        self._headers = httpx.Headers(
            {name: value for name, value in sent.items() if isinstance(value, str) and name[:11] != "X-Stainless"}
        )
        self._http = http

    async def send(self, path: str, body: bytes | None = None) -> Answer:
        """POST a body to one of `PATHS`, or GET it, once. Raises `Unanswered` or `Untaken`."""
        import aiohttp

        httpx, _ = _libraries()
        self.open()
        method = "GET" if body is None else "POST"
        # As a stream: aiohttp adds length and host anyway, and httpx works long to find them out.
        stream = httpx.ByteStream(body or b"")
        request = httpx.Request(method, self._addresses[path], headers=self._headers, stream=stream)
        request.read()
        response: Any = None
        try:
            async with asyncio.timeout(self._timeout_s) as limit:  # of the whole answer: one that drips has an end, too
                response = await self._http.send(request, stream=True)
                try:
                    if not _is_success(response.status_code):
                        soon = asyncio.get_running_loop().time() + _ERROR_BODY_S
                        limit.reschedule(min(limit.when() or soon, soon))
                    return Answer(response.status_code, response.headers, await _read(response))
                finally:
                    await response.aclose()
        except (TimeoutError, Untaken, httpx.HTTPError, aiohttp.ClientError, OSError) as error:
            if response is not None and not _is_success(response.status_code):
                return Answer(response.status_code, response.headers, b"")  # what the status says holds without it
            if isinstance(error, Untaken):
                raise
            is_late = isinstance(error, TimeoutError)
            why = f"no whole reply within {self._timeout_s:g} s" if is_late else str(error) or type(error).__name__
            raise Unanswered(why) from error

    async def close(self) -> None:
        """Close the connections to the server."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None


@functools.cache
def _libraries() -> tuple[Any, Any]:
    """The HTTP library that the installed openai speaks through, and openai. Raises `InvalidInput` without openai."""
    try:
        import openai

        is_new = int(openai.__version__.partition(".")[0]) >= 3
        return importlib.import_module("httpx2" if is_new else "httpx"), openai
    except ImportError as error:
        raise missing_package(error) or error from None


@functools.cache
def _trusted(file: str | None, folder: str | None) -> Any:
    """The certificates of these variables, or of this machine. To read them takes as long as a hundred calls."""
    del file, folder  # the library reads them itself
    httpx, _ = _libraries()
    return httpx.create_ssl_context()


def _is_success(status: int) -> bool:
    return 200 <= status < 300


async def _read(response: Any) -> bytes:
    """The body, unpacked where a gateway has compressed it unasked. Both what comes and what it unpacks to are bounded.

    Raises `Untaken`.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    unpack = None if encoding in ("", "identity") else _unpacker(encoding)
    is_stream = response.headers.get("content-type", "").strip().lower().startswith("text/event-stream")
    most = _MOST_STREAMED if is_stream else MOST_BYTES
    chunks, received, size = [], 0, 0
    async for chunk in response.aiter_raw():
        received += len(chunk)
        if unpack is not None:
            try:
                chunk = unpack.decompress(chunk, most + 1 - size)
            except zlib.error as error:
                raise Untaken(f"it is compressed in a way that is not read ({error})") from None
        size += len(chunk)
        if max(received, size) > most:
            raise Untaken(f"it is larger than {most >> 20} MiB")
        chunks.append(chunk)
    if unpack is not None and not unpack.eof:
        raise Untaken("it is compressed in a way that is not read (it ends too soon)")
    return b"".join(chunks)


def _unpacker(encoding: str) -> Any:
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise Untaken("it is compressed in a way that is not read")
    return zlib.decompressobj(zlib.MAX_WBITS | 32)  # which tells gzip from zlib by itself


FORMAT = 1
"""Version of the format in which entries are kept; see `pack`."""
MOST_TOKENS = 2**31 - 1
"""Largest number of tokens of a prompt or a completion that is kept: the maximum of a column of the type `integer`."""
_MOST_BYTES = 2**28
"""Unpacked. No server's reply is as long; what claims to be is not unpacked."""
_TEXTS = ("text", "reasoning", "finish_reason")
_COUNTS = ("prompt_tokens", "completion_tokens")
_compressors = threading.local()
"""One per thread, kept: to make one costs more than to compress a call."""


class LedgerEntry(NamedTuple):
    """A call as the ledger stores it."""

    reply: Reply
    family: str
    """Key of the request's family; see `Request.family`."""
    length: int
    """Least `max_tokens` for which the reply is complete; see `least_length`."""


def pack(request: Request, reply: Reply) -> bytes:
    """Serialise request and reply for the ledger. Raises `OutputError` for token counts that no ledger takes.

    The entry of a later call of a conversation has only the turns that are new since an earlier entry, the key of that
    entry (`after`), and the request's family, which cannot be computed from these turns alone.
    """
    import zstandard

    for name in (*_COUNTS, "cached_tokens"):
        if not _is_count(count := getattr(reply, name)):
            raise OutputError(f"the ledger takes no reply whose {name} is {count!r:.40}: report this as a defect")
    prompt = () if isinstance(request.prompt, str) else request.prompt
    known, before = request.conversation.kept_before(prompt) if request.conversation and prompt else (0, "")
    known = 0 if before == reply.key else known  # paid again, as it cannot be read
    after = {"after": before, "family": request.family} if known else {}
    content = {"request": request.settings | after, "reply": {name: getattr(reply, name) for name in _TEXTS + _COUNTS}}
    if reply.tool_calls:
        content["reply"]["tool_calls"] = [[call.id, call.name, call.arguments] for call in reply.tool_calls]
    if reply.cached_tokens:
        content["reply"]["cached_tokens"] = reply.cached_tokens
    if not hasattr(_compressors, "one"):
        _compressors.one = zstandard.ZstdCompressor(level=3)
    is_chat = not isinstance(request.prompt, str)
    written = {"prompt": join_json([turn.identity_json for turn in prompt[known:]])} if is_chat else {}
    text = write_json(content, written, ensure_ascii=False)
    return _compressors.one.compress(text.encode("utf-8", "surrogatepass"))


def unpack(key: str, blob: object) -> LedgerEntry | None:
    """Restore what `pack` serialised; None when it is damaged. An invalid token count, which earlier versions stored as
    servers sent it, is estimated from the text.
    """
    try:
        content = _content(blob)
        request, reply = content["request"], content["reply"]
        fields: dict[str, Any] = {name: reply[name] for name in _TEXTS}
        if not all(isinstance(text, str) for text in fields.values()):
            return None
        fields["prompt_tokens"] = _count(reply["prompt_tokens"], *_prompt_texts(request["prompt"]))
        calls = tuple(ToolCall(id=id, name=name, arguments=text) for id, name, text in reply.get("tool_calls", ()))
        texts = [text for call in calls for text in (call.id, call.name, call.arguments)]
        if not all(isinstance(text, str) for text in texts):
            return None
        fields["tool_calls"] = calls
        fields["completion_tokens"] = _count(reply["completion_tokens"], fields["text"], fields["reasoning"], *texts)
        cached = reply.get("cached_tokens", 0)
        fields["cached_tokens"] = cached if _is_count(cached) else 0
        found, longest = Reply(key=key, from_ledger=True, **fields), request.get("max_tokens")
        length = least_length(found, longest) if _is_count(longest) else found.completion_tokens
        family = request["family"] if "after" in request else family_of(request)
        return LedgerEntry(found, family, length) if isinstance(family, str) else None
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


def is_complete(reply: Reply) -> bool:
    """Tell whether the model ended the reply, so that a longer `max_tokens` would not have changed it.

    A reply with nothing beside its thoughts is not complete, so that a later request for cut replies asks for it again.
    """
    if reply.tool_calls:
        return reply.finish_reason in ("stop", TOOL_CALLS)
    return reply.finish_reason == "stop" and bool(reply.text.strip() or not reply.reasoning.strip())


def least_length(reply: Reply, max_tokens: int) -> int:
    """Return the least `max_tokens` with which the reply would have ended as it did: hidden thoughts may be charged
    beyond the request's own."""
    return min(reply.completion_tokens, max_tokens)


def _content(blob: object) -> Any:
    """Raises `ValueError` for what is no JSON in zstd, or too large. A frame says how large it is inside."""
    import zstandard

    if not isinstance(blob, bytes):
        raise ValueError("it is not stored as bytes")
    try:
        if not 0 < zstandard.frame_content_size(blob) <= _MOST_BYTES:
            raise ValueError("it is too large, or does not say how large it is")
        return parse_json(zstandard.decompress(blob).decode("utf-8", "surrogatepass"))
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None


def _prompt_texts(prompt: Any) -> list[str]:
    return [prompt] if isinstance(prompt, str) else [str(part) for turn in prompt for part in turn[1:]]


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MOST_TOKENS


def _count(kept: Any, *texts: str) -> int:
    return kept if _is_count(kept) else estimated_tokens(*texts)


# The key


def key_variable() -> str | None:
    """Return the name of the variable that holds the key; None when there is no key."""
    return next((name for name in KEY_VARIABLES if os.environ.get(name, "").strip()), None)


def api_key() -> str | None:
    """Return the API key, without white space around it; None when there is none."""
    name = key_variable()
    return os.environ[name].strip() if name else None


def first_line(text: str) -> str:
    """Return the first line of a server's text, without control characters and without the API key, which some servers
    repeat."""
    if key := api_key():
        text = text.replace(key, "<key>")
    return visible((text.strip().splitlines() or [""])[0][:_MOST_SAID])


def is_sendable(key: str) -> bool:
    """Tell whether a key can be sent in an HTTP header; if not, it was pasted wrongly."""
    return key.isascii() and key.isprintable()
