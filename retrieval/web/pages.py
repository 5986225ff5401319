"""Read pages that a search found: fetched from the public web alone, as text, cut to what fits the query.

Addresses come from the web, and none may lead into the network this runs in: only sockets to public addresses are
opened, also for redirects, however their host was spelled. A proxy, which would resolve hosts by itself, is not used.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable
from dataclasses import replace
from errno import EACCES
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urljoin, urlsplit

import aiohttp

from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.retrieval.sentences import LONGEST_PASSAGE, split_passages
from trailforge.retrieval.web.encodings import encoding_of
from trailforge.retrieval.web.http import read_up_to
from trailforge.rows import html_to_text
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

_AROUND_IPV4 = tuple(map(IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")))
"""Their last 32 bits are an IPv4 address: compatible and mapped (RFC 4291), translated (2765, 6052, 8215)."""
_SITE_LOCAL = IPv6Network("fec0::/10")
"""Of the days before `fc00::/7` (RFC 3879), and still global to the library."""
_ISATAP = 0x5EFE
"""Before the IPv4 address in the last 64 bits, under two bits that say whose it is (RFC 5214)."""


class _Unreadable(Exception):
    """A page that is not read, and why."""


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Tell whether an address is public: neither this machine nor its network, whatever form the address has."""
    inner = _ipv4_within(address) if isinstance(address, IPv6Address) else ()
    return all(each.is_global and not each.is_multicast and each not in _SITE_LOCAL for each in inner or (address,))


def _ipv4_within(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """Where a translator or a tunnel on the way would send what is sent to it; empty where there is no such."""
    if (tunnelled := address.sixtofour) is not None:
        return (tunnelled,)
    if any(address in each for each in _AROUND_IPV4) or (int(address) >> 32) & 0xFCFFFFFF == _ISATAP:
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    return ()


class PageReader:
    """Reads pages for a search. For a page that cannot be read, the search's own words on it are kept."""

    def __init__(
        self, longest: int | None = None, may_read: Callable[[IPv4Address | IPv6Address], bool] = is_public
    ) -> None:
        """`longest`: words of what is kept of a page."""
        self._longest, self._may_read = longest or LONGEST_PASSAGE, may_read

    async def read(self, found: Passage, query: str) -> Passage:
        """Return the page at the passage's id, cut to the parts that fit the query best."""
        try:
            text = await self.text(found.id)
        except RetrievalError as error:
            _LOG.info("%s", error)
            return found
        pieces = [Document(id=found.id, title="", text=piece) for piece in split_passages(text, self._longest)]
        best = await (await asyncio.to_thread(Bm25Retriever, pieces)).retrieve(query, 1)
        return replace(found, text=" ".join(best[0].text.split())) if best else found

    async def text(self, url: str) -> str:
        """Return the whole text of a page. Raises `RetrievalError`, saying why it cannot be read."""
        try:
            return await asyncio.wait_for(self._text(url), _TIMEOUT_S)
        except TimeoutError:
            raise RetrievalError(f"{url}: no page within {_TIMEOUT_S:g} s, the most that is waited for one") from None
        except (_Unreadable, aiohttp.ClientError, OSError, ValueError) as error:
            raise RetrievalError(f"{url}: {error}") from None

    async def _text(self, url: str) -> str:
        connector = aiohttp.TCPConnector(socket_factory=self._socket)
        async with aiohttp.ClientSession(connector=connector, headers=_HEADERS) as session:
            for _ in range(_MOST_REDIRECTS + 1):
                if urlsplit(url).scheme not in ("http", "https"):
                    raise _Unreadable("no address of a page")
                async with session.get(url, allow_redirects=False) as response:
                    if response.status in _REDIRECTS and "Location" in response.headers:
                        url = urljoin(url, response.headers["Location"])
                        continue
                    return await _read_text(response)
        raise _Unreadable("redirected too often")

    def _socket(self, found: aiohttp.AddrInfoType) -> socket.socket:
        """Asked for every address that is connected to, when hosts have been normalised and looked up."""
        family, kind, protocol, _, place = found
        address = ip_address(str(place[0]).partition("%")[0])
        if not self._may_read(address):
            raise OSError(EACCES, f"{address} is not public")
        return socket.socket(family, kind, protocol)


async def _read_text(response: aiohttp.ClientResponse) -> str:
    if response.status != 200:
        raise _Unreadable(f"status {response.status}")
    if response.content_type not in _READABLE:
        raise _Unreadable(f"{response.content_type} is no page")
    content = await read_up_to(response, _LARGEST_PAGE)
    text = decode_page(content[:_LARGEST_PAGE], response.charset)
    return text if response.content_type == "text/plain" else await asyncio.to_thread(html_to_text, text)


def decode_page(content: bytes, charset: str | None) -> str:
    """Decode a page by the charset that the server names, else by the page's own, unless it cannot be that one
    (`encoding_of`)."""
    named = _CHARSET.search(content[:_HEAD])
    said = charset or (named[1].decode("ascii") if named else "")
    return content.decode(encoding_of(content, said), errors="replace")
