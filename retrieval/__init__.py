"""Retrieve passages with any back end or server, over a question's paragraphs or a corpus, and provide the tools of
search plans.

torch, faiss and bm25s are loaded when they are first needed, not by importing this package.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.retrieval.base import FailureCount as FailureCount
    from trailforge.retrieval.base import LazyRetriever as LazyRetriever
    from trailforge.retrieval.base import PatientRetriever as PatientRetriever
    from trailforge.retrieval.base import Retriever as Retriever
    from trailforge.retrieval.base import SearchPatience as SearchPatience
    from trailforge.retrieval.entities import CaseCounts as CaseCounts
    from trailforge.retrieval.entities import names_of as names_of
    from trailforge.retrieval.page_tools import PageHit as PageHit
    from trailforge.retrieval.page_tools import PagePart as PagePart
    from trailforge.retrieval.page_tools import PageTools as PageTools
    from trailforge.retrieval.page_tools import WordHits as WordHits
    from trailforge.retrieval.papers import looks_like_paper as looks_like_paper
    from trailforge.retrieval.plan_tools import Tools as Tools
    from trailforge.retrieval.plan_tools import local_tools as local_tools
    from trailforge.retrieval.plan_tools import open_tools as open_tools
    from trailforge.retrieval.plan_tools import web_tools as web_tools
    from trailforge.retrieval.retrievers import WEB as WEB
    from trailforge.retrieval.retrievers import RetrieverConfig as RetrieverConfig
    from trailforge.retrieval.retrievers import check_kind as check_kind
    from trailforge.retrieval.retrievers import open_encoder as open_encoder
    from trailforge.retrieval.retrievers import run_in_thread as run_in_thread
    from trailforge.retrieval.retrievers import without_usual as without_usual
    from trailforge.retrieval.scope import Retrieval as Retrieval
    from trailforge.retrieval.scope import RetrievalConfig as RetrievalConfig
    from trailforge.retrieval.scope import ask_server as ask_server
    from trailforge.retrieval.scope import check_retrieval as check_retrieval
    from trailforge.retrieval.scope import corpus_hash as corpus_hash
    from trailforge.retrieval.scope import index_packages as index_packages
    from trailforge.retrieval.scope import open_retrieval as open_retrieval
    from trailforge.retrieval.scope import open_web as open_web
    from trailforge.retrieval.scope import resolved as resolved
    from trailforge.retrieval.scope import with_hash as with_hash
    from trailforge.retrieval.sentences import SentenceReader as SentenceReader
    from trailforge.retrieval.sentences import first_sentences as first_sentences
    from trailforge.retrieval.sentences import split_sentences as split_sentences
    from trailforge.retrieval.words import COMMON_WORDS as COMMON_WORDS
    from trailforge.retrieval.words import ngrams_of as ngrams_of
    from trailforge.retrieval.words import strip_accents as strip_accents
    from trailforge.retrieval.words import words_of as words_of
else:
    __getattr__, __dir__ = lazy_names(__name__)
