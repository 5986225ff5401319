"""Check URLs of servers: none may contain an API key, since URLs are stored, shown and published."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_plus

from trailforge.inference.provider.wire import KEY_VARIABLES
from trailforge.schemas import InvalidInput

_USER = re.compile(
    r"^(\s*+(?:[a-z][a-z0-9+.-]*+:/++|//))(?:[^/?#\s]*@|(?!\[)[^/?#:\s]++:(?!\d++(?:[/?#]|$))\S*@)", re.IGNORECASE
)
"""Also with `/`, `?` or `#` in a password, which nobody has encoded: then no port follows the first colon."""
_BARE_USER = re.compile(r"^\s*[^/?#@:\s]+:[^/?#@\s]*@")
"""Of a URL whose scheme was forgotten."""
_NAMED_KEY = re.compile(
    r"(?:key|token|secret|passw(?:or)?d|passphrase|pwd|auth|authorization|signature|credentials?|bearer|jwt)$"
    r"|^(?:k|pass|sig|sas|code)$"
)
"""What a parameter that holds a key is called, in small letters alone: `api-key` as `apikey`, `X-Amz-Signature` …"""
_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk|pk|rk|csk|xai|pplx|nvapi|tvly|glpat)-[\w-]{12,}|(?:hf|gsk|r8|fw|ghp|gho)_\w{16,}"
    r"|AIza[\w-]{20,}|(?<![_-])eyJ[\w-]{10,}+\.[\w.-]{10,})"
)
"""As providers make them: the beginning says whose it is."""
_RANDOM = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[\w.~+/=-]{32,}")
_LONGEST = 1 << 14
"""Characters of a URL, or of several with commas between them."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""A name, of a tenant or a deployment."""
_LINK = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]*+://[^\s\"'<>\\]{1,10000}", re.IGNORECASE)


def find_key(url: str) -> str | None:
    """Describe where a URL contains a key, without repeating it; None where it contains none.

    A key is anything before the host; a parameter with a name that keys usually have; text in the form of a known
    provider's keys; and, in a parameter, any 32 characters in which letters and digits are mixed.
    """
    if _USER.match(url) or _BARE_USER.match(url):
        return "before the host"
    start, parameters = _split(url)
    for name, value in parameters:
        if value and (plain := _plain_name(name)) and _NAMED_KEY.search(plain):
            return f"in the parameter {plain}" if len(plain) < 20 else "in a parameter"
        if any(_KEY.search(each) or (_RANDOM.fullmatch(each) and not _UUID.fullmatch(each)) for each in (name, value)):
            return "in a parameter"
    return "in the path" if _KEY.search(start.partition("://")[2].partition("/")[2]) else None


def find_key_in_text(text: str) -> str | None:
    """Apply `find_key` to the URLs in a text, and return the first finding."""
    return next((where for link in _LINK.findall(text) if (where := find_key(link))), None)


def check_server_url(url: str, field: str | None, mend: str = f"set {KEY_VARIABLES[0]} instead") -> None:
    """Raise `InvalidInput`, without repeating the key, for a URL or a comma-separated list of URLs that holds one; also
    for a text too long for a URL. `mend`: where the key belongs, by default an environment variable."""
    if len(url) > _LONGEST:
        raise InvalidInput(f"is no URL: it has more than {_LONGEST:,} characters", field=field)
    for each in (url, *url.split(",")):
        if where := find_key(each):
            raise InvalidInput(f"this URL holds a key ({where}): take it out, {mend}", field=field)


def without_key(url: str) -> str:
    """Return a URL of an earlier run with any key removed."""
    if find_key(url) is None:
        return url
    start, *parts = re.split(r"(?=[?#&;])", _USER.sub(r"\1", url))
    kept = "".join(part for part in parts if find_key(f"x://x/?{part[1:]}") is None)
    return _KEY.sub("", start) + ("?" + kept[1:] if kept[:1] in ("&", ";") else kept)


def without_keys(value: Any) -> Any:
    """Apply `without_key` to every text with `://` in the plain values of a configuration."""
    match value:
        case str() if "://" in value and len(value) <= _LONGEST:
            return ",".join(map(without_key, without_key(value).split(",")))
        case list():
            return [without_keys(each) for each in value]
        case dict():
            return {name: without_keys(each) for name, each in value.items()}
        case _:
            return value


def _split(url: str) -> tuple[str, list[tuple[str, str]]]:
    """What stands before query and fragment, and the names and values of these, decoded."""
    start, *parts = re.split(r"[?#&;]", url)
    pairs = (part.partition("=") for part in parts)
    return start, [(unquote_plus(name), unquote_plus(value)) for name, _, value in pairs]


def _plain_name(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())
