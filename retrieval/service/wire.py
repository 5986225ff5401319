"""Encode and check what a search server exchanges: passages in the form of Search-R1's server and more, and
requests.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from trailforge.retrieval.backends.declaration import FoundPassage
from trailforge.rows import split_contents
from trailforge.schemas import InvalidInput, Passage, parse_json

PORT = 8990
"""Where the server listens, unless it is told otherwise."""
RETRIEVE, SEARCH, PAGES, OPEN, FIND, KG = "/retrieve", "/search", "/pages", "/open", "/find", "/kg"
HEALTH, STATS = "/health", "/stats"
DETAILS = "details"
"""The field of a request that asks for title and text apart, and why a passage was found. Other servers ignore it."""
LONGEST_TEXT = 1 << 15
"""Characters of a query, a title or a mention."""
MOST_K = 1000
_HIGHEST = 1e300
"""Of a score; beyond it JSON's numbers are none of ours."""


def encode_json(value: Any) -> bytes:
    """Return JSON as UTF-8; halves of surrogate pairs, which that cannot hold, become `?`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


# Passages


def title_and_text(title: str, text: str) -> str:
    """Return title and text as `contents` of Search-R1's corpora: the title in quotation marks on the first line, then
    the text.
    """
    return f'"{" ".join(title.split())}"\n{text}'


def plain_rows(found: Iterable[FoundPassage], with_scores: bool) -> list[dict[str, Any]]:
    """Return the reply to one query as Search-R1's server gives it: rows with the passage, and with its score where
    scores were asked for; else the passages alone."""
    documents = [(each.passage, title_and_text(each.passage.title, each.passage.text)) for each in found]
    rows = [({"id": passage.id, "contents": contents}, passage.score) for passage, contents in documents]
    return [{"document": row, "score": score} if with_scores else row for row, score in rows]


def detailed_rows(found: Iterable[FoundPassage]) -> list[dict[str, Any]]:
    """Return the reply to one query that asked for details: id, title and text apart, the score, the reason, and the
    documents that a passage is from."""
    return [
        {
            "document": {"id": each.passage.id, "title": each.passage.title, "text": each.passage.text},
            "score": each.passage.score,
            "why": each.why,
            "sources": list(each.sources),
        }
        for each in found
    ]


def knowledge_rows(found: Iterable[FoundPassage]) -> dict[str, Any]:
    """Return the reply to one query as Graph-R1's server gives it, with passages in place of its hyperedges."""
    passages = [each.passage for each in found]
    return {
        "results": [
            {"<knowledge>": f"{p.title}\n{p.text}" if p.title else p.text, "<coherence>": round(p.score, 3)}
            for p in passages
        ]
    }


def read_rows(rows: Sequence[Any]) -> list[FoundPassage]:
    """Read a server's reply to one query, from ours or Search-R1's. Raises `ValueError` for any other form."""
    return [_read_row(row, rank) for rank, row in enumerate(rows, start=1)]


def _read_row(row: Any, rank: int) -> FoundPassage:
    if not isinstance(row, Mapping):
        raise ValueError("a passage that is no object")
    document = row.get("document", row)
    if not isinstance(document, Mapping):
        raise ValueError("a document that is no object")
    title, text = document.get("title"), document.get("text")
    if not isinstance(title, str) or not isinstance(text, str):
        if not isinstance(contents := document.get("contents"), str):
            raise ValueError("a document without contents")
        title, text = split_contents(contents)
    score = row.get("score", 1 / rank)
    if isinstance(score, bool) or not isinstance(score, int | float) or not -_HIGHEST < score < _HIGHEST:
        raise ValueError("a score that is no number")
    name = document.get("id")
    key = title if name is None else str(name)
    sources = row.get("sources")
    return FoundPassage(
        passage=Passage(id=key, title=title, text=text, score=round(float(score), 6)),
        why=str(row.get("why") or ""),
        sources=tuple(map(str, sources)) if isinstance(sources, list) else (key,),
    )


# Who asks


class Callers:
    """The host names under which a server may be called.

    A web page elsewhere can let its own name lead to this machine (DNS rebinding), or send requests that its reader did
    not ask for: the browser then sends another `Host`, or that page as `Origin`.
    """

    def __init__(self, host: str, others: Iterable[str] = ()) -> None:
        """Besides this machine's names for itself and `host`, where it listens: `others`, pages of which may ask, too;
        `*`: whatever they are called."""
        self._others = frozenset(map(_bare, others))
        self._own = {"localhost", _bare(host if ":" not in host else f"[{host}]")}
        if not is_loopback(host):
            self._own |= {name.lower() for name in (socket.gethostname(), socket.gethostname().partition(".")[0])}
        self._is_any_address = host in ("", "0.0.0.0", "::")

    def problem_of(self, hosts: Sequence[str], origins: Sequence[str]) -> str | None:
        """Return why a request with these headers must be refused; None when it may be answered."""
        if "*" in self._others:
            return None
        for host in hosts:
            if not self._knows(_bare(host)):
                return f"this server is not called {host[:200]!r}; if it is, start it with --allow-host"
        for origin in origins:
            is_own = origin.lower() in {f"{kind}://{host.lower()}" for kind in ("http", "https") for host in hosts}
            if not is_own and _bare(origin.partition("://")[2]) not in self._others:
                return f"pages of {origin[:200]!r} may not ask here; if they may, start it with --allow-host"
        return None

    def _knows(self, name: str) -> bool:
        if is_loopback(name) or name in self._own | self._others:
            return True
        return self._is_any_address and _is_ip(name)


def _bare(host: str) -> str:
    """Without port and brackets; empty for what is no host."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_ip(name: str) -> bool:
    try:
        return bool(ip_address(name))
    except ValueError:
        return False


def is_loopback(name: str) -> bool:
    """Tell whether a host is this machine's loopback name or address."""
    return ip_address(name).is_loopback if _is_ip(name) else name == "localhost"


# Requests


class Asked:
    """The JSON object in a request's body."""

    def __init__(self, body: bytes) -> None:
        """Raises `InvalidInput` for what is no JSON object, as do all methods for a field of another kind."""
        try:
            fields = parse_json(body)
        except ValueError as error:
            raise InvalidInput(f"the body of the request is no JSON ({error})") from None
        if not isinstance(fields, dict):
            raise InvalidInput('the body is no JSON object; send one, as {"queries": [...]}')
        self._fields: dict[str, Any] = fields

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text field; the default where it is missing or null."""
        value = self._fields.get(name)
        if value is None and default is not None:
            return default
        return _text(value, name)

    def texts(self, name: str, most: int, *, is_needed: bool = True) -> list[str]:
        """Return a field that is a list of at most `most` texts."""
        value = self._fields.get(name)
        if value is None and not is_needed:
            return []
        if not isinstance(value, list):
            raise InvalidInput("has to be a list of texts", field=name)
        if len(value) > most:
            raise InvalidInput(f"{len(value)} of them; at most {most} go into a request", field=name)
        return [_text(each, name) for each in value]

    def number(self, name: str, default: int, most: int) -> int:
        """Return a field that is a whole number from 1 to `most`; the default where it is missing or null."""
        said = self.said_number(name, most)
        return default if said is None else said

    def said_number(self, name: str, most: int) -> int | None:
        """Return a field that is a whole number from 1 to `most`; None where it is missing or null."""
        if (value := self._fields.get(name)) is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise InvalidInput(f"has to be a whole number from 1 to {most}", field=name)
        return value

    def flag(self, name: str) -> bool:
        """Return a field that is true or false; false where it is missing or null."""
        value = self._fields.get(name)
        if value not in (None, True, False) or (isinstance(value, int | float) and not isinstance(value, bool)):
            raise InvalidInput("has to be true or false", field=name)
        return bool(value)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidInput("has to be text", field=name)
    if len(value) > LONGEST_TEXT:
        raise InvalidInput(f"{len(value)} characters; send at most {LONGEST_TEXT}", field=name)
    return value.encode("utf-8", "replace").decode("utf-8")  # halves of surrogate pairs, which encoders refuse
