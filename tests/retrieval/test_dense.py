"""The files of a dense index."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import pytest

from tests.retrieval.support import DOCUMENTS
from trailforge.retrieval import DenseIndex, Encoder
from trailforge.retrieval.backends.vectors import embedded_text
from trailforge.retrieval.dense import open_index, save_index
from trailforge.retrieval.seals import seal
from trailforge.schemas import RetrievalError

pytestmark = pytest.mark.real_model


@pytest.fixture(scope="module")
def index(encoder: Encoder) -> DenseIndex:
    """Over DOCUMENTS."""
    return DenseIndex.build(DOCUMENTS, encoder.encode_documents([embedded_text(d) for d in DOCUMENTS]))


@pytest.fixture
def folder(index: DenseIndex, encoder: Encoder, tmp_path: Path) -> Path:
    """The saved index."""
    save_index(index, tmp_path / "index", encoder)
    return tmp_path / "index"


def test_a_saved_index_answers_alike_and_is_mapped(index: DenseIndex, encoder: Encoder, folder: Path) -> None:
    opened = open_index(folder, encoder)
    for query in ("Who directed Metropolis?", "capital of Austria", "???"):
        vector = encoder.encode_query(query)
        assert opened.search(vector, 5) == index.search(vector, 5)
    maps = Path("/proc/self/maps")
    if maps.exists():
        mapped = maps.read_text()
        assert str(folder / "vectors.faiss") in mapped and str(folder / "texts.arrow") in mapped


def test_saving_is_all_or_nothing(index: DenseIndex, encoder: Encoder, tmp_path: Path, folder: Path) -> None:
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    with pytest.raises(RetrievalError, match="exists; give another folder"):
        save_index(index, folder, encoder)


def test_the_same_documents_give_the_same_files(index: DenseIndex, encoder: Encoder, folder: Path) -> None:
    save_index(index, folder.parent / "again", encoder)
    for path in folder.iterdir():
        assert (folder.parent / "again" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("field", "value"), [("encoder", "e5"), ("passage_prefix", "passage: "), ("dimension", 768)])
def test_another_encoder_is_refused(encoder: Encoder, folder: Path, field: str, value: object) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    del meta["seal"]
    (folder / "meta.json").write_text(json.dumps({**meta, field: value}))
    with pytest.raises(RetrievalError, match=f"was made with the {field} '?{value}.*or build it again"):
        open_index(folder, encoder)


@pytest.mark.parametrize("name", ["vectors.faiss", "texts.arrow"])
def test_a_damaged_or_missing_file_is_named(encoder: Encoder, folder: Path, name: str) -> None:
    path = folder / name
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    with pytest.raises(RetrievalError, match=f"{name} is missing or damaged: build the index again"):
        open_index(folder, encoder)
    path.unlink()
    with pytest.raises(RetrievalError, match=f"{name} is missing or damaged"):
        open_index(folder, encoder)


DEEP = "[" * 900 + "]" * 900


@pytest.mark.parametrize("meta", ["{", "[]", "{}", '{"format": 99}', '{"format": 1}', "[" * 100_000, DEEP, "\ufeff"])
def test_a_damaged_description_is_named(encoder: Encoder, folder: Path, meta: str) -> None:
    (folder / "meta.json").write_text(meta)
    with pytest.raises(RetrievalError, match=r"meta\.json is .*: build the index again"):
        open_index(folder, encoder)


@pytest.mark.parametrize("change", [{"sha256": []}, {"sha256": {}}, {"dimension": "9"}, {"more": 1}, {"encoder": None}])
def test_a_description_of_another_form_is_refused(encoder: Encoder, folder: Path, change: dict[str, object]) -> None:
    meta = json.loads((folder / "meta.json").read_text())
    del meta["seal"]
    (folder / "meta.json").write_text(json.dumps({**meta, **change}))
    with pytest.raises(RetrievalError, match=r"is (missing or )?damaged: build the index again"):
        open_index(folder, encoder)


@pytest.mark.parametrize("name", ["meta.json", "vectors.faiss", "texts.arrow"])
def test_damage_anywhere_is_an_error_of_ours_or_changes_no_answer(encoder: Encoder, folder: Path, name: str) -> None:
    vector = encoder.encode_query("capital of Austria")
    right = open_index(folder, encoder).search(vector, 5)
    content = (folder / name).read_bytes()
    for seed in range(60):
        draw, other = random.Random(seed), bytearray(content)
        other[draw.randrange(len(content))] = draw.randrange(256)
        (folder / name).write_bytes(other)
        try:
            assert open_index(folder, encoder).search(vector, 5) == right
        except RetrievalError as error:
            assert str(folder) in str(error) and "build" in str(error)


def test_files_that_are_no_index_with_the_right_hashes_are_refused(encoder: Encoder, folder: Path) -> None:
    """As a folder from elsewhere may hold them: what reads them raises errors of its own kinds."""
    meta = json.loads((folder / "meta.json").read_text())
    unsealed = {name: value for name, value in meta.items() if name != "seal"}
    for name in meta["sha256"]:
        sound = (folder / name).read_bytes()
        (folder / name).write_bytes(b"nothing of the kind")
        hashes = {**meta["sha256"], name: hashlib.sha256(b"nothing of the kind").hexdigest()}
        (folder / "meta.json").write_text(json.dumps(seal({**unsealed, "sha256": hashes})))
        with pytest.raises(RetrievalError, match="holds other files than an index does: build the index again"):
            open_index(folder, encoder)
        (folder / name).write_bytes(sound)


def test_an_index_of_an_earlier_version_opens(encoder: Encoder, folder: Path) -> None:
    """It has neither a seal nor a prefix of queries."""
    meta = json.loads((folder / "meta.json").read_text())
    del meta["seal"], meta["query_prefix"]
    (folder / "meta.json").write_text(json.dumps(meta))
    assert open_index(folder, encoder).documents[:] == list(DOCUMENTS)


def test_a_folder_without_an_index(encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match="holds no index: make one with `trailforge index`"):
        open_index(tmp_path, encoder)
