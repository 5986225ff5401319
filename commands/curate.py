"""`trailforge curate`: people decide on the rows of a finished run, and the curated data set is made of it."""

from __future__ import annotations

import getpass
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from commands.options import RunFolder
from schemas import FileEntry, InvalidInput

if TYPE_CHECKING:
    from inspector.decisions import Merged

DECIDE_EPILOG = """Examples:\n
    trailforge curate decide datasets_out/demo 1f0c4a5be2d97a63 --accept\n
    trailforge curate decide datasets_out/demo 1f0c4a5be2d97a63 --reject "the second search finds nothing of use"\n
    trailforge curate decide datasets_out/demo 1f0c4a5be2d97a63 --fix answer="Kiel" --fix final_answer="Kiel"\n
    trailforge curate decide datasets_out/demo 1f0c4a5be2d97a63 --fix messages.3.content="I search for its mayor."\n
    trailforge curate decide datasets_out/demo 2hop__sample_001 --reject "it has two answers"     the question itself"""
APPLY_EPILOG = """Examples:\n
    trailforge curate apply datasets_out/demo --out datasets_out/demo-curated\n
    trailforge verify datasets_out/demo-curated"""
STATS_EPILOG = """Examples:\n
    trailforge curate stats datasets_out/demo"""
app = typer.Typer(no_args_is_help=True, help="Decide on rows of a finished run, and make the curated data set of it.")
_MOST_CONFLICTS = 20


@app.command(epilog=DECIDE_EPILOG)
def decide(
    folder: RunFolder,
    uid: Annotated[str, typer.Argument(help="Of the row; of a question or document its id.", metavar="UID")],
    accept: Annotated[bool, typer.Option("--accept", help="The row is good.")] = False,
    reject: Annotated[str | None, typer.Option(help="The row is not, and why.", metavar="REASON")] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(help="The row is good with this field changed. Repeatable.", metavar="FIELD=VALUE"),
    ] = None,
    comment: Annotated[str | None, typer.Option(help="A remark, which decides nothing.", metavar="TEXT")] = None,
    who: Annotated[str | None, typer.Option(help="Who decides. Default: the user's name.")] = None,
) -> None:
    """Say of one row that it is good, is to go, or has to be changed; the run's tables stay as they are."""
    from inspector.deciding import decide as decided
    from inspector.deciding import fix_of
    from pipelines.curated_rows import check_row

    settings = _settings(folder)
    if accept + (reject is not None) + bool(fix) > 1 or not (accept or fix or reject is not None or comment):
        raise typer.BadParameter("give one of --accept, --reject, --fix, --comment; a comment may go with each")
    table, row = _row(folder, settings.dataset, uid)
    words: list[dict[str, str]] = []
    if accept:
        words.append({"action": "accept"})
    if reject is not None:
        words.append({"action": "reject", "reason": " ".join(reject.split())})
    words += [fix_of(row, *_assignment(text)) for text in fix or ()]
    if comment is not None:
        words.append({"action": "comment", "comment": comment})
    check = partial(check_row, settings.dataset)
    new = decided(folder, settings.run_id, table, row, who or getpass.getuser(), words, check)
    print(f"{table}, {uid}: {', '.join(word['action'] for word in words)} by {new[0].who}")


@app.command(epilog=APPLY_EPILOG)
def apply(
    folder: RunFolder,
    out: Annotated[Path, typer.Option(help="Folder of the curated data set; must not exist or be empty.")],
) -> None:
    """Make the curated data set: without rejected rows, with fixes, with a manifest and books of its own."""
    from inspector.decisions import LOG, merged, of_run, read_decisions
    from pipelines import curation
    from pipelines.files import sha256_of

    settings = _settings(folder)
    decisions = read_decisions(folder)
    path = folder / LOG
    if not decisions:
        raise InvalidInput("no decisions; `trailforge curate decide` makes some", file=path)
    log = FileEntry(path=str(path), rows=len(decisions), sha256=sha256_of(path))
    heard = merged(of_run(decisions, settings.run_id))
    manifest = curation.apply(folder, out, heard.rulings, log)
    (books,) = [line for line in manifest.stages if line.name == "curate"]
    reasons = ", ".join(f"{count.reason} {count.count}" for count in books.rejected) or "none rejected"
    print(f"{manifest.run_id}: {books.inputs:,} rows, {books.accepted:,} left; {reasons}")
    if heard.conflicts:
        print(f"People differ on {len(heard.conflicts)} of them; trailforge curate stats {folder}")
    print(f"Rows: {out}   Check them: trailforge verify {out}")


@app.command(epilog=STATS_EPILOG)
def stats(folder: RunFolder) -> None:
    """Say how much is decided, by whom, and how far people agree with each other and with the filters."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from inspector.agreement import between_people, with_filters
    from inspector.decisions import merged, of_run, read_decisions, standing

    settings, console = _settings(folder), Console(highlight=False)
    decisions = read_decisions(folder)
    of_this = of_run(decisions, settings.run_id)
    heard, stances = merged(of_this), standing(of_this)
    console.print(_progress(folder, heard))
    people = Table("who", "of accepted rows", "accepted too", "of rejected rows", "rejected too")
    for each in with_filters(stances):
        figures = (each.accepted, each.accepted_too, each.rejected, each.rejected_too)
        people.add_row(Text(each.who), *(f"{figure:,}" for figure in figures))
    console.print(people)
    pairs = Table("two people", "rows of both", "agree", "Cohen's kappa")
    for pair in between_people(stances):
        kappa = "–" if pair.kappa is None else f"{pair.kappa:.2f}"
        pairs.add_row(Text(" and ".join(pair.people)), f"{pair.rows:,}", f"{pair.same / pair.rows:.0%}", kappa)
    if pairs.row_count:
        console.print(pairs)
    for conflict in heard.conflicts[:_MOST_CONFLICTS]:
        sides = ", ".join(f"{who}: {what}" for who, what in conflict.sides)
        console.print(
            Text(f"differ: {conflict.table}, {conflict.uid}{' ' * bool(conflict.field)}{conflict.field}: {sides}")
        )
    if len(of_this) < len(decisions):
        console.print(f"{len(decisions) - len(of_this)} decisions are on another run that was in this folder.")


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="curate")


def _settings(folder: Path) -> Any:
    """Of the run, which must be finished and as it was made."""
    from pipelines.datasets import is_curated
    from pipelines.finish import read_manifest
    from pipelines.intake import read_settings

    settings = read_settings(folder)
    if settings is None or read_manifest(folder) is None:
        raise InvalidInput("holds no finished run", file=folder)
    if is_curated(settings):
        raise InvalidInput("is a curated data set; decide on rows of the run that it was made of", file=folder)
    return settings


def _row(folder: Path, dataset: str, uid: str) -> tuple[str, dict[str, Any]]:
    """The first table with such a row, and the row."""
    from inspector.table_index import TableIndex, tables_of
    from pipelines.curated_rows import decidable

    there = tables_of(folder)
    for table in (name for name in decidable(dataset) if name in there):
        index = TableIndex(folder, table)
        number = index.find(uid, "id" if table == "inputs" else "uid")
        if number is not None:
            return table, index.row(number)
    raise InvalidInput(f"no row {uid} in {', '.join(decidable(dataset))}", file=folder)


def _assignment(text: str) -> tuple[str, str]:
    field, equals, value = text.partition("=")
    if not (field and equals):
        raise typer.BadParameter(f"{text!r}: expected FIELD=VALUE", param_hint="--fix")
    return field, value


def _progress(folder: Path, heard: Merged) -> Any:
    """Of each table how many rows are decided, and how."""
    from rich.table import Table

    from inspector.table_index import TableIndex

    counts: dict[str, Counter[str]] = {}
    for ruling in heard.rulings:
        counts.setdefault(ruling.table, Counter())[ruling.action] += 1
    shown = Table("table", "rows", "decided", "accepted", "fixed", "rejected")
    for name, count in sorted(counts.items()):
        figures = (len(TableIndex(folder, name)), count.total(), count["accept"], count["fix"], count["reject"])
        shown.add_row(name, *(f"{figure:,}" for figure in figures))
    return shown
