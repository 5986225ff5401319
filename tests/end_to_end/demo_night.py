"""Two nights with the packaged model, of which the first is killed: `make demo-night`.

The documents are samples, dated to the days before the two nights, of which the second finishes the first one's window.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

NIGHTS = {"2026-11-20": [4, 7], "2026-11-21": [11]}
"""Days, each with the numbers of the groups of four sample documents that were published the day before."""
SAMPLES = Path("sample_data/documents.jsonl")
WAIT_S = 600.0


def main() -> int:
    """Make both nights, and show how they stand after each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("datasets_out/demo-night"))
    out: Path = parser.parse_args().out
    if out.exists():
        print(f"{out} is there: remove it, or name another folder with --out", file=sys.stderr)
        return 2
    began = time.monotonic()
    write_documents(out)
    first, second = NIGHTS
    killed = start(out, first)
    wait_until_bundled(killed, out / "nights" / first)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    print(f"\n# killed after {time.monotonic() - began:.0f} s, while it made trajectories", flush=True)
    show(out)
    code = start(out, second).wait()
    print(f"\n# both nights after {time.monotonic() - began:.0f} s", flush=True)
    show(out)
    return code


def write_documents(out: Path) -> None:
    """Write a file of documents for each night, dated to the day before it."""
    out.mkdir(parents=True)
    samples = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]
    for night, groups in NIGHTS.items():
        day = f"{night[:-2]}{int(night[-2:]) - 1:02}"
        rows = [sample | {"published": day} for group in groups for sample in samples[4 * group : 4 * group + 4]]
        (out / f"news-{night}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def start(out: Path, day: str) -> subprocess.Popen[bytes]:
    """Start a night."""
    words = ["nightly", "--documents", f"{out}/news-*.jsonl", "--out", f"{out}/nights", "--makes", "demo", "--day", day]
    print(f"\n$ trailforge {shlex.join(words)}", flush=True)
    return subprocess.Popen([sys.executable, "-m", "trailforge", *words], start_new_session=True)


def wait_until_bundled(night: subprocess.Popen[bytes], window: Path) -> None:
    """Wait until its first data set is finished and its second one is begun."""
    end = time.monotonic() + WAIT_S
    while not (window / "bundles/manifest.json").exists() or not (window / "mcts/run.json").exists():
        if night.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"the first night ended before it could be killed (code {night.poll()})")
        time.sleep(0.1)


def show(out: Path) -> None:
    """Show how the windows stand, and where the logs are."""
    print(f"\n$ trailforge status {out}/nights", flush=True)
    subprocess.run([sys.executable, "-m", "trailforge", "status", str(out / "nights")], check=False)
    print("\n# logs: " + ", ".join(sorted(str(path) for path in out.glob("nights/*/*/progress/log.jsonl"))), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
