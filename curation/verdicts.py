"""Read from the logs of `trailforge curate` which sources people refused, so that the next run does not use them again.

Kinds of sources that people refuse stand in a log of their own: `curation/patterns.jsonl`, one `PatternDecision` a
line. Each person's latest decision on a field and pattern counts; a pattern is refused as long as one person refuses
it. `pipelines.sources.refused`, which searches for patterns, checks whether a text is a regular expression.
"""

from __future__ import annotations

import glob
import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from trailforge.curation.decisions import (
    append_records,
    check_decision,
    check_filled,
    line_of,
    merge,
    read_decisions,
    read_records,
)
from trailforge.curation.sources import by_source, with_source_hashes
from trailforge.pipelines import INPUTS
from trailforge.pipelines.curated import source_column
from trailforge.pipelines.engine import output_errors, sha256_of, write_atomically
from trailforge.pipelines.sources import ANY, Refusals, refused_sources
from trailforge.schemas import (
    DECISIONS_LOG,
    PATTERNS_LOG,
    Decision,
    FileEntry,
    InvalidInput,
    PatternDecision,
    RefusedPattern,
    Ruling,
)

_LOGS = tuple(Path(log) for log in (DECISIONS_LOG, PATTERNS_LOG))
_NAMES = tuple(log.name for log in _LOGS)
COPIES = "verdicts"
"""Name of the folder of copied logs, which patterns of `copy_logs` leave out."""


def refusals(verdicts: Sequence[Path]) -> Refusals:
    """Read all refusals in these logs, or in the logs of these runs' folders; each log counts once.

    Raises `InvalidInput` for a file that is no log, a folder without one, a pattern that is no regular expression, and
    a decision whose source is unknown. A source's content is stated in the decision, or else read from the run that
    holds the log.
    """
    decisions: list[Decision] = []
    patterns: list[PatternDecision] = []
    entries: list[FileEntry] = []
    for path in dict.fromkeys(log for each in verdicts for log in _logs_in(each)):
        digest = sha256_of(path)  # before it is read: what is appended meanwhile shows as another hash
        if path.name == _NAMES[0]:
            decisions += (words := _read_told(path))
        else:
            patterns += (words := read_patterns(path))
        entries.append(FileEntry(path=str(path), rows=len(words), sha256=digest))
    alike = by_source(decisions)
    rulings = {said: merge(words).rulings for said, words in alike.items()}
    return Refusals(
        sources=refused_sources(rulings),
        patterns=refused_patterns(patterns),
        logs=tuple(entries),
        by_id_alone=sum(_refuses(ruling) for ruling in rulings.get(ANY, ())),
    )


def copy_logs(verdicts: Iterable[str], folder: Path) -> tuple[FileEntry, ...]:
    """Copy the decision logs that file names, folders or glob patterns stand for into `folder`, replacing what is
    there.

    Each decision in a copy states its source's content, since a copy lies in no run. Returns an entry a copy: the
    original's path, the copy's hash and number of decisions. A name must have a log; a pattern may match none, and
    skips copies made for other windows. Raises `InvalidInput` for a log that cannot be read.
    """
    logs = list(dict.fromkeys(log for each in verdicts for log in _logs_called(each)))
    refusals(logs)
    with output_errors(folder):
        if folder.exists():
            shutil.rmtree(folder)
    for at, log in enumerate(logs):
        write_atomically(folder / f"{at:06}" / log.name, partial(_copy_log, log))
    origins = dict(zip(map(str, copies(folder)), map(str, logs), strict=True))
    return tuple(replace(entry, path=origins[entry.path]) for entry in refusals(copies(folder)).logs)


def copies(folder: Path) -> list[Path]:
    """List the logs that were copied into a folder, in order."""
    return sorted(folder.glob("*/*.jsonl"))


def awaits_curation(log: Path) -> bool:
    """Tell whether a log has decisions that `trailforge curate apply` can apply; True for a log that cannot be read."""
    try:
        return any(ruling.table != "rejected" for ruling in merge(read_decisions(log)).rulings)
    except InvalidInput:
        return True


def _read_told(log: Path) -> list[Decision]:
    """The words of a log, each with the hash of its source where the log or the run around it tells it."""
    return with_source_hashes(log.parent.parent, read_decisions(log, _check_decision))


def _copy_log(log: Path, target: Path) -> None:
    """Byte by byte, but for words that do not say what their source says, and whose run does."""
    words = read_decisions(log, _check_decision) if log.name == _NAMES[0] else []
    told = with_source_hashes(log.parent.parent, words)
    if told == words:
        shutil.copyfile(log, target)
    else:
        target.write_bytes(b"".join(map(line_of, told)))


def _refuses(ruling: Ruling) -> bool:
    """Whether a ruling rejects a source, or what was made of one."""
    return ruling.action == "reject" and (ruling.table == INPUTS or bool(ruling.source_id))


def _check_decision(decision: Decision) -> Decision:
    """A decision on a table of which it is known what it refuses. Raises `InvalidInput` for others."""
    source_column(decision.table)
    return check_decision(decision)


def _logs_called(name: str) -> list[Path]:
    if not glob.has_magic(name):
        return _logs_in(Path(name))
    found = [Path(path) for path in sorted(glob.glob(name, recursive=True))]
    logs = [log for path in found for log in (path, *(path / log for log in _LOGS))]
    return [log for log in logs if log.name in _NAMES and log.is_file() and log.parent.parent.name != COPIES]


def _logs_in(path: Path) -> list[Path]:
    if path.is_dir():
        found = [path / log for log in _LOGS if (path / log).is_file()]
        if not found:
            raise InvalidInput(f"nobody decided anything on this run (no {' or '.join(map(str, _LOGS))})", file=path)
        return found
    if not path.is_file():
        raise InvalidInput("no such file or folder", file=path, field="--verdicts")
    if path.name not in _NAMES:
        raise InvalidInput(f"expected the folder of a run, or its {' or '.join(_NAMES)}", file=path, field="--verdicts")
    return [path]


def append_pattern(folder: Path, decision: PatternDecision) -> None:
    """Write one decision on a pattern to the log of a run's folder. Raises what `append_records` raises, and
    `InvalidInput` when a part of the decision is missing.
    """
    append_records(folder / PATTERNS_LOG, [checked_pattern(decision)])


def read_patterns(path: Path) -> list[PatternDecision]:
    """Read the decisions on patterns of a log, in their order; none where there is no log. `path`: the log or the
    folder of a run."""
    return read_records(path / PATTERNS_LOG if path.is_dir() else path, PatternDecision, checked_pattern)


def checked_pattern(decision: PatternDecision) -> PatternDecision:
    """Return the decision unchanged. Raises `InvalidInput` when a part that it needs is missing."""
    check_filled(decision, ("who", "run_id", "pattern", *(["reason"] if decision.action == "refuse" else [])))
    return decision


def refused_patterns(decisions: Iterable[PatternDecision]) -> tuple[RefusedPattern, ...]:
    """Return the patterns that at least one person refuses, sorted by field and pattern."""
    latest: dict[tuple[str, str], dict[str, PatternDecision]] = defaultdict(dict)
    for each in sorted(decisions, key=lambda each: each.when):
        latest[each.field, each.pattern][each.who] = each
    held = {key: [word for word in words.values() if word.action == "refuse"] for key, words in latest.items()}
    return tuple(
        RefusedPattern(
            field=words[0].field,
            pattern=words[0].pattern,
            detail="; ".join(f"{word.who}: {word.reason}" for word in sorted(words, key=lambda each: each.who)),
        )
        for _, words in sorted(held.items())
        if words
    )
