"""A run's configuration: read from a preset, hashed over what decides the rows, and stored whole in the run's
folder.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from trailforge.inference import Caps, ClientConfig, Prices, Reasoning, split_urls
from trailforge.inference.ledgers import check_ledger_url
from trailforge.inference.provider import Dialect, Parameters, check_server_url
from trailforge.inference.vllm import VllmConfig
from trailforge.pipelines.engine.attempts import Patience
from trailforge.pipelines.engine.files import sha256_of
from trailforge.schemas import InvalidInput, from_dict, stored_name, to_dict, version_of

SHARD_SIZE = 16
"""Number of inputs in a shard, unless a configuration says otherwise."""
EMBEDDED = "embedded"
"""Value in place of a server's URL that means the packaged model, on a server that the run starts."""
T = TypeVar("T")
C = TypeVar("C", bound="RunConfig")
G = TypeVar("G", bound="GraphRunConfig")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The model that a run calls: its name, its server, and its prices."""

    name: str = "Qwen/QwQ-32B"
    """The model's name, as the server knows it. It is part of every ledger key, so the same model may move to
    another server."""
    url: str = "http://127.0.0.1:8000/v1"
    """Base URL of an OpenAI-compatible server, or `embedded`: start the packaged model on this machine. Several servers
    of the same model share the calls: a list, or URLs with commas between them."""
    dialect: Dialect = "openai"
    """How the server wants grammars and schemas to be sent."""
    reasoning: Reasoning = "separate"
    """Where a reasoning model's thoughts are. `separate`: the server sends them beside the reply (vLLM with a reasoning
    parser). `inline`: in the reply, up to `</think>`; a thought that begins an agent's turn is then read as one that
    came beside it."""
    max_in_flight: int = 64
    """Number of calls at a time; on one of Beam's distributed runners, of each worker."""
    timeout_s: float = 900.0
    stall_s: float = 900.0
    """Seconds without any reply while one is wanted, after which the run ends (it can go on later)."""
    backoff_s: float = 0.5
    """Seconds before the second try of a call that failed; they double with each further try, up to half a minute."""
    extra_body: str = ""
    """JSON object that is sent with every call, e.g. `{"chat_template_kwargs": {"enable_thinking": false}}`."""
    parameters: Parameters = field(default_factory=Parameters)
    """Changes to requests, for servers that want another form: `{omit: [seed]}`, `{stream: true}`, …"""
    prompt_price_per_million: float = 0.0
    completion_price_per_million: float = 0.0
    cached_price_per_million: float | None = None
    """Price of a million prompt tokens that the server says it had in its prefix cache; None: that of other prompt
    tokens."""

    def __post_init__(self) -> None:
        check_server_url(self.url, "url")
        for name in ("prompt_price_per_million", "completion_price_per_million", "cached_price_per_million"):
            if not 0 <= (getattr(self, name) or 0) < math.inf:  # or a cap on cost would cap nothing
                raise InvalidInput("has to be a number from 0 on", field=name)
        if not 0 < self.backoff_s < math.inf:
            raise InvalidInput("has to be a number above 0", field="backoff_s")

    @property
    def prices(self) -> Prices:
        """Return the model's prices, by which `Meter.usage` reckons the cost of calls."""
        return Prices(
            prompt_per_million=self.prompt_price_per_million,
            completion_per_million=self.completion_price_per_million,
            cached_per_million=self.cached_price_per_million,
        )

    @property
    def urls(self) -> list[str]:
        """Return the URLs of the servers, one for each."""
        return split_urls(self.url)

    def client(self, caps: Caps, capped_at: Prices | None = None) -> ClientConfig:
        """Return the settings of a `ModelClient` for this model. `capped_at` are the prices by which a cap on cost
        counts tokens; None means the model's own.
        """
        return ClientConfig(
            base_url=self.url,
            model=self.name,
            dialect=self.dialect,
            reasoning=self.reasoning,
            max_in_flight=self.max_in_flight,
            timeout_s=self.timeout_s,
            stall_s=self.stall_s,
            backoff_s=self.backoff_s,
            caps=caps,
            prices=capped_at or self.prices,
            extra_body=self.extra_body,
            parameters=self.parameters,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleConfig:
    """How many items and calls of a run are under way at a time, and how long to wait for them."""

    questions_in_flight: int = 256
    """Questions that a worker handles at a time. A search asks for little more than one call at a time: four
    questions per slot keep a server busy."""
    tail_questions: int = 32
    """Number of questions that are searched with `tail_parallel`: the shortest among the last `tail_window` of the
    input. Long searches get the slots first, so these are what is left when the server would begin to idle. A run of
    fewer than twice as many questions has no tail: a small run searches as a large one does."""
    tail_window: int = 256
    tail_parallel: int = 4
    """Number of leaves that a search of the tail selects at a time, by virtual loss."""
    worker_start_s: float = 900.0
    """Seconds that a cluster may take until its workers begin; nothing may stand still for longer while no call is
    made."""
    worker_silence_s: float = 120.0
    """Seconds without a sign of life after which a worker of a cluster is taken for lost, and what it had not
    finished is run anew."""

    def __post_init__(self) -> None:
        for name in ("worker_start_s", "worker_silence_s"):
            if getattr(self, name) <= 0:
                raise InvalidInput("has to be more than 0", field=name)

    @property
    def patience(self) -> Patience:
        """Return how long a driver waits for workers to begin and between their signs of life."""
        return Patience(start_s=self.worker_start_s, silence_s=self.worker_silence_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputConfig:
    """How rows are cut into shards and written."""

    shard_size: int = SHARD_SIZE
    """Number of questions in a shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardConfig:
    """What the card says that a run cannot know by itself. Licences are given by their names on hubs (`apache-2.0`), or
    in words.
    """

    model_licence: str = ""
    """Licence of the model, where it is not the embedded one; empty: not told, as in the fields below."""
    questions_licence: str = ""
    corpus_licence: str = ""
    """Licence of the corpus that is searched."""
    graph_licence: str = ""
    languages: tuple[str, ...] = ("en",)
    """ISO 639-1 codes of the languages that the rows are written in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig(ABC):
    """The settings that runs of all data sets share: everything about a run but its input and its folder."""

    model: ModelConfig = field(default_factory=ModelConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    caps: Caps = field(default_factory=Caps)
    """Hard caps on all that the run ever pays, over all its starts."""
    ledger: str = ""
    """URL of a ledger that all workers share (`postgresql://user@host/database`); empty: a file in the run's folder."""
    seed: int = 0
    card: CardConfig = field(default_factory=CardConfig)
    redo: int = 0
    """Number of times that cut replies of this run were asked for anew (`--redo truncated`)."""
    audited: str = ""
    """Hash of what an audit found of the questions (`--audited`); empty: no audit is used."""
    demand: str = ""
    """Hash of the quotas by which questions are taken or made (`--demand`); empty: there are none."""

    def __post_init__(self) -> None:
        check_ledger_url(self.ledger)
        if self.caps.max_cost is not None and self.model.prices == Prices():
            raise InvalidInput("a cap on cost needs prices: model.prompt_price_per_million, …", field="max_cost")

    @property
    def client(self) -> ClientConfig:
        """Return the settings of a `ModelClient` for this run: model, caps and prices."""
        return replace(self.model.client(self.caps), redo=self.redo)

    def row_settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows: all but the addresses of model and ledger, concurrency, caps, and
        the card.
        """
        content = to_dict(self)
        del content["caps"]
        del content["card"]
        for name in ("url", "max_in_flight", "timeout_s", "stall_s", "backoff_s"):
            del content["model"][name]
        if self.model.reasoning == "separate":
            del content["model"]["reasoning"]
        del content["model"]["parameters"]
        if settings := self.model.parameters.reply_settings:
            content["model"]["parameters"] = settings
        for name in ("questions_in_flight", "worker_start_s", "worker_silence_s"):
            del content["schedule"][name]
        del content["ledger"]
        for name in ("redo", "audited", "demand"):
            if not content[name]:
                del content[name]
        content["prompt_version"] = self.prompt_version
        content["schema_versions"] = {stored_name(r): version_of(r) for r in self.records}
        return content

    @property
    def needs_decompositions(self) -> bool:
        """Tell whether every question must come with a gold decomposition."""
        return False

    @property
    @abstractmethod
    def prompt_version(self) -> str:
        """Return a hash of the prompts in use; empty: the data set has none."""

    @property
    @abstractmethod
    def records(self) -> tuple[type, ...]:
        """Return the record classes whose schemas affect the rows."""

    @property
    def reply_limits(self) -> dict[str, int]:
        """Return the maximal number of tokens of a reply, thoughts included, for each kind of call, by the name of its
        setting. Empty when no model is called.
        """
        return {}

    @property
    def longest_reply(self) -> int:
        """Return the largest number of tokens that any call may ask for."""
        return max(self.reply_limits.values(), default=0)

    @property
    def longest_call(self) -> int:
        """Return the tokens of prompt and reply of the longest call, as far as they can be known before a run."""
        return self.longest_reply

    @property
    def thought_settings(self) -> tuple[str, ...]:
        """Return the names of settings whose value 0 is wrong for a reasoning model, since stop strings are then sent,
        which can end its thoughts.
        """
        return ()

    @property
    def encoder_name(self) -> str | None:
        """Return the name of the sentence encoder; None when the run needs none."""
        return None

    @property
    def passage_prefix(self) -> str:
        """Return the text that the sentence encoder needs before a passage."""
        return ""

    @property
    def call_style(self) -> Literal["chat", "completion"]:
        """Return how the model is called: with chat messages, or with plain text to complete."""
        return "chat"

    @property
    def hash(self) -> str:
        """Return a hash of 12 hex digits over `row_settings`."""
        text = json.dumps(self.row_settings(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRunConfig(RunConfig):
    """The settings that all runs over a knowledge graph share."""

    output: OutputConfig = field(default_factory=OutputConfig)
    kg: str = ""
    """Folder of the graph's store (`trailforge kg build`)."""
    kg_hash: str = ""
    """SHA-256 of the store's manifest, which has the hashes of all its files: where the store lies does not decide
    the rows."""

    def row_settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows, with the graph's content in place of its path."""
        content = RunConfig.row_settings(self)
        del content["kg"]
        return content

    def on_graph(self: G, kg: Path | None) -> G:
        """Return the configuration with this graph instead of the preset's.

        Every byte of it is checked here, so that workers open it without checking. Raises `InvalidInput` when there is
        none, and what `KgStore.open` and `KgStore.check_once` raise.
        """
        from trailforge.retrieval.kg import MANIFEST, KgStore

        folder = str(kg) if kg is not None else self.kg
        if not folder:
            raise InvalidInput("which knowledge graph? give --kg, a folder that `trailforge kg build` made", field="kg")
        KgStore.open(Path(folder)).check_once()
        return replace(self, kg=str(Path(folder).absolute()), kg_hash=sha256_of(Path(folder) / MANIFEST))


def read_config(record: type[C], content: dict[str, Any], *, source: str) -> C:
    """Make a configuration from a preset's sections. Raises `InvalidInput` naming the preset and the field.

    What is left out, at any depth, keeps the default of its class. The section `server` does not belong to a run: how
    the model is served does not change a row.
    """
    preset_server(content, source=source)
    run = {name: section for name, section in content.items() if name != "server"}
    return _read(record, _with_joined_urls(run), source)


def preset_server(content: dict[str, Any], *, source: str) -> VllmConfig | None:
    """Read the section `server` of a preset; None without one. Raises what `read_config` raises."""
    return _read(VllmConfig, content["server"], source) if "server" in content else None


def server_config(content: dict[str, Any], *, source: str, record: type[RunConfig]) -> tuple[VllmConfig, str]:
    """Return a preset's model server, and the name of the model in the preset's calls. Raises what `read_config`
    raises.
    """
    config, server = read_config(record, content, source=source), preset_server(content, source=source)
    if server is None:
        raise InvalidInput("the preset has no section 'server', so there is nothing to serve", file=source)
    longest = config.longest_reply
    if server.max_model_len is not None and server.max_model_len <= longest:
        raise InvalidInput(
            f"{server.max_model_len} leaves no room: a call of this preset may ask for {longest} tokens",
            file=source,
            field="server.max_model_len",
        )
    return server, config.model.name


def _read(record: type[T], content: dict[str, Any], source: str) -> T:
    try:
        return from_dict(record, content)
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
