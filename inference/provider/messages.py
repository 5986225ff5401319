"""Write the turns of a conversation in the form in which OpenAI-compatible servers take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trailforge.inference.request import ChatTurn
    from trailforge.schemas import NativeMessage


def chat_message(turn: ChatTurn | NativeMessage) -> dict[str, Any]:
    """Return a turn in OpenAI's form; one without tools has only role and content."""
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
