"""Embeddings from a server: OpenAI's `/embeddings`, as vLLM, TEI, llama.cpp and hosted services have it."""

from __future__ import annotations

import asyncio
import atexit
import json
import random
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trailforge.inference.budget import estimated_tokens
from trailforge.inference.endpoint import retry_after
from trailforge.inference.threads import LoopThread, all_or_error
from trailforge.inference.urls import check_server_url
from trailforge.inference.wire import KEY_VARIABLES, Answer, Unanswered, Untaken, Wire, first_line
from trailforge.retrieval.base import Passing
from trailforge.schemas import InvalidInput, ProviderError, ServerUnavailable, parse_json

if TYPE_CHECKING:
    import numpy as np

IN_FLIGHT = 16
"""Requests at a time."""
_PER_REQUEST = 32
"""Texts. At 4,096 dimensions their vectors are 3 MB of JSON, less than the most that is read."""
_TIMEOUT_S = 60.0
_ATTEMPTS = 6
_BACKOFF_S, _LONGEST_WAIT_S = 0.5, 30.0
_PASSING = {408, 409, 425, 429}


class EmbeddingsClient:
    """A model behind a URL, as what an `Encoder` encodes with. Its key comes from the environment (`KEY_VARIABLES`).

    Requests go out on an event loop of its own, so that any thread may ask. It remembers nothing.
    """

    lanes = 1
    """Shards of a build at a time: within one, `IN_FLIGHT` requests are under way."""

    def __init__(self, name: str) -> None:
        """`name`: `URL#MODEL`, e.g. `http://10.0.0.5:8000/v1#BAAI/bge-m3`. Sends nothing. Raises `InvalidInput`."""
        self._url, self._model = split_served(name)
        self._opening = threading.Lock()
        self._loop: LoopThread | None = None
        self._wire = Wire(self._url, timeout_s=_TIMEOUT_S)
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._dimension = 0
        """Of what came first; what comes later has to have as many."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of length 1, shape (len(texts), dimension), float32. Not to be called on an event loop.

        Raises `ServerUnavailable` after the last attempt, and `ProviderError` for what no other attempt mends.
        """
        return self._running().call(self._encode(list(texts)))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Of each text, by estimate: its tokenizer is not here."""
        return [estimated_tokens(text) for text in texts]

    def close(self) -> None:
        """Close its connections; the next call opens new ones."""
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

        starts = range(0, len(texts), _PER_REQUEST)
        batches = await all_or_error(self._batch(texts[start : start + _PER_REQUEST]) for start in starts)
        return np.concatenate(batches) if batches else np.zeros((0, self._dimension), np.float32)

    async def _batch(self, texts: list[str]) -> np.ndarray:
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
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

    async def _answer(self, sent: bytes) -> bytes:
        try:
            answer = await self._wire.send("/embeddings", sent)
        except (Unanswered, Untaken) as error:
            raise Passing(f"no reply ({first_line(str(error))})") from None
        if answer.is_success:
            return answer.body
        if answer.status in _PASSING or answer.status >= 500:
            raise Passing(f"status {answer.status}", retry_after(answer.headers))
        raise self._refusal(answer)

    def _vectors(self, body: bytes, texts: int) -> np.ndarray:
        """What a reply holds, in the order of the texts."""
        import numpy as np

        try:
            rows = sorted(parse_json(body)["data"], key=lambda row: row["index"])
            places = [row["index"] for row in rows]
            vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
        except (ValueError, KeyError, TypeError, OverflowError):
            raise self._wrong("what it sends is no OpenAI-compatible reply of embeddings") from None
        if places != list(range(texts)):
            raise self._wrong(f"it sends {len(places)} vectors for {texts} texts")
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
        if vectors.ndim != 2 or not np.isfinite(vectors).all() or not norms.all():
            raise self._wrong("it sends vectors without a direction, or with numbers that are none")
        self._dimension = self._dimension or vectors.shape[1]
        if vectors.shape[1] != self._dimension:
            raise self._wrong(f"it sends {vectors.shape[1]} dimensions, and sent {self._dimension} before")
        return vectors / norms

    def _refusal(self, answer: Answer) -> ProviderError:
        text = first_line(answer.body.decode("utf-8", "replace"))
        if answer.status in (401, 403):
            return self._wrong(f"the key is refused; set {KEY_VARIABLES[0]}")
        if answer.status == 404 or 300 <= answer.status < 400:
            return self._wrong(f"not found; check URL (it ends in /v1) and model ({text})")
        return self._wrong(f"refused with status {answer.status} ({text})")

    def _wrong(self, what: str) -> ProviderError:
        return ProviderError(f"embeddings server {self._url}, model {self._model}: {what}")


def is_served(name: str) -> bool:
    """Whether an encoder's name is that of a server's model."""
    return name.startswith(("http://", "https://"))


def split_served(name: str) -> tuple[str, str]:
    """URL and model of `URL#MODEL`. Raises `InvalidInput`, also for a URL that holds a key."""
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
    """What of an encoder's name says which vectors it makes: of a server's, the model, wherever it is served."""
    return split_served(name)[1] if is_served(name) else name
