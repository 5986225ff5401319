"""The tokens that a reply is charged: as its server reports them where that can be, else as they are counted here.

Caps hold by these figures, and the ledger keeps them for ever: a server that says nothing, or nonsense, must not make a
call free, nor a row unreadable; nor may one that says more than was asked for be taken at less.
"""

from __future__ import annotations

from typing import Any

from trailforge.inference.budget import worst_case
from trailforge.inference.request import Reply, Request

MOST_REPORTED = 2**20
"""Of a prompt, a completion, or both: more is nonsense, which may not use up a cap."""
_LONGEST_TOKEN = 128
"""Bytes; no vocabulary has longer ones."""
_TEMPLATE_TOKENS = 4096
"""What a server's chat template may add to a prompt."""


def charged_tokens(usage: Any, request: Request, reply: Reply) -> tuple[int, int, bool]:
    """(prompt, completion, whether both are as reported) by a reply's `usage`, each figure judged by itself.

    One that cannot be is counted here. One that is larger than was asked for is charged: servers bill thoughts that
    they hide, some of them in `total_tokens` alone.
    """
    reported = usage if isinstance(usage, dict) else {}
    prompt, completion = _count(reported, "prompt_tokens"), _count(reported, "completion_tokens")
    is_prompt, is_completion = _could_be_prompt(prompt, request), _could_be_completion(completion, request, reply)
    charged_prompt, charged_completion = prompt, completion
    if not (is_prompt and is_completion):
        own_prompt, own_completion = own_tokens(request, reply)
        charged_prompt = prompt if is_prompt else max(prompt, own_prompt)
        charged_completion = completion if is_completion else max(completion, own_completion)
    charged_completion = max(charged_completion, _count(reported, "total_tokens") - charged_prompt)
    return charged_prompt, charged_completion, (charged_prompt, charged_completion) == (prompt, completion)


def _count(reported: dict[str, Any], name: str) -> int:
    """-1 for what is no count of tokens."""
    count = reported.get(name)
    return count if type(count) is int and 0 <= count <= MOST_REPORTED else -1  # a bool is none


def _could_be_prompt(count: int, request: Request) -> bool:
    sent = _prompt_bytes(request)
    most = sent + len(request.json_schema or "") + len(request.grammar or "") + _TEMPLATE_TOKENS
    return sent <= count * _LONGEST_TOKEN and count <= most


def _could_be_completion(count: int, request: Request, reply: Reply) -> bool:
    return _reply_bytes(reply) <= count * _LONGEST_TOKEN and count <= request.sampling.max_tokens


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
