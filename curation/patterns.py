"""Kinds of sources that people refuse, by regular expressions: an append-only log beside that of the decisions.

The log is `curation/patterns.jsonl`, one `PatternDecision` a line. Each person's latest word on a field and pattern
counts; a pattern is refused as long as anybody refuses it. Whether a text is a regular expression is the matter of
`pipelines.sources.refused`, which searches for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from trailforge.curation.log import append_records, read_records
from trailforge.schemas import PATTERNS_LOG, InvalidInput, PatternDecision, RefusedPattern


def append_pattern(folder: Path, decision: PatternDecision) -> None:
    """Write one word to the log of a run's folder. Raises as `append_records`, and when the word says too little."""
    append_records(folder / PATTERNS_LOG, [checked_pattern(decision)])


def read_patterns(path: Path) -> list[PatternDecision]:
    """The words of a log, in its order; none where there is none. `path`: the log or the folder of a run."""
    return read_records(path / PATTERNS_LOG if path.is_dir() else path, PatternDecision, checked_pattern)


def checked_pattern(decision: PatternDecision) -> PatternDecision:
    """The word, when it says all that it has to. Raises `InvalidInput` when it does not."""
    needed = ("who", "run_id", "pattern", *(["reason"] if decision.action == "refuse" else []))
    for name in needed:
        if not getattr(decision, name).strip():
            raise InvalidInput("must not be empty", field=name)
    return decision


def refused_patterns(decisions: Iterable[PatternDecision]) -> tuple[RefusedPattern, ...]:
    """The patterns that somebody refuses, by field and pattern."""
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
