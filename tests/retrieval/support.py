"""A small corpus, shared by the tests of all retrievers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from trailforge.schemas import Document, Passage

Result = TypeVar("Result")

DOCUMENTS = (
    Document(id="0", title="Metropolis", text="Metropolis is a silent film of 1927. Fritz Lang directed it."),
    Document(id="1", title="Fritz Lang", text="Fritz Lang was born in Vienna. He died in Beverly Hills."),
    Document(id="2", title="Vienna", text="Vienna is the capital of Austria."),
    Document(id="3", title="Vienna", text="Vienna is the capital of Austria."),
    Document(id="4", title="", text="???"),
)


def run(awaited: Awaitable[Result]) -> Result:
    """Run to its end."""

    async def wait() -> Result:
        return await awaited

    return asyncio.run(wait())


def ids(passages: list[Passage]) -> list[str]:
    """Ids of passages in their order."""
    return [passage.id for passage in passages]
