"""The client against servers that answer, stall, refuse and die: passages or an error, always within the limit."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiohttp import web

from tests.retrieval.service.support import QUICK, answering, closed_port, saying
from tests.retrieval.support import run
from trailforge.retrieval.scope import RetrievalConfig, open_retrieval, with_hash
from trailforge.retrieval.service.client import SearchClientConfig, connect
from trailforge.schemas import InvalidInput, Passage, RetrievalError

PLAIN = {
    "result": [[{"document": {"id": "7", "contents": '"Fritz Lang"\nHe was born\nin Vienna.'}, "score": 1.23456789}]]
}
"""As Search-R1's server answers."""
LANG = Passage(id="7", title="Fritz Lang", text="He was born\nin Vienna.", score=1.234568)


@pytest.mark.parametrize("path", ["", "/", "/retrieve"])
def test_passages_of_a_server_that_is_search_r1s_own(path: str) -> None:
    """Title and text are read from `contents`; the address may end as its trainers write it."""

    async def search() -> None:
        answer, asked = saying(PLAIN)
        async with answering(answer) as url:
            assert await connect(url + path, config=QUICK).retrieve("Lang?", 3) == [LANG]
        expected = {"queries": ["Lang?"], "topk": 3, "return_scores": True, "details": True}
        assert asked == [("/retrieve", expected)]

    run(search())


def test_bare_documents_are_ranked_as_they_come() -> None:
    """A server that gives no scores has an order all the same."""

    async def search() -> None:
        rows = [{"id": name, "contents": f'"{name}"\ntext'} for name in "ab"]
        answer, _ = saying({"result": [rows]})
        async with answering(answer) as url:
            found = await connect(url, config=QUICK).retrieve("?", 2)
        assert [(passage.id, passage.score) for passage in found] == [("a", 1.0), ("b", 0.5)]

    run(search())


def test_one_of_several_corpora_is_named_in_the_address() -> None:
    """What the caller names goes before it."""

    async def search() -> None:
        answer, asked = saying(PLAIN)
        async with answering(answer) as url:
            await connect(f"{url}/?corpus=wiki", config=QUICK).retrieve("?", 1)
            await connect(f"{url}/?corpus=wiki", corpus="news", config=QUICK).retrieve("?", 1)
        assert [body["corpus"] for _, body in asked] == ["wiki", "news"]

    run(search())


@pytest.mark.parametrize("first", [(429, {"Retry-After": "0"}), (503, {"Retry-After": "0.05"}), 500, 502])
def test_what_passes_is_asked_again(first: object) -> None:
    """A busy server, one that is shutting down, a proxy without one behind it."""

    async def search() -> None:
        answer, asked = saying(first, first, PLAIN)
        async with answering(answer) as url:
            assert await connect(url, config=QUICK).retrieve("?", 1) == [LANG]
        assert len(asked) == 3

    run(search())


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ((400, {}), "refused with status 400 (too busy)"),
        ((404, {}), "refused with status 404"),
        ({"result": []}, "no result for 1 queries"),
        (["result"], "no result for 1 queries"),
        ({"result": [[3]]}, "a passage that is no object"),
        ({"result": [[{"document": {"id": "1"}}]]}, "a document without contents"),
        ({"result": [[{"document": {"contents": "a\nb"}, "score": "high"}]]}, "a score that is no number"),
        ({"result": [[{"document": {"contents": "a\nb"}, "score": 10**400}]]}, "a score that is no number"),
    ],
)
def test_a_refusal_or_another_shape_is_an_error_at_once(said: object, shown: str) -> None:
    """A second try would bring the same."""

    async def search() -> None:
        answer, asked = saying(said)
        async with answering(answer) as url:
            with pytest.raises(RetrievalError) as raised:
                await connect(url, config=QUICK).retrieve("?", 1)
        assert shown in str(raised.value)
        assert len(asked) == 1

    run(search())


def test_a_server_that_stalls_is_given_up_within_the_limit() -> None:
    """Whether it never answers, or drips its answer for ever."""

    async def stall(request: web.Request) -> web.StreamResponse:
        if "drip" in await request.text():
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.02)
        await asyncio.sleep(9999)
        raise AssertionError

    async def search() -> None:
        async with answering(stall) as url:
            for query in ("silent", "drip"):
                with pytest.raises(RetrievalError, match="no reply in time"):
                    await connect(url, config=QUICK).retrieve(query, 1)

    run(search())


def test_a_server_that_asks_for_more_time_than_is_left_is_given_up_at_once() -> None:
    """Nothing is gained by waiting, which would go on beyond the end of the test."""
    patient = SearchClientConfig(limit_s=3000.0)

    async def search() -> None:
        answer, asked = saying((503, {"Retry-After": "3600"}))
        async with answering(answer) as url:
            with pytest.raises(RetrievalError, match=r"status 503 \(too busy\)"):
                await connect(url, config=patient).retrieve("?", 1)
        assert len(asked) == 1

    run(search())


def test_no_server_is_an_error_and_a_restarted_one_is_found_again() -> None:
    """By the same client, and within one search when it comes back in time."""
    port = closed_port()
    client = connect(f"http://127.0.0.1:{port}", config=QUICK)
    patient = connect(f"http://127.0.0.1:{port}", config=SearchClientConfig(limit_s=20.0, backoff_s=0.01))

    async def search() -> None:
        with pytest.raises(RetrievalError, match="is the search server up"):
            await client.retrieve("?", 1)
        waiting = asyncio.create_task(patient.retrieve("?", 1))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        answer, _ = saying(PLAIN)
        async with answering(answer, port) as _:
            assert await waiting == [LANG]
            assert await client.retrieve("?", 1) == [LANG]

    run(search())


def test_before_a_run_a_server_that_is_not_there_is_not_waited_for() -> None:
    """What opens the server in a run has its patience all the same: it may be started anew."""
    config = RetrievalConfig(kind=f"http://127.0.0.1:{closed_port()}")
    with pytest.raises(RetrievalError, match=r"\(1 attempt in .*is the search server up"):
        with_hash(config)
    answer, _ = saying({"corpora": {"films": {"backend": "bm25", "hash": "0" * 64}}})

    async def search() -> None:
        opening = asyncio.create_task(asyncio.to_thread(open_retrieval, config))
        await asyncio.sleep(0.1)
        assert not opening.done()
        async with answering(answer, int(config.kind.rpartition(":")[2])):
            assert (await opening).name == f"bm25 {'0' * 12}"

    run(search())


def test_one_client_serves_many_threads_and_loops() -> None:
    """Each episode of a trainer has a loop of its own, one after the other and at once."""

    async def search() -> None:
        answer, asked = saying(PLAIN)
        async with answering(answer) as url:
            client = connect(url, config=QUICK)
            with ThreadPoolExecutor(4) as threads:
                calls = [threads.submit(lambda: asyncio.run(client.retrieve("?", 1))) for _ in range(12)]
                found = await asyncio.gather(*map(asyncio.wrap_future, calls))
        assert found == [[LANG]] * 12 and len(asked) == 12

    run(search())


FORKING = """
import asyncio, os, sys
from trailforge.retrieval.service.client import SearchClientConfig, connect
client = connect(sys.argv[1], config=SearchClientConfig(timeout_s=5.0, limit_s=5.0))
search = lambda: len(asyncio.run(client.retrieve("?", 1)))
found = [search()]
for with_search in (True, False):
    child = os.fork()
    if not child:
        sys.exit(0 if not with_search or search() == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    found.append(search())
assert found == [1, 1, 1]
"""


def test_a_forked_process_searches_too_and_leaves_its_parent_alone() -> None:
    """Whether it searches or not before it ends; nobody says a word on stderr."""

    async def search() -> None:
        answer, asked = saying(PLAIN)
        async with answering(answer) as url:
            script = await asyncio.create_subprocess_exec(
                sys.executable, "-W", "error", "-c", FORKING, url, stderr=asyncio.subprocess.PIPE
            )
            _, problems = await script.communicate()
        assert (script.returncode, problems) == (0, b"")
        assert len(asked) == 4

    run(search())


def test_nothing_is_sent_for_nothing() -> None:
    """No passages are wanted, or no queries are asked."""
    client = connect("http://127.0.0.1:9", config=QUICK)
    assert run(client.retrieve("?", 0)) == []
    assert run(client.find_many([], 3)) == []


@pytest.mark.parametrize("url", ["", "indexes/wiki", "ftp://host/", "http://", "http://host:port", "http://host:99999"])
def test_what_is_no_address_is_said(url: str) -> None:
    """Before anything is sent."""
    with pytest.raises(InvalidInput, match="no address of a search server"):
        connect(url)


def test_limits_are_above_zero() -> None:
    """One that is not would never send, or never end."""
    with pytest.raises(InvalidInput, match="limit_s"):
        SearchClientConfig(limit_s=0)
