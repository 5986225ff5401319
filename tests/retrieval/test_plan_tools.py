"""The tools of a search plan over documents: who searches what, passages of long documents, and what is not found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trailforge.retrieval import RetrieverConfig, Tools, local_tools, open_tools
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.retrieval.plan_tools import BestPassages
from trailforge.schemas import InvalidInput, Passage, SourceDocument, SourceKind, from_dict


def document(number: int, kind: SourceKind, title: str, text: str) -> SourceDocument:
    return SourceDocument(id=f"s:{number}", source="s", kind=kind, title=title, text=text)


MILL = document(1, "news", "A prize for tides", "The prize went to the tide mill. Mara Lind designed its turbine.")
BLADES = document(2, "academic", "Blades for slow water", "Mara Lind studied the blades of a turbine in Bergen.")
HANDBOOK = document(3, "general", "Handbook of turbines", "A turbine turns what flows into work.")
LONG = document(4, "news", "Annals", " ".join(f"Year {n} saw nothing new at all." for n in range(60)))
DOCUMENTS = (MILL, BLADES, HANDBOOK, LONG)
WORDS = RetrieverConfig(kind="bm25")


async def ids(tools: Tools, tool: str, query: str, k: int = 9) -> list[str]:
    return [passage.id for passage in await tools[tool].retrieve(query, k)]


async def test_each_tool_searches_its_kind_and_general_searches_all() -> None:
    tools = local_tools(DOCUMENTS, WORDS)
    assert await ids(tools, "News", "turbine") == ["s:1"]
    assert await ids(tools, "Academic", "turbine") == ["s:2"]
    assert set(await ids(tools, "General", "turbine")) == {"s:1", "s:2", "s:3"}
    assert len(await ids(tools, "General", "turbine", 2)) == 2


async def test_what_shares_no_word_is_not_found() -> None:
    assert await ids(local_tools(DOCUMENTS, WORDS), "General", "zebra crossing") == []


async def test_a_tool_without_documents_finds_nothing() -> None:
    tools = local_tools([MILL], WORDS)
    assert await ids(tools, "Academic", "turbine") == []
    assert await ids(local_tools([], WORDS), "General", "turbine") == []


async def test_a_long_document_is_found_once_by_its_best_passage() -> None:
    tools = local_tools(DOCUMENTS, replace(WORDS, longest_passage=21))
    (found,) = await tools["News"].retrieve("year 41", 9)
    assert (found.id, found.title) == ("s:4", "Annals")
    assert "Year 41 saw" in found.text and len(found.text.split()) <= 21
    assert await ids(tools, "News", "nothing new about tides") == ["s:1", "s:4"]


async def test_a_passage_stands_behind_the_date_of_its_document_where_that_has_one() -> None:
    dated = replace(LONG, published="2019-06-23T08:00:00Z")
    tools = local_tools([dated, MILL], replace(WORDS, longest_passage=21))
    (found,) = await tools["News"].retrieve("year 41", 1)
    assert found.text.startswith("2019-06-23: Year ") and "Year 41 saw" in found.text
    assert (await tools["News"].retrieve("turbine", 1))[0].text == MILL.text
    assert await ids(tools, "General", "2019") == []  # what is searched is the text alone


async def test_dense_tools_agree_on_who_searches_what(encoder: Encoder) -> None:
    tools = local_tools(DOCUMENTS[:3], RetrieverConfig(kind="dense"), encoder)
    assert (await ids(tools, "Academic", "research on rotor design"))[:1] == ["s:2"]
    assert await ids(tools, "News", "award for sea power") == ["s:1"]
    assert (await ids(tools, "General", "reference book"))[:1] == ["s:3"]
    assert (await tools["News"].retrieve("mill", 1))[0].text == MILL.text


async def test_opened_as_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await ids(open_tools(WORDS, DOCUMENTS), "News", "turbine") == ["s:1"]
    for kind, problem in (("", "nobody says how"), ("http://a:1", "does not tell news from papers")):
        with pytest.raises(InvalidInput, match=rf"{problem}.*; plans search by dense, bm25, .*web: say which"):
            open_tools(RetrieverConfig(kind=kind), DOCUMENTS)
    for name, value in {"web_provider": "tavily", "web_url": "http://a:1", "web_pages": 2}.items():
        said = from_dict(RetrieverConfig, {"kind": "web", name: value})
        with pytest.raises(InvalidInput, match=r"plans search GNews, Google and arXiv, .*: leave it out") as caught:
            open_tools(said, ())
        assert caught.value.field == name
    for name in ("SERPER_API_KEY", "GNEWS_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidInput, match=r"^Serper wants a key: set the environment variable SERPER_API_KEY$"):
        open_tools(RetrieverConfig(kind="web"), DOCUMENTS)
    monkeypatch.setenv("SERPER_API_KEY", "k")
    with pytest.raises(InvalidInput, match=r"^GNews wants a key: set the .* GNEWS_API_KEY, or .*\(web_news: serper\)$"):
        open_tools(RetrieverConfig(kind="web"), DOCUMENTS)
    assert set(open_tools(RetrieverConfig(kind="web", web_news="serper"), ())) == {"News", "Academic", "General"}
    monkeypatch.setenv("GNEWS_API_KEY", "k")
    assert set(open_tools(RetrieverConfig(kind="web"), ())) == {"News", "Academic", "General"}


class Crowd:
    """A hundred passages of one document before one of another."""

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        names = [*(f"big {n}" for n in range(100)), "small 0", "none 0"]
        scores = [*(2.0 for _ in range(100)), 1.0, 0.0]
        pairs = list(zip(names, scores, strict=True))[:k]
        return [Passage(id=name, title="", text=name, score=score) for name, score in pairs]


async def test_passages_of_one_document_do_not_hide_the_next() -> None:
    big, small, none = (document(n, "news", "", "") for n in range(3))
    homes = {f"big {n}": big for n in range(100)} | {"small 0": small, "none 0": none}
    found = await BestPassages(Crowd(), homes).retrieve("x", 2)
    assert [(passage.id, passage.text) for passage in found] == [("s:0", "big 0"), ("s:1", "small 0")]
    assert len(await BestPassages(Crowd(), homes).retrieve("x", 3)) == 2
    assert await BestPassages(Crowd(), homes).retrieve("x", 0) == []
