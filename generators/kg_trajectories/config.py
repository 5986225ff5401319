"""Configuration of how KG-search episodes are made, and what the questions of a run share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from trailforge.generators.answer_reading import PROMPT, AnswerCheck
from trailforge.generators.kg_trajectories.choice import EpisodeSelectionConfig
from trailforge.generators.search_options import filter_given, search_given
from trailforge.inference import Prompts
from trailforge.inference.judge import JudgeOptions
from trailforge.pipelines.engine import RunContext
from trailforge.pipelines.runs import GraphRunConfig, RunInputs
from trailforge.protocols import KG_SEARCH, EpisodeConfig, Grammar, with_turns
from trailforge.protocols.result_filters import DocumentFilter, KgFilter, filter_prompts
from trailforge.retrieval import Retrieval, RetrievalConfig, with_hash
from trailforge.retrieval.kg import KgStore, KgToolConfig
from trailforge.rewards.dynasearcher import DEFAULT, PAPER, DynaSearcherConstants
from trailforge.schemas import ContrastivePair, InvalidInput, KgTrajectory, SftRow, check_least, check_plugin, to_dict

Reader = Literal["passages", "sentences"]
SelfCheck = Literal["off", "reading", "absent"]
"""When the graph and the documents are said to conflict. `reading`: the model reads something else in the documents
than the graph has. `absent`: it is asked only where no document mentions what the graph has, numbers and dates aside;
for models whose reading is not to be relied on, and fewer calls.
"""
PROMPTS = Prompts("trailforge.generators.kg_trajectories", "trailforge.generators")
LEADERS = "trailforge.leaders"
"""Group of entry points, each of which makes a `work.Leader`."""
_POOLS = "kg_thoughts"
"""Name of the file of sentences from which thoughts of guided episodes are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgPromptNames:
    """Names of the prompts that a run uses."""

    GONE: ClassVar[Mapping[str, str]] = {"self_check": "it is called `read_fact`"}
    answer: str = "answer"
    """The prompt that reads what a guided episode's search found."""
    read_fact: str = PROMPT
    """The prompt that reads what documents say of a fact: one of the graph, or one that an answer rests on."""
    entity: str = "embedded_kg_entity"
    relation: str = "embedded_kg_relation"
    comparison: str = "embedded_kg_comparison"

    @property
    def version(self) -> str:
        """Return a hash of the texts behind these names, of the sentences for guided thoughts, and of protocol and
        filters.
        """
        pools = PROMPTS.version(tuple(to_dict(self).values()), pools=_POOLS)
        tool = f"{KG_SEARCH.system_prompt}{KG_SEARCH.user_suffix}{filter_prompts()}"
        return hashlib.sha256(f"{pools}{tool}".encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidedConfig:
    """Settings for a small model that follows the gold decomposition, and for how it reads answers."""

    plain_temperature: float = 0.0
    """Sampling temperature of the first episode of a question."""
    temperature: float = 1.3
    """Sampling temperature of further episodes, for choosing entities and relation and for reading. It is high, as the
    grammar leaves few ways."""
    top_p: float = 1.0
    max_relations: int = 3
    """Number of relation labels that the model chooses from: those nearest to the query."""
    max_entities: int = 2
    """Most mentions of entities in one search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingConfig:
    """Settings of how a short answer is read from search results."""

    reader: Reader = "passages"
    """Whether the model sees whole passages, or the sentences nearest to the query."""
    num_sentences: int = 3
    """Number of sentences that the model sees with `sentences`."""
    order: Literal["best_first", "best_last"] = "best_first"
    """Order of passages and triples. `best_last` is for a small model, which heeds what stands last."""
    num_triples: int = 5
    """Most kept triples that the model sees."""
    max_tokens: int = 8192
    """Most tokens of a reading; there is room for a reasoning model's thoughts."""
    stop: tuple[str, ...] = ()
    max_answer_words: int = 30
    """Most words of an answer. A longer reply is no short answer, and is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgGeneratorConfig:
    """All settings that decide what is made of a question. Defaults are DynaSearcher's (section 4.1) where it has
    any."""

    style: str = "free"
    """How episodes are made. `free`: the model searches as it will. Others are plug-ins, which lead it along the gold
    decomposition; `guided`: code asks, a small model chooses and reads."""
    episodes: int = 8
    """Number of episodes per question; the paper's group."""
    episode: EpisodeConfig = field(default_factory=EpisodeConfig)
    """Settings of free episodes; how the model is asked (`style`) and the limit of turns hold for guided ones too."""
    top_k: int = 5
    """Number of documents that one search returns."""
    kg: KgToolConfig = field(default_factory=KgToolConfig)
    kg_filter: KgFilter = "model"
    document_filter: DocumentFilter = "none"
    filter_max_tokens: int = 2048
    """Most tokens of the reply of a filter that asks the model."""
    self_check: SelfCheck = "reading"
    """Whether what the graph says in selected episodes is held against what the documents say: a call for each fact
    that was asked for and of which a document may speak."""
    answer_check: AnswerCheck = "reading"
    """Whether a model reads once more what the answer of a selected episode rests on. An unstated answer rejects the
    episode."""
    judge: JudgeOptions = field(default_factory=JudgeOptions)
    """How a judge is asked whether a final answer that the matcher calls wrong is right in other words."""
    guided: GuidedConfig = field(default_factory=GuidedConfig)
    reading: ReadingConfig = field(default_factory=ReadingConfig)
    reward: Literal["default", "paper"] = "default"
    """The form of the reward. `paper`: as printed, with its gain for an episode that never searches."""
    recall_similarity: float = 1.0
    """Similarity from which on a passage of another title counts as a supporting document; see
    `DynaSearcherConstants.recall_similarity`. The encoder is that of `retrieval`; without one, words alone are
    compared."""
    max_pairs: int = 4
    """Most contrastive pairs of a question."""
    prompts: KgPromptNames = field(default_factory=KgPromptNames)

    def __post_init__(self) -> None:
        check_plugin(LEADERS, self.style, field="style", built_in=("free",))
        if not 0.0 < self.recall_similarity <= 1.0:
            raise InvalidInput(f"expected above 0 to 1, got {self.recall_similarity}", field="recall_similarity")
        check_least(self, 1, "episodes", "top_k", must="must be")

    @property
    def is_led(self) -> bool:
        """Tell whether episodes follow the gold decomposition."""
        return self.style != "free"

    @property
    def grammar(self) -> Grammar:
        """Return the protocol by which episodes are written, with the wording of its rules for agents."""
        return with_turns(self.episode.max_turns)

    @property
    def constants(self) -> DynaSearcherConstants:
        """Return the constants of DynaSearcher's reward."""
        printed = PAPER if self.reward == "paper" else DEFAULT
        return replace(printed, recall_similarity=self.recall_similarity)


@dataclass(frozen=True, slots=True, kw_only=True)
class KgContext(RunContext):
    """What all questions of a run share when episodes are made: model client, settings, documents and knowledge
    graph.
    """

    config: KgGeneratorConfig
    retrieval: Retrieval
    store: KgStore


@dataclass(frozen=True, slots=True, kw_only=True)
class KgRunConfig(GraphRunConfig):
    """Configuration of a run that turns questions and a knowledge graph into annotated search episodes."""

    generator: KgGeneratorConfig = field(default_factory=KgGeneratorConfig)
    selection: EpisodeSelectionConfig = field(default_factory=EpisodeSelectionConfig)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)

    def row_settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows; graph and corpus count by their content, not by their path."""
        return GraphRunConfig.row_settings(self) | {"retrieval": self.retrieval.row_settings()}

    @property
    def needs_decompositions(self) -> bool:
        """Tell whether questions need gold decompositions, which guided episodes follow."""
        return self.generator.style == "guided"

    @property
    def prompt_version(self) -> str:
        """Return a hash of the prompts that the run uses."""
        return self.generator.prompts.version

    @property
    def records(self) -> tuple[type, ...]:
        """Return the classes of records whose schemas affect the rows."""
        return (KgTrajectory, ContrastivePair, SftRow)

    @property
    def reply_limits(self) -> dict[str, int]:
        """Return the maximal number of tokens of each kind of reply, by the name of its setting."""
        generator, episode = self.generator, self.generator.episode
        limits = {"generator.reading.max_tokens": generator.reading.max_tokens}
        if not generator.is_led:  # else the model takes no turns and keeps no triples
            limits["generator.episode.max_tokens"] = episode.max_tokens + episode.thought_tokens
            limits["generator.filter_max_tokens"] = generator.filter_max_tokens
        return limits | (
            {"generator.judge.max_tokens": generator.judge.max_tokens} if generator.judge.near_misses else {}
        )

    @property
    def thought_settings(self) -> tuple[str, ...]:
        """Return the names of settings for a reasoning model's thoughts that free episodes need and that are not set;
        guided ones need none.
        """
        is_unset = not self.generator.is_led and not self.generator.episode.thought_tokens
        return ("generator.episode.thought_tokens",) if is_unset else ()

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
        return self.generator.episode.style


def configure(config: KgRunConfig, inputs: RunInputs) -> KgRunConfig:
    """Return the configuration with the graph and the documents that the command's inputs name. Raises `InvalidInput`
    when one is missing.
    """
    retrieval = search_given(config.retrieval, inputs.options)
    generator = replace(config.generator, kg_filter=filter_given(config.generator.kg_filter, inputs.options))
    return replace(config, generator=generator, retrieval=with_hash(retrieval)).on_graph(inputs.options.get("kg"))
