"""Read the bodies of replies: texts or parts, thoughts in any of six fields, whole bodies or event streams."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trailforge.inference.provider.endings import TOOL_CALLS
from trailforge.inference.provider.errors import has_words
from trailforge.schemas import ToolCall, parse_json

_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details", "thinking", "thinking_blocks", "thoughts")
"""Where thoughts stand beside a reply, the first that holds any: DeepSeek and vLLM; newer vLLM, Groq and OpenRouter;
OpenRouter; Ollama; LiteLLM; Gemini's gateways."""
_THOUGHT_TYPES = ("thinking", "reasoning", "redacted_thinking", "thought")
"""Types of parts that are thoughts, within a reply's content (Mistral's Magistral, Anthropic's gateways)."""
_TEXTS = ("text", "content", "thinking", "reasoning", "summary", "refusal", "value", "parts")
"""Fields of a part that hold its text, the first that holds any."""
_LISTS = ("data", "models", "result", "resources", "endpoints")
"""Fields that hold the list of models: OpenAI; Ollama and Gemini; Cloudflare; watsonx; Databricks."""
_NAMES = ("id", "model", "model_id", "name", "key")
_MOST_DEPTH = 6
"""Parts in parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReply:
    """Fields that were read from the body of a reply."""

    text: str
    reasoning: str
    finish_reason: str
    usage: Any
    """The body's `usage` as it came."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The tools that it calls."""
    error: Any = None
    """An error that came beside the reply, or in the middle of it; None when there was none."""


def read_body(content: bytes, kind: str) -> Any:
    """Parse the JSON of a body; the parts of an event stream, even one that was not asked for, are joined to one reply.

    `kind`: content type of the body. Raises `ValueError` for what is neither.
    """
    text = content.decode("utf-8-sig", "replace").strip()
    is_stream = kind.startswith("text/event-stream") or text.startswith(("data:", "event:", "id:", "retry:", ":"))
    if not is_stream or text.startswith(("{", "[")):
        try:
            return parse_json(content)
        except ValueError:  # lines of JSON, or one that is followed by an end of stream
            if not is_stream and ("choices" not in text or not re.search(r"[\r\n]", text)):
                raise
    return _join(_events(text))


def find_error(body: Any) -> Any:
    """Return the error in a body with a successful status; None for a reply, and for a body in no known form."""
    if isinstance(body, list) and body and isinstance(body[0], dict):
        body = body[0] if "error" in body[0] else body
    if not isinstance(body, dict):
        return None
    has_reply = isinstance(body.get("choices"), list) and body["choices"]
    if (error := body.get("error")) and (not has_reply or has_words({"error": error})):
        return body
    status = body.get("base_resp")  # MiniMax
    if isinstance(status, dict) and status.get("status_code"):
        return status
    return body if not has_reply and has_words(body) else None


def read_reply(body: Any, *, is_text: bool) -> ReadReply:
    """Read the first choice of a reply. `is_text`: it comes from the completions endpoint.

    Raises `ValueError`, `KeyError`, `IndexError`, `TypeError` or `AttributeError` for a body that is no reply.
    """
    choice = body["choices"][0]
    calls: tuple[ToolCall, ...] = ()
    if is_text:
        text, reasoning = _text(choice["text"]), _first_thoughts(choice)
    else:
        message = choice["message"] if choice.get("message") is not None else choice["delta"]
        text, reasoning = _text(message.get("content")), _first_thoughts(message)
        text = text or _text(message.get("refusal"))
        calls = _calls(message)
    reason = choice.get("finish_reason")
    reason = _plain(reason.get("type") if isinstance(reason, dict) else reason)  # SGLang's own form is an object
    return ReadReply(
        text=text,
        reasoning=reasoning,
        finish_reason=TOOL_CALLS if calls and not text and reason in ("", "stop") else reason,
        usage=body.get("usage"),
        tool_calls=calls,
        error=choice.get("error"),
    )


def read_models(body: Any) -> list[str]:
    """Return the ids of models: objects or texts, in a list, under `data` or `models`, or as the names of an object's
    fields.

    Raises `ValueError` for a body that lists none.
    """
    listed = body
    while isinstance(listed, dict) and (held := [name for name in _LISTS if listed.get(name) is not None]):
        listed = listed[held[0]]
    if isinstance(listed, dict) and listed is not body:
        return sorted(map(_plain, listed))
    if not isinstance(listed, list):
        raise ValueError("no list of models")
    names = (_model_name(each) for each in listed)
    return [name for name in names if name]


def _model_name(listed: Any) -> str:
    if isinstance(listed, dict):
        listed = next((listed[name] for name in _NAMES if listed.get(name)), "")
    return _plain(listed) if isinstance(listed, str) else ""


def _calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    """The tools that a message calls, in OpenAI's form now or of before. Raises `TypeError` for what is no call."""
    listed = message.get("tool_calls") or []
    if not listed and message.get("function_call"):
        listed = [{"function": message["function_call"]}]
    return tuple(map(_call, listed if isinstance(listed, list) else [listed]))


def _call(listed: Any) -> ToolCall:
    if not isinstance(listed, dict):
        raise TypeError(f"expected a tool call, got {type(listed).__name__}")
    function = listed["function"] if isinstance(listed.get("function"), dict) else listed
    arguments = function.get("arguments", function.get("input"))
    if not isinstance(arguments, str):  # parsed by the server, as Ollama does
        arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id=_plain(listed.get("id")), name=_plain(function.get("name")), arguments=_plain(arguments))


def _first_thoughts(message: Mapping[str, Any]) -> str:
    beside = (flatten(message[name]) for name in _THOUGHTS if message.get(name) not in (None, True, False))
    return next((text for text in beside if text), "") or flatten(_parts(message.get("content"), thoughts=True))


def _text(content: Any) -> str:
    """The text of a reply's content: of parts those that are no thoughts. Empty for null."""
    if isinstance(content, dict) and not any(name in content for name in ("type", *_TEXTS)):
        return _plain(json.dumps(content, ensure_ascii=False))  # the JSON that was asked for, parsed by the server
    return flatten(content if content is None or isinstance(content, str) else _parts(content, thoughts=False))


def _parts(content: Any, *, thoughts: bool) -> list[Any]:
    """The parts of a content that are thoughts, or those that are none. Raises `TypeError` for what has no parts."""
    if content is None or isinstance(content, str):
        return [] if thoughts else [content]
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list) or not all(isinstance(part, str | dict) for part in content):
        raise TypeError(f"expected a text or parts, got {type(content).__name__}")
    return [part for part in content if (isinstance(part, dict) and part.get("type") in _THOUGHT_TYPES) == thoughts]


def flatten(value: Any, depth: int = 0) -> str:
    """Join the texts in a text, a part, or parts; empty for null and for parts without a text.

    Raises `TypeError` for anything else, and for parts nested too deep.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return _plain(value)
    if depth >= _MOST_DEPTH:
        raise TypeError("parts within parts")
    if isinstance(value, list):
        return "".join(flatten(each, depth + 1) for each in value)
    if isinstance(value, dict):
        held = (value[name] for name in _TEXTS if value.get(name))
        return flatten(next(held, None), depth + 1)
    raise TypeError(f"expected a text, got {type(value).__name__}")


def _plain(value: Any) -> str:
    """A text that files take, empty for null. Raises `TypeError` for anything else."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"expected a text, got {type(value).__name__}")
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


# Event streams

_DONE, _END = "[DONE]", object()
_BROKE_OFF = "the stream broke off"


def _events(text: str) -> Iterator[Any]:
    """The objects that a stream's events hold, `[DONE]` as None."""
    lines: list[str] = []
    # Not splitlines(): JSON may hold U+2028 and U+0085 as they are.
    for line in (*re.split(r"\r\n|\n|\r", text), ""):
        name, _, value = line.partition(":")
        if name == "data":
            lines.append(value.strip())
        elif line.startswith("{"):  # without its name
            lines.append(line)
        elif not line and lines:
            yield from _read_event(lines)
            lines = []


def _read_event(lines: list[str]) -> Iterator[Any]:
    """One event may have several lines of data; some servers end events by one line break instead of two."""
    try:
        documents = [parse_json("\n".join(lines))]
    except ValueError:
        documents = [_read_line(line) for line in lines]
    for document in documents:
        for each in document if isinstance(document, list) else [document]:
            if each is _END or each == _DONE:
                yield None
            elif isinstance(each, dict):  # else a heartbeat, as `null` and `ping`
                yield each


def _read_line(line: str) -> Any:
    if line.upper() in (_DONE, "DONE"):
        return _END
    try:
        return parse_json(line)
    except ValueError:
        return {"error": {"message": _BROKE_OFF}} if line.startswith(("{", "[")) else None


def _add_calls(calls: dict[int, dict[str, str]], part: Mapping[str, Any]) -> None:
    """Add what an event brings of tool calls: its id and name once, its arguments piece by piece."""
    listed = part.get("tool_calls") or ()
    if not listed and part.get("function_call"):
        listed = [{"index": 0, "function": part["function_call"]}]
    for number, piece in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(piece, dict):
            continue
        index = piece.get("index")
        call, read = calls.setdefault(index if type(index) is int else number, {}), _call(piece)
        call["id"] = call.get("id") or read.id
        call["name"] = call.get("name") or read.name
        call["arguments"] = call.get("arguments", "") + read.arguments


def _join(events: Iterable[Any]) -> dict[str, Any]:
    """The one reply that a stream's events are the parts of. One that did not come to its end holds an error.

    Raises `ValueError` for a stream without any.
    """
    text: list[str] = []
    reasoning: list[str] = []
    reason, usage, error, said = None, None, None, None
    ended = has_choice = False
    calls: dict[int, dict[str, str]] = {}
    for event in events:
        if event is None:
            ended = True
            continue
        usage, error = event.get("usage") or usage, error or event.get("error")
        if not event.get("choices"):
            said = said or find_error(event)
            continue
        has_choice = True
        for choice in event["choices"]:
            if not isinstance(choice, dict) or choice.get("index") not in (0, None):
                continue
            part = choice.get("delta") or {}
            if not part and not any(text):  # the whole at once
                part = choice.get("message") or {}
            text.append(_text(part.get("content")) or _text(part.get("refusal")) or _text(choice.get("text")))
            reasoning.append(_first_thoughts(part))
            _add_calls(calls, part)
            reason, error = choice.get("finish_reason") or reason, error or choice.get("error")
    if not (ended or reason):
        error = error or said or {"message": _BROKE_OFF}
    error = error or (said if not has_choice else None)
    if not (has_choice or said or error) or (error == {"message": _BROKE_OFF} and not has_choice):
        raise ValueError("a stream without a choice")
    joined = "".join(text)
    message = {
        "content": joined,
        "reasoning_content": "".join(reasoning),
        "tool_calls": [calls[index] for index in sorted(calls)],
    }
    choice = {"index": 0, "message": message, "text": joined, "finish_reason": reason, "error": error}
    return {"choices": [choice], "usage": usage, "error": error if not joined else None}
