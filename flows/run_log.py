"""Write the log of a run: what happened in it, when, and what it cost.

Each event is a record of the logger `trailforge.run`, with a sentence for people and fields for programs, and a line
of JSON in the run's folder. Later starts of the run continue in the same file, which is never removed.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trailforge.inference import Usage
from trailforge.pipelines.engine import Shard, is_json, json_line
from trailforge.pipelines.engine.progress import FOLDER, read_progress
from trailforge.pipelines.engine.shards import load_receipt, receipt_path
from trailforge.pipelines.runs.accounting import add_up
from trailforge.schemas import Count, Manifest, StageCount, TrailforgeError, parse_json

LOG = f"{FOLDER}/log.jsonl"
LOGGER = logging.getLogger("trailforge.run")
_TROUBLES = {"calls_tried_again": "retries", "prompts_refused": "refused_prompts"}
"""What a stage's end says of its servers in this start of the run, each with its counter in progress/."""
LOGGER.addHandler(logging.NullHandler())  # where nobody listens, errors are told once, by the command


@dataclass(frozen=True, slots=True)
class RunLog:
    """The log of one run. A log that cannot be written, as on a full disk, does not stop the run."""

    folder: Path
    run_id: str

    @contextlib.contextmanager
    def run(self, dataset: str, preset: str) -> Iterator[None]:
        """Log the block as a start of the run; an error in it is logged and raised on."""
        self._tell("run_began", f"{dataset} begins or goes on in {self.folder}", dataset=dataset, preset=preset)
        try:
            yield
        except Exception as error:
            code = error.exit_code if isinstance(error, TrailforgeError) else 1
            self._tell("run_failed", f"failed: {error}", logging.ERROR, **_fault(error), exit_code=code)
            raise

    @contextlib.contextmanager
    def stage(self, name: str, shards: Sequence[Shard]) -> Iterator[None]:
        """Log the `with` block as one attempt at a stage. Its counts and calls are those of all its shards, whichever
        attempt finished them.
        """
        began = time.monotonic()
        try:
            yield
        except Exception as error:
            self._tell("stage_failed", f"{name} failed: {error}", logging.WARNING, stage=name, **_fault(error))
            raise
        receipts = [load_receipt(receipt_path(self.folder, shard)) for shard in shards]
        books, usage = add_up(each.stages for each in receipts), sum((each.usage for each in receipts), start=Usage())
        counters = read_progress(self.folder)
        troubles = {name: counters[counter] for name, counter in _TROUBLES.items()}
        said = f"{name} ended: {_describe(books)}; {_describe_cost(usage)}"
        said += "".join(f", {count:,} {what.replace('_', ' ')}" for what, count in troubles.items() if count)
        self._tell("stage_ended", said, stage=name, **_figures(books, usage, time.monotonic() - began), **troubles)

    def end(self, manifest: Manifest, seconds: float) -> None:
        """Log that the run is finished, with the figures of its manifest; `seconds` is how long this start of it
        took.
        """
        said = f"finished: {_describe(manifest.stages)}; {_describe_cost(manifest)}"
        self._tell("run_ended", said, **_figures(manifest.stages, manifest, seconds))

    def stop(self) -> None:
        """Log that a signal ends the process."""
        self._tell("run_stopped", "stopped by a signal", logging.WARNING)

    def _tell(self, event: str, said: str, level: int = logging.INFO, **fields: Any) -> None:
        line = json_line(event, said, level, run=self.run_id, **fields)
        if is_json():
            print(line, file=sys.stderr, flush=True)
        with contextlib.suppress(OSError):
            (self.folder / LOG).parent.mkdir(parents=True, exist_ok=True)
            with (self.folder / LOG).open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
        LOGGER.log(level, said, extra={"fields": {"event": event, "run": self.run_id, **fields}})


def read_last_error(run: Path) -> tuple[str, str] | None:
    """Return time (UTC) and message of the last failure in a run; None where there is none, or the run has finished
    since.
    """
    try:
        lines = (run / LOG).read_bytes().splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            event = parse_json(line)
            if event["event"] == "run_ended":
                return None
            if event["event"] in ("run_failed", "stage_failed"):
                return str(event["time"])[:19].replace("T", " "), str(event["message"])
    return None


def _fault(error: Exception) -> dict[str, str]:
    reason = error.reason if isinstance(error, TrailforgeError) else type(error).__name__
    return {"reason": reason, "error": str(error)}


def _figures(books: Sequence[StageCount], used: Usage | Manifest, seconds: float) -> dict[str, Any]:
    return {
        "books": [
            {
                "name": line.name,
                "inputs": line.inputs,
                "accepted": line.accepted,
                "rejected": _by_reason(line.rejected),
                "failed": _by_reason(line.failed),
            }
            for line in books
        ],
        "calls": used.calls,
        "prompt_tokens": used.prompt_tokens,
        "completion_tokens": used.completion_tokens,
        "cost": used.cost,
        "seconds": round(seconds, 1),
    }


def _by_reason(counts: Sequence[Count]) -> dict[str, int]:
    return {each.reason: each.count for each in counts}


def _describe(books: Sequence[StageCount]) -> str:
    parts = []
    for line in books:
        lost = ", ".join(f"{each.reason} {each.count:,}" for each in (*line.rejected, *line.failed))
        parts.append(f"{line.name} {line.accepted:,} of {line.inputs:,}{f' ({lost})' if lost else ''}")
    return ", ".join(parts)


def _describe_cost(used: Usage | Manifest) -> str:
    tokens = used.prompt_tokens + used.completion_tokens
    return f"{used.calls:,} calls, {tokens:,} tokens{f', cost {used.cost:,.2f}' if used.cost else ''}"
