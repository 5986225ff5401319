"""The tokens that a reply is charged: as its server reports them where that can be, else as they are counted here.

Caps hold by these figures, and the ledger keeps them for ever: a server that says nothing, or nonsense, must not make a
call free, nor a row unreadable.
"""

from __future__ import annotations

from typing import Any

from inference.budget import worst_case
from inference.request import Reply, Request

_LONGEST_TOKEN = 128
"""Bytes; no vocabulary has longer ones."""
_TEMPLATE_TOKENS = 4096
"""What a server's chat template may add to a prompt."""


def reported_tokens(usage: Any, request: Request, reply: Reply) -> tuple[int, int] | None:
    """(prompt, completion) of a reply's `usage`; None when it is absent, or says what cannot be."""
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if type(prompt) is not int or type(completion) is not int:  # a bool is none
        return None
    sent, received = _prompt_bytes(request), _reply_bytes(reply)
    is_possible = (
        sent <= prompt * _LONGEST_TOKEN
        and prompt <= sent + len(request.json_schema or "") + len(request.grammar or "") + _TEMPLATE_TOKENS
        and received <= completion * _LONGEST_TOKEN
        and 0 <= completion <= request.sampling.max_tokens
    )
    return (prompt, completion) if is_possible else None


def own_tokens(request: Request, reply: Reply) -> tuple[int, int]:
    """(prompt, completion), counted high: what caps have set aside for the prompt, a token per two bytes received.

    The reply's share is no more than `max_tokens`, unless it is plainly longer than that allows.
    """
    received = _reply_bytes(reply)
    completion = min(-(-received // 2), max(request.sampling.max_tokens, received // 4))
    return worst_case(request).prompt_tokens, completion


def _prompt_bytes(request: Request) -> int:
    prompt = request.prompt
    return _size(prompt) if isinstance(prompt, str) else sum(_size(turn.content) for turn in prompt)


def _reply_bytes(reply: Reply) -> int:
    return _size(reply.text) + _size(reply.reasoning)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
