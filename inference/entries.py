"""What is kept of a call under its key, in whatever store: request and reply, packed.

What comes back out is sound or nothing. A file may be damaged, and earlier versions kept whatever a server said of its
tokens: neither may end a run, since a call that cannot be read can be made again.
"""

from __future__ import annotations

import json
import threading
from typing import Any, NamedTuple

from trailforge.inference.request import Reply, Request, family_of
from trailforge.inference.usage import estimated_tokens
from trailforge.schemas import OutputError, parse_json

FORMAT = 1
"""Of what is kept under a key; see `packed`."""
MOST_TOKENS = 2**31 - 1
"""Of a prompt or a completion: what a column of the type `integer` takes."""
_MOST_BYTES = 2**28
"""Unpacked. No server's reply is as long; what claims to be is not unpacked."""
_TEXTS = ("text", "reasoning", "finish_reason")
_COUNTS = ("prompt_tokens", "completion_tokens")
_compressors = threading.local()
"""One per thread, kept: to make one costs more than to compress a call."""


class Entry(NamedTuple):
    """What was kept of a call."""

    reply: Reply
    family: str
    """See `Request.family`."""
    length: int
    """See `least_length`."""


def packed(request: Request, reply: Reply) -> bytes:
    """Request and reply as they are kept. Raises `OutputError` for token counts that no ledger takes."""
    import zstandard

    for name in _COUNTS:
        if not _is_count(count := getattr(reply, name)):
            raise OutputError(f"the ledger takes no reply whose {name} is {count!r:.40}: report this as a defect")
    content = {"request": request.content, "reply": {name: getattr(reply, name) for name in _TEXTS + _COUNTS}}
    if not hasattr(_compressors, "one"):
        _compressors.one = zstandard.ZstdCompressor(level=3)
    return _compressors.one.compress(json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def unpacked(key: str, blob: object) -> Entry | None:
    """What `packed` made; None when it is damaged.

    A count of tokens that is none, as earlier versions kept it when a server sent it, is estimated from the text.
    """
    try:
        content = _content(blob)
        request, reply = content["request"], content["reply"]
        fields: dict[str, Any] = {name: reply[name] for name in _TEXTS}
        if not all(isinstance(text, str) for text in fields.values()):
            return None
        fields["prompt_tokens"] = _count(reply["prompt_tokens"], *_prompt_texts(request["prompt"]))
        fields["completion_tokens"] = _count(reply["completion_tokens"], fields["text"], fields["reasoning"])
        found, longest = Reply(key=key, from_ledger=True, **fields), request.get("max_tokens")
        length = least_length(found, longest) if _is_count(longest) else found.completion_tokens
        return Entry(found, family_of(request), length)
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


def is_complete(reply: Reply) -> bool:
    """The model ended it, and a longer `max_tokens` would not have changed it."""
    return reply.finish_reason == "stop"


def least_length(reply: Reply, max_tokens: int) -> int:
    """The least `max_tokens` that would have let it end as it did: hidden thoughts may be charged beyond its own."""
    return min(reply.completion_tokens, max_tokens)


def _content(blob: object) -> Any:
    """Raises `ValueError` for what is no JSON in zstd, or too large. A frame says how large it is inside."""
    import zstandard

    if not isinstance(blob, bytes):
        raise ValueError("it is no blob")
    try:
        if not 0 < zstandard.frame_content_size(blob) <= _MOST_BYTES:
            raise ValueError("it is too large, or does not say how large it is")
        return parse_json(zstandard.decompress(blob).decode("utf-8", "surrogatepass"))
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from None


def _prompt_texts(prompt: Any) -> list[str]:
    return [prompt] if isinstance(prompt, str) else [text for _, text in prompt]


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MOST_TOKENS


def _count(kept: Any, *texts: str) -> int:
    return kept if _is_count(kept) else estimated_tokens(*texts)
