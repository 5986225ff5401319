"""Write a stage's counters in a file for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

METRICS = "metrics.prom"
NAMES = rf"{METRICS.replace('.', '[.]')}([.]\d+[.]\d+)?"
"""Pattern of the names of the file, and of one that is being written."""
_COUNTERS = {
    "paid_calls": ("calls_paid", "Calls that a server answered since the stage began."),
    "ledger_hits": ("calls_from_ledger", "Calls that the ledger answered since the stage began."),
    "in_flight": ("calls_in_flight", "Calls that wait for an answer."),
    "retries": ("calls_tried_again", "Calls that were sent again after an error."),
    "refused_prompts": ("prompts_refused", "Prompts that a server refused while it answered others."),
    "servers_waited_for": ("servers_waited_for", "Model servers that fail or are too busy."),
    "prompt_tokens": ("prompt_tokens", "Tokens of the prompts of answered calls."),
    "completion_tokens": ("completion_tokens", "Tokens of their replies."),
}


def write_metrics(
    path: Path, labels: Mapping[str, str], done: int, total: int, counters: Mapping[str, int], rows: Mapping[str, int]
) -> None:
    """Write a stage's figures, each with `labels`, replacing earlier ones.

    `done` and `total` count items, `counters` are of all workers together, `rows` are by kind. All are gauges, since
    they restart with each start of a stage. A full disk does not stop the run, and without the optional
    `prometheus_client` nothing is written.
    """
    try:
        from prometheus_client import CollectorRegistry, Gauge, write_to_textfile
    except ModuleNotFoundError:
        return
    registry = CollectorRegistry()

    def tell(name: str, said: str, value: int) -> None:
        Gauge(f"trailforge_{name}", said, [*labels], registry=registry).labels(**labels).set(value)

    tell("items", "Items of the stage.", total)
    tell("items_done", "Items of the stage that are done.", done)
    for counter, (name, said) in _COUNTERS.items():
        tell(name, said, counters.get(counter, 0))
    kinds = Gauge("trailforge_rows", "Rows since the stage began, by kind.", [*labels, "kind"], registry=registry)
    for kind, count in rows.items():
        kinds.labels(**labels, kind=kind).set(count)
    with contextlib.suppress(OSError):
        write_to_textfile(str(path), registry)
