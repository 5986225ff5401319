"""Show a run before it is made: its estimated cost (`--dry-run`), and its first rows (`--preview`).

For a preview, the first inputs go through every stage in a temporary folder; replies that were paid for are kept.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from trailforge.evaluation import Corpora, Evaluation, check_same
from trailforge.flows.execute import RunRequest, check_inputs, print_note
from trailforge.flows.given import check_out
from trailforge.inference import Caps, Prices, Usage
from trailforge.inference.vllm import VllmConfig
from trailforge.pipelines import LEDGER, DataSet, Estimate, StageEstimate, load_dataset, resolve
from trailforge.pipelines.engine import output_errors
from trailforge.pipelines.engine.cluster import read_cluster
from trailforge.pipelines.engine.runners import LOCAL, beam_options
from trailforge.pipelines.runs import EMBEDDED, ModelConfig
from trailforge.pipelines.runs.own_files import OwnFiles
from trailforge.presets import load_preset
from trailforge.retrieval.backends import Backend
from trailforge.schemas import Document, InvalidInput, Manifest, from_dict

_SECONDS = 3600
_BUILD_RESTS_ON = (
    "Replies are as long as a strong model's without thoughts: one that reasons first writes more. "
    "Replies that have to be asked for again are not counted."
)


def show_preview(
    request: RunRequest, execute: Callable[[RunRequest], Manifest], show: Callable[[Manifest, Path], None]
) -> None:
    """Make a few rows as the run would, and show them before they are removed.

    Replies go straight into the ledger of the folder named for the run, which then does not pay for them again, even
    when the preview is killed. Without such a folder they are lost, unless the configuration names a shared ledger.
    """
    dataset, request = load_dataset(request.dataset), _in_this_process(request)
    with tempfile.TemporaryDirectory(prefix="trailforge-preview-") as temporary:
        folder = Path(temporary) / "run"
        if request.out == Path():
            show(execute(_limit_request(request, dataset, folder)), folder)
            return
        check_out(request.out)
        OwnFiles(request.out, dataset).refuse_strangers()
        with _shared_ledger(request.out, folder):
            show(execute(_limit_request(request, dataset, folder)), folder)


def _in_this_process(request: RunRequest) -> RunRequest:
    """Workers on other machines do not see a temporary folder of this one. What names them is judged all the same."""
    if not request.cluster and request.runner == LOCAL:
        return request
    read_cluster(request.cluster, beam_options(request.runner, request.runner_options), insecure=request.insecure)
    print_note("a preview is made in this process")
    return replace(request, cluster="", insecure=False, runner=LOCAL, runner_options=())


def _limit_request(request: RunRequest, dataset: DataSet, folder: Path) -> RunRequest:
    """The run of a few inputs, as many as the data set asks for."""
    few = dict(dataset.preview)
    limits = [limit for limit in (few.pop("limit", None), request.limit) if limit is not None]
    options = {**request.options, **few}
    limit = min(limits, default=None)
    return replace(request, out=folder, limit=limit, options=options, replace_run=False, has_card=False)


@contextlib.contextmanager
def _shared_ledger(out: Path, folder: Path) -> Iterator[None]:
    """`folder` writes its replies where the run of `out` looks for them. Folders that stay empty go again."""
    ledger = (out / LEDGER).parent.absolute()
    made = [path for path in (ledger, *ledger.parents) if not path.exists()]
    with output_errors(out):
        ledger.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
        (folder / LEDGER).parent.symlink_to(ledger)
    try:
        yield
    finally:
        for path in made:
            with contextlib.suppress(OSError):  # it is not empty
                path.rmdir()


def show_estimate(request: RunRequest) -> None:
    """Print the estimated calls, tokens and cost of a run. No model is called and nothing is written."""
    dataset = load_dataset(request.dataset)
    config, inputs = check_inputs(request, dataset)
    if dataset.estimate is None:
        raise InvalidInput(
            f"{dataset.name} has no estimate; run without --dry-run, or try --preview", field="--dry-run"
        )
    estimate: Estimate = resolve(dataset.estimate)(inputs, config)
    server = from_dict(VllmConfig, load_preset(request.preset, dataset.name).get("server", {}))
    Console().print(estimate_table(estimate, config.model, config.caps, server, price_hint(config.model, server)))


def show_build_estimate(
    backend: Backend, config: Any, passages: Sequence[Document], model: ModelConfig, caps: Caps
) -> None:
    """Print the estimated calls and tokens of building an index. Raises `InvalidInput` for a back end that gives no
    estimate.
    """
    if "build" not in backend.asks_model(config):
        print(f"{backend.name} with these settings asks no model")
        return
    if not (planned := backend.estimate(passages, config)):
        raise InvalidInput(
            f"{backend.name} does not estimate its calls to a model; run without --dry-run", field="--dry-run"
        )
    usages = [
        Usage(calls=each.calls, prompt_tokens=each.prompt_tokens, completion_tokens=each.completion_tokens)
        for each in planned
    ]
    stages = tuple(
        StageEstimate(stage=each.purpose, usage=replace(usage, cost=model.prices.cost(usage)))
        for each, usage in zip(planned, usages, strict=True)
    )
    estimate = Estimate(
        items=len(passages), unit="passages", sampled=len(passages), stages=stages, rests_on=_BUILD_RESTS_ON
    )
    Console().print(estimate_table(estimate, model, caps, VllmConfig()))


def show_evaluation(wanted: Evaluation, corpora: Corpora, model: ModelConfig, caps: Caps) -> None:
    """Print what an evaluation would run and build, and the estimated calls of its builds. Nothing is built or
    written.
    """
    evaluation = check_same(corpora.folder, wanted)
    agents, backends = len(wanted.agents), len(corpora.sources)
    seeds, questions = len(wanted.seeds), evaluation.num_questions
    episodes = agents * backends * seeds * questions
    print(f"{agents} agents × {backends} back ends × {seeds} seeds × {questions:,} questions = {episodes:,} episodes")
    for source in corpora.sources:
        what = "is built" if corpora.is_built(source) else "would be built"
        what = f"searches {source.place}" if source.place else what
        print(f"{source.name}: {what}" + "; every search asks a model" * corpora.asks_to_find(source))
    for name, backend, config, passages in corpora.plan_builds():
        also = ", and so does every search" if "find" in backend.asks_model(config) else ""
        print(f"\nBuilding {name} asks a model{also}")
        show_build_estimate(backend, config, passages, corpora.writer.model if corpora.writer else model, caps)


def estimate_table(estimate: Estimate, model: ModelConfig, caps: Caps, server: VllmConfig, hint: str = "") -> Table:
    """Return a table of estimated calls, tokens and cost by stage, with their sum, a hint, and the caps that would stop
    the run.
    """
    kind = "a bound, reckoned" if estimate.is_bound else "estimated"
    certain = "--max-calls, --max-tokens and --max-cost hold for certain."
    if estimate.is_bound:
        certain = f"Prompts are reckoned by the lengths in the sample. {certain}"
    table = Table(
        title=f"{estimate.items:,} {estimate.unit}, {kind} from {estimate.sampled:,}, for {model.name} at {model.url}",
        caption="\n".join(
            [
                *expected_rows(estimate),
                f"{estimate.rests_on} {certain}",
                *gpu_hours(estimate.usage, server),
                *stops(estimate.usage, caps),
            ]
            + [hint] * bool(hint)
        ),
    )
    table.add_column("stage")
    for name in ("calls", "prompt tokens", "completion tokens", "cost"):
        table.add_column(name, justify="right")
    rows = [(line.stage, line.usage) for line in estimate.stages]
    for name, usage in [*rows, ("all", estimate.usage)]:
        cost = f"{usage.cost:,.2f}" if model.prices != Prices() else "no prices"
        figures = (usage.calls, usage.prompt_tokens, usage.completion_tokens)
        is_last = bool(rows) and name == rows[-1][0]
        table.add_row(name, *(f"{figure:,}" for figure in figures), cost, end_section=is_last)
    return table


def expected_rows(estimate: Estimate) -> list[str]:
    """Describe in a line how many rows of each kind are expected, and the calls for each; an empty list where rows are
    not estimated.
    """
    if not (count := sum(estimate.rows.values())):
        return []
    kinds = ", ".join(f"{kind} {number:,}" for kind, number in estimate.rows.items())
    return [f"About {count:,} rows ({kinds}), {estimate.usage.calls / count:.1f} calls a row."]


def price_hint(model: ModelConfig, server: VllmConfig) -> str:
    """Return a hint which fields of a preset are needed to estimate cost and hours; empty where they are set, or the
    model is the packaged one.
    """
    if model.url == EMBEDDED or model.prices != Prices() or server.tokens_per_second:
        return ""
    return (
        "For the cost, set model.prompt_price_per_million and model.completion_price_per_million in the preset; for "
        "GPU-hours of your own server, server.tokens_per_second (vLLM logs its generation throughput) and "
        "server.price_per_hour."
    )


def gpu_hours(usage: Usage, server: VllmConfig) -> list[str]:
    """Describe the hours that a vLLM server of one's own would take, where its speed was measured."""
    if not server.tokens_per_second:
        return []
    hours = usage.completion_tokens / server.tokens_per_second / _SECONDS
    gpus = server.tensor_parallel_size
    line = f"{hours:,.1f} hours of the server ({hours * gpus:,.1f} GPU-hours) at {server.tokens_per_second:g} tokens/s"
    return [line + (f", {hours * server.price_per_hour:,.2f} to pay" if server.price_per_hour else "")]


def stops(usage: Usage, caps: Caps) -> list[str]:
    """Describe in a line each cap that is lower than the estimate."""
    figures = (
        ("--max-calls", caps.max_calls, usage.calls),
        ("--max-tokens", caps.max_tokens, usage.prompt_tokens + usage.completion_tokens),
        ("--max-cost", caps.max_cost, usage.cost),
    )
    return [
        f"{option} {cap:,} would stop the run at about {cap / needed:.0%} of it; raise it then, and go on."
        for option, cap, needed in figures
        if cap is not None and cap < needed
    ]
