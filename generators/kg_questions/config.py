"""The configuration of a run of questions made of a knowledge graph."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from typing import Literal

from trailforge.filters.kg import KgQuestionFilterConfig
from trailforge.generators.kg_questions.generate import KgWriterConfig
from trailforge.generators.kg_questions.paths.config import KgPathConfig
from trailforge.pipelines.runs import GraphRunConfig, RunConfig, RunInputs
from trailforge.schemas import FactChain, InvalidInput, KgQuestion, check_least


@dataclass(frozen=True, slots=True, kw_only=True)
class KgQuestionRunConfig(GraphRunConfig):
    """Configuration of a run that turns a knowledge graph into questions."""

    count: int = 1000
    """Number of paths to sample. Fewer questions pass the filters."""
    as_of: str = ""
    """Date of the graph in ISO form (or year, or month): what is asked was true then. Empty: not known."""
    paths: KgPathConfig = field(default_factory=KgPathConfig)
    writer: KgWriterConfig = field(default_factory=KgWriterConfig)
    filters: KgQuestionFilterConfig = field(default_factory=KgQuestionFilterConfig)

    def __post_init__(self) -> None:
        """Raises `InvalidInput`."""
        RunConfig.__post_init__(self)
        check_least(self, 1, "count")
        if self.as_of and not _is_date(self.as_of):
            raise InvalidInput(f"{self.as_of!r} is no date as 2019-07-01, 2019-07 or 2019", field="as_of")
        for name in ("name_described", "check"):
            if getattr(self.filters, name) and self.writer.style == "completion":
                raise InvalidInput(
                    "asks for a structured reply, which this style of prompt cannot give; set writer.style: chat",
                    field=f"filters.{name}",
                )

    @property
    def prompt_version(self) -> str:
        """Return a hash of the prompts that the run uses."""
        return self.writer.prompt_version

    @property
    def records(self) -> tuple[type, ...]:
        """Return the classes of records whose schemas affect the rows."""
        return (FactChain, KgQuestion)

    @property
    def reply_limits(self) -> dict[str, int]:
        """Return the maximal number of tokens of each kind of reply, by the name of its setting."""
        write = {"writer.write_max_tokens": self.writer.write_max_tokens} if self.writer.kind == "model" else {}
        is_judged = self.filters.check or self.filters.name_described
        check = {"writer.check_max_tokens": self.writer.check_max_tokens} if is_judged else {}
        return {**write, "writer.closed_book_max_tokens": self.writer.closed_book_max_tokens, **check}

    @property
    def call_style(self) -> Literal["chat", "completion"]:
        """Return whether the model is called with chat messages or with a text that it continues."""
        return self.writer.style


def _is_date(text: str) -> bool:
    """Is it an ISO date, whole or as far as the month or the year?"""
    try:
        date.fromisoformat(text + "-01-01"[3 * text.count("-") :])
    except ValueError:
        return False
    return True


def configure(config: KgQuestionRunConfig, inputs: RunInputs) -> KgQuestionRunConfig:
    """Return the configuration with the graph of these inputs, its date, and the number of paths wanted. Raises what
    `GraphRunConfig.on_graph` raises.
    """
    given = {name: inputs.options[name] for name in ("count", "as_of") if name in inputs.options}
    return replace(config, **given).on_graph(inputs.options.get("kg"))
