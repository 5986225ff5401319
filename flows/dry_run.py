"""What a run would take, on the terminal, without a run."""

from __future__ import annotations

from rich.table import Table

from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.estimate import Estimate
from trailforge.inference import Caps, Prices, Usage


def estimate_table(estimate: Estimate, config: MctsRunConfig) -> Table:
    """Calls, tokens and cost by stage, and their sum; below it the caps that would end the run before that."""
    table = Table(
        title=f"{estimate.questions:,} questions, estimated from {estimate.sampled:,}, "
        f"for {config.model.name} at {config.model.url}",
        caption="\n".join(
            [
                "An estimate: how hard the questions are for the model decides. "
                "--max-calls, --max-tokens and --max-cost hold for certain.",
                *stops(estimate.usage, config.caps),
            ]
        ),
    )
    table.add_column("stage")
    for name in ("calls", "prompt tokens", "completion tokens", "cost"):
        table.add_column(name, justify="right")
    rows = [(line.stage, line.usage) for line in estimate.stages]
    for name, usage in [*rows, ("all", estimate.usage)]:
        cost = f"{usage.cost:,.2f}" if config.model.prices != Prices() else "no prices"
        figures = (usage.calls, usage.prompt_tokens, usage.completion_tokens)
        table.add_row(name, *(f"{figure:,}" for figure in figures), cost, end_section=name == rows[-1][0])
    return table


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
