"""Finding passages: dense and lexical retrievers over a question's paragraphs or a corpus."""

from retrieval.base import Retriever
from retrieval.bm25 import Bm25Retriever
from retrieval.corpus import build_index
from retrieval.scope import Retrieval, RetrievalConfig, open_retrieval
from retrieval.sentences import SentenceReader, split_sentences

__all__ = [
    "Bm25Retriever",
    "Retrieval",
    "RetrievalConfig",
    "Retriever",
    "SentenceReader",
    "build_index",
    "open_retrieval",
    "split_sentences",
]
