"""The one fake model, for tests: answers by a function, and otherwise behaves like `ModelClient`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from trailforge.inference.request import Reply, Request
from trailforge.inference.usage import Counters, Meter, count_reply

Script = Callable[[Request], str]
"""Request -> reply. May raise, as a server would fail."""


class ScriptedModel:
    """Replies from a script. `requests` keeps what was asked, in order."""

    def __init__(self, script: Script, *, latency_s: float = 0.0) -> None:
        self._script, self._latency_s = script, latency_s
        self._replies: dict[str, Reply] = {}
        self._flights: dict[str, asyncio.Task[Reply]] = {}
        self.requests: list[Request] = []
        self.counters = Counters()

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """As `ModelClient.complete`; the same request is answered once and remembered."""
        reply = self._replies.get(request.key)
        if reply is None:
            reply = await asyncio.shield(self._flight(request))
        else:
            self.counters.ledger_hits += 1
        count_reply(reply, meter, request.purpose, request.model)
        return reply

    async def check(self) -> list[str]:
        """As `ModelClient.check`."""
        return ["scripted"]

    @property
    def figures(self) -> dict[str, int]:
        """As `ModelClient.figures`."""
        names = ("paid_calls", "ledger_hits", "retries", "in_flight")
        return {name: getattr(self.counters, name) for name in names} | {
            "disbelieved_usage": 0,
            "servers_waited_for": 0,
        }

    trouble = ""
    """As `ModelClient.trouble`."""

    def check_replies(self) -> None:
        """As `ModelClient.check_replies`: all replies have a text."""

    async def aclose(self) -> None:
        """As `ModelClient.aclose`."""

    def _flight(self, request: Request) -> asyncio.Task[Reply]:
        """The call that all who ask the same at once share."""
        flight = self._flights.get(request.key)
        if flight is None:
            self.requests.append(request)
            flight = self._flights[request.key] = asyncio.create_task(self._call(request))
            flight.add_done_callback(lambda done: self._landed(request.key, done))
        return flight

    def _landed(self, key: str, flight: asyncio.Task[Reply]) -> None:
        self._flights.pop(key, None)
        if not flight.cancelled():
            flight.exception()  # seen, also when nobody waits for it any more

    async def _call(self, request: Request) -> Reply:
        self.counters.paid_calls += 1
        await asyncio.sleep(self._latency_s)
        reply = self._replies[request.key] = self._reply(request)
        return reply

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
