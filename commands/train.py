"""`trailforge rewards`: what the episodes of a file are paid."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trailforge.training.score_file import ScoredRow

REWARDS_EPILOG = """Examples:\n
    trailforge rewards out/kg/kg_trajectories/part-00000.parquet --preset dynasearcher\n
    trailforge rewards episodes.jsonl --preset msearcher --protocol react --json\n
    trailforge rewards episodes.jsonl --preset my_training.yaml"""


def rewards(
    file: Annotated[
        Path,
        typer.Argument(
            help="JSON Lines with messages and answer (.gz too), or Parquet of sft, kg_trajectories or episodes."
        ),
    ],
    preset: Annotated[
        str,
        typer.Option(
            help="msearcher, r-search, dynasearcher, ragsearch, search-r1, or a training preset's YAML, with its judge."
        ),
    ],
    protocol: Annotated[str | None, typer.Option(help="Of lines that name none.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Rows of the table; the means are over all.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Every row as a line of JSON, and no table.")] = False,
) -> None:
    """Show what each episode of a file is paid, part by part."""
    from trailforge.training.score_file import score_file
    from trailforge.training.scoring import scorer_of

    scorer = scorer_of(preset)
    assert scorer.preset is not None
    rows = score_file(file, scorer.preset, protocol=protocol, judge=scorer.judge)
    if not as_json:
        _show(list(rows), limit)
        return
    for row in rows:
        parts = {"total": row.reward.total, **row.reward.parts}
        print(json.dumps({"row": row.row, "uid": row.uid, **parts, "recorded": row.recorded}, ensure_ascii=False))


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.command("rewards", epilog=REWARDS_EPILOG)(rewards)


def _show(rows: Sequence[ScoredRow], limit: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        print("The file holds no episodes.")
        return
    has_recorded = any(row.recorded is not None for row in rows)
    columns = {"total": [row.reward.total for row in rows]}
    columns |= {name: [row.reward.parts[name] for row in rows] for name in rows[0].reward.parts}
    if has_recorded:
        columns["recorded"] = [row.recorded for row in rows]
    table = Table("row", "uid", show_footer=True)
    table.columns[0].footer = "mean"
    table.columns[1].footer = f"of {len(rows):,}"
    for name, values in columns.items():
        known = [value for value in values if value is not None]
        footer = f"{sum(known) / len(known):.3f}" if known else "–"
        table.add_column(name, footer=footer, justify="right")
    for number, row in enumerate(rows[:limit]):
        shown = ["–" if values[number] is None else f"{values[number]:.3f}" for values in columns.values()]
        uid = "".join(sign if sign.isprintable() else "\ufffd" for sign in row.uid)  # anyone's text
        table.add_row(str(row.row), Text(uid), *shown)
    Console().print(table)
