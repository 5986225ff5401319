"""What decides how KG-search episodes are made, and what the questions of a run share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from trailforge.generators.answer_reading import PROMPT, AnswerCheck
from trailforge.generators.kg_trajectories.selection import EpisodeSelectionConfig
from trailforge.generators.searched import filter_given, search_given
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
"""When graph and documents are said to conflict. `reading`: the model reads something else in the documents than the
graph has. `absent`: it is asked only where no document mentions what the graph has, numbers and dates aside; for models
whose reading is not to be relied on, and fewer calls.
"""
PROMPTS = Prompts("trailforge.generators.kg_trajectories", "trailforge.generators")
LEADERS = "trailforge.leaders"
"""Group of entry points: each makes a `work.Leader`."""
_POOLS = "kg_thoughts"
"""Of guided episodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgPromptNames:
    """Prompts in use."""

    GONE: ClassVar[Mapping[str, str]] = {"self_check": "it is called `read_fact`"}
    answer: str = "answer"
    """Reads what a guided episode's search found."""
    read_fact: str = PROMPT
    """Reads what documents say of a fact: of the graph's, and of what an answer rests on."""
    entity: str = "embedded_kg_entity"
    relation: str = "embedded_kg_relation"
    comparison: str = "embedded_kg_comparison"

    @property
    def version(self) -> str:
        """Hash of the texts behind these names, of the sentences of guided thoughts, of protocol and filters."""
        pools = PROMPTS.version(tuple(to_dict(self).values()), pools=_POOLS)
        tool = f"{KG_SEARCH.system_prompt}{KG_SEARCH.user_suffix}{filter_prompts()}"
        return hashlib.sha256(f"{pools}{tool}".encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidedConfig:
    """How a small model is led along the gold decomposition, and how it reads."""

    plain_temperature: float = 0.0
    """Of the first episode of a question."""
    temperature: float = 1.3
    """Of the others: of the choice of entities and relation, and of reading. High, as the grammar leaves few ways."""
    top_p: float = 1.0
    max_relations: int = 3
    """Relation labels that the model chooses from: those nearest to the query."""
    max_entities: int = 2
    """Mentions in one search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingConfig:
    """How a short answer is read from what a search found."""

    reader: Reader = "passages"
    """What the model sees of the passages: all, or the sentences nearest to the query."""
    num_sentences: int = 3
    """For `sentences`: how many."""
    order: Literal["best_first", "best_last"] = "best_first"
    """Of passages and triples. `best_last` is for a small model, which heeds what stands last."""
    num_triples: int = 5
    """Of those kept."""
    max_tokens: int = 8192
    """Room for a reasoning model's thoughts."""
    stop: tuple[str, ...] = ()
    max_answer_words: int = 30
    """A longer reply is no short answer, and is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgGeneratorConfig:
    """All that decides what is made of a question. Defaults are DynaSearcher's (section 4.1) where it has any."""

    style: str = "free"
    """`free`: the model searches as it will. Others are plug-ins, which lead it along the gold decomposition; `guided`:
    code asks, a small model chooses and reads."""
    episodes: int = 8
    """Per question; the paper's group."""
    episode: EpisodeConfig = field(default_factory=EpisodeConfig)
    """Of free episodes; how the model is asked (`style`) and the limit of turns hold for guided ones too."""
    top_k: int = 5
    """Documents of a search."""
    kg: KgToolConfig = field(default_factory=KgToolConfig)
    kg_filter: KgFilter = "model"
    document_filter: DocumentFilter = "none"
    filter_max_tokens: int = 2048
    """Of a filter's reply."""
    self_check: SelfCheck = "reading"
    """Hold what the graph says in selected episodes against what the documents say: a call for each fact that was asked
    for and of which a document may speak."""
    answer_check: AnswerCheck = "reading"
    """Read once more, of selected episodes, what the answer rests on: what is not stated rejects them."""
    judge: JudgeOptions = field(default_factory=JudgeOptions)
    """Of final answers that the matcher calls wrong: may they be right in other words?"""
    guided: GuidedConfig = field(default_factory=GuidedConfig)
    reading: ReadingConfig = field(default_factory=ReadingConfig)
    reward: Literal["default", "paper"] = "default"
    """`paper`: as printed, with its gain for an episode that never searches."""
    recall_similarity: float = 1.0
    """See `DynaSearcherConstants.recall_similarity`. The encoder is that of `retrieval`; without one, words alone are
    compared."""
    max_pairs: int = 4
    """Contrastive pairs of a question."""
    prompts: KgPromptNames = field(default_factory=KgPromptNames)

    def __post_init__(self) -> None:
        check_plugin(LEADERS, self.style, field="style", built_in=("free",))
        if not 0.0 < self.recall_similarity <= 1.0:
            raise InvalidInput(f"expected above 0 to 1, got {self.recall_similarity}", field="recall_similarity")
        check_least(self, 1, "episodes", "top_k", must="must be")

    @property
    def is_led(self) -> bool:
        """Whether episodes follow the gold decomposition."""
        return self.style != "free"

    @property
    def grammar(self) -> Grammar:
        """The protocol, as agents are told it."""
        return with_turns(self.episode.max_turns)

    @property
    def constants(self) -> DynaSearcherConstants:
        """Of the reward."""
        printed = PAPER if self.reward == "paper" else DEFAULT
        return replace(printed, recall_similarity=self.recall_similarity)


@dataclass(frozen=True, slots=True, kw_only=True)
class KgContext(RunContext):
    """What all questions of a run share."""

    config: KgGeneratorConfig
    retrieval: Retrieval
    store: KgStore


@dataclass(frozen=True, slots=True, kw_only=True)
class KgRunConfig(GraphRunConfig):
    """Questions and a knowledge graph to annotated search episodes."""

    generator: KgGeneratorConfig = field(default_factory=KgGeneratorConfig)
    selection: EpisodeSelectionConfig = field(default_factory=EpisodeSelectionConfig)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)

    def deciding(self) -> dict[str, Any]:
        """What decides the rows; of graph and corpus their content and not their place."""
        return GraphRunConfig.deciding(self) | {"retrieval": self.retrieval.deciding()}

    @property
    def needs_decompositions(self) -> bool:
        """Guided episodes follow the gold decomposition."""
        return self.generator.style == "guided"

    @property
    def prompt_version(self) -> str:
        """Hash of the prompts in use."""
        return self.generator.prompts.version

    @property
    def records(self) -> tuple[type, ...]:
        """Records whose schema decides the rows."""
        return (KgTrajectory, ContrastivePair, SftRow)

    @property
    def reply_limits(self) -> dict[str, int]:
        """The most tokens of a reply, by setting."""
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
        """Of free episodes; those that are led ask for no turns."""
        is_unset = not self.generator.is_led and not self.generator.episode.thought_tokens
        return ("generator.episode.thought_tokens",) if is_unset else ()

    @property
    def encoder_name(self) -> str | None:
        """Of the sentence encoder; None when none is wanted."""
        return self.retrieval.encoder_name

    @property
    def passage_prefix(self) -> str:
        """What that encoder wants before a passage."""
        return self.retrieval.passage_prefix

    @property
    def call_style(self) -> Literal["chat", "completion"]:
        """How the model is asked."""
        return self.generator.episode.style


def configure(config: KgRunConfig, inputs: RunInputs) -> KgRunConfig:
    """Over the graph and the documents that are given. Raises `InvalidInput` when what it searches is not there."""
    retrieval = search_given(config.retrieval, inputs.options)
    generator = replace(config.generator, kg_filter=filter_given(config.generator.kg_filter, inputs.options))
    return replace(config, generator=generator, retrieval=with_hash(retrieval)).on_graph(inputs.options.get("kg"))
