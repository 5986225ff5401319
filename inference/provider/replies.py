"""Replies as servers send them: texts or parts, thoughts in any of six fields, whole bodies or event streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trailforge.inference.provider.endings import TOOL_CALLS
from trailforge.schemas import parse_json

_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details", "thinking", "thinking_blocks", "thoughts")
"""Where thoughts stand beside a reply, the first that holds any: DeepSeek and vLLM; newer vLLM, Groq and OpenRouter;
OpenRouter; Ollama; LiteLLM; Gemini's gateways."""
_THOUGHT_TYPES = ("thinking", "reasoning", "redacted_thinking", "thought")
"""Types of parts that are thoughts, within a reply's content (Mistral's Magistral, Anthropic's gateways)."""
_TEXTS = ("text", "content", "thinking", "reasoning", "summary", "refusal")
"""Fields of a part that hold its text, the first that holds any."""
_MOST_DEPTH = 6
"""Parts in parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReply:
    """What stands in the body of a reply."""

    text: str
    reasoning: str
    finish_reason: str
    usage: Any
    """As it came."""
    error: Any = None
    """An error that came beside the reply, or in the middle of it."""


def read_body(content: bytes, kind: str) -> Any:
    """The JSON of a body; of an event stream (also one that nobody asked for) its parts joined to one reply.

    `kind`: its content type. Raises `ValueError` for what is neither.
    """
    start = content.lstrip()[:6]
    if kind.startswith("text/event-stream") or start.startswith((b"data:", b"event:", b"id:", b":")):
        return _join(_events(content))
    return parse_json(content)


def find_error(body: Any) -> Any:
    """The error in a body that says it has succeeded; None for a reply. A reply has choices, and no error beside."""
    if isinstance(body, list) and body and isinstance(body[0], dict):
        body = body[0] if "error" in body[0] else body
    if not isinstance(body, dict):
        return None
    if body.get("error"):
        return body
    status = body.get("base_resp")  # MiniMax
    if isinstance(status, dict) and status.get("status_code"):
        return status
    has_reply = isinstance(body.get("choices"), list) and body["choices"]
    return body if not has_reply and any(body.get(name) for name in ("message", "msg", "detail", "error_msg")) else None


def read_reply(body: Any, *, is_text: bool) -> ReadReply:
    """The first choice of a reply. `is_text`: of the completions endpoint.

    Raises `ValueError`, `KeyError`, `IndexError`, `TypeError` or `AttributeError` for what is none.
    """
    choice = body["choices"][0]
    called = False
    if is_text:
        text, reasoning = _text(choice["text"]), _first_thoughts(choice)
    else:
        message = choice["message"] if choice.get("message") is not None else choice["delta"]
        text, reasoning = _text(message.get("content")), _first_thoughts(message)
        text = text or _text(message.get("refusal"))
        called = bool(message.get("tool_calls") or message.get("function_call"))
    reason = choice.get("finish_reason")
    reason = _plain(reason.get("type") if isinstance(reason, dict) else reason)  # SGLang's own form is an object
    return ReadReply(
        text=text,
        reasoning=reasoning,
        finish_reason=TOOL_CALLS if called and not text and reason in ("", "stop") else reason,
        usage=body.get("usage"),
        error=choice.get("error"),
    )


def read_models(body: Any) -> list[str]:
    """Ids of models: objects or texts, in a list, under `data` or `models`, or as the names of an object's fields.

    Raises `ValueError` for what lists none.
    """
    listed = body
    if isinstance(body, dict):
        listed = next((body[name] for name in ("data", "models", "result") if body.get(name) is not None), None)
    if isinstance(listed, dict):
        return sorted(map(_plain, listed))
    if not isinstance(listed, list):
        raise ValueError("no list of models")
    names = (_model_name(each) for each in listed)
    return [name for name in names if name]


def _model_name(listed: Any) -> str:
    if isinstance(listed, dict):
        listed = next((listed[name] for name in ("id", "model", "name") if listed.get(name)), "")
    return _plain(listed) if isinstance(listed, str) else ""


def _first_thoughts(message: Mapping[str, Any]) -> str:
    beside = (flatten(message[name]) for name in _THOUGHTS if message.get(name))
    return next((text for text in beside if text), "") or flatten(_parts(message.get("content"), thoughts=True))


def _text(content: Any) -> str:
    """The text of a reply's content: of parts those that are no thoughts. Empty for null."""
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
    """The texts in a text, a part, or parts, one after the other; empty for null and for parts without a text.

    Raises `TypeError` for anything else, and for parts in parts without end.
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


def _events(content: bytes) -> list[Any]:
    """The data of a stream's events, `[DONE]` as None. Raises `ValueError` for an event that is no JSON."""
    events: list[Any] = []
    lines: list[str] = []
    for line in (*content.decode("utf-8", "replace").splitlines(), ""):
        name, _, value = line.partition(":")
        if name == "data":
            lines.append(value.removeprefix(" "))
        elif not line and lines:
            data, lines = "\n".join(lines).strip(), []
            events += [None if each == "[DONE]" else parse_json(each) for each in _documents(data)]
    return events


def _documents(data: str) -> list[str]:
    """The JSON texts of an event: some servers end events by one line break instead of two."""
    lines = [line for line in data.split("\n") if line.strip()]
    are_whole = len(lines) > 1 and all(line.startswith(("{", "[DONE]")) for line in lines)
    return lines if are_whole else [data] if data else []


def _join(events: Iterable[Any]) -> dict[str, Any]:
    """The one reply that a stream's events are the parts of. One that did not come to its end holds an error."""
    text: list[str] = []
    reasoning: list[str] = []
    reason, usage, error = None, None, None
    ended = called = has_choice = False
    for event in events:
        if event is None:
            ended = True
            continue
        if not isinstance(event, dict):
            raise ValueError("an event that is no object")
        error, usage = error or find_error(event) if "choices" not in event else error, event.get("usage") or usage
        error, has_choice = error or event.get("error"), has_choice or bool(event.get("choices"))
        for choice in event.get("choices") or ():
            if choice.get("index") not in (0, None):
                continue
            part = choice.get("delta") or choice.get("message") or {}
            text.append(_text(part.get("content")) or _text(part.get("refusal")) or _text(choice.get("text")))
            reasoning.append(_first_thoughts(part))
            called = called or bool(part.get("tool_calls") or part.get("function_call"))
            reason, error = choice.get("finish_reason") or reason, error or choice.get("error")
    if not (has_choice or error):
        raise ValueError("a stream without a choice")
    if not (ended or reason or error):
        error = {"message": "the stream broke off"}
    joined = "".join(text)
    message = {"content": joined, "reasoning_content": "".join(reasoning), "tool_calls": [{}] if called else None}
    choice = {"index": 0, "message": message, "text": joined, "finish_reason": reason, "error": error}
    return {"choices": [choice], "usage": usage, "error": error if not joined else None}
