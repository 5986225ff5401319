"""A strong model's replies of a run, kept by what was asked: prompts are rendered anew, and calls must be the same."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trailforge.inference import Meter, Reply, Request
from trailforge.inference.usage import count_reply

Asked = Callable[[Request], str]
"""What a prompt asks but for its fixed text."""
Call = tuple[str, str, int]
"""Purpose, what was asked, number of the draw."""


def read_recording(path: Path) -> dict[str, Any]:
    """A gzipped JSON object."""
    return json.loads(gzip.decompress(path.read_bytes()))


@dataclass
class StrongModel:
    """Gives the recorded replies, each as often as it is asked for."""

    rows: Sequence[Sequence[Any]]
    """[purpose, what was asked, number of the draw, reply, and the thoughts beside it if there were any]"""
    asked: Asked
    is_steady: bool = False
    """For a search that asks in another order than the recorded one did. A draw that was not recorded says what the
    first of its prompt says, as most draws of a strong model do; a prompt without any, nothing; replies may be left
    over."""
    used: set[Call] = field(default_factory=set)
    replies: dict[Call, tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.replies = {(row[0], row[1], row[2]): (row[3], "".join(row[4:])) for row in self.rows}
        assert len(self.replies) == len(self.rows), "two replies to one call"

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """As `ModelClient.complete`."""
        call = (request.purpose, self.asked(request), request.sample)
        found = (*call[:2], 0) if self.is_steady and call not in self.replies else call
        assert self.is_steady or found in self.replies, f"a call that was not made: {call}"
        self.used.add(call)
        text, reasoning = self.replies.get(found, ("", ""))
        reply = Reply(
            text=text,
            reasoning=reasoning,
            finish_reason="stop",
            prompt_tokens=0,
            completion_tokens=0,
            key=request.key,
        )
        count_reply(reply, meter, request.purpose)
        return reply

    def check_all_used(self) -> Counter[str]:
        """Calls by purpose. Fails when one of the recording is not made any more, but of a steady model."""
        assert self.is_steady or self.used == set(self.replies), f"not made any more: {set(self.replies) - self.used}"
        return Counter(purpose for purpose, _, _ in self.used)
