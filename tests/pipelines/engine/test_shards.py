"""Shards: each is run once, an error of an item is a row, any other error leaves nothing half-done."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.support import CONFIG, IN_PROCESS, FinishedRun, ScriptedWork, make_run, take_in
from tests.support.files import contents
from tests.support.scripted import ScriptedModel
from trailforge.inference import ModelClient, Request, Sampling, Usage
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.engine.model_stage import ModelStage, ModelWork
from trailforge.pipelines.engine.pipeline import RunShards, run_pipeline
from trailforge.pipelines.engine.shards import ItemResult, Shard, read_receipt, receipt_path
from trailforge.pipelines.runs.accounting import stage
from trailforge.pipelines.runs.config import ModelConfig, ScheduleConfig
from trailforge.pipelines.runs.intake import write_settings
from trailforge.schemas import (
    ContextOverflow,
    InvalidInput,
    MalformedReply,
    OutputError,
    Question,
    RejectedRow,
    ServerUnavailable,
    TrailforgeError,
    read_parquet,
    to_dict,
    write_parquet,
)

_RUNS = "runs.log"
_ERRORS = {
    "overflow": ContextOverflow("the prompt is too long"),
    "malformed": MalformedReply("no JSON, twice"),
    "unavailable": ServerUnavailable("nothing answers; start it"),
    "invalid": InvalidInput("empty", file="x.jsonl", row=3, field="answer"),
    "bug": KeyError("a bug"),
}


class Echo:
    """Notes every run of an item, and how many were under way. `ModelWork.preset` has the faults, as JSON: error by
    question id; only as long as the file `mended` is missing."""

    def __init__(self, work: ModelWork, model: ModelClient) -> None:
        self.folder, self.faults = Path(work.folder), json.loads(work.preset)
        self.model, self.under_way = model, 0
        if "open" in self.faults and not self.is_mended:
            raise _ERRORS[self.faults["open"]]

    @property
    def is_mended(self) -> bool:
        """No faults any more."""
        return (self.folder / "mended").exists()

    async def run(self, item: Question) -> ItemResult:
        """Write a question as it is. Later ones are done sooner, so that order is not by luck."""
        number = int(item.id[1:])
        self.under_way += 1
        with open(self.folder / _RUNS, "a") as log:
            log.write(f"{item.id} {self.under_way}\n")
        try:
            await asyncio.sleep(60 if self.faults.get(item.id) == "slow" else 0.002 * (10 - number % 10))
        except asyncio.CancelledError:
            (self.folder / f"cancelled-{item.id}").touch()
            raise
        self.under_way -= 1
        await self.model.complete(Request(model="m", prompt="one two", sampling=Sampling(max_tokens=8), seed=number))
        if item.id in self.faults and not self.is_mended:
            raise _ERRORS[self.faults[item.id]]
        return ItemResult(
            rows={"echo": [item]}, stages=(stage("echo", inputs=1, accepted=1),), usage=Usage(calls=1, prompt_tokens=2)
        )


async def run_item(item: Question, context: Echo, config: object) -> ItemResult:
    """See `ModelStage`."""
    return await context.run(item)


class ClosingModel(ScriptedModel):
    """Notes that it was let go of."""

    def __init__(self, folder: Path) -> None:
        super().__init__(lambda request: "three")
        self.folder = folder

    async def aclose(self) -> None:
        """As `ModelClient.aclose`."""
        with open(self.folder / "closed.log", "a") as log:
            log.write("closed\n")


class EchoWork(ModelWork):
    """With a scripted model in place of a server."""

    async def client(self, link: object = None) -> ModelClient:
        """In place of `ModelWork.client`."""
        model: Any = ClosingModel(Path(self.folder))
        return model


ECHO = ModelStage(
    name="echo",
    item=Question,
    tables={"echo": Question, "rejected": RejectedRow},
    counted=("echo",),
    open_context=Echo,
    run_item=run_item,
)
PRICED = replace(
    CONFIG,
    model=ModelConfig(name="m", prompt_price_per_million=1e6),
    schedule=ScheduleConfig(questions_in_flight=3),
)


def echo_work(folder: Path, **faults: str) -> EchoWork:
    """Runs questions with these faults."""
    return EchoWork(stage=ECHO, folder=str(folder), run_id="r", config=PRICED, preset=json.dumps(faults))


def spooled(folder: Path, *sizes: int) -> list[Shard]:
    """Shards of questions q0, q1, …"""
    shards: list[Shard] = []
    first = 0
    for number, size in enumerate(sizes):
        path = folder / "inputs" / f"part-{number:05d}-x.parquet"
        path.parent.mkdir(exist_ok=True)
        rows = [Question(id=f"q{n}", question=f"Who is {n}?", answer=str(n)) for n in range(first, first + size)]
        write_parquet(path, Question, rows)
        shards.append(Shard(name=path.stem, input=f"inputs/{path.name}", first=first, rows=size))
        first += size
    return shards


def runs(folder: Path) -> Counter[str]:
    """How often each item was run."""
    log = folder / _RUNS
    return Counter(line.split()[0] for line in log.read_text().splitlines()) if log.exists() else Counter()


def echoed(folder: Path, shard: Shard) -> list[str]:
    return [q.id for q in read_parquet(folder / "echo" / f"{shard.name}.parquet", Question)]


def run_shards(folder: Path, shards: list[Shard], **faults: str) -> None:
    run_pipeline(echo_work(folder, **faults), folder, shards, IN_PROCESS)


def bundle(do_fn: RunShards, shards: list[Shard]) -> list[str]:
    """A bundle as a runner runs it."""
    do_fn.start_bundle()
    for shard in shards:
        do_fn.process(shard)
    return [windowed.value for windowed in do_fn.finish_bundle()]


def test_every_shard_is_run_and_its_rows_keep_the_order_of_the_items(tmp_path: Path) -> None:
    shards = spooled(tmp_path, 5, 4, 1)
    run_shards(tmp_path, shards)
    assert [echoed(tmp_path, s) for s in shards] == [["q0", "q1", "q2", "q3", "q4"], ["q5", "q6", "q7", "q8"], ["q9"]]
    log = [line.split() for line in (tmp_path / _RUNS).read_text().splitlines()]
    assert sorted(item for item, _ in log) == [f"q{n}" for n in range(10)]
    assert max(int(under_way) for _, under_way in log) == 3
    assert (tmp_path / "closed.log").exists()


def test_a_receipt_says_what_was_written(tmp_path: Path) -> None:
    (shard,) = spooled(tmp_path, 5)
    run_shards(tmp_path, [shard], q3="overflow")
    receipt = read_receipt(tmp_path, shard)
    assert receipt.shard == shard.name and receipt.usage.calls == 5, "that of the failed item, too"
    assert [(f.path, f.rows) for f in receipt.files] == [
        (f"echo/{shard.name}.parquet", 4),
        (f"rejected/{shard.name}.parquet", 1),
    ]
    assert all(sha256_of(tmp_path / f.path) == f.sha256 for f in receipt.files)


def test_a_table_without_rows_is_not_written(tmp_path: Path) -> None:
    shards = spooled(tmp_path, 2)
    run_shards(tmp_path, shards)
    assert not (tmp_path / "rejected").exists()
    assert [f.path for f in read_receipt(tmp_path, shards[0]).files] == [f"echo/{shards[0].name}.parquet"]


def test_a_shard_with_a_receipt_is_not_run_again(tmp_path: Path) -> None:
    shards = spooled(tmp_path, 3, 3, 3)
    run_shards(tmp_path, shards[1:2])
    kept = receipt_path(tmp_path, shards[1]).stat()
    run_shards(tmp_path, shards)
    assert runs(tmp_path) == {f"q{n}": 1 for n in range(9)}
    assert receipt_path(tmp_path, shards[1]).stat().st_mtime_ns == kept.st_mtime_ns
    run_shards(tmp_path, shards)
    assert runs(tmp_path).total() == 9


def test_a_shard_without_a_receipt_is_run_whole_and_its_old_rows_are_replaced(tmp_path: Path) -> None:
    shards = spooled(tmp_path, 3)
    run_shards(tmp_path, shards)
    before = contents(tmp_path / "echo")
    receipt_path(tmp_path, shards[0]).unlink()
    (tmp_path / "echo" / f"{shards[0].name}.parquet").write_bytes(b"of another time")
    run_shards(tmp_path, shards)
    assert contents(tmp_path / "echo") == before
    assert runs(tmp_path) == {"q0": 2, "q1": 2, "q2": 2}


def test_a_bundle_that_a_runner_runs_twice_does_not_double_rows(tmp_path: Path) -> None:
    shards = spooled(tmp_path, 4, 3)
    do_fn = RunShards(echo_work(tmp_path, q1="malformed"), str(tmp_path))
    do_fn.setup()
    first = bundle(do_fn, shards)
    once = {k: v for k, v in contents(tmp_path).items() if k.startswith(("echo/", "rejected/", "shards/"))}
    again = bundle(do_fn, shards)
    do_fn.teardown()
    assert first == again == [shard.name for shard in shards]
    twice = {k: v for k, v in contents(tmp_path).items() if k.startswith(("echo/", "rejected/", "shards/"))}
    assert twice == once
    assert [echoed(tmp_path, s) for s in shards] == [["q0", "q2", "q3"], ["q4", "q5", "q6"]]


@pytest.mark.parametrize(("fault", "reason"), [("overflow", "context_overflow"), ("malformed", "malformed_reply")])
def test_an_error_of_one_item_is_counted_as_failed_and_kept_as_a_row(tmp_path: Path, fault: str, reason: str) -> None:
    shards = spooled(tmp_path, 3, 2)
    run_shards(tmp_path, shards, q1=fault)
    assert [echoed(tmp_path, s) for s in shards] == [["q0", "q2"], ["q3", "q4"]]
    (books,) = read_receipt(tmp_path, shards[0]).stages
    assert (books.inputs, books.accepted, books.rejected, books.balance) == (3, 2, (), 0)
    assert [(c.reason, c.count) for c in books.failed] == [(reason, 1)]
    assert read_receipt(tmp_path, shards[0]).usage == Usage(calls=3, prompt_tokens=6, completion_tokens=1, cost=2.0), (
        "the failed item cost a call of 2 + 1 tokens"
    )
    (row,) = read_parquet(tmp_path / "rejected" / f"{shards[0].name}.parquet", RejectedRow)
    assert (row.uid, row.stage, row.reason, row.detail) == ("q1", "echo", reason, str(_ERRORS[fault]))
    (question,) = (q for q in read_parquet(tmp_path / shards[0].input, Question) if q.id == "q1")
    assert json.loads(row.payload) == to_dict(question)


@pytest.mark.parametrize("fault", ["unavailable", "invalid", "bug"])
def test_any_other_error_fails_the_shard_and_leaves_nothing_half_written(tmp_path: Path, fault: str) -> None:
    (shard,) = spooled(tmp_path, 4)
    with pytest.raises(Exception, match=r"nothing answers|empty|a bug"):
        run_shards(tmp_path, [shard], q2=fault)
    assert not receipt_path(tmp_path, shard).exists()
    assert not [name for name in contents(tmp_path) if name.startswith(("echo/", "rejected/")) or ".tmp-" in name]
    (tmp_path / "mended").touch()
    run_shards(tmp_path, [shard], q2=fault)
    assert echoed(tmp_path, shard) == ["q0", "q1", "q2", "q3"]


def test_a_typed_error_of_a_worker_comes_out_as_it_was_raised(tmp_path: Path) -> None:
    shards = spooled(tmp_path, 2)
    with pytest.raises(ServerUnavailable) as raised:
        run_shards(tmp_path, shards, q1="unavailable")
    assert str(raised.value) == "nothing answers; start it"
    with pytest.raises(InvalidInput) as invalid:
        run_shards(tmp_path, shards, open="invalid")
    assert str(invalid.value) == "x.jsonl, row 3, field 'answer': empty"


def test_an_error_of_an_earlier_try_is_not_taken_for_that_of_this_one(tmp_path: Path) -> None:
    shards = spooled(tmp_path, 2)
    with pytest.raises(ServerUnavailable):
        run_shards(tmp_path, shards, q1="unavailable")
    with pytest.raises(Exception, match="a bug") as raised:
        run_shards(tmp_path, shards, q1="bug")
    assert not isinstance(raised.value, TrailforgeError)


def test_a_failing_shard_does_not_take_a_finished_one_with_it(tmp_path: Path) -> None:
    shards = spooled(tmp_path, 2, 2)
    run_shards(tmp_path, shards[:1])
    with pytest.raises(ServerUnavailable):
        run_shards(tmp_path, shards, q3="unavailable")
    assert echoed(tmp_path, shards[0]) == ["q0", "q1"]
    (tmp_path / "mended").touch()
    run_shards(tmp_path, shards, q3="unavailable")
    runs_of_first = {k: v for k, v in runs(tmp_path).items() if k in ("q0", "q1")}
    assert runs_of_first == {"q0": 1, "q1": 1}


@pytest.mark.timeout(150)
def test_an_error_calls_off_what_is_under_way_in_its_shard_and_in_others(tmp_path: Path) -> None:
    shards = spooled(tmp_path, 2, 1)
    with pytest.raises(ServerUnavailable):
        run_shards(tmp_path, shards, q0="slow", q1="unavailable", q2="slow")
    assert sorted(path.name for path in tmp_path.glob("cancelled-*")) == ["cancelled-q0", "cancelled-q2"]


def test_rows_that_cannot_be_written_leave_no_receipt(tmp_path: Path) -> None:
    (shard,) = spooled(tmp_path, 2)
    (tmp_path / "echo").write_text("a file where the folder should be")
    with pytest.raises(OutputError, match=r"cannot write .*echo/part-00000-x\.parquet: a file of that name"):
        run_shards(tmp_path, [shard])
    assert not receipt_path(tmp_path, shard).exists()


def test_no_shards_is_no_work(tmp_path: Path) -> None:
    run_shards(tmp_path, [], open="unavailable")
    assert list(tmp_path.iterdir()) == [], "a worker was asked, or something was written"


def test_two_runs_of_the_same_questions_have_the_same_names_and_bytes(
    original_run: FinishedRun, tmp_path: Path
) -> None:
    make_run(tmp_path / "run", original_run.source)
    one, other = (
        {k: v for k, v in contents(folder).items() if not k.startswith("progress/")}
        for folder in (original_run.folder, tmp_path / "run")
    )
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []


def test_rows_do_not_depend_on_how_many_questions_are_under_way(original_run: FinishedRun, tmp_path: Path) -> None:
    settings = take_in(original_run.source, tmp_path, CONFIG, None)
    write_settings(tmp_path, settings)
    one_at_a_time = replace(CONFIG, schedule=replace(CONFIG.schedule, questions_in_flight=1))
    work = ScriptedWork(folder=str(tmp_path), run_id=settings.run_id, config=one_at_a_time)
    run_pipeline(work, tmp_path, tuple(reversed(settings.shards)), IN_PROCESS)
    for table in ("mcts_trajectories", "trees", "sft", "rejected", "shards"):
        assert contents(tmp_path / table) == contents(original_run.folder / table)


def test_the_world_of_these_tests_gives_every_part_of_the_books(original_run: FinishedRun) -> None:
    """Or the tests of finish, card and verify would hold nothing."""
    stages = {line.name: line for line in original_run.manifest.stages}
    assert stages["read"].rejected and stages["solve"].rejected and stages["filter"].accepted > 20
    assert len(original_run.settings.shards) == 3
