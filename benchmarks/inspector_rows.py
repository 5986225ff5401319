"""Measure seconds and memory of a curator's actions on a table of a million rows: open, show a row, sample, list,
search.

Writes a table of made-up trajectories, each with a conversation of a few turns, in the files and row groups that runs
have, once; then measures each act on it in a process of its own, so that the memory is that act's peak. The files
are in the system's cache as far as they fit. With --page the curators' page itself is opened over them in Chromium:
seconds from the request until the view stands, processor seconds and peak memory of the server, and the same for keys
that accept a row, from the press until the next row stands. Seconds are those of this machine with all else that it
does; processor seconds are the server's own.

    make bench B=inspector_rows
    make bench B=inspector_rows ARGS="--page"
    make bench B=inspector_rows ARGS="--rows 25 --files 1 --page --no-acts"
    make bench B=inspector_rows ARGS="--rows 100000 --files 2000 --keep /tmp/rows"
    make bench B=inspector_rows ARGS="--rows 100000 --files 400 --page --no-acts --decisions 20000"
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from trailforge.curation import append, now
from trailforge.pipelines.runs.intake import Settings
from trailforge.pipelines.runs.table_index import TableIndex
from trailforge.schemas import (
    Decision,
    FileEntry,
    Manifest,
    Message,
    Provenance,
    StageCount,
    Step,
    Trajectory,
    TrajectoryReward,
    to_dict,
    write_parquet,
)

_TABLE = "mcts_trajectories"
_WORDS = [f"word{number}" for number in range(5000)]


def main() -> None:
    """Print one table, with a line for each action."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--words", type=int, default=60, help="of each of six messages")
    parser.add_argument("--keep", type=Path, help="folder of the rows, made when it is not there")
    parser.add_argument("--page", action="store_true", help="open the page's views, too")
    parser.add_argument("--decisions", type=int, default=0, help="of two people, in the log before the page is opened")
    parser.add_argument("--no-acts", action="store_true", help="measure the page alone")
    parser.add_argument("--act", choices=_ACTS, help="measure this alone, here")
    options = parser.parse_args()
    if options.act:
        _measure(options.keep, options.act)
        return
    folder = options.keep or Path(tempfile.mkdtemp(prefix="trailforge-rows-"))
    try:
        if not (folder / "manifest.json").exists():
            _write(folder, options.rows, options.files, options.words)
        print("| act | seconds | peak memory, MiB | came to |\n|---|---:|---:|---|", flush=True)
        for act in () if options.no_acts else _ACTS:
            command = [sys.executable, __file__, "--keep", str(folder), "--act", act]
            print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="", flush=True)
        if options.page:
            _decide(folder, options.decisions)
            _open_page(folder)
    finally:
        if options.keep is None:
            shutil.rmtree(folder)


def _row(number: int, words: Callable[[], str]) -> Trajectory:
    """A trajectory of two steps, as long as those of a run."""
    roles = ("system", "user", "assistant", "tool", "assistant", "assistant")
    messages = tuple(Message(role=role, content=words(), train=role == "assistant") for role in roles)
    return Trajectory(
        uid=f"{number:016x}", question_id=f"q{number // 2}", question=words()[:80], answer="A", answer_aliases=(),
        kind="correct", reflection_error=None, origin="policy", plan=("one", "two"), wrong_plan=None,
        steps=tuple(
            Step(index=n, sub_question="one", query="one", passages=(), answer="A", is_mistake=False) for n in range(2)
        ),
        messages=messages, final_answer="A", num_tool_calls=2, num_hops=2, token_estimate=number % 997,
        reward=TrajectoryReward(total=1.0, exact_match=1.0, f1=(number * 7919 % 1000) / 1000, cover_exact_match=1.0),
        step_pair=None, wrong_rollout=None, right_rollout=0, diverges_at=None,
        provenance=Provenance(run_id="r", source_id="s", model="m", prompt_version="p", seed=0, call_keys=()),
    )  # fmt: skip


def _write(folder: Path, rows: int, files: int, words: int) -> None:
    """Texts are drawn from 5,000 made-up ones."""
    rng = random.Random(0)
    (folder / _TABLE).mkdir(parents=True, exist_ok=True)
    texts = [" ".join(rng.choices(_WORDS, k=words)) for _ in range(5000)]
    entries, begun = [], time.monotonic()
    cuts = np.linspace(0, rows, files + 1).astype(int).tolist()
    for first, last in pairwise(cuts):
        path = folder / _TABLE / f"part-{len(entries):05d}-{first:012x}.parquet"
        write_parquet(path, Trajectory, [_row(number, lambda: rng.choice(texts)) for number in range(first, last)])
        entries.append({"path": f"{_TABLE}/{path.name}", "rows": last - first})
    _write_books(folder, entries, rows)
    size = sum(path.stat().st_size for path in (folder / _TABLE).iterdir())
    seconds = time.monotonic() - begun
    print(f"{rows:,} rows in {files:,} files, {size / 2**20:,.0f} MiB, written in {seconds:.0f} s\n", flush=True)


def _write_books(folder: Path, entries: list[dict[str, object]], rows: int) -> None:
    """Settings and manifest of a finished run, without hashes: nothing here verifies it."""
    files = tuple(FileEntry(path=str(each["path"]), rows=int(str(each["rows"])), sha256="") for each in entries)
    books = (StageCount(name="filter", inputs=rows, accepted=rows),)
    settings = Settings(
        dataset=_TABLE, run_id="made-up", config_hash="", config="{}", sources=(), limit=None, shards=(), files=files,
        books=books,
    )  # fmt: skip
    manifest = Manifest(
        run_id="made-up", dataset=_TABLE, schema_versions=(), config_hash="", inputs=(), stages=books, files=files,
        model="none", calls=0, prompt_tokens=0, completion_tokens=0, cut_replies=0, cost=0.0, seconds=0.0,
        calls_per_accepted_row=0.0, cost_per_accepted_row=0.0, trailforge_version="",
    )  # fmt: skip
    (folder / "run.json").write_text(json.dumps(to_dict(settings)))
    (folder / "manifest.json").write_text(json.dumps(to_dict(manifest)))


def _decide(folder: Path, count: int) -> None:
    """Have two people decide on the first rows, one after the other on each."""
    decisions = [
        Decision(
            run_id="made-up", table=_TABLE, uid=f"{number // 2:016x}", who=("ann", "bob")[number % 2], when=now(),
            action="accept" if number % 3 else "reject", reason="" if number % 3 else "too easy",
        )
        for number in range(count)
    ]  # fmt: skip
    if decisions:
        append(folder, decisions)


_AT_REST = '[data-testid="stApp"][data-test-script-state="notRunning"]'
_VIEWS = {
    "": "Funnel",
    "trajectories": "Row 1 of",
    "decide": "rows decided by you",
    "trajectories?mcts_trajectories.search=reward.f1<0.01": "Row 1 of",
}
"""And a text that is there once a view stands."""


def _open_page(folder: Path) -> None:
    """Each view in turn, on one server; prints a line for each."""
    from playwright.sync_api import sync_playwright

    chromium, port = shutil.which("chromium") or shutil.which("chromium-browser"), _free_port()
    command = [sys.executable, "-m", "trailforge", "inspect", str(folder), "--no-open", "--port", str(port)]
    begun = time.monotonic()
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(f"http://127.0.0.1:{port}/_stcore/health")
        print(f"| start the server | {time.monotonic() - begun:.2f} | {_peak(server.pid):,.0f} | |", flush=True)
        with sync_playwright() as started:
            browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            for round_ in ("first", "again"):
                for view, text in _VIEWS.items():
                    begun, worked = time.monotonic(), _worked(server.pid)
                    page.goto(f"http://127.0.0.1:{port}/{view}")
                    page.get_by_text(text).first.wait_for(timeout=300_000)
                    seconds = time.monotonic() - begun
                    page.wait_for_selector(_AT_REST, timeout=300_000)
                    complete = time.monotonic() - begun
                    peak = _peak(server.pid)
                    print(
                        f"| page, {view or 'overview'}, {round_} | {seconds:.2f} | {peak:,.0f} | {complete:.2f} s, "
                        f"{_worked(server.pid) - worked:.2f} processor s |",
                        flush=True,
                    )
            print(f"| all of it, with the start | | | {_worked(server.pid):.2f} processor s |", flush=True)
            _press(page, f"http://127.0.0.1:{port}/decide", server.pid, folder)
            browser.close()
    finally:
        server.terminate()
        server.wait(timeout=30)


_PRESSES = 50


def _press(page: Any, url: str, pid: int, folder: Path) -> None:
    """Accept up to 50 rows by the key, one after the other; prints the median, the slowest, and what the log has."""
    log = folder / "curation" / "decisions.jsonl"
    known = log.read_text().splitlines() if log.exists() else []
    presses = min(_PRESSES, len(TableIndex(folder, _TABLE)) - len(known) - 1)
    page.goto(url)
    row = "document.querySelector('.st-key-decide_row .seat.from')?.dataset.row"
    page.wait_for_function(row, timeout=300_000)
    page.wait_for_selector(_AT_REST, timeout=300_000)
    taken, worked = [], _worked(pid)
    for _ in range(presses):
        shown, begun = page.evaluate(row), time.monotonic()
        page.keyboard.press("a")
        page.wait_for_function(f"shown => {row} && {row} !== shown", arg=shown, timeout=300_000)
        taken.append(time.monotonic() - begun)
        page.wait_for_selector(_AT_REST, timeout=300_000)
    each = (_worked(pid) - worked) / presses
    new = log.read_text().splitlines()[len(known) :]
    rows = len({json.loads(line)["uid"] for line in new})
    print(
        f"| a key, to the next row | {statistics.median(taken):.2f} | {_peak(pid):,.0f} | slowest {max(taken):.2f} s, "
        f"{each:.2f} processor s each; {presses} presses, {len(new)} lines on {rows} rows |",
        flush=True,
    )
    print("| seconds of each key | " + " ".join(f"{each:.2f}" for each in taken) + " | | |", flush=True)


def _worked(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(url: str) -> None:
    for _ in range(600):
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


def _peak(pid: int) -> float:
    """Peak memory of a process in MiB."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


_ACTS: dict[str, Callable[[TableIndex], object]] = {
    "open and count": len,
    "row in the middle": lambda index: index.row(len(index) // 2)["uid"],
    "20 rows by chance, read": lambda index: len([index.row(n) for n in index.shuffled(0)[:20]]),
    "row by its uid, the last": lambda index: index.find(f"{len(index) - 1:016x}"),
    "the 100 lowest by reward.f1": lambda index: len(index.ascending("reward.f1")[:100]),
    "rows of one kind": lambda index: len(index.matching("kind", "correct")),
    "search for a frequent word": lambda index: len(index.search("WORD77 ").rows),
    "search for what is nowhere, 2 s": lambda index: index.search("no such text").searched,
}


def _measure(folder: Path, act: str) -> None:
    """Open the table and do it; prints its line."""
    begun = time.monotonic()
    came_to = _ACTS[act](TableIndex(folder, _TABLE))
    seconds = time.monotonic() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"| {act} | {seconds:.2f} | {peak:,.0f} | {came_to} |")


if __name__ == "__main__":
    main()
