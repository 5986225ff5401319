"""Indexes in folders, and a server of one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trailforge.retrieval import Encoder, read_corpus
from trailforge.retrieval.backends.store import build_index
from trailforge.schemas import Document


def save_index(
    corpus: Path | Sequence[Document], folder: Path, backend: str = "dense", config: Any = None, **of_encoder: str
) -> Path:
    """An index of a file of passages, or of documents. `of_encoder`: prefixes for the packaged encoder."""
    documents = read_corpus(corpus) if isinstance(corpus, Path) else corpus
    encoder = Encoder(**of_encoder) if of_encoder else None
    asyncio.run(build_index(documents, folder, backend, config, encoder=encoder))
    return folder
