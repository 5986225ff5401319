"""Pages to read in: whole documents in parts of whole sentences, searched by passage, opened, and read for words.

tools = await open_pages(corpus, RetrieverConfig(kind="bm25"))        over documents, a file, an index or a server
hits = await tools.search("Who built the mill?", 5)
part = await tools.open(hits[0].page, hits[0].part)
"""
