"""Configuration of how episodes of an agent are drawn and kept, and of what all questions of a run share."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from trailforge.evaluation.agents import Agent, load_agent, published_grammar
from trailforge.generators.agent_trajectories.filters import AgentFilterConfig
from trailforge.generators.answer_reading import PROMPT as READ_FACT
from trailforge.generators.answer_reading import AnswerCheck
from trailforge.generators.search_options import filter_given, search_given
from trailforge.inference import Prompts
from trailforge.inference.judge import JudgeOptions
from trailforge.pipelines.engine import sha256_of
from trailforge.pipelines.runs import OutputConfig, RunConfig, RunInputs
from trailforge.protocols import PROTOCOLS, SEARCH_R1
from trailforge.protocols.browse import BROWSE
from trailforge.protocols.result_filters import DocumentFilter, KgFilter
from trailforge.retrieval import WEB, RetrievalConfig, with_hash
from trailforge.retrieval.kg import MANIFEST, KgStore, KgToolConfig
from trailforge.schemas import AgentTrajectory, ContrastivePair, InvalidInput, SftRow, check_least, from_dict, to_dict

PROMPTS = Prompts("trailforge.generators.agent_trajectories", "trailforge.generators")
FROM_MEMORY = "from_memory"
"""Name of the prompt that asks a question from memory (`MemoryConfig`)."""
OPEN_BRANCHES = "open_branches"
"""Name of the prompt that asks which links of an episode are open."""
_SAMPLING = frozenset(("temperature", "top_p"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig:
    """Settings for asking the same model each question without any search, before episodes are drawn."""

    draws: int = 4
    """How many answers from memory are drawn for a question; 0: the model is not asked."""
    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 8192
    """Most tokens of an answer from memory; there is room for a reasoning model's thoughts."""
    stop: tuple[str, ...] = ()
    max_answer_words: int = 30
    """Most words of an answer from memory. A longer reply is no short answer, and is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentGeneratorConfig:
    """Settings for drawing episodes: which agent, how often, and with which of its settings."""

    agent: str = SEARCH_R1.name
    """Name of the agent, as `evaluation.agents.load_agent` takes it."""
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    """Settings that replace the agent's own, by the names in its configuration. Those of sampling stand beside this
    field."""
    draws: int = 8
    """Number of episodes drawn on a question, each with a seed of its own."""
    temperature: float = 0.7
    """Sampling temperature of every call of the agent."""
    top_p: float = 0.95
    top_k: int = 5
    """Number of passages that one search returns."""
    style: Literal["chat", "completion"] = "chat"
    """Whether the model is asked by chat messages or by a text that it goes on with."""
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    graph: KgToolConfig = field(default_factory=KgToolConfig)
    """How a knowledge graph is searched."""
    kg_filter: KgFilter = "model"
    document_filter: DocumentFilter = "none"
    filter_max_tokens: int = 2048
    """Most tokens of the reply of a filter that asks the model."""
    answer_check: AnswerCheck = "reading"
    """Whether a model reads once more what the answer of a kept episode rests on. An unstated answer rejects the
    episode."""
    answer_check_max_tokens: int = 8192
    """Most tokens of such a reading, and of one for open links; there is room for a reasoning model's thoughts."""
    branch_check: AnswerCheck = "reading"
    """Whether a model reads a kept episode for what else could be meant at its links. What no thought looks at or
    rules out rejects the episode, and the next best is read in its place. Not of agents that open pages."""
    judge: JudgeOptions = field(default_factory=JudgeOptions)
    """How a judge is asked whether an answer is right in other words, where neither the matcher nor a title finds it
    right."""
    max_judged: int = 2
    """Most different answers to one question that the judge is asked about; further wrong ones are mostly wrong
    again."""
    max_pairs: int = 2
    """Most pairs of a better and a worse episode made of one question."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for an agent that there is not, and for numbers that it does not have."""
        check_least(self, 1, "draws", "top_k", "max_judged", must="must be")
        if self.memory.draws < 0:
            raise InvalidInput("must be 0 or more", field="memory.draws")
        if self.draws > 1 and self.temperature <= 0:
            raise InvalidInput(
                f"{self.draws} draws at {self.temperature:g} are one draw; raise it, or ask for one draw",
                field="temperature",
            )
        if self.browses and self.style != "chat":
            raise InvalidInput(f"{self.agent} talks in turns of a chat; set style: chat", field="style")
        if self._is_published:
            published_grammar(self.agent)

    @property
    def declared(self) -> Agent:
        """Return the declaration of the agent that `agent` names."""
        return load_agent(self.agent)

    @property
    def numbers(self) -> Any:
        """Return the agent's configuration with these settings. Raises `InvalidInput` for a setting that the agent
        lacks.
        """
        record = self.declared.config
        known = [each.name for each in fields(record) if each.name not in _SAMPLING]
        # A whole text for an answer is right by no matcher, so an agent that can be asked for a box is.
        boxed = {"boxed": True} if "boxed" in known else {}
        try:
            if aside := sorted(_SAMPLING & self.settings.keys()):
                raise InvalidInput(
                    "is a field of the generator itself; give it there and not in its settings", field=aside[0]
                )
            numbers = from_dict(record, boxed | self.settings)
            return replace(numbers, temperature=self.temperature, top_p=self.top_p)
        except InvalidInput as error:
            problem = f"{error.problem}; settings of {self.agent}: {', '.join(known)}"
            raise InvalidInput(problem, field=f"settings.{error.field}") from None

    @property
    def browses(self) -> bool:
        """Tell whether the agent opens pages, over up to hundreds of calls."""
        return self.declared.protocol == BROWSE

    @property
    def sft_protocol(self) -> str:
        """Return the protocol of the SFT rows, or an empty text where they follow none.

        They follow none for agents that use tags of their own or several calls, and for published prompts, which open
        otherwise than the protocol does: no reward or environment of ours reads those.
        """
        return "" if self._is_published else self.declared.protocol

    @property
    def sft_calls(self) -> bool:
        """Tell whether each call of the agent becomes an SFT row of its own. False for an agent that continues one
        text: the chat templates of trainers would split it into turns that were not sent.
        """
        if self.sft_protocol:
            return False
        return self.numbers.chat if self.declared.protocol else self.style == "chat"

    @property
    def agent_config(self) -> str:
        """Return a hash of the agent's name, its settings and its prompts, as 12 hexadecimal digits."""
        content = {"agent": self.agent, "numbers": to_dict(self.numbers), "words": self._words()}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def prompt_version(self) -> str:
        """Return a hash of `agent_config` and of the prompts that ask from memory or read an episode once more."""
        asked = "".join(map(PROMPTS.text, (FROM_MEMORY, READ_FACT, OPEN_BRANCHES)))
        return hashlib.sha256(f"{self.agent_config}{asked}".encode()).hexdigest()[:12]

    @property
    def _is_published(self) -> bool:
        return getattr(self.numbers, "prompt", "ours") == "published"

    def _words(self) -> list[str]:
        if self._is_published:
            grammar = published_grammar(self.agent)
            return [grammar.system_prompt, grammar.user, grammar.segment, grammar.result_form]
        if self.declared.words:
            return [self.declared.words]
        if self.declared.protocol:
            grammar = PROTOCOLS[self.declared.protocol]
            return [grammar.system_prompt, grammar.user_suffix]
        folder = files("trailforge.evaluation.agents") / "prompts"
        own = sorted(file.name for file in folder.iterdir() if file.name.startswith(self.agent))
        return [(folder / name).read_text(encoding="utf-8") for name in own]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunConfig(RunConfig):
    """Configuration of a run that turns questions into verified episodes of an agent over a back end."""

    generator: AgentGeneratorConfig = field(default_factory=AgentGeneratorConfig)
    filters: AgentFilterConfig = field(default_factory=AgentFilterConfig)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    kg: str = ""
    """Folder of the knowledge graph, for agents that search one."""
    kg_hash: str = ""
    """SHA-256 of the graph's manifest: the content of a graph decides the rows, and its folder does not."""

    def row_settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows; graph and corpus count by their content, not by their path."""
        content = RunConfig.row_settings(self) | {"retrieval": self.retrieval.row_settings()}
        del content["kg"]
        if not self.generator.browses:
            content["filters"] = {name: value for name, value in content["filters"].items() if name != "long"}
        return content

    @property
    def prompt_version(self) -> str:
        """Return the hash of the prompts; see `AgentGeneratorConfig.prompt_version`."""
        return self.generator.prompt_version

    @property
    def records(self) -> tuple[type, ...]:
        """Return the classes of records whose schemas affect the rows."""
        return (AgentTrajectory, ContrastivePair, SftRow)

    @property
    def reply_limits(self) -> dict[str, int]:
        """Return the maximal number of tokens of each kind of reply, by the name of its setting."""
        numbers, thoughts = self.generator.numbers, getattr(self.generator.numbers, "thought_tokens", 0)
        limits = {
            f"generator.settings.{each.name}": getattr(numbers, each.name) + thoughts
            for each in fields(numbers)
            if each.name.endswith("_tokens") and each.name not in ("max_tokens", "thought_tokens")
        }
        if self.generator.memory.draws:
            limits["generator.memory.max_tokens"] = self.generator.memory.max_tokens
        if {self.generator.answer_check, self.generator.branch_check} != {"off"}:
            limits["generator.answer_check_max_tokens"] = self.generator.answer_check_max_tokens
        if self.generator.judge.near_misses:
            limits["generator.judge.max_tokens"] = self.generator.judge.max_tokens
        if "model" in (self.generator.document_filter, self.generator.kg_filter if self.kg else ""):
            limits["generator.filter_max_tokens"] = self.generator.filter_max_tokens
        return limits

    @property
    def thought_settings(self) -> tuple[str, ...]:
        """Return the names of settings that a reasoning model needs and that are not set.

        Without tokens for thoughts of their own, requests carry stop strings, which may end a thought.
        """
        is_unset = getattr(self.generator.numbers, "thought_tokens", None) == 0
        return ("generator.settings.thought_tokens",) if is_unset else ()

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
        return self.generator.style

    def on_graph(self, kg: Path | None) -> AgentRunConfig:
        """Return the configuration with this graph in place of the preset's, after checking all its bytes. Raises
        `InvalidInput` when a graph is missing or would not be used, and what `KgStore.open` and `KgStore.check_once`
        raise.
        """
        folder = str(kg) if kg is not None else self.kg
        self.generator.declared.check_graph(bool(folder))
        if not folder:
            return self
        KgStore.open(Path(folder)).check_once()
        return replace(self, kg=str(Path(folder).absolute()), kg_hash=sha256_of(Path(folder) / MANIFEST))


def configure(config: AgentRunConfig, inputs: RunInputs) -> AgentRunConfig:
    """Return the configuration with the agent, back end, documents and graph that the command's inputs name. Raises
    `InvalidInput` when what is to be searched does not exist, or cannot be searched by this agent.
    """
    agent = inputs.options.get("agent")
    if agent is not None:
        is_alike = load_agent(agent).config is config.generator.declared.config
        settings = config.generator.settings if is_alike else {}  # those of another agent are not its own
        config = replace(config, generator=replace(config.generator, agent=agent, settings=settings))
    kg_filter = filter_given(config.generator.kg_filter, inputs.options)
    config = replace(config, generator=replace(config.generator, kg_filter=kg_filter))
    retrieval = search_given(config.retrieval, inputs.options)
    if config.generator.browses and retrieval.kind == WEB:
        mend = "start `trailforge serve-search --web`, and give its URL"
        raise InvalidInput(f"pages of the web are opened by a server: {mend}", field="--retrieval")
    if config.generator.declared.searches == "plan" and not (retrieval.searches_paragraphs or retrieval.kind == WEB):
        name = config.generator.agent
        raise InvalidInput(
            f"the agent {name} plans its searches: it takes a question's own paragraphs (--scope question) or the web"
        )
    return replace(config, retrieval=with_hash(retrieval)).on_graph(inputs.options.get("kg"))
