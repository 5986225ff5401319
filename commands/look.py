"""Commands that show what was made, in the terminal or on the curators' page. They change nothing."""

from __future__ import annotations

import dataclasses
import getpass
import json
import threading
import webbrowser
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trailforge.commands.options import RunFolder
from trailforge.schemas import InvalidInput, visible

if TYPE_CHECKING:
    from trailforge.evaluation.results import Comparison
    from trailforge.training import ScoredRow


COMPARE_EPILOG = """Examples:\n
    trailforge compare evaluations/sft evaluations/rl               each agent over each back end that both have\n
    trailforge compare "evaluations/musique#agent=react,backend=dense" "evaluations/musique#agent=react,backend=bm25"\n
    trailforge compare A B --json"""
INSPECT_EPILOG = """Examples:\n
    trailforge inspect datasets_out/demo\n
    trailforge inspect datasets_out/demo --port 8600 --who ann --no-open\n
    trailforge inspect datasets_out                       all runs in it, and two of them side by side

    trailforge inspect datasets_out/demo --export pages    to hand on: open pages/index.html

    trailforge inspect datasets_out/demo --guide curation.yaml

    trailforge inspect evaluations/musique --beside evaluations/musique-trained\n
    TRAILFORGE_INSPECT_PASSWORD=… trailforge inspect datasets_out/demo --host 0.0.0.0"""
VERIFY_EPILOG = """Examples:\n
    trailforge verify datasets_out/demo"""
SHOW_EPILOG = """Examples:\n
    trailforge show datasets_out/demo\n
    trailforge show datasets_out/demo --kind decomposition --count 3\n
    trailforge show datasets_out/demo --id UID\n
    trailforge show datasets_out/demo --id 2hop__sample_01 --tree\n
    trailforge show datasets_out/demo --id 2hop__sample_01 --tree --graphml tree.graphml\n
    trailforge show datasets_out/bundles --kind factual\n
    trailforge show datasets_out/bundles --bundles --count 20 --lowest least_cosine\n
    trailforge show datasets_out/bundles --table rejected --kind closed_book\n
    trailforge show datasets_out/demo --search 'reward<0.9 hops>=3 "river" -bridge' --count 5\n
    trailforge show evaluations/musique                        its table\n
    trailforge show evaluations/musique --kind misread         an episode"""
STATUS_EPILOG = """Examples:\n
    trailforge status datasets_out/musique\n
    trailforge status datasets_out/musique --watch\n
    trailforge status datasets_out/musique --json\n
    trailforge status datasets_out/nightly                      every window in it"""
REWARDS_EPILOG = """Examples:\n
    trailforge rewards out/kg/kg_trajectories/part-00000.parquet --preset dynasearcher\n
    trailforge rewards episodes.jsonl --preset msearcher --protocol react --json\n
    trailforge rewards episodes.jsonl --preset my_training.yaml"""
_PAGES = Path(__file__).parent.parent / "inspector"


def show(
    folder: RunFolder,
    id: Annotated[str | None, typer.Option(help="Id of a row, or of its question or bundle.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="Trajectories: correct, retrieval …; bundle questions: factual, causal …; KG episodes: policy, "
            "oracle; graph questions: chain, intersection …; evaluations and RL: a failure tag, right, wrong"
        ),
    ] = None,
    table: Annotated[str, typer.Option(help="Table to show. Default: the run's main table.")] = "",
    tree: Annotated[bool, typer.Option("--tree", help="Same as --table trees.")] = False,
    bundles: Annotated[bool, typer.Option("--bundles", help="Same as --table bundles.")] = False,
    search: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help='Rows of a run with all of it: words, "an exact phrase", field:value, reward<0.5, hops>=3; '
            "- before what must not be",
        ),
    ] = "",
    lowest: Annotated[
        str,
        typer.Option(
            metavar="NUMBER",
            help="Rows with the lowest value first: a column, as complexity, a part of one, as reward.total, or of "
            "bundles least_cosine, shared_names",
        ),
    ] = "",
    count: Annotated[int, typer.Option(min=1, help="How many rows.")] = 1,
    graphml: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the row's plan or tree there, as GraphML.")
    ] = None,
) -> None:
    """Show rows of any table of a run, rejected ones too, or the episodes of an evaluation or of RL."""
    from trailforge.evaluation import is_evaluation
    from trailforge.inspector import is_training, show_evaluation, show_rows, show_training

    if graphml is not None and (is_evaluation(folder) or is_training(folder) or count > 1):
        raise InvalidInput(
            "writes the plan or the tree of one row of a run; give a run and --id of a row", field="--graphml"
        )
    if search and (is_evaluation(folder) or is_training(folder)):
        raise InvalidInput("searches rows of a run; of episodes take --id or --kind", field="--search")
    if is_evaluation(folder):
        show_evaluation(folder, id=id, kind=kind, count=count)
        return
    if is_training(folder):
        show_training(folder, id=id, kind=kind, count=count)
        return
    short = "trees" if tree else "bundles" if bundles else ""
    shown = show_rows(folder, table=table or short, id=id, kind=kind, search=search, lowest=lowest, count=count)
    if graphml is not None:
        from trailforge.graphs import save_graphml, to_networkx

        save_graphml(to_networkx(shown[0]), graphml)
        print(graphml)


def inspect(
    folder: RunFolder,
    host: Annotated[str, typer.Option(help="Address to listen on. Without a password, loopback only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8501,
    who: Annotated[
        str | None,
        typer.Option(help="Name recorded with decisions. Default: yours; on a shared page, each visitor is asked."),
    ] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy authenticates people, so the page asks for no password.")
    ] = False,
    beside: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of a second evaluation to compare with.")
    ] = None,
    guide: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Reasons, guidelines and annotators. Default: curation.yaml in or beside the run."
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the pages of a run there, to hand on, and open no server."),
    ] = None,
    most: Annotated[int, typer.Option("--rows", min=1, help="With --export: most rows of each table.")] = 500,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
) -> None:
    """Open a run in the browser, finished or not, and decide on its rows; or a folder of runs, an evaluation or an RL
    training."""
    from trailforge.evaluation import is_evaluation
    from trailforge.inspector import check_port, check_reach, is_root, is_shared, is_training, serve, wanted_by
    from trailforge.pipelines.runs import no_run, read_settings

    for given in (folder, *([beside] if beside else [])):
        if is_evaluation(given):
            continue
        if beside:
            raise InvalidInput("holds no evaluation; --beside compares two of them", file=given)
        if not is_training(given) and not is_root(given) and read_settings(given) is None:
            raise no_run(given) if given.is_dir() else InvalidInput("no such folder", file=given)
    is_run = not (is_evaluation(folder) or is_training(folder))
    if is_run:
        _check_guide(folder, guide)
    elif guide:
        raise InvalidInput("guides decisions on rows of a run, and this folder is none; leave it out", file=guide)
    if export:
        return _export(folder, export, most)
    check_reach(host, is_behind_proxy=behind_proxy)
    check_port(host, port)
    if open_:
        _open_soon(host, port)
    if who is None:
        who = "" if is_shared(host, is_behind_proxy=behind_proxy) else getpass.getuser()
    if is_run:
        script, arguments = "page.py", [str(folder.resolve()), who, *([str(guide.resolve())] if guide else [])]
    else:
        script, arguments = "evaluation_page.py", [str(each.resolve()) for each in (folder, beside) if each]
    modules = [f"trailforge.inspector.{script.removesuffix('.py')}", *wanted_by(folder)]
    then = partial(_read_first_view, modules[0], folder.resolve()) if is_run else None
    serve(_PAGES / script, arguments, host=host, port=port, is_behind_proxy=behind_proxy, modules=modules, then=then)


def _read_first_view(page: str, folder: Path) -> None:
    import_module(page).read_first_view(folder)


def _open_soon(host: str, port: int) -> None:
    """Open the page in the person's browser once its server listens."""
    address = f"[{host}]" if ":" in host else host
    threading.Timer(2.0, webbrowser.open, (f"http://{address}:{port}",)).start()


def _check_guide(folder: Path, guide: Path | None) -> None:
    """Before the page opens, in one line of the terminal."""
    from trailforge.curation import find_guide, read_guide
    from trailforge.inspector import is_root
    from trailforge.pipelines import decidable
    from trailforge.pipelines.runs import open_run

    if is_root(folder):
        if guide:
            find_guide(folder, guide)  # what it says is read for the run that is opened
        return
    read_guide(find_guide(folder, guide), decidable(open_run(folder).dataset))


def _export(folder: Path, out: Path, most: int) -> None:
    """Pages to hand on, with the progress on standard error."""
    from rich.console import Console
    from rich.progress import Progress

    from trailforge.inspector import export_pages
    from trailforge.pipelines.runs import open_run

    run = open_run(folder)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("pages", total=None)
        total = 0
        for done, total in export_pages(run, out, most):
            progress.update(task, completed=done, total=total)
    print(f"{total:,} pages; open {out / 'index.html'} in a browser")


def verify(folder: RunFolder) -> None:
    """Check a finished run: schemas, counts and hashes; recompute every filter and reward from the rows."""
    from trailforge.pipelines.runs import verify_run

    report = verify_run(folder)
    for problem in report.problems:
        print(f"differs: {problem}")
    state = "all as the manifest says" if report.is_clean else "NOT as they should be"
    print(f"{report.files} files, {report.rows} rows: {state}")
    if not report.is_clean:
        raise typer.Exit(8)


def status(
    folder: RunFolder,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until no process works on it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Show the state of a run, or of each window of a nightly root: progress, cost, and what to do next."""
    from trailforge.flows.nights import describe_windows, follow_windows, read_windows
    from trailforge.pipelines.runs import describe_status, follow, read_status

    if operate := read_windows(folder):
        rounds = follow_windows(folder) if watch else iter([operate])
        _print_rounds(rounds, as_json, describe_windows)
        return
    each = follow(folder) if watch else iter([read_status(folder)])
    _print_rounds(([now] for now in each), as_json, lambda runs: describe_status(runs[0]))


def _print_rounds(rounds: Iterable[Sequence[Any]], as_json: bool, lines_of: Callable[[Any], Sequence[str]]) -> None:
    """Print what stands in each round: as JSON a line for each, else as text in the place of the round before.

    `lines_of`: the text of a round.
    """
    from trailforge.inspector import show_live

    if as_json:
        for now in rounds:
            for each in now:
                print(json.dumps(dataclasses.asdict(each)), flush=True)
    else:
        show_live("\n".join(lines_of(now)) for now in rounds)


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
    protocol: Annotated[str | None, typer.Option(help="Protocol of lines that name none.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Rows to show; the means are over all rows.")] = 20,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every row as one line of JSON instead of a table.")
    ] = False,
) -> None:
    """Show the reward of each episode of a file, part by part."""
    from trailforge.training import score_episodes, scorer_of

    scorer = scorer_of(preset)
    assert scorer.preset is not None
    rows = score_episodes(file, scorer.preset, protocol=protocol, judge=scorer.judge)
    if not as_json:
        _show_scores(list(rows), limit)
        return
    for row in rows:
        parts = {"total": row.reward.total, **row.reward.parts}
        print(json.dumps({"row": row.row, "uid": row.uid, **parts, "recorded": row.recorded}, ensure_ascii=False))


def compare(
    first: Annotated[str, typer.Argument(help="Folder of an evaluation, or some of its cells.", metavar="A")],
    second: Annotated[str, typer.Argument(help="The evaluation to compare with, on the same questions.", metavar="B")],
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Compare two evaluations question by question: paired bootstrap, and McNemar's test of right and wrong."""
    from trailforge.evaluation.results import compare_episodes, pair_cells, read_cells

    left, right = read_cells(first), read_cells(second)
    pairs = [(one, other, compare_episodes(left[one], right[other])) for one, other in pair_cells(left, right)]
    if as_json:
        rows = [{"first": one, "second": other, **dataclasses.asdict(made)} for one, other, made in pairs]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    for one, other, comparison in pairs:
        _show_comparison(" ".join(one), " ".join(other), comparison)


def _show_comparison(first: str, second: str, comparison: Comparison) -> None:
    from rich.console import Console
    from rich.table import Table

    print(visible(f"A: {first}"), visible(f"B: {second}"), sep="\n")
    table = Table(box=None)
    for name in ("measure", "A", "B", "B - A", "95%", "questions"):
        table.add_column(name, justify="left" if name == "measure" else "right", no_wrap=True)
    for name, each in comparison.differences.items():
        interval = f"{each.low:+.3f} to {each.high:+.3f}"
        means = f"{each.first:.3f}", f"{each.second:.3f}", f"{each.difference:+.3f}"
        table.add_row(name.replace("_", " "), *means, interval, f"{each.questions:,}")
    console = Console()
    console.print(table)
    tested = comparison.right
    print(
        f"right: both {tested.both:,}, A alone {tested.only_first:,}, B alone {tested.only_second:,}, neither "
        f"{tested.neither:,}; McNemar's exact p {tested.exact:.3g}"
    )
    for name, missing in (("A", comparison.only_in_second), ("B", comparison.only_in_first)):
        if missing:
            print(f"not in {name}, and not compared: {len(missing):,} questions")


def register(root: typer.Typer) -> None:
    """Add the commands that show what was made."""
    root.command(epilog=COMPARE_EPILOG)(compare)
    root.command("verify", epilog=VERIFY_EPILOG)(verify)
    root.command("show", epilog=SHOW_EPILOG)(show)
    root.command("status", epilog=STATUS_EPILOG)(status)
    root.command("rewards", epilog=REWARDS_EPILOG)(rewards)
    root.command("inspect", epilog=INSPECT_EPILOG)(inspect)


def _show_scores(rows: Sequence[ScoredRow], limit: int) -> None:
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
