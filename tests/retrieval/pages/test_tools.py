"""Pages as agents search, open and read them: in memory, of an index, and over a server the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.retrieval.service.support import QUICK, serving
from trailforge.retrieval import RetrieverConfig
from trailforge.retrieval.backends.declaration import MadePassage
from trailforge.retrieval.indexes.corpus import Chunking
from trailforge.retrieval.indexes.manifest import PAGES, describe_content, read_manifest
from trailforge.retrieval.indexes.store import add_to_index, build_index, open_index
from trailforge.retrieval.page_tools import PageHit, PageTools
from trailforge.retrieval.pages.corpus import JoinedPages, WholePages, hits_of
from trailforge.retrieval.pages.cutting import Paging, count_all, cut_pages
from trailforge.retrieval.pages.tools import ServedPageTools, open_pages
from trailforge.retrieval.scope import corpus_hash
from trailforge.retrieval.service.client import connect
from trailforge.retrieval.service.searching import ServedIndex
from trailforge.retrieval.service.server import SearchServer
from trailforge.schemas import Document, InvalidInput, NoSuchPage, Passage

FILLER = "Nothing of note happened there for a very long time indeed. "
BM25 = RetrieverConfig(kind="bm25")
PAGING, CHUNKS = Paging(words=40), Chunking(tokens=30)
DOCUMENTS = [
    Document(id="mill", title="The Tide Mill", text=FILLER * 6 + "Zoë Dvořák rebuilt the mill in 1802. " + FILLER * 3),
    Document(id="zoe", title="Zoë Dvořák", text=FILLER * 2 + "She was born in Lindau. " + FILLER * 4),
    Document(id="a#1.1", title="Lindau", text="A town on a lake."),
    Document(id="l2", title="LINDAU", text="A village in the hills."),
]


def tools_of(documents: list[Document] = DOCUMENTS) -> PageTools:
    """Over documents in memory."""
    return open_pages(documents, BM25, paging=PAGING).tools


async def index_of(tmp_path: Path, documents: list[Document] = DOCUMENTS) -> Path:
    """An index of pages."""
    await build_index(documents, tmp_path / "index", "bm25", chunking=CHUNKS, pages=PAGING)
    return tmp_path / "index"


async def test_a_search_leads_to_the_part_that_says_it() -> None:
    """Whose text is the document's own, and holds the passage."""
    tools = tools_of()
    hit, *_ = await tools.search("Who rebuilt the mill in 1802?", 3)
    part = await tools.open(hit.page, hit.part)
    assert (hit.page, hit.title, hit.part) == ("mill", "The Tide Mill", 2)
    assert hit.text in part.text and "1802" in hit.text and part.text in DOCUMENTS[0].text
    found = await tools.find("the tide mill", "zoe dvorak")
    assert [(each.page, each.part) for each in found.hits] == [("mill", 2)]
    assert (await tools.find("mill", "Lindau")).hits == ()


async def test_no_passage_crosses_the_end_of_a_part() -> None:
    """Every passage stands in the part that its id says."""
    pages = WholePages(DOCUMENTS, PAGING)
    for passage in cut_pages(DOCUMENTS, PAGING, CHUNKS, count_all):
        place = pages.place(passage.id)
        assert place is not None and passage.text in pages.find(place[0]).part(place[1]).text
        assert pages.find(passage.id).part().part == place[1]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Atlantis", "no page has the id or the title 'Atlantis'; search for it"),
        ("The Tide Mil", "no page has the id or the title 'The Tide Mil'; titles that begin alike: 'The Tide Mill'"),
        ("Zoë", "titles that begin alike: 'Zoë Dvořák'"),
        ("mill#99.1", "there is no part 99: the page 'The Tide Mill' has 3 parts"),
        ("lindau", "2 pages are called 'lindau': open one by its id, 'a#1.1', 'l2'"),
        ("", "no page has the id or the title ''"),
    ],
)
async def test_what_is_not_there_is_told_as_an_agent_reads_it(name: str, said: str) -> None:
    """A page by a name that none has, or several have."""
    with pytest.raises(NoSuchPage, match=said.replace("?", r"\?")):
        await tools_of().open(name, 1)


async def test_an_id_that_looks_like_a_passage_is_a_page_first() -> None:
    """Whoever named it so."""
    assert (await tools_of().open("a#1.1", 1)).text == "A town on a lake."


async def test_index_memory_and_server_say_the_same(tmp_path: Path) -> None:
    """Searches, parts, words, and what is missing."""
    opened = open_index(await index_of(tmp_path))
    served = ServedIndex("pages", opened.index, opened.documents, pages=opened.pages)
    async with serving(SearchServer([served])) as url:
        everywhere: list[PageTools] = [
            open_pages(tmp_path / "index").tools,
            ServedPageTools(connect(url, config=QUICK)),
        ]
        for query in ("mill 1802", "born in Lindau", "???"):
            local, remote = [await tools.search(query, 4) for tools in everywhere]
            assert local == remote and (query == "???" or local)
        for part in (1, 2, 3):
            local, remote = [await tools.open("mill", part) for tools in everywhere]
            assert local == remote
        local, remote = [await tools.find("mill", "nothing of note") for tools in everywhere]
        assert local == remote and local.hits
        for tools in everywhere:
            with pytest.raises(NoSuchPage, match="there is no part 7: the page 'The Tide Mill' has 3 parts"):
                await tools.open("mill", 7)


UNIVERSITIES = [
    Document(id="new", title="New Brostul University", text="Brostul University is not this university. " * 40),
    Document(id="own", title="Brostul University", text=f"{FILLER}It is a university in Roseos. {FILLER * 9}"),
    *(Document(id=f"u{n}", title=f"Aber {n}", text=f"A university that Brostul knows. {FILLER * n}") for n in range(4)),
    Document(id="birth", title="Birth", text=f"{FILLER}A film of 2004. {FILLER}"),
    Document(id="fobi", title="Niheistus", text=f"Niheistus, also known as Fobi, is a country. {FILLER * 20}"),
]


@pytest.mark.parametrize("backend", ["bm25", "dense"])
async def test_a_search_shows_many_pages_and_first_the_one_that_is_asked_for(tmp_path: Path, backend: str) -> None:
    """By title or other name, word by word; in process and over a server."""
    await build_index(UNIVERSITIES, tmp_path / "index", backend, chunking=CHUNKS, pages=PAGING)
    opened = open_index(tmp_path / "index")
    served = ServedIndex("pages", opened.index, opened.documents, pages=opened.pages)
    async with serving(SearchServer([served])) as url:
        for tools in (open_pages(tmp_path / "index").tools, ServedPageTools(connect(url))):  # an encoder may be slow
            hits = await tools.search("where is Brostul University", 5)
            places = [(hit.page, hit.part) for hit in hits]
            assert places[0][0] == "own" and len(places) == len(set(places)) == 5
            assert max(Counter(hit.page for hit in hits).values()) <= 2
            assert (await tools.search("new brostul university students", 3))[0].page == "new"
            hit = (await tools.search("the capital of Fobi", 3))[0]
            assert (hit.page, hit.known_as) == ("fobi", "Fobi")
            assert (await tools.search("a university that knows of the birth", 3))[0].page != "birth"


async def test_an_index_says_that_it_is_of_pages(tmp_path: Path) -> None:
    """And keeps them whole; one without has the manifest and the hash that it always had."""
    index = await index_of(tmp_path)
    plain = tmp_path / "plain"
    await build_index(DOCUMENTS, plain, "bm25", chunking=CHUNKS)
    manifest = read_manifest(index)
    assert manifest.pages == PAGING and manifest.corpus.documents == 4 < manifest.documents
    assert (index / PAGES).is_file() and not (plain / PAGES).exists()
    assert read_manifest(plain).pages is None and "pages" not in describe_content(read_manifest(plain))
    assert '"pages"' not in (plain / "index.json").read_text() and corpus_hash(plain) != corpus_hash(index)


async def test_documents_that_are_added_are_pages_too(tmp_path: Path) -> None:
    """The index is then what it would be of all of them."""
    index, whole = tmp_path / "some", tmp_path / "all"
    for folder, documents in ((index, DOCUMENTS[:2]), (whole, DOCUMENTS)):
        await build_index(documents, folder, "dense", chunking=CHUNKS, pages=PAGING)
    await add_to_index(DOCUMENTS[2:], index)
    for name in ("texts.arrow", PAGES):
        assert (index / name).read_bytes() == (whole / name).read_bytes()
    assert (await open_pages(index).tools.open("l2", 1)).text == "A village in the hills."
    with pytest.raises(InvalidInput, match="has a document 'zoe'; give another id"):
        await add_to_index(DOCUMENTS[1:2], index)


async def test_an_index_of_passages_has_pages_by_title(tmp_path: Path) -> None:
    """A hit leads to the part of the joined page where it begins."""
    await build_index(DOCUMENTS[2:], tmp_path / "plain", "bm25")
    tools = open_pages(tmp_path / "plain").tools
    (hit,) = await tools.search("hills", 1)
    assert (hit.page, hit.part, (await tools.open(hit.page, 1)).text) == (
        "l2", 1, "A town on a lake.\n\nA village in the hills."
    )  # fmt: skip


def test_a_summary_stands_at_the_first_page_that_it_is_made_of() -> None:
    """One of unknown documents at none: it is a page by its id, as those of the web are."""
    made = MadePassage(id="s1", title="", text="A sum.", score=0.5, sources=(("gone", ""), ("zoe", "Zoë Dvořák")))
    assert hits_of([made], WholePages(DOCUMENTS, PAGING)) == [
        PageHit(page="zoe", title="", part=1, text="A sum.", score=0.5)
    ]
    web = Passage(id="https://a.example/", title="A", text="B", score=1.0)
    assert [hit.page for hits in (hits_of([web], None), hits_of([web], JoinedPages([]))) for hit in hits] == [
        web.id
    ] * 2


def test_live_pages_are_opened_by_a_server() -> None:
    """Which is said, and so is what an empty part would be."""
    with pytest.raises(InvalidInput, match="serve-search --web"):
        open_pages(None, RetrieverConfig(kind="web"))
    with pytest.raises(InvalidInput, match="page_words"):
        Paging(words=0)
