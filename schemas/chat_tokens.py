"""Special tokens of chat templates in text that somebody else wrote: none of them may begin or end a turn."""

from __future__ import annotations

import re

_ANGLED = (
    r"\|[^<>|\s]++\|>"  # ChatML, Llama 3 and 4, Phi, Granite, GLM, gpt-oss, Kimi …
    r"|｜[^<>｜\s]++｜>"  # DeepSeek, its bars full-width
    r"|/?(?:s|bos|eos|pad|unk)>|(?:sop|eop)>"  # Llama 2, Mistral, Gemma, ChatGLM
    r"|(?:start|end)_of_(?:turn|image)>"  # Gemma
    r"|</?SYS>>"  # Llama 2
)
_SQUARE = (
    r"/?INST\]"  # Llama 2, Mistral
    r"|/?(?:SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|THINK|gMASK)\]"  # Mistral, GLM
    r"|\|[^\[\]|\s]++\|\]"  # EXAONE
)
_CHAT_TOKEN = re.compile(rf"<(?:{_ANGLED})|\[(?:{_SQUARE})")
_ESCAPED_TOKEN = re.compile(rf"&lt;(?:{_ANGLED})|&#91;(?:{_SQUARE})")
_HARMLESS = {"<": "&lt;", "[": "&#91;"}


def escape_chat_tokens(text: str) -> str:
    """Make special tokens of whatever model plain text: `<|im_end|>` becomes `&lt;|im_end|>`, `[INST]` `&#91;INST]`."""
    return _CHAT_TOKEN.sub(lambda match: _HARMLESS[match[0][0]] + match[0][1:], text)


def restore_chat_tokens(text: str) -> str:
    """The reverse of `escape_chat_tokens`: the text that a model was shown and repeats. Other references stay."""
    return _ESCAPED_TOKEN.sub(lambda match: match[0].replace("&lt;", "<", 1).replace("&#91;", "[", 1), text)


def chat_token_in(text: str) -> str | None:
    """The first special token of a chat template, of whatever model, that a text holds; None when there is none."""
    found = _CHAT_TOKEN.search(text)
    return found[0] if found else None
