"""Shared parts of live sources: polite HTTP, keys, feeds, web addresses, and the replies of each provider.

The search tools of `retrieval.web.tools` and the fetchers of documents in `pipelines.sources.fetchers` use them.
"""
