"""One model server behind an OpenAI-compatible URL: what is sent, what is read, and what its failures mean."""

from __future__ import annotations

import email.utils
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from trailforge.inference.budget import charged_tokens
from trailforge.inference.request import BROKEN_OFF, Reply, Request
from trailforge.inference.structured import strict_schema
from trailforge.inference.wire import KEY_VARIABLES, Answer, Unanswered, Untaken, Wire, first_line
from trailforge.schemas import ContextOverflow, ProviderError, ServerUnavailable, parse_json

Dialect = Literal["openai", "llama_cpp", "vllm"]
"""How a server takes grammars, and schemas for raw completions."""

_LIMITED = 429
_OVERLOADED = {503, 529}
_PASSING = {408, 409, 425}
_OVERFLOW_MARKS = (
    "exceed_context_size",
    "maximum context length",
    "context length",
    "context size",
    "max_tokens must be at least 1, got 0",  # vLLM, of a prompt that fills the window to the last token
)


@dataclass(slots=True)
class Failure(Exception):
    """No reply, but a second try may bring one."""

    kind: Literal["limited", "overloaded", "failed"]
    """Asked too much of a server that is well; too much for the server; anything else that may pass."""
    why: str
    wait_s: float | None
    """What the server asks for."""
    is_unreadable: bool = False
    """Something came with status 200 that is no reply."""


class Endpoint:
    """A server. Use it on one event loop."""

    def __init__(self, url: str, *, model: str, dialect: Dialect, timeout_s: float) -> None:
        self.url, self._model, self._dialect = url, model, dialect
        self._wire = Wire(url, timeout_s=timeout_s)
        self.disbelieved = 0
        """Replies of which we counted tokens, because the server did not say them, or said what cannot be."""

    def open(self) -> None:
        """Make ready to send, which takes a moment the first time: before anything is timed."""
        self._wire.open()

    async def exchange(self, request: Request) -> Reply:
        """Send a request once. Raises `Failure`, or `ProviderError` and its kinds when no second try helps."""
        is_text = isinstance(request.prompt, str)
        try:
            answer = await self._wire.send("/completions" if is_text else "/chat/completions", self._body(request))
        except Unanswered as error:
            raise Failure("failed", first_line(str(error)), None) from error
        except Untaken as error:
            raise _unreadable(str(error)) from None
        if not answer.is_success:
            raise self._passing(answer) or self._refusal(answer)
        try:
            body = parse_json(answer.body)
            choice = body["choices"][0]
            reply = _reply(choice, request.key, is_text=is_text)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise _unreadable() from None
        if reply.finish_reason in BROKEN_OFF or choice.get("error"):
            raise Failure("failed", "the server broke its reply off", None)
        prompt, completion, is_said = charged_tokens(body.get("usage"), request, reply)
        self.disbelieved += not is_said
        return replace(reply, prompt_tokens=prompt, completion_tokens=completion)

    async def models(self) -> list[str]:
        """Ids of the models that are served. Raises `ServerUnavailable` when nothing answers."""
        try:
            answer = await self._wire.send("/models")
        except Unanswered as error:
            raise self._unavailable("nothing answers") from error
        except Untaken as error:
            raise self._not_understood(str(error)) from None
        if answer.status in (404, _LIMITED):
            return []  # not every server lists its models, and one that is asked too much is there
        if not answer.is_success:
            raise self._refusal(answer)
        try:
            return [_text(model["id"]) for model in parse_json(answer.body)["data"]]
        except (ValueError, KeyError, TypeError):
            raise self._not_understood() from None

    async def close(self) -> None:
        """Close its connections."""
        await self._wire.close()

    def given_up(self, failure: Failure, attempts: int) -> ProviderError:
        """What to raise after the last attempt."""
        if failure.is_unreadable:
            return self._not_understood(failure.why)
        if failure.why.startswith("status "):
            return self._unavailable(f"{failure.why} after {attempts} attempts")
        return self._unavailable(f"no reply after {attempts} attempts ({failure.why})")

    def _passing(self, answer: Answer) -> Failure | None:
        """What a status that may pass means; None for one that no retry mends."""
        status = answer.status
        if status not in _PASSING and status != _LIMITED and status < 500:
            return None
        kind = "limited" if status == _LIMITED else "overloaded" if status in _OVERLOADED else "failed"
        return Failure(kind, f"status {status}", retry_after(answer.headers))

    def _body(self, request: Request) -> bytes:
        """The request as JSON. Halves of surrogate pairs, which models write and UTF-8 cannot hold, become `?`."""
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
        if isinstance(request.prompt, str):
            body["prompt"] = request.prompt
        else:
            body["messages"] = [{"role": turn.role, "content": turn.content} for turn in request.prompt]
        extra: dict[str, Any] = json.loads(request.extra_body) if request.extra_body else {}
        self._constrain(request, body, extra)
        return json.dumps(body | extra, ensure_ascii=False).encode("utf-8", "replace")

    def _constrain(self, request: Request, body: dict[str, Any], extra: dict[str, Any]) -> None:
        dialect = self._dialect
        if request.grammar is not None:
            extra |= (
                {"structured_outputs": {"grammar": request.grammar}}
                if dialect == "vllm"
                else {"grammar": request.grammar}
            )
        if request.json_schema is not None:
            schema = json.loads(request.json_schema)
            if "messages" in body:
                schema = strict_schema(schema) if dialect == "openai" else schema  # the others heed limits, too
                body["response_format"] = {
                    "type": "json_schema",
                    "json_schema": {"name": "reply", "schema": schema, "strict": True},
                }
            else:
                extra |= {"structured_outputs": {"json": schema}} if dialect == "vllm" else {"json_schema": schema}

    def _refusal(self, answer: Answer) -> ProviderError:
        text, where = _message(answer.body), f"{self.url}, model {self._model}"
        if answer.status == 400 and any(mark in text.lower() for mark in _OVERFLOW_MARKS):
            return ContextOverflow(f"the prompt is too long for the model ({first_line(text)})")
        if 300 <= answer.status < 400:
            target = first_line(answer.headers.get("location", "nowhere"))
            return ProviderError(f"{where}: it sends us on to {target}; give the URL where the model is")
        if answer.status in (401, 403):
            return ProviderError(f"{where}: the key is refused; set {KEY_VARIABLES[0]}")
        if answer.status == 404:
            return ProviderError(
                f"{where}: not found; check the URL (it ends in /v1) and --model-name ({first_line(text)})"
            )
        return ProviderError(f"{where}: refused with status {answer.status} ({first_line(text)})")

    def _not_understood(self, why: str = "") -> ProviderError:
        return ProviderError(
            f"{self.url}, model {self._model}: what it sends is no OpenAI-compatible reply; "
            f"check the URL (it ends in /v1){why and f' ({why})'}"
        )

    def _unavailable(self, what: str) -> ServerUnavailable:
        return ServerUnavailable(
            f"model server {self.url}: {what}; start it (or use --model embedded), then run the same command again"
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


def _reply(choice: dict[str, Any], key: str, *, is_text: bool) -> Reply:
    if is_text:
        text, thoughts = choice["text"], ""
    else:
        message = choice["message"]
        text, thoughts = message.get("content"), message.get("reasoning_content") or message.get("reasoning")
    ended = _text(choice.get("finish_reason"))
    return Reply(
        text=_text(text), reasoning=_text(thoughts), finish_reason=ended, prompt_tokens=0, completion_tokens=0, key=key
    )


def _text(value: Any) -> str:
    """A text that files take, empty for null. Raises `TypeError` for anything else."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {type(value).__name__}")
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _unreadable(why: str = "") -> Failure:
    return Failure("failed", why, None, is_unreadable=True)


def _message(body: bytes) -> str:
    """What a server says of an error: all of it, for one that only its type tells, its message first."""
    text = body.decode("utf-8", "replace")
    try:
        error = parse_json(text)
        error = error.get("error", error)
        message = error.get("message") if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        message = None
    return f"{message}\n{text}" if isinstance(message, str) and message else text
