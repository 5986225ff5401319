"""`trailforge curate`: record decisions on the rows of a finished run, and build the curated data set from them."""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import partial
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trailforge.commands.options import RunFolder
from trailforge.schemas import FileEntry, InvalidInput, NothingKept, PatternDecision, RefusedPattern, Ruling, visible

if TYPE_CHECKING:
    from trailforge.curation import Merged

DECIDE_EPILOG = """Examples:\n
    trailforge curate decide datasets_out/demo UID --accept\n
    trailforge curate decide datasets_out/demo UID --reject "the second search finds nothing of use"\n
    trailforge curate decide datasets_out/demo UID --fix question="Of which city is Ada Berg mayor?"\n
    trailforge curate decide datasets_out/demo UID --fix 'answer_aliases=["Kiel, Germany"]'\n
    trailforge curate decide datasets_out/demo 2hop__sample_01 --reject "it has two answers"     the question itself\n
    trailforge curate decide datasets_out/demo UID --withdraw"""
REFUSE_EPILOG = """Examples:\n
    trailforge curate refuse datasets_out/demo --field question --pattern '(?i)who sang' --reason "songs are dull"\n
    trailforge curate refuse datasets_out/spring --field publisher --pattern '^tabloid' --reason "mostly gossip"\n
    trailforge curate refuse datasets_out/kgq --field relation --pattern '^shares border with$' --reason "too easy"\n
    trailforge curate refuse datasets_out/demo --field question --pattern '(?i)who sang' --withdraw\n
    trailforge mcts-trajectories … --verdicts datasets_out/demo     makes nothing of such sources"""
APPLY_EPILOG = """Examples:\n
    trailforge curate apply datasets_out/demo --out datasets_out/demo-curated\n
    trailforge verify datasets_out/demo-curated"""
MERGE_EPILOG = """Examples:\n
    trailforge curate merge datasets_out/demo ann/decisions.jsonl ben/decisions.jsonl\n
    trailforge curate merge datasets_out/demo /mnt/other/datasets_out/demo"""
STATS_EPILOG = """Examples:\n
    trailforge curate stats datasets_out/demo"""
GUIDE_EPILOG = """Examples:\n
    trailforge curate guide datasets_out/demo\n
    trailforge curate guide datasets_out/demo --guide curation.yaml\n\n
The file, all of it optional:\n
    annotators: [ann, ben]        or a mapping of names to the tables that each decides on\n
    overlap: 0.2                  share of the rows that two of them decide on (people: 3 for three)\n
    guidelines: Keep what you would want a model to learn.\n
    reasons: [wrong answer, badly written]\n
    tables:                       what differs for a table\n
      rejected: {overlap: 0, reasons: [rightly rejected]}"""
app = typer.Typer(
    no_args_is_help=True, help="Record decisions on rows of a finished run, and build the curated data set from them."
)
_MOST_CONFLICTS = 20
_MOST_NAMED = 3


class Field(StrEnum):
    """The field that a pattern is matched against: the values of `PatternField`."""

    QUESTION = "question"
    ANSWER = "answer"
    TITLE = "title"
    TEXT = "text"
    PUBLISHER = "publisher"
    RELATION = "relation"
    ENTITY = "entity"


@app.command(epilog=DECIDE_EPILOG)
def decide(
    folder: RunFolder,
    uid: Annotated[str, typer.Argument(help="The row's uid; for a question or document, its id.", metavar="UID")],
    accept: Annotated[bool, typer.Option("--accept", help="The row is good.")] = False,
    reject: Annotated[str | None, typer.Option(help="The row is bad, for this reason.", metavar="REASON")] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(help="The row is good once this field is changed. Repeatable.", metavar="FIELD=VALUE"),
    ] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Withdraw your decisions on this row.")] = False,
    comment: Annotated[str | None, typer.Option(help="A comment; it decides nothing.", metavar="TEXT")] = None,
    who: Annotated[str | None, typer.Option(help="Who decides. Default: the user's name.")] = None,
) -> None:
    """Accept, reject or fix one row. The run's own tables do not change."""
    from trailforge.inspector import decide as decided
    from trailforge.inspector import make_fix
    from trailforge.pipelines import check_row

    settings = _settings(folder)
    chosen = accept + withdraw + (reject is not None) + bool(fix)
    if chosen > 1 or not (chosen or comment):
        raise typer.BadParameter("give one of --accept, --reject, --fix, --withdraw, --comment; a comment may go along")
    who = who or getpass.getuser()
    table, row = _decided(folder, settings, uid, who) if withdraw else _row(folder, settings.dataset, uid)
    words: list[dict[str, str]] = [{"action": "accept"}] * accept + [{"action": "withdraw"}] * withdraw
    if reject is not None:
        words.append({"action": "reject", "reason": " ".join(reject.split())})
    words += [make_fix(row, *_assignment(text)) for text in fix or ()]
    if comment is not None:
        words.append({"action": "comment", "comment": comment})
    check = partial(check_row, settings.dataset)
    new = decided(folder, settings.run_id, table, row, who, words, check)
    print(f"{table}, {uid}: {', '.join(word['action'] for word in words)} by {new[0].who}")


@app.command(epilog=REFUSE_EPILOG)
def refuse(
    folder: RunFolder,
    pattern: Annotated[str, typer.Option(help="Regular expression to search for; (?i) ignores case.", metavar="REGEX")],
    field: Annotated[
        Field,
        typer.Option(
            help="Of questions: question, answer; of documents: title, text, publisher; of paths of a "
            "graph: relation, entity, answer."
        ),
    ],
    reason: Annotated[str, typer.Option(help="Why these sources are refused.")] = "",
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Withdraw your refusal of this pattern.")] = False,
    who: Annotated[str | None, typer.Option(help="Who decides. Default: the user's name.")] = None,
) -> None:
    """Refuse a kind of source for later runs (their --verdicts). This run does not change."""
    from trailforge.curation import append_pattern, checked_pattern, now

    settings = _settings(folder)
    new = checked_pattern(
        PatternDecision(
            run_id=settings.run_id,
            field=field.value,
            pattern=pattern,
            who=who or getpass.getuser(),
            when=now(),
            action="withdraw" if withdraw else "refuse",
            reason=" ".join(reason.split()),
        )
    )
    matched = _matched(folder, settings, RefusedPattern(field=field.value, pattern=pattern, detail=""))
    append_pattern(folder, new)
    first = f": {', '.join(matched[:_MOST_NAMED])}{' …' * (len(matched) > _MOST_NAMED)}" if matched else ""
    print(f"{new.action} by {new.who}; it fits {len(matched):,} of this run's {settings.items:,} sources{first}")


@app.command(epilog=APPLY_EPILOG)
def apply(
    folder: RunFolder,
    out: Annotated[Path, typer.Option(help="Folder of the curated data set; must not exist or be empty.")],
) -> None:
    """Build the curated data set: rejected rows removed, fixes applied, with its own manifest and counts."""
    from trailforge.curation import LOG, apply_rulings, merge, of_run, read_decisions
    from trailforge.pipelines.engine import sha256_of

    settings, path = _settings(folder), folder / LOG
    digest = sha256_of(path) if path.is_file() else ""  # before it is read: what is said meanwhile is another log
    decisions = read_decisions(folder)
    if not decisions:
        raise InvalidInput("no decisions; `trailforge curate decide` makes some", file=path)
    log = FileEntry(path=str(path), rows=len(decisions), sha256=digest)
    merged = merge(of_run(decisions, settings.run_id))
    manifest = apply_rulings(folder, out, merged.rulings, log)
    (books,) = [line for line in manifest.stages if line.name == "curate"]
    reasons = ", ".join(f"{count.reason} {count.count}" for count in books.rejected) or "none rejected"
    print(f"{manifest.run_id}: {books.inputs:,} rows, {books.accepted:,} left; {reasons}")
    if merged.conflicts:
        print(f"People differ on {len(merged.conflicts)} of them; trailforge curate stats {quote(str(folder))}")
    print(f"Rows: {out}   Check them: trailforge verify {quote(str(out))}")
    if not books.accepted:
        raise NothingKept(f"{out}: nothing was kept of {books.inputs:,} rows ({reasons}); decide on some anew")


@app.command(epilog=MERGE_EPILOG)
def merge(
    folder: RunFolder,
    logs: Annotated[list[Path], typer.Argument(help="Decision logs, or copies of the run.", metavar="LOG…")],
) -> None:
    """Merge decisions made on other copies of this run, each once, and list those that cannot be applied."""
    from trailforge.curation import merge, of_run, read_decisions, take_in

    settings = _settings(folder)
    new, others = take_in(folder, settings.run_id, logs)
    people = ", ".join(sorted({each.who for each in new}))
    print(f"{len(new):,} new words{f' by {people}' * bool(new)}; {others:,} on other runs are left out")
    merged = merge(of_run(read_decisions(folder), settings.run_id))
    _print_unfit(folder, settings.dataset, merged)
    if merged.conflicts:
        print(f"People differ on {len(merged.conflicts)} of them; trailforge curate stats {quote(str(folder))}")


@app.command(epilog=STATS_EPILOG)
def stats(folder: RunFolder) -> None:
    """Show how many rows are decided, by whom, and how far people agree with each other and with the filters."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from trailforge.curation import (
        between_people,
        latest_decisions,
        merge,
        of_run,
        read_decisions,
        read_patterns,
        refused_patterns,
        with_filters,
    )

    settings, console = _settings(folder), Console(highlight=False)
    decisions = read_decisions(folder)
    of_this = of_run(decisions, settings.run_id)
    merged, stances = merge(of_this), latest_decisions(of_this)
    console.print(_progress(folder, merged))
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
    console.print(_reasons(stances))
    for conflict in merged.conflicts[:_MOST_CONFLICTS]:
        sides = ", ".join(f"{who}: {what}" for who, what in conflict.sides)
        console.print(
            Text(f"differ: {conflict.table}, {conflict.uid}{' ' * bool(conflict.field)}{conflict.field}: {sides}")
        )
    _print_unfit(folder, settings.dataset, merged)
    for pattern in refused_patterns(read_patterns(folder)):
        console.print(Text(f"refused: {pattern.field} matches {pattern.pattern!r} ({pattern.detail})"))
    if len(of_this) < len(decisions):
        console.print(f"{len(decisions) - len(of_this)} decisions are on another run that was in this folder.")


@app.command(epilog=GUIDE_EPILOG)
def guide(
    folder: RunFolder,
    guide: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The guide. Default: curation.yaml in or beside the run.")
    ] = None,
) -> None:
    """Check curation.yaml, and show which reasons it names and how many rows are whose, and decided."""
    from trailforge.curation import find_guide, latest_decisions, of_run, read_decisions, read_guide
    from trailforge.inspector import shares_of
    from trailforge.pipelines import decidable
    from trailforge.pipelines.runs import open_run

    settings = _settings(folder)
    run, path, tables = open_run(folder), find_guide(folder, guide), decidable(settings.dataset)
    read = read_guide(path, tables)
    print(path or "no curation.yaml: the reasons that come with the page, and everybody decides on whatever they like")
    stances = latest_decisions(of_run(read_decisions(folder), settings.run_id))
    for table in (name for name in tables if name in run.tables):
        print(visible(f"{table}: {'; '.join(read.of(table).reasons)}"))
        for who, (alone, shared) in shares_of(run, table, read.of(table)).items():
            done = sum((each.table, each.who) == (table, who) for each in stances)
            print(visible(f"  {who}: {len(alone):,} alone, {len(shared):,} with others; {done:,} decided"))


def register(root: typer.Typer) -> None:
    """Add the commands of `trailforge curate`."""
    root.add_typer(app, name="curate")


def _settings(folder: Path) -> Any:
    """Of the run, which must be finished and as it was made."""
    from trailforge.pipelines import is_curated
    from trailforge.pipelines.runs import finished_run

    _, settings = finished_run(folder)
    if is_curated(settings):
        raise InvalidInput("is a curated data set; decide on rows of the run that it was made of", file=folder)
    return settings


def _matched(folder: Path, settings: Any, pattern: RefusedPattern) -> list[str]:
    """Ids of the run's sources that fit. Raises `InvalidInput` for a field that they do not have, and a bad pattern."""
    from trailforge.pipelines import dataset_of
    from trailforge.pipelines.sources import compile_pattern, is_match, pattern_fields
    from trailforge.schemas import read_rows

    record = dataset_of(settings).inputs.record
    if pattern.field not in pattern_fields(record):
        raise InvalidInput(
            f"no such field; sources of {settings.dataset} have {', '.join(pattern_fields(record))}",
            field=pattern.field,
        )
    compile_pattern(pattern.pattern)
    rows = read_rows([folder / shard.input for shard in settings.shards], record)
    return [row.id for row in rows if is_match(pattern, row)]


def _print_unfit(folder: Path, dataset: str, merged: Merged) -> None:
    """What keeps `apply` from its work: who said it takes it back, or somebody rejects the row."""
    unfit = list(islice(_unfit(folder, dataset, merged), _MOST_CONFLICTS))
    for ruling, problem in unfit:
        print(f"cannot be applied: {ruling.table}, {ruling.uid} ({', '.join(ruling.who)}): {problem}")
    if unfit:
        uid = quote(unfit[0][0].uid)
        print(f"Take it back: trailforge curate decide {quote(str(folder))} {uid} --withdraw --who NAME")


def _unfit(folder: Path, dataset: str, merged: Merged) -> Iterator[tuple[Ruling, str]]:
    """Rulings on rows that are not there, and fixes that leave no valid row."""
    from trailforge.pipelines import check_row
    from trailforge.pipelines.runs.table_index import TableIndex, tables_of

    there = tables_of(folder)
    for table in sorted({ruling.table for ruling in merged.rulings}):
        rulings = [ruling for ruling in merged.rulings if ruling.table == table]
        index = TableIndex(folder, table) if table in there else None
        column = "id" if table == "inputs" else "uid"
        numbers = index.find_all({ruling.uid for ruling in rulings}, column) if index else {}
        for ruling in rulings:
            if index is None or ruling.uid not in numbers:
                yield ruling, "no such row in this run"
                continue
            try:
                check_row(dataset, index.row(numbers[ruling.uid]) if ruling.action == "fix" else {}, ruling)
            except InvalidInput as error:
                yield ruling, str(error)


def _row(folder: Path, dataset: str, uid: str, wanted: str = "") -> tuple[str, dict[str, Any]]:
    """The first table with such a row, or the one that is wanted, and the row."""
    from trailforge.pipelines import decidable
    from trailforge.pipelines.runs.table_index import TableIndex, tables_of

    there = tables_of(folder)
    for table in (name for name in decidable(dataset) if name in there and wanted in ("", name)):
        index = TableIndex(folder, table)
        number = index.find(uid, "id" if table == "inputs" else "uid")
        if number is not None:
            return table, index.row(number)
    raise InvalidInput(f"no row {uid} in {', '.join(decidable(dataset))}; `trailforge show` lists them", file=folder)


def _decided(folder: Path, settings: Any, uid: str, who: str) -> tuple[str, dict[str, Any]]:
    """Table and row on which somebody decided: what is in the log can be taken back even if its row is not there."""
    from trailforge.curation import latest_decisions, of_run, read_decisions

    said = latest_decisions(of_run(read_decisions(folder), settings.run_id))
    table = next((each.table for each in said if (each.uid, each.who) == (uid, who)), None)
    if table is None:
        raise InvalidInput(f"{who} decided nothing on a row {uid} that could be taken back", file=folder)
    try:
        return _row(folder, settings.dataset, uid, table)
    except InvalidInput:
        return table, {"uid": uid}


def _assignment(text: str) -> tuple[str, str]:
    field, equals, value = text.partition("=")
    if not (field and equals):
        raise typer.BadParameter(f"{text!r}: expected FIELD=VALUE", param_hint="--fix")
    return field, value


def _reasons(stances: Sequence[Any]) -> Any:
    """How often each reason was given, and of pairs of people on a row how many agree on it."""
    from rich.table import Table
    from rich.text import Text

    from trailforge.curation import by_reason

    shown = Table("rejected for", "times", "one or both of two people", "both", "Cohen's kappa")
    for each in by_reason(stances):
        kappa = "–" if each.kappa is None else f"{each.kappa:.2f}"
        shown.add_row(Text(each.reason), f"{each.given:,}", f"{each.pairs:,}", f"{each.same:,}", kappa)
    return shown if shown.row_count else ""


def _progress(folder: Path, merged: Merged) -> Any:
    """Of each table how many rows are decided, and how."""
    from rich.table import Table

    from trailforge.pipelines.runs.table_index import TableIndex

    counts: dict[str, Counter[str]] = {}
    for ruling in merged.rulings:
        counts.setdefault(ruling.table, Counter())[ruling.action] += 1
    shown = Table("table", "rows", "decided", "accepted", "fixed", "rejected")
    for name, count in sorted(counts.items()):
        figures = (len(TableIndex(folder, name)), count.total(), count["accept"], count["fix"], count["reject"])
        shown.add_row(name, *(f"{figure:,}" for figure in figures))
    return shown
