"""Indexes in folders: built so that a killed build can continue, and opened through a manifest with file hashes.

manifest = await build_index(documents, Path("indexes/wiki"), "bm25")
index = open_index(Path("indexes/wiki"))
found = await index.find("Who …?", 5)

The folder holds `index.json` (the manifest), `texts.arrow` (the passages), `index/` (the back end's files), and with
pages `pages.arrow` (the documents whole).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from trailforge.inference import Asker, Prices, Usage, metering
from trailforge.retrieval.backends import Backend, Index, Workbench, load_backend
from trailforge.retrieval.backends.declaration import FoundPassage, attach_sources
from trailforge.retrieval.base import Retriever
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.retrieval.indexes.corpus import Chunking, CountTokens, source_of
from trailforge.retrieval.indexes.manifest import (
    FORMAT,
    MANIFEST,
    MEND,
    PAGES,
    TEXTS,
    BuildFigures,
    CorpusFigures,
    IndexManifest,
    plan_addition,
    read_manifest,
    read_numbers,
    without_unsaid,
    write_manifest,
)
from trailforge.retrieval.indexes.seals import (
    SEAL,
    HeldFiles,
    building,
    check_once,
    describe_files,
    held,
    refuse_existing,
)
from trailforge.retrieval.indexes.shards import KeptShards, Report
from trailforge.retrieval.indexes.texts import MappedDocuments, write_texts
from trailforge.retrieval.pages.corpus import JoinedPages, Pages, WholePages
from trailforge.retrieval.pages.cutting import PASSAGE_TOKENS, Paging, passages_of
from trailforge.retrieval.words import WORDS_VERSION
from trailforge.schemas import Document, InvalidInput, OutputError, Passage, RetrievalError, count_tokens, sync, to_dict

_INDEX = "index"
_SHARDS_AT_ONCE = 2
"""So that the encoder's thread has the next one when a shard is written."""
_SHARDS_ASKING_AT_ONCE = 64
"""Where a model is asked: the client's own limit decides."""


@dataclass(frozen=True, slots=True)
class OpenIndex:
    """An index opened from a folder, which is a `Retriever`."""

    folder: Path
    manifest: IndexManifest
    documents: MappedDocuments
    index: Index
    encoder: Encoder | None
    pages: Pages
    """The corpus as pages to open and read in."""
    files: HeldFiles = HeldFiles(Path(), (), MEND)  # noqa: RUF009 — none
    """The index's files, which are checked around every search."""
    _titles: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """Return the best `k` passages with reasons (`Index.find`). Their sources are ids of whole documents."""
        with self.files.reading():
            found = await self.index.find(query, k)
        if self.manifest.chunking is None:
            return found
        return [replace(each, sources=tuple(dict.fromkeys(map(source_of, each.sources)))) for each in found]

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """Return the best `k` passages, some of which may be a `MadePassage`, as `base.Retriever.retrieve` does."""
        if isinstance(self.index, Retriever):
            with self.files.reading():
                return await self.index.retrieve(query, k)
        return attach_sources(await self.find(query, k), self._known_titles)

    def _known_titles(self) -> Mapping[str, str]:
        """Of the corpus, by id; looked up when the first summary is found."""
        if not self._titles:
            is_cut = self.manifest.chunking is not None
            self._titles.update((source_of(each.id) if is_cut else each.id, each.title) for each in self.documents)
        return self._titles


async def build_index(
    documents: Iterable[Document],
    folder: Path,
    backend: str,
    config: Any = None,
    *,
    encoder: Encoder | None = None,
    asker: Asker | None = None,
    chunking: Chunking | None = None,
    pages: Paging | None = None,
    corpus_name: str = "",
    prices: Prices | None = None,
    report: Report | None = None,
) -> IndexManifest:
    """Build an index in a folder, all of it or nothing. What a killed build has finished is not done again.

    Until it is done, finished parts lie in `.NAME.building/` beside the folder, by a hash of corpus, back end,
    configuration, encoder and model; so a build of anything else begins anew. `config`: of the back end; None: its
    defaults. `encoder`: None opens the packaged one for a back end that needs one. `chunking`: how documents are cut
    into passages, in the encoder's tokens; None: not at all. `pages`: makes each document a page to open, in parts,
    within which passages are cut: of `PASSAGE_TOKENS`, unless `chunking` says another length. `prices`: of the model's
    tokens, for the manifest. `report` is called for every shard.

    Raises `InvalidInput` for a back end that there is not, a corpus without documents, and a configuration that asks a
    model where none is given, `RetrievalError` for an encoder that cannot be loaded, and `OutputError` when the folder
    exists, cannot be written, or another process builds it.
    """
    declared = load_backend(backend)
    config = declared.config() if config is None else config
    _swap(folder)
    refuse_existing(folder)
    declared.check_model(config, asker, "build")
    tools = Workbench(encoder=(encoder or Encoder()) if declared.needs_encoder else None, asker=asker)
    chunking = chunking or (Chunking(tokens=PASSAGE_TOKENS) if pages else None)
    corpus = CorpusFigures(name=corpus_name)
    return await _build(
        folder=folder,
        target=folder,
        manifest=replace(_describe(declared, config, tools), chunking=chunking, pages=pages, corpus=corpus),
        before=None,
        documents=_Counted(documents),
        make=lambda passages, tools: declared.build(passages, config, tools),
        tools=tools,
        prices=prices,
        report=report,
    )


async def add_to_index(
    documents: Iterable[Document],
    folder: Path,
    *,
    encoder: Encoder | None = None,
    asker: Asker | None = None,
    prices: Prices | None = None,
    report: Report | None = None,
) -> IndexManifest:
    """Add documents to an index, all of them or none, cut as those before them. Continues a killed call as
    `build_index` does.

    The new index takes the place of the one before in two renames: a process that opens it between them, or after a
    kill between them, finds none. A process that has it open continues with the one before. Raises `InvalidInput` for a
    back end that takes no additions and for an existing id, and what `build_index` and `open_index` raise.
    """
    _swap(folder)
    manifest = read_manifest(folder)
    declared, config, _ = plan_addition(folder, documents)
    add = declared.add
    assert add is not None
    declared.check_model(config, asker, "build")
    before = open_index(folder, encoder=encoder, asker=asker)
    return await _build(
        folder=folder,
        target=_beside(folder, "added"),
        manifest=replace(manifest, format=FORMAT),
        before=before,
        documents=_Counted(_new_ones(documents, before), manifest.corpus.documents),
        make=lambda passages, tools: add(before.index, passages, config, tools),
        tools=Workbench(encoder=before.encoder, asker=asker),
        prices=prices,
        report=report,
    )


def open_index(folder: Path, *, encoder: Encoder | None = None, asker: Asker | None = None) -> OpenIndex:
    """Open an index memory-mapped, so that processes share one copy.

    Every byte is read for its hash once after it was written (`seals.check_once`). `encoder`: None opens the one that
    the manifest names, with its prefixes. `asker`: for a configuration that asks a model at every search.

    Raises `RetrievalError` as `read_manifest`, for damaged files, and for another encoder than the index's, and
    `InvalidInput` when a model is to be asked and none is given.
    """
    manifest = read_manifest(folder)
    check_once(folder, MANIFEST, manifest.files, MEND)
    backend, config = load_backend(manifest.backend), read_numbers(folder, manifest)
    backend.check_model(config, asker, "find")
    encoder = _open_encoder(folder, manifest, encoder) if manifest.encoder else None
    held_files = HeldFiles(folder, manifest.files, MEND)
    documents = MappedDocuments.open(folder / TEXTS)
    if len(documents) != manifest.documents:
        raise RetrievalError(f"{folder} holds files of several indexes: {MEND}")
    index = backend.open(folder / _INDEX, documents, config, Workbench(encoder=encoder, asker=asker))
    paging = manifest.pages
    pages = WholePages(MappedDocuments.open(folder / PAGES), paging) if paging else JoinedPages(documents)
    return OpenIndex(folder, manifest, documents, index, encoder, pages, held_files)


class _Counted:
    def __init__(self, documents: Iterable[Document], count: int = 0) -> None:
        self._documents, self.count = documents, count

    def __iter__(self) -> Iterator[Document]:
        for document in self._documents:
            self.count += 1
            yield document


async def _build(
    folder: Path,
    target: Path,
    manifest: IndexManifest,
    before: OpenIndex | None,
    documents: _Counted,
    make: Callable[[Sequence[Document], Workbench], Awaitable[Index]],
    tools: Workbench,
    prices: Prices | None,
    report: Report | None,
) -> IndexManifest:
    """Build an index, and write all or nothing.

    `target`: what the finished folder is called at first: as the index, or beside one that is there. `manifest`: what
    is known of it before. `before`: the index to which documents are added. `documents`: from which the passages are
    cut.
    """
    began = time.monotonic()
    with _workplace(folder) as place:
        texts, pages = (place / f".{name}-{uuid.uuid4().hex[:8]}" for name in (TEXTS, PAGES))
        with _output_errors(place):
            kept_pages = _keep_pages(documents, before, pages) if manifest.pages else documents
            passages = passages_of(kept_pages, manifest.chunking, manifest.pages, _counter(tools.encoder))
            written = write_texts(chain(before.documents if before else (), passages), texts)
        if not written.documents:
            raise InvalidInput("the corpus holds no passages; give some", file=manifest.corpus.name or None)
        corpus = replace(manifest.corpus, sha256=written.sha256, documents=documents.count, tokens=written.tokens)
        manifest = replace(manifest, documents=written.documents, corpus=corpus)
        kept = place / _hash_build(manifest, tools.asker)
        kept.mkdir(exist_ok=True)
        os.replace(texts, kept / TEXTS)
        if manifest.pages:
            os.replace(pages, kept / PAGES)
        at_once = _SHARDS_ASKING_AT_ONCE if tools.asker else _SHARDS_AT_ONCE
        shards = KeptShards(kept, began=began, at_once=at_once, report=report)
        with metering() as meter:
            index = await make(MappedDocuments.open(kept / TEXTS), replace(tools, map=shards))
        with building(target) as unfinished:
            (unfinished / _INDEX).mkdir()
            index.save(unfinished / _INDEX)
            for name in (TEXTS, *([PAGES] if manifest.pages else [])):
                shutil.copyfile(kept / name, unfinished / name)
            figures = _figures(shards.spent, shards.usage + meter.usage(Prices()), prices)
            manifest = replace(
                manifest,
                figures=manifest.figures + figures,
                stats=dict(getattr(index, "stats", {})),
                files=tuple(describe_files(unfinished)),
            )
            write_manifest(unfinished, manifest)
        shutil.rmtree(place, ignore_errors=True)
    _swap(folder)
    return read_manifest(folder)


def _keep_pages(documents: Iterable[Document], before: OpenIndex | None, file: Path) -> Iterator[Document]:
    """The documents, when those of the index before and they are kept in a file. Raises `OSError`."""
    earlier = MappedDocuments.open(before.folder / PAGES) if before else ()
    write_texts(chain(earlier, documents), file)
    yield from islice(MappedDocuments.open(file), len(earlier), None)


def _figures(spent: BuildFigures, usage: Usage, prices: Prices | None) -> BuildFigures:
    return replace(
        spent,
        calls=usage.calls,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost=0.0 if not usage.calls else prices.cost(usage) if prices else None,
    )


def _beside(folder: Path, what: str) -> Path:
    return folder.with_name(f".{folder.name}.{what}")


def _swap(folder: Path) -> None:
    """Put what was made beside an index in its place, and finish what a kill broke off. Raises `OutputError`."""
    added, before = _beside(folder, "added"), _beside(folder, "before")
    with _output_errors(folder):
        if added.exists():
            if folder.exists():
                shutil.rmtree(before, ignore_errors=True)
                os.rename(folder, before)
            os.rename(added, folder)
            sync(folder.parent)
    if folder.exists():
        shutil.rmtree(before, ignore_errors=True)


@contextlib.contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """The folder beside an index in which it is built, held for this process; it stays where it has finished work."""
    place = _beside(folder, "building")
    with contextlib.ExitStack() as stack:
        with _output_errors(place):
            place.mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(held(place))
            except BlockingIOError as error:
                raise OutputError(f"another process builds {folder}; wait for it, or give another folder") from error
        try:
            yield place
        finally:
            for unfinished in (*place.glob(f".{TEXTS}-*"), *place.glob(f".{PAGES}-*")):
                unfinished.unlink(missing_ok=True)
            if place.is_dir() and all(path.name.startswith(".") for path in place.iterdir()):
                shutil.rmtree(place, ignore_errors=True)  # nothing was finished


@contextlib.contextmanager
def _output_errors(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {place}: {error.strerror or error}; give another folder") from error


def _describe(backend: Backend, config: Any, tools: Workbench) -> IndexManifest:
    encoder = tools.encoder
    return IndexManifest(
        backend=backend.name,
        config=to_dict(config),
        words=WORDS_VERSION if backend.keeps_words else 0,
        encoder=encoder.name if encoder else "",
        passage_prefix=encoder.passage_prefix if encoder else "",
        query_prefix=encoder.query_prefix if encoder else "",
        dimension=encoder.dimension if encoder else 0,
        model=tools.model.model if "build" in backend.asks_model(config) else "",
    )


def _hash_build(manifest: IndexManifest, asker: Asker | None) -> str:
    """Of what a build's shards depend on."""
    made_of = without_unsaid(to_dict(manifest))
    for name in ("query_prefix", "figures", "stats", "files", SEAL):
        del made_of[name]
    made_of["corpus"] = manifest.corpus.sha256
    if manifest.model and asker is not None:
        made_of["asked"] = [asker.style, asker.seed]
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]


def _counter(encoder: Encoder | None) -> CountTokens:
    """The encoder's tokenizer; without one, a rule for English."""
    return encoder.count_tokens if encoder else lambda texts: [count_tokens(text) for text in texts]


def _new_ones(documents: Iterable[Document], before: OpenIndex) -> Iterator[Document]:
    """Raises `InvalidInput` for a document whose id the index has."""
    is_cut = before.manifest.chunking is not None
    known = {source_of(document.id) if is_cut else document.id for document in before.documents}
    for document in documents:
        if document.id in known:
            raise InvalidInput(f"{before.folder} has a document {document.id!r}; give another id", field="id")
        yield document


def _open_encoder(folder: Path, manifest: IndexManifest, given: Encoder | None) -> Encoder:
    """Raises `RetrievalError` for another one than the index was made with."""
    if given is None:
        return Encoder(manifest.encoder, query_prefix=manifest.query_prefix, passage_prefix=manifest.passage_prefix)
    for name, found in (
        ("encoder", given.name),
        ("passage_prefix", given.passage_prefix),
        ("dimension", given.dimension),
    ):
        wanted = getattr(manifest, name)
        if found != wanted:
            raise RetrievalError(
                f"{folder} was made with the {name} {wanted!r}, not {found!r}; say what it was made with, or build it "
                "again"
            )
    return given
