"""Configurations: what decides the rows decides the hash; a mistake in a preset is named."""

from __future__ import annotations

import functools
import json
import operator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trailforge.filters import FilterConfig
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.kg_trajectories.config import KgRunConfig
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.generate import GeneratorConfig, PromptNames
from trailforge.inference import Caps
from trailforge.mcts.inputs import SearchConfig
from trailforge.pipelines.runs.config import ModelConfig, OutputConfig, ScheduleConfig, read_config, server_config
from trailforge.presets import load_preset, preset_names
from trailforge.retrieval import RetrievalConfig
from trailforge.schemas import InvalidInput, SftRow, from_dict, to_dict

DEFAULT = MctsRunConfig()


@pytest.mark.parametrize(
    "changed",
    [
        {"model": ModelConfig(name="another")},
        {"model": ModelConfig(dialect="vllm")},
        {"model": ModelConfig(extra_body='{"top_k": 5}')},
        {"model": ModelConfig(prompt_price_per_million=1.0)},
        {"generator": GeneratorConfig(search=SearchConfig(width=2))},
        {"generator": GeneratorConfig(prompts=PromptNames(answer="embedded_answer"))},
        {"filters": FilterConfig(max_tokens=99)},
        {"retrieval": RetrievalConfig(kind="bm25")},
        {"schedule": ScheduleConfig(tail_parallel=9)},
        {"schedule": ScheduleConfig(tail_questions=9)},
        {"output": OutputConfig(shard_size=3)},
        {"seed": 1},
    ],
)
def test_the_hash_changes_with_what_decides_rows_and_files(changed: dict[str, Any]) -> None:
    assert replace(DEFAULT, **changed).hash != DEFAULT.hash


@pytest.mark.parametrize(
    "changed",
    [
        {"model": ModelConfig(url="http://elsewhere:1/v1")},
        {"model": ModelConfig(max_in_flight=1)},
        {"model": ModelConfig(timeout_s=1.0)},
        {"model": ModelConfig(stall_s=1.0)},
        {"model": ModelConfig(backoff_s=0.1)},
        {"caps": Caps(max_calls=1)},
        {"schedule": ScheduleConfig(questions_in_flight=1)},
        {"schedule": ScheduleConfig(worker_start_s=1.0, worker_silence_s=1.0)},
        {"ledger": "postgresql://forger@db/calls"},
    ],
)
def test_the_hash_stays_when_the_same_model_is_called_elsewhere_or_at_another_pace(changed: dict[str, Any]) -> None:
    assert replace(DEFAULT, **changed) != DEFAULT
    assert replace(DEFAULT, **changed).hash == DEFAULT.hash


def test_the_hash_changes_with_the_text_of_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PromptNames, "version", property(lambda self: "another text"))
    before = DEFAULT.hash
    monkeypatch.undo()
    assert DEFAULT.hash != before


def test_the_hash_changes_with_the_version_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    before = DEFAULT.hash
    monkeypatch.setattr(SftRow, "SCHEMA_VERSION", "99.0")
    assert DEFAULT.hash != before


def test_a_configuration_survives_the_way_through_json() -> None:
    config = read_config(MctsRunConfig, load_preset("demo", "mcts_trajectories"), source="demo")
    again = from_dict(MctsRunConfig, json.loads(json.dumps(to_dict(config))))
    assert again == config and again.hash == config.hash


@pytest.mark.parametrize("name", preset_names("mcts_trajectories"))
def test_every_preset_is_a_configuration(name: str) -> None:
    assert read_config(MctsRunConfig, load_preset(name, "mcts_trajectories"), source=name) != DEFAULT


@pytest.mark.parametrize("name", preset_names("document_bundles"))
def test_every_preset_of_bundles_is_a_configuration(name: str) -> None:
    config = read_config(BundleRunConfig, load_preset(name, "document_bundles"), source=name)
    assert config != BundleRunConfig() and config.hash != BundleRunConfig().hash
    assert from_dict(BundleRunConfig, json.loads(json.dumps(to_dict(config)))) == config


@pytest.mark.parametrize("name", preset_names("kg_trajectories"))
def test_every_preset_of_kg_trajectories_is_a_configuration(name: str) -> None:
    config = read_config(KgRunConfig, load_preset(name, "kg_trajectories"), source=name)
    assert config != KgRunConfig() and config.hash != KgRunConfig().hash
    assert from_dict(KgRunConfig, json.loads(json.dumps(to_dict(config)))) == config


def test_where_benchmarks_are_does_not_decide_but_what_they_ask(tmp_path: Path) -> None:
    here, there, other = (tmp_path / name for name in ("here", "there", "other"))
    for path, text in ((here, "a"), (there, "a"), (other, "b")):
        path.write_text(text)
    hashes = {path: BundleRunConfig().against([path]).hash for path in (here, there, other)}
    assert hashes[here] == hashes[there] != hashes[other]
    with pytest.raises(InvalidInput, match=r"nowhere.*no such file"):
        BundleRunConfig().against([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("yaml", "field", "problem"),
    [
        ("modle: {name: x}", "modle", "unknown field of MctsRunConfig"),
        ("model: {nam: x}", "model.nam", "unknown field of ModelConfig"),
        ("generator: {search: {widht: 4}}", "generator.search.widht", "unknown field of SearchConfig"),
        ("model: {max_in_flight: many}", "model.max_in_flight", "expected int, got str"),
        ("model: {max_in_flight: 1.5}", "model.max_in_flight", "expected int, got float"),
        ("filters: {grounded: 1}", "filters.grounded", "expected bool, got int"),
        ("model: {name: null}", "model.name", "must not be null"),
        ("model: {dialect: telepathy}", "model.dialect", "'telepathy' is none of openai, llama_cpp, vllm"),
        ("generator: {rollout: {stop: x}}", "generator.rollout.stop", "expected a list, got str"),
        ("schedule: 5", "schedule", "expected an object, got int"),
        ("model: [name]", "model", "expected an object, got list"),
        ("model: {url: [1, 2]}", "model.url", "expected str, got list"),
        ("caps: {max_calls: many}", "caps.max_calls", "expected int, got str"),
        ("caps: {max_cost: 5}", "max_cost", "needs prices"),
        ("caps: {max_cost: .nan}", "caps.max_cost", "a number from 0 on"),
        ("caps: {max_tokens: -1}", "caps.max_tokens", "a number from 0 on"),
        ("model: {prompt_price_per_million: -1.5}", "model.prompt_price_per_million", "a number from 0 on"),
        ("model: {completion_price_per_million: .nan}", "model.completion_price_per_million", "a number from 0 on"),
        ("schedule: {worker_silence_s: 0}", "schedule.worker_silence_s", "has to be more than 0"),
        ("ledger: calls.sqlite", "ledger", "expected postgresql://user@host:5432/database"),
        ("ledger: postgresql://u:hunter2@db/calls", "ledger", "set TRAILFORGE_LEDGER_PASSWORD instead"),
    ],
)
def test_a_mistake_in_a_preset_names_file_key_and_problem(tmp_path: Path, yaml: str, field: str, problem: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml)
    with pytest.raises(InvalidInput) as raised:
        read_config(MctsRunConfig, load_preset(str(path), "mcts_trajectories"), source=str(path))
    assert raised.value.file == str(path) and raised.value.field == field
    assert problem in str(raised.value) and "\n" not in str(raised.value) and "hunter2" not in str(raised.value)


def test_where_a_preset_serves_its_model_is_no_part_of_the_run() -> None:
    content = load_preset("msearcher", "mcts_trajectories")
    whole, server = read_config(MctsRunConfig, content, source="msearcher"), content.pop("server")
    assert server["tensor_parallel_size"] == 2
    assert read_config(MctsRunConfig, content, source="msearcher") == whole
    assert "server" not in to_dict(whole)


def test_a_presets_server_goes_by_the_name_that_its_calls_use() -> None:
    server, name = server_config(
        load_preset("msearcher", "mcts_trajectories"), source="msearcher", record=MctsRunConfig
    )
    assert (server.host, server.prefix_caching, server.reasoning_parser) == ("127.0.0.1", True, "deepseek_r1")
    assert name == "Qwen/QwQ-32B"


@pytest.mark.parametrize(
    ("section", "field", "problem"),
    [
        ({"prot": 1}, "prot", "unknown field of VllmConfig"),
        ({"port": "8000"}, "port", "expected int, got str"),
        ({"port": 0}, "server.port", "0 is no port"),
        ({"structured_outputs": "magic"}, "structured_outputs", "'magic' is none of auto, xgrammar"),
        (None, "VllmConfig", "expected an object, got NoneType"),
    ],
)
def test_a_mistake_in_the_server_section_is_named_by_a_run_too(section: Any, field: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as raised:
        read_config(MctsRunConfig, {"server": section}, source="mine.yaml")
    assert raised.value.file == "mine.yaml" and raised.value.field == field


def test_a_window_shorter_than_a_call_may_ask_for_is_refused() -> None:
    content = {"server": {"max_model_len": 8192}}
    with pytest.raises(InvalidInput, match="a call of this preset may ask for 8192 tokens"):
        server_config(content, source="mine.yaml", record=MctsRunConfig)
    content["server"]["max_model_len"] = 8193
    assert server_config(content, source="mine.yaml", record=MctsRunConfig)[0].max_model_len == 8193


def test_calls_that_a_preset_does_not_make_need_no_room() -> None:
    content = load_preset("demo", "mcts_trajectories") | {"server": {"max_model_len": 33}}
    assert server_config(content, source="demo", record=MctsRunConfig)[0].max_model_len == 33
    with pytest.raises(InvalidInput, match="may ask for 32 tokens"):
        server_config(content | {"server": {"max_model_len": 32}}, source="demo", record=MctsRunConfig)


def test_an_empty_mapping_keeps_every_default() -> None:
    assert read_config(MctsRunConfig, {}, source="empty") == DEFAULT


def test_several_servers_are_a_list_or_a_line() -> None:
    listed = read_config(MctsRunConfig, {"model": {"url": ["http://a/v1", "http://b/v1"]}}, source="list")
    assert listed == read_config(MctsRunConfig, {"model": {"url": "http://a/v1,http://b/v1"}}, source="line")
    assert listed.model.client(Caps()).urls == ["http://a/v1", "http://b/v1"]


def test_caps_and_prices_reach_the_client() -> None:
    content = {"model": {"prompt_price_per_million": 2}, "caps": {"max_cost": 5, "max_tokens": 9}}
    config = read_config(MctsRunConfig, content, source="preset")
    client = config.model.client(config.caps)
    assert client.caps == Caps(max_cost=5.0, max_tokens=9) and client.prices.prompt_per_million == 2


@pytest.mark.parametrize(
    "field",
    [
        "generator.thoughts.tries",
        "generator.thoughts.max_tokens",
        "generator.thoughts.max_words",
        "generator.rollout.tries",
        "generator.rollout.top_k",
        "generator.rollout.wordings",
        "generator.rollout.answer_max_tokens",
        "generator.search.width",
        "generator.search.max_rounds",
        "generator.search.max_calls",
    ],
)
def test_a_number_of_which_there_has_to_be_one_is_no_0(field: str) -> None:
    """With no try at all a run would ask nothing and keep what it had, without a word."""
    content = load_preset("tree-search", "mcts_trajectories")
    *path, last = field.split(".")
    functools.reduce(operator.getitem, path, content)[last] = 0
    with pytest.raises(InvalidInput, match="has to be 1 or more") as caught:
        read_config(MctsRunConfig, content, source="preset.yaml")
    assert (caught.value.file, caught.value.field) == ("preset.yaml", field)
