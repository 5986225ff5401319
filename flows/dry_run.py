"""What a run would take, on the terminal, without a run."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from trailforge.flows.execute import RunRequest, check_inputs
from trailforge.inference import Caps, Prices, Usage
from trailforge.inference.vllm.server import VllmConfig
from trailforge.pipelines.dataset import resolve
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.estimate import Estimate
from trailforge.pipelines.runs.config import ModelConfig
from trailforge.presets import load_preset
from trailforge.schemas import InvalidInput, from_dict

_SECONDS = 3600


def show_estimate(request: RunRequest) -> None:
    """Print what a run would take. Calls no model and writes nothing."""
    dataset = load_dataset(request.dataset)
    config, inputs = check_inputs(request, dataset)
    if dataset.estimate is None:
        raise InvalidInput(f"{dataset.name} has no estimate", field="--dry-run")
    estimate: Estimate = resolve(dataset.estimate)(inputs, config)
    server = from_dict(VllmConfig, load_preset(request.preset, dataset.name).get("server", {}))
    Console().print(estimate_table(estimate, config.model, config.caps, server))


def estimate_table(estimate: Estimate, model: ModelConfig, caps: Caps, server: VllmConfig) -> Table:
    """Calls, tokens and cost by stage, and their sum; below it the caps that would end the run before that."""
    kind = "a bound, reckoned" if estimate.is_bound else "estimated"
    certain = "--max-calls, --max-tokens and --max-cost hold for certain."
    if estimate.is_bound:
        certain = f"Prompts are reckoned by the lengths in the sample. {certain}"
    table = Table(
        title=f"{estimate.items:,} {estimate.unit}, {kind} from {estimate.sampled:,}, for {model.name} at {model.url}",
        caption="\n".join(
            [f"{estimate.rests_on} {certain}", *gpu_hours(estimate.usage, server), *stops(estimate.usage, caps)]
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


def gpu_hours(usage: Usage, server: VllmConfig) -> list[str]:
    """What the hours of a server of one's own would be, where its speed was measured."""
    if not server.tokens_per_second:
        return []
    hours = usage.completion_tokens / server.tokens_per_second / _SECONDS
    gpus = server.tensor_parallel_size
    line = f"{hours:,.1f} hours of the server ({hours * gpus:,.1f} GPU-hours) at {server.tokens_per_second:g} tokens/s"
    return [line + (f", {hours * server.price_per_hour:,.2f} to pay" if server.price_per_hour else "")]


def stops(usage: Usage, caps: Caps) -> list[str]:
    """A line for each cap that is less than what is estimated."""
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
