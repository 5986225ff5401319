"""Kill -9 of real runs at random moments, then the same command: what is finished stays, nothing is lost or paid twice.

    python -m tests.end_to_end.kills [DATA SET …] --kills 20 --per-run 5 --seed 0

makes a data set undisturbed, then again in runs that are killed a few times each and go on by the same command, and
prints a row per data set. The command runs in a process group of its own, with Prefect, Beam and a scripted model
behind HTTP. A moment is a state that the undisturbed run passed through (calls asked, shards finished), and a short
while; every fifth kill hits a process that has done nothing yet. `tests/end_to_end/test_killed.py` is the short form.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from tests.end_to_end.support import prefect_server
from tests.pipelines.kg_support import questions_file, searched_graph
from tests.support.bundle_rows import sample_documents
from tests.support.bundle_world import write_benchmark, write_documents
from tests.support.files import digests
from tests.support.kg_agent import paths_store
from tests.support.model_server import running
from tests.support.warm import Running
from tests.support.world import write_questions
from trailforge.generators.agent_trajectories import DATASET as AGENTS
from trailforge.generators.document_bundles import DATASET as BUNDLES
from trailforge.generators.kg_questions import DATASET as KG_QUESTIONS
from trailforge.generators.kg_trajectories import DATASET as KG
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.pipelines.dataset import LEDGER, DataSet
from trailforge.pipelines.engine.shards import RECEIPTS, receipt_path
from trailforge.pipelines.runs.finish import read_manifest
from trailforge.pipelines.runs.intake import INPUTS, read_settings
from trailforge.pipelines.runs.stages import planned_stages
from trailforge.pipelines.runs.status import read_status
from trailforge.pipelines.runs.verify import verify_run

Stamps = dict[str, tuple[int, int]]
"""Inode and time of change (ns) of files, by path below the run's folder."""
_POLL_S = 0.02
_LONGEST_S = 300
_IDLE_S = 3.0
"""A kill of a process that has not worked yet comes so soon after its start at the latest."""


@dataclass(frozen=True)
class Case:
    """A data set, what it is made of, and the model that makes it."""

    dataset: DataSet
    write: Callable[[Path, int], dict[str, Path]]
    """Writes input of a size into a folder; gives the command's options."""
    size: int
    """Questions; of bundles, documents; of questions over a graph, how many are asked for (`{size}` in the preset)."""
    in_flight: int
    latency: float
    preset: str
    model: Mapping[str, object] = field(default_factory=dict)
    """Options of `tests.support.model_server`."""

    @property
    def command(self) -> str:
        """As one types it."""
        return self.dataset.name.replace("_", "-")


def _write_questions(folder: Path, size: int) -> dict[str, Path]:
    write_questions(folder / "questions.jsonl", size)
    return {"--questions": folder / "questions.jsonl"}


def _write_bundles(folder: Path, size: int) -> dict[str, Path]:
    """Fewer documents than fifty, so that their map needs no UMAP, which takes seconds to compile."""
    documents = sample_documents()
    write_documents(folder / "documents.jsonl", [*documents[: size - 4], *documents[16:20]])
    return {"--documents": folder / "documents.jsonl", "--benchmark": write_benchmark(folder / "benchmark.jsonl")}


def _write_kg(folder: Path, size: int) -> dict[str, Path]:
    questions = questions_file(folder / "questions.jsonl", count=size, broken_row=None)
    return {"--questions": questions, "--kg": searched_graph(folder / "graph", size)}


def _write_kg_questions(folder: Path, _: int) -> dict[str, Path]:
    return {"--kg": paths_store(folder / "graph").folder}


CASES = {
    case.command: case
    for case in (
        Case(MCTS, _write_questions, 24, 16, 0.15, model={"error_rate": 0.3}, preset="""
retrieval: {kind: bm25}
schedule: {questions_in_flight: 8, tail_questions: 6}
output: {shard_size: 2}
"""),
        Case(BUNDLES, _write_bundles, 16, 4, 0.25, model={"bundles": 1}, preset="""
content: {min_words: 20, min_characters: 100}
bundles: {method: greedy, min_cosine: 0.25}
tools: {kind: bm25}
episodes: {plan: sampled, samples: 3}
schedule: {questions_in_flight: 2}
output: {documents_per_shard: 3, bundles_per_shard: 1, questions_per_shard: 2}
"""),
        Case(KG, _write_kg, 16, 4, 0.1, model={"kg": 1}, preset="""
generator: {episodes: 3, top_k: 2}
retrieval: {kind: bm25}
schedule: {questions_in_flight: 3}
output: {shard_size: 2}
"""),
        Case(KG_QUESTIONS, _write_kg_questions, 24, 4, 0.15, model={"kg": 1}, preset="""
count: {size}
paths:
  {max_degree: 9, max_fan_out: 4, min_functionality: 0.0, min_triples: 1, max_guess: 1.0, max_per_found: 99,
    max_shared: 1.0, many_tails: [], closed_lists: &all [likes, helps, follows, fears], closed_heads: *all,
    one_head: *all, symmetric: [], max_attempts: 40}
schedule: {questions_in_flight: 3}
output: {shard_size: 3}
"""),
        Case(AGENTS, _write_questions, 16, 8, 0.1, model={"agents": 1}, preset="""
generator: {agent: search_r1, draws: 3, top_k: 2}
retrieval: {kind: bm25, scope: question}
schedule: {questions_in_flight: 3}
output: {shard_size: 2}
"""),
    )
}  # fmt: skip


class Moment(NamedTuple):
    """How far a run is."""

    calls: int
    """Different ones that the model server has received."""
    receipts: int


@dataclass(frozen=True)
class Kill:
    """What a kill hit."""

    stage: str
    """The first that is not finished; empty: none."""
    has_worked: bool
    """The process had asked a call or finished a shard."""
    in_flight: int
    """Calls asked that are not in the ledger, and so are lost."""
    finished: Stamps
    """Receipts, and the files that they name."""

    @property
    def is_between(self) -> bool:
        """Some shards were finished, and some under way."""
        return self.has_worked and bool(self.stage) and bool(self.finished)


@dataclass
class Tally:
    """What became of the killed runs of a data set."""

    command: str
    kills: list[Kill] = field(default_factory=list)
    shards: int = 0
    """Of one run."""
    kept: int = 0
    """Files of finished shards that were held against what a kill found."""
    changed: set[str] = field(default_factory=set)
    """Files that were finished at a kill, and were written again or are gone."""
    calls: int = 0
    """Of one run."""
    repaid: int = 0
    lost: int = 0
    doubled: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def between(self) -> int:
        """Kills with some shards finished and some under way."""
        return sum(kill.is_between for kill in self.kills)

    @property
    def in_flight(self) -> int:
        """Calls lost in all kills."""
        return sum(kill.in_flight for kill in self.kills)

    def found(self) -> list[str]:
        """All that is wrong."""
        again = sorted(self.changed)
        wrong = {
            f"{len(again)} files of finished shards were made again, as {again[:3]}": again,
            f"{self.repaid} calls were paid twice, and {self.in_flight} were in flight": self.repaid > self.in_flight,
            f"{self.lost} rows were lost": self.lost,
            f"{self.doubled} rows were doubled": self.doubled,
        }
        return [*(text for text, is_so in wrong.items() if is_so), *self.problems]


@dataclass(frozen=True)
class Site:
    """A folder with input and preset, a model server that notes every call, a Prefect server."""

    case: Case
    folder: Path
    url: str
    options: dict[str, Path]
    environment: dict[str, str]

    def start(self, out: Path, *more: str) -> Running:
        """The command in a process group of its own."""
        options = {**self.options, "--preset": self.folder / "preset.yaml", "--model": self.url, "--out": out}
        arguments = [*(str(part) for option in options.items() for part in option), *more]
        log = self.folder / f"{out.name}.log"
        return Running([self.case.command, *arguments], {**os.environ, **self.environment}, log, log)

    def log(self, out: Path) -> str:
        """The end of what the command said."""
        return (self.folder / f"{out.name}.log").read_text()[-3000:]

    def finish(self, out: Path) -> list[Moment]:
        """Run to the end; the states that it passed through."""
        process, passed = self.start(out), []
        until = time.monotonic() + _LONGEST_S
        try:
            while process.poll() is None and time.monotonic() < until:
                passed.append(self.moment(out))
                time.sleep(_POLL_S)
        finally:
            process.end_group()
        assert process.returncode == 0, self.log(out)
        return passed

    def asked(self) -> list[str]:
        """Keys of all calls that the server received, in order."""
        return self._noted("in ")

    def forget(self) -> None:
        """Begin a new log of calls."""
        os.truncate(self.folder / "calls.log", 0)

    def settle(self) -> None:
        """Wait until the server is done with what the dead have asked."""
        until = time.monotonic() + 10
        while len(self.asked()) != len(self._noted("out ")):
            assert time.monotonic() < until, "the model server does not come to an end"
            time.sleep(_POLL_S)

    def moment(self, out: Path) -> Moment:
        """How far the run is."""
        return Moment(len(set(self.asked())), len(receipts_of(out)))

    def kill(self, out: Path, moment: Moment | None, delay: float) -> Kill | None:
        """Go on with a run, and kill its group some time after it has come to a moment, and has worked. Without a
        moment: after the delay, whatever it does. None: it ended before that.
        """
        before, asked, kept = self.moment(out), len(self.asked()), calls_kept(out)
        process = self.start(out)
        until = time.monotonic() + _LONGEST_S
        try:
            while moment is not None and not _has_come(self.moment(out), moment, before):
                if process.poll() is not None:
                    break
                assert time.monotonic() < until, self.log(out)
                time.sleep(_POLL_S)
            time.sleep(delay)
        finally:
            process.end_group()
        assert process.returncode in (0, -signal.SIGKILL), self.log(out)
        self.settle()
        if process.returncode == 0 or read_manifest(out) is not None:
            return None
        assert not out.exists() or read_status(out).state in ("stopped", "empty"), read_status(out)
        in_flight = len(self.asked()) - asked - (calls_kept(out) - kept)
        has_worked = len(self.asked()) > asked or self.moment(out) > before
        return Kill(stage_of(out, self.case.dataset), has_worked, in_flight, finished_files(out))

    def _noted(self, what: str) -> list[str]:
        lines = (self.folder / "calls.log").read_text().splitlines()
        return [line.split()[1] for line in lines if line.startswith(what)]


@contextmanager
def site_of(case: Case, folder: Path, environment: dict[str, str]) -> Iterator[Site]:
    """Input, preset and model server of a data set. `environment` names the Prefect server."""
    folder.mkdir()
    options, preset = case.write(folder, case.size), case.preset.replace("{size}", str(case.size))
    (folder / "preset.yaml").write_text(f"model: {{name: scripted, max_in_flight: {case.in_flight}}}\n{preset}")
    pace = {"latency": case.latency, "spread": 0.5, "slots": case.in_flight}
    with running(**pace, **case.model, log=folder / "calls.log") as url:
        yield Site(case, folder, url, options, environment)


def kill_runs(site: Site, *, kills: int, per_run: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Tally:
    """Make a data set undisturbed, then in killed runs until there were so many kills, and compare."""
    whole, tally = site.folder / "whole", Tally(site.case.command)
    passed = site.finish(whole)
    say(f"{tally.command}: undisturbed, {passed[-1].calls} calls, {passed[-1].receipts} shards")
    tally.calls, tally.shards = len(site.asked()), len(receipts_of(whole))
    if len(set(site.asked())) != tally.calls:
        tally.problems.append("a call was made twice without any kill")
    tally.problems += [f"whole: {problem}" for problem in verify_run(whole).problems]
    number = 0
    while len(tally.kills) < kills:
        rng, out = random.Random(f"{tally.command} {seed} {number}"), site.folder / f"killed-{number}"
        site.forget()
        moments = draw_moments(rng, passed, min(per_run, kills - len(tally.kills)))
        hits = [hit for moment in moments if (hit := _hit(site, out, moment, rng, say)) is not None]
        site.finish(out)
        compare(site, whole, out, hits, tally)
        say(f"{tally.command} {out.name}: ended; found so far: {'; '.join(tally.found()) or 'nothing'}")
        number += 1
    return tally


def draw_moments(rng: random.Random, passed: Sequence[Moment], kills: int) -> list[Moment | None]:
    """One of each of so many equal parts of the states between the first and the last receipt but one (what comes later
    may have ended before the kill); None, every fifth time: a process that has done nothing yet.
    """
    between = [moment for moment in dict.fromkeys(passed) if 0 < moment.receipts < passed[-1].receipts - 1]
    idle = kills // 5
    edges = [round(part * len(between) / (kills - idle)) for part in range(kills - idle + 1)]
    moments: list[Moment | None] = [rng.choice(between[a:b]) for a, b in itertools.pairwise(edges)]
    for _ in range(idle):
        moments.insert(rng.randrange(len(moments) + 1), None)
    return moments


def receipts_of(out: Path) -> list[Path]:
    """Of finished shards."""
    return sorted((out / RECEIPTS).glob("*.json"))


def finished_files(out: Path) -> Stamps:
    """Receipts of a run and all files that they name."""
    found: Stamps = {}
    for path in receipts_of(out):
        named = [entry["path"] for entry in json.loads(path.read_text())["files"]]
        for name in (path.relative_to(out).as_posix(), *named):
            state = (out / name).stat()
            found[name] = (state.st_ino, state.st_mtime_ns)
    return found


def changed_files(out: Path, earlier: Stamps) -> set[str]:
    """Those that were written again since, or are gone."""
    return {
        name
        for name, stamp in earlier.items()
        if not (out / name).exists() or ((state := (out / name).stat()).st_ino, state.st_mtime_ns) != stamp
    }


def stage_of(out: Path, dataset: DataSet) -> str:
    """The first stage of a run that is not finished; empty when all are."""
    settings = read_settings(out)
    if settings is None:
        return "take in"
    for stage in planned_stages(dataset, out, settings):
        if stage.shards is None or any(not receipt_path(out, shard).exists() for shard in stage.shards):
            return stage.name
    return ""


def calls_kept(out: Path) -> int:
    """In the ledger of a killed run: in a copy of it, since who opens one mends what the kill left."""
    if not (out / LEDGER).exists():
        return 0
    with tempfile.TemporaryDirectory() as name:
        copied = shutil.copytree((out / LEDGER).parent, Path(name) / "ledger") / Path(LEDGER).name
        with closing(sqlite3.connect(copied)) as ledger:
            return ledger.execute("SELECT count(*) FROM calls").fetchone()[0]


def _has_come(now: Moment, moment: Moment, before: Moment) -> bool:
    return now.calls >= moment.calls and now.receipts >= moment.receipts and now != before


def _hit(site: Site, out: Path, moment: Moment | None, rng: random.Random, say: Callable[[str], None]) -> Kill | None:
    """One kill, and what is to be said of it."""
    kill = site.kill(out, moment, rng.uniform(0, 2 * site.case.latency if moment else _IDLE_S))
    what = "it had ended before it was to be killed"
    if kill is not None:
        doing = f"in {kill.stage or 'finishing'}" if kill.has_worked else "before it did anything"
        what = f"killed {doing}, {len(receipts_of(out))} shards finished, {kill.in_flight} calls in flight"
    say(f"{site.case.command} {out.name}: after {len(set(site.asked()))} calls {what}")
    return kill


def compare(site: Site, whole: Path, out: Path, kills: Sequence[Kill], tally: Tally) -> None:
    """Hold a run that was killed and has ended against the undisturbed one."""
    tally.kills += kills
    for kill in kills:
        tally.kept += len(kill.finished)
        tally.changed |= {f"{out.name}/{name}" for name in changed_files(out, kill.finished)}
    asked = site.asked()
    tally.repaid += len(asked) - len(set(asked))
    # What is sent, and what was answered and is on its way to the disk: its slot has gone to the next call.
    most = 2 * site.case.in_flight
    problems = [f"{kill.in_flight} calls in flight at a time" for kill in kills if kill.in_flight > most]
    if len(set(asked)) != tally.calls:
        problems.append(f"{len(set(asked))} different calls instead of {tally.calls}")
    for name in (INPUTS, *site.case.dataset.tables):
        expected, found = rows_of(whole, name), rows_of(out, name)
        lost, more = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
        tally.lost += lost.total()
        tally.doubled += more.total()
        if expected != found:
            problems.append(f"{name}/ holds other rows, or in another order")
    problems += [f"{name} has other bytes" for name in differing(whole, out, site.case.dataset)]
    problems += [f"left behind: {path}" for path in out.rglob("*.tmp*")] + verify_run(out).problems
    manifests = [manifest for manifest in (read_manifest(out), read_manifest(whole)) if manifest is not None]
    if len({(m.run_id, m.stages, m.files, m.calls, m.cost) for m in manifests}) != 1:
        problems.append("the manifest says something else")
    tally.problems += [f"{out.name}: {problem}" for problem in problems]


def rows_of(out: Path, name: str) -> list[str]:
    """All rows of a table, in the order of its files, as text."""
    tables = (pq.read_table(path) for path in sorted((out / name).glob("*.parquet")))
    return [json.dumps(row, sort_keys=True, default=str) for table in tables for row in table.to_pylist()]


def differing(whole: Path, out: Path, dataset: DataSet) -> list[str]:
    """Tables, pictures, receipts and files of questions that are not the same bytes in both runs."""
    kinds = [f"{name}/*.parquet" for name in (INPUTS, *dataset.tables)]
    kinds += ["plots/*.png", f"{RECEIPTS}/*.json", "*.jsonl"]
    one, other = ({**digests(f, (path for kind in kinds for path in f.glob(kind)))} for f in (whole, out))
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


COLUMNS = (
    *("data set", "kills", "killed in", "some shards finished, some under way", "shards of a run"),
    *("files finished at kills", "of these made again", "calls of a run", "in flight at kills", "paid again"),
    *("rows lost", "rows doubled", "other problems"),
)


def row_of(tally: Tally) -> str:
    """A data set's line of the table."""
    stages = Counter(kill.stage or "finish" for kill in tally.kills)
    figures = (
        len(tally.kills), ", ".join(f"{name} {count}" for name, count in stages.items()), tally.between, tally.shards,
        tally.kept, len(tally.changed), tally.calls, tally.in_flight, tally.repaid, tally.lost, tally.doubled,
        len(tally.problems),
    )  # fmt: skip
    return f"| {tally.command} | {' | '.join(map(str, figures))} |"


def main() -> int:
    """The long form; 1 when anything was found."""
    parser = argparse.ArgumentParser(prog="make kills ARGS=…", description="Kill -9 at random moments, then go on.")
    parser.add_argument("dataset", nargs="*", choices=[*CASES, []], help="default: all")
    parser.add_argument("--kills", type=int, default=20, help="of each data set")
    parser.add_argument("--per-run", type=int, default=5, help="kills of a run before it may end")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    began, tallies = time.monotonic(), []

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {text}", flush=True)

    with tempfile.TemporaryDirectory(prefix="trailforge-kills-") as name:
        folder = Path(name)
        with prefect_server(folder / "prefect.log", home=folder / "prefect") as environment:
            for command in options.dataset or CASES:
                with site_of(CASES[command], folder / command, environment) as site:
                    tallies.append(
                        kill_runs(site, kills=options.kills, per_run=options.per_run, seed=options.seed, say=say)
                    )
    print(f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}", *map(row_of, tallies), sep="\n")
    wrong = [f"{tally.command}: {problem}" for tally in tallies for problem in tally.found()]
    wrong += [f"{t.command}: only {t.between} of {len(t.kills)} kills with some shards finished and some under way"
              for t in tallies if t.between < 0.75 * len(t.kills)]  # fmt: skip
    print(*wrong, sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
