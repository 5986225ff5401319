"""Reading a page that a search found: fetched from the public web alone, as text, cut to what fits the query.

The web says which addresses are fetched, so that none may lead into the network this runs in: every host, of redirects
too, is looked up here, and only public addresses are connected to. A proxy, which would look up by itself, is not used.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable
from dataclasses import replace
from errno import EACCES
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urljoin, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.plan_tools import LONGEST_PASSAGE, passages_of
from trailforge.retrieval.web.html_text import html_to_text
from trailforge.retrieval.web.http import read_up_to
from trailforge.schemas import Document, Passage, RetrievalError

_LOG = logging.getLogger(__name__)
_MOST_REDIRECTS = 5
_LARGEST_PAGE = 1 << 20
"""Bytes; what comes behind them is not read."""
_TIMEOUT_S = 15.0
"""Of one page with its redirects."""
_REDIRECTS = {301, 302, 303, 307, 308}
_HEADERS = {"User-Agent": "trailforge", "Accept": "text/html,application/xhtml+xml,text/plain;q=0.9"}
_READABLE = {"text/html", "application/xhtml+xml", "text/plain"}
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset=[\"']?([\w-]{1,40})", re.IGNORECASE)
_HEAD = 2048
"""Bytes in which a page names its charset."""


class _Unreadable(Exception):
    """A page that is not read, and why."""


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether anybody may reach it: neither this machine nor its network, whatever form the address has."""
    inner = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    address = inner or address
    return address.is_global and not address.is_multicast


class PageReader:
    """Reads pages for a search. What cannot be read keeps the words that the search has of it."""

    def __init__(
        self, longest: int | None = None, may_read: Callable[[IPv4Address | IPv6Address], bool] = is_public
    ) -> None:
        """`longest`: words of what is kept of a page."""
        self._longest, self._may_read = longest or LONGEST_PASSAGE, may_read

    async def read(self, found: Passage, query: str) -> Passage:
        """The page at the passage's id, cut to what of it fits the query best."""
        try:
            text = await self.text(found.id)
        except RetrievalError as error:
            _LOG.info("%s", error)
            return found
        pieces = [Document(id=found.id, title="", text=piece) for piece in passages_of(text, self._longest)]
        best = await (await asyncio.to_thread(Bm25Retriever, pieces)).retrieve(query, 1)
        return replace(found, text=" ".join(best[0].text.split())) if best[0].score > 0 else found

    async def text(self, url: str) -> str:
        """The whole text of a page. Raises `RetrievalError` that says why it is not read."""
        try:
            return await asyncio.wait_for(self._text(url), _TIMEOUT_S)
        except TimeoutError:
            raise RetrievalError(f"{url}: no page in time") from None
        except (_Unreadable, aiohttp.ClientError, OSError, ValueError) as error:
            raise RetrievalError(f"{url}: {error}") from None

    async def _text(self, url: str) -> str:
        connector = aiohttp.TCPConnector(resolver=_Resolver(self._may_read))
        async with aiohttp.ClientSession(connector=connector, headers=_HEADERS) as session:
            for _ in range(_MOST_REDIRECTS + 1):
                self._check(url)
                async with session.get(url, allow_redirects=False) as response:
                    if response.status in _REDIRECTS and "Location" in response.headers:
                        url = urljoin(url, response.headers["Location"])
                        continue
                    return await _read_text(response)
        raise _Unreadable("redirected too often")

    def _check(self, url: str) -> None:
        """The resolver does not see what is an address already."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise _Unreadable("no address of a page")
        try:
            address = ip_address(parts.hostname)
        except ValueError:
            return  # a name, for the resolver
        if not self._may_read(address):
            raise _Unreadable(f"{address} is not public")


class _Resolver(AbstractResolver):
    def __init__(self, may_read: Callable[[IPv4Address | IPv6Address], bool]) -> None:
        self._may_read = may_read
        self._inner = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """All must be such, else `OSError`."""
        found = await self._inner.resolve(host, port, family)
        for each in found:
            if not self._may_read(ip_address(each["host"].partition("%")[0])):
                raise OSError(EACCES, f"{host} is at {each['host']}, which is not public")
        return found

    async def close(self) -> None:
        """Nothing is open."""
        await self._inner.close()


async def _read_text(response: aiohttp.ClientResponse) -> str:
    if response.status != 200:
        raise _Unreadable(f"status {response.status}")
    if response.content_type not in _READABLE:
        raise _Unreadable(f"{response.content_type} is no page")
    content = await read_up_to(response, _LARGEST_PAGE)
    text = decode_page(content[:_LARGEST_PAGE], response.charset)
    return text if response.content_type == "text/plain" else await asyncio.to_thread(html_to_text, text)


def decode_page(content: bytes, charset: str | None) -> str:
    """Text in the charset that the server names, else the page; in UTF-8 where neither does, or nobody knows it."""
    named = _CHARSET.search(content[:_HEAD])
    said = charset or (named[1].decode("ascii") if named else "utf-8")
    try:
        return content.decode(said, errors="replace")
    except (LookupError, ValueError):
        return content.decode("utf-8", errors="replace")
