"""Indexes in folders: built shard by shard, described, opened again."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from trailforge.retrieval.backends import Backend, FoundPassage, Workbench, bm25
from trailforge.retrieval.backends.bm25 import Bm25Config
from trailforge.retrieval.backends.declaration import BackendRetriever, MadePassage
from trailforge.retrieval.indexes import manifest, store
from trailforge.retrieval.indexes.corpus import Chunking
from trailforge.retrieval.indexes.shards import KeptShards
from trailforge.retrieval.indexes.store import add_to_index, build_index, open_index, read_manifest
from trailforge.retrieval.indexes.texts import MappedDocuments, write_texts
from trailforge.schemas import Document, InvalidInput, OutputError, Passage, RetrievalError

DOCUMENTS = [
    Document(id="a", title="Mount Ruapehu", text="An active volcano of New Zealand's North Island."),
    Document(id="b", title="Lake Taupo", text="A crater lake, the largest lake of New Zealand."),
    Document(id="c", title="", text="Auckland is a city. Ünïcode \u2028 text 雪."),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a BM25 index."""
    asyncio.run(build_index(iter(DOCUMENTS), tmp_path / "index", "bm25", Bm25Config(k1=1.2), corpus_name="lakes"))
    return tmp_path / "index"


def test_an_index_is_built_described_and_opened(folder: Path) -> None:
    manifest = read_manifest(folder)
    assert (manifest.backend, manifest.config, manifest.documents) == ("bm25", {"k1": 1.2, "b": 0.75}, 3)
    assert (manifest.encoder, manifest.dimension, manifest.model, manifest.figures.cost) == ("", 0, "", 0.0)
    assert (manifest.corpus.name, manifest.corpus.tokens) == ("lakes", 13 + 3 + 13 + 2 + 11)
    assert manifest.bytes == sum(f.stat().st_size for f in folder.rglob("*") if f.is_file() and f.name != "index.json")
    assert manifest.figures.seconds > 0 and manifest.figures.peak_memory_bytes > 1 << 20
    assert manifest.hours_per_million == pytest.approx(manifest.figures.seconds / 3600 / 42 * 1e6)
    index = open_index(folder)
    assert list(index.documents) == DOCUMENTS
    assert index.documents[1] == DOCUMENTS[1] and index.documents[-3:2] == DOCUMENTS[:2]
    (found,) = asyncio.run(index.find("largest lake", 1))
    assert found.passage.id == "b" and "lake, largest" in found.why
    assert asyncio.run(index.retrieve("largest lake", 1)) == [found.passage]
    assert {path.name for path in folder.parent.iterdir()} == {"index"}


def test_who_retrieves_waits_for_no_reasons(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are told of each passage by its words, which takes longer than the search."""
    asked = list[str]()
    monkeypatch.setattr(bm25, "_shared_words", lambda words, passage: asked.append(passage.id) or "")
    index = open_index(folder)
    for retriever in (index, BackendRetriever(index.index)):
        assert [each.id for each in asyncio.run(retriever.retrieve("largest lake", 2))] == ["b"]
    assert not asked
    asyncio.run(index.find("largest lake", 2))
    assert asked == ["b"]


@pytest.mark.parametrize("chunking", [None, Chunking(tokens=4)])
def test_a_summary_says_which_documents_it_is_of(tmp_path: Path, chunking: Chunking | None) -> None:
    """A document, and a part of one, is itself, and says nothing more."""
    asyncio.run(build_index(iter(DOCUMENTS), tmp_path / "index", "bm25", chunking=chunking))
    opened = open_index(tmp_path / "index")
    assert {type(each) for each in asyncio.run(opened.retrieve("lake", 3))} == {Passage}
    parts = tuple(each.id for each in opened.documents)
    summary = FoundPassage(passage=Passage(id="s", title="All", text="All.", score=1.0), why="", sources=parts)

    class Summaries:
        """Finds one."""

        async def find(self, query: str, k: int) -> list[FoundPassage]:
            return [summary]

        def save(self, folder: Path) -> None: ...

    (found,) = asyncio.run(replace(opened, index=Summaries()).retrieve("lake", 3))
    sources = (("a", "Mount Ruapehu"), ("b", "Lake Taupo"), ("c", ""))
    assert found == MadePassage(id="s", title="All", text="All.", score=1.0, sources=sources)


def test_the_same_documents_give_the_same_files(folder: Path, tmp_path: Path) -> None:
    asyncio.run(build_index(DOCUMENTS, tmp_path / "again", "bm25", Bm25Config(k1=1.2)))
    assert read_manifest(tmp_path / "again").files == read_manifest(folder).files


def test_a_folder_that_exists_is_left_alone(folder: Path) -> None:
    with pytest.raises(OutputError, match="exists; give another folder"):
        asyncio.run(build_index(DOCUMENTS, folder, "bm25"))
    assert len(open_index(folder).documents) == 3


def test_no_documents_are_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="empty: the corpus holds no passages"):
        asyncio.run(build_index([], tmp_path / "index", "bm25", corpus_name="empty"))
    assert not os.listdir(tmp_path)


def test_what_is_no_index_says_what_to_do(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match="holds no index: make one with `trailforge index build`"):
        read_manifest(tmp_path)
    (tmp_path / "meta.json").write_text("{}")
    with pytest.raises(RetrievalError, match="holds an index of an earlier version: build it again"):
        read_manifest(tmp_path)
    manifest = json.loads((folder / "index.json").read_text())
    for changed in (
        manifest | {"documents": 2},
        manifest | {"format": 4},
        [],
        {"format": 3},
        {n: v for n, v in manifest.items() if n != "seal"},
    ):
        (folder / "index.json").write_text(json.dumps(changed))
        with pytest.raises(RetrievalError, match="build the index again"):
            open_index(folder)


async def test_an_index_of_other_words_is_refused_and_one_without_words_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those are whose manifest does not speak of words."""
    with monkeypatch.context() as patch:
        patch.setattr(store, "WORDS_VERSION", 0)
        patch.setattr(manifest, "WORDS_VERSION", 0)
        await build_index(DOCUMENTS, tmp_path / "bm25", "bm25")
        written = await build_index(DOCUMENTS, tmp_path / "dense", "dense")
    with pytest.raises(
        RetrievalError, match="bm25 keeps the words of another version: build it again with `trailforge"
    ):
        open_index(tmp_path / "bm25")
    assert written.words == 0
    assert len(await open_index(tmp_path / "dense").find("lake", 3)) == 3


@pytest.mark.parametrize("name", ["texts.arrow", "index/bm25/data.csc.index.npy", "index/bm25/vocab.index.json"])
def test_a_damaged_file_is_named(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)
    assert read_manifest(folder).documents == 3, "sizes are all that the manifest is held against"
    with pytest.raises(RetrievalError, match=f"{Path(name).name} is damaged: build the index again"):
        open_index(folder)
    (folder / name).write_bytes(content[:-1])
    with pytest.raises(RetrievalError, match=f"{Path(name).name} is missing or damaged"):
        read_manifest(folder)


def test_texts_are_read_in_batches_as_they_were_written(tmp_path: Path) -> None:
    documents = [Document(id=str(n), title=f"t{n}", text="x" * (n % 7)) for n in range(9000)]
    written = write_texts(iter(documents), tmp_path / "texts.arrow")
    texts = MappedDocuments.open(tmp_path / "texts.arrow")
    assert written.documents == len(texts) == 9000
    assert [texts[n] for n in (0, 4095, 4096, 8999, -1)] == [documents[n] for n in (0, 4095, 4096, 8999, -1)]
    assert list(texts) == documents
    with pytest.raises(IndexError):
        texts[9000]


# A back end of two parts: one gives an array, the other what JSON says


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthsConfig:
    """Nothing but a number."""

    per_shard: int = 2


class Lengths:
    """Finds the longest texts."""

    def __init__(self, documents: Sequence[Document], lengths: np.ndarray, words: Sequence[Sequence[str]]) -> None:
        self.documents, self.lengths, self.words = documents, lengths, words

    def save(self, folder: Path) -> None:
        """See `Index`."""
        np.save(folder / "lengths.npy", self.lengths)
        (folder / "words.json").write_text(json.dumps(self.words))

    async def find(self, query: str, k: int) -> list[FoundPassage]:
        """See `Index`."""
        rows = np.argsort(-self.lengths, kind="stable")[:k]
        passages = [(self.documents[int(row)], float(self.lengths[row])) for row in rows]
        return [
            FoundPassage(passage=Passage(id=d.id, title=d.title, text=d.text, score=s), why="", sources=(d.id,))
            for d, s in passages
        ]


class Killed(Exception):
    """Stands for kill -9."""


class LengthsBackend:
    """Counts what is worked on, and dies before a shard where it is told to."""

    def __init__(self) -> None:
        self.worked: list[tuple[str, ...]] = []
        self.dies_before = ""

    async def count(self, texts: Sequence[str]) -> np.ndarray:
        """One shard of the first part."""
        if self.dies_before in texts:
            raise Killed
        self.worked.append(("count", *texts))
        return np.array([len(text) for text in texts])

    async def split(self, documents: Sequence[Document]) -> list[tuple[str, ...]]:
        """One shard of the second part."""
        if self.dies_before in {d.text for d in documents}:
            raise Killed
        self.worked.append(("split", *(d.text for d in documents)))
        return [tuple(d.text.split()) for d in documents]

    async def build(self, documents: Sequence[Document], config: LengthsConfig, tools: Workbench) -> Lengths:
        """See `Backend`."""
        lengths = np.empty(len(documents), np.int64)
        assert await tools.map("lengths", self.count, [d.text for d in documents], config.per_shard, lengths) == []
        words = await tools.map("words", self.split, documents, config.per_shard)
        return Lengths(documents, lengths, [each for shard in words for each in shard])

    async def add(
        self, index: Lengths, documents: Sequence[Document], config: LengthsConfig, tools: Workbench
    ) -> Lengths:
        """See `Backend`."""
        more = documents[len(index.documents) :]
        lengths = await tools.map("lengths", self.count, [d.text for d in more], config.per_shard)
        words = [*index.words, *(d.text.split() for d in more)]
        return Lengths(documents, np.concatenate([index.lengths, *lengths]), words)

    def open(self, folder: Path, documents: Sequence[Document], config: LengthsConfig, tools: Workbench) -> Lengths:
        """See `Backend`."""
        return Lengths(documents, np.load(folder / "lengths.npy"), json.loads((folder / "words.json").read_text()))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> LengthsBackend:
    """Loaded whatever name is asked for."""
    made = LengthsBackend()
    declared = Backend(
        name="toy", config=LengthsConfig, build=made.build, open=made.open, add=made.add, needs_encoder=False
    )
    for module in (store, manifest):
        monkeypatch.setattr(module, "load_backend", lambda name: declared)
    return made


SEVEN = [Document(id=str(n), title="", text=f"text {'x' * n}") for n in range(7)]


@pytest.mark.parametrize("dies_before", ["text xxxx", "text xxxxxx"])
def test_a_build_goes_on_where_it_ended(toy: LengthsBackend, tmp_path: Path, dies_before: str) -> None:
    asyncio.run(build_index(SEVEN, tmp_path / "whole", "toy"))
    whole, toy.worked = sorted(toy.worked), []
    toy.dies_before = dies_before
    with pytest.raises(Killed):
        asyncio.run(build_index(SEVEN, tmp_path / "index", "toy"))
    assert toy.worked and not (tmp_path / "index").exists()
    toy.dies_before = ""
    asyncio.run(build_index(SEVEN, tmp_path / "index", "toy"))
    assert sorted(toy.worked) == whole, "each shard once"
    assert read_manifest(tmp_path / "index").files == read_manifest(tmp_path / "whole").files
    assert [f.passage.id for f in asyncio.run(open_index(tmp_path / "index").find("", 2))] == ["6", "5"]


@pytest.mark.parametrize("chunking", [None, Chunking(tokens=100)])
def test_documents_are_added_to_an_index(toy: LengthsBackend, tmp_path: Path, chunking: Chunking | None) -> None:
    out = tmp_path / "index"
    asyncio.run(build_index(SEVEN[:4], out, "toy", chunking=chunking))
    before, opened = read_manifest(out), open_index(out)
    toy.worked, toy.dies_before = [], SEVEN[6].text
    with pytest.raises(Killed):
        asyncio.run(add_to_index(iter(SEVEN[4:]), out))
    assert read_manifest(out) == before
    toy.dies_before = ""
    manifest = asyncio.run(add_to_index(iter(SEVEN[4:]), out))
    assert toy.worked == [("count", SEVEN[4].text, SEVEN[5].text), ("count", SEVEN[6].text)], "none of those before"
    assert (manifest.documents, manifest.corpus.documents, manifest.chunking) == (7, 7, chunking)
    assert manifest.figures.seconds > before.figures.seconds
    assert list(opened.documents) == list(open_index(out).documents)[:4], "who has it open goes on with the one before"
    (best,) = asyncio.run(open_index(out).find("", 1))
    assert best.sources == ("6",) and best.passage.id == ("6#1" if chunking else "6")
    with pytest.raises(InvalidInput, match=r"has a document '5'; give another id"):
        asyncio.run(add_to_index([SEVEN[5]], out))
    assert os.listdir(tmp_path) == ["index"]


@pytest.mark.parametrize("renamed", [False, True])
def test_a_swap_that_was_broken_off_is_finished_by_the_next_call(
    toy: LengthsBackend, tmp_path: Path, renamed: bool
) -> None:
    out = tmp_path / "index"
    asyncio.run(build_index(SEVEN[:2], out, "toy"))
    asyncio.run(build_index(SEVEN[:4], tmp_path / ".index.added", "toy"))
    if renamed:
        out.rename(tmp_path / ".index.before")
    asyncio.run(add_to_index([SEVEN[5]], out))
    assert [d.id for d in open_index(out).documents] == ["0", "1", "2", "3", "5"]
    assert os.listdir(tmp_path) == ["index"]


def test_a_back_end_that_takes_no_documents_later_says_so(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="bm25 takes no documents later: build the index again"):
        asyncio.run(add_to_index([SEVEN[0]], folder))


def test_sources_of_passages_are_documents_of_the_corpus(tmp_path: Path) -> None:
    text = "Taupo is a lake. It is large. Ruapehu is a volcano. It is active."
    documents = [Document(id="n", title="North Island", text=text), DOCUMENTS[2]]
    asyncio.run(build_index(documents, tmp_path / "index", "bm25", chunking=Chunking(tokens=12, overlap=4)))
    index = open_index(tmp_path / "index")
    assert (index.manifest.documents, index.manifest.corpus.documents) == (4, 2)
    (found,) = asyncio.run(index.find("volcano", 1))
    assert found.sources == ("n",) and found.passage.id.startswith("n#") and found.passage.title == "North Island"


def test_a_configuration_that_asks_a_model_wants_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    toy = LengthsBackend()
    declared = Backend(
        name="toy",
        config=LengthsConfig,
        build=toy.build,
        open=toy.open,
        needs_encoder=False,
        asks_model=lambda config: ("build",) if config.per_shard > 2 else ("find",),
    )
    for module in (store, manifest):
        monkeypatch.setattr(module, "load_backend", lambda name: declared)
    with pytest.raises(InvalidInput, match="this toy asks a model when it is built: give one"):
        asyncio.run(build_index(SEVEN, tmp_path / "index", "toy", LengthsConfig(per_shard=3)))
    asyncio.run(build_index(SEVEN, tmp_path / "index", "toy"))
    with pytest.raises(InvalidInput, match="this toy asks a model when it is searched"):
        open_index(tmp_path / "index")


def test_a_build_of_something_else_begins_anew_and_leaves_the_other(toy: LengthsBackend, tmp_path: Path) -> None:
    toy.dies_before = SEVEN[4].text
    with pytest.raises(Killed):
        asyncio.run(build_index(SEVEN, tmp_path / "index", "toy"))
    toy.worked.clear()
    with pytest.raises(Killed):
        asyncio.run(build_index(SEVEN[:5], tmp_path / "index", "toy"))
    assert ("count", *(d.text for d in SEVEN[:2])) in toy.worked, "another corpus"
    toy.worked.clear()
    with pytest.raises(Killed):
        asyncio.run(build_index(SEVEN, tmp_path / "index", "toy", LengthsConfig(per_shard=1)))
    assert ("count", SEVEN[0].text) in toy.worked, "another configuration"
    toy.worked.clear()
    toy.dies_before = ""
    asyncio.run(build_index(SEVEN, tmp_path / "index", "toy"))
    assert ("count", *(d.text for d in SEVEN[:2])) not in toy.worked
    assert not list(tmp_path.glob(".*")), "nothing is left beside the index"


def test_a_shard_that_is_damaged_or_of_other_items_is_made_anew(tmp_path: Path) -> None:
    toy = LengthsBackend()

    async def lengths(texts: list[str]) -> list[int]:
        made = await KeptShards(tmp_path)("lengths", toy.count, texts, 2)
        return [int(each) for shard in made for each in shard]

    asyncio.run(lengths(["a", "bb", "ccc"]))
    assert asyncio.run(lengths(["a", "bb", "c"])) == [1, 2, 1]
    assert toy.worked == [("count", "a", "bb"), ("count", "ccc"), ("count", "c")]
    (tmp_path / "lengths" / "00000000.npy").write_bytes(b"not an array")
    (tmp_path / "lengths" / "00000001.json").write_bytes(b"{")
    toy.worked.clear()
    assert asyncio.run(lengths(["a", "bb", "c"])) == [1, 2, 1]
    assert len(toy.worked) == 2


def test_parts_have_names_of_their_own_and_items_a_plain_form(tmp_path: Path) -> None:
    toy, shards = LengthsBackend(), KeptShards(tmp_path)
    asyncio.run(shards("one", toy.count, ["a"], 1))
    for name in ("one", "../two", ""):
        with pytest.raises(ValueError, match="once in a build"):
            asyncio.run(shards(name, toy.count, ["a"], 1))
    with pytest.raises(TypeError, match="items of a shard"):
        asyncio.run(shards("three", toy.count, [object()], 1))  # pyright: ignore[reportArgumentType]


def test_one_process_at_a_time_builds_an_index(toy: LengthsBackend, tmp_path: Path) -> None:
    async def two() -> None:
        first = asyncio.Event()

        async def slow(texts: Sequence[str]) -> np.ndarray:
            first.set()
            await asyncio.sleep(0.2)
            return np.array([len(text) for text in texts])

        toy.count = slow  # type: ignore[method-assign]
        build = asyncio.create_task(build_index(SEVEN, tmp_path / "index", "toy"))
        await first.wait()
        with pytest.raises(OutputError, match="another process builds"):
            await build_index(SEVEN, tmp_path / "index", "toy")
        await build

    asyncio.run(two())
    assert read_manifest(tmp_path / "index").documents == 7


def test_all_shards_are_told_of(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    shards = KeptShards(tmp_path, at_once=3, report=lambda *each: told.append(each))
    asyncio.run(shards("lengths", LengthsBackend().count, ["a", "b", "c"], 2))
    assert told == [("lengths", 1, 2), ("lengths", 2, 2)]
    assert os.listdir(tmp_path) == ["lengths"]
