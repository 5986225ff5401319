"""A run's configuration: read from a preset, hashed for what decides the rows, kept whole in the run's folder."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from filters import FilterConfig
from generators.mcts_trajectories import GeneratorConfig
from inference import Caps, ClientConfig, Prices
from inference.endpoint import Dialect
from retrieval import RetrievalConfig
from schemas import InvalidInput, SearchTree, SftRow, Trajectory, from_dict, to_dict, version_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Which model, where, and what it costs."""

    name: str = "Qwen/QwQ-32B"
    """As the server knows it. Part of every ledger key, so the same model may move to another server."""
    url: str = "http://127.0.0.1:8000/v1"
    """Base URL of an OpenAI-compatible server, or `embedded`: start the packaged model on this machine. Several servers
    of the same model share the calls: a list, or URLs with commas between them."""
    dialect: Dialect = "openai"
    """How the server wants grammars and schemas."""
    max_in_flight: int = 64
    """Calls at a time, per worker."""
    timeout_s: float = 900.0
    stall_s: float = 900.0
    """Without any reply for so long while one is wanted, the run ends (and can go on later)."""
    extra_body: str = ""
    """JSON object sent with every call, e.g. `{"chat_template_kwargs": {"enable_thinking": false}}`."""
    prompt_price_per_million: float = 0.0
    completion_price_per_million: float = 0.0

    @property
    def prices(self) -> Prices:
        """For `Meter.usage`."""
        return Prices(
            prompt_per_million=self.prompt_price_per_million,
            completion_per_million=self.completion_price_per_million,
        )

    def client(self, caps: Caps) -> ClientConfig:
        """For `ModelClient`."""
        return ClientConfig(
            base_url=self.url,
            model=self.name,
            dialect=self.dialect,
            max_in_flight=self.max_in_flight,
            timeout_s=self.timeout_s,
            stall_s=self.stall_s,
            caps=caps,
            prices=self.prices,
            extra_body=self.extra_body,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleConfig:
    """How much is under way at a time."""

    questions_in_flight: int = 32
    """Per worker. About 1.5 x slots / width keeps a server busy; 48 for 64 slots with rollouts."""
    tail_questions: int = 32
    """The last so many questions of the input are searched with `tail_parallel`: by then the server would idle."""
    tail_parallel: int = 4
    """Leaves selected at a time, by virtual loss, in the tail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputConfig:
    """How rows are cut and written."""

    shard_size: int = 16
    """Questions per shard."""
    per_turn_rows: bool = False
    """SFT rows per assistant turn, beside the whole conversations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MctsRunConfig:
    """Everything about a run of MCTS trajectories but its input and its folder."""

    model: ModelConfig = field(default_factory=ModelConfig)
    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    filters: FilterConfig = field(default_factory=FilterConfig)
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    caps: Caps = field(default_factory=Caps)
    """Hard caps on all that the run's folder ever pays."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.caps.max_cost is not None and self.model.prices == Prices():
            raise InvalidInput("a cap on cost needs prices: model.prompt_price_per_million, …", field="max_cost")

    def deciding(self) -> dict[str, Any]:
        """What decides the rows: all but where the model is, how much runs at a time, and how much may be spent."""
        content = to_dict(self)
        del content["caps"]
        for name in ("url", "max_in_flight", "timeout_s", "stall_s"):
            del content["model"][name]
        del content["schedule"]["questions_in_flight"]
        content["prompt_version"] = self.generator.prompts.version
        content["schema_versions"] = {r.__name__: version_of(r) for r in (Trajectory, SearchTree, SftRow)}
        return content

    @property
    def hash(self) -> str:
        """12 hex digits over `deciding`."""
        text = json.dumps(self.deciding(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def run_config(content: dict[str, Any], *, source: str) -> MctsRunConfig:
    """A configuration from a preset's sections. Raises `InvalidInput` naming the preset and the field.

    What is left out, at any depth, keeps the default of its class.
    """
    try:
        return from_dict(MctsRunConfig, _with_joined_urls(content))
    except InvalidInput as error:
        raise InvalidInput(error.problem, file=source, field=error.field) from error
    except ValueError as error:
        raise InvalidInput(str(error), file=source) from error


def _with_joined_urls(content: dict[str, Any]) -> dict[str, Any]:
    """Several URLs may be given as a list."""
    model = content.get("model")
    if isinstance(model, dict) and isinstance(url := model.get("url"), list) and all(isinstance(u, str) for u in url):
        return content | {"model": model | {"url": ",".join(url)}}
    return content
