"""The long form: `python -m tests.fuzz [--only NAME …] [--cases 20000] [--seed 0]`, or `--replay FILE …`."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from pathlib import Path

from tests.fuzz.running import Result, run_job, run_target
from tests.fuzz.targets import TARGETS


def main() -> int:
    """Run the targets, two at a time, and print a row for each; 1 when an input fails."""
    asked = _arguments()
    if asked.replay:
        return _replay(asked.replay)
    jobs = [(name, asked.cases, asked.seed) for name in asked.only or TARGETS]
    failing = 0
    print(f"{'parser':<22}{'cases':>8}{'foreign':>9}{'slow':>6}{'slowest ms':>12}{'peak MB':>9}", flush=True)
    # A process for each target: the peak of memory is then its own.
    with multiprocessing.get_context("spawn").Pool(asked.jobs, maxtasksperchild=1) as pool:
        for number, result in enumerate(pool.imap_unordered(run_job, jobs), start=1):
            print(_row(result), f"  {number}/{len(jobs)}", flush=True)
            failing += len(result.failures)
            _keep(result, asked.out)
    if failing:
        print(f"{failing} failing inputs in {asked.out}/; again: python -m tests.fuzz --replay {asked.out}/*.case")
    return int(failing > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(TARGETS), metavar="NAME", help=", ".join(TARGETS))
    parser.add_argument("--cases", type=int, default=20_000, help="random inputs for each, besides the aimed ones")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(".fuzz"), help="where failing inputs are written")
    parser.add_argument("--replay", nargs="+", type=Path, help="run these inputs again and print what goes wrong")
    return parser.parse_args()


def _row(result: Result) -> str:
    return (
        f"{result.target:<22}{result.cases:>8,}{result.foreign:>9}{result.slow:>6}"
        f"{1000 * result.slowest_s:>12,.0f}{result.peak_mb:>9,}"
    )


def _keep(result: Result, folder: Path) -> None:
    for failure in result.failures:
        folder.mkdir(exist_ok=True)
        (folder / f"{failure.name}.case").write_bytes(failure.case)
        (folder / f"{failure.name}.txt").write_text(failure.problem, encoding="utf-8", errors="replace")


def _replay(paths: list[Path]) -> int:
    failing = 0
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            result = run_target(path.name.rpartition("-")[0], [path.read_bytes()], Path(folder))
        problem = result.failures[0].problem if result.failures else f"fine, {1000 * result.slowest_s:.0f} ms"
        print(f"{path}: {problem}", flush=True)
        failing += bool(result.failures)
    return int(failing > 0)


if __name__ == "__main__":
    sys.exit(main())
