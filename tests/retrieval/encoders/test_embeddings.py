"""Embeddings of a server, over real HTTP on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from tests.retrieval.support import run
from trailforge.retrieval.encoders import embeddings
from trailforge.retrieval.encoders.encoder import Encoder, check_encoder
from trailforge.schemas import InvalidInput, OutOfCredit, ProviderError, ServerUnavailable


class Embedder:
    """A server whose vectors say what text they are of: its length, and which letters it has."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.faults: list[dict[str, Any]] = []
        """Of the next calls: what `web.Response` takes."""
        self.busy = self.most_busy = 0
        self.latency_s = 0.0
        self.change = lambda rows: rows
        self.refuse: Callable[[dict[str, Any]], web.Response | None] = lambda body: None
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        """`/v1/embeddings`."""
        body = await request.json()
        self.keys.append(request.headers.get("Authorization", ""))
        if self.faults:
            return web.Response(**self.faults.pop(0))
        if (refusal := self.refuse(body)) is not None:
            return refusal
        self.bodies.append(body)
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        await asyncio.sleep(self.latency_s)
        self.busy -= 1
        rows = [{"index": n, "embedding": vector_of(text)} for n, text in enumerate(body["input"])]
        return web.json_response({"object": "list", "data": self.change(rows[::-1])})  # any order, by their numbers


def vector_of(text: str) -> list[float]:
    """What the server sends, of any length."""
    return [float(len(text)), *(float(text.count(letter)) for letter in "aeio")]


def unit(text: str) -> np.ndarray:
    """What is made of it."""
    vector = np.array(vector_of(text), np.float32)
    return vector / np.linalg.norm(vector)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Embedder]:
    """On a loop of its own, since the client waits on the test's thread."""
    monkeypatch.setattr(embeddings, "_BACKOFF_S", 0.01)
    embedder, loop = Embedder(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> web.AppRunner:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/embeddings", embedder.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        embedder.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result()
    yield embedder
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


def test_an_encoder_by_a_servers_name_gives_unit_vectors_in_order(server: Embedder) -> None:
    encoder = Encoder(f"{server.url}#a/model", query_prefix="query: ", passage_prefix="passage: ")
    texts = [f"text {'a' * n}" for n in range(100)]
    vectors = encoder.encode_documents(texts)
    assert vectors.shape == (100, encoder.dimension) == (100, 5)
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, np.stack([unit(f"passage: {text}") for text in texts]))
    assert np.allclose(encoder.encode_query("Oslo"), unit("query: Oslo"))
    assert sorted(len(body["input"]) for body in server.bodies)[-4:] == [4, 32, 32, 32]
    assert {body["model"] for body in server.bodies} == {"a/model"}
    assert encoder.name == "a/model"


def test_queries_of_several_agents_are_under_way_at_once_and_off_the_event_loop(server: Embedder) -> None:
    server.latency_s = 0.05
    encoder = Encoder(f"{server.url}#m")

    async def ask() -> list[np.ndarray]:
        return list(await asyncio.gather(*(encoder.query(f"query {n}") for n in range(40))))

    for n, vector in enumerate(run(ask())):
        assert np.allclose(vector, unit(f"query {n}"))
    assert 8 <= server.most_busy <= embeddings.IN_FLIGHT


def test_passing_failures_are_asked_again(server: Embedder) -> None:
    server.faults = [{"status": 503}, {"status": 429, "headers": {"Retry-After": "0"}}]
    assert np.allclose(Encoder(f"{server.url}#m").encode_query("Oslo"), unit("Oslo"))
    assert len(server.keys) == 3 and len(server.bodies) == 1


def test_what_keeps_failing_is_given_up_with_its_mend(server: Embedder) -> None:
    server.faults = [{"status": 500}] * 20
    with pytest.raises(ServerUnavailable, match=r"embeddings server http.*: status 500 after 6 attempts; start it"):
        Encoder(f"{server.url}#m").encode_query("Oslo")
    assert len(server.keys) == 6


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "_BACKOFF_S", 0.01)
    with pytest.raises(ServerUnavailable, match=r"no reply .* after 6 attempts"):
        Encoder("http://127.0.0.1:9/v1#m").encode_query("Oslo")


@pytest.mark.parametrize(
    ("status", "text", "message"),
    [
        (401, "wrong sesame", r"the key is refused .*; set TRAILFORGE_API_KEY"),
        (404, "no model m", r"not found; check URL \(it has to end in /v1\) and model \(status 404: no model m\)"),
        (400, "too long for sesame", "refused with status 400: too long for <key>, of 'Oslo'"),
    ],
)
def test_a_refusal_is_not_asked_again_and_shows_no_key(
    server: Embedder, monkeypatch: pytest.MonkeyPatch, status: int, text: str, message: str
) -> None:
    monkeypatch.setenv("TRAILFORGE_API_KEY", "sesame")
    server.faults = [{"status": status, "text": text}]
    with pytest.raises(ProviderError, match=message) as error:
        Encoder(f"{server.url}#m").encode_query("Oslo")
    assert server.keys == ["Bearer sesame"] and "sesame" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1:], "it sends 2 vectors for 3 texts"),
        (lambda rows: [{**row, "index": 0} for row in rows], "it sends 3 vectors for 3 texts"),
        (lambda rows: [{**row, "embedding": [0.0] * 5} for row in rows], "vectors without a direction"),
        (lambda rows: [{**row, "embedding": [float("nan")] * 5} for row in rows], "no OpenAI-compatible|direction"),
        (lambda rows: [{**row, "embedding": [1.0] * (row["index"] + 1)} for row in rows], "no OpenAI-compatible"),
        (lambda rows: {"wrong": rows}, "no OpenAI-compatible"),
        (lambda rows: [{"index": row["index"]} for row in rows], "no OpenAI-compatible"),
    ],
)
def test_a_reply_that_cannot_be_right_is_refused(server: Embedder, change: Any, message: str) -> None:
    server.change = change
    with pytest.raises(ProviderError, match=message):
        Encoder(f"{server.url}#m").encode_documents(["a", "b", "c"])


def test_a_server_that_changes_its_dimension_is_refused(server: Embedder) -> None:
    encoder = Encoder(f"{server.url}#m")
    encoder.encode_query("Oslo")
    server.change = lambda rows: [{**row, "embedding": [1.0, 2.0]} for row in rows]
    with pytest.raises(ProviderError, match="it sends 2 dimensions, and sent 5 before"):
        encoder.encode_query("Bergen")


@pytest.mark.parametrize("name", ["http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1# ", "http://#m", "https://[#m"])
def test_a_name_without_url_or_model_is_refused_before_anything_is_sent(name: str) -> None:
    with pytest.raises(InvalidInput, match="say URL#MODEL, as http"):
        check_encoder(name)
    with pytest.raises(InvalidInput, match="say URL#MODEL"):
        Encoder(name)


def test_a_closed_client_opens_again(server: Embedder) -> None:
    client = embeddings.EmbeddingsClient(f"{server.url}/#m")
    client.encode(["a"])
    client.close()
    assert np.allclose(client.encode(["b"])[0], unit("b"))
    client.close()
    assert check_encoder(f"{server.url}#m") == "server"


# Servers of other forms


def limited(server: Embedder, most: int, status: int = 400, says: str = "batch size is invalid") -> None:
    """Let it refuse requests with more texts."""
    refusal = {"error": {"message": says}}
    server.refuse = lambda body: web.json_response(refusal, status=status) if len(body["input"]) > most else None


@pytest.mark.parametrize(("most", "status"), [(10, 400), (1, 422), (25, 413), (16, 400), (7, 400)])
def test_requests_get_smaller_until_the_server_takes_them(most: int, status: int, server: Embedder) -> None:
    limited(server, most, status)
    texts = [f"text {number}" * (number % 5 + 1) for number in range(100)]
    encoder = embeddings.EmbeddingsClient(f"{server.url}#m")
    np.testing.assert_allclose(encoder.encode(texts), np.stack([unit(text) for text in texts]), rtol=1e-5)
    sizes = [len(body["input"]) for body in server.bodies]
    assert max(sizes) <= most and sum(sizes) == 100
    before = len(server.bodies)
    encoder.encode(texts)
    assert len(server.bodies) - before <= -(-100 // (most // 2 + 1)) + 1, "what was learned is kept"
    encoder.close()


def test_a_text_that_is_refused_alone_is_shown(server: Embedder) -> None:
    limited(server, 0, says="too long")
    with pytest.raises(ProviderError, match="refused with status 400: too long, of 'text 7'"):
        embeddings.EmbeddingsClient(f"{server.url}#m").encode(["text 7"])


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: [{"embedding": row["embedding"]} for row in rows[::-1]],
        lambda rows: [row["embedding"] for row in rows[::-1]],
    ],
)
def test_vectors_without_numbers_are_in_the_order_of_the_texts(change: Any, server: Embedder) -> None:
    server.change = change
    texts = ["a", "bee", "cold ones"]
    found = embeddings.EmbeddingsClient(f"{server.url}#m").encode(texts)
    np.testing.assert_allclose(found, np.stack([unit(text) for text in texts]), rtol=1e-5)


def test_a_server_that_knows_no_encoding_format_is_asked_without(server: Embedder) -> None:
    error = {"detail": [{"loc": ["body", "encoding_format"], "msg": "Extra inputs are not permitted"}]}
    server.refuse = lambda body: web.json_response(error, status=422) if "encoding_format" in body else None
    assert embeddings.EmbeddingsClient(f"{server.url}#m").encode(["a"] * 40).shape == (40, 5)
    assert all("encoding_format" not in body for body in server.bodies)


@pytest.mark.parametrize(("status", "code"), [(402, 402), (429, "insufficient_quota"), (200, "insufficient_quota")])
def test_without_credit_it_is_said_at_once(status: int, code: object, server: Embedder) -> None:
    error = {"error": {"message": "You exceeded your current quota", "code": code}}
    server.faults = [{"status": status, "text": json.dumps(error)}]
    with pytest.raises(OutOfCredit, match="You exceeded your current quota"):
        embeddings.EmbeddingsClient(f"{server.url}#m").encode(["a"])
    assert len(server.keys) == 1
