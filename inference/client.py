"""The one client for every model: OpenAI-compatible URLs, with ledger, limits, caps, retries and counts.

A reply is in the ledger before anyone sees it. A call under way is shared by all who ask the same; it is finished and
kept even if they no longer want it. Waiting for a retry holds no slot.
"""

from __future__ import annotations

import asyncio
import atexit
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeVar

from trailforge.inference.budget import Budget, Caps, Counters, Meter, Prices, count_reply
from trailforge.inference.endpoint import Dialect, Endpoint, Failure
from trailforge.inference.ledgers import ledger_url, open_ledger
from trailforge.inference.ledgers.sqlite import Ledger
from trailforge.inference.request import Reply, Request
from trailforge.inference.thoughts import Reasoning, ThoughtReader
from trailforge.inference.threads import LoopThread, once
from trailforge.inference.throttle import Permit, Throttle, ThrottleConfig
from trailforge.inference.urls import check_server_url
from trailforge.schemas import BudgetExceeded, InvalidInput, OutputError, ServerUnavailable, Stalled, TrailforgeError
from trailforge.schemas.files import user_cache

T = TypeVar("T")
_CLOSING_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Where the model is and how it is treated."""

    base_url: str
    """Several servers of the same model: their URLs with commas between them."""
    model: str
    dialect: Dialect = "openai"
    max_in_flight: int = 64
    """Over all servers."""
    timeout_s: float = 600.0
    stall_s: float = 900.0
    """Without any reply from any server for so long, everything ends with `Stalled`."""
    max_attempts: int = 8
    """Of one call; a 429 is none."""
    backoff_s: float = 0.5
    """Before the second attempt; doubles each time."""
    backoff_cap_s: float = 30.0
    caps: Caps = field(default_factory=Caps)
    prices: Prices = field(default_factory=Prices)
    """For the cap on cost."""
    extra_body: str = ""
    """JSON object sent with every call; part of its key."""
    redo: int = 0
    """See `Request.redo`."""
    reasoning: Reasoning = "separate"
    """Where the model's thoughts are."""

    def __post_init__(self) -> None:
        check_server_url(self.base_url, "base_url")

    @property
    def urls(self) -> list[str]:
        """One per server."""
        return split_urls(self.base_url)


def split_urls(urls: str) -> list[str]:
    """URLs with commas between them, one by one."""
    return [url for part in urls.split(",") if (url := part.strip())]


class ModelClient:
    """Answers requests. Use it on one event loop."""

    def __init__(self, config: ClientConfig, ledger: Ledger | None = None) -> None:
        if not config.urls:
            raise InvalidInput("no URL of a model server", field="model.url")
        self._config, self._ledger = config, ledger
        self.counters = Counters()
        self._thoughts = ThoughtReader(config.reasoning)
        self._flights: dict[str, asyncio.Task[Reply]] = {}
        self._endpoints = {
            url: Endpoint(url, model=config.model, dialect=config.dialect, timeout_s=config.timeout_s)
            for url in config.urls
        }
        limits = ThrottleConfig(most=config.max_in_flight, backoff_s=config.backoff_s, stall_s=config.stall_s)
        self._throttle = Throttle(list(self._endpoints), limits, self._stall)
        self._budget = Budget(config.caps, config.prices, ledger.spent if ledger else None)
        self._stopped: TrailforgeError | None = None

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """The reply, from the ledger or a server; a chat's as `ThoughtReader` reads it.

        Raises `ProviderError` and its kinds, `BudgetExceeded`, or `MalformedReply` for thoughts that nobody declared.
        """
        if self._config.extra_body or self._config.redo:
            request = replace(request, extra_body=self._config.extra_body, redo=self._config.redo)
        reply = await asyncio.shield(self._flight(request))
        count_reply(reply, meter, request.purpose)
        return self._thoughts.read(request, reply)

    async def check(self) -> list[str]:
        """Ids of the models that are served. Raises `ServerUnavailable` when nothing answers, at none of the URLs."""
        asked = [endpoint.models() for endpoint in self._endpoints.values()]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        if len(errors) == len(answers):
            raise errors[0]
        return sorted({name for answer in answers if not isinstance(answer, BaseException) for name in answer})

    @property
    def figures(self) -> dict[str, int]:
        """The figures of progress: what this process did, and what it waits for."""
        counters = self.counters
        return {
            "paid_calls": counters.paid_calls,
            "ledger_hits": counters.ledger_hits,
            "retries": counters.retries,
            "damaged_calls": len(self._ledger.damaged) if self._ledger else 0,
            "disbelieved_usage": sum(endpoint.disbelieved for endpoint in self._endpoints.values()),
            "in_flight": counters.in_flight,
            "servers_waited_for": self._throttle.waited_for(),
        }

    async def aclose(self) -> None:
        """Wait a little for calls under way, then close connections and ledger. What waits for a slot is not sent."""
        self._stop(ServerUnavailable("the client was closed"))
        flights = list(self._flights.values())
        if flights:
            await asyncio.wait(flights, timeout=_CLOSING_S)
        for flight in flights:
            flight.cancel()
        for endpoint in self._endpoints.values():
            await endpoint.close()
        if self._ledger is not None:
            await self._ledger.aclose()

    def _flight(self, request: Request) -> asyncio.Task[Reply]:
        flight = self._flights.get(request.key)
        if flight is None:
            for endpoint in self._endpoints.values():
                endpoint.open()
            flight = asyncio.create_task(self._call(request))
            self._flights[request.key] = flight
            flight.add_done_callback(lambda done: self._landed(request.key, done))
        return flight

    def _landed(self, key: str, flight: asyncio.Task[Reply]) -> None:
        self._flights.pop(key, None)
        if not flight.cancelled():
            flight.exception()  # seen, also when nobody waits for it any more

    async def _call(self, request: Request) -> Reply:
        """Look it up, or pay for it within the caps and keep it before anyone sees it.

        Both in one flight, or who looks while another pays would pay again.
        """
        try:
            if (kept := await self._kept(request)) is not None:
                self.counters.ledger_hits += 1
                return kept
            async with self._budget.reserved(request) as reservation:
                with self._throttle.wanted():
                    reply = await self._attempts(request)
                self.counters.paid_calls += 1
                reservation.settle(reply)
                return reply if self._ledger is None else await self._ledger.put(request, reply)
        except (BudgetExceeded, OutputError) as error:
            self._stop(error)  # what is over the cap, or cannot be kept, must not be paid for
            raise
        except asyncio.CancelledError:
            if isinstance(self._stopped, Stalled):
                raise self._stopped from None
            raise

    async def _kept(self, request: Request) -> Reply | None:
        """What was answered to this very request, or in full to one that allowed another length."""
        if self._ledger is None:
            return None
        return await self._ledger.find(request.key) or await self._ledger.find_complete(request)

    async def _attempts(self, request: Request) -> Reply:
        attempt = 1
        while True:
            permit = await self._throttle.acquire(request.priority)
            try:
                return await self._send(request, permit)
            except Failure as failure:
                if failure.kind != "limited":
                    if attempt >= self._config.max_attempts:
                        raise self._endpoints[permit.lane.url].given_up(failure, attempt) from None  # as in `Endpoint`
                    await asyncio.sleep(self._backoff(attempt, request.key))
                    attempt += 1
            self.counters.retries += 1

    async def _send(self, request: Request, permit: Permit) -> Reply:
        throttle = self._throttle
        self.counters.in_flight += 1
        try:
            reply = await self._endpoints[permit.lane.url].exchange(request)
        except Failure as failure:
            if failure.kind == "failed":
                throttle.failed(permit, failure.why or "what it sends is no OpenAI-compatible reply")
            elif failure.kind == "overloaded":
                throttle.overloaded(permit, failure.wait_s, failure.why)
            else:
                throttle.refused(permit, failure.wait_s, failure.why)
            raise
        except BaseException:
            throttle.dropped(permit)
            raise
        finally:
            self.counters.in_flight -= 1
        throttle.replied(permit)
        return reply

    def _stop(self, error: TrailforgeError) -> None:
        """Send nothing more. The first reason stays."""
        self._stopped = self._stopped or error
        self._throttle.end(self._stopped)

    def _stall(self, error: Stalled) -> None:
        """Nothing is answered any more: end what hangs."""
        self._stop(error)
        for flight in self._flights.values():
            flight.cancel()

    def _backoff(self, attempt: int, key: str) -> float:
        """Exponential with jitter, seconds."""
        ceiling = min(self._config.backoff_cap_s, self._config.backoff_s * 2 ** (attempt - 1))
        return ceiling * (0.5 + random.Random(f"{key} {attempt}").random() / 2)


# On an event loop of its own, for whoever asks from several threads and loops, as trainers do


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model behind a URL. Its key comes from the environment: TRAILFORGE_API_KEY."""

    url: str
    """Of an OpenAI-compatible server; several of the same model with commas between them."""
    model: str
    """As the server knows it."""
    ledger: str = ""
    """File that remembers replies; empty: one in the user's cache. TRAILFORGE_LEDGER_URL goes over both."""
    max_tokens: int = 2048
    """Of a reply, with the thoughts of a model that has any."""
    reasoning: Literal["separate", "inline"] = "separate"
    """Where such a model's thoughts are: sent beside the reply, or in it, up to `</think>`."""
    max_in_flight: int = 64
    """Calls at a time, of one process."""
    timeout_s: float = 120.0

    def __post_init__(self) -> None:
        for name in ("url", "model"):
            if not getattr(self, name).strip():
                raise InvalidInput("must not be empty", field=name)
        check_server_url(self.url, "url")
        for name in ("max_tokens", "max_in_flight", "timeout_s"):
            if getattr(self, name) <= 0:
                raise InvalidInput(f"has to be more than 0, got {getattr(self, name)}", field=name)


class ModelDesk(LoopThread):
    """A `Client` that may be asked from any thread and any loop."""

    def __init__(self, served: ServedModel, name: str) -> None:
        """`name`: of its ledger in the user's cache. Raises `InvalidInput` for a bad ledger. Nothing is sent yet."""
        ledger = ledger_url("")
        super().__init__(name)
        self.client = self.call(_open(served, ledger, name))
        """For work that runs on the desk's own loop."""

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """See `inference.Client`."""
        return await asyncio.wrap_future(self.soon(self.client.complete(request, meter)))

    def close(self) -> None:
        """End client, ledger and loop."""
        self.end(self.client.aclose)


@once
def open_desk(served: ServedModel, name: str) -> ModelDesk:
    """The desk of a model, one in a process, which lives as long as that. Raises as `ModelDesk`."""
    desk = ModelDesk(served, name)
    atexit.register(desk.close)
    return desk


async def _open(served: ServedModel, ledger: str, name: str) -> ModelClient:
    """On the loop that it lives on."""
    settings = ClientConfig(
        base_url=served.url,
        model=served.model,
        reasoning=served.reasoning,
        max_in_flight=served.max_in_flight,
        timeout_s=served.timeout_s,
    )
    path = Path(served.ledger) if served.ledger else user_cache(name) / "calls.sqlite"
    return ModelClient(settings, open_ledger(ledger, path))
