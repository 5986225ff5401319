"""`trailforge sql` and `trailforge compact`: query the tables of a run in SQL, and rewrite them in few large files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from trailforge.commands.options import RunFolder
from trailforge.schemas import InvalidInput

SQL_EPILOG = """Examples:\n
    trailforge sql datasets_out/demo "SELECT kind, count(*) FROM mcts_trajectories GROUP BY kind"\n
    trailforge sql datasets_out/demo "SELECT uid, reward.total FROM mcts_trajectories WHERE num_hops >= 3"\n
    trailforge sql datasets_out/demo "SELECT reason, count(*) FROM rejected GROUP BY ALL" --format csv\n
    trailforge sql datasets_out/demo "DESCRIBE mcts_trajectories"        the columns\n
    trailforge sql datasets_out/demo "SHOW TABLES"\n
    trailforge sql datasets_out/demo "FROM sft WHERE num_hops = 2" --format parquet --out two_hops.parquet"""
COMPACT_EPILOG = """Examples:\n
    trailforge compact datasets_out/musique --out compact/musique\n
    trailforge verify compact/musique\n
    trailforge push compact/musique --repo ann/search-trails"""


def sql(
    folder: RunFolder,
    query: Annotated[str, typer.Argument(help="One query of DuckDB; each table is a view.", metavar="SELECT…")],
    form: Annotated[
        Literal["table", "csv", "jsonl", "parquet"],
        typer.Option("--format", help="How to write the rows; a table shows the first 100."),
    ] = "table",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write there, and not to standard output.")] = None,
) -> None:
    """Query the tables of a run, or of a training set, in SQL; nothing is changed."""
    from trailforge.pipelines.search import answer_sql, write_answer

    if out is not None and out.resolve().is_relative_to(folder.resolve()):
        raise InvalidInput("lies in the folder that is queried; give a file elsewhere", file=out)
    count = write_answer(answer_sql(folder, query), form, out)
    if out is not None:
        print(f"{count:,} rows: {out}")


def compact(
    folder: RunFolder,
    out: Annotated[Path, typer.Option(help="Folder of the copy; must not exist or be empty.")],
    size: Annotated[int, typer.Option("--megabytes", min=1, help="Size that files come near to.")] = 256,
) -> None:
    """Write a finished run in few large files, as readers over a network like them; `verify` reads it as before."""
    from trailforge.pipelines.runs import compact_run

    made = compact_run(folder, out, large=size << 20)
    print(f"{made.before:,} files became {made.after:,}: {out}")


def register(root: typer.Typer) -> None:
    """Add the commands on tables."""
    root.command("sql", epilog=SQL_EPILOG)(sql)
    root.command("compact", epilog=COMPACT_EPILOG)(compact)
