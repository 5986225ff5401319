"""Indexes of format 2, whose back ends have a paper's name whoever built them, and of numbers that are no longer."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.retrieval.indexes.test_store import DOCUMENTS
from tests.support.scripted import ScriptedModel
from trailforge.inference import Meter
from trailforge.inference.asker import Asker
from trailforge.retrieval.backends import load_backend
from trailforge.retrieval.indexes import manifest
from trailforge.retrieval.indexes.seals import write_sealed
from trailforge.retrieval.indexes.store import add_to_index, build_index, open_index, read_manifest
from trailforge.retrieval.scope import RetrievalConfig, check_retrieval, corpus_hash, open_retrieval
from trailforge.schemas import Document, InvalidInput, RetrievalError, to_dict


def build(folder: Path, name: str, **numbers: Any) -> None:
    """An index as it was written then; `name`: of now."""
    config = replace(load_backend(name).config(), **numbers)
    made = asyncio.run(build_index(DOCUMENTS, folder, name, config))
    change(folder, made, format=manifest.EARLIER, backend=name.removesuffix("_plain"))


def change(folder: Path, made: manifest.IndexManifest, **changes: Any) -> None:
    content = to_dict(replace(made, **changes))
    del content["seal"], content["pages"]
    write_sealed(folder / "index.json", content)


def test_what_asks_no_model_is_read_as_the_plain_build_and_keeps_its_hash(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    build(folder, "hyper_graph_rag_plain")
    before = json.loads((folder / "index.json").read_text())
    for name in ("figures", "seal"):
        del before[name]
    del before["corpus"]["name"]
    assert corpus_hash(folder) == hashlib.sha256(json.dumps(before, sort_keys=True).encode()).hexdigest()
    assert read_manifest(folder).backend == "hyper_graph_rag_plain"
    assert asyncio.run(open_index(folder).find("lake", 1))


def test_what_a_model_wrote_keeps_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    build(folder, "hyper_graph_rag_plain")
    change(folder, read_manifest(folder), backend="hyper_graph_rag", model="m", config={"facts": "model"})
    assert read_manifest(folder).backend == "hyper_graph_rag"


def test_what_was_built_without_a_model_and_is_searched_with_one_opens(tmp_path: Path) -> None:
    """It is no plain one, whose searches ask nobody."""
    folder = tmp_path / "index"
    build(folder, "hippo_rag", facts="sentences", filter="model")
    found = read_manifest(folder)
    assert (found.backend, found.model) == ("hippo_rag", "")
    model = ScriptedModel(lambda request: '{"useful": [1]}')
    opened = open_index(folder, asker=Asker(client=model, model="m", style="chat", seed=0, meter=Meter()))
    assert asyncio.run(opened.find("Which lake is the largest?", 1)) and model.requests
    with pytest.raises(InvalidInput, match="asks a model when it is searched"):
        open_index(folder)
    config = RetrievalConfig(scope="corpus", corpus_index=str(folder))
    with pytest.raises(InvalidInput, match="every search of this hippo_rag asks a model; serve it"):
        check_retrieval(config)


@pytest.mark.parametrize("format", [manifest.EARLIER, manifest.FORMAT])
@pytest.mark.parametrize("numbers", [{"facts": "verbs"}, {"gone": 1}])
def test_numbers_of_another_version_are_told_with_the_folder_and_the_mend(
    tmp_path: Path, numbers: dict[str, Any], format: int
) -> None:
    folder = tmp_path / "index"
    build(folder, "hyper_graph_rag_plain")
    made = read_manifest(folder)
    name = "hyper_graph_rag" if format == manifest.EARLIER else made.backend
    change(folder, made, format=format, backend=name, config=made.config | numbers)
    config = RetrievalConfig(scope="corpus", corpus_index=str(folder))
    one_more = iter([Document(id="d", title="", text="One more.")])
    for act in (
        lambda: open_index(folder),
        lambda: check_retrieval(config),
        lambda: open_retrieval(config),
        lambda: asyncio.run(add_to_index(one_more, folder)),
    ):
        with pytest.raises(
            RetrievalError, match=r"index is of another version of hyper_graph_rag.*build the index again"
        ):
            act()
