"""One model server behind an OpenAI-compatible URL: what is sent, what is read, and what its failures mean."""

from __future__ import annotations

import email.utils
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from inference.keys import KEY_VARIABLES, api_key, is_sendable
from inference.request import Reply, Request
from inference.structured import strict_schema
from schemas import ContextOverflow, ProviderError, ServerUnavailable

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
        self._timeout_s = timeout_s
        self._sdk: Any = None

    def open(self) -> None:
        """Make ready to send, which takes a moment the first time: before anything is timed."""
        self._client()

    async def exchange(self, request: Request) -> Reply:
        """Send a request once. Raises `Failure`, or `ProviderError` and its kinds when no second try helps."""
        import openai

        body, client = self._body(request), self._client()
        is_text = isinstance(request.prompt, str)
        try:
            response = await (client.completions if is_text else client.chat.completions).create(**body)
            return (_completion_reply if is_text else _chat_reply)(response, request.key)
        except openai.APIStatusError as error:
            raise self._passing(error) or self._refusal(error) from None  # the cause may repeat the key
        except (json.JSONDecodeError, openai.APIResponseValidationError) as error:
            raise _unreadable() from error
        except openai.APIConnectionError as error:
            raise Failure("failed", _first_line(str(error.__cause__ or error)), None) from error
        except (AttributeError, IndexError, TypeError) as error:  # the SDK passes on whatever came with a 200
            raise _unreadable() from error

    async def models(self) -> list[str]:
        """Ids of the models that are served. Raises `ServerUnavailable` when nothing answers."""
        import openai

        try:
            page = await self._client().models.list()
        except openai.APIConnectionError as error:
            raise self._unavailable("nothing answers") from error
        except openai.APIStatusError as error:
            if error.status_code in (404, _LIMITED):
                return []  # not every server lists its models, and one that is asked too much is there
            raise self._refusal(error) from None  # the cause may repeat the key
        except (AttributeError, TypeError, json.JSONDecodeError, openai.APIResponseValidationError) as error:
            raise self._not_understood() from error
        return [model.id for model in page.data]

    async def close(self) -> None:
        """Close its connections."""
        if self._sdk is not None:
            await self._sdk.close()
            self._sdk = None

    def given_up(self, failure: Failure, attempts: int) -> ProviderError:
        """What to raise after the last attempt."""
        if failure.is_unreadable:
            return self._not_understood()
        if failure.why.startswith("status "):
            return self._unavailable(f"{failure.why} after {attempts} attempts")
        return self._unavailable(f"no reply after {attempts} attempts ({failure.why})")

    def _passing(self, error: Any) -> Failure | None:
        """What a status that may pass means; None for one that no retry mends."""
        status = error.status_code
        if status not in _PASSING and status != _LIMITED and status < 500:
            return None
        kind = "limited" if status == _LIMITED else "overloaded" if status in _OVERLOADED else "failed"
        return Failure(kind, f"status {status}", retry_after(error.response.headers))

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

    def _client(self) -> Any:
        if self._sdk is None:
            from openai import AsyncOpenAI, DefaultAioHttpClient

            key = api_key() or "none"
            if not is_sendable(key):
                raise ProviderError(f"the API key holds characters that no key has; set {KEY_VARIABLES[0]} anew")
            self._sdk = AsyncOpenAI(
                base_url=self.url,
                api_key=key,
                max_retries=0,
                timeout=self._timeout_s,
                http_client=DefaultAioHttpClient(timeout=self._timeout_s),
            )
        return self._sdk

    def _refusal(self, error: Any) -> ProviderError:
        """What a status that no retry mends means."""
        text = _first_line(error.message)
        if key := api_key():
            text = text.replace(key, "<key>")  # some servers repeat what they were sent
        where = f"{self.url}, model {self._model}"
        if error.status_code == 400 and any(mark in str(error.body or text).lower() for mark in _OVERFLOW_MARKS):
            return ContextOverflow(f"the prompt is too long for the model ({text})")
        if error.status_code in (401, 403):
            return ProviderError(f"{where}: the key is refused; set {KEY_VARIABLES[0]}")
        if error.status_code == 404:
            return ProviderError(f"{where}: not found; check the URL (it ends in /v1) and --model-name ({text})")
        return ProviderError(f"{where}: refused with status {error.status_code} ({text})")

    def _not_understood(self) -> ProviderError:
        return ProviderError(
            f"{self.url}, model {self._model}: what it sends is no OpenAI-compatible reply; "
            "check the URL (it ends in /v1)"
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


def _sendable(text: str) -> str:
    """Without halves of surrogate pairs, which models write in JSON escapes and UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _chat_reply(response: Any, key: str) -> Reply:
    choice = response.choices[0]
    thoughts = getattr(choice.message, "reasoning_content", None) or getattr(choice.message, "reasoning", None) or ""
    return _reply(choice.message.content or "", thoughts, choice.finish_reason, response.usage, key)


def _completion_reply(response: Any, key: str) -> Reply:
    choice = response.choices[0]
    return _reply(choice.text or "", "", choice.finish_reason, response.usage, key)


def _reply(text: str, reasoning: str, finish_reason: str | None, usage: Any, key: str) -> Reply:
    return Reply(
        text=_sendable(text),
        reasoning=_sendable(reasoning),
        finish_reason=finish_reason or "",
        prompt_tokens=usage.prompt_tokens if usage else 0,
        completion_tokens=usage.completion_tokens if usage else 0,
        key=key,
    )


def _unreadable() -> Failure:
    return Failure("failed", "what it sends is no reply", None, is_unreadable=True)


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][:200]
