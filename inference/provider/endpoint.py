"""Connect to one model server behind an OpenAI-compatible URL: send requests, read replies, and classify failures."""

from __future__ import annotations

import email.utils
import functools
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from trailforge.inference.budget import cached_tokens, charged_tokens
from trailforge.inference.provider.endings import read_ending
from trailforge.inference.provider.errors import ServerError, read_error, read_page
from trailforge.inference.provider.parameters import Parameters
from trailforge.inference.provider.replies import find_error, read_body, read_models, read_reply
from trailforge.inference.provider.wire import KEY_VARIABLES, Unanswered, Untaken, Wire, first_line
from trailforge.inference.request import Reply, Request, write_json
from trailforge.inference.structured import strict_schema
from trailforge.schemas import (
    ContextOverflow,
    OutOfCredit,
    ProviderError,
    ServerUnavailable,
    parse_json,
)

Dialect = Literal["openai", "llama_cpp", "vllm"]
"""Family of a server, by which it is sent grammars, and schemas for raw completions."""

_USUAL = Parameters()
_AGAIN = "then run the same command again"

_NOT_THERE = {502, 503, 504}
"""What a proxy says in place of a server that is away."""
_UNKNOWN_PATHS = {404, 405}
_MOST_NAMES = 8
"""Of the models that an error lists."""


@dataclass(slots=True)
class Failure(Exception):
    """An error for a request that got no reply, while others of the same form may get one."""

    kind: Literal["limited", "overloaded", "failed", "refused"]
    """Kind of failure. `limited`: the server limits the rate of requests. `overloaded`: the server has too much load.
    `failed`: any other failure that may pass. `refused`: one that will not pass."""
    why: str
    """The server's message; empty when it sent none."""
    wait_s: float | None = None
    """Seconds that the server asks to wait; None when it names none."""
    is_unreadable: bool = False
    """Whether the server sent status 200 with a body that is no reply."""
    is_heard: bool = False
    """Whether the server answered at all, even with an error."""
    error: ProviderError | None = None
    """Error to raise when the failure does not concern this request alone; None when it does."""


class Endpoint:
    """Connection to one server. Use it on one event loop."""

    def __init__(
        self, url: str, *, model: str, dialect: Dialect, timeout_s: float, parameters: Parameters = _USUAL
    ) -> None:
        self.url, self._model, self._dialect, self._parameters = url, model, dialect, parameters
        self._wire = Wire(url, timeout_s=timeout_s)
        self.disbelieved = 0
        """Replies of which we counted tokens, because the server did not say them, or said what cannot be."""

    def open(self) -> None:
        """Set up the connection, which takes a moment the first time and should come before anything is timed."""
        self._wire.open()

    async def exchange(self, request: Request) -> Reply:
        """Send a request once and return the reply. Raises `Failure`, which may concern this request alone;
        `ContextOverflow`, which does; `OutOfCredit`, or another `ProviderError` that every request to this server would
        meet.
        """
        is_text = isinstance(request.prompt, str)
        try:
            answer = await self._wire.send("/completions" if is_text else "/chat/completions", self._body(request))
        except Unanswered as error:
            raise Failure("failed", first_line(str(error))) from error
        except Untaken as error:
            raise _unreadable(str(error)) from None
        if not answer.is_success:
            raise await self._refusal(read_error(answer.status, answer.body), answer.headers)
        try:
            body = read_body(answer.body, answer.kind)
            if (error := find_error(body)) is not None:
                raise await self._refusal(read_error(answer.status, error), answer.headers)
            read = read_reply(body, is_text=is_text)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise _unreadable(first_line("; ".join(read_page(answer.body.decode("utf-8", "replace"))))) from None
        if read.error or read_ending(read.finish_reason) == "broken":
            said = read_error(500, read.error).words if isinstance(read.error, dict) else read.finish_reason
            raise Failure("failed", f"the server broke its reply off{said and f' ({first_line(said)})'}", is_heard=True)
        reply = Reply(
            text=read.text,
            reasoning=read.reasoning,
            finish_reason=read.finish_reason,
            prompt_tokens=0,
            completion_tokens=0,
            key=request.key,
            tool_calls=read.tool_calls,
        )
        prompt, completion, is_said = charged_tokens(read.usage, request, reply)
        self.disbelieved += not is_said
        cached = min(prompt, cached_tokens(read.usage))
        return replace(reply, prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached)

    async def models(self) -> list[str]:
        """Return the ids of the models that are served, in whatever form they are listed; empty where they are not.

        Raises `ServerUnavailable` when nothing answers, and `ProviderError` for a refused key and for a server whose
        URL offers neither chats nor completions.
        """
        try:
            answer = await self._wire.send("/models")
        except Unanswered as error:
            raise self.unavailable("nothing answers") from error
        except Untaken:
            answer = None
        if answer is not None and answer.is_success:
            try:
                return read_models(parse_json(answer.body))
            except ValueError:
                answer = None
        if answer is not None:
            if answer.status in _UNKNOWN_PATHS or answer.status == 429:
                return []  # not every server lists its models, and one that is asked too much is there
            if answer.status in _NOT_THERE:
                raise self.unavailable(str(read_error(answer.status, answer.body)))
            if 300 <= answer.status < 400:
                refusal = await self._refusal(read_error(answer.status, answer.body), answer.headers)
                raise refusal.error if isinstance(refusal, Failure) and refusal.error else refusal
        await self._knock()
        return []

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._wire.close()

    def given_up(self, failure: Failure, attempts: int) -> ProviderError:
        """Return the error to raise after `attempts` attempts, the last of which failed so, when the failure does not
        concern one request alone."""
        if failure.error is not None:
            return failure.error
        if failure.is_unreadable:
            return self._not_understood(failure.why)
        if failure.kind == "refused":
            mend = f"; is the key right? set {KEY_VARIABLES[0]}" if failure.why.startswith("status 403") else ""
            return ProviderError(f"{self._where}: refused with {failure.why}{mend}")
        if failure.is_heard:
            return self.unavailable(f"{failure.why}, after {attempts} attempts", mend="see to it")
        return self.unavailable(f"no reply after {attempts} attempts ({failure.why})")

    def unavailable(self, what: str, mend: str = "start it (or use --model embedded)") -> ServerUnavailable:
        """Return the error for a server that does not answer, or keeps failing; `mend` says what the user can do."""
        return ServerUnavailable(f"model server {self.url}: {what}; {mend}, then run the same command again")

    async def _knock(self) -> None:
        """Send a request without anything in it, which costs nothing: what is refused for that can be asked.

        Raises what `models` raises.
        """
        for path in ("/chat/completions", "/completions"):
            try:
                answer = await self._wire.send(path, b"{}")
            except Unanswered as error:
                raise self.unavailable("nothing answers") from error
            except Untaken:
                return
            if answer.status in (401, 403):
                raise await self._refusal(read_error(401, answer.body), answer.headers)
            is_page = answer.is_success and answer.kind.startswith("text/html")
            if answer.status not in _UNKNOWN_PATHS and not is_page:
                return
        raise self._not_understood()

    def _body(self, request: Request) -> bytes:
        """The request as JSON. Halves of surrogate pairs, which models write and UTF-8 cannot hold, become `?`."""
        sampling = request.sampling
        body: dict[str, Any] = {
            "model": request.model,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": request.sampling_seed,
            **sampling.rare,
        }
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if isinstance(request.prompt, str):
            body["prompt"] = request.prompt
        else:
            body["messages"] = None
            if request.tools:
                body["tools"] = None
        extra: dict[str, Any] = json.loads(request.extra_body) if request.extra_body else {}
        self._constrain(request, body, extra)
        sent = self._parameters.shape(body | extra)
        written: dict[str, str] = {}
        if not isinstance(request.prompt, str) and "messages" not in extra:
            written["messages"] = f"[{request.sent_turns}]"
        if "tools" in body and "tools" not in extra:
            written["tools"] = _sent_tools(request.tools)
        return write_json(sent, written, ensure_ascii=False).encode("utf-8", "replace")

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

    async def _refusal(self, error: ServerError, headers: Mapping[str, str]) -> Exception:
        """What a server's error means: a `Failure`, or what `exchange` raises."""
        said = first_line(str(error))
        match error.kind:
            case "limited" | "overloaded" | "failed" | "refused":
                return Failure(error.kind, said, retry_after(headers), is_heard=True)
            case "too_long":
                return ContextOverflow(f"the prompt is too long for the model's window ({said})")
            case "credit":
                return OutOfCredit(f"{self._where}: nothing is left to pay with ({said}); see to the account, {_AGAIN}")
            case "key":
                return ProviderError(f"{self._where}: the key is refused ({said}); set {KEY_VARIABLES[0]}")
            case "moved":
                target = first_line(headers.get("location", "nowhere"))
                what = f"it sends us on to {target}; give the URL where the model is"
            case "parameter":
                what = f"refused with {said}; {error.mend}, {_AGAIN}"
            case _:
                names = await self._names() if error.kind == "model" else ""
                what = f"not found; check the URL (it has to end in /v1) and --model-name ({said}){names}"
        # A firewall says such things of one prompt, too.
        return Failure("refused", said, is_heard=True, error=ProviderError(f"{self._where}: {what}"))

    async def _names(self) -> str:
        """The models that are there, for who asked for another."""
        try:
            served = await self.models()
        except ProviderError:
            return ""
        more = f" and {len(served) - _MOST_NAMES} more" if len(served) > _MOST_NAMES else ""
        listed = first_line(", ".join(served[:_MOST_NAMES]))
        return f"; it serves {listed}{more}: add --model-name {first_line(served[0])}" if served else ""

    @property
    def _where(self) -> str:
        return f"{self.url}, model {self._model}"

    def _not_understood(self, why: str = "") -> ProviderError:
        return ProviderError(
            f"{self._where}: what it sends is no OpenAI-compatible reply; "
            f"check the URL (it has to end in /v1){why and f' ({why})'}"
        )


@functools.lru_cache(32)
def _sent_tools(tools: str) -> str:
    """The tools as they are sent, which are the same in every call of an episode."""
    return json.dumps(json.loads(tools), ensure_ascii=False)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait by `retry-after-ms` or `Retry-After` (seconds or HTTP date); None without these
    headers."""
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


def _unreadable(why: str = "") -> Failure:
    return Failure("failed", why, is_unreadable=True, is_heard=True)
