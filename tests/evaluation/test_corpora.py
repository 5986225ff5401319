"""An index that an evaluation built is searched again as it was built, and as nothing else."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.retrieval.indexes.test_store import DOCUMENTS
from trailforge.evaluation.corpora import BackendSource, Corpora
from trailforge.pipelines.index_config import IndexConfig
from trailforge.protocols.environment import EnvironmentConfig
from trailforge.retrieval.backends import load_backend
from trailforge.retrieval.indexes.corpus import Chunking
from trailforge.retrieval.indexes.manifest import MANIFEST
from trailforge.retrieval.indexes.seals import SEAL, write_sealed
from trailforge.retrieval.indexes.store import build_index
from trailforge.schemas import InvalidInput


def corpora(folder: Path, built: IndexConfig, **search: Any) -> Corpora:
    source = BackendSource(name="mine", built=built)
    config = EnvironmentConfig(kg_filter="asked", **search)
    return Corpora(folder=folder, sources=[source], questions=[], search=config)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"options": {"k1": 2.0}}, "k1 1.5, not 2.0"),
        ({"chunk_tokens": 30}, "chunk_tokens 20, not 30"),
        ({"chunk_overlap": 5}, "chunk_overlap 0, not 5"),
        ({"chunk_tokens": None}, "chunk_tokens 20, not None"),
    ],
)
def test_another_build_than_the_one_that_is_there_is_refused(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    built = IndexConfig(backend="bm25", options={"k1": 1.5}, chunk_tokens=20)
    index = tmp_path / "indexes" / "mine"
    index.parent.mkdir()
    config = load_backend("bm25").config(k1=1.5)
    asyncio.run(build_index(DOCUMENTS, index, "bm25", config, chunking=Chunking(tokens=20)))
    corpora(tmp_path, built).check()
    with pytest.raises(InvalidInput, match=f"holds mine with {says}; evaluate into a new folder"):
        corpora(tmp_path, replace(built, **changes)).check()


def test_a_setting_that_an_index_is_older_than_has_its_default(tmp_path: Path) -> None:
    index = tmp_path / "indexes" / "mine"
    index.parent.mkdir()
    asyncio.run(build_index(DOCUMENTS, index, "bm25"))
    content = json.loads((index / MANIFEST).read_text())
    del content["config"]["b"], content[SEAL]
    write_sealed(index / MANIFEST, content)
    corpora(tmp_path, IndexConfig(backend="bm25")).check()
    with pytest.raises(InvalidInput, match=r"b 0\.75, not 0\.5"):
        corpora(tmp_path, IndexConfig(backend="bm25", options={"b": 0.5})).check()


def test_another_encoder_than_its_own_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    index = tmp_path / "indexes" / "mine"
    index.parent.mkdir()
    asyncio.run(build_index(DOCUMENTS, index, "dense"))
    built = IndexConfig(backend="dense")
    corpora(tmp_path, built).check()
    corpora(tmp_path, built, encoder="minilm").check()
    for search, says in (
        ({"encoder": "intfloat/e5-base-v2"}, "encoder 'minilm', not 'intfloat/e5-base-v2'"),
        ({"encoder": "minilm", "passage_prefix": "passage: "}, "passage_prefix '', not 'passage: '"),
    ):
        with pytest.raises(InvalidInput, match=says):
            corpora(tmp_path, built, **search).check()
