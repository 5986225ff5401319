"""The configuration of how and where to search: own paragraphs of each question, one corpus, a server or the web."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from trailforge.inference import Asker
from trailforge.inference.provider import check_server_url
from trailforge.retrieval.backends import load_backend
from trailforge.retrieval.base import Retriever
from trailforge.retrieval.encoders.embeddings import encoder_model
from trailforge.retrieval.encoders.encoder import Encoder, check_encoder, encoder_packages
from trailforge.retrieval.indexes.corpus import read_corpus
from trailforge.retrieval.indexes.manifest import IndexManifest, describe_content, read_manifest, read_numbers
from trailforge.retrieval.indexes.seals import file_hash
from trailforge.retrieval.indexes.store import open_index
from trailforge.retrieval.retrievers import (
    WEB,
    C,
    RetrieverConfig,
    build_over,
    check_in_memory,
    open_encoder,
    run_in_thread,
    without_usual,
)
from trailforge.retrieval.sentences import SentenceReader
from trailforge.retrieval.service.client import NO_KEY, SearchClientConfig, connect, is_address
from trailforge.rewards.dynasearcher import TitledText, nearest_similarities
from trailforge.schemas import Document, InvalidInput, Passage, Question, RetrievalError, to_dict

_IN_TIME = SearchClientConfig(timeout_s=5.0, limit_s=10.0)
"""For a server that is only asked what it is."""
_AT_ONCE = replace(_IN_TIME, is_check=True)
"""The same before a run."""
_OPTIONS = {
    "kind": ("--retrieval", "--backend "),
    "encoder": ("--encoder", "--encoder "),
    "passage_prefix": ("--passage-prefix", "--passage-prefix "),
}
"""Of a run, over its preset, and of `index build`, by the setting that they decide."""
_OF_PLANS = ("web_news", "longest_passage")
"""Of agents that plan: they decide rows where they are said."""
_USUAL = "dense"
"""The back end where none is said, and no index says one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalConfig(RetrieverConfig):
    """How passages are found, and where. Where neither this nor an index names a `kind`, it is `dense`.
    `check_retrieval` checks that everything named here exists.
    """

    scope: Literal["question", "corpus"] = "question"
    """What is searched: each question's own paragraphs, or one corpus for all. The web and a server ignore it."""
    corpus_index: str | None = None
    """Corpus for the scope `corpus`: the folder of an index (`trailforge index build`); a file of passages, which the
    back end indexes when the run starts; or the URL of a server."""
    corpus_hash: str = ""
    """SHA-256 of the corpus' content, which decides the rows in place of its path."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` as `RetrieverConfig`, and for addresses that hold a key."""
        RetrieverConfig.__post_init__(self)
        check_server_url(self.corpus_index or "", "corpus_index", NO_KEY)

    @property
    def server(self) -> str:
        """Return the URL of the server that is searched, by kind or as the corpus; empty where none is."""
        if is_address(self.kind):
            return self.kind
        named = self.corpus_index if self.scope == "corpus" else None
        return named if named and self.kind != WEB and is_address(named) else ""

    @property
    def known_hash(self) -> str:
        """Return the SHA-256 that the corpus must have; see `corpus_hash`."""
        return self.corpus_hash

    def find_corpus(self) -> Path | None:
        """Return the corpus, where one is to be searched.

        Raises `InvalidInput` when none is named, and where it does not exist.
        """
        if self.scope != "corpus":
            return None
        if not self.corpus_index:
            raise InvalidInput(
                "a corpus is to be searched, and none is given: give --documents (see `trailforge index build`) or "
                "corpus_index in the preset, or search each question's own paragraphs: --scope question, in a preset "
                "scope: question",
                field="retrieval.scope",
            )
        return _existing(Path(self.corpus_index))

    @property
    def searches_paragraphs(self) -> bool:
        """Tell whether each question's own paragraphs are searched."""
        return self.scope == "question" and self.kind != WEB and not self.server

    @property
    def encoder_name(self) -> str | None:
        """Return the name of the needed encoder; None when none is. Raises `RetrievalError` for a damaged index."""
        if self.kind == WEB or self.server:
            return None
        if self.scope == "corpus" and self.corpus_index and Path(self.corpus_index).is_dir():
            found = read_manifest(Path(self.corpus_index)).encoder
            return (self.encoder or found) if found else None
        return self.encoder_of(self.kind or _USUAL)

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the optional modules that a search imports. Raises what `encoder_name` raises."""
        if self.kind == WEB or self.server:
            return ()
        if self.scope == "corpus" and self.corpus_index and Path(self.corpus_index).is_dir():
            return index_packages(Path(self.corpus_index), self.encoder)
        return self.packages_over(self.kind or _USUAL)

    def over(self, documents: Path | None) -> RetrievalConfig:
        """Return this configuration with this corpus, where one is given, in place of the questions' own paragraphs."""
        return self if documents is None else replace(self, scope="corpus", corpus_index=str(documents))

    def row_settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows: the hash of a known corpus instead of its path, and no device."""
        content = without_usual(to_dict(self), _OF_PLANS)
        del content["device"]
        content["encoder"] = encoder_model(self.encoder)
        if self.corpus_hash:
            del content["corpus_index"]
            if self.server == self.kind:
                del content["kind"]
        return content


def index_packages(index: Path, encoder: str = "") -> tuple[str, ...]:
    """Return the optional modules that searching an index imports, with this encoder instead of its own if one is
    given. Raises `RetrievalError` for a folder that holds no index, or a damaged one.
    """
    manifest = read_manifest(index)
    name = (encoder or manifest.encoder) if manifest.encoder else ""
    return (*(encoder_packages(name) if name else ()), *load_backend(manifest.backend).packages)


class Retrieval:
    """The retrieval of a worker: over each question's own paragraphs, or one retriever for all questions."""

    def __init__(
        self,
        encoder: Encoder | None,
        corpus: Retriever | None,
        config: RetrieverConfig | None = None,
        name: str = "",
    ) -> None:
        """`encoder`: of the back end, which reads sentences with it, too; None where it needs none.

        `corpus`: None for own paragraphs, which are searched as `config` says (None: `dense`). `name`: see
        `Provenance.retriever`.
        """
        self.corpus = corpus
        self.config = config or RetrieverConfig(kind=_USUAL)
        """With what an index says in place of what was not said."""
        self._encoder = encoder
        self._reader = SentenceReader(encoder)
        self.name = name or self.config.kind

    async def for_question(self, question: Question) -> Retriever:
        """Return the retriever of a question. Raises `InvalidInput` when it has no paragraphs to search."""
        if self.corpus is not None:
            return self.corpus
        if not question.paragraphs:
            raise InvalidInput(
                f"question {question.id} has no paragraphs to search; give one corpus for all questions (--documents)",
                field="paragraphs",
            )
        return await build_over(question.paragraphs, self.config, self.config.kind, self._encoder)

    async def best_sentences(self, query: str, passages: Sequence[Passage], n: int) -> list[tuple[Passage, str]]:
        """Return the `n` sentences of the passages that are nearest to the query."""
        return await self._reader.best(query, passages, n)

    async def measure_nearest(
        self, supporting: Sequence[TitledText], retrieved: Sequence[TitledText], threshold: float
    ) -> tuple[float | None, ...]:
        """Return for each supporting document its similarity to the nearest retrieved passage, None where the title was
        found or nothing is known (`nearest_similarities`). Only a `threshold` below 1 needs the encoder."""
        if self._encoder is None or threshold >= 1.0:
            return nearest_similarities(supporting, retrieved, None)
        return await self._encoder.in_thread(nearest_similarities, supporting, retrieved, self._encoder.similarity)


def check_retrieval(config: RetrievalConfig) -> None:
    """Check that what the configuration names exists, as far as that is possible without loading any of it.

    Raises `RetrievalError` for a missing package, and for an index that is missing or of another back end, encoder or
    prefix, and `InvalidInput` for a corpus that is not named or does not exist, for options that need a model, and for
    a missing key of a web search.
    """
    if config.kind == WEB:
        open_web(config)
    elif config.server:
        connect(config.server)
    elif (corpus := _index_of(config.find_corpus())) is not None:
        _check_index(config, corpus)
    else:
        check_in_memory(config, config.kind or _USUAL)


def with_hash(config: RetrievalConfig) -> RetrievalConfig:
    """Return the configuration with the hash of its corpus, as far as a server reports one.

    Raises what `check_retrieval` raises, and `RetrievalError` for a server that does not answer.
    """
    check_retrieval(config)
    if config.server:
        return replace(config, corpus_hash=run_in_thread(ask_server(config.server)).hash)
    if config.kind == WEB or (corpus := config.find_corpus()) is None:
        return config
    return replace(config, corpus_hash=corpus_hash(corpus))


@dataclass(frozen=True, slots=True)
class ServedCorpus:
    """What a server reports about the corpus that it searches; empty fields where it reports nothing."""

    backend: str = ""
    hash: str = ""

    @property
    def name(self) -> str:
        """Return the corpus' name for a row's provenance; see `Provenance.retriever`."""
        return f"{self.backend or 'server'} {self.hash[:12]}".strip()


async def ask_server(url: str, config: SearchClientConfig = _AT_ONCE) -> ServedCorpus:
    """Ask a server what it searches. Raises `RetrievalError` for one that does not answer, or does not say."""
    client = connect(url, config=config)
    try:
        corpora = (await client.health()).get("corpora")
    except RetrievalError:  # Search-R1's own has no such path
        corpora = None
        await client.retrieve("Is anybody there?", 1)
    if not isinstance(corpora, dict):
        return ServedCorpus()
    corpus = corpora.get(client.corpus) if client.corpus else next(iter(corpora.values()), None)
    if not isinstance(corpus, dict):
        raise RetrievalError(
            f"{url}: this search server has {', '.join(corpora) or 'no corpus'}, not {client.corpus or 'one'}; "
            "name one as URL?corpus=NAME"
        )
    return ServedCorpus(str(corpus.get("backend", "")), str(corpus.get("hash", "")))


def corpus_hash(corpus: Path) -> str:
    """Return the SHA-256 of a file of passages, or of the content of an index, independent of when it was built. Raises
    `RetrievalError` for a folder that holds no index, or a damaged one.
    """
    if not corpus.is_dir():
        return file_hash(corpus)
    content = describe_content(read_manifest(corpus))
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def resolved(config: C, corpus: Path | None = None, asker: Asker | None = None) -> C:
    """Return the configuration with unset values filled in from the index `corpus`, or else by defaults. `corpus`:
    None: what the configuration names. `asker`: the client of a model; None refuses an index whose searches ask one.
    Raises what `check_retrieval` raises.
    """
    if config.kind == WEB or config.server:
        return config
    if (index := _index_of(corpus or config.find_corpus())) is None:
        return replace(config, kind=config.kind or _USUAL)
    manifest = _check_index(config, index, asker)
    return replace(
        config,
        kind=manifest.backend,
        encoder=config.encoder or manifest.encoder,
        query_prefix=config.query_prefix or manifest.query_prefix,
        passage_prefix=manifest.passage_prefix,
    )


def open_retrieval(
    config: RetrieverConfig, corpus: Path | Sequence[Document] | None = None, asker: Asker | None = None
) -> Retrieval:
    """Open the configured retrieval. An index supplies the settings that the configuration leaves open.

    `corpus`: an index, a file of passages, or documents; None: what the configuration names, and else each question's
    own paragraphs. The web and servers use none. `asker`: the client of a model, for an index whose searches need one.

    A file and documents are taken in by the back end now. Raises as `check_retrieval`, and `RetrievalError` for a
    missing model and a damaged index, and `InvalidInput` for a corpus file that cannot be read.
    """
    if config.kind == WEB:
        return Retrieval(None, open_web(config), config)
    if config.server:
        served = run_in_thread(ask_server(config.server, _IN_TIME))
        if config.known_hash not in ("", served.hash):
            raise RetrievalError(f"{config.server} serves another index than when this run began: serve that one again")
        return Retrieval(None, connect(config.server), config, name=served.name)
    corpus = config.find_corpus() if corpus is None else corpus
    if not isinstance(corpus, Path):
        return _take_in(corpus, replace(config, kind=config.kind or _USUAL))
    _existing(corpus)
    wanted = resolved(config, corpus, asker)
    name = f"{wanted.kind} {(config.known_hash or corpus_hash(corpus))[:12]}"
    if corpus.is_dir():
        encoder = open_encoder(wanted, wanted.kind)
        return Retrieval(encoder, open_index(corpus, encoder=encoder, asker=asker), wanted, name)
    documents = list(read_corpus(corpus))
    if not documents:
        raise InvalidInput("holds no passages to search; give an index, or a file of passages", file=corpus)
    return _take_in(documents, wanted, name)


def _take_in(documents: Sequence[Document] | None, config: RetrieverConfig, name: str = "") -> Retrieval:
    """One corpus of these documents; None: over each question's own paragraphs, which are taken in question by
    question.
    """
    check_in_memory(config, config.kind)
    encoder = open_encoder(config, config.kind)
    if documents is None:
        return Retrieval(encoder, None, config)
    return Retrieval(encoder, run_in_thread(build_over(documents, config, config.kind, encoder)), config, name)


def open_web(config: RetrieverConfig) -> Retriever:
    """Open a retriever over live pages. Raises `InvalidInput` for a missing key, and for an invalid address."""
    from trailforge.retrieval.web.http import HttpConfig
    from trailforge.retrieval.web.tools import pages_tool

    if config.web_pages < 0:
        raise InvalidInput(f"expected 0 or more, got {config.web_pages}", field="web_pages")
    return pages_tool(
        provider=config.web_provider,
        base_url=config.web_url,
        http=HttpConfig(interval_s=config.web_interval_s),
        longest=config.longest_web_passage,
        read_pages=config.web_pages,
    )


def _existing(corpus: Path) -> Path:
    if not corpus.exists():
        raise InvalidInput(
            "no such file or folder; give an index that `trailforge index build` made, or a file of passages",
            file=corpus,
        )
    return corpus


def _index_of(corpus: Path | None) -> Path | None:
    """The corpus where it is an index; None for a file of passages, and for none."""
    return corpus if corpus is not None and corpus.is_dir() else None


def _check_index(config: RetrieverConfig, index: Path, asker: Asker | None = None) -> IndexManifest:
    """What an index says, which can be searched as the configuration says. Loads nothing else.

    Raises `RetrievalError` for one that is of something else or of another version, is none or needs a package that is
    missing, and `InvalidInput` for one whose searches ask a model.
    """
    manifest = read_manifest(index)
    said = {"kind": (config.kind, manifest.backend)}
    if manifest.encoder:
        said["encoder"] = encoder_model(config.encoder), manifest.encoder
        said["passage_prefix"] = config.passage_prefix, manifest.passage_prefix
    said |= {f"options.{name}": (value, manifest.config.get(name)) for name, value in config.options.items()}
    others = {name: pair for name, pair in said.items() if pair[0] not in ("", pair[1])}
    if others:
        raise RetrievalError(f"{index} was made with {_describe_differences(others)}")
    backend = load_backend(manifest.backend)
    if asker is None and "find" in backend.asks_model(read_numbers(index, manifest)):
        raise InvalidInput(
            f"every search of this {backend.name} asks a model; serve it (`trailforge serve-search`) and give the "
            "server's URL",
            file=index,
        )
    if manifest.encoder:
        check_encoder(config.encoder or manifest.encoder)
    return manifest


def _describe_differences(others: Mapping[str, tuple[Any, Any]]) -> str:
    """Of an index, all at once and with the mends. `others`: what is wanted and what was found, by setting."""
    differences = ", ".join(f"the {name} {found!r}, not {wanted!r}" for name, (wanted, found) in others.items())
    give, build = list[str](), list[str]()
    for name, (wanted, found) in others.items():
        number = name.removeprefix("options.")
        over, of_build = _OPTIONS.get(name, (f"in the preset retrieval.{name}:", f"--set {number}="))
        if name != "passage_prefix" or "encoder" not in others:  # a preset's is not taken over to another encoder
            give.append(f"{over} {json.dumps(found)}")
        build.append(f"{of_build}{json.dumps(wanted)}")
    again = f"trailforge index build … {' '.join(build)}"
    return f"{differences}; give {' '.join(give)}, or build it again ({again})"
