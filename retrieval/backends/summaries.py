"""A few words for many passages: their first sentences, or what a model writes. A lost reply never ends a build."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from trailforge.inference import Sampling
from trailforge.inference.asker import Asker, fill
from trailforge.inference.prompts import Prompts
from trailforge.retrieval.sentences import split_sentences
from trailforge.schemas import ITEM_ERRORS
from trailforge.schemas.text import estimate_tokens

PROMPTS = Prompts("trailforge.retrieval.backends")
"""What models are asked."""
ASKED_AT_ONCE = 16
"""Items whose replies a build waits for together, and a shard of it."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def lead_sentences(texts: Iterable[str], tokens: int) -> str:
    """The first sentence of every text, then every second one, and so on, each once, as long as there is room.

    `tokens`: as `estimate_tokens` counts. The first sentence of all is there even if it is longer.
    """
    split = [split_sentences(text) for text in texts]
    chosen: dict[str, None] = {}
    room = tokens
    for turn in range(max(map(len, split), default=0)):
        for sentences in split:
            if turn < len(sentences) and sentences[turn] not in chosen:
                room -= estimate_tokens(sentences[turn])
                if room < 0 and chosen:
                    return " ".join(chosen)
                chosen[sentences[turn]] = None
    return " ".join(chosen)


def within(texts: Sequence[str], tokens: int) -> int:
    """How many of the first texts fit into so many tokens together; at least one, if there is any."""
    room = tokens
    for count, text in enumerate(texts):
        room -= estimate_tokens(text)
        if room < 0:
            return max(count, 1)
    return len(texts)


async def write_summary(asker: Asker, texts: Sequence[str], words: int, sampling: Sampling) -> str:
    """What a model makes of texts, in about so many words. Raises `MalformedReply` where it says nothing."""
    numbered = "\n\n".join(f"[{number}] {' '.join(text.split())}" for number, text in enumerate(texts, start=1))
    prompt = fill(PROMPTS.text("raptor_summary"), words=str(words), texts=numbered)
    return await asker.matching(prompt, lambda reply: reply.strip() or None, purpose="summary", sampling=sampling)


async def ask_each(work: Callable[[Item], Awaitable[Result]], items: Sequence[Item]) -> list[Result | None]:
    """What `work` makes of every item, side by side; None where a model's reply could not be used."""

    async def one(item: Item) -> Result | None:
        try:
            return await work(item)
        except ITEM_ERRORS:
            return None

    return list(await asyncio.gather(*map(one, items)))
