"""Live sources of documents behind one protocol: arXiv's export API, GNews, and Google News by way of Serper.

Keys come from the environment when a fetch begins, and stand in no error. What is fetched differs from day to day:
write it to a file first, and make runs from that.
"""

from trailforge.pipelines.sources.fetchers.arxiv import ArxivFetcher
from trailforge.pipelines.sources.fetchers.base import DocumentFetcher
from trailforge.pipelines.sources.fetchers.gnews import GNewsFetcher
from trailforge.pipelines.sources.fetchers.news import NewsFetcher
from trailforge.pipelines.sources.fetchers.serper import SerperFetcher
from trailforge.retrieval.web.http import HttpConfig

__all__ = ["ArxivFetcher", "DocumentFetcher", "GNewsFetcher", "HttpConfig", "NewsFetcher", "SerperFetcher"]
