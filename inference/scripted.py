"""The one fake model, for tests: answers by a function, and otherwise behaves like `ModelClient`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from inference.request import Reply, Request
from inference.usage import Counters, Meter

Script = Callable[[Request], str]
"""Request -> reply. May raise, as a server would fail."""


class ScriptedModel:
    """Replies from a script. `requests` keeps what was asked, in order."""

    def __init__(self, script: Script, *, latency_s: float = 0.0) -> None:
        self._script, self._latency_s = script, latency_s
        self._replies: dict[str, Reply] = {}
        self.requests: list[Request] = []
        self.counters = Counters()

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """As `ModelClient.complete`; the same request is answered once and remembered."""
        if request.key in self._replies:
            self.counters.ledger_hits += 1
        else:
            self.requests.append(request)
            self.counters.paid_calls += 1
            await asyncio.sleep(self._latency_s)
            self._replies[request.key] = self._reply(request)
        reply = self._replies[request.key]
        if meter is not None:
            meter.add(reply)
        return reply

    async def check(self) -> list[str]:
        """As `ModelClient.check`."""
        return ["scripted"]

    async def aclose(self) -> None:
        """As `ModelClient.aclose`."""

    def _reply(self, request: Request) -> Reply:
        text = self._script(request)
        return Reply(
            text=text,
            finish_reason="stop",
            prompt_tokens=len(prompt_text(request).split()),
            completion_tokens=len(text.split()),
            key=request.key,
        )


def prompt_text(request: Request) -> str:
    """A request's prompt as one text."""
    if isinstance(request.prompt, str):
        return request.prompt
    return "\n".join(turn.content for turn in request.prompt)
