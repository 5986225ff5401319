"""What a run would take, on the terminal, without a run."""

from __future__ import annotations

from rich.table import Table

from inference import Prices, Usage
from pipelines.mcts_trajectories import Estimate


def estimate_table(estimate: Estimate, prices: Prices) -> Table:
    """Calls, tokens and cost by stage, and their sum."""
    table = Table(
        title=f"{estimate.questions:,} questions, estimated from {estimate.sampled:,}",
        caption="An estimate: how hard the questions are for the model decides. "
        "--max-calls, --max-tokens and --max-cost hold for certain.",
    )
    table.add_column("stage")
    for name in ("calls", "prompt tokens", "completion tokens", "cost"):
        table.add_column(name, justify="right")
    rows = [(line.stage, line.usage) for line in estimate.stages]
    total = sum((usage for _, usage in rows), start=Usage())
    for name, usage in [*rows, ("all", total)]:
        cost = f"{usage.cost:,.2f}" if prices != Prices() else "no prices"
        figures = (usage.calls, usage.prompt_tokens, usage.completion_tokens)
        table.add_row(name, *(f"{figure:,}" for figure in figures), cost, end_section=name == rows[-1][0])
    return table
