"""A damaged store: an error of ours that names the file and the mend, or the right answers; no other exception."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from trailforge.retrieval.indexes import seals
from trailforge.retrieval.kg import KgStore, KgTool, layout, match_entity, match_relation
from trailforge.schemas import InvalidInput, RetrievalError

MENTIONS = ("Albert Einstein", "Albrt Einstien", "paris", "Einsteinfactor", "Beyonce", "princeton ulm", "!!!")
PHRASES = ("born in", "works fr", "capital")
FILES = [f"{name}.npy" for name in (
    "ids.utf8 ids.starts ids.buckets ids.rows names.utf8 names.starts names.of names.words relations.utf8 "
    "relations.starts relation_names.utf8 relation_names.starts relation_names.of out.runs out.relations out.edges "
    "out.neighbours into.runs into.relations into.edges into.neighbours words.utf8 words.starts words.letters "
    "words.masks deletions.starts deletions.words postings.starts postings.names keys.starts keys.prints keys.names"
).split()] + [layout.MANIFEST]  # fmt: skip


def answers(store: KgStore) -> object:
    """What a store says to all that can be asked of it."""
    ids = [f"Q{number}" for number in (*range(1, 13), 99)]
    told = [(store.entity(i), list(store.triples_of(i)), store.relations_of(i, "out")) for i in ids]
    near = [store.neighbours(i, f"P{number}", "into") for i in ids for number in range(1, 6)]
    matches = [match_entity(store, mention, "Where was he born?") for mention in MENTIONS]
    relations = [match_relation(store, phrase) for phrase in PHRASES]
    found = KgTool(store).search(MENTIONS, PHRASES, "Which employer in Germany?")
    namesakes = [store.namesakes(name).tolist() for name in MENTIONS]
    return told, near, matches, relations, found, namesakes, store.stats, "Q13" in store


@pytest.fixture(scope="module")
def copy(store: KgStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store, for damage that is undone."""
    folder = tmp_path_factory.mktemp("damaged") / "store"
    shutil.copytree(store.folder, folder)
    return folder


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Of the same length, unlike in one place: a bit, a byte, a stretch of noise, of zeros or of ones."""
    other = bytearray(content)
    place = draw.randrange(len(content))
    kind = draw.randrange(5)
    if kind == 0:
        other[place] ^= 1 << draw.randrange(8)
    elif kind == 1:
        other[place] = draw.randrange(256)
    else:
        last = min(len(content), place + draw.randrange(1, 65))
        other[place:last] = [draw.randbytes(last - place), bytes(last - place), b"\xff" * (last - place)][kind - 2]
    return bytes(other)


@pytest.mark.parametrize("name", FILES)
def test_damage_anywhere_is_an_error_of_ours_and_after_the_check_no_answer_is_wrong(
    store: KgStore, copy: Path, name: str
) -> None:
    right, path = answers(store), copy / name
    content = path.read_bytes()
    try:
        for seed in range(10):
            path.write_bytes(damaged(content, random.Random(f"{name} {seed}")))
            try:
                opened = KgStore.open(copy)
                answers(opened)
            except RetrievalError as error:
                assert str(copy) in str(error) and "build the store again" in str(error)
            except InvalidInput as error:
                assert str(copy) in str(error)
            else:
                try:
                    opened.check()
                except RetrievalError as error:
                    assert str(path) in str(error) and "build the store again" in str(error)
                else:
                    assert answers(opened) == right
    finally:
        path.write_bytes(content)


def test_the_files_are_all_of_them(store: KgStore) -> None:
    assert {*FILES, "rejected.parquet"} == {path.name for path in store.folder.iterdir()} - {seals.CHECKED}


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that are hashed, as they are."""
    names: list[str] = []
    real = seals.file_hash

    def counted(path: Path) -> str:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(seals, "file_hash", counted)
    return names


def flipped(path: Path) -> None:
    """One bit at the end of a file is another, and it looks as old and as long as before."""
    content, times = bytearray(path.read_bytes()), path.stat()
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_store_is_hashed_once_and_again_after_any_write(
    tmp_path: Path, store: KgStore, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seals, "_SETTLED_S", -60.0)
    shutil.copytree(store.folder, tmp_path / "store", ignore=shutil.ignore_patterns(seals.CHECKED))
    opened = KgStore.open(tmp_path / "store")
    assert hashed == [], "opening reads no column"
    opened.check_once()
    assert sorted(hashed) == sorted([*FILES[:-1], "rejected.parquet"])
    opened.check_once()
    assert len(hashed) == len(FILES)
    flipped(opened.folder / "out.neighbours.npy")
    for _ in range(2):  # what was found damaged is not taken for checked
        with pytest.raises(RetrievalError, match=r"out\.neighbours\.npy is damaged: build the store again"):
            opened.check_once()
    assert {path.name for path in opened.folder.glob(".*")} == {seals.CHECKED}


def test_files_that_were_just_written_are_not_noted_as_checked(
    tmp_path: Path, store: KgStore, hashed: list[str]
) -> None:
    shutil.copytree(store.folder, tmp_path / "store", ignore=shutil.ignore_patterns(seals.CHECKED))
    opened = KgStore.open(tmp_path / "store")
    opened.check_once()
    opened.check_once()
    assert len(hashed) == 2 * len(FILES), "within one tick of the clock a second write would leave no trace"


def test_a_store_that_cannot_be_written_to_is_checked_all_the_same(
    tmp_path: Path, store: KgStore, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seals, "_SETTLED_S", -60.0)
    shutil.copytree(store.folder, tmp_path / "store", ignore=shutil.ignore_patterns(seals.CHECKED))
    (tmp_path / "store" / seals.CHECKED).mkdir()  # no file can be put there, by whomever
    for times in (1, 2):
        KgStore.open(tmp_path / "store").check_once()
        assert len(hashed) == times * len(FILES)


@pytest.mark.parametrize(
    "change",
    [
        {"files": None},
        {"files": [{}]},
        {"files": [{"name": "x\0", "bytes": 1, "sha256": ""}]},
        {"stats": {"entities": "many"}},
        {"source": ["a"] * 200},
        {"more": 1},
        {"source": "another", "seal": "0"},
    ],
)
def test_a_manifest_that_was_not_written_so_is_named(tmp_path: Path, store: KgStore, change: dict[str, object]) -> None:
    shutil.copytree(store.folder, tmp_path / "store")
    path = tmp_path / "store" / layout.MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(RetrievalError, match=r"is (missing or )?damaged: build the store again"):
        KgStore.open(tmp_path / "store")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"files": ' + "[" * 900 + "]" * 900 + ', "stats": {}}', "\xff", "1"])
def test_a_manifest_that_is_no_object_is_an_error_of_ours(tmp_path: Path, text: str) -> None:
    (tmp_path / layout.MANIFEST).write_bytes(text.encode("latin-1"))
    with pytest.raises((RetrievalError, InvalidInput), match=r"manifest\.json"):
        KgStore.open(tmp_path)


def test_a_store_of_an_earlier_version_has_no_seal_and_opens(tmp_path: Path, store: KgStore) -> None:
    shutil.copytree(store.folder, tmp_path / "store")
    path = tmp_path / "store" / layout.MANIFEST
    content = json.loads(path.read_text())
    del content["seal"]
    path.write_text(json.dumps(content))
    KgStore.open(tmp_path / "store").check()
