"""`trailforge index build` with a back end of these tests, which kills itself (-9) at a rename.

python -m tests.retrieval.indexes.dying_build NUMBER WORKED ARGUMENT…

NUMBER counts renames from 1; 0 lives on. WORKED is a file: a line for every shard that is begun, `part first-document`.
The back end scores passages by a judge (`tests.support.model_server --judge 1`), or only encodes them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trailforge import cli
from trailforge.inference import Sampling
from trailforge.retrieval.backends import Backend, Workbench
from trailforge.schemas import Document, parse_json

WORKED = Path()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredConfig:
    """What is done with passages."""

    asks: bool = False
    per_shard: int = 4


class Scored:
    """What was made of them."""

    def __init__(self, vectors: np.ndarray, scores: list[float]) -> None:
        self.vectors, self.scores = vectors, scores

    def save(self, folder: Path) -> None:
        """See `Index`."""
        np.save(folder / "vectors.npy", self.vectors)
        np.save(folder / "scores.npy", np.array(self.scores))


def note(part: str, documents: Sequence[Document]) -> None:
    """Say that a shard is begun."""
    with WORKED.open("a") as file:
        file.write(f"{part} {documents[0].id}\n")


async def build(documents: Sequence[Document], config: ScoredConfig, tools: Workbench) -> Any:
    """See `Backend`."""

    async def ask(some: Sequence[Document]) -> list[float]:
        note("ask", some)
        prompts = [f"Judge it.\nAnswer: {document.text}\n\n" for document in some]
        replies = [
            await tools.model.text(prompt, purpose="judge", sampling=Sampling(max_tokens=50)) for prompt in prompts
        ]
        return [parse_json(reply.text)["score"] for reply in replies]

    async def encode(some: Sequence[Document]) -> np.ndarray:
        note("encode", some)
        return await tools.vectors.documents([document.text for document in some])

    if config.asks:
        scores = await tools.map("scores", ask, documents, config.per_shard)
        return Scored(np.zeros(0), [score for shard in scores for score in shard])
    return Scored(np.concatenate(await tools.map("vectors", encode, documents, config.per_shard)), [])


def declared(name: str) -> Backend:
    """Stands for `load_backend`: `asking` and `encoding` passages."""
    return Backend(
        name=name,
        config=ScoredConfig,
        build=build,
        open=lambda *_: None,  # pyright: ignore[reportArgumentType]
        needs_encoder=name == "encoding",
        asks_model=lambda config: ("build",) if config.asks else (),
    )


def main(number: int, arguments: list[str]) -> None:
    """Run the command up to there."""
    from trailforge.pipelines import index_config
    from trailforge.retrieval import backends, retrievers
    from trailforge.retrieval.indexes import manifest, store

    replace, renames = os.replace, 0

    def dying(source: Any, target: Any) -> None:
        nonlocal renames
        renames += 1
        if renames == number:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)

    os.replace = os.rename = dying
    for module in (backends, retrievers, store, manifest, index_config):
        vars(module)["load_backend"] = declared
    cli.main(arguments)


if __name__ == "__main__":
    WORKED = Path(sys.argv[2])
    main(int(sys.argv[1]), sys.argv[3:])
