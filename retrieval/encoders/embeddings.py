"""Get embeddings from a server with OpenAI's `/embeddings`, such as vLLM, TEI, llama.cpp and hosted services."""

from __future__ import annotations

import asyncio
import atexit
import json
import random
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from trailforge.inference import LoopThread, all_or_error, estimated_tokens
from trailforge.inference.provider import (
    KEY_VARIABLES,
    ServerError,
    Unanswered,
    Untaken,
    Wire,
    check_server_url,
    find_error,
    first_line,
    read_error,
    retry_after,
)
from trailforge.retrieval.base import Passing
from trailforge.schemas import InvalidInput, OutOfCredit, ProviderError, ServerUnavailable, parse_json, visible

if TYPE_CHECKING:
    import numpy as np

IN_FLIGHT = 16
"""Number of requests at a time."""
_PER_REQUEST = 32
"""Texts, where the server takes so many. At 4,096 dimensions their vectors are 3 MB of JSON, less than the most that is
read."""
_TIMEOUT_S = 60.0
_ATTEMPTS = 6
_BACKOFF_S, _LONGEST_WAIT_S = 0.5, 30.0
_PASSING = ("limited", "overloaded", "failed")
_FORMAT = {"encoding_format": "float"}
"""Asked for, as some servers send base64 otherwise; not every server knows it."""


class _Refused(Exception):
    """Not taken as it was sent; fewer texts may be, or a simpler form."""

    def __init__(self, error: ServerError) -> None:
        super().__init__(str(error))
        self.error = error


class EmbeddingsClient:
    """A model behind a URL with which an `Encoder` encodes. Its key comes from the environment (`KEY_VARIABLES`).

    Requests are sent on an event loop of its own, so that any thread may call it. Results are not cached.
    """

    lanes = 1
    """Number of a build's shards at a time: within one, `IN_FLIGHT` requests are under way."""

    def __init__(self, name: str) -> None:
        """`name`: `URL#MODEL`, e.g. `http://10.0.0.5:8000/v1#BAAI/bge-m3`. Sends nothing. Raises `InvalidInput`."""
        self._url, self._model = split_served(name)
        self._opening = threading.Lock()
        self._loop: LoopThread | None = None
        self._wire = Wire(self._url, timeout_s=_TIMEOUT_S)
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._most = _PER_REQUEST
        """Texts of a request that the server is not known to refuse."""
        self._form = _FORMAT
        self._dimension = 0
        """Of what came first; what comes later has to have as many."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors of length 1, shape (len(texts), dimension), float32. It must not be called on an event loop.

        A refused request is sent again with half of its texts, and later requests have that size, too.

        Raises `ServerUnavailable` after the last attempt, `OutOfCredit`, and `ProviderError` for errors that no other
        attempt mends.
        """
        return self._running().call(self._encode(list(texts)))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Estimate the number of tokens of each text, since the server's tokenizer is not available here."""
        return [estimated_tokens(text) for text in texts]

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        with self._opening:
            if self._loop is not None:
                self._loop.end(self._wire.close)
                self._loop = None
                atexit.unregister(self.close)

    def _running(self) -> LoopThread:
        with self._opening:
            if self._loop is None:
                self._wire.open()
                self._loop, self._slots = LoopThread("embeddings"), asyncio.Semaphore(IN_FLIGHT)
                atexit.register(self.close)
            return self._loop

    async def _encode(self, texts: list[str]) -> np.ndarray:
        import numpy as np

        size = self._most
        starts = range(0, len(texts), size)
        batches = await all_or_error(self._batch(texts[start : start + size]) for start in starts)
        return np.concatenate(batches) if batches else np.zeros((0, self._dimension), np.float32)

    async def _batch(self, texts: list[str]) -> np.ndarray:
        """In as many requests as the server wants."""
        import numpy as np

        if len(texts) > self._most:  # found out meanwhile
            parts = [texts[start : start + self._most] for start in range(0, len(texts), self._most)]
            return np.concatenate([await self._batch(part) for part in parts])
        form = self._form
        try:
            return await self._request(texts, form)
        except _Refused as refused:
            if form and refused.error.parameter in form:
                self._form = {}
            elif len(texts) > 1:
                self._most = min(self._most, len(texts) // 2)
            else:
                raise self._wrong(f"refused with {first_line(str(refused))}, of {visible(texts[0][:60])!r}") from None
            return await self._batch(texts)

    async def _request(self, texts: list[str], form: Mapping[str, str]) -> np.ndarray:
        body = {"model": self._model, "input": texts, **form}
        # Halves of surrogate pairs, which UTF-8 cannot hold, become `?`.
        sent = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        attempt = 1
        while True:
            try:
                async with self._slots:
                    return self._vectors(await self._answer(sent), len(texts))
            except Passing as passing:
                if attempt >= _ATTEMPTS:
                    raise ServerUnavailable(
                        f"embeddings server {self._url}: {passing} after {attempt} attempts; "
                        "start it, then run the same command again"
                    ) from None
                ceiling = min(_LONGEST_WAIT_S, _BACKOFF_S * 2 ** (attempt - 1))
                wait_s = passing.wait_s if passing.wait_s is not None else ceiling * (0.5 + random.random() / 2)
                await asyncio.sleep(min(wait_s, _LONGEST_WAIT_S))
            attempt += 1

    async def _answer(self, sent: bytes) -> Any:
        """The JSON of a reply."""
        try:
            answer = await self._wire.send("/embeddings", sent)
        except (Unanswered, Untaken) as error:
            raise Passing(f"no reply ({first_line(str(error))})") from None
        if not answer.is_success:
            raise self._refusal(read_error(answer.status, answer.body), answer.headers)
        try:
            body = parse_json(answer.body)
        except ValueError:
            raise self._wrong("what it sends is no OpenAI-compatible reply of embeddings") from None
        if not (isinstance(body, dict) and body.get("data")) and (error := find_error(body)) is not None:
            raise self._refusal(read_error(answer.status, error), answer.headers)
        return body

    def _vectors(self, body: Any, texts: int) -> np.ndarray:
        """What a reply holds, in the order of the texts."""
        import numpy as np

        try:
            rows = [row if isinstance(row, dict) else {"embedding": row} for row in _rows(body)]
            places = [row.get("index", place) for place, row in enumerate(rows)]
            rows = [row for _, row in sorted(zip(places, rows, strict=True), key=lambda placed: placed[0])]
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
        except (ValueError, KeyError, TypeError, OverflowError):
            raise self._wrong("what it sends is no OpenAI-compatible reply of embeddings") from None
        places.sort()
        if places != list(range(texts)):
            raise self._wrong(f"it sends {len(places)} vectors for {texts} texts")
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
        if vectors.ndim != 2 or not np.isfinite(vectors).all() or not norms.all():
            raise self._wrong("it sends vectors without a direction, or with numbers that are none")
        self._dimension = self._dimension or vectors.shape[1]
        if vectors.shape[1] != self._dimension:
            raise self._wrong(f"it sends {vectors.shape[1]} dimensions, and sent {self._dimension} before")
        return vectors / norms

    def _refusal(self, error: ServerError, headers: Mapping[str, str]) -> Exception:
        said = first_line(str(error))
        if error.kind in _PASSING:
            return Passing(said, retry_after(headers))
        if error.kind == "key" or error.status == 403:
            return self._wrong(f"the key is refused ({said}); set {KEY_VARIABLES[0]}")
        if error.kind == "credit":
            return OutOfCredit(f"embeddings server {self._url}: nothing is left to pay with ({said})")
        if error.kind in ("model", "address", "moved"):
            return self._wrong(f"not found; check URL (it has to end in /v1) and model ({said})")
        return _Refused(error)

    def _wrong(self, what: str) -> ProviderError:
        return ProviderError(f"embeddings server {self._url}, model {self._model}: {what}")


def _rows(body: Any) -> list[Any]:
    """What holds the vectors of a reply: objects, or the vectors themselves."""
    rows = (
        next((body[name] for name in ("data", "embeddings") if body.get(name)), []) if isinstance(body, dict) else body
    )
    if not isinstance(rows, list):
        raise TypeError("no list of embeddings")
    return rows


def is_served(name: str) -> bool:
    """Tell whether an encoder's name is that of a server's model."""
    return name.startswith(("http://", "https://"))


def split_served(name: str) -> tuple[str, str]:
    """Split `URL#MODEL` into URL and model. Raises `InvalidInput` for other texts, and for a URL that holds a key."""
    check_server_url(name, "encoder")
    url, _, model = name.partition("#")
    try:
        is_url = bool(urlsplit(url).hostname)
    except ValueError:
        is_url = False
    if not is_url or not model.strip():
        raise InvalidInput(
            f"{name!r} names no model of an embeddings server; say URL#MODEL, as http://10.0.0.5:8000/v1#BAAI/bge-m3",
            field="encoder",
        )
    return url.rstrip("/"), model.strip()


def encoder_model(name: str) -> str:
    """Return the part of an encoder's name that decides its vectors: for a server, the model, wherever it is served."""
    return split_served(name)[1] if is_served(name) else name
