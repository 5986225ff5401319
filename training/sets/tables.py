"""A table of a training set that is being made: its rows on disk, its counts, and where each row is placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trailforge.schemas import FileEntry, InvalidInput, PreferenceRow, RlRow, SftRow, StageCount, Verdict
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.files import SplitCount
from trailforge.training.sets.judging import Row, without_invisible
from trailforge.training.sets.mixture import Mixture, mixed
from trailforge.training.sets.order import Books, Entry, RejectedRows, Staged, ordered, question_key, write_parts

Progress = Callable[[str, int, int], None]
"""Is told what is being done, how many rows are done, and of how many."""


@dataclass(slots=True, kw_only=True)
class SetTable:
    """One table of a training set (`sft`, `rl` or `pairs`) while it is being made."""

    name: str
    record: type
    staged: Staged[Any]
    books: RejectedRows
    entries: list[Entry] = field(default_factory=list)
    """The places of the rows that stay."""
    lines: list[StageCount] = field(default_factory=list)
    splits: dict[str, list[Entry]] = field(default_factory=dict)
    """The rows of each split in the order of learning."""
    invisible: int = 0
    """Number of invisible characters that were taken out of the table's rows."""
    taken: Counter[str] = field(default_factory=Counter)
    """Number of rows by `Entry.origin`."""

    def clean(self, row: Row) -> Row:
        """Return the row as it is checked and stored; see `without_invisible`."""
        cleaned, removed = without_invisible(row)
        self.invisible += removed
        return cleaned

    def add(
        self,
        row: SftRow | RlRow | PreferenceRow,
        source: tuple[str, str],
        curriculum: tuple[int, float],
        tokens: int,
    ) -> None:
        """Add a row of `tokens` tokens. `source` is its data set and its origin (`Entry.origin`); `curriculum` is the
        stage of the curriculum, from 1, and the difficulty within it."""
        dataset, origin = source
        self.taken[origin] += 1
        self.entries.append(
            Entry(
                number=self.staged.add(row),
                uid=row.uid,
                dataset=dataset,
                origin=origin,
                key=question_key(row.question),
                stage=curriculum[0],
                difficulty=curriculum[1],
                tokens=tokens,
            )
        )

    def place(self, validation: set[str], config: ViewConfig, mixture: Mixture) -> None:
        """Assign each row to a split and a position in it. `validation` has the `question_key` of each question that is
        held out; `mixture` says which of the other rows are too many. Raises `InvalidInput` for a wanted split that
        would be empty."""
        trained = [entry for entry in self.entries if entry.key not in validation]
        kept, left = mixed(trained, mixture, config.seed)
        if mixture.weights:
            books = Books(f"{self.name}_mix", self.books)
            books.accept(len(kept))
            for entry in left:
                part = mixture.part_of[entry.origin]
                verdict = Verdict(keep=False, reason="mixture", score=1.0, detail=f"more {part} than its share")
                books.reject(entry.uid, self.staged.read(entry.number), verdict)
            self.lines.append(books.line(len(trained)))
        held = [entry for entry in self.entries if entry.key in validation]
        self.splits = {"train": kept, "validation": held} if config.validation_share else {"train": kept}
        for split, entries in self.splits.items():
            if not entries and self.entries and self.name != "pairs":  # which few questions have
                raise InvalidInput(
                    f"{self.name}/{split} would be empty: {len(self.entries)} rows of "
                    f"{len({entry.key for entry in self.entries})} questions; change the validation share or the mix"
                )
            self.splits[split] = ordered(entries, config.order, config.seed)

    def write(self, folder: Path, config: ViewConfig, tell: Progress) -> Iterator[FileEntry]:
        """Write the rows as files, and yield their entries."""
        total = sum(map(len, self.splits.values()))
        done = 0
        for split, entries in self.splits.items():
            rows = (self.staged.read(entry.number) for entry in entries)
            for file in write_parts(folder, f"{self.name}/{split}", self.record, rows, config.rows_per_file):
                done += file.rows
                tell(f"writing {self.name}", done, total)
                yield file

    def counts(self) -> Iterator[SplitCount]:
        """Yield the counts of the splits."""
        for split, entries in self.splits.items():
            for dataset in sorted({entry.dataset for entry in entries}):
                own = [entry for entry in entries if entry.dataset == dataset]
                yield SplitCount(
                    table=self.name,
                    split=split,
                    dataset=dataset,
                    rows=len(own),
                    questions=len({entry.key for entry in own}),
                    tokens=sum(entry.tokens for entry in own),
                    longest=max(entry.tokens for entry in own),
                )
