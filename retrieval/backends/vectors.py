"""Unit vectors of passages, sentences, entities or facts: embedded in shards, searched exactly, memory-mapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trailforge.retrieval.backends.declaration import Workbench
from trailforge.schemas import RetrievalError

PER_SHARD = 1024
"""Texts encoded at once: fixed, so that the same texts always give the same bits."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of length 1, row by row."""

    matrix: np.ndarray
    """Shape (rows, dimension), float32."""

    def __len__(self) -> int:
        return len(self.matrix)

    def scores(self, vector: np.ndarray) -> np.ndarray:
        """Cosine of every row with a vector of shape (dimension,); shape (rows,), float32."""
        return self.matrix @ vector

    def nearest(self, vector: np.ndarray, k: int) -> list[tuple[float, int]]:
        """The best `k` by cosine: score, rounded to 6 decimals, and row; ties in the order of the rows."""
        scores = self.scores(vector)
        count = min(max(k, 0), len(scores))
        if not count:
            return []
        last = float(np.partition(scores, -count)[-count])
        near = np.flatnonzero(scores.astype(np.float64) >= last - 2e-6)
        return sorted(((round(float(scores[row]), 6), int(row)) for row in near), key=lambda hit: (-hit[0], hit[1]))[
            :count
        ]

    def with_more(self, more: Vectors) -> Vectors:
        """These rows and, below them, others."""
        return Vectors(np.concatenate([self.matrix, more.matrix]))

    def save(self, path: Path) -> None:
        """To a `.npy` file."""
        np.save(path, self.matrix)

    @classmethod
    def open(cls, path: Path) -> Vectors:
        """What `save` wrote, memory-mapped. Raises `RetrievalError` for what is not that."""
        try:
            matrix = np.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            raise RetrievalError(f"{path} is missing or damaged ({error}): build the index again") from error
        return cls(matrix)


async def embed(name: str, texts: Sequence[str], tools: Workbench) -> Vectors:
    """The vectors of texts, as passages, in shards under this name of the build."""
    shards = await tools.map(name, tools.vectors.documents, texts, PER_SHARD)
    return Vectors(np.concatenate(shards) if shards else np.zeros((0, tools.vectors.dimension), np.float32))
