"""Provide the shortest ways to a search tree and to the rows of a run, for programs that import trailforge."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from trailforge.generators.mcts_trajectories.generate import Context, GeneratorConfig, generate
from trailforge.inference import Meter, Prices, Reply, Request
from trailforge.inference import count_reply
from trailforge.mcts import SearchConfig
from trailforge.retrieval import Retrieval, Retriever
from trailforge.retrieval import RetrieverConfig
from trailforge.schemas import InvalidInput, Question, SearchTree, Trajectory, estimate_tokens, iter_parquet, parse_json

ChatModel = Callable[[list[dict[str, str]]], "str | Awaitable[str]"]
"""A model as a function, plain or async: chat messages (`role`, `content`) in, the reply's text out."""
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The search tree of one question, and the trajectories made from it."""

    tree: SearchTree
    trajectories: tuple[Trajectory, ...]
    """Correct trajectories first, then those that make a mistake and mend it. No filter has checked them."""


async def search(
    question: Question,
    model: ChatModel,
    *,
    retriever: Retriever | None = None,
    config: SearchConfig | None = None,
    model_name: str = "model",
    seed: int = 0,
) -> SearchResult:
    """Search one question over decompositions of it, as the data set `mcts_trajectories` does.

    `model` is asked the same thing only once. Without a `retriever` the question's own paragraphs are searched by words
    (BM25). Raises `MalformedReply` when the model twice gives no JSON where JSON is asked for, and `InvalidInput` for a
    question without paragraphs and without a retriever.
    """
    context = Context(
        run_id="",
        model=model_name,
        seed=seed,
        prices=Prices(),
        config=GeneratorConfig(search=config or SearchConfig()),
        client=_CallableClient(model),
        retrieval=Retrieval(None, retriever, RetrieverConfig(kind="bm25"), type(retriever).__name__ if retriever else ""),
    )
    found = await generate(question, context)
    return SearchResult(tree=found.tree, trajectories=found.candidates)


def read_rows(source: str | Path, record: type[Row]) -> Iterator[Row]:
    """Stream the rows of a Parquet file, or of a table of a run (`RUN/sft`), as records. Of a finished run the files
    are those that its manifest names. Raises `InvalidInput` for a path that does not exist, cannot be read, or has
    another schema.
    """
    for path in _files(Path(source)):
        for batch in iter_parquet(path, record):
            yield from batch


@dataclass(slots=True)
class _CallableClient:
    """A function as a model client: requests of one key are one call."""

    model: ChatModel
    _replies: dict[str, asyncio.Task[Reply]] = field(default_factory=dict)

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        if request.key not in self._replies:
            self._replies[request.key] = asyncio.create_task(self._ask(request))
        reply = await self._replies[request.key]
        count_reply(reply, meter, model=request.model)
        return reply

    async def _ask(self, request: Request) -> Reply:
        prompt = request.prompt
        turns = [("user", prompt)] if isinstance(prompt, str) else [(turn.role, turn.content) for turn in prompt]
        answer = self.model([{"role": role, "content": content} for role, content in turns])
        text = await answer if inspect.isawaitable(answer) else answer
        return Reply(
            text=str(text),
            finish_reason="stop",
            prompt_tokens=sum(estimate_tokens(content) for _, content in turns),
            completion_tokens=estimate_tokens(str(text)),
            key=request.key,
        )


def _files(source: Path) -> Sequence[Path]:
    if source.is_file():
        return [source]
    if not source.is_dir():
        raise InvalidInput("no such file or folder", file=source)
    manifest = source.parent / "manifest.json"
    if not manifest.is_file():
        return sorted(source.glob("*.parquet"))
    names = [entry["path"] for entry in parse_json(manifest.read_text(encoding="utf-8"))["files"]]
    return [source.parent / name for name in names if name.startswith(f"{source.name}/")]
