"""The server's paths over HTTP: what Search-R1's client sends and reads, what ours does, pages, a graph, refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.retrieval.kg.support import small_store
from tests.retrieval.service.support import QUICK, ScriptedIndex, get, post, serving
from tests.retrieval.support import DOCUMENTS
from tests.support.growth import is_linear
from tests.support.recorded import Answer, recorded
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.kg import KgTool
from trailforge.retrieval.pages.text import OpenedPage, Spot
from trailforge.retrieval.service.client import connect
from trailforge.retrieval.service.searching import RankedIndex, ServedIndex
from trailforge.retrieval.service.server import SearchServer, ServerLimits
from trailforge.retrieval.web.pages import PageReader
from trailforge.schemas import Document, NoSuchPage

LANG = "When was Fritz Lang born?"


def films(documents: Sequence[Document] = DOCUMENTS, name: str = "films") -> ServedIndex:
    """A small corpus, served."""
    return ServedIndex(name, Bm25Retriever(documents), documents, backend="bm25")


def as_search_r1_reads(reply: Any) -> list[str]:
    """The text that its trainer shows its agent, from the fields that it reads."""
    shown = []
    for rows in reply["result"]:
        documents = [row["document"]["contents"] for row in rows]
        split = [(contents.split("\n")[0], "\n".join(contents.split("\n")[1:])) for contents in documents]
        shown.append("".join(f"Doc {n}(Title: {title}) {text}\n" for n, (title, text) in enumerate(split, 1)))
    return shown


async def test_search_r1s_client_reads_what_it_expects() -> None:
    """It posts queries, topk and return_scores as JSON, and reads result, document and contents; once for a batch."""
    sent = {"queries": [LANG, "the capital of Austria"], "topk": 2, "return_scores": True}
    async with serving(SearchServer([films()])) as url:
        status, reply, headers = await post(f"{url}/retrieve", sent)
    assert status == 200 and headers["Content-Type"].startswith("application/json")
    assert as_search_r1_reads(reply) == [
        'Doc 1(Title: "Fritz Lang") Fritz Lang was born in Vienna. He died in Beverly Hills.\n'
        'Doc 2(Title: "Metropolis") Metropolis is a silent film of 1927. Fritz Lang directed it.\n',
        'Doc 1(Title: "Vienna") Vienna is the capital of Austria.\n'
        'Doc 2(Title: "Vienna") Vienna is the capital of Austria.\n',
    ]
    for row in reply["result"][0]:
        assert row.keys() == {"document", "score"} and row["document"].keys() == {"id", "contents"}
        assert isinstance(row["score"], float)


@pytest.mark.parametrize("topk", [None, "missing"])
async def test_topk_is_the_servers_where_none_is_said(topk: object) -> None:
    """As in Search-R1's server, which takes 0 for nothing said, too: here it is refused."""
    sent = {"queries": [f"{LANG} Vienna"]} | ({} if topk == "missing" else {"topk": topk})
    async with serving(SearchServer([films()], limits=ServerLimits(k=3))) as url:
        _, reply, _ = await post(f"{url}/retrieve", sent)
    assert [len(rows) for rows in reply["result"]] == [3]


async def test_documents_are_bare_without_scores() -> None:
    """`return_scores` is false where it is not said; a title of several lines stays on the first."""
    documents = [Document(id="x", title="Two\nlines", text="of words\n\nand more")]
    async with serving(SearchServer([films(documents)])) as url:
        _, reply, _ = await post(f"{url}/retrieve", {"queries": ["words"]})
        _, nothing, _ = await post(f"{url}/retrieve", {"queries": []})
    assert reply == {"result": [[{"id": "x", "contents": '"Two lines"\nof words\n\nand more'}]]}
    assert nothing == {"result": []}


async def test_a_trainers_whole_batch_is_one_request() -> None:
    """Thousands of queries, many of them the same, come back in their order."""
    queries = [f"{LANG} {number % 700}" for number in range(3000)]
    index = ScriptedIndex()
    async with serving(SearchServer([ServedIndex("echo", index)])) as url:
        _, reply, _ = await post(f"{url}/retrieve", {"queries": queries, "topk": 3, "return_scores": True})
    assert [rows[0]["document"]["contents"] for rows in reply["result"]] == [f'"Echo"\n{query}' for query in queries]
    assert len(index.searched) == 700


async def test_graph_r1s_client_reads_what_it_expects() -> None:
    """A list with JSON as text for each query, which holds `results`."""
    async with serving(SearchServer([films()], limits=ServerLimits(k=1))) as url:
        _, reply, _ = await post(f"{url}/search", {"queries": [LANG, "capital"]})
    assert [json.loads(text)["results"][0]["<knowledge>"].splitlines()[0] for text in reply] == ["Fritz Lang", "Vienna"]


@pytest.mark.parametrize("query", [LANG, "capital of Austria", "", "nothing of it", "🎬 \ud83c half"])
async def test_our_client_finds_what_the_index_does(query: str) -> None:
    """Passages, scores, order, reasons and sources; over the wire nothing is lost."""
    index = Bm25Retriever(DOCUMENTS)
    async with serving(SearchServer([films()])) as url:
        client = connect(url, config=QUICK)
        for k in (0, 1, 3, 99):
            assert await client.retrieve(query, k) == await index.retrieve(query, k)
            assert await client.find(query, k) == (await index.find(query, k) if k else [])


async def test_corpora_are_told_apart_by_name() -> None:
    """The first is searched where none is named; one that is not there is said."""
    other = [Document(id="m", title="Moon", text="The Moon landing of 1969.")]
    async with serving(SearchServer([films(), films(other, "space")])) as url:
        assert await connect(url, config=QUICK).retrieve("Moon", 1) == []
        assert (await connect(f"{url}?corpus=space", config=QUICK).retrieve("Moon", 1))[0].id == "m"
        status, reply, _ = await post(f"{url}/retrieve", {"queries": ["Moon"], "corpus": "sea"})
        assert (status, reply) == (404, {"error": "no corpus 'sea' is served here; there are films, space"})
        health = await connect(url, config=QUICK).health()
    assert health["corpora"] == {
        "films": {"backend": "bm25", "passages": 5},
        "space": {"backend": "bm25", "passages": 1},
    }


@pytest.mark.parametrize(
    ("path", "body", "status", "shown"),
    [
        ("/retrieve", b"{", 400, "no JSON"),
        ("/retrieve", [1], 400, "no JSON object"),
        ("/retrieve", {}, 400, "field 'queries': has to be a list of texts"),
        ("/retrieve", {"queries": "one"}, 400, "has to be a list of texts"),
        ("/retrieve", {"queries": [1]}, 400, "has to be text"),
        ("/retrieve", {"queries": ["x" * 40_000]}, 400, "40000 characters"),
        ("/retrieve", {"queries": ["x"] * 21}, 400, "21 of them; at most 20"),
        ("/retrieve", {"queries": ["x"], "topk": -1}, 400, "field 'topk'"),
        ("/retrieve", {"queries": ["x"], "topk": True}, 400, "field 'topk'"),
        ("/retrieve", {"queries": ["x"], "topk": 10**9}, 400, "from 1 to 1000"),
        ("/retrieve", {"queries": ["x"], "return_scores": 1}, 400, "true or false"),
        ("/retrieve", b'{"a": ' + b"[" * 9000 + b"]" * 9000 + b"}", 400, "nested"),
        ("/retrieve", b" " * 100_000, 413, "the request is larger than 90000 bytes"),
        ("/open", {"page": "Atlantis"}, 404, "no page has the id or the title 'Atlantis'"),
        ("/open", {"page": "Vienna", "part": 2}, 404, "no part 2: the page 'Vienna' has one part"),
        ("/open", {"page": "Vienna", "part": 0}, 400, "from 1 to"),
        ("/pages", {"topk": 3}, 400, "field 'query'"),
        ("/open", {"page": "http://127.0.0.1/secret"}, 404, "no page"),
        ("/find", {"page": "Vienna"}, 400, "field 'text'"),
        ("/kg", {"entities": ["x"]}, 404, "no knowledge graph is served here"),
        ("/nowhere", {}, 404, "Not Found"),
        ("/health", {}, 405, "Not Allowed"),
    ],
)
async def test_a_wrong_request_is_told_what_is_wrong(path: str, body: Any, status: int, shown: str) -> None:
    """In one line of JSON; the server goes on."""
    limits = ServerLimits(queue=20, largest_body=90_000)
    async with serving(SearchServer([films()], limits=limits)) as url:
        found, reply, _ = await post(url + path, body)
        assert (found, list(reply)) == (status, ["error", "reason"] if "no pa" in shown else ["error"])
        assert shown in reply["error"] and "\n" not in reply["error"]
        assert (await get(f"{url}/stats"))["refused"] == 1
        assert (await post(f"{url}/retrieve", {"queries": ["Lang"]}))[0] == 200


# Pages

LONG = [
    Document(id="a1", title="Otter", text="The otter swims. " * 30),
    Document(id="b", title="Badger", text="It digs."),
    Document(id="a2", title="otter ", text="Otters use stone tools. " * 30),
    Document(id="c", title="", text="A text without a title."),
]


async def test_a_page_is_opened_by_title_or_by_a_passage_of_it() -> None:
    """All its passages, in parts; a passage opens the part in which it begins."""
    async with serving(SearchServer([films(LONG)])) as url:
        _, by_title, _ = await post(f"{url}/open", {"page": "OTTER", "words": 50})
        _, by_id, _ = await post(f"{url}/open", {"page": "a2", "words": 50})
        _, whole, _ = await post(f"{url}/open", {"page": "a2"})
        _, untitled, _ = await post(f"{url}/open", {"page": "c"})
        parts = [
            (await post(f"{url}/open", {"page": "Otter", "words": 50, "part": n + 1}))[1]["text"]
            for n in range(by_title["parts"])
        ]
    assert (by_title["id"], by_title["title"], by_title["part"], by_title["parts"]) == ("a1", "Otter", 1, 5)
    assert all(part.endswith(".") for part in parts)
    assert (by_id["id"], by_id["part"]) == ("a2", 2) and "Otters use" in by_id["text"]
    assert whole["parts"] == 1 and whole["text"] == "\n\n".join([LONG[0].text, LONG[2].text]).strip()
    assert " ".join(parts).split() == whole["text"].split()
    assert untitled["text"] == "A text without a title."


async def test_words_are_found_in_a_page_whatever_their_capitals_and_line_ends() -> None:
    """With the part they stand in and what is around them; marks of patterns are marks."""
    async with serving(SearchServer([films(LONG)])) as url:
        _, found, _ = await post(f"{url}/find", {"page": "Otter", "text": "swims.\nOTTERS  use", "words": 50})
        _, often, _ = await post(f"{url}/find", {"page": "Otter", "text": "otter"})
        _, none, _ = await post(f"{url}/find", {"page": "Otter", "text": "sw.ms"})
    assert (found["count"], [spot["part"] for spot in found["matches"]]) == (1, [2])
    assert "The otter swims. Otters use stone tools." in found["matches"][0]["text"]
    assert (often["count"], len(often["matches"]), often["left"]) == (60, 2, 0)
    assert (none["count"], none["matches"]) == (0, [])


def test_a_long_page_is_searched_in_linear_time() -> None:
    """A megabyte, with words that nearly stand everywhere; letters that grow when their capitals are taken off."""

    def page_of(size: int) -> OpenedPage:
        return OpenedPage("1", "", "ab " * size + "İstanbul at the end", 1000)

    page = page_of(350_000)
    assert page.find("ab " * 10_000 + "C").count == 0
    assert len(page.find("ab c").matches[0].text) < 1000
    (spot,) = page.find("İSTANBUL  at").matches
    assert spot.part == page.parts and spot.text.endswith("İstanbul at the end")
    for text in ("ab " * 10_000 + "C", "İSTANBUL  at"):
        assert is_linear(page_of, lambda page, text=text: page.find(text), 350_000)


async def test_pages_of_the_web_are_opened_once() -> None:
    """By address, where the server may; why one cannot be read is said."""
    html = {"Content-Type": "text/html"}
    async with recorded(Answer(body="<p>The tide mill.</p>", headers=html)) as site:
        server = SearchServer([films()], reader=PageReader(may_read=lambda address: True))
        async with serving(server) as url:
            _, first, _ = await post(f"{url}/open", {"page": site.url})
            _, again, _ = await post(f"{url}/find", {"page": site.url, "text": "mill"})
            status, refused, _ = await post(f"{url}/open", {"page": f"{site.url}/other"})
    assert (first["text"], again["count"], len(site.asked)) == ("The tide mill.", 1, 1)
    assert status == 424 and "status 404" in refused["error"]


async def test_a_retriever_is_served_as_an_index() -> None:
    """As a search tool of the web is, which ranks and does not say why."""
    ranked = RankedIndex(Bm25Retriever(DOCUMENTS), "the web")
    async with serving(SearchServer([ServedIndex("web", ranked, backend="web")])) as url:
        found = await connect(url, config=QUICK).find(LANG, 2)
        _, reply, _ = await post(f"{url}/open", {"page": "Vienna"})
    assert [(each.passage.id, each.why) for each in found] == [
        ("1", "result 1 of the web"),
        ("0", "result 2 of the web"),
    ]
    assert "no page 'Vienna': web has no pages to open" in reply["error"]


# The graph


async def test_a_graph_is_searched_as_its_tool_does(tmp_path: Path) -> None:
    """Entities, relations and triples, over the wire and in our client's form."""
    tool = KgTool(small_store(tmp_path))
    asked = (["Einstein", "Ulm"], ["born in"], "Where was Einstein born?")
    async with serving(SearchServer([], kg=tool)) as url:
        names = dict(zip(("entities", "relations", "query"), asked, strict=True))
        _, reply, _ = await post(f"{url}/kg", names)
        found = await connect(url, config=QUICK).search_kg(*asked)
        status, refused, _ = await post(f"{url}/retrieve", {"queries": ["x"]})
    assert reply["triples"][0]["tail_label"] == "Ulm" and reply["entities"][0]["matches"][0]["entity_id"] == "Q1"
    assert found == tool.search(*asked)
    assert (status, refused) == (
        404,
        {"error": "no corpus is served here: begin serve-search with the folder of an index"},
    )


async def test_pages_and_spots_come_through_our_client() -> None:
    """As records; a part that there is not is an error."""
    async with serving(SearchServer([films(LONG)])) as url:
        client = connect(url, config=QUICK)
        assert (await client.open_page("Badger")).text == "It digs."
        assert (await client.find_in_page("Badger", "digs")).matches == (Spot(part=1, text="It digs."),)
        with pytest.raises(NoSuchPage, match="there is no part 2: the page 'Badger' has one part"):
            await client.open_page("Badger", 2)
        with pytest.raises(NoSuchPage, match="no page has the id or the title 'Beaver'"):
            await client.find_in_page("Beaver", "digs")
        hits = await client.search_pages("otters use tools", 2)
    assert [(hit.page, hit.part) for hit in hits] == [("a2", 1)]


async def test_figures_say_what_was_asked() -> None:
    """Requests, queries, times, and how often an index was spared."""
    async with serving(SearchServer([films()])) as url:
        await asyncio.gather(*(post(f"{url}/retrieve", {"queries": [LANG, "Vienna"]}) for _ in range(3)))
        figures = await get(f"{url}/stats")
    assert (figures["requests"], figures["queries"], figures["in_flight"], figures["waiting"]) == (3, 6, 0, 0)
    films_figures = figures["corpora"]["films"]
    assert (films_figures["queries"], films_figures["cache_hits"]) == (6, 4)
    for spread in (films_figures["ms"], figures["request_ms"]):
        assert 0 < spread["p50"] <= spread["p99"]
