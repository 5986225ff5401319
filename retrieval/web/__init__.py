"""Shared parts of live sources: polite HTTP, keys, feeds, web addresses, and the replies of each provider.

The search tools of `retrieval.web.tools` and the fetchers of documents in `pipelines.sources.fetchers` use them.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.retrieval.web.feeds import feed_rows as feed_rows
    from trailforge.retrieval.web.http import Connection as Connection
    from trailforge.retrieval.web.http import HttpConfig as HttpConfig
    from trailforge.retrieval.web.http import Provider as Provider
    from trailforge.retrieval.web.http import canonical_url as canonical_url
    from trailforge.retrieval.web.http import key_from as key_from
    from trailforge.retrieval.web.http import site_of as site_of
    from trailforge.retrieval.web.pages import PageReader as PageReader
    from trailforge.retrieval.web.providers import ARXIV_URL as ARXIV_URL
    from trailforge.retrieval.web.providers import GNEWS_CUT as GNEWS_CUT
    from trailforge.retrieval.web.providers import GNEWS_KEY as GNEWS_KEY
    from trailforge.retrieval.web.providers import GNEWS_URL as GNEWS_URL
    from trailforge.retrieval.web.providers import SERPER_KEY as SERPER_KEY
    from trailforge.retrieval.web.providers import SERPER_NEWS_URL as SERPER_NEWS_URL
    from trailforge.retrieval.web.providers import arxiv_http as arxiv_http
    from trailforge.retrieval.web.providers import arxiv_page as arxiv_page
    from trailforge.retrieval.web.providers import arxiv_words as arxiv_words
    from trailforge.retrieval.web.providers import serper_hits as serper_hits
    from trailforge.retrieval.web.search_api import WebHit as WebHit
    from trailforge.retrieval.web.search_api import open_api as open_api
    from trailforge.retrieval.web.xml_entries import is_markup as is_markup
else:
    __getattr__, __dir__ = lazy_names(__name__)
