"""Which rows a person decides on next: a table, a way to sample it, and what is left of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inspector.decisions import Merged, Stance
from inspector.open_run import OpenRun

SAMPLE = 200
"""Rows of a sample that is drawn or ordered by a number."""
IN_ORDER, RANDOM, LOWEST = "In order", "Random sample", "Lowest first"
FILTERS_DIFFER, PEOPLE_DIFFER, DECIDED = "Filters disagree", "People disagree", "Decided by me"
MODES = {
    IN_ORDER: "All rows, as they stand in the files.",
    RANDOM: f"{SAMPLE} rows, each as likely as any other; the same ones for everybody.",
    LOWEST: f"The {SAMPLE} rows with the lowest value of a number.",
    FILTERS_DIFFER: f"The {SAMPLE} rows whose filters are most divided.",
    PEOPLE_DIFFER: "Rows that some keep and others reject, or fix in different ways.",
    DECIDED: "Rows that you have decided on, to look at again.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person chose."""

    table: str
    mode: str
    number: str = ""
    """For `LOWEST`: which one, as in `TableIndex.values`."""
    words: str = ""
    """Only rows with this text."""
    hide_decided: bool = True
    """Leave out what this person decided on; has no effect on `PEOPLE_DIFFER` and `DECIDED`."""


def queue(run: OpenRun, wanted: Wanted, who: str, stances: Sequence[Stance], heard: Merged) -> list[int] | range:
    """Numbers of the rows to decide on, in the order of decision; in order with words, of what was searched so far."""
    table = wanted.table
    mine = {each.uid for each in stances if each.table == table and each.who == who}
    if wanted.mode == DECIDED:
        return sorted(run.places(table, mine).values())
    if wanted.mode == PEOPLE_DIFFER:
        differ = {each.uid for each in heard.conflicts if each.table == table}
        return sorted(run.places(table, differ).values())
    found = _sampled(run, wanted)
    if wanted.words.strip():
        if wanted.mode == IN_ORDER:
            found = list(run.search(table, wanted.words).rows)
        else:
            found = [number for number in found if run.holds(table, number, wanted.words)]
    if not (wanted.hide_decided and mine):
        return found
    decided = set(run.places(table, mine).values())
    return [number for number in found if number not in decided]


def _sampled(run: OpenRun, wanted: Wanted) -> list[int] | range:
    if wanted.mode == RANDOM:
        return run.table(wanted.table).at_random(SAMPLE, seed=0)
    if wanted.mode == LOWEST:
        return run.lowest(wanted.table, wanted.number, SAMPLE) if wanted.number else []
    if wanted.mode == FILTERS_DIFFER:
        return run.disputed(wanted.table, SAMPLE)
    return range(run.size(wanted.table))
