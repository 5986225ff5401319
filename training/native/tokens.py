"""Convert conversations with native tool calls to tokens by the model's own chat template, with the loss on what the
model wrote.

A server writes a conversation by the template of its model, with the tools, up to where the next turn begins; the model
writes that turn. So a turn is trained behind the very tokens that its server read. Turns of which each prompt begins
with all tokens before it are one row. Where a template shows an earlier turn otherwise (Qwen3's drops the thoughts
before the newest question), a new row begins there, without loss on what was trained before: trained as it was served.

A template that does not write what the model wrote, as one that knows no thoughts, or that ends turns with no token of
its own, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from trailforge.inference import ChatTurn
from trailforge.schemas import InvalidInput, NativeConversation, NativeMessage, SftRow, parse_json
from trailforge.training.masks import IGNORED, MaskedTokens, special_tokens


def native_tokens(
    tokenizer: Any, conversation: NativeConversation, train: Sequence[bool], template: str | None = None
) -> list[MaskedTokens]:
    """Return the rows of a conversation, each as tokens and labels; no turn has a loss in two of them.

    `train` says which messages have a loss. `template` is the chat template, by default the tokenizer's own. Raises
    `InvalidInput` for a template that is refused, and for one that refuses the conversation.
    """
    rows: list[MaskedTokens] = []
    for turn, (prompt, written) in _served(tokenizer, conversation, train, template):
        ids, learnt = _encode(tokenizer, prompt), _encode(tokenizer, written)
        if rows and ids[: len(rows[-1].input_ids)] == rows[-1].input_ids:
            before = rows.pop()
            ids, labels = ids[len(before.input_ids) :], before.labels
            rows.append(
                MaskedTokens(
                    input_ids=[*before.input_ids, *ids, *learnt],
                    labels=[*labels, *[IGNORED] * len(ids), *(learnt if train[turn] else [IGNORED] * len(learnt))],
                )
            )
        elif train[turn]:
            rows.append(MaskedTokens(input_ids=[*ids, *learnt], labels=[*[IGNORED] * len(ids), *learnt]))
    return [row for row in rows if any(row.mask)]


def conversation_of(row: SftRow) -> NativeConversation:
    """Return a row as its model was sent it: with its native calls, or as a plain chat without tools, in which results
    are turns of the user.
    """
    if row.native is not None:
        return row.native
    turns = (
        NativeMessage(role="user" if each.role == "tool" else each.role, content=each.content) for each in row.messages
    )
    return NativeConversation(tools="", messages=tuple(turns))


def server_messages(messages: Sequence[NativeMessage | ChatTurn]) -> list[dict[str, Any]]:
    """Return messages as a server passes them to a chat template: the arguments of calls are objects, not text."""
    made = []
    for message in messages:
        row: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.reasoning:
            row["reasoning_content"] = message.reasoning
        if message.tool_calls:
            row["tool_calls"] = [
                {
                    "id": each.id,
                    "type": "function",
                    "function": {"name": each.name, "arguments": _object(each.arguments)},
                }
                for each in message.tool_calls
            ]
        if message.tool_call_id:
            row["tool_call_id"] = message.tool_call_id
        made.append(row)
    return made


def render(
    tokenizer: Any,
    conversation: NativeConversation,
    end: int,
    template: str | None = None,
    *,
    add_generation_prompt: bool = False,
) -> str:
    """Return the text of the messages before `end` as a server would write it. Raises `InvalidInput` where the template
    refuses them.
    """
    try:
        return tokenizer.apply_chat_template(
            server_messages(conversation.messages[:end]),
            tools=json.loads(conversation.tools) if conversation.tools else None,
            chat_template=template,
            add_generation_prompt=add_generation_prompt,
            tokenize=False,
        )
    except Exception as error:  # whatever a template raises by itself
        raise InvalidInput(f"the chat template refuses this conversation: {error}", field="chat_template") from error


def _served(
    tokenizer: Any, conversation: NativeConversation, train: Sequence[bool], template: str | None
) -> Iterator[tuple[int, tuple[str, str]]]:
    """For each turn of the agent its message, its prompt and its text, from the first one with a loss on."""
    ends = special_tokens(tokenizer)
    first = next((turn for turn, flag in enumerate(train) if flag), len(train))
    for turn, message in enumerate(conversation.messages):
        if message.role != "assistant" or turn < first:
            continue
        prompt = render(tokenizer, conversation, turn, template, add_generation_prompt=True)
        written = render(tokenizer, conversation, turn + 1, template)
        if not written.startswith(prompt):
            raise InvalidInput(
                "the chat template begins a turn otherwise than it shows it later, so that no text of it can be "
                "trained; take tags (`training-set --writings tags`)",
                field="chat_template",
            )
        text = written[len(prompt) :].rstrip()
        if not any(text.endswith(token) for token in ends):
            raise InvalidInput(
                "the chat template ends a turn with no token of its own; take another model", field="chat_template"
            )
        if train[turn] and message.reasoning.strip() not in text:
            raise InvalidInput(
                "the chat template does not write the thoughts of a turn, which the model wrote; take tags "
                "(`training-set --writings tags`), or a template that writes `reasoning_content`",
                field="chat_template",
            )
        yield turn, (prompt, text)


def _encode(tokenizer: Any, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


def _object(arguments: str) -> Any:
    try:
        return parse_json(arguments or "{}")
    except ValueError:
        return arguments
