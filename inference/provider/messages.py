"""A turn of a conversation as OpenAI-compatible servers are sent it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trailforge.inference.request import ChatTurn
    from trailforge.schemas import NativeMessage


def chat_message(turn: ChatTurn | NativeMessage) -> dict[str, Any]:
    """A turn in OpenAI's form; what has no tools is role and content alone."""
    message: dict[str, Any] = {"role": turn.role, "content": turn.content}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.tool_calls
        ]
    if turn.tool_call_id:
        message["tool_call_id"] = turn.tool_call_id
    return message
