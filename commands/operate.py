"""Commands for operating runs: check requirements, serve a model, make windows, back them up, push to the Hub."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from trailforge.commands.options import Cluster, LogFormat, Model, ModelName, RunFolder
from trailforge.schemas import InvalidInput, NotReady, visible

SERVE_EPILOG = """Examples:\n
    trailforge serve-model --preset msearcher\n
    trailforge serve-model --preset my.yaml --port 8001 --log vllm.log\n
    trailforge serve-model --preset msearcher --print-command   (to start it elsewhere)"""
DOCTOR_EPILOG = """Examples:\n
    trailforge doctor\n
    trailforge doctor --preset demo --out datasets_out/demo\n
    trailforge doctor --preset dynasearcher --kg kgs/wikidata5m --documents indexes/e5\n
    trailforge doctor --model http://127.0.0.1:8000/v1 --call\n
    trailforge doctor --makes nightly --kg kgs/wikidata5m --fetch        before the first night\n
    trailforge doctor --fetch                      download the embedded model's weights, and encoders"""
NIGHTLY_EPILOG = """Examples:\n
    trailforge nightly --documents 'fetched/*.jsonl' --out datasets_out/nightly --kg kgs/wikidata5m --model http://127.0.0.1:8000/v1\n
    trailforge nightly … --day 2026-11-20       the window of that day, begun and killed, or missed\n
    trailforge nightly … --window-days 7 --bands nightly --keep-windows 30\n
    trailforge nightly … --verdicts 'datasets_out/nightly/*/*'   applies decisions made on earlier windows"""
RETAIN_EPILOG = """Examples:\n
    trailforge retain datasets_out/nightly --keep 30 --dry-run\n
    trailforge retain datasets_out/nightly --keep 30 --curated /data/curated"""
CHECK_EPILOG = """Examples:\n
    trailforge check-bands datasets_out/nightly/2026-11-20/mcts\n
    trailforge check-bands datasets_out/demo --bands my-bands.yaml"""
BACKUP_EPILOG = """Examples:\n
    trailforge backup datasets_out/nightly --out /backup/nightly-2026-11-20\n
    trailforge backup datasets_out/nightly --prefect ~/.prefect/prefect.db --out /backup/nightly-2026-11-20\n
    A ledger in PostgreSQL is backed up by pg_dump (docs/deploy.md)."""
RESTORE_EPILOG = """Examples:\n
    trailforge restore /backup/nightly-2026-11-20 --out datasets_out/nightly\n
    trailforge restore /backup/nightly-2026-11-20 --out datasets_out/nightly --prefect ~/.prefect/prefect.db\n
    Then the same commands as before go on, and pay for no answered call twice."""
PUSH_EPILOG = """Examples:\n
    trailforge push datasets_out/demo --repo ann/search-trails --dry-run      what would be sent; needs no token\n
    trailforge push datasets_out/demo --repo ann/search-trails --private\n
    trailforge push datasets_out/demo-curated --repo ann/search-trails --revision curated\n
    The token comes from HF_TOKEN, another server's address from HF_ENDPOINT."""
_CAPPED = "of each data set of each window"
Curated = Annotated[
    list[Path] | None,
    typer.Option(help="Folder of curated data sets outside the root; decisions applied there count. Repeatable."),
]


def _check_documents(names: list[str]) -> list[str]:
    """Before anything heavy is loaded. A window of no file would be left behind, and stay unfinished for ever."""
    from trailforge.flows import check_named

    check_named(names)
    return names


_Decisions = Annotated[
    list[str] | None,
    typer.Option(
        help="Leave out what people rejected: a curated run's folder, its log, or a pattern of these. Repeatable."
    ),
]
_Benchmark = Annotated[list[Path] | None, typer.Option(help="File of questions to keep out of the data. Repeatable.")]
_Prefect = Annotated[Path | None, typer.Option(help="File of Prefect's SQLite database, as ~/.prefect/prefect.db.")]
_Kg = Annotated[Path | None, typer.Option(help="Folder of a graph. Without one, data sets that need it are skipped.")]
_Replan = Annotated[
    list[str] | None,
    typer.Option(help="Entry of the window with paid calls and no row, to go by other parameters. Repeatable."),
]
_Documents = Annotated[
    list[str],
    typer.Option(callback=_check_documents, help="File of documents, or a glob pattern. Repeatable."),
]


def serve_model(
    preset: Annotated[str, typer.Option(help="Preset with a section 'server', or a YAML file.")] = "msearcher",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port. Default: the preset's.")] = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Any but loopback opens it to the network.")
    ] = None,
    log: Annotated[Path | None, typer.Option(help="File for vLLM's output. Default: a new temporary file.")] = None,
    print_command: Annotated[bool, typer.Option("--print-command", help="Print the command and exit.")] = False,
) -> None:
    """Run the preset's model in vLLM, in the foreground, until Ctrl-C or until it does not answer any more (code 4)."""
    from dataclasses import replace

    from trailforge.flows import datasets_for
    from trailforge.inference.vllm import VllmServer, serve
    from trailforge.pipelines import load_dataset, resolve
    from trailforge.pipelines.runs import server_config
    from trailforge.presets import load_preset

    dataset = datasets_for(preset)[0]
    content = load_preset(preset, dataset)
    config, name = server_config(content, source=f"preset {preset}", record=resolve(load_dataset(dataset).config))
    config = replace(config, port=port or config.port, host=host or config.host)
    if print_command:
        print(VllmServer(config, name).command_line)
    else:
        serve(config, name, log, partial(print, flush=True))


def doctor(
    preset: Annotated[str, typer.Option(help="Preset of the run: a name or a YAML file.")] = "msearcher",
    makes: Annotated[
        str | None,
        typer.Option(help="In place of a preset: nightly, or a YAML file that lists data sets, for all that it lists."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="URL of the model server. Default: the preset's.")] = None,
    model_name: Annotated[str | None, typer.Option(help="Model as the server calls it. Default: the preset's.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run; it need not exist.")] = Path("datasets_out"),
    kg: Annotated[Path | None, typer.Option(help="Knowledge graph of the run. Default: the preset's.")] = None,
    documents: Annotated[Path | None, typer.Option(help="Index or file that the run will search.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Encoder of the run. Default: the preset's.")] = None,
    call: Annotated[
        bool, typer.Option("--call", help="Send the model one small request; it costs a few tokens.")
    ] = False,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="First download what is missing: the embedded model (100 MB), encoders.")
    ] = False,
) -> None:
    """Check what a run needs, for each data set of the preset: keys, model, encoder, index, graph, disk …"""
    from trailforge.flows import examine

    if makes is not None:
        if documents is not None or encoder is not None:
            raise InvalidInput("presets of a night say what they search; leave it out", field="--documents, --encoder")
        from trailforge.flows.nights import examine_night, night_plan

        plan = night_plan(makes, kg, model_name)
        findings = examine_night(plan, model, out, call=call, fetch=fetch)
    else:
        given = {"kg": kg, "documents": documents, "encoder": encoder}
        findings = examine(preset, model, model_name, out, call=call, fetch=fetch, **given)
    faults = 0
    for found in findings:
        faults += found.level == "fault"
        print(f"{found.level:<8} {found.check:<15} {found.detail}", flush=True)
        if found.mend:
            print(f"{'':<8} {'':<15} mend: {found.mend}", flush=True)
    if faults:
        raise typer.Exit(NotReady.exit_code)


_Makes = Annotated[str, typer.Option(help="nightly, or a YAML file that lists data sets with their presets.")]
_Bands = Annotated[
    str | None, typer.Option(help="nightly, or a YAML file. Figures outside their bands end with code 12.")
]


def nightly_command(
    documents: _Documents,
    out: Annotated[Path, typer.Option(help="Root folder; each window gets a folder DAY in it.")],
    day: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Day of the window. Default: today, in UTC.")
    ] = None,
    window_days: Annotated[int, typer.Option(min=1, help="Number of days before it whose documents are used.")] = 1,
    makes: _Makes = "nightly",
    kg: _Kg = None,
    model: Model = None,
    model_name: ModelName = None,
    most_documents: Annotated[int | None, typer.Option(min=1, help="Only the first N documents.")] = None,
    most_questions: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.")] = None,
    distractors: Annotated[int, typer.Option(min=0, help="Paragraphs added to each question's own.")] = 16,
    benchmark: _Benchmark = None,
    verdicts: _Decisions = None,
    bands: _Bands = None,
    max_cost: Annotated[float | None, typer.Option(min=0, help=f"Hard cap on the cost {_CAPPED}.")] = None,
    max_calls: Annotated[int | None, typer.Option(min=0, help=f"Hard cap on the model calls {_CAPPED}.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=0, help=f"Hard cap on the tokens {_CAPPED}.")] = None,
    keep_windows: Annotated[
        int | None, typer.Option(min=1, help="Afterwards, remove all windows but the newest N.")
    ] = None,
    curated: Curated = None,
    seed: Annotated[int, typer.Option(help="Seed of sampling and wording.")] = 0,
    replan: _Replan = None,
    cluster: Cluster = None,
    log_format: LogFormat = "text",
) -> None:
    """Make the data sets of one window of days, after finishing those of earlier windows."""
    from trailforge.flows.nightly import nightly
    from trailforge.inference import Caps
    from trailforge.pipelines.engine import choose_format

    choose_format(log_format)

    due = day.date() if day else datetime.now(UTC).date()
    with _shown(out, due):
        nightly(
            documents=documents,
            out=out,
            day=due if day else None,
            window_days=window_days,
            makes=makes,
            kg=kg,
            model=model,
            model_name=model_name,
            most_documents=most_documents,
            most_questions=most_questions,
            distractors=distractors,
            benchmarks=benchmark,
            verdicts=verdicts,
            bands=bands,
            caps=Caps(max_cost=max_cost, max_calls=max_calls, max_tokens=max_tokens),
            keep_windows=keep_windows,
            curated=curated,
            seed=seed,
            replan=replan,
            cluster=cluster or "",
        )


@contextlib.contextmanager
def _shown(root: Path, day: date) -> Iterator[None]:
    """At the end, and before an error, say how the window stands, and all that it lacks."""
    from trailforge.flows.nights import describe_windows, read_windows

    try:
        yield
    except NotReady as error:
        print("\n".join(f"fault    {visible(line)}" for line in error.faults))
        raise
    finally:
        print("\n".join(describe_windows([each for each in read_windows(root) if each.day == day.isoformat()])))


def retain_command(
    root: Annotated[Path, typer.Argument(help="Root of the windows.", metavar="ROOT")],
    keep: Annotated[int, typer.Option(min=1, help="Number of newest complete windows to keep.")],
    curated: Curated = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
) -> None:
    """Remove old complete windows, except those in use or with decisions not yet applied."""
    from trailforge.flows.nights import decide_retention, retain

    decided = decide_retention(root, keep, curated=curated or [])
    if not decided:
        print(f"{root}: nothing to remove, with the {keep} newest complete windows kept")
    for fate in decided if dry_run else retain(root, decided):
        gone = "would go" if dry_run else "removed"
        print(f"{fate.folder}: {f'stays: {fate.kept_for}' if fate.kept_for else gone}")


def check_bands_command(
    folder: RunFolder,
    bands: Annotated[str, typer.Option(help="nightly, or a YAML file.")] = "nightly",
) -> None:
    """Check yield and cost of a finished run against their bands; exit code 12 when one is outside."""
    from trailforge.flows.nights import outside, read_bands
    from trailforge.pipelines.runs import read_manifest
    from trailforge.presets import declared_datasets, load_bands
    from trailforge.schemas import OutOfBand

    held = read_bands(load_bands(bands), source=bands, datasets=tuple(declared_datasets()))
    manifest = read_manifest(folder)
    if manifest is None:
        raise InvalidInput(
            "holds no finished run; give the --out of a command that makes data and has ended", file=folder
        )
    if breaches := outside(manifest, held):
        raise OutOfBand("; ".join(breach.line for breach in breaches))
    print(f"{manifest.run_id}: {len(held.get(manifest.dataset, {}))} figures, all within their bands")


def push(
    folder: RunFolder,
    repo: Annotated[str, typer.Option(help="Data set on the Hub; created if missing.", metavar="OWNER/NAME")],
    private: Annotated[
        bool, typer.Option("--private", help="Create the data set as private; refuse a public one.")
    ] = False,
    revision: Annotated[
        str | None, typer.Option(help="Branch; created if missing. Default: main.", metavar="BRANCH")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only verify the run and list what would be sent.")
    ] = False,
) -> None:
    """Verify a finished run and push its tables, card and manifest to the Hub in one commit."""
    from trailforge.pipelines.runs import list_push
    from trailforge.pipelines.runs import push as push_run

    tell = partial(print, flush=True)
    if dry_run:
        for line in list_push(folder, repo, tell=tell):
            print(line)
        return
    made = push_run(folder, repo, private=private, revision=revision, tell=tell)
    if not made.sent and not made.removed:
        print(f"{repo} has all of it already: nothing was sent. {made.url}")
    else:
        print(f"{made.sent} files sent, {made.removed} removed: {made.url}")


def backup_command(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, or root of windows; it may be at work.")],
    out: Annotated[Path, typer.Option(help="Folder of the backup; new, or empty.")],
    prefect: _Prefect = None,
) -> None:
    """Copy runs with ledger, decisions, plans and rows, and Prefect's database, while they work."""
    from trailforge.flows import back_up
    from trailforge.pipelines.engine import count_shown

    made = back_up(folder, out, prefect=prefect, shown=count_shown)
    print(f"{out}: {len(made.files):,} files; trailforge restore {out} --out … brings them back")


def restore_command(
    folder: Annotated[Path, typer.Argument(help="Folder of a backup.", metavar="BACKUP")],
    out: Annotated[Path, typer.Option(help="Folder to restore into; new, or empty.")],
    prefect: _Prefect = None,
) -> None:
    """Restore a backup into a new folder, checking the hash of each file."""
    from trailforge.flows import restore
    from trailforge.pipelines.engine import count_shown

    found = restore(folder, out, prefect=prefect, shown=count_shown)
    print(f"{out}: {len(found.files):,} files of {found.of}, backed up {found.made_at}; the same commands go on")


def register(root: typer.Typer) -> None:
    """Add the commands for operating runs."""
    root.command("serve-model", epilog=SERVE_EPILOG)(serve_model)
    root.command("doctor", epilog=DOCTOR_EPILOG)(doctor)
    root.command("nightly", epilog=NIGHTLY_EPILOG)(nightly_command)
    root.command("retain", epilog=RETAIN_EPILOG)(retain_command)
    root.command("backup", epilog=BACKUP_EPILOG)(backup_command)
    root.command("restore", epilog=RESTORE_EPILOG)(restore_command)
    root.command("check-bands", epilog=CHECK_EPILOG)(check_bands_command)
    root.command("push", epilog=PUSH_EPILOG)(push)
