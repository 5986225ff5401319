"""Bodies of replies in the forms that servers send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.inference.provider.replies import find_error, read_body, read_models, read_reply


def chat(message: dict[str, Any], **choice: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}, **choice}]}


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Let me see."}]}
FORMS: dict[str, tuple[dict[str, Any], str, str]] = {
    "a text": ({"content": "Lang"}, "Lang", ""),
    "null": ({"content": None}, "", ""),
    "parts": ({"content": [{"type": "text", "text": "La"}, {"type": "text", "text": "ng"}]}, "Lang", ""),
    "a part alone": ({"content": {"type": "text", "text": "Lang"}}, "Lang", ""),
    "texts": ({"content": ["La", "ng"]}, "Lang", ""),
    "parts with a thought": ({"content": [THINKING, {"type": "text", "text": "Lang"}]}, "Lang", "Let me see."),
    "an image beside": ({"content": [{"type": "image_url", "image_url": {}}, {"text": "Lang"}]}, "Lang", ""),
    "reasoning_content": ({"content": "Lang", "reasoning_content": "Let me see."}, "Lang", "Let me see."),
    "reasoning": ({"content": "Lang", "reasoning": "Let me see."}, "Lang", "Let me see."),
    "reasoning an object": ({"content": "Lang", "reasoning": {"content": "Let me see."}}, "Lang", "Let me see."),
    "reasoning details": (
        {
            "content": "Lang",
            "reasoning": None,
            "reasoning_details": [
                {"type": "reasoning.summary", "summary": "Let me "},
                {"type": "reasoning.text", "text": "see."},
                {"type": "reasoning.encrypted", "data": "aGk="},
            ],
        },
        "Lang",
        "Let me see.",
    ),
    "thinking": ({"content": "Lang", "thinking": "Let me see."}, "Lang", "Let me see."),
    "thinking blocks": (
        {"content": "Lang", "thinking_blocks": [{"type": "thinking", "thinking": "Let me see.", "signature": "x"}]},
        "Lang",
        "Let me see.",
    ),
    "a refusal": ({"content": None, "refusal": "I cannot."}, "I cannot.", ""),
}


@pytest.mark.parametrize("form", FORMS)
def test_text_and_thoughts_are_found_in_every_form(form: str) -> None:
    message, text, reasoning = FORMS[form]
    read = read_reply(chat(message), is_text=False)
    assert (read.text, read.reasoning, read.finish_reason) == (text, reasoning, "stop")


@pytest.mark.parametrize("content", [7, True, [7], [["Lang"]], {"text": 7}])
def test_a_content_of_numbers_is_no_reply(content: object) -> None:
    with pytest.raises(TypeError):
        read_reply(chat({"content": content}), is_text=False)


def test_a_call_of_tools_without_a_text_says_so_whatever_its_finish_reason() -> None:
    called = {"content": None, "tool_calls": [{"function": {"name": "search", "arguments": "{}"}}]}
    assert read_reply(chat(called), is_text=False).finish_reason == "tool_calls"
    assert read_reply(chat(called | {"content": "Lang"}), is_text=False).finish_reason == "stop"


def test_a_finish_reason_may_be_an_object() -> None:
    assert read_reply(chat({"content": "a"}, finish_reason={"type": "length"}), is_text=False).finish_reason == "length"


# Event streams


def stream(*events: object, end: str = "data: [DONE]\n\n", line: str = "\n\n") -> bytes:
    return "".join(f"data: {json.dumps(event)}{line}" for event in events).encode() + end.encode()


def delta(text: str | None = None, reason: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text, **more}, "finish_reason": reason}]}


USAGE = {"prompt_tokens": 3, "completion_tokens": 2}
STREAMS = {
    "as OpenAI's": stream(delta("", role="assistant"), delta("La"), delta("ng"), delta(reason="stop")),
    "with usage at the end": stream(delta("Lang"), delta(reason="stop"), {"choices": [], "usage": USAGE}),
    "without a last event": stream(delta("La"), delta("ng", "stop"), end=""),
    "with comments and names": b": wait\n\nevent: chunk\n" + stream(delta("La"), delta("ng", "stop")),
    "with carriage returns": stream(delta("La"), delta("ng", "stop"), line="\r\n\r\n"),
    "one line break after an event": stream(delta("La"), delta("ng", "stop"), line="\n"),
    "completions": stream({"choices": [{"text": "La"}]}, {"choices": [{"text": "ng", "finish_reason": "stop"}]}),
    "a whole message": stream(chat({"content": "Lang"})),
    "other choices beside": stream(delta("Lang", "stop"), {"choices": [{"index": 1, "delta": {"content": "No"}}]}),
}


@pytest.mark.parametrize("form", STREAMS)
@pytest.mark.parametrize("kind", ["text/event-stream; charset=utf-8", "application/json"])
def test_a_stream_is_joined_to_one_reply(form: str, kind: str) -> None:
    body = read_body(STREAMS[form], kind)
    assert find_error(body) is None
    read = read_reply(body, is_text=form == "completions")
    assert (read.text, read.finish_reason, read.error) == ("Lang", "stop", None)
    assert read.usage == (USAGE if "usage" in form else None)


@given(st.lists(st.text(max_size=5), min_size=1, max_size=8), st.lists(st.text(max_size=5), max_size=4))
def test_a_stream_holds_what_its_parts_hold(parts: list[str], thoughts: list[str]) -> None:
    events = [delta(reasoning_content=each) for each in thoughts] + [delta(each) for each in parts]
    read = read_reply(read_body(stream(*events, delta(reason="length")), "text/event-stream"), is_text=False)
    assert (read.text, read.reasoning) == ("".join(parts), "".join(thoughts))
    assert read.finish_reason == "length"


def test_a_stream_that_breaks_off_is_no_whole_reply() -> None:
    read = read_reply(read_body(stream(delta("La"), end=""), "text/event-stream"), is_text=False)
    assert read.error == {"message": "the stream broke off"}


def test_an_error_in_a_stream_is_one_of_the_reply_that_it_breaks_off_else_of_the_call() -> None:
    error = {"error": {"message": "no kernel", "code": 500}}
    broken = read_reply(read_body(stream(delta("La"), error, end=""), "text/event-stream"), is_text=False)
    assert broken.error
    assert find_error(read_body(stream(error, end=""), "text/event-stream"))


@pytest.mark.parametrize("content", [b"", b"data: \n\n", b"data: {\n\n", b"data: [DONE]\n\n", b"data: 7\n\n"])
def test_a_stream_without_a_choice_is_no_reply(content: bytes) -> None:
    with pytest.raises((ValueError, KeyError, IndexError, TypeError, AttributeError)):
        read_reply(read_body(content, "text/event-stream"), is_text=False)


# Errors inside a success, and models


@pytest.mark.parametrize(
    "body",
    [
        {"choices": None, "error": {"message": "Provider returned error", "code": 429}},
        {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
        {"message": "upstream timed out"},
        {"detail": "Not authenticated"},
        [{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}],
    ],
)
def test_an_error_with_status_200_is_found(body: Any) -> None:
    assert find_error(body) is not None


@pytest.mark.parametrize("more", [{}, {"error": None}, {"base_resp": {"status_code": 0}}, {"message": ""}])
def test_a_reply_is_no_error(more: dict[str, Any]) -> None:
    assert find_error(chat({"content": "Lang"}) | more) is None


@pytest.mark.parametrize(
    "body",
    [
        {"object": "list", "data": [{"id": "a"}, {"id": "b"}]},
        [{"id": "a"}, {"id": "b"}],
        {"models": [{"name": "a"}, {"model": "b"}]},
        {"data": ["a", "b"]},
        ["a", "b", 7, {}],
        {"data": {"a": {}, "b": {}}},
    ],
)
def test_models_are_listed_in_any_form(body: Any) -> None:
    assert read_models(body) == ["a", "b"]


@pytest.mark.parametrize("body", [{}, "a", None, {"data": None}, {"detail": "Not Found"}])
def test_what_lists_no_models_is_told_apart(body: Any) -> None:
    with pytest.raises(ValueError):
        read_models(body)
