"""Web addresses: whose site it is, and whether two lead to the same page."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

_SERVES = re.compile(r"^(?:www|rss|feeds?|export)\d*\.")
_WWW = re.compile(r"^(?:www\.)+")
_TRACKS = re.compile(r"utm_\w+|fbclid|gclid|mc_[ce]id|cmpid|ocid", re.IGNORECASE)


def site_of(url: str) -> str:
    """The host without the part that says what it serves (`www.`, `rss.`); empty for what is no web address."""
    try:
        parts = urlsplit(url.strip())
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""
    return _SERVES.sub("", host) if parts.scheme in ("http", "https") else ""


def canonical_url(url: str) -> str:
    """The address as https, without `www.`, capitals in the host, fragment, last slash and what counts visitors.

    For comparing only: it need not open. What is no web address stays as it is.
    """
    if not site_of(url):
        return url.strip()
    parts = urlsplit(url.strip())
    kept = [
        (name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if not _TRACKS.fullmatch(name)
    ]
    return urlunsplit(
        ("https", _WWW.sub("", parts.netloc.lower()), parts.path.rstrip("/"), urlencode(kept, errors="replace"), "")
    )
