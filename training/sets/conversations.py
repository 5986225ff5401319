"""Read conversations of runs as rows of `sft/`: those that runs kept and, on request, some that answer wrongly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from trailforge.pipelines import load_dataset, resolve
from trailforge.pipelines.runs import FinishedRun
from trailforge.protocols.browse import BROWSE, NAMES, rename_tools, rewrite_row
from trailforge.schemas import RejectedRow, SftRow, Verdict, from_payload, parse_json
from trailforge.training.sets.config import ViewConfig, WritingKind, WritingShare
from trailforge.training.sets.judging import SPLIT, RowJudge, segments
from trailforge.training.sets.order import Books, Staged, draw_by_lot
from trailforge.training.sets.runs import difficulties, stage_of
from trailforge.training.sets.tables import Progress, SetTable

WRONG = "wrong_answer"
"""The reason that runs give against rows whose answer is wrong."""
_POOR = Verdict(keep=False, reason="poorly_searched", score=1.0, detail="more speaks against it than its answer")


@dataclass(slots=True, kw_only=True)
class _Collector:
    """Takes the rows of one line of the books, whole or as segments."""

    line: str
    table: SetTable
    judge: RowJudge
    books: Books = field(init=False)
    of_segments: Books = field(init=False)
    made: int = 0
    """Segments."""

    def __post_init__(self) -> None:
        self.books = Books(self.line, self.table.books)
        self.of_segments = Books(f"{self.line}_segments", self.table.books)

    def take(self, row: SftRow, run: FinishedRun, known: dict[str, Any], verdict: Verdict | None, tokens: int) -> None:
        """A row, as it was judged."""
        curriculum = known.get(row.question_id, (stage_of(row.num_hops), float(row.num_hops)))
        source = (run.dataset, run.manifest_sha256)
        if verdict is None:
            self.books.accept()
            self.table.add(row, source, curriculum, tokens)
            return
        self.books.reject(row.uid, row, verdict)
        for segment in segments(row) if verdict.reason == SPLIT else ():
            self.made += 1
            against, tokens = self.judge.segment(segment)
            if against is None:
                self.of_segments.accept()
                self.table.add(segment, source, curriculum, tokens)
            else:
                self.of_segments.reject(segment.uid, segment, against)

    def close(self, inputs: int) -> None:
        """Write the lines of the counts."""
        self.table.lines.append(self.books.line(inputs))
        if self.made:
            self.table.lines.append(self.of_segments.line(self.made))


def rewrite(row: SftRow, config: ViewConfig) -> SftRow:
    """Return a row written as tags or native calls and with the tool names that are drawn for its episode; rows of
    other protocols unchanged. The draw depends on the seed and the episode alone.
    """
    if row.protocol != BROWSE:
        return row
    place = _draw(config.seed, "writing", row.trajectory_uid)
    drawn = next((each for each in _ends(config.writings) if place < each[0]), None)
    if drawn is None:
        return row
    row = rewrite_row(row, "tags" if drawn[1] == "tags" else "native")
    if drawn[1] == "renamed":
        row = rename_tools(row, NAMES[int(_draw(config.seed, "names", row.trajectory_uid) * len(NAMES))])
    return row


def _ends(shares: Sequence[WritingShare]) -> list[tuple[float, WritingKind]]:
    """Up to which number each writing is drawn."""
    ends = accumulate(each.share for each in shares)
    return [(round(end, 9), each.writing) for end, each in zip(ends, shares, strict=True)]


def _draw(seed: int, purpose: str, name: str) -> float:
    """A number from 0 to below 1."""
    return int.from_bytes(draw_by_lot(seed, purpose, name)[:6], "big") / 2**48


def collect_sft(
    runs: Sequence[FinishedRun], table: SetTable, judge: RowJudge, config: ViewConfig, tell: Progress
) -> int:
    """Add the conversations that runs kept to the table of a training set, each whole or as segments, and return how
    many were added. `judge` decides which are rejected; `tell` receives the progress."""
    collector = _Collector(line="sft", table=table, judge=judge)
    having = [run for run in runs if run.files("sft")]
    total, done, taken = sum(run.row_count("sft") for run in having), 0, 0
    for run in having:
        known = difficulties(run)
        for batch in run.batches("sft", SftRow):
            for row in (rewrite(table.clean(each), config) for each in batch):
                verdict, tokens = judge.conversation(row)
                taken += _is_sound(verdict)
                collector.take(row, run, known, verdict, tokens)
            done += len(batch)
            tell("reading sft", done, total)
    collector.close(total)
    return taken


def collect_wrong(
    runs: Sequence[FinishedRun], table: SetTable, judge: RowJudge, most: int, seed: int, held_at: Path
) -> None:
    """Add at most `most` conversations that runs rejected for their answer alone, drawn at random among the sound ones.
    `held_at` is a temporary file for those that wait for the draw.
    """
    collector, inputs = _Collector(line="sft_wrong", table=table, judge=judge), 0
    waiting: list[tuple[FinishedRun, int, Verdict | None, int]] = []
    lots: list[tuple[bytes, int]] = []
    with Staged(held_at, SftRow) as staged:
        for run in runs:
            for found in read_wrong(run):
                inputs += 1
                if isinstance(found, RejectedRow):
                    collector.books.reject(found.uid, found, _POOR)
                    continue
                row = table.clean(found)
                verdict, tokens = judge.conversation(row)
                if not _is_sound(verdict):
                    collector.books.reject(row.uid, row, verdict)  # type: ignore[arg-type]  # what is not sound has one
                    continue
                lots.append((draw_by_lot(seed, "wrong", row.uid), len(waiting)))
                waiting.append((run, staged.add(row), verdict, tokens))
        chosen = {place for _, place in sorted(lots)[:most]}
        known = {run.manifest_sha256: difficulties(run) for run in runs}
        for place, (run, number, verdict, tokens) in enumerate(waiting):
            row = staged.read(number)
            if place not in chosen:
                surplus = Verdict(keep=False, reason="surplus_wrong", score=1.0, detail=f"{most} others were drawn")
                verdict = surplus
            collector.take(row, run, known[run.manifest_sha256], verdict, tokens)
    collector.close(inputs)


def count_wanted(share: float, right: int) -> int:
    """Return how many wrong conversations make up at most this share of all, beside `right` right ones."""
    return int(round(share * right / (1 - share), 9))


def read_wrong(run: FinishedRun) -> Iterator[SftRow | RejectedRow]:
    """Read what a run rejected for its answer: as SFT rows without loss on the answer where the searches are sound,
    else unchanged. Data sets that do not distinguish the two yield nothing.
    """
    dataset = load_dataset(run.dataset)
    life = resolve(dataset.life) if dataset.life else None
    if life is None or life.wrong_sft is None or not run.files("rejected"):
        return
    record = dataset.all_tables[life.table].record
    for row in run.rows("rejected", RejectedRow):
        if (row.stage, row.reason) == (life.choice, WRONG):
            made = list(life.wrong_sft(from_payload(record, parse_json(row.payload))))
            yield from made or [row]


def _is_sound(verdict: Verdict | None) -> bool:
    return verdict is None or verdict.reason == SPLIT
