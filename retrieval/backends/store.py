"""Indexes in folders: built so that a killed build goes on, described by a sealed manifest, opened by it.

manifest = await build_index(documents, Path("indexes/wiki"), "bm25")
index = open_index(Path("indexes/wiki"))
found = await index.find("Who …?", 5)

The folder holds `index.json` (the manifest), `texts.arrow` (the documents) and `index/` (the back end's files).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trailforge.inference import Prices, metering
from trailforge.inference.asker import Asker
from trailforge.retrieval.backends import Backend, Index, Workbench, load_backend
from trailforge.retrieval.backends.declaration import FoundPassage
from trailforge.retrieval.backends.shards import KeptShards, Report
from trailforge.retrieval.backends.texts import MappedDocuments, TextsWritten, write_texts
from trailforge.retrieval.encoder import Encoder
from trailforge.retrieval.seals import (
    SEAL,
    SealedFile,
    building,
    check_once,
    check_sizes,
    describe_files,
    held,
    is_as_sealed,
    refuse_existing,
    seal,
)
from trailforge.schemas import (
    Document,
    InvalidInput,
    OutputError,
    Passage,
    RetrievalError,
    from_dict,
    parse_json,
    to_dict,
)

MANIFEST = "index.json"
FORMAT = 2
_EARLIER = "meta.json"
"""The manifest of format 1."""
_TEXTS, _INDEX = "texts.arrow", "index"
_MEND = "build the index again"
_SHARDS_AT_ONCE = 2
"""So that the encoder's thread has the next one when a shard is written."""
_SHARDS_ASKING_AT_ONCE = 64
"""Where a model is asked: the client's own limit decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusFigures:
    """What was indexed."""

    name: str = ""
    sha256: str
    """Of the documents: ids, titles and texts, in order."""
    tokens: int
    """Words and marks, whatever encoder and model: what figures per token are counted by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFigures:
    """What a build took, by all processes that worked on it."""

    seconds: float
    peak_memory_bytes: int
    """Of the largest process, with all that it held besides."""
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """None: no prices are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexManifest:
    """What an index is of, how it was made, and its files with their hashes."""

    format: int
    backend: str
    config: dict[str, Any]
    encoder: str = ""
    """Empty: the back end needs none. So are the prefixes, and `dimension` is 0."""
    passage_prefix: str = ""
    query_prefix: str = ""
    dimension: int = 0
    model: str = ""
    """That was asked while it was built; empty: none."""
    documents: int
    corpus: CorpusFigures
    figures: BuildFigures
    files: tuple[SealedFile, ...]
    seal: str = ""
    """See `retrieval.seals`."""

    @property
    def bytes(self) -> int:
        """On disk."""
        return sum(file.bytes for file in self.files)

    @property
    def hours_per_million(self) -> float:
        """Hours to build per million tokens of the corpus."""
        return self.figures.seconds / 3600 / self.corpus.tokens * 1e6

    @property
    def cost_per_million(self) -> float | None:
        """What a million tokens of the corpus cost, in the currency of the prices; None where these are not known."""
        return None if self.figures.cost is None else self.figures.cost / self.corpus.tokens * 1e6


@dataclass(frozen=True, slots=True)
class OpenIndex:
    """An index of a folder, ready to be searched; a `Retriever`."""

    folder: Path
    manifest: IndexManifest
    documents: MappedDocuments
    index: Index
    encoder: Encoder | None

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """See `Index`."""
        return await self.index.find(query, k)

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        """See `base.Retriever`."""
        return [found.passage for found in await self.find(query, k)]


async def build_index(
    documents: Iterable[Document],
    folder: Path,
    backend: str,
    config: Any = None,
    *,
    encoder: Encoder | None = None,
    asker: Asker | None = None,
    corpus_name: str = "",
    prices: Prices | None = None,
    report: Report | None = None,
) -> IndexManifest:
    """Build an index in a folder, all of it or nothing. What a killed build has finished is not done again.

    Until then it lies in `.NAME.building/` beside the folder, by a hash of corpus, back end, configuration, encoder and
    model: a build of anything else begins anew and leaves it there. `config`: of the back end, None its defaults.
    `encoder`: None opens the packaged one for a back end that needs one. `prices`: of the model's tokens, for the
    manifest. `report` is told of every shard.

    Raises `InvalidInput` for a back end that there is not, a corpus without documents, and a configuration that asks a
    model where none is given, `RetrievalError` for an encoder that cannot be loaded, and `OutputError` when the folder
    exists, cannot be written, or another process builds it.
    """
    declared = load_backend(backend)
    config = declared.config() if config is None else config
    refuse_existing(folder)
    check_model(declared, config, asker, "build")
    encoder = (encoder or Encoder()) if declared.needs_encoder else None
    with _workplace(folder) as place:
        written, texts = _keep_texts(documents, place)
        if not written.documents:
            raise InvalidInput("the corpus holds no passages", file=corpus_name or None)
        manifest = _describe(declared, config, written, corpus_name, encoder, asker)
        kept = place / _hash_build(manifest, asker)
        kept.mkdir(exist_ok=True)
        os.replace(texts, kept / _TEXTS)
        shards = KeptShards(kept, at_once=_SHARDS_ASKING_AT_ONCE if asker else _SHARDS_AT_ONCE, report=report)
        with metering() as meter:
            tools = Workbench(encoder=encoder, asker=asker, map=shards)
            index = await declared.build(MappedDocuments.open(kept / _TEXTS), config, tools)
        with building(folder) as unfinished:
            (unfinished / _INDEX).mkdir()
            index.save(unfinished / _INDEX)
            shutil.copyfile(kept / _TEXTS, unfinished / _TEXTS)
            usage, spent = shards.usage + meter.usage(Prices()), shards.spent
            figures = BuildFigures(
                seconds=spent.seconds,
                peak_memory_bytes=spent.peak_memory_bytes,
                calls=usage.calls,
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                cost=0.0 if not usage.calls else prices.cost(usage) if prices else None,
            )
            manifest = replace(manifest, figures=figures, files=tuple(describe_files(unfinished)))
            _write_manifest(unfinished, manifest)
    shutil.rmtree(place, ignore_errors=True)
    return read_manifest(folder)


def read_manifest(folder: Path) -> IndexManifest:
    """The manifest of an index whose files have the right sizes; loads nothing.

    Raises `RetrievalError` when the folder holds none, or a damaged or an earlier one.
    """
    path = folder / MANIFEST
    try:
        content = parse_json(path.read_bytes())
    except OSError as error:
        if (folder / _EARLIER).is_file():
            raise RetrievalError(
                f"{folder} holds an index of an earlier version: build it again with `trailforge index build`"
            ) from error
        raise RetrievalError(
            f"{folder} holds no index: make one with `trailforge index build`, and give the folder it wrote"
        ) from error
    except ValueError as error:
        raise RetrievalError(f"{path} is damaged: {_MEND}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise RetrievalError(f"{path} is not of index format {FORMAT}: {_MEND}")
    try:
        if not is_as_sealed(content):
            raise RetrievalError(f"{path} is damaged: {_MEND}")
        manifest = from_dict(IndexManifest, content)
    except InvalidInput as error:
        raise RetrievalError(f"{path} is damaged: {_MEND}") from error
    check_sizes(folder, manifest.files, _MEND)
    return manifest


def open_index(folder: Path, *, encoder: Encoder | None = None, asker: Asker | None = None) -> OpenIndex:
    """Open an index memory-mapped, so that processes share one copy.

    Every byte is read for its hash once after it was written (`seals.check_once`). `encoder`: None opens the one that
    the manifest names, with its prefixes. `asker`: for a configuration that asks a model at every search.

    Raises `RetrievalError` as `read_manifest`, for damaged files, and for another encoder than the index's, and
    `InvalidInput` when a model is to be asked and none is given.
    """
    manifest = read_manifest(folder)
    check_once(folder, MANIFEST, manifest.files, _MEND)
    backend = load_backend(manifest.backend)
    try:
        config = from_dict(backend.config, manifest.config)
    except InvalidInput as error:
        raise RetrievalError(f"{folder} is of another version of {manifest.backend} ({error}): {_MEND}") from error
    check_model(backend, config, asker, "find")
    encoder = _open_encoder(folder, manifest, encoder) if manifest.encoder else None
    documents = MappedDocuments.open(folder / _TEXTS)
    if len(documents) != manifest.documents:
        raise RetrievalError(f"{folder} holds files of several indexes: {_MEND}")
    index = backend.open(folder / _INDEX, documents, config, Workbench(encoder=encoder, asker=asker))
    return OpenIndex(folder, manifest, documents, index, encoder)


def check_model(backend: Backend, config: Any, asker: Asker | None, what: str) -> None:
    """Raises `InvalidInput` when a configuration asks a model for `what`, `build` or `find`, and there is none."""
    if asker is None and what in backend.asks_model(config):
        doing = "is built" if what == "build" else "is searched"
        raise InvalidInput(f"this {backend.name} asks a model when it {doing}: give one (--model URL)", field="model")


@contextlib.contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """The folder beside an index in which it is built, held for this process."""
    place = folder.with_name(f".{folder.name}.building")
    with contextlib.ExitStack() as stack:
        with _output_errors(place):
            place.mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(held(place))
            except BlockingIOError as error:
                raise OutputError(f"another process builds {folder}; wait for it, or give another folder") from error
            for unfinished in place.glob(f".{_TEXTS}-*"):
                unfinished.unlink()
        yield place


@contextlib.contextmanager
def _output_errors(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {place}: {error.strerror or error}; give another folder") from error


def _keep_texts(documents: Iterable[Document], place: Path) -> tuple[TextsWritten, Path]:
    """Write the documents to a file of the workplace. Raises `OutputError`, and what reading them raises."""
    path = place / f".{_TEXTS}-{uuid.uuid4().hex[:8]}"
    with _output_errors(place):
        return write_texts(documents, path), path


def _describe(
    backend: Backend, config: Any, texts: TextsWritten, name: str, encoder: Encoder | None, asker: Asker | None
) -> IndexManifest:
    """The manifest, but for figures and files."""
    return IndexManifest(
        format=FORMAT,
        backend=backend.name,
        config=to_dict(config),
        encoder=encoder.name if encoder else "",
        passage_prefix=encoder.passage_prefix if encoder else "",
        query_prefix=encoder.query_prefix if encoder else "",
        dimension=encoder.dimension if encoder else 0,
        model=asker.model if asker and "build" in backend.asks_model(config) else "",
        documents=texts.documents,
        corpus=CorpusFigures(name=name, sha256=texts.sha256, tokens=texts.tokens),
        figures=BuildFigures(seconds=0.0, peak_memory_bytes=0),
        files=(),
    )


def _hash_build(manifest: IndexManifest, asker: Asker | None) -> str:
    """What a build's shards depend on."""
    made_of = to_dict(manifest)
    for name in ("query_prefix", "figures", "files", SEAL):
        del made_of[name]
    del made_of["corpus"]["name"]
    if manifest.model and asker is not None:
        made_of["asked"] = [asker.style, asker.seed]
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]


def _write_manifest(folder: Path, manifest: IndexManifest) -> None:
    content = to_dict(manifest)
    del content[SEAL]
    text = json.dumps(seal(content), indent=1, ensure_ascii=False)
    (folder / MANIFEST).write_text(text, encoding="utf-8")


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
