"""Search the web by configuration: an address, and the provider's names of its fields.

api = open_api("zhipu")                     one of `search_apis.yaml`, or the path of a YAML file with the same fields
body = api.request("who won", 5)
hits = api.hits(reply)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import yaml

from trailforge.retrieval.web.http import site_of, text_field
from trailforge.schemas import InvalidInput, from_dict, located, parse_json

USUAL = "tavily"
_FILE = "search_apis.yaml"
_LARGEST = 1 << 16
"""Bytes of a file that describes a search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebHit:
    """A page that was found; fields that the provider does not give are empty."""

    title: str
    url: str
    text: str
    """Text that the search shows of the page."""
    published: str
    """Date as the provider writes it: GNews and others the day, Google `5 hours ago`, `Aug 22, 2024`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchApi:
    """How a provider is asked for pages, and where its reply has their fields."""

    url: str
    """Address to search at; empty: `web_url` gives it."""
    method: Literal["post", "get"] = "post"
    """HTTP method. `post`: the request is a JSON body. `get`: it is in the address."""
    query: str
    """Name of the field with the words that are searched for."""
    count: str = ""
    """Name of the field for the number of pages; empty: there is none."""
    most: int = 10
    """Largest number of pages that it may be asked for."""
    longest_query: int = 0
    """Largest number of characters of a query, which loses its last words beyond them; 0: no limit."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Further fields of a request, sent as they are."""
    key: str = ""
    """Environment variable with the key; empty: the provider needs none."""
    key_header: str = "Authorization"
    key_form: str = "Bearer {key}"
    results: str
    """Path to the list of pages in the reply; a dot leads into an object."""
    title: str
    address: str
    text: str
    published: str = ""
    """Name of the field with a page's date."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for an address that is none, and a key's form without the key."""
        if self.url and (not site_of(self.url) or urlsplit(self.url).path in ("", "/")):
            raise InvalidInput(f"{self.url!r} is no address of a search, as {_TAVILY} is", field="web_url")
        if "{key}" not in self.key_form:
            raise InvalidInput("expected a text with {key} in the place of the key", field="key_form")

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of a request; `key` is the API key, empty where the provider needs none."""
        return {self.key_header: self.key_form.replace("{key}", key)} if self.key else {}

    def request(self, query: str, k: int) -> dict[str, Any]:
        """Return a request for at most `k` pages. A query that is too long for the provider loses its last words."""
        if self.longest_query and len(query) > self.longest_query:
            query = query[: self.longest_query + 1].rsplit(" ", 1)[0][: self.longest_query]
        counted = {self.count: min(k, self.most)} if self.count else {}
        return {**self.fields, self.query: query, **counted}

    def hits(self, content: bytes) -> list[WebHit]:
        """Return the pages of a reply in order, titled by their site where they have no title; those without address or
        text are left out. Raises `ValueError` for another form.
        """
        rows: Any = parse_json(content)
        for name in self.results.split("."):
            rows = rows.get(name) if isinstance(rows, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError(f"expected an object with a list of objects {self.results!r}")
        hits = (self._hit(row) for row in rows)
        return [hit for hit in hits if hit.url and hit.title and hit.text]

    def _hit(self, row: dict[str, Any]) -> WebHit:
        names = (self.title, self.address, self.text, self.published)
        title, url, text, day = (text_field(row.get(name)) for name in names)
        return WebHit(title=title or site_of(url), url=url, text=text, published=day)


_TAVILY = "https://api.tavily.com/search"


def open_api(provider: str = "", url: str = "") -> SearchApi:
    """Open a provider of `search_apis.yaml` by its name (empty: Tavily), or by the path of a YAML file. `url`: another
    address.

    Raises `InvalidInput` for an unknown provider, and where there is no address.
    """
    name = provider or USUAL
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file() or path.stat().st_size > _LARGEST:
            raise InvalidInput("no such file that describes a search", file=path, field="web_provider")
        content = _read(path.read_bytes(), path)
    else:
        known = _read((files("trailforge.retrieval.web") / _FILE).read_bytes(), _FILE)
        if name not in known:
            names = ", ".join(known)
            raise InvalidInput(f"no search {name!r}; there are {names}, or a .yaml file", field="web_provider")
        content = known[name]
    with located(file=f"search {name}"):
        api = from_dict(SearchApi, content)
    api = replace(api, url=url) if url else api
    if not api.url:
        raise InvalidInput(f"{name} has no address of its own: say it", field="web_url")
    return api


def _read(content: bytes, source: object) -> dict[str, Any]:
    try:
        found = yaml.safe_load(content)
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidInput(f"cannot be read as YAML ({error})".splitlines()[0], file=str(source)) from error
    if not isinstance(found, dict):
        raise InvalidInput(
            f"expected a YAML mapping of names to values, found {type(found).__name__}", file=str(source)
        )
    return found
