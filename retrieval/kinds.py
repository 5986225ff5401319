"""Kinds of retrieval by name. A new one that needs no encoder is a class in a file of its own, and two lines here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from trailforge.retrieval.base import Retriever
from trailforge.retrieval.bm25 import Bm25Retriever
from trailforge.schemas import Document

RetrievalKind = Literal[
    "dense",
    "bm25",
]
"""As configurations and the command line have it."""
LEXICAL: Mapping[str, Callable[[Sequence[Document]], Retriever]] = {
    "bm25": Bm25Retriever,
}
"""Those that need no encoder: all but `dense`."""
