"""Where is searched: each question's own paragraphs, or one corpus for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from retrieval.base import Retriever
from retrieval.bm25 import Bm25Retriever
from retrieval.dense import DenseIndex, DenseRetriever, embedded_text
from retrieval.encoder import PACKAGED, Encoder
from retrieval.sentences import SentenceReader
from schemas import InvalidInput, Passage, Question, RetrievalError


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalConfig:
    """How passages are found."""

    kind: Literal["dense", "bm25"] = "dense"
    encoder: str = PACKAGED
    """For `dense`: `minilm`, or any sentence-transformers name or path."""
    scope: Literal["question", "corpus"] = "question"
    corpus_index: str | None = None
    """For `corpus`: folder that `trailforge index` made."""
    query_prefix: str = ""
    """What the encoder wants before a query, e.g. `query: ` for e5."""
    passage_prefix: str = ""


class Retrieval:
    """A worker's retrieval: its encoder and, for the corpus scope, its index."""

    def __init__(self, config: RetrievalConfig) -> None:
        self._config = config
        self._encoder: Encoder | None = None
        if config.kind == "dense":
            self._encoder = Encoder(
                config.encoder, query_prefix=config.query_prefix, passage_prefix=config.passage_prefix
            )
        self._corpus = self._open_corpus()
        self._reader = SentenceReader(self._encoder)

    async def for_question(self, question: Question) -> Retriever:
        """The retriever of a question. Raises `InvalidInput` when it has no paragraphs to search."""
        if self._corpus is not None:
            return self._corpus
        if not question.paragraphs:
            raise InvalidInput(
                f"question {question.id} has no paragraphs; search a corpus instead (retrieval.scope: corpus)"
            )
        if self._encoder is None:
            return Bm25Retriever(question.paragraphs)
        vectors = await self._encoder.documents([embedded_text(d) for d in question.paragraphs])
        return DenseRetriever(DenseIndex.build(question.paragraphs, vectors), self._encoder)

    async def best_sentences(self, query: str, passages: Sequence[Passage], n: int) -> list[tuple[Passage, str]]:
        """The `n` sentences of the passages that are nearest to the query."""
        return await self._reader.best(query, passages, n)

    def _open_corpus(self) -> Retriever | None:
        config = self._config
        if config.scope == "question":
            return None
        if self._encoder is None or config.corpus_index is None:
            raise RetrievalError("the corpus scope needs retrieval.kind dense and retrieval.corpus_index")
        return DenseRetriever(DenseIndex.open(Path(config.corpus_index), config.encoder), self._encoder)


def open_retrieval(config: RetrievalConfig) -> Retrieval:
    """Load what the configuration asks for. Raises `RetrievalError` when it is not there."""
    return Retrieval(config)
