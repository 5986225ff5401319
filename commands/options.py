"""Command-line options that several commands share."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from trailforge.schemas import InvalidInput

if TYPE_CHECKING:
    from trailforge.inference import Asker, Caps, Prices
    from trailforge.inference.provider import Parameters
    from trailforge.pipelines.runs import ModelConfig
    from trailforge.schemas import Document

T = TypeVar("T")
RunFolder = Annotated[Path, typer.Argument(help="Folder of a run.", metavar="DIR")]


QuestionColumns = Annotated[
    str | None,
    typer.Option("--columns", help="Column names of your own questions, e.g. question=query,answer=gold."),
]
"""The option `--columns`, as the commands of data sets take it too (`pipelines.dataset.QUESTION_COLUMNS`)."""


DemandFile = Annotated[
    Path | None,
    typer.Option("--demand", help="YAML file of quotas (`trailforge demand`) by which questions are taken or made."),
]
"""The option `--demand` of commands that make or take questions."""


class Redo(StrEnum):
    """The replies in a ledger that are to be asked for again: choices of `--redo`."""

    TRUNCATED = "truncated"
    REFUSED = "refused"


class ThoughtsPlace(StrEnum):
    """The place of a model's thoughts: a field of its own in the reply, or the reply's text."""

    SEPARATE = "separate"
    INLINE = "inline"


BACK_ENDS = "dense, bm25, hybrid, linear_rag, hippo_rag_plain, raptor_plain, hyper_graph_rag_plain, graph_rag_plain"
"""Back ends of `retrieval.backends.BACKENDS` that ask no model. `--help` does not load them; a test compares the
two."""


def _read_kind(text: str) -> str:
    """Of the option `--retrieval`. Looked up when it is given: a look at `--help` loads no retrieval."""
    from trailforge.retrieval import check_kind

    try:
        check_kind(text)
    except InvalidInput as error:
        raise typer.BadParameter(f"{error.problem}.") from None
    return text


Retrieval = Annotated[
    str | None,
    typer.Option(
        parser=_read_kind,
        metavar="KIND",
        help=f"A back end: {BACK_ENDS}. web: live pages. Or the URL of a server (`serve-search`). Default: the "
        "preset's, else that of the index.",
    ),
]
_OF_PRESET = "Default: the preset's, else the index's."
Encoder = Annotated[
    str | None,
    typer.Option(
        help="Encoder, for back ends that need one: minilm, a sentence-transformers name or path, or URL#MODEL. "
        f"{_OF_PRESET}"
    ),
]
QueryPrefix = Annotated[str | None, typer.Option(help=f"Prefix the encoder expects before a query. {_OF_PRESET}")]
PassagePrefix = Annotated[str | None, typer.Option(help="Prefix it expects before a passage. Default: as above.")]
KgFilterOption = Annotated[
    Literal["model", "asked", "first", "none"] | None,
    typer.Option(
        help="Which triples an agent reads: those that a model chooses, those asked for, the first five, all. Default: "
        "the preset's."
    ),
]
FilterModel = Annotated[
    str | None,
    typer.Option(help="Model that filters of search results ask. Default: the preset's.", metavar="URL#MODEL"),
]
RedoOption = Annotated[
    Redo | None,
    typer.Option(
        help="Ask again for replies that were cut off (truncated), or for prompts that the server refused (refused), "
        "and redo what depends on them."
    ),
]
Model = Annotated[
    str | None, typer.Option(help="URL of an OpenAI-compatible server, or 'embedded'. Default: the preset's.")
]
ModelName = Annotated[str | None, typer.Option(help="Model as the server calls it. Default: the preset's.")]
MaxCost = Annotated[
    float | None, typer.Option(min=0, help="Hard cap on the cost of this folder, at the preset's prices.")
]
MaxCalls = Annotated[int | None, typer.Option(min=0, help="Hard cap on the model calls of this folder.")]
MaxTokens = Annotated[
    int | None, typer.Option(min=0, help="Hard cap on the tokens of this folder, prompts and completions.")
]
Verdicts = Annotated[
    list[Path] | None,
    typer.Option(
        help="Leave out what people rejected: a curated run's folder, or its decisions.jsonl or patterns.jsonl. "
        "Repeatable."
    ),
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Replace a run with other settings in --out; its ledger is kept.")
]
Runner = Annotated[str, typer.Option(help="Apache Beam's runner: FnApiRunner (here), dask, PortableRunner, …")]
Cluster = Annotated[
    str | None,
    typer.Option(
        help="Run on Dask: local:N (worker processes here), tls://HOST:PORT (a scheduler), or a YAML file (Slurm)."
    ),
]
LogFormat = Annotated[
    Literal["text", "json"],
    typer.Option(envvar="TRAILFORGE_LOG_FORMAT", help="How lines on stderr are written; json: an object each."),
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Use a cluster without TLS on a network: it runs what anybody sends it.")
]
BeamOptions = Annotated[
    list[str] | None,
    typer.Option(help="Option of the runner as KEY=VALUE, e.g. job_endpoint=127.0.0.1:8099. Repeatable."),
]
SERVED_MODEL = "Qwen/QwQ-32B"
ServerUrl = Annotated[
    str | None, typer.Option(help="URL of an OpenAI-compatible server, for back ends that call a model.")
]
ServerModel = Annotated[str, typer.Option(help="Model as the server calls it.")]
PresetModel = Annotated[
    str | None,
    typer.Option("--model-name", help=f"Model as the server calls it. Default: the preset's, else {SERVED_MODEL}."),
]
PresetThoughts = Annotated[
    ThoughtsPlace | None,
    typer.Option(
        "--reasoning", help="Whether the server separates the model's thoughts. Default: the preset's, else separate."
    ),
]
ServerThoughts = Annotated[
    ThoughtsPlace, typer.Option(help="Whether the server separates the model's thoughts from its reply.")
]
ServerParameters = Annotated[
    str,
    typer.Option(
        "--parameters",
        help="What the server wants otherwise, as `model.parameters` of presets: '{stream: true}'.",
        metavar="YAML",
    ),
]
ServerPrices = Annotated[
    str,
    typer.Option(help="Price of a million prompt tokens and completion tokens, e.g. 0.15,0.6.", metavar="PROMPT,REPLY"),
]
ServerSeed = Annotated[int, typer.Option(help="Seed of the model's sampling.")]


@dataclass(frozen=True, slots=True)
class ModelServer:
    """A served model as the options describe it: URL, name, prices and caps on cost."""

    config: ModelConfig
    has_prices: bool
    caps: Caps
    seed: int

    @classmethod
    def of(
        cls,
        url: str | None,
        name: str | None,
        reasoning: ThoughtsPlace | None,
        prices: str,
        *,
        seed: int,
        caps: Caps | None = None,
        parameters: str = "",
        preset: ModelConfig | None = None,
    ) -> ModelServer | None:
        """Return the model server that the options describe, with the preset's model as default; None where neither
        gives a URL.
        """
        from trailforge.inference import Caps, Prices
        from trailforge.inference.provider import check_server_url
        from trailforge.pipelines.runs import ModelConfig

        base = preset or ModelConfig(url="")
        if not (url or base.url):
            return None
        check_server_url(url or base.url, "--model")
        said: dict[str, Any] = {"url": url, "name": name, "reasoning": reasoning and reasoning.value}
        if prices:
            said |= read_prices(prices)
        if parameters:
            said["parameters"] = _read_parameters(parameters)
        config = replace(base, **{field: value for field, value in said.items() if value is not None})
        has_prices = bool(prices) or config.prices != Prices()
        if caps is not None:
            check_cost_cap(caps.max_cost, has_prices)
        return cls(config, has_prices, caps or Caps(), seed)


def check_cost_cap(max_cost: float | None, has_prices: bool) -> None:
    """Raise `typer.BadParameter` for a cap on the cost of calls when no prices are given."""
    if max_cost is not None and not has_prices:
        raise typer.BadParameter("--max-cost caps nothing without --prices", param_hint="--max-cost")


def _read_parameters(text: str) -> Parameters:
    import yaml

    from trailforge.inference.provider import Parameters
    from trailforge.schemas import from_dict, located

    try:
        given = yaml.safe_load(text) or {}
    except yaml.YAMLError:
        raise typer.BadParameter(f"{text!r} is no YAML, as {{omit: [seed]}} is", param_hint="--parameters") from None
    with located(section="--parameters"):
        return from_dict(Parameters, given)


def check_training_set(folder: Path) -> None:
    """Raise `InvalidInput` where a folder is no training set, before anything heavy is loaded."""
    from trailforge.training.sets import open_set

    open_set(folder)


def read_prices(text: str) -> dict[str, Any]:
    """Read `0.15,0.6` or `0.15,0.6,0.1` as prices in dollars per million tokens of prompts, of completions and of
    cached prompts, and return them as fields of `ModelConfig`. Raises `typer.BadParameter` for other texts.
    """
    names = ("prompt_price_per_million", "completion_price_per_million", "cached_price_per_million")
    try:
        numbers = [float(each) for each in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3):
        problem = f"{text!r}: expected two numbers, as 0.15,0.6, and a third one for tokens in a server's prefix cache"
        raise typer.BadParameter(problem, param_hint="--prices")
    return dict(zip(names, numbers, strict=False))


def prices_of(server: ModelServer | None) -> Prices | None:
    """Return the prices that the options give for a server's calls; None without a server or prices."""
    return server.config.prices if server and server.has_prices else None


@contextlib.asynccontextmanager
async def ask_server(server: ModelServer | None, folder: Path) -> AsyncIterator[Asker | None]:
    """Open a client for a model, with the ledger of its replies beside the index in `folder`; gives None without a
    server. Raises `ServerUnavailable` at once when the server does not answer.
    """
    async with open_asker(server, folder.with_name(f"{folder.name}.ledger.sqlite"), run=folder.name) as asker:
        yield asker


@contextlib.asynccontextmanager
async def open_asker(server: ModelServer | None, file: Path, *, run: str) -> AsyncIterator[Asker | None]:
    """Open a client for a model, with the ledger of its replies in `file`; gives None without a server. `run` is the
    name under which a ledger that runs share keeps the calls.
    """
    if server is None:
        yield None
        return
    from trailforge.inference import Asker, Meter, ModelClient
    from trailforge.inference.ledgers import ledger_url, open_ledger

    file.parent.mkdir(parents=True, exist_ok=True)
    client = ModelClient(server.config.client(server.caps), open_ledger(ledger_url(""), file, run=run))
    try:
        await client.check()
        yield Asker(client=client, model=server.config.name, style="chat", seed=server.seed, meter=Meter())
    finally:
        await client.aclose()


def read_settings(record: type[T], path: Path | None) -> T:
    """Read a record from a YAML file; without a file, return its defaults."""
    import yaml

    from trailforge.schemas import from_dict, located

    if path is None:
        return record()
    if not path.is_file():
        raise InvalidInput("no such file", file=path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise InvalidInput(f"not valid YAML: {str(error).splitlines()[0]}", file=path) from error
    if not isinstance(content, dict):
        raise InvalidInput("expected a mapping of settings, one `name: value` a line", file=path)
    with located(file=path):
        return from_dict(record, content)


def documents_of(corpus: Path, columns: str | None = None) -> Iterator[Document]:
    """Read a corpus in any supported file format.

    `columns` maps column names to fields of passages, or of questions whose paragraphs are the corpus. Raises
    `InvalidInput` for any other file, sometimes only while it is read.
    """
    from trailforge.pipelines.runs import MANIFEST
    from trailforge.pipelines.sources import holds_questions, jsonl, read_paragraphs
    from trailforge.retrieval.indexes import distinct, parse_columns, read_corpus
    from trailforge.rows import COLUMNS

    if not corpus.exists():
        raise InvalidInput("no such file or folder", file=corpus)
    if corpus.is_dir() and (corpus / MANIFEST).is_file():
        from trailforge.training import documents_of_runs

        if columns:
            raise InvalidInput("a finished run has the columns that it has; leave it out", file=corpus, field=COLUMNS)
        return distinct(documents_of_runs([corpus]))
    fields = {part.partition("=")[0].strip() for part in (columns or "").split(",")}
    is_of_questions = bool(fields & jsonl.USUAL.keys() - {"id"})
    if corpus.is_file() and (is_of_questions or holds_questions(corpus)):
        return distinct(read_paragraphs(corpus, jsonl.parse_columns(columns) or None))
    return read_corpus(corpus, parse_columns(columns or ""))
