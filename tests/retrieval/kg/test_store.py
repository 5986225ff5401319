"""Building and opening: what is in comes out, whole or not at all, and processes share it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.retrieval.kg.support import Given, Ids, small_store, store_of, write_wikidata5m
from tests.support.growth import growth
from trailforge.retrieval.indexes.seals import building
from trailforge.retrieval.kg import KgStore, build_kg
from trailforge.retrieval.kg.sources import Wikidata5M
from trailforge.schemas import InvalidInput, KgEntity, KgTriple, OutputError, RetrievalError

GOLDEN = Path(__file__).parent / "golden_store.json"
ROOT = Path(__file__).resolve().parents[3]
IDS = st.sampled_from([f"Q{n}" for n in range(8)] + ["", "é", "a b"]).filter(bool)
TRIPLES = st.lists(st.tuples(IDS, st.sampled_from(["P1", "P2", "P3"]), IDS), min_size=1, max_size=60)


@settings(max_examples=40, deadline=None)
@given(TRIPLES)
def test_every_triple_is_found_from_both_ends_and_nothing_else(triples: list[Ids]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(Path(folder) / "store", triples)
        distinct = set(triples)
        entities = {end for head, _, tail in distinct for end in (head, tail)}
        assert len(store) == len(entities) and store.stats.triples == len(distinct)
        assert store.stats.duplicate_triples == len(triples) - len(distinct)
        for entity in entities:
            found = [(t.head, t.relation, t.tail) for t in store.triples_of(entity)]
            assert sorted(found) == sorted(t for t in distinct if entity in (t[0], t[2]))
            assert store.degree(entity) == sum((t[0] == entity) + (t[2] == entity) for t in distinct)
            for relation in {t[1] for t in distinct}:
                tails = [t[2] for t in distinct if t[:2] == (entity, relation)]
                heads = [t[0] for t in distinct if t[1:] == (relation, entity)]
                assert sorted(store.neighbours(entity, relation, "out")) == sorted(tails)
                assert sorted(store.neighbours(entity, relation, "into")) == sorted(heads)
                of_relation = [(t.head, t.relation, t.tail) for t in store.triples_of(entity, relation)]
                assert sorted(of_relation) == sorted(t for t in found if t[1] == relation)
            counted = {d: dict(store.relations_of(entity, d)) for d in ("out", "into")}
            assert counted["out"] == {r: len(store.neighbours(entity, r, "out")) for r in counted["out"]}
            assert sum(counted["out"].values()) + sum(counted["into"].values()) == store.degree(entity)


def test_an_entity_with_its_names(store: KgStore) -> None:
    assert store.entity("Q3") == KgEntity(
        id="Q3", label="Germany", aliases=("Federal Republic of Germany", "Deutschland"), degree=1
    )
    assert (store.label("Q9"), store.aliases("Q9"), store.degree("Q4")) == ("Beyoncé", ("Beyonce Knowles",), 2)
    assert store.entity("Q99") == KgEntity(id="Q99", label="Q99", aliases=(), degree=1)
    assert list(store.triples_of("Q6")) == [
        KgTriple(
            head="Q6", relation="P4", tail="Q8", head_label="Paris", relation_label="located in", tail_label="Texas"
        )
    ]
    assert "Q1" in store and "Q13" not in store and 1 not in store


def test_unknown_ids_are_named(store: KgStore) -> None:
    with pytest.raises(InvalidInput, match="no entity 'Q13'"):
        store.entity("Q13")
    with pytest.raises(InvalidInput, match="no relation 'P9'"):
        list(store.triples_of("Q1", "P9"))


def test_a_name_that_comes_again_stays_once_and_the_first_label_stays(tmp_path: Path) -> None:
    class Twice(Given):
        def read(self, into) -> None:  # type: ignore[no-untyped-def]
            into.named(into.entities, "B", ["Bee", "Buzz", "Bee"])
            into.named(into.entities, "A", ["Ay"])
            into.named(into.entities, "B", ["Queen", " Buzz "])
            into.triple("A", "r", "B")

    build_kg(Twice([]), tmp_path / "store")
    store = KgStore.open(tmp_path / "store")
    assert (store.label("B"), store.aliases("B")) == ("Bee", ("Buzz", "Queen"))
    assert (store.label("A"), store.aliases("A")) == ("Ay", ())


def described(store: KgStore) -> str:
    """What a store holds, and the hashes of its columns, as JSON."""
    manifest = json.loads((store.folder / "manifest.json").read_text())
    files = {f["name"]: f["sha256"] for f in manifest["files"] if f["name"].endswith(".npy")}
    ids = [store.id_of(row) for row in range(len(store))]
    content = {
        "entities": {i: [*store.names_of(store.row(i)), store.degree(i)] for i in ids},
        "triples": [t.text for i in ids for t in store.triples_of(i) if t.head == i],
        "stats": {name: manifest["stats"][name] for name in manifest["stats"] if name != "bytes"},
        "files": files,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def test_the_store_changes_only_on_purpose(store: KgStore) -> None:
    """A change of the files needs a new `layout.FORMAT`. Then `python -m tests.retrieval.kg.test_store`."""
    assert described(store) == GOLDEN.read_text(encoding="utf-8")


def test_the_manifest_names_the_source_files_with_their_hashes(store: KgStore) -> None:
    manifest = json.loads((store.folder / "manifest.json").read_text())
    assert manifest["source"] == "wikidata5m" and len(manifest["inputs"]) == 8
    assert all(len(one["sha256"]) == 64 and one["bytes"] for one in manifest["inputs"])


def test_a_folder_that_is_no_store_comes_with_the_mend(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no knowledge graph: build one"):
        KgStore.open(tmp_path)
    with pytest.raises(InvalidInput, match="holds no knowledge graph"):
        KgStore.open(tmp_path / "missing")
    (tmp_path / "manifest.json").write_text('{"run_id": "r"}')
    with pytest.raises(InvalidInput, match="something else than a knowledge graph"):
        KgStore.open(tmp_path)


def test_damage_is_found(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.check()
    path = store.folder / "out.neighbours.npy"
    content = bytearray(path.read_bytes())
    path.write_bytes(content[:-1])
    with pytest.raises(RetrievalError, match=r"out\.neighbours\.npy is missing or damaged: build the store again"):
        KgStore.open(store.folder)
    content[-1] ^= 1
    path.write_bytes(content)
    opened = KgStore.open(store.folder)
    with pytest.raises(RetrievalError, match=r"out\.neighbours\.npy is damaged"):
        opened.check()
    manifest = json.loads((store.folder / "manifest.json").read_text())
    (store.folder / "manifest.json").write_text(json.dumps({**manifest, "format": 0}))
    with pytest.raises(RetrievalError, match="not of store format 3: build the store again with `trailforge kg build`"):
        KgStore.open(store.folder)


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no triples"):
        build_kg(Given([], {"Q1": ["One"]}), tmp_path / "store")
    assert list(tmp_path.iterdir()) == []
    store_of(tmp_path / "store", [("a", "r", "b")])
    with pytest.raises(OutputError, match="exists; give another folder"):
        build_kg(Given([("a", "r", "c")]), tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    with pytest.raises(OutputError, match="cannot write"):
        build_kg(Given([("a", "r", "c")]), tmp_path / "store" / "manifest.json" / "below")


def test_a_build_tidies_up_its_own_leftovers_alone(tmp_path: Path) -> None:
    """`.NAME.tmp-` and eight hex digits, as a folder, is ours; nothing else is touched."""
    foreign = [".store.tmp-mine", ".store.tmp-12ab34cd5", ".store.tmp-12AB34CD", ".other.tmp-12ab34cd"]
    for name in (*foreign, ".store.tmp-12ab34cd"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kept").write_text("")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_text("")
    (tmp_path / ".store.tmp-00000000").symlink_to(tmp_path / "elsewhere")
    (tmp_path / ".store.tmp-11111111").write_text("a file")
    store_of(tmp_path / "store", [("a", "r", "b")])
    assert not (tmp_path / ".store.tmp-12ab34cd").exists()
    assert all([path.name for path in (tmp_path / name).iterdir()] == ["kept"] for name in (*foreign, "elsewhere"))
    assert (tmp_path / ".store.tmp-11111111").is_file() and (tmp_path / ".store.tmp-00000000").is_symlink()


def test_a_store_of_a_name_with_signs_is_built_and_tidied_up(tmp_path: Path) -> None:
    (tmp_path / ".[kg]*.tmp-0123abcd").mkdir()
    store_of(tmp_path / "[kg]*", [("a", "r", "b")])
    assert [path.name for path in tmp_path.iterdir()] == ["[kg]*"]


SLOW_BUILD = """
import sys, time
from pathlib import Path
from trailforge.retrieval.kg import build, build_kg
from tests.retrieval.kg.support import Given
write = build.write_manifest
def waiting(*arguments):
    print("written", flush=True)
    time.sleep(60)
    write(*arguments)
build.write_manifest = waiting
build_kg(Given([("a", "r", "b")]), Path(sys.argv[1]))
"""


def test_a_killed_build_leaves_nothing_half(tmp_path: Path) -> None:
    """Killed when all columns are written: no store. Another build leaves it alone while it lives, then tidies up."""
    out = tmp_path / "store"
    with subprocess.Popen([sys.executable, "-c", SLOW_BUILD, out], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"written\n"
        half = next(tmp_path.iterdir())
        with building(out):
            assert half.exists(), "another build took the folder of one that was at work"
            assert len(list(tmp_path.iterdir())) == 2
            (next(p for p in tmp_path.iterdir() if p not in (half, out)) / "x").write_text("")
        os.rename(out, tmp_path / "other")
        os.kill(process.pid, signal.SIGKILL)
    assert half.exists() and not out.exists()
    store_of(out, [("a", "r", "b")])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "store"]


def test_a_build_that_fails_leaves_no_folder_behind(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for place in ("out/deep/store", "there/new/store"):
        with pytest.raises(InvalidInput), building(tmp_path / place):
            raise InvalidInput("no such file")
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]


READER = """
import sys
from pathlib import Path
from trailforge.retrieval.kg import KgStore, match_entity
store = KgStore.open(Path(sys.argv[1]))
print(match_entity(store, "Albrt Einstein")[0].entity_id, len(list(store.triples_of("Q1"))), flush=True)
sys.stdin.readline()
"""


def test_processes_share_one_store(store: KgStore) -> None:
    """Two readers at once give the same, and map the files instead of copying them."""
    command = [sys.executable, "-c", READER, str(store.folder)]
    readers = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [reader.stdout.readline() for reader in readers if reader.stdout]
    maps = [Path(f"/proc/{reader.pid}/maps") for reader in readers]
    mapped = [path.read_text() for path in maps if path.exists()]
    for reader in readers:
        reader.communicate("\n", timeout=200)
    assert said == ["Q1 2\n"] * 2
    assert all(str(store.folder / "out.neighbours.npy") in text for text in mapped)


def test_columns_cannot_be_written(store: KgStore) -> None:
    with pytest.raises(ValueError, match="read-only"):
        store.out.neighbours[0] = 0


def test_the_same_source_gives_the_same_bytes(tmp_path: Path) -> None:
    source = Wikidata5M(write_wikidata5m(tmp_path / "files"))
    for name in ("one", "two"):
        build_kg(source, tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert (tmp_path / "two" / path.name).read_bytes() == path.read_bytes()


def test_opening_reads_no_column(tmp_path: Path) -> None:
    """Opening a store takes as long as one with an eighth of its hundred thousand triples."""
    rng = np.random.default_rng(0)

    def built(size: int) -> Path:
        ends = rng.integers(0, size // 5, (2, size)).tolist()
        folder = tmp_path / f"{size}"
        build_kg(Given((f"Q{h}", f"P{h % 7}", f"Q{t}") for h, t in zip(*ends, strict=True)), folder)
        return folder

    assert growth(built, KgStore.open, 100_000, most=2.0) < 2.0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        GOLDEN.write_text(described(small_store(Path(temporary))), encoding="utf-8")
