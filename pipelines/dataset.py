"""The contract of a data set: one declaration that says all that generic code needs to know of it.

A data set declares `DATASET = DataSet(...)` in `generators/<data set>/__init__.py`, or in a package of somebody else's,
and pyproject.toml names it under `[project.entry-points."trailforge.datasets"]`; `pipelines.datasets` finds it by that
name. A declaration imports nothing heavy: what is, it names as `"module:attribute"` (a `Reference`), which is imported
when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal

from trailforge.schemas import InvalidInput, Question, RejectedRow

if TYPE_CHECKING:
    from trailforge.pipelines.engine.shards import Shard
    from trailforge.pipelines.runs.intake import Settings
    from trailforge.schemas import PatternField, TableRole

INPUTS = "inputs"
"""Table of what the intake cut into shards."""
LEDGER = "ledger/calls.sqlite"
"""Of a run that shares none."""

Reference = str | Callable[..., Any]
"""`"module:attribute"`, or the thing itself."""
Place = tuple[str, str]
"""A table, and the uid of one of its rows."""
Parts = Callable[[Any], Iterable[str]]
"""Texts of a row."""


def resolve(reference: Reference) -> Any:
    """What a reference stands for. Raises `ImportError` or `AttributeError` when it is not there."""
    return resolve_name(reference) if isinstance(reference, str) else reference


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRun:
    """One run of a stage: what `Stage.run` is called with. Stages before it are finished."""

    folder: Path
    """Absolute, as workers may stand elsewhere."""
    settings: Settings
    config: Any
    """Of the class `DataSet.config`."""
    preset: str
    shards: tuple[Shard, ...]
    """Of this stage, finished ones included."""
    before: tuple[Shard, ...] = ()
    """Shards of the stage before it; none for the first."""
    arguments: Sequence[str] = ()
    """Of the runner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A step from shards to rows. It runs what is missing of its shards and leaves a receipt for each."""

    name: str
    unit: str
    """What its items are called."""
    run: Reference = ""
    """`(StageRun) -> None`; empty: `DataSet.life`."""
    follow: Reference | None = None
    """`(shards, receipts) -> shards`: its shards, of those of the stage before it. None: the intake's."""
    is_wanted: Reference | None = None
    """`(config) -> bool`; None: always. Else the stage is left out."""
    asks_model: bool = True
    """Needs a model server, and its workers count items as they go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of a run, what people may decide on its rows, and what training does with them."""

    record: type
    kind: tuple[str, ...] = ()
    """Columns of which the first that is not null is a row's kind."""
    decided: Literal["", "product", "source"] = ""
    """`product`: people reject, accept and fix rows. `source`: rows stay, what was made of a rejected one goes."""
    made_of: Reference | None = None
    """`(row) -> places`: sources and rows of other products without which a row of a product makes no sense."""
    source: str = ""
    """Column, `chain.id` for an inner one, with the id of the input that a row was made of; empty where that is not one
    input. A rejected row keeps the next run from making anything of it again."""
    is_input: bool = False
    """A row is itself the input of other runs, which a rejection refuses by its uid. Those of `inputs` are."""
    patterns: Mapping[PatternField, Parts] = field(default_factory=dict)
    """Of inputs: the texts that a pattern of `trailforge curate refuse` can be held against. By `question` or `text`
    inputs of one id are told apart; without these, the id says all of an input."""
    fixable: tuple[str, ...] = ()
    """Fields that people may set: those from which no figure follows that only the run can measure again."""
    refit: Reference | None = None
    """`(fixed, old) -> row` with what follows from its fixes. Raises `InvalidInput` when they leave no valid row."""
    sft: Reference | None = None
    """`(row, config) -> SFT rows` of a fixed row of the table `DataSet.conversations`."""
    transcript: Reference | None = None
    """`(row) -> ToScore` (`protocols.transcripts`) of an episode, whose reward then is that of its protocol."""
    role: TableRole = ""
    """For training, which reads it in the manifest. Records of `questions` have a method `asked()`, those of `pairs`
    `preference(data_source, protocol)`."""
    protocol: str = ""
    """In which a table of the role `questions` is asked, unless another one is wanted, and one of `pairs` talks."""


QUESTIONS = Table(
    record=Question,
    decided="source",
    source="id",
    patterns={"question": lambda row: (row.question,), "answer": lambda row: row.golds},
)
"""Inputs of those that make something else of questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOption:
    """What a person gives to a data set's command, as `--name`, or to its flow, as a parameter."""

    help: str
    """A line, for `--help`."""
    takes: type = str
    """`str`, `int`, `float`, `Path`, or `bool` for a flag."""
    words: tuple[str, ...] = ()
    """The texts that may be given; none: any."""
    many: bool = False
    """May be given several times."""
    least: int | None = None
    """Of a number."""
    flag: str = ""
    """On the command line, where it is not called by its name there."""
    metavar: str | None = None
    """What `--help` calls the value; None: by its type."""


QUESTION_FILE = RunOption(
    help="Questions: MuSiQue, HotpotQA, 2Wiki … as published, FlashRAG's, or yours: JSON, CSV or Parquet; .gz too.",
    takes=Path,
)
QUESTION_COLUMNS = RunOption(help="Column names of your own questions, e.g. question=query,answer=gold.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """One kind of data that a run can make."""

    name: str
    config: Reference
    """The class of its configuration, a `RunConfig`."""
    preset: str = ""
    """The one that holds when nobody names another; empty: it is called as the command."""
    inputs: Table = QUESTIONS
    """Its rows are what the intake cut into shards."""
    tables: Mapping[str, Table]
    """All others, each product after those that its rows are made of. `rejected` comes of itself."""
    rows: str
    """The table that the run is for; its `kind` is what a status counts."""
    conversations: str = ""
    """The product whose rows the table `sft` is made of; empty where there is none."""
    candidates: str = ""
    """Table of what the last stage selects `rows` from; empty where rows are counted at once."""
    stages: tuple[Stage, ...]
    """In the order in which they run."""
    counted: str = ""
    """Line of the books whose accepted items calls and cost are counted by; empty: that of the last stage."""
    goes_on: Reference | None = None
    """`(configuration of now, configuration of the run in the folder) -> bool`: whether that run was stopped early on
    purpose and this is its second half, so that what is there stays. None: no run is."""
    configure: Reference | None = None
    """`(config, RunInputs) -> config` with what a person gives to this data set alone, found to be usable."""
    packages: Reference | None = None
    """`(config, RunInputs) -> modules` of extras that a run imports beside those that every run does; `config` is the
    preset's, before `configure`. They are looked for before any input is read."""
    estimate: Reference | None = None
    """`(RunInputs, config) -> Estimate` of what a run would take, for `--dry-run`. Asks nothing and writes nothing."""
    preview: Mapping[str, int] = field(default_factory=lambda: {"limit": 3})
    """`limit`, and options of its own, with which a run gives about three rows."""
    take_in: Reference = "trailforge.pipelines.runs.intake:take_in_questions"
    """`(RunInputs, folder, config) -> Settings`: what a person gives as shards in the run's folder."""
    life: str = ""
    """Reference of the `Life` of its rows (`pipelines/life.py`): of the stage that says no `run`. `checks` and the SFT
    rows of what people fix follow from it."""
    checks: Reference = ""
    """`RowChecks` that recompute what rows say of themselves; empty: those of `life`."""
    card: Reference = "trailforge.pipelines.cards.card:write_plain_card"
    """`(folder, manifest, settings) -> Markdown`; its figures are written beside it."""
    show: Reference | None = None
    """What the terminal and the page show of its rows."""
    option: str = "--questions"
    """Of the command, by which its input is given."""
    files: RunOption | None = QUESTION_FILE
    """That option, where the input is files, which may be read in part (`--limit`). None: the input is one of
    `own_options`."""
    makes_questions: bool = False
    """Whether it makes questions of something else, which quotas may then be set for (`pipelines.demand`)."""
    takes_folder: bool = False
    """Whether that is the folder of the file that `Settings.sources` names."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Files that are no rows, as figures are: by folder, what their names match."""
    lists: Mapping[str, Reference] = field(default_factory=dict)
    """Files in the run's folder that hold `rows` in another form: by name, `(row) -> line`."""
    about: str = ""
    """What its command and its flow do, in a line; empty: it has none."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """What to try when nothing was kept, by the reason that took most."""
    demo: str = ""
    """The preset that runs on the packaged model; empty: there is none."""
    own_options: Mapping[str, RunOption] = field(default_factory=dict)
    """What it alone takes, by name: it comes as `RunInputs.options`."""
    read_given: Reference = "trailforge.pipelines.sources.jsonl:read_given"
    """`(files, own_options) -> (paths, RunInputs.options)`, from what people give."""
    ask_elsewhere: Reference | None = None
    """`(folder of a finished run, distractors) -> (questions, types of those left out)`: its rows as questions with
    paragraphs, which a night's other data sets are made of. None: it has no such rows."""
    examples: tuple[str, ...] = ()
    """Of the use of its command: the words behind `trailforge`."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` where it does not say how a stage runs, or what checks its rows."""
        unsaid = [f"stages.{stage.name}.run" for stage in self.stages if not stage.run] + ["checks"] * (not self.checks)
        if unsaid and not self.life:
            raise InvalidInput("say it, or the `life` of its rows", file=self.name, field=unsaid[0])
        tables = {**self.tables, "rejected": Table(record=RejectedRow)}
        if self.life and self.conversations:
            told = tables[self.conversations]
            tables[self.conversations] = replace(told, sft=told.sft or f"{self.life}.rows_for_sft")
        defaults = {
            "preset": self.preset or self.command,
            "counted": self.counted or self.stages[-1].name,
            "tables": tables,
            "stages": tuple(replace(stage, run=stage.run or self.life) for stage in self.stages),
            "checks": self.checks or f"{self.life}.checks",
        }
        for name, value in defaults.items():
            object.__setattr__(self, name, value)  # it is frozen

    @property
    def command(self) -> str:
        """Of the command line that makes it."""
        return self.name.replace("_", "-")

    @property
    def takes_demand(self) -> bool:
        """Whether quotas say which questions it takes, or makes."""
        return self.inputs.record is Question or self.makes_questions

    @property
    def given(self) -> dict[str, RunOption]:
        """All that its command and its flow take beside what every run takes."""
        files = {self.option.removeprefix("--"): self.files} if self.files else {}
        columns = {"columns": QUESTION_COLUMNS} if self.files is QUESTION_FILE else {}
        return {**files, **columns, **self.own_options}

    def read(self, given: Mapping[str, Any]) -> tuple[tuple[Path, ...], dict[str, Any]]:
        """Files and options of a run, of what a person gave of `given`. Raises `InvalidInput` for what cannot be."""
        options, files = dict(given), ()
        if self.files:
            value = options.pop(self.option.removeprefix("--"))
            files = tuple(value) if self.files.many else (value,)
        return resolve(self.read_given)(files, options)

    @property
    def all_tables(self) -> dict[str, Table]:
        """Inputs and all others."""
        return {INPUTS: self.inputs, **self.tables}

    @property
    def records(self) -> dict[str, type]:
        """Record of each table but the inputs."""
        return {name: table.record for name, table in self.tables.items()}
