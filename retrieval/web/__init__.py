"""What live sources share: polite HTTP, keys, feeds, web addresses, and what each provider replies.

Used by the search tools of `retrieval.web.tools` and by the fetchers of documents in `pipelines.sources.fetchers`.
"""
