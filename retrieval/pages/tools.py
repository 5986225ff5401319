"""The page tools of an agent, in this process or over a server, with the same results for the same corpus."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trailforge.inference import Asker
from trailforge.retrieval.base import Retriever
from trailforge.retrieval.indexes.corpus import Chunking, read_corpus
from trailforge.retrieval.indexes.store import OpenIndex
from trailforge.retrieval.page_tools import PageHit, PagePart, PageTools, WordHits
from trailforge.retrieval.pages.corpus import JoinedPages, Pages, WholePages, search_pages
from trailforge.retrieval.pages.cutting import PASSAGE_TOKENS, Paging, count_all, cut_pages
from trailforge.retrieval.pages.text import FoundWords
from trailforge.retrieval.retrievers import WEB, RetrieverConfig
from trailforge.retrieval.scope import Retrieval, open_retrieval
from trailforge.retrieval.service.client import SearchClient
from trailforge.schemas import Document, InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCorpus:
    """The pages that agents read, with the retriever that searches them."""

    tools: PageTools
    retrieval: Retrieval
    """The retrieval that searches them, which also has the name and configuration that rows record."""


@dataclass(frozen=True, slots=True)
class CorpusPageTools:
    """The `PageTools` of a corpus in this process."""

    retriever: Retriever
    pages: Pages

    async def search(self, query: str, top_k: int) -> tuple[PageHit, ...]:
        """Return the best passages with their pages, as `PageTools.search` does."""
        return tuple(await search_pages(self.retriever.retrieve, self.pages, query, top_k))

    async def open(self, page: str, part: int) -> PagePart:
        """Return a part of a page, as `PageTools.open` does."""
        return await asyncio.to_thread(lambda: self.pages.find(page).part(part or None))

    async def find(self, page: str, text: str) -> WordHits:
        """Return where words occur in a page, as `PageTools.find` does."""
        return hits_of_words(await asyncio.to_thread(lambda: self.pages.find(page).find(text)))


@dataclass(frozen=True, slots=True)
class ServedPageTools:
    """The `PageTools` of a corpus behind a search server."""

    client: SearchClient

    async def search(self, query: str, top_k: int) -> tuple[PageHit, ...]:
        """Return the best passages with their pages, as `PageTools.search` does. Like the other methods, raises what
        `SearchClient.retrieve` raises.
        """
        return await self.client.search_pages(query, top_k)

    async def open(self, page: str, part: int) -> PagePart:
        """Return a part of a page, as `PageTools.open` does."""
        return await self.client.open_page(page, part or None)

    async def find(self, page: str, text: str) -> WordHits:
        """Return where words occur in a page, as `PageTools.find` does."""
        return hits_of_words(await self.client.find_in_page(page, text))


def hits_of_words(found: FoundWords) -> WordHits:
    """Return the places of words in the form in which an agent is shown them."""
    return WordHits(
        hits=tuple(PageHit(page=found.id, title=found.title, part=each.part, text=each.text) for each in found.matches),
        left=found.left,
        left_parts=found.left_parts,
        missing=found.missing,
    )


def open_pages(
    corpus: Path | Sequence[Document] | None,
    config: RetrieverConfig | None = None,
    *,
    paging: Paging | None = None,
    asker: Asker | None = None,
) -> PageCorpus:
    """Open pages with the tools to search, open and read them.

    `corpus` is an index; or documents or a file of them, which `paging` divides into pages (an index has its own); None
    means what the configuration names, such as a server. An index that was made without `--pages` has as pages all
    passages with one title. Raises what `open_retrieval` raises, and `InvalidInput` for the web, whose pages a server
    opens.
    """
    config = config or RetrieverConfig()
    if config.kind == WEB:
        mend = "start `trailforge serve-search --web`, and give its URL"
        raise InvalidInput(f"pages of the web are opened by a server: {mend}", field="retrieval.kind")
    corpus = config.find_corpus() if corpus is None and not config.server else corpus
    if isinstance(corpus, Path) and corpus.is_file():
        corpus = list(read_corpus(corpus))
    if corpus is None or isinstance(corpus, Path):
        opened = open_retrieval(config, corpus, asker)
        return PageCorpus(tools=_tools_of(opened), retrieval=opened)
    paging = paging or Paging()
    passages = list(cut_pages(corpus, paging, Chunking(tokens=PASSAGE_TOKENS), count_all))
    opened = open_retrieval(config, passages, asker)
    assert opened.corpus is not None
    return PageCorpus(tools=CorpusPageTools(opened.corpus, WholePages(corpus, paging)), retrieval=opened)


def pages_of(found: Retriever, documents: Sequence[Document] = ()) -> PageTools | None:
    """Return the page tools of what is searched: an index, a server, or these documents; None where it has no pages."""
    match found:
        case SearchClient():
            return ServedPageTools(found)
        case OpenIndex():
            return CorpusPageTools(found, found.pages)
        case _:
            return CorpusPageTools(found, JoinedPages(documents)) if documents else None


def _tools_of(opened: Retrieval) -> PageTools:
    tools = None if opened.corpus is None else pages_of(opened.corpus)
    if tools is None:
        raise InvalidInput("which pages are read? give an index, a file of documents or a server's URL")
    return tools
