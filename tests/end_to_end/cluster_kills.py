"""A cluster of Dask under fire: workers killed, stopped and late, the scheduler killed; rows as if nothing had been.

    python -m tests.end_to_end.cluster_kills [DATA SET …] --kills 10 --seed 0

makes a data set here, undisturbed, then on a cluster of two workers, once for each kill, and prints a row per data set
and kind of fault. `worker`: kill -9 of one, whose place a late one takes. `stopped`: SIGSTOP of one for longer than the
cluster waits for a sign of it, then SIGCONT. `scheduler`: kill -9, upon which the command ends with code 10; with a new
cluster the same command goes on.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from tests.end_to_end.kills import (
    CASES,
    COLUMNS,
    Kill,
    Moment,
    Site,
    Stamps,
    Tally,
    calls_kept,
    changed_files,
    compare,
    draw_moments,
    finished_files,
    receipts_of,
    row_of,
    site_of,
    stage_of,
)
from tests.support import dask_cluster
from tests.support.dask_cluster import DaskCluster
from tests.support.warm import Running
from trailforge.pipelines.dataset import LEDGER
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import ClusterError

Say = Callable[[str], None]
FAULTS = ("worker", "stopped", "scheduler")
SILENCE_S = 3.0
_LOOKED_FOR = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s"}
"""How long a lost scheduler is looked for each time, by Dask's own configuration: else half a minute, three times."""
_LONGEST_S = 300
_POLL_S = 0.02
_COMMIT_S = 1.0


@dataclass(frozen=True)
class Round:
    """A run that is to be disturbed."""

    site: Site
    cluster: DaskCluster
    out: Path
    rng: random.Random

    def disturb(self, fault: str, moment: Moment | None) -> Kill | None:
        """Run to the end, with a fault on the way; None: it had ended before."""
        process = self.site.start(self.out, *self.cluster.options)
        try:
            if not self._come_to(moment, process):
                return None
            time.sleep(self.rng.uniform(0, 2 * self.site.case.latency))
            faults: dict[str, Callable[[Running], Kill | None]]
            faults = {"worker": self._kill_worker, "stopped": self._stop_worker, "scheduler": self._kill_scheduler}
            kill = faults[fault](process)
            if fault == "scheduler" and kill is not None:
                process.end_group()
                process = self.site.start(self.out, *self.cluster.options)
            code = process.wait(_LONGEST_S)
            assert code == 0, f"{code}: {self.site.log(self.out)}\n{self.cluster.log()}"
            return kill
        finally:
            process.end_group()

    def _come_to(self, moment: Moment | None, process: Running) -> bool:
        until = time.monotonic() + _LONGEST_S
        while process.poll() is None:
            now = self.site.moment(self.out)
            if now.calls if moment is None else now.calls >= moment.calls and now.receipts >= moment.receipts:
                return True
            assert time.monotonic() < until, self.site.log(self.out)
            time.sleep(_POLL_S)
        return False

    def _seen(self) -> Kill:
        in_flight = len(self.site.asked()) - calls_kept(self.out)
        return Kill(stage_of(self.out, self.site.case.dataset), True, in_flight, finished_files(self.out))

    def _kill_worker(self, process: Running) -> Kill:
        self.cluster.retire(self.rng.choice(self.cluster.alive()))
        return self._seen()

    def _stop_worker(self, process: Running) -> Kill:
        victim = self._stop_one()
        kill = self._seen()
        assert process.wait(_LONGEST_S) == 0, f"{self.site.log(self.out)}\n{self.cluster.log()}"
        ended, asked = everything(self.out), len(self.site.asked())
        victim.send_signal(signal.SIGCONT)
        time.sleep(2.0)
        late = len(self.site.asked()) - asked  # by leave that came while it stood still, for less long than its lease
        assert not (changed := changed_files(self.out, ended)), f"the worker that woke up wrote {changed}"
        assert not (other := everything(self.out).keys() ^ ended.keys()), f"the worker that woke up changed {other}"
        self.cluster.retire(victim)
        return replace(kill, in_flight=kill.in_flight + late)

    def _stop_one(self) -> Running:
        """Not while it keeps a reply: then SQLite's file is locked for all others, and the run ends after a minute."""
        while True:
            victim = self.rng.choice(self.cluster.alive())
            victim.send_signal(signal.SIGSTOP)
            if not is_locked(self.out / LEDGER):
                return victim
            victim.send_signal(signal.SIGCONT)
            time.sleep(_POLL_S)

    def _kill_scheduler(self, process: Running) -> Kill | None:
        """None: the command needed it no more."""
        assert self.cluster.scheduler is not None
        self.cluster.scheduler.end_group()
        kill, code = self._seen(), process.wait(_LONGEST_S)
        assert code in (0, ClusterError.exit_code), f"{code}: {self.site.log(self.out)}"
        self.cluster.renew()
        return kill if code else None


def is_locked(ledger: Path) -> bool:
    """Whether a process keeps others from writing, and for longer than a commit takes."""
    if not ledger.exists():
        return False
    with closing(sqlite3.connect(ledger, timeout=_COMMIT_S, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE").execute("ROLLBACK")
        except sqlite3.OperationalError:
            return True
    return False


def everything(out: Path) -> Stamps:
    """All files of rows and receipts, finished or not."""
    files = [
        path for path in out.glob("*/*") if path.suffix in (".parquet", ".json") and path.parent.name != "progress"
    ]
    return {path.relative_to(out).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


@dataclass(frozen=True)
class Undisturbed:
    """A run here."""

    passed: list[Moment]
    calls: int


def kill_on_cluster(
    site: Site, undisturbed: Undisturbed, cluster: DaskCluster, fault: str, *, kills: int, seed: int, say: Say
) -> Tally:
    """Make a data set on a cluster, disturbed so often, and compare it with the one that was made here."""
    whole, tally = site.folder / "whole", Tally(f"{site.case.command}, {fault}")
    tally.calls, tally.shards = undisturbed.calls, len(receipts_of(whole))
    rng = random.Random(f"{tally.command} {seed}")
    for number, moment in enumerate(draw_moments(rng, undisturbed.passed, kills)):
        out = site.folder / f"{fault}-{number}"
        site.forget()
        kill = Round(site, cluster, out, rng).disturb(fault, moment)
        site.settle()
        compare(site, whole, out, [kill] if kill else [], tally)
        tally.problems += [f"{out.name}: {problem}" for problem in verify_run(out).problems]
        doing = f"in {kill.stage or 'finishing'}, {kill.in_flight} calls in flight" if kill else "too late"
        say(f"{tally.command} {out.name}: {doing}; found so far: {'; '.join(tally.found()) or 'nothing'}")
    return tally


def main() -> int:
    """The long form; 1 when anything was found."""
    parser = argparse.ArgumentParser(description="Faults of a cluster at random moments.")
    parser.add_argument("dataset", nargs="*", choices=[*CASES, []], help="default: all")
    parser.add_argument("--kills", type=int, default=10, help="of each data set and kind of fault")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    began, tallies = time.monotonic(), []
    os.environ.update(_LOOKED_FOR)

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {text}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="trailforge-cluster-") as name,
        dask_cluster.running(Path(name) / "dask") as here,
    ):
        for command in options.dataset or CASES:
            case = CASES[command]
            preset = case.preset.replace("schedule: {", f"schedule: {{worker_silence_s: {SILENCE_S}, ")
            with site_of(replace(case, preset=preset), Path(name) / command, {}) as site:
                undisturbed = Undisturbed(site.finish(site.folder / "whole"), len(site.asked()))
                for fault in options.fault or FAULTS:
                    given = {"kills": options.kills, "seed": options.seed, "say": say}
                    tallies.append(kill_on_cluster(site, undisturbed, here, fault, **given))
    print(f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}", *map(row_of, tallies), sep="\n")
    wrong = [f"{tally.command}: {problem}" for tally in tallies for problem in tally.found()]
    print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
