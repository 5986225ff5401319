"""Adapt requests to servers that do not accept OpenAI's original form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trailforge.schemas import InvalidInput

SAMPLED = ("temperature", "top_p", "max_tokens", "seed", "stop", "top_k", "repetition_penalty")
"""Parameters that control how a reply is sampled."""
FORMED = ("response_format", "structured_outputs", "json_schema", "grammar")
"""Parameters that control the form of a reply. Replies are checked against that form even when these are left out."""
_STREAMED = "stream_options"
KNOWN = (*SAMPLED, *FORMED, _STREAMED)
"""Parameters that can be left out or renamed; the rest of a request is the model and the prompt."""

_NAMED = (*KNOWN, "stream", "encoding_format")
"""What errors are about."""
_ALIASES = {
    name: "max_tokens" for name in ("max_completion_tokens", "max_new_tokens", "max_output_tokens", "maxOutputTokens")
} | {"topP": "top_p", "responseFormat": "response_format", "response_schema": "response_format"}
"""What a gateway calls them on their way."""
_WORDS = ("stop", "seed", "stream", "grammar")
"""Words of other sentences, too: they count where they are marked as a parameter."""
_COMPLAINT = re.compile(
    r"support|unrecognized|unknown|unexpected|invalid|not permitted|not allowed|extra_forbidden|only|must|should be"
    r"|cannot|range|too (?:large|small|high|low|many)|at most|unavailable|deprecated|no longer",
    re.IGNORECASE,
)
_WANTS_STREAM = re.compile(
    r"\bstream['\"`]?\s*(?:=|:|to|is|must be)\s*['\"`]?true|only supports? stream|enable the stream"
    r"|stream(?:ing)? (?:mode|is required)",
    re.IGNORECASE,
)


def find_parameter(named: Iterable[str], text: str) -> str:
    """Return the parameter of a request that a server's error is about: one that the error's own fields name (`named`),
    or one of which its message (`text`) complains; empty for none."""
    if found := [name for each in named if (name := _ALIASES.get(each, each)) in _NAMED]:
        return found[-1]
    if _WANTS_STREAM.search(text):
        return "stream"
    if not _COMPLAINT.search(text):
        return ""
    said = {name for name in _NAMED if _is_named(name, text)}
    said |= {name for alias, name in _ALIASES.items() if _is_named(alias, text)}
    first = next((name for name in (*SAMPLED, *_NAMED) if name in said), "")
    return "top_p" if {"temperature", "top_p"} <= said else first


def _is_named(name: str, text: str) -> bool:
    if name not in _WORDS:
        return bool(re.search(rf"(?<![\w.]){name}(?!\w)", text))
    marked = rf"['\"`\[]{name}['\"`\]]|\b(?:parameters?|arguments?|field|property|name|model):? {name}\b"
    return bool(re.search(rf"{marked}|\b{name} (?:is|must|parameter|argument|sequences?|value)\b", text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Settings of how requests are written and finish reasons read for one server.

    Omitted parameters are part of a call's key in the ledger, since they may change the reply; renamed ones, and
    whether replies are streamed, are not.
    """

    stream: bool = False
    """Ask for replies as event streams, for servers that send nothing else."""
    omit: tuple[str, ...] = ()
    """Names of parameters that are not sent, from `KNOWN`, such as `[seed]`. Without `stop`, replies are cut at the
    stop strings after they arrive."""
    rename: dict[str, str] = field(default_factory=dict, hash=False)
    """Names under which the server knows parameters, such as `{max_tokens: max_completion_tokens}`."""
    finish_reasons: dict[str, Literal["whole", "cut"]] = field(default_factory=dict, hash=False)
    """Meaning of finish reasons that no built-in table has, such as `{finished: whole}`."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for a name that is never sent, and for two parameters of one name."""
        for setting, names in (("omit", self.omit), ("rename", self.rename)):
            if unknown := [name for name in names if name not in KNOWN]:
                raise InvalidInput(f"{unknown[0]!r} is never sent; choose of {', '.join(KNOWN)}", field=setting)
        sent = [self.rename.get(name, name) for name in KNOWN if name not in self.omit]
        if twice := next((name for name in sent if sent.count(name) > 1 or name in ("model", "messages")), None):
            raise InvalidInput(
                f"two parameters would be called {twice!r}; rename one of them otherwise", field="rename"
            )

    @property
    def reply_settings(self) -> dict[str, Any]:
        """Return the settings that affect replies or how they are read; empty for a server of the usual form."""
        found: dict[str, Any] = {
            "omit": list(self.left_out),
            "finish_reasons": dict(sorted(self.finish_reasons.items())),
        }
        return {name: value for name, value in found.items() if value}

    @property
    def left_out(self) -> tuple[str, ...]:
        """Return the omitted parameters that may change a reply, sorted."""
        return tuple(sorted({name for name in self.omit if name != _STREAMED}))

    def shape(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body of a request as this server needs it. A null, which `extra_body` may contain, omits a
        parameter, too.
        """
        streamed = {"stream": True, _STREAMED: {"include_usage": True}} if self.stream else {}
        sent = {**body, **streamed}
        left_out = {*self.omit, *(name for name in KNOWN if sent.get(name, ...) is None)}
        return {self.rename.get(name, name): value for name, value in sent.items() if name not in left_out}

    def read_reason(self, reason: str) -> str:
        """Translate a finish reason into OpenAI's words where the settings declare it; other reasons are returned
        unchanged.
        """
        ending = self.finish_reasons.get(reason)
        return reason if ending is None else "stop" if ending == "whole" else "length"
