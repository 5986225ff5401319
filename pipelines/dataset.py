"""The contract of a data set: one declaration with everything that generic code needs to know of it.

A data set declares `DATASET = DataSet(...)` in `generators/<data set>/__init__.py`, or in another package, and
pyproject.toml names it under `[project.entry-points."trailforge.datasets"]`; `pipelines.datasets` finds it by that
name. A declaration imports nothing heavy: heavy things are named as `"module:attribute"` (a `Reference`), which is
imported when it is used.
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
"""Name of the table that holds what the intake cut into shards."""
LEDGER = "ledger/calls.sqlite"
"""File name of the ledger of a run that shares none."""

Reference = str | Callable[..., Any]
"""A thing that a declaration names: `"module:attribute"`, which is imported on use, or the thing itself."""
Place = tuple[str, str]
"""A table, and the uid of one of its rows."""
Parts = Callable[[Any], Iterable[str]]
"""Texts of a row, by which patterns are held against it."""


def resolve(reference: Reference) -> Any:
    """Import what a reference names. Raises `ImportError` or `AttributeError` when it is not there."""
    return resolve_name(reference) if isinstance(reference, str) else reference


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRun:
    """One run of a stage, the argument of `Stage.run`. All earlier stages are finished."""

    folder: Path
    """The run's folder, as an absolute path, since workers may have another working directory."""
    settings: Settings
    config: Any
    """The run's configuration, an instance of the class `DataSet.config`."""
    preset: str
    shards: tuple[Shard, ...]
    """Shards of this stage, finished ones included."""
    before: tuple[Shard, ...] = ()
    """Shards of the stage before it; none for the first."""
    arguments: Sequence[str] = ()
    """Command line of the runner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A step from shards to rows. It runs the missing ones of its shards and leaves a receipt for each."""

    name: str
    unit: str
    """What the stage's items are called."""
    run: Reference = ""
    """Reference to the function that runs the stage, `(StageRun) -> None`; empty: the stage runs `DataSet.life`."""
    follow: Reference | None = None
    """Reference to `(shards, receipts) -> shards`, which makes this stage's shards from those of the stage before
    it. None: the stage runs the intake's shards."""
    is_wanted: Reference | None = None
    """Reference to `(config) -> bool`, which says whether the stage runs at all; None: it always does."""
    asks_model: bool = True
    """Whether the stage needs a model server; its workers then count items as they go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of a run: its record class, what people may decide on its rows, and how training uses them."""

    record: type
    kind: tuple[str, ...] = ()
    """Columns that hold a row's kind: the first of them that is not null."""
    decided: Literal["", "product", "source"] = ""
    """What people decide on the rows. `product`: they reject, accept and fix rows. `source`: rows stay, and what was
    made of a rejected one goes. Empty: nothing."""
    made_of: Reference | None = None
    """Reference to `(row) -> places`: the sources, and the rows of other products, without which a row of this
    product makes no sense."""
    source: str = ""
    """Column that holds the id of the input a row was made of (`chain.id` for an inner one); empty where that is not
    one input. A rejected row keeps the next run from making anything of that input again."""
    is_input: bool = False
    """Whether a row is itself an input of other runs, so that rejecting it refuses its uid there. Rows of `inputs`
    always are."""
    patterns: Mapping[PatternField, Parts] = field(default_factory=dict)
    """The texts of an input that a pattern of `trailforge curate refuse` can be held against. Inputs with the same
    id are told apart by their `question` or `text`; without these fields, the id says all of an input."""
    fixable: tuple[str, ...] = ()
    """Fields that people may change: those from which no figure follows that only the run can measure again."""
    refit: Reference | None = None
    """Reference to `(fixed, old) -> row`, which sets what follows from a row's fixes. It raises `InvalidInput` when
    they leave no valid row."""
    sft: Reference | None = None
    """Reference to `(row, config) -> SFT rows`, which makes the SFT rows of a fixed row of the table
    `DataSet.conversations`."""
    transcript: Reference | None = None
    """Reference to `(row) -> ToScore` (`protocols.transcripts`), the episode that a row holds; its reward then is
    that of its protocol."""
    role: TableRole = ""
    """What training uses the table for, read from the manifest. Records of `questions` have a method `asked()`,
    those of `pairs` have `preference(data_source, protocol)`."""
    protocol: str = ""
    """Name of the protocol in which a table of `questions` is asked unless another one is wanted, or in which one of
    `pairs` talks."""


QUESTIONS = Table(
    record=Question,
    decided="source",
    source="id",
    patterns={"question": lambda row: (row.question,), "answer": lambda row: row.golds},
)
"""The table of inputs of data sets that are made from questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOption:
    """An option of one data set, which is both `--name` of its command and a parameter of its flow."""

    help: str
    """A line about the option, for `--help`."""
    takes: type = str
    """Type of the value: `str`, `int`, `float`, `Path`, or `bool` for a flag."""
    words: tuple[str, ...] = ()
    """The values that may be given; empty: any."""
    many: bool = False
    """Whether the option may be given several times."""
    least: int | None = None
    """The least number that may be given; None: any number may be."""
    flag: str = ""
    """Flag on the command line, where it is not the option's name."""
    metavar: str | None = None
    """What `--help` calls the value; None: the name of its type."""


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
    """Reference to the class of the configuration, a `RunConfig`."""
    preset: str = ""
    """Name of the preset that is used when none is named; empty: the name of the command."""
    inputs: Table = QUESTIONS
    """The table of the items that the intake cuts into shards."""
    tables: Mapping[str, Table]
    """All tables but the inputs, by name, each product after those that its rows are made of. `rejected` is there
    without being declared."""
    rows: str
    """Name of the table that the run is for; a status counts its rows by `kind`."""
    conversations: str = ""
    """Name of the product that the rows of `sft` are made of; empty where there is none."""
    candidates: str = ""
    """Name of the table from which the last stage selects `rows`; empty where rows count at once."""
    stages: tuple[Stage, ...]
    """The stages, in the order in which they run."""
    counted: str = ""
    """Name of the stage whose accepted items calls and cost are divided by; empty: the last stage."""
    goes_on: Reference | None = None
    """Reference to `(configuration of now, configuration of the run in the folder) -> bool`: whether that run was
    stopped early on purpose and this one is its second half, so that its files stay. None: that never happens."""
    configure: Reference | None = None
    """Reference to `(config, RunInputs) -> config`, which checks the options of this data set and puts them into the
    configuration."""
    packages: Reference | None = None
    """Reference to `(config, RunInputs) -> modules`: the modules of extras that a run imports beside those that
    every run does. `config` is the preset's, before `configure`. They are looked for before any input is read."""
    estimate: Reference | None = None
    """Reference to `(RunInputs, config) -> Estimate`, what a run would take, for `--dry-run`. It asks no model and
    writes nothing."""
    preview: Mapping[str, int] = field(default_factory=lambda: {"limit": 3})
    """Values of `limit` and of the data set's own options with which a run gives about three rows."""
    take_in: Reference = "trailforge.pipelines.runs.intake:take_in_questions"
    """Reference to `(RunInputs, folder, config) -> Settings`, which cuts the inputs into shards in the run's folder."""
    life: str = ""
    """Reference to the `Life` of its rows (`pipelines/life.py`), which each stage without a `run` follows. `checks`
    and the SFT rows of what people fix follow from it."""
    checks: Reference = ""
    """Reference to the `RowChecks` that recompute what rows say of themselves; empty: those of `life`."""
    card: Reference = "trailforge.pipelines.cards.card:write_plain_card"
    """Reference to `(folder, manifest, settings) -> Markdown`, which writes the card and, beside it, its figures."""
    show: Reference | None = None
    """Reference to the `Show` that says what the terminal and the page show of its rows."""
    option: str = "--questions"
    """Name of the command's option that gives the input."""
    files: RunOption | None = QUESTION_FILE
    """The option `option`, where the input is files, which may be read in part (`--limit`). None: the input is one
    of `own_options`."""
    makes_questions: bool = False
    """Whether the data set makes questions from something else; quotas may then be set for them
    (`pipelines.sources.demand`)."""
    takes_folder: bool = False
    """Whether the input is a folder, namely that of the file that `Settings.sources` names."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Files that hold no rows, such as figures: by folder, the pattern that their names match."""
    lists: Mapping[str, Reference] = field(default_factory=dict)
    """Files in the run's folder that hold `rows` in another form: by file name, a reference to `(row) -> line`."""
    about: str = ""
    """A line on what its command and its flow do; empty: it has neither."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """What to try when a run kept nothing, by the reason that rejected most."""
    earlier_reasons: Mapping[str, str] = field(default_factory=dict)
    """Reasons of rejection that had another name in runs of before: by that name, the name of now. An earlier name is
    given to no other reason of the data set."""
    demo: str = ""
    """Name of the preset that runs on the packaged model; empty: there is none."""
    own_options: Mapping[str, RunOption] = field(default_factory=dict)
    """Options that this data set alone takes, by name; their values come as `RunInputs.options`."""
    read_given: Reference = "trailforge.pipelines.sources.jsonl:read_given"
    """Reference to `(files, own_options) -> (paths, RunInputs.options)`, which reads what people give."""
    ask_elsewhere: Reference | None = None
    """Reference to `(folder of a finished run, distractors) -> (questions, types of those left out)`: its rows as
    questions with paragraphs, which a night's other data sets are made of. None: it has no such rows."""
    examples: tuple[str, ...] = ()
    """Examples of its command: the words behind `trailforge`."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` where it does not say how a stage runs, or what checks its rows."""
        unsaid = [f"stages.{stage.name}.run" for stage in self.stages if not stage.run] + ["checks"] * (not self.checks)
        if unsaid and not self.life:
            raise InvalidInput(
                "missing in the declaration; give it, or the `life` of its rows", file=self.name, field=unsaid[0]
            )
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
        """Return the name of the command that makes this data set."""
        return self.name.replace("_", "-")

    @property
    def takes_demand(self) -> bool:
        """Tell whether quotas (`--demand`) can say which questions it takes or makes."""
        return self.inputs.record is Question or self.makes_questions

    @property
    def given(self) -> dict[str, RunOption]:
        """Return all options that its command and its flow have beside those of every run."""
        files = {self.option.removeprefix("--"): self.files} if self.files else {}
        columns = {"columns": QUESTION_COLUMNS} if self.files is QUESTION_FILE else {}
        return {**files, **columns, **self.own_options}

    def read(self, given: Mapping[str, Any]) -> tuple[tuple[Path, ...], dict[str, Any]]:
        """Return the files and options of a run, read from what the user gave. Raises `InvalidInput` for an impossible
        value.
        """
        options, files = dict(given), ()
        if self.files:
            value = options.pop(self.option.removeprefix("--"))
            files = tuple(value) if self.files.many else (value,)
        return resolve(self.read_given)(files, options)

    @property
    def all_tables(self) -> dict[str, Table]:
        """Return all tables by name, the inputs included."""
        return {INPUTS: self.inputs, **self.tables}

    @property
    def records(self) -> dict[str, type]:
        """Return the record class of each table but the inputs, by table name."""
        return {name: table.record for name, table in self.tables.items()}
