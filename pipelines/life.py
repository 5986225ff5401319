"""The life of a row, written once for all data sets: what is drawn, what is derived, what is chosen, and what is made
of the kept rows.

A data set says the parts, pure but for `draw` and `after`, which ask a model:

LIFE = Life(name="reword", item=Question, table="reworded", draw=…, derive=…, choose=…)      in its work.py
DataSet(…, stages=(Stage(name="reword", unit="questions"),), life="….work:LIFE")             in its declaration

Rows, counts by stage, `rejected/`, what `verify` recomputes and the SFT rows of what people fixed follow from them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import zip_longest
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from trailforge.inference import Meter, ModelClient
from trailforge.pipelines.curated import SFT, uid_of
from trailforge.pipelines.dataset import INPUTS, DataSet, StageRun
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.engine.model_stage import ModelStage, ModelWork, RunContext, failed_row, rejected_row
from trailforge.pipelines.engine.shards import ItemResult, SupportCount, missing_shards
from trailforge.pipelines.runs.accounting import add_up, stage
from trailforge.pipelines.runs.verify import Report, RowChecks
from trailforge.schemas import (
    ITEM_ERRORS,
    InvalidInput,
    Manifest,
    RejectedRow,
    TrailforgeError,
    Verdict,
    read_parquet,
    stored_name,
    to_dict,
)

R = TypeVar("R")


class Chosen(NamedTuple, Generic[R]):
    """All rows that were drawn for an item, each either kept or rejected."""

    kept: Sequence[R]
    """The rows that are kept, best first."""
    rejected: Sequence[tuple[R, Verdict]]
    """The rows that are rejected, each with the first verdict against it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws(Generic[R]):
    """The draws for one item: rows, failures, and what the calls cost."""

    rows: Sequence[R] = ()
    """The rows in the order of their draws."""
    broken: Mapping[int, TrailforgeError] = field(default_factory=dict)
    """The error of each draw that gave no row, by the draw's number: a reply stayed malformed or was cut, or a
    prompt grew too long."""
    meter: Meter = field(default_factory=Meter)
    """Meter that counted the distinct calls behind all draws."""
    against: Verdict | None = None
    """The verdict against the item itself, on which then nothing is drawn; None: there is none."""
    gates: Mapping[str, Verdict | None] = field(default_factory=dict)
    """The verdict of each of `Life.gates` against the item, None where it passes; its rows are chosen among all the
    same."""
    payload: Any = None
    """What `rejected/` holds, as plain values, of an item with a verdict against it; None: the item itself."""
    chosen: Chosen[R] | None = None
    """The result of `Life.choose`, where drawing went on until that was enough; None: nothing is chosen yet. The
    fields that `Life.derive` sets are then set already."""
    beside: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Rows of other tables that came with the draws, by table name."""
    support: SupportCount = field(default_factory=SupportCount)


async def draw_all(draw: Callable[[int, Meter], Awaitable[R]], count: int) -> Draws[R]:
    """Make `count` draws at once, each with a meter of its own; one that fails does not affect the others."""

    async def draw_one(sample: int, meter: Meter) -> R | TrailforgeError:
        try:
            return await draw(sample, meter)
        except ITEM_ERRORS as error:
            return error

    meters = [Meter() for _ in range(count)]
    drawn = await asyncio.gather(*(draw_one(sample, meter) for sample, meter in enumerate(meters)))
    return Draws(
        rows=tuple(each for each in drawn if not isinstance(each, TrailforgeError)),
        broken={sample: each for sample, each in enumerate(drawn) if isinstance(each, TrailforgeError)},
        meter=sum(meters, Meter()),
    )


def _open_context(work: ModelWork, client: ModelClient) -> RunContext:
    return RunContext(**work.shared(client))


def _derive_nothing(rows: Sequence[Any], item: Any, config: Any) -> Sequence[Any]:
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """The declaration of how the rows of a data set are made, item by item."""

    name: str
    """Name of the stage, under which its items are counted."""
    item: type
    """Record class of the items."""
    table: str
    """Name of the table of the rows."""
    draw: Callable[[Any, Any, Any], Awaitable[Draws[Any]]]
    """`(item, context, config)`: draws the rows of one item. It is the only part that asks a model before rows are
    chosen."""
    open_context: Callable[[ModelWork, ModelClient], Any] = _open_context
    """Opens what all items share, as `ModelStage.open_context` does; by default a `RunContext` alone."""
    asks_model: bool = True
    """Whether a model is asked, as in `Stage`. False: items are handled one after the other in the run's own
    process, and there is no context."""
    derive: Callable[[Sequence[Any], Any, Any], Sequence[Any]] = _derive_nothing
    """`(rows, item, config)`: returns all rows of an item with the fields set that follow from the others."""
    choose: Callable[[Sequence[Any], Any, Any], Chosen[Any]] | None = None
    """`(rows, item, config)`: chooses rows by the filters, and then by the caps. None: all rows are kept, and the
    choice is not counted."""
    after: Callable[[Sequence[Any], Chosen[Any], Any, Any, Any], Awaitable[tuple[Chosen[Any], Meter]]] | None = None
    """`(rows, chosen, item, context, config)`: returns the choice after a model has written
    the thoughts of some of its rows or read them, and the meter of those calls."""
    sft: Callable[[Any, Any], Iterable[Any]] | None = None
    """`(row, config)`: makes the SFT rows of a kept row."""
    wrong_sft: Callable[[Any], Iterable[Any]] | None = None
    """`(rejected row)`: makes the SFT rows of a row that searched well and answered wrongly, without loss on that
    answer, and none of any other. They go only to training sets that ask for such rows."""
    products: Mapping[str, Callable[[Chosen[Any], Any], Iterable[Any]]] = field(default_factory=dict)
    """`(choice, config)`, by table name: makes the rows of other tables from an item's chosen rows."""
    gates: tuple[str, ...] = ()
    """Names under which items are counted that have a verdict against them although rows were drawn of them."""
    draws: str = ""
    """Name under which draws are counted; empty: they are not counted, and a draw that fails makes its item fail."""
    choice: str = "filter"
    """Name under which the rows that were kept are counted."""
    place: Callable[[Any], Any] | None = None
    """`(row)`: returns the number of the row's draw, by which an item's rows are sorted; it is no text, since q-10
    would come before q-2. None: the order of rejected rows is not known."""
    problems: Callable[[Any, Any, RowChecks], Iterable[str]] | None = None
    """`(row, item, checks)`: returns what else is wrong with a kept row, for `verify`."""
    refusal: Callable[[RejectedRow, Any, Any], str] | None = None
    """`(rejected row, item, config)`: returns what is wrong with leaving out an item; empty: nothing."""
    beside: Callable[[RowChecks, str, Mapping[str, Any], Mapping[str, Chosen[Any]]], None] | None = None
    """`(checks, name of a file, its items, the choice of each)`: reports what is wrong with other tables, and with a
    choice that cannot be made again."""

    def __call__(self, run: StageRun) -> None:
        """Run what is missing of the stage. Raises the first error that stopped a worker."""
        from trailforge.pipelines.engine.pipeline import run_pipeline, write_shard  # Beam

        folder, config = run.folder, run.config
        made = self.model_stage(load_dataset(run.settings.dataset))
        work = ModelWork(stage=made, folder=str(folder), run_id=run.settings.run_id, config=config, preset=run.preset)
        if self.asks_model:
            run_pipeline(work, folder, run.shards, run.arguments, config.schedule.patience)
            return
        for shard in missing_shards(folder, run.shards):
            items = read_parquet(folder / shard.input, self.item)
            write_shard(work, folder, shard, [asyncio.run(self.run_item(item, None, config)) for item in items])

    def model_stage(self, dataset: DataSet) -> ModelStage:
        """Return the stage that the engine runs for all items of this life."""
        return ModelStage(
            name=self.name,
            item=self.item,
            tables=dataset.records,
            counted=(self.table, *dataset.tables[self.table].kind),
            open_context=self.open_context,
            run_item=self.draw,
            settle=self.settle,
        )

    async def run_item(self, item: Any, context: Any, config: Any) -> ItemResult:
        """Draw the rows of one item, and decide which are kept."""
        return await self.settle(item, await self.draw(item, context, config), context, config)

    async def settle(self, item: Any, drawn: Draws[Any], context: Any, config: Any) -> ItemResult:
        """Decide which of the rows drawn for one item are kept, and count them by stage, with their cost."""
        if drawn.against is not None:
            left = self._left_out(self.name, item, drawn.against, drawn)
            books = stage(self.name, inputs=1, accepted=0, rejected=[left.reason])
            usage = drawn.meter.usage(config.model.prices)
            return ItemResult(rows={"rejected": [left]}, stages=(books,), usage=usage, support=drawn.support)
        self._check_draws(item, drawn)
        rows, chosen, meter = drawn.rows, drawn.chosen, drawn.meter
        if chosen is None:
            rows = self.derive(rows, item, config)
            chosen = self.choice_of(rows, item, config)
        if self.after is not None:
            chosen, spent = await self.after(rows, chosen, item, context, config)
            meter = meter + spent
        broken = [
            failed_row(self.draws, f"{uid_of(item)}:{number}", error, to_dict(item))
            for number, error in drawn.broken.items()
        ]
        rejected = [rejected_row(self.choice, uid_of(row), verdict, to_dict(row)) for row, verdict in chosen.rejected]
        unfit = [self._left_out(gate, item, verdict, drawn) for gate, verdict in drawn.gates.items() if verdict]
        return ItemResult(
            rows={
                self.table: chosen.kept,
                **drawn.beside,
                **self.make_products(chosen, config),
                "rejected": [*broken, *rejected, *unfit],
            },
            stages=self._books(len(rows), len(chosen.kept), broken, rejected, unfit),
            usage=meter.usage(config.model.prices),
            support=drawn.support,
        )

    def choice_of(self, rows: Sequence[Any], item: Any, config: Any) -> Chosen[Any]:
        """Choose which of an item's rows are kept, before a model writes thoughts for any of them."""
        return self.choose(rows, item, config) if self.choose is not None else Chosen(rows, ())

    def make_products(self, chosen: Chosen[Any], config: Any) -> dict[str, list[Any]]:
        """Make all products of an item's chosen rows, by table name."""
        made = {table: list(make(chosen, config)) for table, make in self.products.items()}
        if self.sft is not None:
            made[SFT] = [each for row in chosen.kept for each in self.rows_for_sft(row, config)]
        return made

    def rows_for_sft(self, row: Any, config: Any) -> list[Any]:
        """Return the SFT rows of a kept row, by the function `Life.sft`."""
        return list(self.sft(row, config)) if self.sft is not None else []

    def checks(self, folder: Path, manifest: Manifest, config: Any, report: Report) -> RowChecks:
        """Return the object that recomputes a run's rows for `verify`, for a data set that has this life as its only
        stage. `report` collects the differences.
        """
        of = LifeChecks if self.asks_model else _LivedAgain
        return of(self, folder, manifest, config, report)

    def _check_draws(self, item: Any, drawn: Draws[Any]) -> None:
        """Raise what `verify` would call wrong of a run that is sound otherwise."""
        if not self.draws:
            for error in drawn.broken.values():
                raise error
        if self.place is not None and sorted(drawn.rows, key=self.place) != list(drawn.rows):
            raise InvalidInput(
                f"does not sort the rows of {uid_of(item)} in the order in which they were drawn",
                field="Life.place",
            )

    def _left_out(self, at: str, item: Any, verdict: Verdict, drawn: Draws[Any]) -> RejectedRow:
        return rejected_row(at, uid_of(item), verdict, to_dict(item) if drawn.payload is None else drawn.payload)

    def _books(self, rows: int, kept: int, broken: list, rejected: list, unfit: list) -> tuple[Any, ...]:
        reasons = [row.reason for row in rejected]
        lines = [stage(self.name, inputs=1, accepted=1)]
        for gate in self.gates:
            against = [row.reason for row in unfit if row.stage == gate]
            lines.append(stage(gate, inputs=1, accepted=1 - len(against), rejected=against))
        if self.draws:
            lost = [row.reason for row in broken]
            lines.append(stage(self.draws, inputs=rows + len(lost), accepted=rows, failed=lost))
        if self.choose is not None:
            lines.append(stage(self.choice, inputs=rows, accepted=kept, rejected=reasons))
        return tuple(lines)


class LifeChecks(RowChecks):
    """Recomputes for `verify` what a run derived from its draws (fields, which rows were chosen, SFT rows and pairs),
    and compares it with what is stored.
    """

    def __init__(self, of: Life, folder: Path, manifest: Manifest, config: Any, report: Report) -> None:
        super().__init__(folder, manifest, config, report)
        self.life, dataset = of, load_dataset(manifest.dataset)
        self.records, self.kind = dataset.records, stored_name(of.item).lower()
        self.source_of: Callable[[Any], str] = attrgetter(dataset.tables[of.table].source)

    def check(self) -> None:
        """Check all files, and add what is found to the report."""
        life, lines = self.life, {line.name for line in self.manifest.stages}
        own = [life.draws] * (life.draws in lines) + [life.choice] * (life.choose is not None)
        counted = ("read", life.name, *life.gates, *own)  # runs of before counted no draws
        self.accepted.update(dict.fromkeys(counted, 0))
        for name in self.names():
            items = {uid_of(item): item for item in self.rows(INPUTS, name, life.item)}
            self.accepted["read"] += len(items)
            self._check_file(name, items)
            self.count_rejected(name)
        self.check_books()

    def _check_file(self, name: str, items: Mapping[str, Any]) -> None:
        life = self.life
        kept, rejected = defaultdict[str, list[Any]](list), defaultdict[str, list[tuple[Any, Verdict]]](list)
        stored_rows = list(self.rows(life.table, name, self.records[life.table]))
        unsaid = dict.fromkeys(map(uid_of, stored_rows), self._unsaid(life.table, name, stored_rows))
        for row in stored_rows:
            kept[self.source_of(row)].append(row)
        for row, verdict, silent in self.rejected_episodes(name, life.choice, self.records[life.table]):
            rejected[self.source_of(row)].append((row, verdict))
            unsaid[uid_of(row)] = silent
        self._count_items(name, items, kept.keys() | rejected.keys())
        made = defaultdict[str, list[Any]](list)
        uids = dict.fromkeys((*kept, *rejected))
        stored = {uid: Chosen(tuple(kept.get(uid, ())), tuple(rejected.get(uid, ()))) for uid in uids}
        for uid, chosen in stored.items():
            for line, rows in ((life.choice, chosen.kept), (life.draws, (*chosen.kept, *chosen.rejected))):
                if line in self.accepted:
                    self.accepted[line] += len(rows)
            if uid in items:
                self._check_rows(name, items[uid], chosen, unsaid)
            else:
                for row in (*chosen.kept, *(row for row, _ in chosen.rejected)):
                    self.problem(name, uid_of(row), f"its {self.kind} {uid!r} is not among the inputs")
            for table, make in life.products.items():
                made[table] += make(chosen, self.config)
        if life.sft is not None:
            standing = self.stored_rows(life.table, name, self.records[life.table])
            made[SFT] = [each for row in standing for each in life.rows_for_sft(row, self.config)]
        for table in (*life.products, *([SFT] if life.sft is not None else [])):
            differs, missing = f"this row of {table} is not what kept rows give", f"this row of {table} is missing"
            self.check_made(table, name, made[table], self.records[table], differs, missing)
        if life.beside is not None:
            life.beside(self, name, items, stored)

    def _count_items(self, name: str, items: Mapping[str, Any], drawn: set[str]) -> None:
        """Items are accepted but for those in `rejected/`, on which nothing may have been drawn."""
        life = self.life
        out = defaultdict[str, list[RejectedRow]](list)
        for row in self.rows("rejected", name, RejectedRow):
            out[row.stage].append(row)
        left = len(items) - len(out[life.name])
        self.accepted[life.name] += left
        for gate in life.gates:
            self.accepted[gate] += left - len(out[gate])
        for row in out[life.name]:
            if row.uid in drawn:
                self.problem(name, row.uid, "rows were drawn on it, though it was left out")
            if row.uid not in items:
                self.problem(name, row.uid, "it was left out, and is not among the inputs")
            elif life.refusal is not None and (wrong := life.refusal(row, items[row.uid], self.config)):
                self.problem(name, row.uid, wrong)

    def _check_rows(self, name: str, item: Any, stored: Chosen[Any], unsaid: Mapping[str, Mapping[str, Any]]) -> None:
        """The rows of an item: their derived fields, but for those that a row does not say yet, and which are kept."""
        life, bad = self.life, [row for row, _ in stored.rejected]
        drawn = [*stored.kept, *bad]
        for number, (row, made) in enumerate(zip(drawn, life.derive(drawn, item, self.config), strict=True)):
            made = replace(made, **unsaid.get(uid_of(row), {}))
            different = next((f.name for f in fields(row) if getattr(row, f.name) != getattr(made, f.name)), "")
            if different:
                rejected = "rejected: " * (number >= len(stored.kept))
                what = f"{different} is not what follows from its {self.kind} and from what was drawn"
                self.problem(name, uid_of(row), f"{rejected}{what}")
        rows = sorted(drawn, key=life.place) if life.place is not None else stored.kept
        chosen = life.choice_of(rows, item, self.config)
        against = {uid_of(row): verdict for row, verdict in chosen.rejected}
        for row in stored.kept:
            if verdict := against.get(uid_of(row)):
                self.problem(name, uid_of(row), f"filter {verdict.reason} rejects it: {verdict.detail}")
            for problem in life.problems(row, item, self) if life.problems is not None else ():
                self.problem(name, uid_of(row), problem)
        expected = stored.rejected if life.place is not None else ()
        if (tuple(chosen.kept), tuple(chosen.rejected)) != (stored.kept, expected):
            self.problem(name, uid_of(item), "the filters choose others of its rows, or for other reasons")


class _LivedAgain(LifeChecks):
    """The rows of a life that asks no model, and what it rejects, against what their items give again."""

    def _check_file(self, name: str, items: Mapping[str, Any]) -> None:
        results = [asyncio.run(self.life.run_item(item, None, self.config)) for item in items.values()]
        lines = {line.name for result in results for line in result.stages}
        for line in add_up(result.stages for result in results):
            self.accepted[line.name] += line.accepted
        counted = self.life.choice if self.life.choose is not None else self.life.name
        for table in dict.fromkeys((self.life.table, "rejected", *(each for one in results for each in one.rows))):
            made = [row for result in results for row in result.rows.get(table, ())]
            found = list(self.rows(table, name, self.records[table]))
            if table == "rejected":  # which other stages write to, too
                found = [row for row in found if row.stage in lines]
            elif table == self.life.table:
                self.accepted[counted] += len(found) - len(made)
            for row, expected in zip_longest(found, made):
                if row != expected:
                    self.problem(name, uid_of(row or expected), "it is not what its input gives")
