"""Retrieval of passages by any back end or server, over a question's paragraphs or a corpus, and the tools of a search
plan.

torch, faiss and bm25s are loaded when they are first needed, not by importing this package.
"""

from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.backends.dense import DenseIndex, DenseRetriever
from trailforge.retrieval.base import LazyRetriever, Retriever
from trailforge.retrieval.corpus import read_corpus
from trailforge.retrieval.encoder import Encoder
from trailforge.retrieval.indexes.store import build_index, open_index
from trailforge.retrieval.plan_tools import Tools, local_tools, open_tools
from trailforge.retrieval.retrievers import RetrieverConfig
from trailforge.retrieval.scope import Retrieval, RetrievalConfig, check_retrieval, open_retrieval
from trailforge.retrieval.sentences import SentenceReader, split_sentences
from trailforge.retrieval.service.client import connect

__all__ = [
    "Bm25Retriever",
    "DenseIndex",
    "DenseRetriever",
    "Encoder",
    "LazyRetriever",
    "Retrieval",
    "RetrievalConfig",
    "Retriever",
    "RetrieverConfig",
    "SentenceReader",
    "Tools",
    "build_index",
    "check_retrieval",
    "connect",
    "local_tools",
    "open_index",
    "open_retrieval",
    "open_tools",
    "read_corpus",
    "split_sentences",
]
