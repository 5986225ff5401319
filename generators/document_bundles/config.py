"""The configuration of a run of bundles and their questions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from trailforge.filters.answers import AnswerJudgeOptions
from trailforge.filters.bundle_readings import BundleFilterConfig
from trailforge.generators.document_bundles.bundling.config import LARGEST, PACKAGES, BundleConfig
from trailforge.generators.document_bundles.bundling.content import ContentConfig
from trailforge.generators.document_bundles.bundling.duplicates import DuplicateConfig
from trailforge.generators.document_bundles.planned_episodes import PlannedEpisodeConfig
from trailforge.generators.document_bundles.write import BundleWriterConfig
from trailforge.pipelines.engine import sha256_of
from trailforge.pipelines.runs import RunConfig, RunInputs
from trailforge.retrieval import RetrieverConfig, without_usual
from trailforge.retrieval.backends import BACKENDS
from trailforge.retrieval.encoders import PACKAGED, Encoder, encoder_packages
from trailforge.retrieval.plan_tools import NOT_OF_PLANS, check_tools
from trailforge.schemas import (
    Bundle,
    BundleQuestion,
    DocumentEmbedding,
    InvalidInput,
    SearchEpisode,
    SftRow,
    SourceDocument,
    check_least,
)

_CHARACTERS_PER_TOKEN = 4
"""Of English, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderConfig:
    """Which model embeds documents and questions (Sentence-BERT in R-Search)."""

    name: str = PACKAGED
    """`minilm`, or the name or path of any sentence-transformers model."""
    query_prefix: str = ""
    passage_prefix: str = ""


@lru_cache(1)
def encoder_of(config: EncoderConfig) -> Encoder:
    """Return the encoder of a configuration, which is loaded once per process."""
    return Encoder(config.name, query_prefix=config.query_prefix, passage_prefix=config.passage_prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionConfig:
    """How accepted questions of all bundles are compared with each other and with benchmarks, and how they are
    ordered."""

    most_alike: float = 0.92
    """Cosine from which on two questions count as the same."""
    most_alike_benchmark: float = 0.9
    """Cosine from which on a question counts as one of a benchmark's."""
    benchmark_words: int = 8
    """Number of words in a row that a question shares with a benchmark's question when it is rejected."""
    benchmarks: tuple[str, ...] = ()
    """Files of benchmark questions that must not be trained on."""
    benchmark_hashes: tuple[str, ...] = ()
    """SHA-256 of the files in `benchmarks`: their content decides the rows, and their place does not."""
    stages: int = 4
    """Number of stages of the curriculum."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for sizes of which nothing can be made."""
        check_least(self, 1, "stages", "benchmark_words")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleOutputConfig:
    """The sizes of the files into which a run's rows are written."""

    documents_per_shard: int = 256
    bundles_per_shard: int = 16
    questions_per_shard: int = 64

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for sizes of which nothing can be made."""
        check_least(self, 1, "documents_per_shard", "bundles_per_shard", "questions_per_shard")


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRunConfig(RunConfig):
    """Configuration of a run that turns documents into bundles, questions and episodes."""

    content: ContentConfig = field(default_factory=ContentConfig)
    duplicates: DuplicateConfig = field(default_factory=DuplicateConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    bundles: BundleConfig = field(default_factory=BundleConfig)
    writer: BundleWriterConfig = field(default_factory=BundleWriterConfig)
    filters: BundleFilterConfig = field(default_factory=BundleFilterConfig)
    judge: AnswerJudgeOptions = field(default_factory=AnswerJudgeOptions)
    """How a judge scores the answers of readers and of episodes that the matcher cannot score."""
    selection: SelectionConfig = field(default_factory=SelectionConfig)
    episodes: PlannedEpisodeConfig = field(default_factory=PlannedEpisodeConfig)
    tools: RetrieverConfig = field(default_factory=RetrieverConfig)
    output: BundleOutputConfig = field(default_factory=BundleOutputConfig)
    questions: bool = True
    """Whether questions are asked about the bundles. False: the run stops at the bundles and needs no model."""

    def row_settings(self) -> dict[str, Any]:
        """Return the settings that decide the rows; the benchmarks count by their content, not by their path."""
        content = RunConfig.row_settings(self)
        content["tools"] = without_usual(content["tools"], NOT_OF_PLANS)
        del content["selection"]["benchmarks"]
        return content

    @property
    def prompt_version(self) -> str:
        """Return a hash of the prompts that the run uses."""
        return f"{self.writer.prompt_version}-{self.episodes.prompt_version}"

    @property
    def records(self) -> tuple[type, ...]:
        """Return the classes of records whose schemas affect the rows."""
        return (SourceDocument, DocumentEmbedding, Bundle, BundleQuestion, SearchEpisode, SftRow)

    @property
    def reply_limits(self) -> dict[str, int]:
        """Return the maximal number of tokens of each kind of reply, by the name of its setting."""
        limits = {"writer.read_max_tokens": self.writer.read_max_tokens, **self.episodes.reply_limits}
        if self.writer.kind == "model":
            limits["writer.write_max_tokens"] = self.writer.write_max_tokens
        if self.judge.near_misses or self.judge.free_answers:
            limits["judge.max_tokens"] = self.judge.max_tokens
        return limits

    @property
    def longest_call(self) -> int:
        """Return the largest number of tokens of one call: a bundle's documents before a reply, or a plan's passages
        between two replies.
        """
        writer = self.writer
        shown = LARGEST * writer.longest_document // _CHARACTERS_PER_TOKEN
        longest = max(writer.read_max_tokens, writer.write_max_tokens if writer.kind == "model" else 0)
        return max(shown + longest, self.episodes.longest_call(self.tools.longest_passage))

    @property
    def thought_settings(self) -> tuple[str, ...]:
        """Return the names of the settings for a reasoning model's thoughts that sampled plans need."""
        is_unset = self.questions and self.episodes.plan == "sampled" and not self.episodes.thought_tokens
        return ("episodes.thought_tokens",) if is_unset else ()

    @property
    def encoder_name(self) -> str | None:
        """Return the name of the sentence encoder."""
        return self.encoder.name

    @property
    def passage_prefix(self) -> str:
        """Return the text that the sentence encoder needs before each passage."""
        return self.encoder.passage_prefix

    @property
    def call_style(self) -> Literal["chat", "completion"]:
        """Return whether the model is called with chat messages or with a text that it continues."""
        return "chat" if self.writer.kind == "model" else "completion"

    def against(self, benchmarks: list[Path]) -> BundleRunConfig:
        """Return the configuration with these files of benchmark questions, which must not be trained on, beside the
        preset's. Raises `InvalidInput` for a file that is missing.
        """
        paths = dict.fromkeys((*self.selection.benchmarks, *map(str, benchmarks)))
        missing = [path for path in paths if not Path(path).is_file()]
        if missing:
            raise InvalidInput("no such file", file=missing[0], field="selection.benchmarks")
        hashes = tuple(sha256_of(Path(path)) for path in paths)
        return replace(self, selection=replace(self.selection, benchmarks=tuple(paths), benchmark_hashes=hashes))


def packages(config: BundleRunConfig, inputs: RunInputs) -> tuple[str, ...]:
    """Return the names of the modules that a run imports, so that missing ones are found before it begins
    (`DataSet.packages`): for bundling, for the encoder and, where questions are wanted, for plans.
    """
    found = (*PACKAGES, *encoder_packages(config.encoder.name))
    tools, is_asked = config.tools, config.questions and not inputs.options.get("bundles_only")
    if not is_asked or tools.kind not in BACKENDS:
        return found
    return (*found, *tools.packages_over(tools.kind))


def goes_on(config: BundleRunConfig, earlier: BundleRunConfig) -> bool:
    """Tell whether a run with `config` may continue an earlier one in its folder (`DataSet.goes_on`): one that had only
    bundles may get questions about them, by any model.
    """
    if earlier.questions or not config.questions:
        return False
    return replace(config, questions=False, model=earlier.model).hash == earlier.hash


def configure(config: BundleRunConfig, inputs: RunInputs) -> BundleRunConfig:
    """Return the configuration with the benchmarks that are given, and without questions where only bundles are
    wanted."""
    config = config.against(inputs.options.get("benchmarks", []))
    config = replace(config, questions=config.questions and not inputs.options.get("bundles_only"))
    if config.questions:
        try:
            check_tools(config.tools)
        except InvalidInput as error:
            raise InvalidInput(error.problem, field=error.field and f"tools.{error.field}") from None
    return config
