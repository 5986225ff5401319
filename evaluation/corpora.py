"""The corpora that the agents of an evaluation search: an index, a server, the web, or a back end built in the
evaluation's folder.

back end "dense"              built over the evaluation's own corpus, once, into FOLDER/indexes/dense
"wiki=indexes/wiki"           an index by this name in the table; "live=http://…": a server
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trailforge.evaluation.agents.reading_budget import BudgetedRetriever, CountTokens
from trailforge.evaluation.builds import IndexWriter, buildable, check_writer, read_build
from trailforge.evaluation.folder import INDEXES, BackendChoice
from trailforge.inference import Asker
from trailforge.inference.provider import check_server_url
from trailforge.pipelines import IndexConfig
from trailforge.pipelines.runs import MANIFEST
from trailforge.protocols import KG_SEARCH, SEARCH_R1
from trailforge.protocols.environment import (
    Environment,
    EnvironmentConfig,
    check_filters,
    open_environment,
    open_filters,
)
from trailforge.retrieval import (
    WEB,
    RetrieverConfig,
    ask_server,
    corpus_hash,
    index_packages,
    open_encoder,
    run_in_thread,
)
from trailforge.retrieval.backends import Backend, load_backend
from trailforge.retrieval.encoders import check_encoder, encoder_model
from trailforge.retrieval.indexes import (
    Chunking,
    IndexManifest,
    Report,
    build_index,
    cut,
    describe_files,
    distinct,
    file_hash,
    read_corpus,
    read_manifest,
    read_numbers,
)
from trailforge.retrieval.service import NO_KEY, is_address
from trailforge.rewards.r_search import TOOLS
from trailforge.schemas import (
    Document,
    InvalidInput,
    Question,
    count_tokens,
    estimate_tokens,
    to_dict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSource:
    """A back end as the command line names it: a name, a folder, a URL or a preset."""

    name: str
    """The back end's name in the table."""
    place: str = ""
    """Folder of an index, URL of a server, or `web`; empty: the back end is built over the evaluation's corpus."""
    built: IndexConfig | None = None
    """How the back end is built, where it has no place."""

    @property
    def is_remote(self) -> bool:
        """Tell whether the back end is the web or a server."""
        return self.place == WEB or is_address(self.place)


def read_source(text: str, options: dict[str, Any]) -> BackendSource:
    """Read a back end from the command line.

    `text` is the `NAME` of a back end or index preset, `NAME=FILE.yaml` of a preset, `NAME=FOLDER` or `NAME=URL`.
    `options` are settings for an index that is built, by name. Raises `InvalidInput` for text that is none of these,
    and for options that a back end does not have.
    """
    name, equals, place = text.partition("=")
    for each in (text, place):
        check_server_url(each, "--backend", NO_KEY)
    if text == WEB:
        return BackendSource(name=WEB, place=WEB)
    if not equals and name in buildable():
        return BackendSource(name=name, built=read_build(name, options.get(name) or {}))
    if not name or "/" in name or not place:
        known = ", ".join((*buildable(), WEB))
        raise InvalidInput(
            f"{text!r}: say a back end ({known}), NAME=FOLDER of an index, NAME=URL of a server", field="--backend"
        )
    if place.endswith((".yaml", ".yml")):
        return BackendSource(name=name, built=read_build(place, options.get(name) or {}))
    if not is_address(place) and not Path(place).is_dir():
        raise InvalidInput("no such folder; make an index with `trailforge index build`", file=place, field="--backend")
    return BackendSource(name=name, place=place)


def read_sources(texts: Iterable[str], options: dict[str, Any]) -> list[BackendSource]:
    """Read each text as `read_source` does. Raises what that raises, and `InvalidInput` for two back ends of one
    name.
    """
    found: dict[str, BackendSource] = {}
    for text in dict.fromkeys(texts):
        source = read_source(text, options)
        if source.name in found:
            raise InvalidInput(f"two back ends are called {source.name}; give each its own name", field="--backend")
        found[source.name] = source
    return list(found.values())


def packages_of(sources: Iterable[BackendSource], search: RetrieverConfig, kg: str | Path | None) -> Iterator[str]:
    """Return the optional modules that an evaluation needs: for its back ends, the graph, the model client and the
    report's plots. Raises `RetrievalError` for a folder that holds no index.
    """
    yield from ("matplotlib", "openai", *(("rapidfuzz",) if kg else ()))
    for source in sources:
        if (built := source.built) is not None:
            yield from replace(search, kind=built.backend, options=built.options).packages_over(built.backend)
        elif not source.is_remote:
            yield from index_packages(Path(source.place))


def gather_paragraphs(questions: Sequence[Question]) -> Iterator[Document]:
    """Collect all paragraphs of the questions, each once, as one corpus. Raises `InvalidInput` when there are none. The
    paragraphs get new ids, since theirs are unique within a question only.
    """
    found = False
    for each in distinct(paragraph for question in questions for paragraph in question.paragraphs):
        found = True
        yield replace(each, id=f"paragraph {each.id}")
    if not found:
        raise InvalidInput(
            "the questions bring no paragraphs to build back ends over; give --documents, or --backend NAME=FOLDER"
        )


def check_places(documents: Path | None, kg: str | None) -> None:
    """Raise `InvalidInput` for a corpus or graph that does not exist, and for a URL that contains a key."""
    for place, name in ((documents, "--documents"), (kg, "--kg")):
        check_server_url(str(place or ""), name, NO_KEY)
        if place is not None and not is_address(str(place)) and not Path(place).exists():
            raise InvalidInput("no such file or folder", file=place, field=name)


def hash_place(place: Path | str | None) -> str:
    """Return the SHA-256 of a file, of a folder's manifest, or of the names and hashes of its files; empty for None.
    For a graph's server, which does not say what it holds, the URL is returned.
    """
    if place is None or (isinstance(place, str) and is_address(place)):
        return place or ""
    path = Path(place)
    if path.is_file() or (path / MANIFEST).is_file():
        return file_hash(path if path.is_file() else path / MANIFEST)
    files = [[file.name, file.sha256] for file in describe_files(path)]
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpora:
    """Everything that is searched in an evaluation: its back ends, documents and knowledge graph."""

    folder: Path
    """The folder of the evaluation."""
    sources: Sequence[BackendSource]
    questions: Sequence[Question]
    documents: Path | None = None
    """The corpus over which back ends that are given by name are built; None: the paragraphs of the questions."""
    read: Callable[[Path], Iterable[Document]] = read_corpus
    """Reads the documents of that corpus."""
    search: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    """The encoder of the back ends that are built, and how graphs are searched and results filtered."""
    kg: Path | str | None = None
    """A graph's folder, or the URL of a server that has one; None: no graph."""
    top_k: int = 5
    context_tokens: int | None = None
    """Most tokens of passages that a search shows, by `count`; None: `top_k` passages, however long."""
    count: CountTokens = estimate_tokens
    writer: IndexWriter | None = None
    """The model that back ends ask, not opened yet; None: no model can be asked."""
    asker: Asker | None = None
    """The same model once it is opened, for searches that ask it (`open`)."""

    def check(self) -> None:
        """Check that all back ends can be searched or built, as far as is possible without loading them. Raises
        `InvalidInput` for a back end that needs a language model where there is none, and `RetrievalError` for a
        missing package or a folder that holds no index.
        """
        check_filters(self.search, self.kg is not None)
        for source in self.sources:
            self._check(source)

    def prepare(self, report: Report | None = None) -> tuple[BackendChoice, ...]:
        """Build every back end that is given by name and not built yet; returns what each back end searches and what
        building it cost. Raises what `check` raises, and `ServerUnavailable` when the model of a filter cannot be
        reached.
        """
        open_filters(self.search, self.kg is not None)
        return tuple(self._prepare(source, report) for source in self.sources)

    def open(self, choice: BackendChoice) -> Environment:
        """Open what the agents search: the back end, and the knowledge graph where there is one. All search tools of a
        plan search the same documents, since an index has only one kind.
        """
        source = next(each for each in self.sources if each.name == choice.name)
        environment = open_environment(
            KG_SEARCH if self.kg else SEARCH_R1,
            None if source.is_remote else self._index(source),
            search=self._search(source),
            kg=self.kg,
            top_k=self.top_k,
            asker=self.asker,
        )
        documents = environment.documents
        assert documents is not None
        if self.context_tokens is not None:
            room, pays = self.context_tokens, source.place == WEB
            documents = BudgetedRetriever(retriever=documents, tokens=room, count=self.count, asks_once=pays)
            environment = replace(environment, documents=documents)
        return replace(environment, plan_tools=dict.fromkeys(TOOLS, documents))

    def _check(self, source: BackendSource) -> None:
        if source.is_remote:
            return
        if (index := self._index(source)).exists():
            manifest = read_manifest(index)
            backend, config = manifest.backend, read_numbers(index, manifest)
            self._check_same(source, index, manifest, config)
        else:
            built = source.built
            assert built is not None
            backend, config = built.backend, built.numbers()
            if (encoder := self._search(source).encoder_of(backend)) is not None:
                check_encoder(encoder)
        check_writer(self.writer, backend, config)

    def _check_same(self, source: BackendSource, index: Path, manifest: IndexManifest, config: Any) -> None:
        """Raises `InvalidInput` where an index that was built here was built otherwise than is wanted now. A setting
        that its manifest is older than has its default."""
        if (built := source.built) is None:
            return
        wanted = {**to_dict(built.numbers()), **_said_of_chunks(built.chunking)}
        found = {**to_dict(config), **_said_of_chunks(manifest.chunking)}
        if manifest.encoder:
            wanted["encoder"] = encoder_model(self.search.encoder_of(built.backend) or "")
            found["encoder"] = manifest.encoder
            wanted["passage_prefix"], found["passage_prefix"] = self.search.passage_prefix, manifest.passage_prefix
        for name, value in wanted.items():
            if found.get(name) != value:
                raise InvalidInput(
                    f"holds {source.name} with {name} {found.get(name)!r}, not {value!r}; evaluate into a new folder, "
                    "or as before",
                    file=index,
                    field=name,
                )

    @contextlib.asynccontextmanager
    async def asking(self) -> AsyncIterator[Corpora]:
        """Open the model that searches call, if an index calls one, and give these corpora with it. All indexes must be
        built.
        """
        if self.writer is None or not any(map(self.asks_to_find, self.sources)):
            yield self
            return
        async with self.writer.asking() as asker:
            yield replace(self, asker=asker)

    def is_built(self, source: BackendSource) -> bool:
        """Tell whether the index exists, given as a folder or built here before."""
        return not source.is_remote and self._index(source).exists()

    def asks_to_find(self, source: BackendSource) -> bool:
        """Tell whether every search of an index, which must exist, calls a language model."""
        return self.is_built(source) and _asks_to_find(self._index(source))

    def plan_builds(self) -> Iterator[tuple[str, Backend, Any, Sequence[Document]]]:
        """Yield what is still to be built with a language model: its name, the back end with its settings, and the
        passages.
        """
        for source in self.sources:
            built = source.built
            if built is None or self._index(source).exists() or not _asks(built):
                continue
            documents = list(self._documents())
            passages = list(cut(documents, built.chunking, _count_each)) if built.chunking else documents
            yield source.name, built.declared, built.numbers(), passages

    def _prepare(self, source: BackendSource, report: Report | None) -> BackendChoice:
        if source.place == WEB:
            return BackendChoice(name=source.name)
        if is_address(source.place):
            served = run_in_thread(ask_server(source.place))
            return BackendChoice(name=source.name, index=served.hash, config={"backend": served.backend})
        index = self._index(source)
        if not index.exists():
            asyncio.run(self._build(source, index, report))
        manifest = read_manifest(index)
        return BackendChoice(
            name=source.name,
            index=corpus_hash(index),
            config={
                "backend": manifest.backend,
                "encoder": manifest.encoder,
                **({"model": manifest.model} if manifest.model else {}),
                **({"asks": self.writer.model.name} if self.writer and _asks_to_find(index) else {}),
                **({"chunk_tokens": manifest.chunking.tokens} if manifest.chunking else {}),
                **manifest.config,
            },
            build_hours=manifest.figures.seconds / 3600,
            hours_per_million=manifest.hours_per_million,
            cost=manifest.figures.cost,
            cost_per_million=manifest.cost_per_million,
            calls=manifest.figures.calls,
            bytes=manifest.bytes,
        )

    def _index(self, source: BackendSource) -> Path:
        return Path(source.place) if source.place else self.folder / INDEXES / source.name

    def _search(self, source: BackendSource) -> EnvironmentConfig:
        """An index of another place says by itself how it is searched."""
        if source.is_remote:
            return replace(self.search, kind=source.place, options={})
        if source.place:
            return replace(self.search, kind="", options={}, encoder="", query_prefix="", passage_prefix="")
        assert source.built is not None
        return replace(self.search, kind=source.built.backend, options=source.built.options)

    def _documents(self) -> Iterable[Document]:
        return self.read(self.documents) if self.documents else gather_paragraphs(self.questions)

    async def _build(self, source: BackendSource, index: Path, report: Report | None) -> None:
        search, built = self._search(source), source.built
        assert built is not None
        async with contextlib.AsyncExitStack() as stack:
            writer = self.writer if _asks(built) else None
            await build_index(
                self._documents(),
                index,
                built.backend,
                built.numbers(),
                encoder=open_encoder(search, built.backend),
                asker=await stack.enter_async_context(writer.asking()) if writer else None,
                prices=writer.prices if writer else None,
                chunking=built.chunking,
                corpus_name=self.documents.name if self.documents else "",
                report=report,
            )


def _asks(built: IndexConfig) -> bool:
    return "build" in built.declared.asks_model(built.numbers())


def _asks_to_find(index: Path) -> bool:
    manifest = read_manifest(index)
    return "find" in load_backend(manifest.backend).asks_model(read_numbers(index, manifest))


def _said_of_chunks(chunking: Chunking | None) -> dict[str, int | None]:
    return {"chunk_tokens": chunking and chunking.tokens, "chunk_overlap": chunking.overlap if chunking else 0}


def _count_each(texts: Sequence[str]) -> list[int]:
    return list(map(count_tokens, texts))
