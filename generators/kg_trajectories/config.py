"""What decides how KG-search episodes are made, and what the questions of a run share."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from trailforge.filters.kg import SelectionConfig
from trailforge.generators.prompts import prompt_version
from trailforge.inference import Prices
from trailforge.inference.asker import Client
from trailforge.pipelines.runs.graph import GraphRunConfig
from trailforge.protocols import kg_search
from trailforge.protocols.episodes import EpisodeConfig
from trailforge.retrieval import Retrieval, RetrievalConfig
from trailforge.retrieval.kg import CountTokens, KgStore, KgToolConfig
from trailforge.rewards import DynaSearcherConstants
from trailforge.rewards.dynasearcher import DEFAULT, PAPER
from trailforge.schemas import ContrastivePair, InvalidInput, KgTrajectory, SftRow, estimate_tokens, to_dict

Reader = Literal["passages", "sentences"]
KgFilter = Literal["model", "asked", "none"]
"""`model`: the paper's, which keeps up to five. `asked`: up to five of an entity that
was matched surely, by the relation that is asked for or to another name in the query. `none`: all that are offered."""
SelfCheck = Literal["off", "reading", "absent"]
"""When graph and documents are said to conflict. `reading`: the model reads something else in the documents than the
graph has. `absent`: besides, no document mentions what the graph has; for models whose reading is not to be relied on.
"""
POOLS = "kg_thoughts"


@dataclass(frozen=True, slots=True, kw_only=True)
class KgPromptNames:
    """Files of `generators/prompts/` in use."""

    answer: str = "answer"
    """Reads what was found: the self-check's documents, and what a guided episode reads."""
    entity: str = "embedded_kg_entity"
    relation: str = "embedded_kg_relation"

    @property
    def version(self) -> str:
        """Hash of the texts behind these names, of the sentences of guided thoughts, and of the protocol's rules."""
        pools = prompt_version(tuple(to_dict(self).values()), pools=POOLS)
        return hashlib.sha256(f"{pools}{kg_search.SYSTEM_PROMPT}{kg_search.USER_SUFFIX}".encode()).hexdigest()[:12]


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

    style: Literal["free", "guided"] = "free"
    """`free`: the model searches as it will. `guided`: it is led along the gold decomposition."""
    episodes: int = 8
    """Per question; the paper's group."""
    episode: EpisodeConfig = field(default_factory=EpisodeConfig)
    """Of free episodes; how the model is asked (`style`) and the limit of turns hold for guided ones too."""
    top_k: int = 5
    """Documents of a search."""
    kg: KgToolConfig = field(default_factory=KgToolConfig)
    kg_filter: KgFilter = "model"
    filter_max_tokens: int = 2048
    self_check: SelfCheck = "reading"
    """Hold what the graph says of each search against what the documents say: one call more for each such search."""
    guided: GuidedConfig = field(default_factory=GuidedConfig)
    reading: ReadingConfig = field(default_factory=ReadingConfig)
    reward: Literal["default", "paper"] = "default"
    """`paper`: as printed, with its gain for an episode that never searches."""
    max_pairs: int = 4
    """Contrastive pairs of a question."""
    prompts: KgPromptNames = field(default_factory=KgPromptNames)

    def __post_init__(self) -> None:
        for name in ("episodes", "top_k"):
            if getattr(self, name) < 1:
                raise InvalidInput("must be 1 or more", field=name)

    @property
    def constants(self) -> DynaSearcherConstants:
        """Of the reward."""
        return PAPER if self.reward == "paper" else DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class KgContext:
    """What all questions of a run share."""

    run_id: str
    model: str
    seed: int
    prices: Prices
    config: KgGeneratorConfig
    client: Client
    retrieval: Retrieval
    store: KgStore
    count_tokens: CountTokens = estimate_tokens
    """The policy model's tokenizer, where it is known; limits what triples a search offers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgRunConfig(GraphRunConfig):
    """Questions and a knowledge graph to annotated search episodes."""

    generator: KgGeneratorConfig = field(default_factory=KgGeneratorConfig)
    selection: SelectionConfig = field(default_factory=SelectionConfig)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)

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
    def longest_reply(self) -> int:
        """The most tokens that a call may ask for."""
        generator = self.generator
        return max(generator.episode.max_tokens, generator.filter_max_tokens, generator.reading.max_tokens)

    @property
    def encoder_name(self) -> str | None:
        """Of the sentence encoder; None when none is wanted."""
        return self.retrieval.encoder if self.retrieval.kind == "dense" else None

    @property
    def call_style(self) -> Literal["chat", "completion"]:
        """How the model is asked."""
        return self.generator.episode.style

    def over(self, documents: Path | None) -> KgRunConfig:
        """With this corpus instead of the questions' own paragraphs."""
        if documents is None:
            return self
        return replace(self, retrieval=replace(self.retrieval, scope="corpus", corpus_index=str(documents)))
