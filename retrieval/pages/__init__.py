"""Pages for agents to read: whole documents, divided into parts of whole sentences, searched by passage, opened, and
read for words.

tools = await open_pages(corpus, RetrieverConfig(kind="bm25"))        over documents, a file, an index or a server
hits = await tools.search("Who built the mill?", 5)
part = await tools.open(hits[0].page, hits[0].part)
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.retrieval.pages.cutting import PASSAGE_TOKENS as PASSAGE_TOKENS
    from trailforge.retrieval.pages.cutting import Paging as Paging
    from trailforge.retrieval.pages.cutting import count_all as count_all
    from trailforge.retrieval.pages.cutting import cut_pages as cut_pages
    from trailforge.retrieval.pages.cutting import passages_of as passages_of
    from trailforge.retrieval.pages.cutting import place_of as place_of
    from trailforge.retrieval.pages.text import PART_WORDS as PART_WORDS
    from trailforge.retrieval.pages.text import OpenedPage as OpenedPage
    from trailforge.retrieval.pages.tools import open_pages as open_pages
    from trailforge.retrieval.pages.tools import pages_of as pages_of
else:
    __getattr__, __dir__ = lazy_names(__name__)
