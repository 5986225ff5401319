"""The one client for every model: an OpenAI-compatible URL, with ledger, limits, retries and counts.

A reply is in the ledger before anyone sees it. A call under way is shared by all who ask the same; it is finished and
kept even if they no longer want it. Waiting for a retry holds no slot.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import math
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from inference.keys import KEY_VARIABLES, api_key, is_sendable
from inference.ledger import Ledger
from inference.request import Reply, Request
from inference.slots import Slots
from inference.usage import Counters, Meter
from schemas import ContextOverflow, OutputError, ProviderError, RateLimited, ServerUnavailable, TrailforgeError

Dialect = Literal["openai", "llama_cpp", "vllm"]
"""How a server takes grammars, and schemas for raw completions."""

_RETRIED = {408, 409, 425, 429}
_OVERFLOW_MARKS = (
    "exceed_context_size",
    "maximum context length",
    "context length",
    "context size",
    "max_tokens must be at least 1, got 0",  # vLLM, of a prompt that fills the window to the last token
)
_CLOSING_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Where the model is and how it is treated."""

    base_url: str
    model: str
    dialect: Dialect = "openai"
    max_in_flight: int = 64
    timeout_s: float = 600.0
    max_attempts: int = 6
    backoff_s: float = 0.5
    """Before the second attempt; doubles each time."""
    backoff_cap_s: float = 30.0
    extra_body: str = ""
    """JSON object sent with every call; part of its key."""


class _NoReply(Exception):
    """Status 200, but no reply in it."""


class ModelClient:
    """Answers requests. Use it on one event loop."""

    def __init__(self, config: ClientConfig, ledger: Ledger | None = None) -> None:
        self._config, self._ledger = config, ledger
        self.counters = Counters()
        self._flights: dict[str, asyncio.Task[Reply]] = {}
        self._slots = Slots(config.max_in_flight)
        self._sdk: Any = None
        self._stopped: TrailforgeError | None = None

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """The reply, from the ledger or the server. Raises `ProviderError` and its kinds (see `schemas.errors`)."""
        if self._config.extra_body:
            request = replace(request, extra_body=self._config.extra_body)
        reply = await asyncio.shield(self._flight(request))
        if meter is not None:
            meter.add(reply)
        return reply

    async def check(self) -> list[str]:
        """Ids of the models that are served. Raises `ServerUnavailable` when nothing answers."""
        import openai

        try:
            page = await self._client().models.list()
        except openai.APIConnectionError as error:
            raise self._unavailable("nothing answers") from error
        except openai.APIStatusError as error:
            if error.status_code == 404:
                return []  # not every server lists its models
            raise self._refusal(error) from None  # the cause may repeat the key
        except (AttributeError, TypeError, json.JSONDecodeError, openai.APIResponseValidationError) as error:
            raise self._not_understood() from error
        return [model.id for model in page.data]

    async def aclose(self) -> None:
        """Wait a little for calls under way, then close connections and ledger. What waits for a slot is not sent."""
        self._stopped = self._stopped or ServerUnavailable("the client was closed")
        flights = list(self._flights.values())
        if flights:
            await asyncio.wait(flights, timeout=_CLOSING_S)
        for flight in flights:
            flight.cancel()
        if self._sdk is not None:
            await self._sdk.close()
            self._sdk = None
        if self._ledger is not None:
            await self._ledger.aclose()

    def _flight(self, request: Request) -> asyncio.Task[Reply]:
        flight = self._flights.get(request.key)
        if flight is None:
            flight = asyncio.create_task(self._call(request))
            self._flights[request.key] = flight
            flight.add_done_callback(lambda done: self._landed(request.key, done))
        return flight

    def _landed(self, key: str, flight: asyncio.Task[Reply]) -> None:
        self._flights.pop(key, None)
        if not flight.cancelled():
            flight.exception()  # seen, also when nobody waits for it any more

    async def _call(self, request: Request) -> Reply:
        """Look it up or pay for it. Both in one flight, or who looks while another pays would pay again."""
        try:
            if self._ledger is not None and (kept := await self._ledger.find(request.key)) is not None:
                self.counters.ledger_hits += 1
                return kept
            reply = await self._attempts(request)
            self.counters.paid_calls += 1
            return reply if self._ledger is None else await self._ledger.put(request, reply)
        except OutputError as error:
            self._stopped = error  # what cannot be kept must not be paid for
            raise

    async def _attempts(self, request: Request) -> Reply:
        import openai

        rng = random.Random(request.key)
        failure: Exception = ValueError("max_attempts has to be at least 1")
        for attempt in range(1, self._config.max_attempts + 1):
            try:
                return await self._send(request)
            except (openai.APIConnectionError, _NoReply) as error:
                failure = error
                asked_wait = None
            except openai.APIStatusError as error:
                if error.status_code not in _RETRIED and error.status_code < 500:
                    raise self._refusal(error) from None  # the cause may repeat the key
                failure = error
                asked_wait = retry_after(error.response.headers)
            if attempt < self._config.max_attempts:
                self.counters.retries += 1
                await asyncio.sleep(asked_wait if asked_wait is not None else self._backoff(attempt, rng))
        raise self._given_up(failure) from None  # as above

    async def _send(self, request: Request) -> Reply:
        async with self._slots.taken(request.priority):
            if self._stopped is not None:
                raise self._stopped
            self.counters.in_flight += 1
            try:
                return await self._exchange(request)
            finally:
                self.counters.in_flight -= 1

    async def _exchange(self, request: Request) -> Reply:
        import openai

        body, client = self._body(request), self._client()
        is_text = isinstance(request.prompt, str)
        try:
            response = await (client.completions if is_text else client.chat.completions).create(**body)
        except (json.JSONDecodeError, openai.APIResponseValidationError) as error:
            raise _NoReply from error
        try:
            return (_completion_reply if is_text else _chat_reply)(response, request.key)
        except (AttributeError, IndexError, TypeError) as error:  # the SDK passes on whatever came with a 200
            raise _NoReply from error

    def _body(self, request: Request) -> dict[str, Any]:
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": request.model,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": request.sampling_seed,
        }
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        extra: dict[str, Any] = json.loads(request.extra_body) if request.extra_body else {}
        if isinstance(request.prompt, str):
            body["prompt"] = _sendable(request.prompt)
        else:
            body["messages"] = [{"role": turn.role, "content": _sendable(turn.content)} for turn in request.prompt]
        self._constrain(request, body, extra)
        if extra:
            body["extra_body"] = extra
        return body

    def _constrain(self, request: Request, body: dict[str, Any], extra: dict[str, Any]) -> None:
        """Schema and grammar, as the server wants them."""
        dialect = self._config.dialect
        if request.grammar is not None:
            extra |= (
                {"structured_outputs": {"grammar": request.grammar}}
                if dialect == "vllm"
                else {"grammar": request.grammar}
            )
        if request.json_schema is not None:
            schema = json.loads(request.json_schema)
            if "messages" in body:
                body["response_format"] = {
                    "type": "json_schema",
                    "json_schema": {"name": "reply", "schema": schema, "strict": True},
                }
            else:
                extra |= {"structured_outputs": {"json": schema}} if dialect == "vllm" else {"json_schema": schema}

    def _client(self) -> Any:
        if self._sdk is None:
            from openai import AsyncOpenAI, DefaultAioHttpClient

            key = api_key() or "none"
            if not is_sendable(key):
                raise ProviderError(f"the API key holds characters that no key has; set {KEY_VARIABLES[0]} anew")
            self._sdk = AsyncOpenAI(
                base_url=self._config.base_url,
                api_key=key,
                max_retries=0,
                timeout=self._config.timeout_s,
                http_client=DefaultAioHttpClient(timeout=self._config.timeout_s),
            )
        return self._sdk

    def _backoff(self, attempt: int, rng: random.Random) -> float:
        """Exponential with full jitter, seconds."""
        ceiling = min(self._config.backoff_cap_s, self._config.backoff_s * 2 ** (attempt - 1))
        return ceiling * (0.5 + rng.random() / 2)

    def _refusal(self, error: Any) -> ProviderError:
        """What a status that no retry mends means."""
        text = _first_line(error.message)
        if key := api_key():
            text = text.replace(key, "<key>")  # some servers repeat what they were sent
        where = f"{self._config.base_url}, model {self._config.model}"
        if error.status_code == 400 and any(mark in str(error.body or text).lower() for mark in _OVERFLOW_MARKS):
            return ContextOverflow(f"the prompt is too long for the model ({text})")
        if error.status_code in (401, 403):
            return ProviderError(f"{where}: the key is refused; set {KEY_VARIABLES[0]}")
        if error.status_code == 404:
            return ProviderError(f"{where}: not found; check the URL (it ends in /v1) and --model-name ({text})")
        return ProviderError(f"{where}: refused with status {error.status_code} ({text})")

    def _given_up(self, failure: Exception) -> ProviderError:
        status = getattr(failure, "status_code", None)
        attempts = self._config.max_attempts
        if status == 429:
            return RateLimited(
                f"{self._config.base_url} still says 429 after {attempts} attempts; "
                "lower model.max_in_flight, then run the same command again"
            )
        if isinstance(failure, _NoReply):
            return self._not_understood()
        if status is not None:
            return self._unavailable(f"status {status} after {attempts} attempts")
        return self._unavailable(
            f"no reply after {attempts} attempts ({_first_line(str(failure.__cause__ or failure))})"
        )

    def _not_understood(self) -> ProviderError:
        return ProviderError(
            f"{self._config.base_url}, model {self._config.model}: what it sends is no OpenAI-compatible reply; "
            "check the URL (it ends in /v1)"
        )

    def _unavailable(self, what: str) -> ServerUnavailable:
        return ServerUnavailable(
            f"model server {self._config.base_url}: {what}; start it (or use --model embedded), "
            "then run the same command again"
        )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by `retry-after-ms` or `Retry-After` (seconds or HTTP date); None without them."""
    milliseconds, value = _number(headers.get("retry-after-ms")), headers.get("retry-after")
    if milliseconds is not None:
        return milliseconds / 1000
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    """A finite number from 0 on; None for what is none, as `inf`, which would be waited for."""
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _sendable(text: str) -> str:
    """Without halves of surrogate pairs, which models write in JSON escapes and UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def split_reasoning(text: str) -> tuple[str, str]:
    """(reasoning, answer) of a chat reply that carries its thoughts in `<think>`; without thoughts, ("", text)."""
    head, mark, tail = text.partition("</think>")
    return (head.replace("<think>", "", 1).strip(), tail.strip()) if mark else ("", text)


def _chat_reply(response: Any, key: str) -> Reply:
    choice = response.choices[0]
    thoughts = getattr(choice.message, "reasoning_content", None) or getattr(choice.message, "reasoning", None) or ""
    inline, text = split_reasoning(choice.message.content or "")
    return _reply(text, thoughts or inline, choice.finish_reason, response.usage, key)


def _completion_reply(response: Any, key: str) -> Reply:
    choice = response.choices[0]
    return _reply(choice.text or "", "", choice.finish_reason, response.usage, key)


def _reply(text: str, reasoning: str, finish_reason: str | None, usage: Any, key: str) -> Reply:
    return Reply(
        text=text,
        reasoning=reasoning,
        finish_reason=finish_reason or "",
        prompt_tokens=usage.prompt_tokens if usage else 0,
        completion_tokens=usage.completion_tokens if usage else 0,
        key=key,
    )


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][:200]
