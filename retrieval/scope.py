"""How is searched, and where: each question's own paragraphs, or one corpus or the web for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.backends.dense import DenseIndex, DenseRetriever
from trailforge.retrieval.backends.vectors import embedded_text
from trailforge.retrieval.base import Retriever
from trailforge.retrieval.corpus import read_corpus
from trailforge.retrieval.dense import open_index, read_meta
from trailforge.retrieval.encoder import PACKAGED, Encoder, check_encoder
from trailforge.retrieval.sentences import SentenceReader
from trailforge.rewards.dynasearcher import TitledText, nearest_similarities
from trailforge.schemas import Document, InvalidInput, Passage, Question

RetrievalKind = Literal[
    "dense",
    "bm25",
]
"""As configurations and the command line have it."""
LEXICAL: Mapping[str, Callable[[Sequence[Document]], Retriever]] = {
    "bm25": Bm25Retriever,
}
"""Those that need no encoder: all but `dense`. A new one is a class in a file of its own, and two lines here."""
LONGEST_WEB_PASSAGE = 100
"""Words: eight searches of two passages then fit what R-Search's training preset gives a plan's results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalConfig:
    """How passages are found. What is asked for is looked for by `check_retrieval`."""

    kind: Literal[RetrievalKind, "web"] = "dense"
    """`web`: live pages, for all questions and whatever the scope."""
    encoder: str = PACKAGED
    """For `dense`: `minilm`, or any sentence-transformers name or path."""
    scope: Literal["question", "corpus"] = "question"
    corpus_index: str | None = None
    """For the scope `corpus`. `dense`: the folder that `trailforge index` made. Else a file as `trailforge index` reads
    it, indexed in memory when the run starts."""
    query_prefix: str = ""
    """What the encoder wants before a query, e.g. `query: ` for e5. Empty: what the index says, if one is searched."""
    passage_prefix: str = ""
    """What the encoder wants before a passage, e.g. `passage: ` for e5. Empty: as above."""
    web_url: str = ""
    """For `web`: a search that takes and gives what Tavily's does. Empty: Tavily itself."""
    web_interval_s: float = 1.0
    """For `web`: between the beginnings of two requests."""
    longest_web_passage: int = LONGEST_WEB_PASSAGE
    """For `web`: words, at the end of a sentence."""
    web_pages: int = 0
    """For `web`: of how many of the pages of a search the text is read, as MSearcher's tool does; 0: what the search
    says of them is all."""

    @property
    def searches_paragraphs(self) -> bool:
        """Whether each question's own paragraphs are what is searched."""
        return self.kind != "web" and self.scope == "question"


class Retrieval:
    """A worker's retrieval: its encoder (for `dense`), its corpus or the web (None for own paragraphs), its kind.

    Without an encoder the kind is how paragraphs are searched.
    """

    def __init__(self, encoder: Encoder | None, corpus: Retriever | None, kind: RetrievalKind = "bm25") -> None:
        self._encoder, self._corpus, self._kind = encoder, corpus, kind
        self._reader = SentenceReader(encoder)

    async def for_question(self, question: Question) -> Retriever:
        """The retriever of a question. Raises `InvalidInput` when it has no paragraphs to search."""
        if self._corpus is not None:
            return self._corpus
        if not question.paragraphs:
            raise InvalidInput(
                f"question {question.id} has no paragraphs; search a corpus instead (retrieval.scope: corpus)",
                field="paragraphs",
            )
        return await self._over(question.paragraphs)

    async def best_sentences(self, query: str, passages: Sequence[Passage], n: int) -> list[tuple[Passage, str]]:
        """The `n` sentences of the passages that are nearest to the query."""
        return await self._reader.best(query, passages, n)

    async def measure_nearest(
        self, supporting: Sequence[TitledText], retrieved: Sequence[TitledText], threshold: float
    ) -> tuple[float | None, ...]:
        """See `rewards.nearest_similarities`. Encodes where there is an encoder and a threshold below 1 wants it."""
        if self._encoder is None or threshold >= 1.0:
            return nearest_similarities(supporting, retrieved, None)
        return await self._encoder.in_thread(nearest_similarities, supporting, retrieved, self._encoder.similarity)

    async def _over(self, documents: Sequence[Document]) -> Retriever:
        if self._encoder is None:
            return LEXICAL[self._kind](documents)
        vectors = await self._encoder.documents([embedded_text(d) for d in documents])
        return DenseRetriever(DenseIndex.build(documents, vectors), self._encoder)


def check_retrieval(config: RetrievalConfig) -> None:
    """Whether what the configuration asks for is there, as far as can be said without loading any of it.

    Raises `RetrievalError` for a missing package, and for an index that is missing or of another encoder or prefix, and
    `InvalidInput` for a corpus that is not said, or is no file, and for the web's key that is not set.
    """
    if config.kind == "web":
        open_web(config)
        return
    corpus = _find_corpus(config)
    if config.kind == "dense":
        check_encoder(config.encoder)
        if corpus is not None:
            read_meta(corpus, config.encoder, config.passage_prefix)
    elif corpus is not None and not corpus.is_file():
        raise InvalidInput(
            f"no such file; {config.kind} searches a file of passages, as `trailforge index` reads it", file=corpus
        )


def open_retrieval(config: RetrievalConfig) -> Retrieval:
    """Load what the configuration asks for. An index brings its prefixes along, where the configuration has none.

    Raises `RetrievalError` for a missing package, a missing model, or an index that is missing, damaged or of another
    encoder, and `InvalidInput` for a corpus file that cannot be read, and for the web's key that is not set.
    """
    if config.kind == "web":
        return Retrieval(None, open_web(config))
    corpus = _find_corpus(config)
    if config.kind in LEXICAL:
        found = LEXICAL[config.kind](list(read_corpus(corpus))) if corpus else None
        return Retrieval(None, found, config.kind)
    queries, passages = config.query_prefix, config.passage_prefix
    if corpus is not None:
        meta = read_meta(corpus, config.encoder, passages)
        queries, passages = queries or meta.query_prefix, meta.passage_prefix
    encoder = Encoder(config.encoder, query_prefix=queries, passage_prefix=passages)
    found = DenseRetriever(open_index(corpus, encoder), encoder) if corpus else None
    return Retrieval(encoder, found)


def open_web(config: RetrievalConfig) -> Retriever:
    """Live pages, as this says. Raises `InvalidInput` for a key that is not set, and for what is no address."""
    from trailforge.retrieval.web.http import HttpConfig
    from trailforge.retrieval.web.tools import pages_tool

    if config.web_pages < 0:
        raise InvalidInput("has to be 0 or more", field="web_pages")
    return pages_tool(
        base_url=config.web_url,
        http=HttpConfig(interval_s=config.web_interval_s),
        longest=config.longest_web_passage,
        read_pages=config.web_pages,
    )


def _find_corpus(config: RetrievalConfig) -> Path | None:
    """The corpus, where one is to be searched. Raises `InvalidInput` when nobody said which."""
    if config.scope != "corpus":
        return None
    if not config.corpus_index:
        raise InvalidInput(
            "a corpus is to be searched, and none is given: give --documents (see `trailforge index`) or corpus_index "
            "in the preset, or search each question's own paragraphs: --scope question, in a preset scope: question",
            field="retrieval.scope",
        )
    return Path(config.corpus_index)
