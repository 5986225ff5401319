"""What a server does not take: foreign hosts and pages, other types than JSON, silence, more than it has room for.

And an index that is cut short under it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.retrieval.kg.support import small_store
from tests.retrieval.service.support import JSON, ScriptedIndex, echo, get, post, serving
from tests.retrieval.service.test_killed import started
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.backends.declaration import FoundPassage
from trailforge.retrieval.base import Remembered
from trailforge.retrieval.indexes.store import build_index, open_index
from trailforge.retrieval.kg import KgStore, KgTool
from trailforge.retrieval.service.searching import ServedIndex
from trailforge.retrieval.service.server import SearchServer, ServerLimits
from trailforge.retrieval.service.wire import Callers
from trailforge.schemas import Document, RetrievalError

HEAD = "POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
ASKED = json.dumps({"queries": ["a"]}).encode()


def echoing(**options: Any) -> ServedIndex:
    return ServedIndex("echo", ScriptedIndex(), **options)


async def ask(url: str, headers: Mapping[str, str], body: bytes = ASKED) -> tuple[int, str]:
    """Status and words of a POST with these headers alone."""
    session = aiohttp.ClientSession(skip_auto_headers=["Content-Type"])
    async with session, session.post(f"{url}/retrieve", data=body, headers=headers) as response:
        return response.status, await response.text()


# Hosts and origins


@pytest.mark.parametrize(
    "host",
    "evil.example localhost.evil.example 127.0.0.1.evil.example 10.0.0.7 [2001:db8::1] 169.254.169.254 localhost@evil "
    "[::1 evil.example:8990 0x7f.evil 127.0.0.1x".split(),
)
async def test_a_foreign_host_is_refused(host: str) -> None:
    async with serving(SearchServer([echoing()])) as url:
        status, said = await ask(url, JSON | {"Host": host})
        assert status == 403 and "--allow-host" in said
        async with aiohttp.ClientSession() as session, session.get(f"{url}/health", headers={"Host": host}) as health:
            assert health.status == 403


@pytest.mark.parametrize(
    "host", "127.0.0.1 127.0.0.1:9 localhost LOCALHOST:9 localhost. [::1] [::1]:9 127.9.9.9".split()
)
async def test_this_machines_names_for_itself_pass(host: str) -> None:
    async with serving(SearchServer([echoing()])) as url:
        assert (await ask(url, JSON | {"Host": host}))[0] == 200
        assert (await ask(url, JSON | {"Host": host, "Origin": f"http://{host}"}))[0] == 200


@pytest.mark.parametrize(
    "origin",
    "null http://evil.example https://localhost.evil.example http://127.0.0.1 http://localhost:3000 file:// x "
    "http://evil.example#127.0.0.1 http://evil.example@127.0.0.1".split(),
)
async def test_a_page_of_another_origin_is_refused(origin: str) -> None:
    async with serving(SearchServer([echoing()])) as url:
        status, said = await ask(url, JSON | {"Origin": origin})
        assert status == 403 and "may not ask here" in said


def test_where_it_listens_and_what_is_allowed_are_names_too() -> None:
    def knows(callers: Callers, host: str, origin: str = "") -> bool:
        return callers.problem_of([host], [origin] if origin else []) is None

    at_address, anywhere = Callers("10.0.0.7"), Callers("0.0.0.0")
    proxied = Callers("127.0.0.1", ["search.example", "Other.example:443"])
    assert knows(at_address, "10.0.0.7:8990") and not knows(at_address, "10.0.0.8:8990")
    assert knows(at_address, f"{socket.gethostname()}:8990") and knows(Callers("node7"), "node7")
    assert (
        knows(anywhere, "10.0.0.8:8990") and knows(anywhere, "[fd00::5]:8990") and not knows(anywhere, "evil.example")
    )
    assert knows(Callers("::1"), "[::1]:8990") and not knows(Callers("127.0.0.1"), socket.gethostname() + ".evil")
    assert knows(proxied, "search.example") and knows(proxied, "OTHER.example:8443")
    assert knows(proxied, "search.example", "https://search.example:444")
    assert not knows(proxied, "search.example", "https://evil.example") and not knows(proxied, "evil.example")
    assert knows(Callers("127.0.0.1", ["*"]), "evil.example", "http://evil.example")
    assert Callers("127.0.0.1").problem_of([], []) is None  # no browser


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("application/vnd.api+json", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("text/plain; application/json", 415),
        ("", 415),
        (None, 415),
    ],
)
async def test_only_json_is_read(kind: str | None, status: int) -> None:
    index = ScriptedIndex()
    async with serving(SearchServer([ServedIndex("echo", index)])) as url:
        found, said = await ask(url, {} if kind is None else {"Content-Type": kind})
    assert found == status and (status == 200 or "application/json" in said)
    assert index.searched == (["a"] if status == 200 else [])


# Silence


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /retrieve HTTP/1.1\r\nHost: localhost\r\n",
        b"GET /hea",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        f"{HEAD}Content-Length: 9\r\n\r\n{{".encode(),
    ],
    ids=["nothing", "no end of headers", "no end of a line", "nothing more", "no end of a body"],
)
async def test_a_silent_connection_is_ended(sent: bytes) -> None:
    """Also one that goes on dripping headers."""
    limits = ServerLimits(idle_s=0.3, timeout_s=0.3)
    async with serving(SearchServer([echoing()], limits=limits)) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(sent)
        drips = asyncio.create_task(_drip(writer, b"X: 1\r\n" if sent.endswith(b"\r\n") else b""))
        async with asyncio.timeout(60):
            while await reader.read(1 << 16):
                pass
        assert reader.at_eof()
        drips.cancel()
        writer.close()


async def _drip(writer: asyncio.StreamWriter, what: bytes) -> None:
    while True:
        await asyncio.sleep(0.05)
        writer.write(what)


async def test_who_does_not_read_the_reply_is_let_go() -> None:
    class Large(ScriptedIndex):
        async def find(self, query: str, k: int) -> list[FoundPassage]:
            return [echo("x" * (1 << 25))]

    server = SearchServer([ServedIndex("large", Large(), cached=0)], limits=ServerLimits(timeout_s=0.5))
    async with serving(server) as url:
        with socket.socket() as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent.connect(("127.0.0.1", int(url.rpartition(":")[2])))
            silent.sendall(f"{HEAD}Content-Length: {len(ASKED)}\r\n\r\n".encode() + ASKED)
            async with asyncio.timeout(60):
                while not (await get(f"{url}/stats"))["timed_out"]:
                    await asyncio.sleep(0.05)
            assert (await get(f"{url}/stats"))["in_flight"] == 0


# Room


def test_what_is_remembered_has_a_size() -> None:
    kept: Remembered[str, str] = Remembered(100)
    for name in "abcd":
        kept.keep(name, name.upper(), 30)
    assert (kept.get("a"), kept.get("b"), kept.bytes, len(kept)) == (None, "B", 90, 3)
    kept.keep("e", "E", 60)
    assert (kept.get("c"), kept.get("d"), kept.get("b"), kept.bytes) == (None, None, "B", 90)
    kept.keep("b", "bb", 10)
    kept.keep("f", "F", 101)
    assert (kept.get("b"), kept.get("f"), kept.bytes) == ("bb", None, 70)
    nothing: Remembered[str, str] = Remembered(0)
    nothing.keep("a", "A", 1)
    assert nothing.get("a") is None


async def test_the_cache_is_bounded_in_bytes_whatever_is_asked() -> None:
    class Many(ScriptedIndex):
        async def find(self, query: str, k: int) -> list[FoundPassage]:
            return [echo(f"{query} {number} " + "word " * 100) for number in range(k)]

    served = ServedIndex("many", Many(), cached=1 << 20)
    for number in range(300):
        await served.find(f"{number}", 5 if number % 2 else 400)
    assert 0 < served._found.bytes <= 1 << 20
    kept = [(f"{number}", 5 if number % 2 else 400) for number in range(300)]
    texts = [each.passage.text for asked in kept for each in served._found.get(asked) or ()]
    assert (1 << 18) < sum(map(len, texts)) <= 1 << 20


async def test_a_request_is_bounded() -> None:
    """Before anything is searched, and in bytes while it is answered."""
    index = ScriptedIndex()
    limits = ServerLimits(passages=20, largest_reply=2000)
    async with serving(SearchServer([ServedIndex("echo", index)], limits=limits)) as url:
        status, reply, _ = await post(f"{url}/retrieve", {"queries": ["a"] * 5, "topk": 5})
        assert status == 400 and "5 queries of 5 passages each; at most 20 passages" in reply["error"]
        assert index.searched == []
        assert (await post(f"{url}/retrieve", {"queries": ["a"] * 4, "topk": 5}))[0] == 200
        for path in ("/retrieve", "/search"):
            status, reply, _ = await post(f"{url}{path}", {"queries": ["x" * 900] * 3, "topk": 5})
            assert status == 400 and "larger than 2000 bytes" in reply["error"]


async def test_zero_is_no_number() -> None:
    documents = [Document(id="a", title="A", text="word " * 20)]
    served = ServedIndex("a", Bm25Retriever(documents), documents)
    async with serving(SearchServer([served])) as url:
        for path, asked in (
            ("/retrieve", {"queries": ["a"], "topk": 0}),
            ("/open", {"page": "a", "part": 0}),
            ("/open", {"page": "a", "words": 0}),
            ("/find", {"page": "a", "text": "word", "words": 0}),
            ("/open", {"page": "a", "part": False}),
            ("/retrieve", {"queries": ["a"], "topk": 0.0}),
        ):
            status, reply, _ = await post(f"{url}{path}", asked)
            assert status == 400 and "has to be a whole number from 1 to" in reply["error"]


# An index that is cut short


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of some megabytes, so that most of it lies beyond what a search has touched."""
    folder = tmp_path_factory.mktemp("indexes") / "words"
    documents = [
        Document(id=f"{n}", title=f"T{n}", text=" ".join(f"w{(n * k) % 5003}" for k in range(1, 40)))
        for n in range(9000)
    ]
    asyncio.run(build_index(documents, folder, "bm25"))
    return folder


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 5)


async def test_an_index_that_is_cut_short_ends_requests_with_an_error(index: Path, tmp_path: Path) -> None:
    """Each of its files; the server lives, and goes on when the file is whole again."""
    copy = tmp_path / "words"
    _copy(index, copy)
    files = [path for path in sorted(copy.rglob("*")) if path.is_file() and path.stat().st_size > 99]
    with started(str(copy), "--port", "0") as (command, url):
        for number, cut in enumerate(file for file in files if file.name != "index.json" and file.name[0] != "."):
            assert (await post(f"{url}/retrieve", {"queries": ["w1 w2"]}))[0] == 200
            content = cut.read_bytes()
            cut_short(cut)
            for path, asked in (
                ("/retrieve", {"queries": [f"w{n} w{n + 5 + number}" for n in range(40)], "topk": 50}),
                ("/retrieve", {"queries": ["w1 w2"]}),
                ("/open", {"page": "T8999"}),
                ("/find", {"page": "8500", "text": "w1"}),
            ):
                status, reply, _ = await post(f"{url}{path}", asked)
                assert status == 424 and f"{cut.name} has been changed while it is in use" in reply["error"], reply
            assert command.process.poll() is None and (await get(f"{url}/health"))["status"] == "ok"
            cut.write_bytes(content)
            assert (await post(f"{url}/retrieve", {"queries": [f"w3 w{number}"]}))[0] == 200
    assert number >= 4


def _copy(index: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(index, to)


async def test_an_index_in_another_ones_place_is_no_damage(index: Path, tmp_path: Path) -> None:
    copy = tmp_path / "words"
    _copy(index, copy)
    opened = open_index(copy)
    os.rename(copy, tmp_path / "before")
    _copy(index, copy)
    cut_short(copy / "texts.arrow")
    assert await opened.find("w1 w2", 3)
    cut_short(tmp_path / "before" / "texts.arrow")
    with pytest.raises(RetrievalError, match="changed while it is in use"):
        await opened.find("w1 w2", 3)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc")
async def test_its_files_are_let_go_with_it(index: Path) -> None:
    def held() -> int:
        links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
        return sum(os.readlink(link).startswith(str(index)) for link in links if os.path.lexists(link))

    before = held()
    opened = open_index(index)
    assert await opened.find("w1", 1) and held() > before
    # The thread that searched lets go of its work only some time after it has told the result.
    await asyncio.get_running_loop().shutdown_default_executor()
    del opened
    assert held() == before


def test_a_graph_that_is_cut_short_ends_searches_with_an_error(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    tool = KgTool(KgStore.open(store.folder))
    first = tool.search(["Berlin"])
    assert tool.search(["Berlin"]) == first
    cut_short(next(path for path in sorted(store.folder.rglob("*.npy")) if path.stat().st_size > 200))
    with pytest.raises(RetrievalError, match="changed while it is in use"):
        tool.search(["Berlin"])
