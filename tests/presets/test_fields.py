"""A production preset says every setting that decides its rows: none is left to a default in code.

Who reads a preset then reads what the rows were made by, and a default that changes later changes no preset. `demo` is
left out: it says what the small packaged model needs otherwise than a strong one, for all data sets in one file, and
its rows are not meant for training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import pytest

from trailforge.flows.configuration import configured_for_all
from trailforge.generators.agent_trajectories.config import AgentRunConfig
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_trajectories.config import KgRunConfig
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.pipelines.runs.config import RunConfig
from trailforge.presets import datasets_of, load_preset, preset_names
from trailforge.retrieval import RetrieverConfig
from trailforge.retrieval.backends import BACKENDS
from trailforge.retrieval.retrievers import WEB

PRODUCTION = [(name, dataset) for name in preset_names() if name != "demo" for dataset in datasets_of(name)]
GIVEN = {
    "seed": "the command's, which lays it over any preset",
    "kg_hash": "of the graph that --kg names",
    "as_of": "the date of that graph",
    "questions": "all are asked, unless the command says --bundles-only",
    "selection.benchmark_hashes": "of the files that --benchmark names",
    "retrieval.corpus_index": "the documents that the command names",
    "retrieval.corpus_hash": "of these documents",
    "retrieval.options": "differences from a back end's own numbers, which stand in the presets of indexes",
    "tools.options": "as above",
    "model.extra_body": "what one server wants of its callers",
    "model.prompt_price_per_million": "what one provider takes",
    "model.completion_price_per_million": "as above",
    "model.cached_price_per_million": "as above",
}
"""What a person gives to a run, by field, with the reason why no preset can say it."""


class Conditional(NamedTuple):
    """Fields that decide rows only where something else is set, by their names or those of their sections."""

    of: type[RunConfig]
    fields: tuple[str, ...]
    is_used: Callable[[Any], bool]


def needs_encoder(search: RetrieverConfig) -> bool:
    """Whether it does. An index that is not named yet may have one."""
    return not search.kind or (search.kind in BACKENDS and search.encoder_of(search.kind) is not None)


def under(section: str, *names: str) -> tuple[str, ...]:
    """Return the names of these fields of a section."""
    return tuple(f"{section}.{name}" for name in names)


CONDITIONAL = [
    Conditional(RunConfig, ("schedule",), lambda run: isinstance(run, MctsRunConfig)),  # of searches over trees
    Conditional(
        RunConfig,
        under("retrieval", "web_interval_s", "longest_web_passage", "web_provider", "web_url", "web_pages"),
        lambda run: run.retrieval.kind == WEB,
    ),
    Conditional(
        RunConfig,
        under("retrieval", "encoder", "query_prefix", "passage_prefix"),
        lambda run: needs_encoder(run.retrieval),
    ),
    Conditional(
        AgentRunConfig,  # agents that open pages search no graph, and what they find is not filtered
        under("generator", "graph", "kg_filter", "document_filter", "filter_max_tokens", "branch_check"),
        lambda run: not run.generator.browses,
    ),
    Conditional(
        MctsRunConfig,
        under("generator", "policy.model_chooses", "prompts.choose_split"),
        lambda run: run.generator.policy.kind != "model",
    ),
    Conditional(
        MctsRunConfig, ("generator.rollout.num_sentences",), lambda run: run.generator.rollout.reader == "sentences"
    ),
    Conditional(
        MctsRunConfig,
        under("generator.search", "tries", "plan_tries"),
        lambda run: run.generator.search.errors == "provoked",
    ),
    Conditional(
        MctsRunConfig,
        under("generator", "thoughts", "prompts.thoughts", "prompts.thoughts_again"),
        lambda run: run.generator.thoughts.source == "model",
    ),
    Conditional(
        KgRunConfig,
        (
            *under("generator.guided", "plain_temperature", "temperature", "max_relations", "max_entities"),
            *under("generator.prompts", "answer", "entity", "relation", "comparison"),
            "selection.filters.intermediate_answers",
        ),
        lambda run: run.generator.is_led,
    ),
    Conditional(
        KgRunConfig, ("generator.reading.num_sentences",), lambda run: run.generator.reading.reader == "sentences"
    ),
    Conditional(KgRunConfig, ("generator.episode.template",), lambda run: run.generator.episode.style == "completion"),
    Conditional(KgQuestionRunConfig, ("writer.max_answer_words",), lambda run: run.writer.style == "completion"),
    Conditional(BundleRunConfig, ("writer.steps",), lambda run: run.writer.kind != "model"),
    Conditional(BundleRunConfig, ("bundles.within",), lambda run: run.bundles.method == "partitioned"),
    Conditional(
        BundleRunConfig,
        under("tools", "web_interval_s", "longest_web_passage", "web_news"),
        lambda run: run.tools.kind == WEB,
    ),
    Conditional(
        BundleRunConfig,
        under("tools", "encoder", "device", "query_prefix", "passage_prefix"),
        lambda run: needs_encoder(run.tools),
    ),
]
"""What a preset may leave out where it decides nothing."""


def find_leaves(content: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Yield the names of all fields in it, each with the sections above it."""
    for name, value in content.items():
        if isinstance(value, dict) and value:
            yield from find_leaves(value, f"{above}{name}.")
        else:
            yield above + name


def is_in(name: str, names: Mapping[str, str] | tuple[str, ...]) -> bool:
    """Whether it, or a section above it, is among the names."""
    return any(name == each or name.startswith(f"{each}.") for each in names)


def find_deciding(config: Any) -> list[str]:
    """Return the fields that decide a run's rows; hashes of prompts and versions of records are computed."""
    sections = {each.name for each in fields(config)}
    return [name for name in find_leaves(config.row_settings()) if name.split(".")[0] in sections]


def is_asked_for(name: str, config: Any) -> bool:
    """Whether a preset with this configuration has to say the field."""
    conditions = [each for each in CONDITIONAL if isinstance(config, each.of) and is_in(name, each.fields)]
    return not is_in(name, GIVEN) and all(each.is_used(config) for each in conditions)


def find_unsaid(config: Any, content: Mapping[str, Any]) -> list[str]:
    """Return the fields that decide a run's rows and are missing from its preset's content."""
    said = set(find_leaves(content))
    return [name for name in find_deciding(config) if name not in said and is_asked_for(name, config)]


@pytest.mark.parametrize(("name", "dataset"), PRODUCTION)
def test_a_production_preset_says_every_field_that_decides_its_rows(name: str, dataset: str) -> None:
    assert find_unsaid(configured_for_all(name, None, None)[dataset], load_preset(name, dataset)) == []


@pytest.mark.parametrize(("name", "dataset"), PRODUCTION)
def test_a_field_that_is_taken_out_of_a_preset_is_missed(name: str, dataset: str) -> None:
    config, content = configured_for_all(name, None, None)[dataset], load_preset(name, dataset)
    said = {each for each in find_leaves(content) if each in find_deciding(config) and is_asked_for(each, config)}
    assert said
    for field in said:
        assert find_unsaid(config, without(content, field.split("."))) == [field]


def without(content: Mapping[str, Any], path: list[str]) -> dict[str, Any]:
    """Return the content without the field at the end of the path."""
    name, *below = path
    return {
        key: without(value, below) if key == name else value for key, value in content.items() if key != name or below
    }


def test_every_exception_excuses_a_preset() -> None:
    """Else it would be one for a field that is gone, or that all presets say."""
    pairs = [
        (configured_for_all(name, None, None)[dataset], load_preset(name, dataset)) for name, dataset in PRODUCTION
    ]
    unsaid = {name for config, content in pairs for name in set(find_deciding(config)) - set(find_leaves(content))}
    assert [each for each in GIVEN if not any(is_in(name, (each,)) for name in unsaid)] == []
    names = [name for each in CONDITIONAL for name in each.fields]
    assert [each for each in names if not any(is_in(name, (each,)) for name in unsaid)] == []
