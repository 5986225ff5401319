"""What tests of agents share: a library of a few documents, and models that reply by a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from trailforge.evaluation.agents import AgentTools
from trailforge.inference import Meter, Reply, Request
from trailforge.inference.asker import Asker
from trailforge.protocols.environment import Environment
from trailforge.retrieval import Retriever
from trailforge.retrieval.kg import KgTool
from trailforge.schemas import Passage, RetrievalError

QUESTION = "Where was the director of Avatar born?"
PASSAGES = (
    Passage(id="d1", title="Avatar", text="Avatar is a film by James Cameron.", score=0.9),
    Passage(id="d2", title="James Cameron", text="James Cameron was born in Kapuskasing.", score=0.5),
)


class Library:
    """Finds the same passages for every query; `broken` breaks at the n-th."""

    def __init__(self, *passages: Passage, broken: int | None = None) -> None:
        self.queries: list[str] = []
        self._passages, self._broken = passages or PASSAGES, broken

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        self.queries.append(query)
        if len(self.queries) == self._broken:
            raise RetrievalError("the index is damaged")
        return list(self._passages[:k])


class Replies:
    """A client that gives these replies in order; an exception is raised, `CUT + text` is a reply that was cut."""

    def __init__(self, *replies: str | Exception) -> None:
        self._replies, self.requests = list(replies), list[Request]()

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        self.requests.append(request)
        text = self._replies.pop(0)
        if isinstance(text, Exception):
            raise text
        reply = Reply(
            text=text.removeprefix(CUT),
            finish_reason="length" if text.startswith(CUT) else "stop",
            prompt_tokens=0,
            completion_tokens=0,
            key=f"k{len(self.requests)}",
        )
        if meter is not None:
            meter.add(reply, request.purpose)
        return reply

    @property
    def left(self) -> int:
        """How many replies nobody asked for."""
        return len(self._replies)


CUT = "\0cut"


def tools(
    client: Replies,
    library: Retriever | None = None,
    *,
    style: Literal["chat", "completion"] = "chat",
    seed: int = 7,
    sample: int = 3,
    top_k: int = 2,
    kg: KgTool | None = None,
) -> AgentTools:
    return AgentTools(
        environment=Environment(documents=library or Library(), top_k=top_k, kg=kg),
        asker=Asker(client=client, model="m", style=style, seed=seed, meter=Meter()),
        sample=sample,
    )


def prompts(requests: Sequence[Request]) -> list[str]:
    """Each request's prompt as one text."""
    return [r.prompt if isinstance(r.prompt, str) else "\n".join(t.content for t in r.prompt) for r in requests]
