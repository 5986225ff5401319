"""Tiny tokenizers with chat templates of the traits that the templates of models with native tool calls have.

`thinking`, as Qwen3's: thoughts before the newest question are dropped, results of one turn stand together.
`single_call`, as Llama 3's: tools stand in the first question, text is trimmed, a turn has one call, no thoughts.
`hermes`, as Hermes' and Qwen2.5's: calls between tags, several a turn, a system turn where there is none, no thoughts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tokenizers import Regex, pre_tokenizers

from tests.support.browse_agent import next_turn
from tests.support.tiny_tokenizer import tiny_tokenizer
from trailforge.inference.provider import chat_message
from trailforge.protocols.browse.actions import BrowseTurn
from trailforge.protocols.browse.native import TOOLS_JSON, write_native
from trailforge.schemas import NativeConversation, NativeMessage
from trailforge.training.masks import IGNORED, MaskedTokens
from trailforge.training.native.tokens import render

_TOOLS = (
    "{%- if tools %}{{- 'Tools:' }}{%- for tool in tools %}{{- '\n' + (tool | tojson) }}{%- endfor %}{{- '\n' }}"
    "{%- endif %}"
)
_CALL = (
    '{{- \'<tool_call>\n{"name": "\' + call.function.name + \'", "arguments": \' }}'
    "{{- call.function.arguments | tojson }}"
)
_CALLS = (
    "{%- for call in message.tool_calls or [] %}"
    "{%- if not loop.first or content %}{{- '\n' }}{%- endif %}" + _CALL + "{{- '}\n</tool_call>' }}{%- endfor %}"
)
_RESULTS = (
    "{%- elif message.role == 'tool' %}"
    "{%- if messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}"
    "{{- '\n<tool_response>\n' + message.content + '\n</tool_response>' }}"
    "{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\n' }}{%- endif %}"
    "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
_HEAD = (
    "{{- '<|im_start|>system\n' }}"
    "{%- if messages[0].role == 'system' %}{{- messages[0].content + '\n' }}{%- else %}{{- DEFAULT }}{%- endif %}"
    + _TOOLS
    + "{{- '<|im_end|>\n' }}"
)
_SAID = "{%- if message.role == 'user' %}{{- '<|im_start|>user\n' + message.content + '<|im_end|>\n' }}"
_THINKING = (
    _HEAD.replace("DEFAULT", "''") + "{%- set asked = namespace(last=0) %}"
    "{%- for message in messages if message.role == 'user' %}{%- set asked.last = message %}{%- endfor %}"
    "{%- set place = namespace(behind=false) %}"
    "{%- for message in messages %}"
    "{%- if message.role == 'user' and message is sameas asked.last %}{%- set place.behind = true %}{%- endif %}"
    + _SAID
    + "{%- elif message.role == 'assistant' %}{%- set content = message.content or '' %}"
    "{{- '<|im_start|>assistant\n' }}"
    "{%- if place.behind and (loop.last or message.reasoning_content) %}"
    "{{- '<think>\n' + (message.reasoning_content or '') + '\n</think>\n\n' }}{%- endif %}"
    "{{- content }}" + _CALLS + "{{- '<|im_end|>\n' }}" + _RESULTS
)
_HERMES = (
    _HEAD.replace("DEFAULT", "'You help.\n'")
    + "{%- for message in messages %}"
    + _SAID
    + "{%- elif message.role == 'assistant' %}{%- set content = message.content or '' %}"
    "{{- '<|im_start|>assistant\n' + content }}" + _CALLS + "{{- '<|im_end|>\n' }}" + _RESULTS
)
_MARK = "{{- '<|start_header_id|>' + ROLE + '<|end_header_id|>\n\n' }}"
_SINGLE_CALL = (
    "{{- bos_token }}{%- set asked = namespace(first=true) %}"
    "{%- if messages[0].role != 'user' and messages | length < 2 and tools %}"
    "{{- raise_exception('no first question to put tools in') }}{%- endif %}"
    "{%- for message in messages %}"
    "{%- if message.role == 'tool' %}"
    + _MARK.replace("ROLE", "'ipython'")
    + "{{- (message.content | tojson) + '<|eot_id|>' }}"
    "{%- elif message.tool_calls %}"
    "{%- if message.tool_calls | length > 1 %}{{- raise_exception('one call a turn') }}{%- endif %}"
    + _MARK.replace("ROLE", "'assistant'")
    + '{{- \'{"name": "\' + message.tool_calls[0].function.name + \'", "parameters": \' }}'
    "{{- (message.tool_calls[0].function.arguments | tojson) + '}<|eot_id|>' }}"
    "{%- else %}"
    + _MARK.replace("ROLE", "message.role")
    + "{%- if message.role == 'user' and asked.first %}{%- set asked.first = false %}"
    + _TOOLS
    + "{%- endif %}{{- message.content | trim + '<|eot_id|>' }}{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}" + _MARK.replace("ROLE", "'assistant'") + "{%- endif %}"
)
HEADERS = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
"""The marks of Llama 3."""
TEMPLATES = {"thinking": _THINKING, "single_call": _SINGLE_CALL, "hermes": _HERMES}
THINKING = "thinking"
WORDS = "|".join(
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+|\s+(?!\S)|\s+",
    )
)
"""Where the tokenizers of Llama 3 and Qwen cut text: line ends stand together, whatever follows them."""


def tokenizer_with(template: str, *special: str, end: str = "") -> Any:
    """A tiny tokenizer that cuts text as those of large models do. `end`: its end of sequence; empty: as it is."""
    tokenizer: Any = tiny_tokenizer(*special)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    if HEADERS[0] in special:
        tokenizer.bos_token = HEADERS[0]
    if end:
        tokenizer.eos_token = end
    tokenizer.chat_template = template
    return tokenizer


def native_tokenizer(model: str) -> Any:
    """The tokenizer of one of `TEMPLATES`, whose turns end with its end of sequence."""
    if model == "single_call":
        return tokenizer_with(TEMPLATES[model], *HEADERS, end="<|eot_id|>")
    return tokenizer_with(TEMPLATES[model], end="<|im_end|>")


def served(tokenizer: Any, requests: Any) -> list[list[int]]:
    """The tokens that a server reads of each request: vLLM takes the arguments of calls for objects."""
    found = []
    for request in requests:
        messages = [chat_message(turn) for turn in request.prompt]
        for message in messages:
            for call in message.get("tool_calls") or ():
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        tools = json.loads(request.tools) if request.tools else None
        text = tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=True, tokenize=False)
        found.append(tokenizer.encode(text, add_special_tokens=False))
    return found


def trained_turns(rows: list[MaskedTokens]) -> list[tuple[list[int], list[int]]]:
    """Of each turn with a loss the tokens before it, and its own."""
    found = []
    for row in rows:
        at = 0
        while at < len(row.labels):
            if row.labels[at] == IGNORED:
                at += 1
                continue
            end = at
            while end < len(row.labels) and row.labels[end] != IGNORED:
                end += 1
            found.append((row.input_ids[:at], row.labels[at:end]))
            at = end
    return found


def speak(tokenizer: Any, turn: BrowseTurn) -> str:
    """What a model writes for a turn, in the form of its chat template, with its end."""
    ids = tuple(f"call{number:05d}" for number in range(len(turn.calls)))
    opening = (NativeMessage(role="system", content="s"), NativeMessage(role="user", content="q"))
    messages = (*opening, write_native(replace(turn, call_ids=ids)))
    conversation = NativeConversation(tools=TOOLS_JSON, messages=messages)
    prompt = render(tokenizer, conversation, 2, add_generation_prompt=True)
    return render(tokenizer, conversation, 3).removeprefix(prompt).rstrip()


def plain_turn(prompt: str) -> BrowseTurn | str:
    """The agent of a road as a model without thoughts: it says aloud what it does, and makes one call a turn."""
    turn = next_turn(prompt)
    if isinstance(turn, str):
        return turn
    said = "" if turn.calls else turn.thought
    return replace(turn, thought="", said=said, calls=turn.calls[:1])


def agent_of(model: str) -> Callable[[str], BrowseTurn | str]:
    """The agent of a road as one of `TEMPLATES` can write it."""
    return next_turn if model == THINKING else plain_turn
