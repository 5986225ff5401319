"""The one client for every model: OpenAI-compatible URLs, with ledger, limits, caps, retries and counters.

A reply is in the ledger before any caller gets it. A call under way is shared by all callers with the same request; it
is finished and kept even if they no longer want it. Waiting for a retry holds no slot.

A call that no attempt brings through is a matter of its prompt only if the server answers others of its form: after
that, and once more after it was refused again. Else it is the server's, and ends everything.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TypeVar

from trailforge.inference.budget import Budget, Caps
from trailforge.inference.ledgers.sqlite import Ledger
from trailforge.inference.provider.endings import read_ending
from trailforge.inference.provider.endpoint import Dialect, Endpoint, Failure
from trailforge.inference.provider.parameters import Parameters
from trailforge.inference.provider.urls import check_server_url
from trailforge.inference.reasoning import Reasoning, ThoughtReader
from trailforge.inference.request import Reply, Request
from trailforge.inference.shared_limits.center import Limits
from trailforge.inference.shared_limits.link import LimitsLink, SharedBudget, SharedThrottle
from trailforge.inference.throttle import Permit, Throttle, ThrottleConfig
from trailforge.inference.usage import Counters, Meter, Prices, Usage, count_reply
from trailforge.schemas import (
    NOTICE,
    BudgetExceeded,
    ContextOverflow,
    InvalidInput,
    OutOfCredit,
    OutputError,
    PromptRefused,
    ProviderError,
    ServerUnavailable,
    Stalled,
    TrailforgeError,
)

T = TypeVar("T")
_CLOSING_S = 5.0
_LOOKS = 2
"""A prompt is refused when it was so often, each time while others were answered after it."""
_ATTEMPTS_AGAIN = 2
"""At a prompt that this process has seen refused, or that others were answered after."""
_CONTROL_ATTEMPTS = 2
_LOG = logging.getLogger("trailforge")


@dataclass(slots=True)
class _GivenUp(Exception):
    """No attempt brought a call through."""

    error: ProviderError
    """What to raise if that is the server's matter."""
    why: str
    at: float
    """When the last attempt had ended, by the loop's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Address of a model server, with limits, retries and the form of requests."""

    base_url: str
    """URL of the server; several servers of the same model are separated by commas."""
    model: str
    dialect: Dialect = "openai"
    max_in_flight: int = 64
    """Largest number of calls at a time, over all servers."""
    timeout_s: float = 600.0
    stall_s: float = 900.0
    """Seconds without any reply from any server after which everything ends with `Stalled`."""
    max_attempts: int = 8
    """Largest number of attempts for one call; a reply with status 429 counts as none."""
    backoff_s: float = 0.5
    """Seconds before the second attempt, doubled before each further one."""
    backoff_cap_s: float = 30.0
    caps: Caps = field(default_factory=Caps)
    prices: Prices = field(default_factory=Prices)
    """Prices from which the cost is computed that a cap limits."""
    extra_body: str = ""
    """JSON object sent with every call; it is part of the call's key."""
    redo: int = 0
    """Number of times that cut replies were asked for again; see `Request.redo`."""
    reasoning: Reasoning = "separate"
    """Where a reply holds the model's thoughts."""
    parameters: Parameters = field(default_factory=Parameters)
    """How requests are written for this server."""

    def __post_init__(self) -> None:
        check_server_url(self.base_url, "base_url")

    @property
    def urls(self) -> list[str]:
        """Return the URLs of the servers, one for each."""
        return split_urls(self.base_url)

    @property
    def throttle(self) -> ThrottleConfig:
        """Return the limits on the number and pace of calls."""
        return ThrottleConfig(most=self.max_in_flight, backoff_s=self.backoff_s, stall_s=self.stall_s)

    def limits(self, spent: Usage) -> Limits:
        """Return all limits, for a process that enforces them for several others. `spent`: usage before they start."""
        return Limits(urls=tuple(self.urls), throttle=self.throttle, caps=self.caps, prices=self.prices, spent=spent)


def split_urls(urls: str) -> list[str]:
    """Split a comma-separated list of URLs."""
    return [url for part in urls.split(",") if (url := part.strip())]


class ModelClient:
    """A client that answers requests from the ledger or from a model server. Use it on one event loop."""

    def __init__(self, config: ClientConfig, ledger: Ledger | None = None, link: LimitsLink | None = None) -> None:
        """`link`: to who holds the limits for several processes; without it this client alone does."""
        if not config.urls:
            raise InvalidInput("no URL of a model server; give --model URL, or set it in the preset", field="model.url")
        self._config, self._ledger = config, ledger
        self.counters = Counters()
        self._thoughts = ThoughtReader(config.reasoning)
        self._flights: dict[str, asyncio.Task[Reply]] = {}
        self._endpoints = {
            url: Endpoint(
                url,
                model=config.model,
                dialect=config.dialect,
                timeout_s=config.timeout_s,
                parameters=config.parameters,
            )
            for url in config.urls
        }
        self._link = link
        if link is None:
            self._throttle = Throttle(list(self._endpoints), config.throttle, self._stall)
            self._budget = Budget(config.caps, config.prices, ledger.spent if ledger else None)
        else:
            self._throttle, self._budget = SharedThrottle(link, self._stall), SharedBudget(link)
        self._stopped: TrailforgeError | None = None
        self._answered: defaultdict[str, float] = defaultdict(lambda: float("-inf"))
        """By form, when the latest call that was answered had been sent."""
        self._unanswered: defaultdict[str, float] = defaultdict(lambda: float("-inf"))
        """By form, when the latest control that was not answered was sent."""
        self._good: dict[str, Request] = {}
        """By form, one that was answered."""
        self._asking: Counter[str] = Counter()
        """By form, how many are under way."""
        self._changed = asyncio.Event()
        self._controlling: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._refused: set[str] = set()
        self._unknown_endings: set[str] = set()

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """Return the reply to a request, from the ledger or a server.

        Raises `PromptRefused` and `ContextOverflow`, which concern this request alone, other kinds of `ProviderError`,
        `BudgetExceeded`, or `MalformedReply` for thoughts in a form that the configuration does not declare.
        """
        config = self._config
        if config.extra_body or config.redo or config.parameters.omit:
            omit = config.parameters.left_out
            request = replace(request, extra_body=config.extra_body, redo=config.redo, omit=omit)
        found = await asyncio.shield(self._flight(request))
        if request.conversation is not None and self._ledger is not None:
            request.conversation.keep(request, found.key)
        reply = self._read_ending(request, found)
        count_reply(reply, meter, request.purpose, request.model)
        return self._thoughts.read(request, reply)

    def check_replies(self) -> None:
        """Raise `ProviderError` when every reply so far, even a single one, has no text beside its thoughts or tool
        calls.
        """
        self._thoughts.check()

    async def check(self) -> list[str]:
        """Return the ids of the models that are served. Raises `ServerUnavailable` when none of the URLs answers."""
        asked = [endpoint.models() for endpoint in self._endpoints.values()]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        if len(errors) == len(answers):
            raise errors[0]
        return sorted({name for answer in answers if not isinstance(answer, BaseException) for name in answer})

    @property
    def figures(self) -> dict[str, int]:
        """Return counters for a progress display: what this process did, and what it waits for."""
        counters = self.counters
        return {
            "paid_calls": counters.paid_calls,
            "ledger_hits": counters.ledger_hits,
            "retries": counters.retries,
            "damaged_calls": len(self._ledger.damaged) if self._ledger else 0,
            "refused_prompts": len(self._refused),
            "unknown_endings": counters.unknown_endings,
            "disbelieved_usage": sum(endpoint.disbelieved for endpoint in self._endpoints.values()),
            "in_flight": counters.in_flight,
            "servers_waited_for": len(self._throttle.troubles()),
        }

    @property
    def trouble(self) -> str:
        """Return the last error message of a server that calls wait for; empty when there is none."""
        return next(iter(self._throttle.troubles()), "")

    async def aclose(self) -> None:
        """Wait a short time for calls under way, then close connections and ledger. Calls that wait for a slot are not
        sent."""
        self._stop(ServerUnavailable("the client of the model was closed, and sends nothing more; open another one"))
        flights = list(self._flights.values())
        if flights:
            await asyncio.wait(flights, timeout=_CLOSING_S)
        for flight in flights:
            flight.cancel()
        if self._link is not None:
            await self._link.aclose()
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
                self._good.setdefault(request.form, request)
                return kept
            return await self._answer(request)
        except (BudgetExceeded, OutputError, OutOfCredit) as error:
            self._stop(error)  # what is over the cap, or cannot be kept or paid, must not be asked for
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

    async def _answer(self, request: Request) -> Reply:
        """A paid reply. Raises `PromptRefused` for what is refused again and again while other prompts are answered."""
        attempts = _ATTEMPTS_AGAIN if request.key in self._refused else self._config.max_attempts
        why = ""
        for _ in range(_LOOKS):
            try:
                return await self._pay(request, attempts)
            except _GivenUp as given_up:
                if not await self._answers_others(request, given_up.at):
                    raise given_up.error from None
                attempts, why = _ATTEMPTS_AGAIN, given_up.why
        self._refused.add(request.key)
        raise PromptRefused(f"{PromptRefused.opening} ({why})")

    async def _answers_others(self, request: Request, since: float) -> bool:
        """Whether a call of the same form with another prompt, sent after that time, is answered.

        What is under way shows it; else a control, one for all who want to know: the last prompt of this form that was
        answered, once more, or harmless words where none was and none is under way.
        """
        form = request.form
        async with self._controlling[form]:
            while form not in self._good and self._asking[form] and self._answered[form] <= since:
                self._changed.clear()
                await self._changed.wait()
            if max(self._answered[form], self._unanswered[form]) > since:
                return self._answered[form] > since
            sent_at = asyncio.get_running_loop().time()
            try:
                await self._pay(request.control(self._good.get(form)), _CONTROL_ATTEMPTS)
            except (_GivenUp, ContextOverflow):
                self._unanswered[form] = sent_at
                return False
            return True

    async def _pay(self, request: Request, attempts: int) -> Reply:
        """Within the caps, and kept. Raises `_GivenUp` after so many attempts."""
        async with self._budget.reserved(request) as reservation:
            self._asking[request.form] += 1
            try:
                with self._throttle.wanted():
                    reply = await self._attempts(request, attempts)
            finally:
                self._asking[request.form] -= 1
                self._changed.set()
            self.counters.paid_calls += 1
            reservation.settle(reply)
            return reply if self._ledger is None else await self._ledger.put(request, reply)

    async def _attempts(self, request: Request, most: int) -> Reply:
        attempt = 1
        while True:
            permit = await self._throttle.acquire(request.priority)
            try:
                return await self._send(request, permit)
            except Failure as failure:
                if failure.kind != "limited":
                    if attempt >= most or failure.kind == "refused":
                        error = self._endpoints[permit.lane.url].given_up(failure, attempt)
                        raise _GivenUp(error, failure.why, asyncio.get_running_loop().time()) from None
                    await asyncio.sleep(self._backoff(attempt, request.key))
                    attempt += 1
            self.counters.retries += 1

    async def _send(self, request: Request, permit: Permit) -> Reply:
        throttle, sent_at = self._throttle, asyncio.get_running_loop().time()
        self.counters.in_flight += 1
        try:
            reply = await self._endpoints[permit.lane.url].exchange(request)
        except Failure as failure:
            if failure.kind == "failed":
                said = failure.why and f" ({failure.why})"
                unread = f"what it sends is no OpenAI-compatible reply{said}"
                throttle.failed(permit, unread if failure.is_unreadable else failure.why)
            elif failure.kind == "overloaded":
                throttle.overloaded(permit, failure.wait_s, failure.why)
            elif failure.kind == "refused":
                throttle.dropped(permit)
            else:
                throttle.refused(permit, failure.wait_s, failure.why)
            raise
        except BaseException:
            throttle.dropped(permit)
            raise
        finally:
            self.counters.in_flight -= 1
        throttle.replied(permit)
        form = request.form
        self._answered[form], self._good[form] = max(self._answered[form], sent_at), request
        return reply

    def _read_ending(self, request: Request, reply: Reply) -> Reply:
        """With a declared finish reason in the usual words, and cut at the stop strings that were not sent."""
        parameters = self._config.parameters
        reply = replace(reply, finish_reason=parameters.read_reason(reply.finish_reason))
        if "stop" in parameters.omit:
            ends = [at for stop in request.sampling.stop if (at := reply.text.find(stop)) >= 0]
            reply = replace(reply, text=reply.text[: min(ends)], finish_reason="stop") if ends else reply
        if read_ending(reply.finish_reason) == "unknown":
            self.counters.unknown_endings += 1
            if reply.finish_reason not in self._unknown_endings:
                self._unknown_endings.add(reply.finish_reason)
                _LOG.log(
                    NOTICE,
                    "replies end for the reason %r, which is not known here, and so are not taken for whole; if they "
                    "are, set model.parameters.finish_reasons: {%s: whole}",
                    reply.finish_reason[:40],
                    reply.finish_reason[:40],
                )
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
