"""Check that everything a run searches with is there, as `pipelines.runs.doctor` checks the rest."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trailforge.pipelines.runs.doctor import Finding, fault, list_models, ok, warning
from trailforge.schemas import ProviderError, ServerUnavailable

if TYPE_CHECKING:
    from trailforge.retrieval import RetrievalConfig

_ENCODER_FILES = ("modules.json", "config.json")
"""Of a folder with an encoder, one at least."""


def encoder(name: str | None) -> Finding:
    """Check the packages and weights of a sentence encoder. Raises `RetrievalError` for what is missing."""
    from trailforge.retrieval.encoders import MEND, check_encoder, is_cached, why_not_on_hub

    if name is None:
        return ok("encoder", "none wanted: what is searched needs none here")
    place = check_encoder(name)
    if place == "folder" and not any((Path(name) / each).is_file() for each in _ENCODER_FILES):
        return fault("encoder", f"{name} holds no encoder (no {' or '.join(_ENCODER_FILES)})", MEND)
    if place == "server":
        return _embeddings_server(name)
    if place == "hub" and not is_cached(name):
        missing = f"{name} is no folder and not in the model hub's cache"
        if why := why_not_on_hub(name):
            return fault("encoder", f"{missing}, and {why}", MEND)
        return warning("encoder", f"{missing}: the run will fetch it", "fetch it before: add --fetch")
    return ok("encoder", f"{name} is {'in the cache' if place == 'hub' else 'installed'}")


def _embeddings_server(name: str) -> Finding:
    """One that serves embeddings alone need not list its models. Raises `ServerUnavailable` when nothing answers."""
    from trailforge.pipelines.runs.config import ModelConfig
    from trailforge.retrieval.encoders import split_served

    url, model = split_served(name)
    try:
        asyncio.run(list_models(ModelConfig(name=model, url=url)))
    except ServerUnavailable:
        raise
    except ProviderError as error:
        return warning("encoder", f"{name} answers, and says: {error}", "see to it if requests are refused, too")
    return ok("encoder", f"{name} answers; what it encodes a build or a search will show")


def documents(config: RetrievalConfig) -> Finding:
    """Check that what is searched is there, that it was built with the preset's back end, encoder and prefixes, and
    that a server answers. Raises `RetrievalError` and `InvalidInput` for an index or documents that cannot be used.
    """
    from trailforge.retrieval import WEB, check_retrieval, resolved, with_hash
    from trailforge.retrieval.web import open_api

    if config.searches_paragraphs:
        check_retrieval(config)
        return ok("documents", f"each question's own paragraphs are searched ({resolved(config).kind})")
    found = with_hash(config)
    if config.kind == WEB:
        key = open_api(config.web_provider, config.web_url).key
        return ok("documents", "the web is searched" + (f", and {key} is set" if key else ""))
    known = f"{found.corpus_hash[:12] or 'which does not say what it serves'}"
    if config.server:
        return ok("documents", f"{config.server} answers ({known})")
    return ok("documents", f"{config.corpus_index} can be searched ({resolved(config).kind} {known})")


def graph(folder: Path | None) -> Finding:
    """Check that the knowledge graph opens, and that every byte of it is as it was written. Raises what
    `KgStore.check_once` raises.
    """
    from trailforge.retrieval.kg import KgStore, check_package

    check_package()
    if folder is None:
        return warning(
            "graph", "none is named, and a run wants one", "add --kg, a folder that `trailforge kg build` made"
        )
    store = KgStore.open(folder)
    store.check_once()
    return ok("graph", f"{folder} is sound: {store.stats.entities:,} entities, {store.stats.triples:,} triples")


def search_key(news: Literal["gnews", "serper"] | None) -> Finding:
    """Check that the keys of web searches are set, where plans search the web; they are never shown. `news` is the
    provider that news searches ask first; None where no plan searches the web.
    """
    from trailforge.retrieval.web import GNEWS_KEY, SERPER_KEY

    if news is None:
        return ok("search key", "none wanted: no plan searches the web")
    wanted = [SERPER_KEY, *([GNEWS_KEY] if news == "gnews" else [])]
    missing = [name for name in wanted if not os.environ.get(name, "").strip()]
    if missing:
        mend = " ".join(("export", *(f"{name}=…" for name in missing)))
        return fault("search key", f"plans search the web, and {' and '.join(missing)} is not set", mend)
    return ok("search key", f"{' and '.join(wanted)} is set")
