"""What a server says has gone wrong: its own sentence, and what kind of matter it is.

Servers say it in a dozen shapes, under any status, also inside a 200. Kinds are told apart by codes first, then by the
status, then by words. The words only name the kind: whether one prompt or the whole server is refused is found out by
`inference.client`, which asks again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trailforge.inference.provider.parameters import KNOWN, SAMPLED
from trailforge.schemas import parse_json
from trailforge.schemas.text import visible

Kind = Literal[
    "credit", "key", "too_long", "limited", "overloaded", "failed", "parameter", "model", "address", "moved", "refused"
]
"""`credit`: nothing is left to pay with. `key`: who asks is not known. `too_long`: this prompt. `limited`: asked too
fast. `overloaded`: it has too much to do. `failed`: anything else that may pass. `parameter`: one that it does not
take. `model`: it has none of that name. `address`: nothing is at that path. `moved`: it is elsewhere. `refused`:
anything else, as by a filter."""

_MOST_CHARS = 2_000
"""Of a sentence that are looked at, at its beginning and at its end: some quote the whole prompt in between."""
_MOST_DEPTH = 5
_MOST_FOUND = 8
_MESSAGES = (
    *("message", "msg", "detail", "error", "error_message", "error_msg", "errormessage", "errors", "status_msg"),
    *("description", "title", "reason", "raw"),
)
"""Fields that hold sentences, or what holds them."""
_CODES = ("code", "type", "status", "error_code", "error_type", "status_code", "errorcode", "__type")
"""Fields that hold codes, as texts or numbers."""

_CREDIT_CODES = frozenset(
    """insufficient_quota insufficient_balance insufficient_credits insufficient_funds insufficient_user_quota
    billing_hard_limit_reached billing_not_active exceeded_current_quota_error account_deactivated arrearage
    accountoverdueerror payment_required budget_exceeded credits_exhausted allocationquota.freetieronly
    1113 invalid_payment""".split()
)
"""OpenAI, Moonshot, DashScope, Volcengine, LiteLLM, one-api, Zhipu (1113) …"""
_CREDIT = re.compile(
    r"insufficient[ _]+(?:\w+[ _]+)?(?:quota|balance|credits?|funds)|credit balance is too low|out of credits?"
    r"|used all available credits|monthly (?:included credits|spend(?:ing)? limit)|spending limit|credit limit exceeded"
    r"|check your (?:plan and )?billing|billing hard limit|budget has been exceeded|exceeded (?:your|the) .{0,20}budget"
    r"|balance is (?:insufficient|not enough)|not enough (?:balance|credits?)|payment required"
    r"|overdue (?:payment|balance)"
    r"|account .{0,40}(?:suspended|overdue|in arrears)|余额不足|欠费|额度不足|余额已用尽",
    re.IGNORECASE,
)
_SOON = re.compile(
    r"retry[ _-]*(?:in|after|delay)|try again (?:in|after)|per[ _-]*(?:second|minute|day)", re.IGNORECASE
)
"""A quota that comes back by itself: Gemini's and Azure's words for a rate limit speak of quotas, too."""
_TOO_LONG_CODES = frozenset(
    """context_length_exceeded context_window_exceeded exceed_context_size_error exceed_context_size
    string_above_max_length request_too_large payload_too_large prompt_too_long model_max_prompt_tokens_exceeded
    1261""".split()
)
_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window)|context the overflows"
    r"|(?:prompt|input|request|message)s?\b[^.]{0,40}\b(?:is|are|was) (?:too long|too large|longer than)"
    r"|too many (?:input |prompt )?tokens|(?:input|prompt) (?:token count|tokens?)\b[^.]{0,80}exceed"
    r"|exceeds? (?:the )?(?:\w+ ){0,4}(?:number of tokens|token limit|input length|token count|max(?:imum)? length)"
    r"|exceeded model token limit|token limit exceeded|range of input length|prompt exceeds max"
    r"|longer than the (?:max(?:imum)?|model)|must have less than \d+ tokens"
    r"|(?:reduce|shorten) (?:the length of )?(?:your |the )?(?:prompt|input|messages)|`?inputs`? tokens \+"
    r"|exceed max message tokens|(?:request|payload|entity) too large"
    r"|max_tokens must be at least 1, got (?:0|-\d+)|length of prompt exceeds|max input characters"
    r"|maximum allowed (?:number of )?(?:input|prompt)|输入.{0,10}(?:过长|超长|超过)|上下文.{0,10}超",
    re.IGNORECASE,
)
_TOO_LARGE = re.compile(r"request too large", re.IGNORECASE)
_FILTER_CODES = frozenset(
    """content_filter content_policy_violation responsibleaipolicyviolation data_inspection_failed datainspectionfailed
    invalid_prompt moderation_blocked sensitivecontentdetected inputtextsensitivecontentdetected
    1301 1026 1027""".split()
)
_FILTER = re.compile(
    r"content (?:management |filtering )?policy|content[ _]filter|usage (?:policy|policies|guidelines)"
    r"|content exists risk|new_sensitive|sensitive (?:content|word)|inappropriate content|moderation|was flagged"
    r"|guardrail|prohibited content|敏感|违规",
    re.IGNORECASE,
)
"""Azure, OpenAI, DeepSeek, DashScope, Zhipu (1301), MiniMax (1026, 1027), Volcengine, OpenRouter, xAI, Bedrock …"""
_LIMITED_CODES = frozenset(
    """rate_limit_exceeded rate_limit_error rate_limit_reached_error resource_exhausted too_many_requests
    throttling throttlingexception throttling.ratequota requests_limit_exceeded 1302""".split()
)
_LIMITED = re.compile(r"rate[ _-]?limit|too many requests|slow down|throttl", re.IGNORECASE)
_OVERLOADED_CODES = frozenset(
    "overloaded_error engine_overloaded engine_overloaded_error server_overloaded slow_down unavailable 1305".split()
)
_MODEL_CODES = frozenset(
    "model_not_found deploymentnotfound invalid_model model_not_exist modelnotfound model_not_available 1211".split()
)
_MODEL = re.compile(
    r"\bmodel\b[^.]{0,120}?(?:do(?:es)?n'?t exist|not exist|not found|not a valid|is unknown"
    r"|not available|not supported by|not loaded)"
    r"|(?:invalid|unknown|unsupported|no such) model|not a valid model|no models? loaded"
    r"|deployment\b[^.]{0,60}does not exist|no endpoints found",
    re.IGNORECASE,
)
_PARAMETER = re.compile(
    r"unsupported (?:parameter|value)|unrecognized (?:request )?argument|unknown (?:parameter|argument|field|name)"
    r"|extra (?:inputs|fields) (?:are )?not permitted|extra_forbidden|unexpected (?:keyword|argument|field)"
    r"|is not (?:supported|permitted|allowed)|not support(?:ed)?\b|cannot both be|only supports? stream"
    r"|must be (?:one|less|greater|equal|between|in)"
    r"|range of \w+ should be|use only one",
    re.IGNORECASE,
)
_STREAM = re.compile(r"stream\b", re.IGNORECASE)
_TAGS = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^<>]*>", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)
_PAGE = 4_000
"""Characters of a page that are looked at."""


@dataclass(frozen=True, slots=True)
class ServerError:
    """What a server said."""

    kind: Kind
    status: int
    """Of HTTP, or the one that its body gives inside a 200."""
    words: str
    """Its own sentence, in one line; empty when it said nothing."""
    parameter: str = ""
    """Which one it does not take, as far as it can be told."""

    def __str__(self) -> str:
        """For people: the status, and what the server said."""
        return f"status {self.status}{self.words and f': {self.words}'}"

    @property
    def mend(self) -> str:
        """How to leave out or rename the parameter that is not taken; empty where that is not the matter."""
        if self.kind != "parameter":
            return ""
        if self.parameter == "stream":
            return "set model.parameters.stream: true"
        if self.parameter == "max_tokens" and "max_completion_tokens" in self.words:
            return "set model.parameters.rename: {max_tokens: max_completion_tokens}"
        return f"leave it out: model.parameters.omit: [{self.parameter}]"


def read_error(status: int, content: bytes | Mapping[str, Any] | list[Any]) -> ServerError:
    """What a server's error says. `content`: its body, or what was found inside a reply of status 200."""
    body, page = _parsed(content)
    sentences, codes = _found(body) if body is not None else ([page] if page else [], set())
    words = visible(" ".join("; ".join(_without_repeats(sentences)).split()))
    inner = min((int(code) for code in codes if re.fullmatch(r"[45]\d\d", code)), default=None)
    if 200 <= status < 300:
        status = inner or (429 if codes & _LIMITED_CODES else 500)
    text = " ".join([*sentences, *codes])
    parameter = _named_parameter(body, text)
    return ServerError(_kind(status, inner, codes, text, parameter), status, words, parameter)


def _kind(status: int, inner: int | None, codes: set[str], text: str, parameter: str) -> Kind:
    if 300 <= status < 400:
        return "moved"
    if codes & _CREDIT_CODES or 402 in (status, inner) or (_CREDIT.search(text) and not _SOON.search(text)):
        return "credit"
    # What a rate limit says of long prompts is advice; only a request that is larger than the limit never passes.
    too_long = _TOO_LARGE if status == 429 else _TOO_LONG
    if codes & _TOO_LONG_CODES or status == 413 or too_long.search(text):
        return "too_long"
    if status == 401:
        return "key"
    if status == 429 or codes & _LIMITED_CODES or (status >= 500 and _LIMITED.search(text)):
        return "limited"
    if codes & _FILTER_CODES or _FILTER.search(text):
        return "refused"
    if status in (503, 529) or codes & _OVERLOADED_CODES:
        return "overloaded"
    if status in (408, 409, 425) or status >= 500:
        return "failed"
    if codes & _MODEL_CODES or _MODEL.search(text):
        return "model"
    if parameter:
        return "parameter"
    return "address" if status in (404, 405) else "refused"


def _parsed(content: bytes | Mapping[str, Any] | list[Any]) -> tuple[Any, str]:
    """The JSON of a body, or the text of a page."""
    if not isinstance(content, bytes):
        return content, ""
    text = content.decode("utf-8", "replace")
    try:
        body = parse_json(text)
    except ValueError:
        text = text[:_PAGE]
        title = _TITLE.search(text)
        return None, (title[1] if title else _TAGS.sub(" ", text)).strip()
    return (body, "") if isinstance(body, dict | list) else (None, _shorten(body if isinstance(body, str) else text))


def _found(body: Any) -> tuple[list[str], set[str]]:
    """Sentences, outermost first, and codes in small letters, of an error in any of the known shapes."""
    sentences: list[str] = []
    codes: set[str] = set()
    for name, value in _walk(body, "", 0):
        if isinstance(value, bool) or len(sentences) + len(codes) >= 4 * _MOST_FOUND:
            continue
        if name in _CODES and isinstance(value, str | int):
            codes.add(str(value).casefold())
        elif name in _MESSAGES and isinstance(value, str) and value.strip() and len(sentences) < _MOST_FOUND:
            sentences.append(_shorten(value.strip()))
    return sentences, codes


def _walk(value: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Leaves with the names of their fields: of an object first its own, then those within."""
    if depth > _MOST_DEPTH:
        return
    if isinstance(value, str) and name == "raw" and value.lstrip().startswith(("{", "[")):
        with contextlib.suppress(ValueError):
            value = parse_json(value)  # a provider's body, as a gateway quotes it
    if isinstance(value, list):
        for each in value[:_MOST_FOUND]:
            yield from _walk(each, name, depth + 1)
    elif isinstance(value, dict):
        fields = [
            (str(key).casefold(), each) for key, each in value.items() if key != "input"
        ]  # that quotes the prompt
        for key, each in sorted(fields, key=lambda field: isinstance(field[1], dict | list)):
            yield from _walk(each, key, depth + 1)
    else:
        yield name, value


def _shorten(text: str) -> str:
    return text if len(text) <= 2 * _MOST_CHARS else f"{text[:_MOST_CHARS]} … {text[-_MOST_CHARS:]}"


def _without_repeats(sentences: list[str]) -> Iterator[str]:
    for number, sentence in enumerate(sentences):
        if not any(sentence in other for other in sentences[:number]):
            yield sentence


def _named_parameter(body: Any, text: str) -> str:
    """The parameter that an error is about: named in a field, or in words that speak of one that is not taken."""
    named = [str(value) for name, value in _walk(body, "", 0) if name in ("param", "loc")] if body is not None else []
    known = (*KNOWN, "stream", "encoding_format")
    if found := next((name for name in reversed(named) if name in known), None):
        return found
    if not _PARAMETER.search(text):
        return ""
    said = [name for name in known if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text)]
    last = [name for name in said if name in SAMPLED] or [name for name in said if name != "stream"]
    if last:
        return "top_p" if "temperature" in last and "top_p" in last else last[0]
    return "stream" if _STREAM.search(text) else ""
