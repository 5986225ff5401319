"""Every shipped preset is read by what it is for, and opens what can be opened without its model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from tests.support.indexes import save_index
from tests.support.kg_agent import paths_store
from trailforge.evaluation.grid import read_evaluation_config
from trailforge.flows.configuration import configured_for_all
from trailforge.generators.agent_trajectories.config import AgentRunConfig
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.kg_trajectories.config import KgRunConfig
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.search_options import KG_FILTER
from trailforge.inference.vllm.server import VllmServer
from trailforge.pipelines.dataset import resolve
from trailforge.pipelines.datasets import dataset_names, load_dataset
from trailforge.pipelines.runs.config import GraphRunConfig, RunConfig, server_config
from trailforge.presets import datasets_of, load_preset, preset_names, training_preset_names
from trailforge.protocols import PROTOCOLS
from trailforge.protocols.result_filters import KgFilter
from trailforge.retrieval import check_retrieval, open_retrieval
from trailforge.retrieval.encoders.encoder import Encoder
from trailforge.retrieval.plan_tools import check_tools
from trailforge.retrieval.retrievers import WEB
from trailforge.training.config import load_train_preset
from trailforge.training.search_sources import open_training_environment

SAMPLE = Path(__file__).parents[2] / "sample_data"
PAIRS = [(name, dataset) for name in preset_names() for dataset in datasets_of(name)]


def class_of(dataset: str) -> type[RunConfig]:
    """Of its configuration."""
    return resolve(load_dataset(dataset).config)


def test_the_demo_is_for_each_data_set_and_each_other_preset_is_for_one() -> None:
    assert {dataset for name, dataset in PAIRS if name == "demo"} == set(dataset_names())
    assert {dataset for name, dataset in PAIRS if name != "demo"} == set(dataset_names())


@pytest.mark.real_model
@pytest.mark.parametrize(("name", "dataset"), PAIRS)
def test_a_preset_opens_what_it_searches(name: str, dataset: str, tmp_path: Path) -> None:
    """With the packaged encoder in the place of one that would have to be fetched."""
    config = configured_for_all(name, None, None)[dataset]
    assert isinstance(config, class_of(dataset)) and config.hash and config.prompt_version and config.longest_reply > 0
    if isinstance(config, GraphRunConfig):
        config = config.on_graph(paths_store(tmp_path / "graph").folder)
        assert config.kg_hash
    if isinstance(config, KgRunConfig | MctsRunConfig | AgentRunConfig):
        retrieval = replace(config.retrieval, encoder="minilm")
        if retrieval.scope == "corpus":  # which the operator gives
            retrieval = replace(retrieval, scope="question")
        check_retrieval(retrieval)
        assert open_retrieval(retrieval)
    elif isinstance(config, BundleRunConfig):
        check_tools(config.tools)
    if not isinstance(config, KgRunConfig | MctsRunConfig | AgentRunConfig) and config.encoder_name is not None:
        assert Encoder(config.encoder_name).dimension == 384


@pytest.mark.parametrize(("name", "dataset"), [pair for pair in PAIRS if "server" in load_preset(*pair)])
def test_a_presets_server_has_a_command(name: str, dataset: str) -> None:
    config, model = server_config(load_preset(name, dataset), source=name, record=class_of(dataset))
    assert model in VllmServer(config, model).command_line


@pytest.mark.real_model
@pytest.mark.parametrize("name", training_preset_names())
def test_a_training_preset_opens_what_its_agents_search(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preset = load_train_preset(name)
    if preset.retrieval.kind == WEB:
        monkeypatch.setenv("ZHIPU_API_KEY", "key")  # what is searched is asked for nothing here
    if preset.protocol == "r_search":
        pytest.skip("plans search a finished run: tests.commands.test_training")
    if not preset.retrieval.kind:
        pytest.skip("an index says how it is searched: tests.training.test_rl_browse")
    search = replace(preset.retrieval, encoder="minilm", kg_filter="first")
    documents = tmp_path / "passages.jsonl"
    documents.write_text('{"title": "Basel", "text": "Basel lies on the Rhine."}\n')
    if search.kind == "dense":
        prefixes = {"passage_prefix": search.passage_prefix, "query_prefix": search.query_prefix}
        documents = save_index(documents, tmp_path / "index", **prefixes)
    graph = paths_store(tmp_path / "graph").folder
    environment = open_training_environment(
        preset.protocol, [documents], search=search, kg=graph, top_k=preset.rl.top_k
    )
    environment.check(PROTOCOLS[preset.protocol])


def test_presets_of_data_training_and_evaluation_filter_triples_alike() -> None:
    """By one model, whoever serves it; the policy of the preset that makes the data is it."""
    data, demo = (configured_for_all(name, None, None)["kg_trajectories"] for name in ("dynasearcher", "demo"))
    assert isinstance(data, KgRunConfig) and isinstance(demo, KgRunConfig)
    searched = load_train_preset("dynasearcher").retrieval, read_evaluation_config("ragsearch").retrieval
    assert {data.generator.kg_filter, *(each.kg_filter for each in searched)} == {"model"}
    assert {data.generator.document_filter, *(each.document_filter for each in searched)} == {"none"}
    assert searched[0].filter_model == searched[1].filter_model and searched[0].filter_model is not None
    assert searched[0].filter_model.model == data.model.name
    assert KG_FILTER.words == get_args(KgFilter)
    assert read_evaluation_config("demo").retrieval.kg_filter == demo.generator.kg_filter
