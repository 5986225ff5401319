"""Measure how long a person waits for help, for an error message, for an estimate, and for the first line, row and end
of a run.

Each command runs in a process of its own, in an empty folder, and is timed as a person would: wall and CPU seconds of
it and of all that it waited for, the median of a few. The run is the preset `demo` on one question, once with a new
home of Prefect, as on a new machine, and once with one that is there. `left behind` are the files that a command which
makes no rows leaves in its folder, and what still runs (it is ended; what it took is in no figure). Several commands
take turns, so that all meet the same load.

    make bench B=front_door
    make bench B=front_door ARGS="--rounds 5 --no-run"
    make bench B=front_door ARGS="--command 'old: env PYTHONPATH=../old python ../old/cli.py' --command 'new: …'"
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]
_TABLE = "mcts_trajectories"
_POLL_S = 0.05
_LONGEST_S = 900
_LINE = "first line of the run"
_ROW = "first accepted row"
_PINNED = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "TOKENIZERS_PARALLELISM": "false",
}
"""As the Makefile has it."""
_LEFT_OUT = ("PREFECT_", "TRAILFORGE_", "PYTHONDONTWRITEBYTECODE")
"""Of the caller's environment, by how the names begin: without compiled files every start compiles all again."""


@dataclass(frozen=True)
class Command:
    """A way to start `trailforge`, and its name in the table."""

    label: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """A command line that a person types after `trailforge`, and its name in the table."""

    name: str
    arguments: tuple[str, ...]
    rounds: int
    """How many times; the medians are shown."""
    is_run: bool = False
    """It makes rows, and is watched for its first line and row."""
    is_first: bool = False
    """Prefect has no home yet."""


@dataclass(frozen=True)
class Times:
    """Wall and CPU seconds of a process up to some moment."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Ended:
    """What a process took, and which files and processes it left behind."""

    code: int
    moments: dict[str, Times]
    """The end is the one of the empty name. A moment that did not come is not there."""
    left: tuple[str, ...]
    """Files and processes."""


def main() -> None:
    """Measure all cases with all ways to start the program, and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--command",
        action="append",
        metavar="[LABEL: ]COMMAND",
        help="how trailforge is started; repeatable (default: the checkout of this file)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="of what is short")
    parser.add_argument("--run-rounds", type=int, default=1, help="of a run")
    parser.add_argument("--no-run", action="store_true", help="only what makes no rows")
    parser.add_argument("--samples", type=Path, default=ROOT / "sample_data", help="folder of the sample questions")
    options = parser.parse_args()
    commands = [_command(text) for text in options.command or ()] or [_own()]
    with tempfile.TemporaryDirectory(prefix="trailforge-front-door-") as scratch:
        folder = Path(scratch)
        question = _one_question(options.samples, folder / "question.jsonl")
        cases = _cases(question, options.rounds, 0 if options.no_run else options.run_rounds)
        print(f"Load {os.getloadavg()[0]:.1f} at the beginning, {os.cpu_count()} cores.\n", flush=True)
        for at, command in enumerate(commands):  # compiles files, and makes Prefect's home
            for case in (_warm_up(question), *(case for case in cases if not case.is_run)):
                _run(command, case, folder / f"home-{at}", folder)
        print("| what | command | exit code | wall s | CPU s | left behind |\n|---|---|---:|---:|---:|---|", flush=True)
        for case in cases:
            _measure(case, commands, folder)
        print(f"\nLoad {os.getloadavg()[0]:.1f} at the end.")


def _measure(case: Case, commands: list[Command], folder: Path) -> None:
    """Run a case with all commands in turn; prints the lines of each."""
    ended: dict[Command, list[Ended]] = {command: [] for command in commands}
    for _ in range(case.rounds):
        for at, command in enumerate(commands):
            home = folder / ("home-new" if case.is_first else f"home-{at}")
            ended[command].append(_run(command, case, home, folder))
            shutil.rmtree(folder / "home-new", ignore_errors=True)
    for command in commands:
        print("\n".join(_lines(case, command, ended[command])), flush=True)


def _lines(case: Case, command: Command, rounds: list[Ended]) -> Iterator[str]:
    """The medians of some rounds: a line for each moment, the end last."""
    codes = " ".join(map(str, sorted({each.code for each in rounds})))
    left = ", ".join(sorted({name for each in rounds for name in each.left})) or "nothing"
    for moment in (_LINE, _ROW, "") if case.is_run else ("",):
        found = [each.moments[moment] for each in rounds if moment in each.moments]
        figures = "never | never"
        if found:
            wall, cpu = (statistics.median(f) for f in zip(*((t.wall_s, t.cpu_s) for t in found), strict=True))
            figures = f"{wall:.2f} | {cpu:.2f}"
        what = f"{case.name}: {moment or 'end'}" if case.is_run else case.name
        rest = "| | " if moment else f"| {codes} | "
        yield f"| {what} | {command.label} {rest}{figures} | {'' if moment else left} |"


def _run(command: Command, case: Case, home: Path, folder: Path) -> Ended:
    """One process in an empty folder, watched until its end."""
    stand = Path(tempfile.mkdtemp(dir=folder))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_LEFT_OUT)}
    said, environment = folder / "said.txt", {**inherited, **_PINNED, "PREFECT_HOME": str(home)}
    moments: dict[str, Times] = {}
    before, began = _cpu_of_ended(), time.monotonic()
    with said.open("w") as out:
        process = subprocess.Popen(
            [*command.words, *case.arguments],
            cwd=stand, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            while case.is_run and process.poll() is None and time.monotonic() < began + _LONGEST_S:
                for name in _come(said, stand) - moments.keys():
                    moments[name] = Times(time.monotonic() - began, _cpu_of_tree(process.pid))
                time.sleep(_POLL_S)
            code = process.wait(timeout=_LONGEST_S)
        finally:
            process.kill()
    end = moments[""] = Times(time.monotonic() - began, _cpu_of_ended() - before)
    moments = dict.fromkeys(_come(said, stand), end) | moments  # what came since the last look
    files = sorted(path.relative_to(stand).as_posix() for path in stand.rglob("*") if path.is_file())
    left = (*([] if case.is_run else files), *_end_what_runs(home))
    if case.is_run and code:
        print(said.read_text()[-2000:], file=sys.stderr)
    shutil.rmtree(stand)
    return Ended(code, moments, left)


def _end_what_runs(home: Path) -> Iterator[str]:
    """Kill processes that know a home of Prefect, which nobody else has; says what they are."""
    mark = f"PREFECT_HOME={home}\0".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or is another person's
            if mark in path.read_bytes():
                words = path.with_name("cmdline").read_bytes().decode(errors="replace").split("\0")
                os.kill(int(path.parent.name), signal.SIGKILL)
                yield f"a process ({' '.join(word for word in words[1:3] if word)})"


def _come(said: Path, stand: Path) -> set[str]:
    """Moments of a run that have come."""
    files = stand.glob(f"out/{_TABLE}/[!.]*.parquet")
    reached = {_LINE: b"\n" in said.read_bytes(), _ROW: any(pq.read_metadata(file).num_rows for file in files)}
    return {name for name, has_come in reached.items() if has_come}


def _cpu_of_ended() -> float:
    """CPU seconds of all that this process has waited for, and of what they have waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _cpu_of_tree(root: int) -> float:
    """CPU seconds of a process that runs, and of all that it has started; not a number where there is no `/proc`."""
    parents, seconds, tick = {}, {}, os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid = int(path.parent.name)
        parents[pid], seconds[pid] = int(fields[1]), sum(map(int, fields[11:15])) / tick
    tree = {root} & seconds.keys()
    while grown := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= grown
    return sum(seconds[pid] for pid in tree) if tree else float("nan")


def _cases(question: Path, rounds: int, run_rounds: int) -> list[Case]:
    """In the order in which a newcomer meets them."""
    trajectories = ("mcts-trajectories", "--questions", str(question))
    run = (*trajectories, "--preset", "demo", "--out", "out")
    short = {
        "--help": ("--help",),
        "--version": ("--version",),
        "--help of a command": ("mcts-trajectories", "--help"),
        "wrong path to --questions": ("mcts-trajectories", "--questions", "nowhere.jsonl", *run[3:]),
        "wrong path to --documents": ("document-bundles", "--documents", "nowhere.jsonl", *run[3:]),
        "mistyped preset": (*trajectories, "--preset", "demmo", "--out", "out"),
        "--dry-run": (*trajectories, "--dry-run"),
    }
    return [
        *(Case(name, arguments, rounds) for name, arguments in short.items()),
        Case("run, new Prefect home", run, run_rounds, is_run=True, is_first=True),
        Case("run", run, run_rounds, is_run=True),
    ][: None if run_rounds else len(short)]


def _warm_up(question: Path) -> Case:
    """A run that ends as soon as it would ask the model."""
    caps = ("--max-calls", "0", "--out", "out")
    return Case("", ("mcts-trajectories", "--questions", str(question), "--preset", "demo", *caps), 1)


def _one_question(samples: Path, path: Path) -> Path:
    """The first of the sample questions, in a file of its own."""
    with (samples / "musique_style_questions.jsonl").open(encoding="utf-8") as lines:
        path.write_text(next(lines), encoding="utf-8")
    return path


def _command(text: str) -> Command:
    """`LABEL: COMMAND`, or a command without a label; paths in it are meant from here, not from where it is started."""
    label, colon, rest = text.partition(": ")
    words = shlex.split(rest if colon else text)
    return Command(label if colon else text, tuple(map(_from_here, words)))


def _from_here(word: str) -> str:
    """A word with the path in it, if there is one, as it is from anywhere."""
    name, equals, value = word.rpartition("=")
    return f"{name}{equals}{os.path.abspath(value)}" if os.sep in value and os.path.exists(value) else word


def _own() -> Command:
    """The checkout of this file, whatever is installed."""
    return Command("trailforge", ("env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "trailforge"))


if __name__ == "__main__":
    main()
