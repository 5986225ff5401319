"""An encoder that knows words: texts that share them are near each other, in every run and process."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tests.support.scripted import ScriptedModel
from trailforge.inference import Meter
from trailforge.inference.asker import Asker
from trailforge.retrieval.backends import Workbench
from trailforge.retrieval.words import words_of


class WordEncoder:
    """Sums of a vector for each word, made of its letters, of length 1."""

    dimension = 24

    async def query(self, text: str) -> np.ndarray:
        return self._vector(text)

    async def documents(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([self._vector(text) for text in texts], np.float32).reshape(-1, self.dimension)

    def _vector(self, text: str) -> np.ndarray:
        total = np.full(self.dimension, 1e-3)
        for word in words_of(text):
            total += np.random.default_rng(zlib.crc32(word.encode())).normal(size=self.dimension)
        return (total / np.linalg.norm(total)).astype(np.float32)


def bench(model: ScriptedModel | None = None, encoder: Any = None) -> Workbench:
    """A workbench with such an encoder, and with a model where there is one."""
    asker = Asker(client=model, model="m", style="chat", seed=0, meter=Meter()) if model else None
    return Workbench(encoder=cast(Any, encoder or WordEncoder()), asker=asker)
