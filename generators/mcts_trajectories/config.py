"""The configuration of a run of MCTS trajectories."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from trailforge.filters import FilterConfig
from trailforge.generators.mcts_trajectories.generate import GeneratorConfig
from trailforge.generators.search_options import search_given
from trailforge.pipelines.runs import OutputConfig, RunConfig, RunInputs
from trailforge.retrieval import RetrievalConfig, with_hash
from trailforge.schemas import NOTICE, InvalidInput, SearchTree, SftRow, Trajectory

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MctsRunConfig(RunConfig):
    """Configuration of a run of MCTS trajectories."""

    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    filters: FilterConfig = field(default_factory=FilterConfig)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
    output: OutputConfig = field(default_factory=OutputConfig)

    def row_settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows; a corpus counts by its content, not by its path."""
        return RunConfig.row_settings(self) | {"retrieval": self.retrieval.row_settings()}

    @property
    def prompt_version(self) -> str:
        """Return a hash of the prompts that the run uses."""
        return self.generator.prompts.version

    @property
    def records(self) -> tuple[type, ...]:
        """Return the classes of records whose schemas affect the rows."""
        return (Trajectory, SearchTree, SftRow)

    @property
    def reply_limits(self) -> dict[str, int]:
        """Return the maximal number of tokens of each kind of reply, by the name of its setting."""
        rollout, policy = self.generator.rollout, self.generator.policy
        thoughts, judge = self.generator.thoughts, self.generator.judge
        limits = {
            "generator.rollout.answer_max_tokens": rollout.answer_max_tokens,
            "generator.rollout.rephrase_max_tokens": rollout.rephrase_max_tokens,
        }
        if policy.kind == "model":
            limits["generator.policy.split_max_tokens"] = policy.split_max_tokens
            limits["generator.policy.judge_max_tokens"] = policy.judge_max_tokens
        if thoughts.source == "model":
            limits["generator.thoughts.max_tokens"] = thoughts.max_tokens
        if judge.near_misses:
            limits["generator.judge.max_tokens"] = judge.max_tokens
        return limits

    @property
    def encoder_name(self) -> str | None:
        """Return the name of the sentence encoder; None when none is needed."""
        return self.retrieval.encoder_name

    @property
    def passage_prefix(self) -> str:
        """Return the text that the sentence encoder needs before each passage."""
        return self.retrieval.passage_prefix

    @property
    def call_style(self) -> Literal["chat", "completion"]:
        """Return whether the model is called with chat messages or with a text that it continues."""
        return self.generator.rollout.style


def configure(config: MctsRunConfig, inputs: RunInputs) -> MctsRunConfig:
    """Return the configuration with the corpus to be searched, and its hash; without a corpus, each question searches
    its own paragraphs. Raises `InvalidInput` when the corpus does not exist, or is the file from which the questions
    are read.
    """
    retrieval = _fall_back(search_given(config.retrieval, inputs.options), inputs)
    if retrieval.scope == "corpus" and retrieval.corpus_index and not retrieval.server:
        corpus = Path(retrieval.corpus_index).resolve()
        if any(file.resolve() == corpus for file in inputs.files):
            raise InvalidInput(
                "are the questions of the run; a corpus is made without them. --scope question searches each one's own "
                "paragraphs",
                file=corpus,
                field="--documents",
            )
    return replace(config, retrieval=with_hash(retrieval))


def _fall_back(retrieval: RetrievalConfig, inputs: RunInputs) -> RetrievalConfig:
    """Where a corpus is wanted and none is named, questions are searched as they came, which is said."""
    names_one = retrieval.corpus_index or retrieval.is_remote
    if retrieval.scope != "corpus" or names_one or inputs.options.get("scope"):
        return retrieval
    _LOG.log(
        NOTICE,
        "no corpus is named (--documents): each question's own paragraphs are searched, among which a search hardly "
        "fails; --scope question says so without this line",
    )
    return replace(retrieval, scope="question")
