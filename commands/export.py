"""`trailforge training-set` and `trailforge export`: make rows for training out of finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from trailforge.commands.options import QuestionColumns

TRAINING_SET_EPILOG = """Examples:\n
    trailforge training-set datasets_out/demo --out sets/demo\n
    trailforge training-set out/musique out/bundles out/kg --out sets/all --tokenizer Qwen/Qwen2.5-7B-Instruct\n
    trailforge training-set out/musique out/kg --out sets/mixed --mix mcts_trajectories=2 --mix kg_trajectories=1\n
    trailforge training-set out/may out/june --out sets/mixed --mix out/may=1 --mix out/june=3      run by run\n
    trailforge training-set out/musique out/kg --out sets/graph --protocol graph_r1     all of it for preset ragsearch\n
    trailforge training-set --questions musique_train.jsonl --protocol react --out sets/rl     RL without a run\n
    trailforge training-set out/musique --out sets/msearcher --segments                 a row of each turn (3.2.1)\n
    trailforge training-set out/musique --out sets/mended --mistakes mask              mends are learnt, errors not\n
    trailforge training-set out/musique --out sets/hard --measured evaluations/first --pass-rate 0.1..0.7 --calls 4..\n
    trailforge training-set out/research --out sets/mixed --writings tags,native:0.3,renamed:0.3 --max-tokens 131072\n
    trailforge training-set out/agents --out sets/searches --keep-wrong 0.2         well searched, wrongly answered\n
    trailforge training-set out/musique --out sets/clean --benchmark hotpot_dev.jsonl --long-rows segments"""
EXPORT_EPILOG = """Examples:\n
    trailforge export sets/demo --to trl --out exports/trl\n
    trailforge export sets/all --to verl --out exports/verl          its README.md has the command that trains on it\n
    trailforge export sets/all --to trl --devices 2 --out exports/two      commands for two devices\n
    trailforge export sets/all --to openai --out exports/openai            plain messages, a line each\n
    trailforge export evaluations/browse --to openai --out exports/browse     right episodes of --agent browse"""


Trainer = Literal["trl", "verl", "openrlhf", "slime", "sharegpt", "openai"]
_Out = Annotated[Path, typer.Option(help="Folder to make; must not exist or be empty.")]


_Runs = Annotated[list[Path] | None, typer.Argument(help="Folders of finished runs, of any data sets.", metavar="RUN…")]
_Questions = Annotated[
    list[Path] | None,
    typer.Option(help="File of questions for RL without a run; asked in --protocol. Repeatable."),
]
_Order = Annotated[Literal["curriculum", "shuffled"], typer.Option(help="Order of rows: easy ones first, or random.")]
_Mix = Annotated[
    list[str] | None,
    typer.Option(
        help="Weight of a data set, or of one run by its folder; surplus rows are dropped. Repeatable.",
        metavar="DATASET=WEIGHT|RUN=WEIGHT",
    ),
]
_Benchmark = Annotated[list[Path] | None, typer.Option(help="File of questions to keep out of training. Repeatable.")]
_LeaveOut = Annotated[
    list[str] | None,
    typer.Option(help="Leave out reflective rows that correct this kind of error. Repeatable.", metavar="retrieval|…"),
]
_Errors = Annotated[
    Literal["all", "sampled"],
    typer.Option(help="sampled: leave out reflective rows whose error was provoked. Rows that do not say stay."),
]
_Tokenizer = Annotated[str | None, typer.Option(help="Tokenizer (path or name) to measure rows. Default: estimates.")]
_LongRows = Annotated[
    Literal["drop", "segments"],
    typer.Option(help="What to do with rows that are too long: drop, or one row per turn."),
]
_Reward = Annotated[
    str | None,
    typer.Option(help="Reward preset that RL questions name, such as abstention (ours). Default: their protocol's."),
]
_KnownShare = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=1.0,
        help="Leave RL questions out of whose answers from memory a larger share is right. 1: take all.",
    ),
]
_Unstated = Annotated[
    Literal["drop", "mark"],
    typer.Option(help="RL questions whose gold answer no text states that was read: leave out, or only mark."),
]
_Protocol = Annotated[
    str | None, typer.Option(help="Protocol for RL questions without options. Default: each data set's own.")
]
_Segments = Annotated[
    bool, typer.Option("--segments", help="Make one row per agent turn, as MSearcher trains (section 3.2.1).")
]
_Mistakes = Annotated[
    Literal["train", "mask"],
    typer.Option(help="Take the loss on claims that are corrected later, or mask them (`train sft` only)."),
]
_Measured = Annotated[
    Path | None,
    typer.Option(help="Folder of an evaluation of these questions: RL rows say how hard its agent found them."),
]
_MeasuredCell = Annotated[
    str,
    typer.Option(help="Whose episodes count, if the evaluation has several.", metavar="AGENT[/BACKEND[/MODEL]]"),
]
_PassRate = Annotated[
    str | None,
    typer.Option(help="Take questions of which that agent got such a share of its attempts right.", metavar="0.1..0.7"),
]
_Calls = Annotated[
    str | None,
    typer.Option(help="Take questions for which a right attempt of it takes so many searches.", metavar="4.."),
]

_KeepWrong = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=0.99,
        metavar="SHARE",
        help="Share of SFT conversations, at most, that searched well and answer wrongly; no loss on the last turn.",
    ),
]


_Writings = Annotated[
    str | None,
    typer.Option(
        help="How research agents' conversations write their calls, by lot: tags (text), native (tool calls), renamed "
        "(native, other names of tools).",
        metavar="tags,native:0.5",
    ),
]


def training_set(
    out: _Out,
    runs: _Runs = None,
    questions: _Questions = None,
    columns: QuestionColumns = None,
    validation: Annotated[float, typer.Option(min=0.0, max=0.99, help="Share of questions held out; 0: none.")] = 0.05,
    order: _Order = "curriculum",
    mix: _Mix = None,
    protocol: _Protocol = None,
    reward: _Reward = None,
    tokenizer: _Tokenizer = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Longest row.")] = 16384,
    long_rows: _LongRows = "drop",
    segments: _Segments = False,
    mistakes: _Mistakes = "train",
    reflective: Annotated[bool, typer.Option(help="Include rows that make a mistake and correct it.")] = True,
    leave_out: _LeaveOut = None,
    errors: _Errors = "all",
    known_share: _KnownShare = 0.375,
    unstated: _Unstated = "drop",
    measured: _Measured = None,
    measured_cell: _MeasuredCell = "",
    pass_rate: _PassRate = None,
    calls: _Calls = None,
    keep_wrong: _KeepWrong = 0.0,
    writings: _Writings = None,
    benchmark: _Benchmark = None,
    ngram: Annotated[int, typer.Option(min=1, help="Words in a row that count as a benchmark match.")] = 8,
    seed: Annotated[int, typer.Option(help="Seed of the split, the mixture and the order.")] = 0,
) -> None:
    """Make a training set from finished runs: SFT, RL and preference rows, split by question, in training order."""
    from trailforge.pipelines.engine import show_parts
    from trailforge.training.sets import ViewConfig, make_training_set

    config = ViewConfig(
        seed=seed,
        validation_share=validation,
        order=order,
        mix=tuple(_share(text) for text in mix or ()),
        protocol=protocol,
        reward=reward,
        tokenizer=tokenizer,
        max_tokens=max_tokens,
        long_rows=long_rows,
        segments=segments,
        mistakes=mistakes,
        with_reflective=reflective,
        leave_out=tuple(leave_out or ()),  # type: ignore[arg-type]
        errors=errors,
        max_known_share=known_share,
        unstated=unstated,
        **_bounds(pass_rate, calls, writings),
        keep_wrong=keep_wrong,
        benchmarks=tuple(map(str, benchmark or ())),
        ngram=ngram,
    )
    made_of = _given(questions, columns, measured, measured_cell)
    with show_parts() as report:
        manifest = make_training_set(runs or (), out, config, **made_of, progress=report)
    _show(manifest, out)


def export(
    folder: Annotated[
        Path,
        typer.Argument(help="Training set (from `training-set`), or evaluation of research agents.", metavar="DIR"),
    ],
    to: Annotated[Trainer, typer.Option(help="Trainer whose format to write; openai: plain messages.")],
    out: _Out,
    base_model: Annotated[
        str | None, typer.Option(help="Model to train, by name or folder: its marks around turns. Default: ChatML.")
    ] = None,
    devices: Annotated[int, typer.Option(min=1, help="Devices of the node that the commands are for.")] = 8,
) -> None:
    """Export a training set in the format of another trainer, with the command that starts the training."""
    from trailforge.pipelines.engine import show_parts
    from trailforge.training.exports import export as write

    with show_parts() as report:
        rows = write(folder, to, out, base_model=base_model, devices=devices, progress=report)
    for name, number in rows.items():
        print(f"{out / name}: {number:,} rows")
    print(f"How to train on it: {out / 'README.md'}")


def register(root: typer.Typer) -> None:
    """Add the commands `training-set` and `export`."""
    root.command("training-set", epilog=TRAINING_SET_EPILOG)(training_set)
    root.command("export", epilog=EXPORT_EPILOG)(export)


def _share(text: str) -> Any:
    from trailforge.training.sets import Share

    part, equals, weight = text.rpartition("=")
    try:
        return Share(part=part.strip(), weight=float(weight))
    except ValueError as error:
        wrong = text if equals else f"{text} (no `=`)"
        raise typer.BadParameter(f"{wrong!r}: expected DATASET=WEIGHT or RUN=WEIGHT", param_hint="--mix") from error


def _bounds(pass_rate: str | None, calls: str | None, writings: str | None) -> dict[str, Any]:
    """How hard questions are to be, and how conversations are written."""
    from trailforge.training.sets import WantedRange, read_writings

    given = {"pass_rate": (pass_rate, "--pass-rate"), "calls": (calls, "--calls")}
    shares = {"writings": read_writings(writings)} if writings else {}
    return shares | {name: WantedRange.read(text, option) for name, (text, option) in given.items() if text}


def _given(questions: list[Path] | None, columns: str | None, measured: Path | None, cell: str) -> dict[str, Any]:
    """What a training set is made of beside runs."""
    from trailforge.pipelines.sources.jsonl import parse_columns
    from trailforge.training.sets import read_measured

    found = read_measured(measured, cell)
    return {"questions": questions or (), "column_map": parse_columns(columns), "measured": found}


def _show(manifest: Any, out: Path) -> None:
    """What the set holds, and why rows are missing."""
    from rich.console import Console
    from rich.table import Table

    table = Table("table", "split", "data set", "rows", "questions", "tokens", "longest")
    for count in manifest.counts:
        figures = (count.rows, count.questions, count.tokens, count.longest)
        table.add_row(count.table, count.split, count.dataset, *(f"{figure:,}" for figure in figures))
    console = Console()
    console.print(table)
    for line in manifest.stages:
        reasons = ", ".join(f"{count.reason} {count.count:,}" for count in line.rejected) or "none rejected"
        console.print(f"{line.name}: {line.inputs:,} rows, {line.accepted:,} accepted; {reasons}", highlight=False)
    for each in manifest.inputs:
        missing = [count.table for count in each.rows or () if not count.rows and count.table != "pairs"]
        if missing:
            console.print(f"{each.run_id} ({each.dataset}) gave no row to {' and '.join(missing)}.", highlight=False)
    if manifest.invisible:
        console.print(f"{manifest.invisible:,} invisible characters were taken out of text of others.", highlight=False)
    measured = "estimated" if manifest.measured_by == "estimate" else f"counted by {manifest.measured_by}"
    aside = f" Rows that were left out: {out}/rejected" if (out / "rejected").is_dir() else ""
    console.print(f"Tokens are {measured}.{aside}", highlight=False)
