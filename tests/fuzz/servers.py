"""Targets that read what a model server sends: bodies, event streams, errors, lists of models."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fuzz.target import Target
from trailforge.inference.provider.errors import read_error
from trailforge.inference.provider.replies import find_error, read_body, read_models, read_reply
from trailforge.inference.provider.wire import first_line
from trailforge.schemas import parse_json

_UNREADABLE = (ValueError, KeyError, IndexError, TypeError, AttributeError)
"""What `Endpoint.exchange` takes for no reply."""
_TOKENS = (
    *(b"{", b"}", b"[", b"]", b'"', b",", b":", b"null", b"true", b"7", b"\n", b"\n\n", b"\r\n", b" ", b"\xff"),
    *(b"data: ", b"data:", b": x\n\n", b"event: e\n", b"[DONE]", b'"choices": [', b'"delta": {', b'"message": {'),
    *(b'"content": ', b'"reasoning": ', b'"type": "text"', b'"text": ', b'"finish_reason": ', b'"error": '),
    *(b'"code": ', b'"message": ', b'"detail": ', b'"raw": ', b"429", b"402", b'"model"', b'"loc": ["body", "seed"]'),
    *(b"<html>", b"<title>", b"<script ", b"context length", b"prompt ", b"model ", b"exceeds the ", b"reduce the "),
)
_REPLY = {"choices": [{"message": {"content": [{"type": "text", "text": "a"}]}, "finish_reason": "stop"}], "usage": {}}
_EVENT = {"choices": [{"delta": {"content": "a", "reasoning_content": "b"}}]}
_ERROR = {
    "error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": '{"error": {"message": "x"}}'}}
}
_INVALID = {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs", "input": 1}]}


def _body(case: bytes, _: Path) -> None:
    for kind in ("application/json", "text/event-stream"):
        for is_text in (False, True):
            try:
                body = read_body(case, kind)
                if (error := find_error(body)) is not None:
                    read_error(200, error)
                else:
                    json.dumps(read_reply(body, is_text=is_text).text).encode()
            except _UNREADABLE:
                continue


def _error(case: bytes, _: Path) -> None:
    for status in (200, 400, 429, 500):
        error = read_error(status, case)
        assert not set(error.words) & set("\x00\x1b\r\n") and len(first_line(str(error))) < 400
        assert error.mend or error.kind != "parameter"


def _models(case: bytes, _: Path) -> None:
    assert all(isinstance(name, str) for name in read_models(parse_json(case)))


_LONG = b"maximum context length prompt is model exceeds the reduce the input tokens "
TARGETS = (
    Target(
        name="server_reply",
        run=_body,
        may_raise=(),
        samples=lambda: [json.dumps(_REPLY).encode(), f"data: {json.dumps(_EVENT)}\n\ndata: [DONE]\n\n".encode()],
        tokens=_TOKENS,
        aimed=lambda: [b"data: {}\n" * 20_000, b"data: " + b"[" * 100_000, b": \n" * 50_000],
    ),
    Target(
        name="server_error",
        run=_error,
        may_raise=(),
        samples=lambda: [json.dumps(_ERROR).encode(), json.dumps(_INVALID).encode(), b"<title>502 Bad Gateway</title>"],
        tokens=_TOKENS,
        aimed=lambda: [
            json.dumps({"error": {"message": (_LONG * 20_000).decode()}}).encode(),
            b"<script" * 100_000,
            json.dumps({"detail": [{"msg": "x" * 1000}] * 10_000}).encode(),
        ],
    ),
    Target(
        name="server_models",
        run=_models,
        may_raise=(ValueError,),
        samples=lambda: [b'{"data": [{"id": "a"}]}', b'[{"id": "a"}]', b'{"models": [{"name": "a"}]}'],
        tokens=_TOKENS,
    ),
)
