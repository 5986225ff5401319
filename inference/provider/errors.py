"""Read the error messages of model servers: the server's own sentence, and the kind of error.

Servers say it in a dozen shapes, under any status, also inside a 200. Kinds are told apart by codes first, then by the
status, then by words. The words only name the kind: whether one prompt or the whole server is refused is found out by
`inference.client`, which asks again.
"""

from __future__ import annotations

import contextlib
import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trailforge.inference.provider.parameters import find_parameter
from trailforge.schemas import parse_json, visible

Kind = Literal[
    "credit", "key", "too_long", "limited", "overloaded", "failed", "parameter", "model", "address", "moved", "refused"
]
"""Kind of error. `credit`: the account has none left. `key`: the API key is missing or not accepted. `too_long`: the
prompt exceeds the window. `limited`: requests come too fast. `overloaded`: the server has too much load. `failed`: any
other error that may pass. `parameter`: the server does not take a parameter. `model`: it has no model of that name.
`address`: nothing is at that path. `moved`: the server is elsewhere. `refused`: any other refusal, for example by a
filter."""

_MOST_CHARS = 2_000
"""Of a sentence that are looked at, at its beginning and at its end: some quote the whole prompt in between."""
_MOST_DEPTH = 10
_MOST_FOUND = 8
_MESSAGES = (
    *("message", "msg", "detail", "error", "error_message", "error_msg", "errormessage", "errors", "status_msg"),
    *("description", "title", "reason", "reasons", "raw", "blockreason", "block_reason"),
)
"""Fields that hold sentences, or what holds them."""
_CODES = ("code", "type", "status", "error_code", "error_type", "status_code", "errorcode", "__type")
"""Fields that hold codes, as texts or numbers."""


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# Gaps in patterns have a length and end at a full stop: each takes linear time, and speaks of one sentence.

_CREDIT_CODES = frozenset(
    """insufficient_balance insufficient_credits insufficient_funds insufficient_user_quota
    billing_hard_limit_reached billing_not_active account_deactivated arrearage accountoverdueerror payment_required
    budget_exceeded credits_exhausted allocationquota.freetieronly pre_consume_token_quota_failed setlimitexceeded
    token_quota_reached enforced_spend_limit_reached 1113 invalid_payment""".split()
)
"""OpenAI, DashScope, Volcengine, LiteLLM, one-api and new-api, watsonx, Anthropic, Zhipu (1113) …"""
_CREDIT = _any_of(
    r"insufficient[ _](?:[a-z]{1,20}[ _])?(?:balance|credits?|funds)",
    r"(?:balance|credits?|funds) (?:is|are) (?:too low|not enough)|overdue (?:payment|balance)",
    r"(?:balance|credits?|funds)\b[^.]{0,30}(?:insufficient|exhausted|depleted|expired|used up)",
    r"\b(?:out of|not enough|have any|no) (?:balance|credits?)\b(?! card)",
    r"used all (?:of )?(?:your |the )?(?:available )?credits|free tier\b[^.]{0,30}exhausted|payment required",
    r"monthly (?:included credits|spend(?:ing)? limit)|spending limit|credit limit exceeded|billing hard limit",
    r"exceeded ?budget|over budget|budget has been exceeded|exceeded (?:your|the) [^.]{0,20}budget",
    r"(?:token|user) quota is not enough|model service has been paused",
    r"account [^.]{0,40}(?:suspended|overdue|in arrears)",
    "余额[^。，]{0,6}(?:不足|用尽)|额度[^。，]{0,6}(?:不足|失败|用尽|用完)|欠费",
)
"""Nothing is left, and nothing comes by itself."""
_QUOTA_CODES = frozenset("insufficient_quota exceeded_current_quota_error".split())
_QUOTA = _any_of(
    r"insufficient[ _](?:[a-z]{1,20}[ _])?quota|check your (?:plan and )?billing",
    r"(?:specified|reached your) API usage limits",
)
"""A quota is used up. It may come back in a minute: Gemini, Azure and DashScope say so of rate limits, too."""
_SOON = _any_of(
    r"(?:retry|try again)[ _-]*(?:in|after)\s*~?\d|retry[ _-]?delay|per[ _-]*(?:second|minute|day)",
    r"(?<!free )allocated quota",
)
_SOON_CODES = frozenset("resource_exhausted rate_limit_exceeded throttling.allocationquota".split())
_TOO_LARGE_CODES = frozenset("request_too_large payload_too_large tokens_limit_reached".split())
_TOO_LARGE = _any_of(r"(?:request|payload|entity)(?: body| entity)? (?:is )?too large")
"""Larger than all of a limit, so that waiting does not help."""
_TOO_LONG_CODES = frozenset(
    """context_length_exceeded context_window_exceeded exceed_context_size_error exceed_context_size tokens_too_long
    string_above_max_length prompt_too_long model_max_prompt_tokens_exceeded 336103 10907 1261""".split()
)
_TOO_LONG = _any_of(
    r"context[ _](?:length|size|window|limit)|context the overflows|max message tokens|max_(?:seq|model|input)_len",
    r"\b(?:prompt|input|messages|context|conversation|text)\b[^.:]{0,40}\btoo (?:long|large|big)",
    r"\b(?:prompt|input|messages)\b[^.:]{0,40}\b(?:longer|larger|greater) than|longer than the (?:max(?:imum)?|model)",
    r"\b(?:prompt|inputs?|messages?|context|total)\b[^.:]{0,80}\bexceed(?:s|ed)?\b|`?inputs`? tokens \+",
    r"max(?:imum)?[ _](?:allowed )?(?:number of )?(?:prompt|input|context|sequence|model|total)[ _]?(?:token|len|char)",
    r"exceeds? (?:the )?(?:\w+ ){0,4}(?:number of tokens|token limit|input length|token count|max(?:imum)? length)",
    r"(?:prompt|input)[ _]tokens?[ _]limit|exceeded model token limit|token limit exceeded|length of (?:the )?prompt",
    r"too many (?:input |prompt )?tokens|max(?:imum)? tokens of \d+ exceeded|must have less than \d+ tokens",
    r"(?:reduce|shorten) (?:the length of )?(?:your |the )?(?:prompt|input|messages)|shorter (?:prompt|input)",
    r"range of input length|maxlength: \d+, actual|max_tokens must be at least 1, got (?:0|-\d+)",
    r"batch size\b[^.]{0,60}(?:larger|exceed|invalid|limit|maximum|>)",
    r"(?<!max_)(?:输入|上下文|提示词|文本|prompt|tokens?\b|token数量)[^。，.]{0,20}(?:过长|超长|太长|超过|超出|上限)",
)
_KEY = _any_of(
    r"(?:api|access)[ _-]?(?:key|token)\b[^.]{0,30}(?:not valid|invalid|incorrect|expired|missing|revoked)",
    r"(?:invalid|incorrect|missing|expired)\b[^.]{0,20}(?:api|access)[ _-]?(?:key|token)",
)
_FILTER_CODES = frozenset(
    """content_filter content_policy_violation responsibleaipolicyviolation data_inspection_failed datainspectionfailed
    invalid_prompt moderation_blocked sensitivecontentdetected inputtextsensitivecontentdetected
    sensitive_words_detected 1301 1026 1027 10013 10014 10019""".split()
)
_FILTER = _any_of(
    r"content (?:management |filtering )?policy|content[ _]filter|usage (?:policy|policies|guidelines)",
    r"content exists risk|new_sensitive|sensitive (?:content|word)|inappropriate content|moderation|was flagged",
    "guardrail|prohibited[ _]content|敏感|违规|审核不通过",
)
"""Azure, OpenAI, DeepSeek, DashScope, Zhipu (1301), MiniMax (1026), Spark (10013), OpenRouter, xAI, Bedrock …"""
_BLOCKED = _any_of(r"\brequest\b[^.]{0,30}\b(?:blocked|rejected)")
"""What firewalls say, some with the status of a path that is not there."""
_LIMITED_CODES = frozenset(
    """rate_limit_exceeded rate_limit_error rate_limit_reached_error resource_exhausted too_many_requests
    throttling throttlingexception throttling.ratequota requests_limit_exceeded 1302""".split()
)
_LIMITED = _any_of(r"rate[ _-]?limit|too many requests|slow down")
_THROTTLED = _any_of(
    r"throttl|please wait before|too many requests|rate[ _-]limit (?:is |was )?(?:reached|exceeded)",
    r"request limit reached|quota will be (?:replenished|reset)",
)
"""Words that mean it under any status."""
_PASSING = (408, 409, 424, 425, 499)
_NEVER = (501, 505)
_OVERLOADED_CODES = frozenset(
    """overloaded_error engine_overloaded engine_overloaded_error server_overloaded slow_down unavailable
    capacity_exceeded 1305""".split()
)
_MODEL_CODES = frozenset(
    """model_not_found deploymentnotfound invalid_model model_not_exist modelnotfound model_not_available
    model_not_supported unknown_model 1211""".split()
)
_MODEL = _any_of(
    r"\bmodel\b[^.]{0,120}?(?:do(?:es)?n'?t exist|not exist|not found|not a valid|is unknown|identifier is invalid"
    r"|not available|not supported (?:by|for|in|on)\b|not loaded)",
    r"(?:invalid|unknown|unsupported|no such) model|not a valid model|no models? loaded|no endpoints found",
    r"(?:deployment|endpoint)\b[^.]{0,60}does not exist",
)
_ADDRESS = _any_of(r"unexpected endpoint|no such (?:route|endpoint)|not found|\bcannot (?:get|post)\b")
_QUOTED = re.compile(r"\binput_value=.{0,200}?(?=, input_type|$)", re.DOTALL)
"""Some of the prompt, as pydantic quotes it: its words are not the server's."""
_TAGS = re.compile(r"<(title|script|style)\b.*?</\1\s*>|<[^<>]*>", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)
_PAGE = 4_000
"""Characters of a page that are looked at."""


@dataclass(frozen=True, slots=True)
class ServerError:
    """An error that a model server reported: the kind of error, and the server's own sentence."""

    kind: Kind
    status: int
    """HTTP status, or the one that the body gives inside a reply of status 200."""
    words: str
    """The server's own sentence, in one line; empty when it sent none."""
    parameter: str = ""
    """Name of the parameter that the server does not take; empty when it cannot be told."""

    def __str__(self) -> str:
        """For people: the status, and what the server said."""
        return f"status {self.status}{self.words and f': {self.words}'}"

    @property
    def mend(self) -> str:
        """Return how the user can leave out or rename the parameter that the server rejects; empty for any other
        error.
        """
        if self.kind != "parameter":
            return ""
        if self.parameter == "stream":
            return "set model.parameters.stream: true"
        if self.parameter == "max_tokens":
            if "max_completion_tokens" in self.words and "max_tokens" in self.words:
                return "set model.parameters.rename: {max_tokens: max_completion_tokens}"
            return "let replies be shorter, or leave it out: model.parameters.omit: [max_tokens]"
        return f"leave it out: model.parameters.omit: [{self.parameter}]"


def read_error(status: int, content: bytes | Mapping[str, Any] | list[Any]) -> ServerError:
    """Read a server's error from its body, or from the error found inside a reply with status 200."""
    body, sentences = _parsed(content)
    codes: set[str] = set()
    if body is not None:
        sentences, codes = _found(body)
    words = visible(" ".join("; ".join(_without_repeats(sentences)).split()))
    inner = min((int(code) for code in codes if re.fullmatch(r"[45]\d\d", code)), default=None)
    is_said = not 200 <= status < 300 or inner is not None
    status = inner or 0 if 200 <= status < 300 else status
    text = " ".join([*sentences, *codes])
    parameter = find_parameter([] if body is None else [str(v) for n, v in _walk(body) if n in ("param", "loc")], text)
    kind = _kind(status, codes, text, parameter)
    return ServerError(kind, status if is_said else 429 if kind == "limited" else 500, words, parameter)


def has_words(body: Any) -> bool:
    """Tell whether a body contains a sentence about an error."""
    return bool(_found(body)[0])


def _kind(status: int, codes: set[str], text: str, parameter: str) -> Kind:
    """`status`: 0 where nothing says one."""
    if 300 <= status < 400:
        return "moved"
    if codes & _CREDIT_CODES or status == 402 or "402" in codes or _CREDIT.search(text):
        return "credit"
    is_soon = codes & _SOON_CODES or _SOON.search(text)
    if (codes & _QUOTA_CODES or _QUOTA.search(text)) and not is_soon:
        return "credit"
    # What a rate limit says of long prompts is advice; only a request that is larger than the limit never passes.
    if codes & _TOO_LARGE_CODES or status == 413 or _TOO_LARGE.search(text):
        return "too_long"
    if status == 429 or _THROTTLED.search(text):
        return "limited"
    if codes & _TOO_LONG_CODES or _TOO_LONG.search(text):
        return "too_long"
    if status == 401 or (status in (0, 400) and _KEY.search(text)):
        return "key"
    if codes & _LIMITED_CODES or ((status >= 500 or not status) and _LIMITED.search(text)):
        return "limited"
    if codes & _FILTER_CODES or _FILTER.search(text) or (status in (404, 405) and _BLOCKED.search(text)):
        return "refused"
    if status in (498, 503, 529) or codes & _OVERLOADED_CODES:
        return "overloaded"
    if status in _PASSING or (status >= 500 and status not in _NEVER):
        return "failed"
    return _unserved(status, codes, text, parameter)


def _unserved(status: int, codes: set[str], text: str, parameter: str) -> Kind:
    """Of an error that will not pass: what is not there, or not taken."""
    if parameter and not codes & _MODEL_CODES:
        return "parameter"
    if codes & _MODEL_CODES or _MODEL.search(text):
        return "model"
    if status in (404, 405) or (not status and _ADDRESS.search(text)):
        return "address"
    return "refused" if status else "failed"


def _parsed(content: bytes | Mapping[str, Any] | list[Any]) -> tuple[Any, list[str]]:
    """The JSON of a body, or the title and the text of a page."""
    if not isinstance(content, bytes):
        return content, []
    text = content.decode("utf-8", "replace")
    try:
        body = parse_json(text)
    except ValueError:
        return None, read_page(text)
    return (body, []) if isinstance(body, dict | list) else (None, [_shorten(body if isinstance(body, str) else text)])


def read_page(page: str) -> list[str]:
    """Return title and text of an HTML page, or a plain text unchanged."""
    page = page[:_PAGE]
    title = _TITLE.search(page)
    parts = [title[1] if title else "", _TAGS.sub(" ", page)]
    return [tidy for part in parts if (tidy := " ".join(html.unescape(part).split()))]


def _found(body: Any) -> tuple[list[str], set[str]]:
    """Sentences, outermost first, and codes in small letters, of an error in any of the known shapes."""
    sentences: list[str] = []
    codes: set[str] = set()
    for name, value in _walk(body):
        if isinstance(value, bool) or len(sentences) + len(codes) >= 4 * _MOST_FOUND:
            continue
        if name in _CODES and isinstance(value, str | int):
            codes.add(str(value).casefold())
        elif name in _MESSAGES and isinstance(value, str) and value.strip() and len(sentences) < _MOST_FOUND:
            sentences.append(_shorten(_QUOTED.sub("", value.strip())))
    return sentences, codes


def _walk(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Leaves with the names of their fields: of an object first its own, then those within."""
    if depth > _MOST_DEPTH:
        return
    if isinstance(value, str) and name in _MESSAGES and value.lstrip().startswith(("{", "[")):
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
