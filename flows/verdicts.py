"""What people said of finished runs, for the next run: the logs of `trailforge curate` to what is not made again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from inspector.decisions import merged, read_decisions
from inspector.patterns import read_patterns, refused_patterns
from pipelines.files import sha256_of
from pipelines.sources.refused import Refusals, refused
from schemas import DECISIONS_LOG, PATTERNS_LOG, Decision, FileEntry, InvalidInput, PatternDecision

_LOGS = tuple(Path(log) for log in (DECISIONS_LOG, PATTERNS_LOG))
_NAMES = tuple(log.name for log in _LOGS)


def refusals(verdicts: Sequence[Path]) -> Refusals:
    """What these logs, or the logs in these folders of runs, say together; each counts once.

    Raises `InvalidInput` for what is no log, for a folder without, and for a pattern that is no regular expression.
    """
    decisions: list[Decision] = []
    patterns: list[PatternDecision] = []
    entries: list[FileEntry] = []
    for path in dict.fromkeys(log for each in verdicts for log in _logs_in(each)):
        digest = sha256_of(path)  # before it is read: what is appended meanwhile shows as another hash
        words = read_decisions(path) if path.name == _NAMES[0] else read_patterns(path)
        for word in words:
            patterns += [word] if isinstance(word, PatternDecision) else []
            decisions += [word] if isinstance(word, Decision) else []
        entries.append(FileEntry(path=str(path), rows=len(words), sha256=digest))
    return Refusals(
        sources=refused(merged(decisions).rulings), patterns=refused_patterns(patterns), logs=tuple(entries)
    )


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
