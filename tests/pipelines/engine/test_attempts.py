"""Workers of an earlier attempt stop, and a worker that falls silent is missed."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.engine.test_shards import echo_work, runs, spooled
from trailforge.pipelines.engine import pipeline
from trailforge.pipelines.engine.attempts import (
    Patience,
    Superseded,
    await_earlier,
    begin_attempt,
    claim_shard,
    drop_claim,
    holds_claim,
    is_current,
    watching,
)
from trailforge.pipelines.engine.pipeline import RunShards, write_shard
from trailforge.pipelines.engine.progress import ProgressFile, begin_progress, live_files, read_progress
from trailforge.pipelines.engine.shards import receipt_path
from trailforge.schemas import ClusterError

QUICK = Patience(start_s=0.4, silence_s=0.4)


class Job:
    """Notes that it was cancelled."""

    def __init__(self) -> None:
        self.is_cancelled = threading.Event()

    def cancel(self) -> None:
        """Of the runner."""
        self.is_cancelled.set()


def test_the_last_attempt_is_the_current_one(tmp_path: Path) -> None:
    first = begin_attempt(tmp_path)
    assert is_current(tmp_path, first)
    second = begin_attempt(tmp_path)
    assert is_current(tmp_path, second) and not is_current(tmp_path, first)
    (tmp_path / "progress" / "attempt").unlink()
    assert not is_current(tmp_path, second)


@pytest.mark.timeout(150)
def test_a_worker_of_an_earlier_attempt_stops_in_the_midst_of_its_work_and_writes_nothing(tmp_path: Path) -> None:
    (shard,) = spooled(tmp_path, 2)
    do_fn = RunShards(echo_work(tmp_path, q0="slow"), str(tmp_path), begin_attempt(tmp_path))
    do_fn.setup()
    do_fn.start_bundle()
    do_fn.process(shard)
    while not runs(tmp_path):
        time.sleep(0.01)
    begin_attempt(tmp_path)
    with pytest.raises(Superseded):
        list(do_fn.finish_bundle())
    with pytest.raises(Superseded):  # nor does it begin another shard
        do_fn.start_bundle()
        do_fn.process(shard)
        list(do_fn.finish_bundle())
    do_fn.teardown()
    assert not receipt_path(tmp_path, shard).exists() and not (tmp_path / "echo").exists()
    assert not list((tmp_path / "errors").glob("*")), "of no interest to the next attempt"
    assert (tmp_path / "closed.log").exists()


def test_who_claims_a_shard_last_holds_it(tmp_path: Path) -> None:
    first = claim_shard(tmp_path, "part-00000-x")
    assert holds_claim(tmp_path, "part-00000-x", first)
    second = claim_shard(tmp_path, "part-00000-x")
    assert holds_claim(tmp_path, "part-00000-x", second) and not holds_claim(tmp_path, "part-00000-x", first)
    assert not holds_claim(tmp_path, "part-00001-x", second)
    drop_claim(tmp_path, "part-00000-x")
    drop_claim(tmp_path, "part-00000-x")
    assert not holds_claim(tmp_path, "part-00000-x", second)
    claim_shard(tmp_path, "part-00000-0123456789ab")
    begin_progress(tmp_path, ())
    assert [path.name for path in (tmp_path / "progress").iterdir()] == ["begun"], "of a run that is begun again"


@pytest.mark.timeout(150)
@pytest.mark.parametrize("moment", ["while it works", "when it writes"])
def test_a_worker_that_stood_still_pays_and_writes_nothing_for_a_shard_that_another_has_begun(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given up, and comes back when its successor has begun."""
    (shard,) = spooled(tmp_path, 2)
    faults = {"q0": "slow"} if moment == "while it works" else {}
    do_fn = RunShards(echo_work(tmp_path, **faults), str(tmp_path), begin_attempt(tmp_path))

    def write_late(*given: Any) -> None:
        claim_shard(tmp_path, shard.name)
        write_shard(*given)

    monkeypatch.setattr(pipeline, "write_shard", write_late)
    do_fn.setup()
    do_fn.start_bundle()
    do_fn.process(shard)
    while not runs(tmp_path):
        time.sleep(0.01)
    if moment == "while it works":
        claim_shard(tmp_path, shard.name)
    with pytest.raises(Superseded):
        list(do_fn.finish_bundle())
    do_fn.teardown()
    assert not receipt_path(tmp_path, shard).exists() and not list((tmp_path / "echo").glob("*"))
    assert (tmp_path / "cancelled-q0").exists() == (moment == "while it works")


def test_workers_that_give_signs_of_life_are_left_alone(tmp_path: Path) -> None:
    job, worker = Job(), ProgressFile(tmp_path)
    patient = Patience(start_s=3.0, silence_s=3.0)  # a busy machine may hold up a sign
    with watching(tmp_path, job.cancel, patient):
        for number in range(54):
            worker.write({"questions": 1, "in_flight": int(number < 36)})  # a call may take its time
            time.sleep(0.07)
        worker.close({"questions": 2})
        time.sleep(0.2)
    assert not job.is_cancelled.is_set()
    assert read_progress(tmp_path)["questions"] == 2 and not list(live_files(tmp_path))


def test_a_worker_that_falls_silent_ends_the_job_though_another_one_works(tmp_path: Path) -> None:
    job, dead, alive = Job(), ProgressFile(tmp_path), ProgressFile(tmp_path)
    dead.write({})
    with (
        pytest.raises(ClusterError, match="no sign of life for"),
        watching(tmp_path, job.cancel, Patience(start_s=60, silence_s=0.4)),
    ):
        deadline = time.monotonic() + 120
        while not job.is_cancelled.wait(0.05) and time.monotonic() < deadline:
            alive.write({})


@pytest.mark.parametrize("others", [0, 1])
def test_a_worker_that_dies_before_its_first_sign_ends_the_job_when_the_others_are_done(
    tmp_path: Path, others: int
) -> None:
    job, done = Job(), [ProgressFile(tmp_path) for _ in range(others)]
    with (
        pytest.raises(ClusterError, match="no worker has done anything for"),
        watching(tmp_path, job.cancel, Patience(start_s=0.4, silence_s=60)),
    ):
        deadline = time.monotonic() + 120
        while not job.is_cancelled.wait(0.05) and time.monotonic() < deadline:
            for worker in done:
                worker.write({"questions": 3, "in_flight": 0})


PAYING = {"paid_calls": 3}


@pytest.mark.parametrize("is_killed", [True, False])
def test_who_counts_what_is_spent_waits_until_no_earlier_worker_keeps_a_reply(
    tmp_path: Path, *, is_killed: bool
) -> None:
    """One that was killed says no farewell, and can keep nothing when its lease is over."""
    begin_attempt(tmp_path)
    worker, counting = ProgressFile(tmp_path), ProgressFile(tmp_path)
    worker.write(PAYING)
    counting.write({"step read": 9})  # of a stage without a model, which never says farewell
    leaving = threading.Timer(0.4, worker.close)
    if not is_killed:
        leaving.start()
    began, told = time.monotonic(), list[str]()
    await_earlier(tmp_path, told.append, 0.8 if is_killed else 60.0)
    assert (0.8 if is_killed else 0.35) <= time.monotonic() - began < 30
    assert len(told) == 1
    assert not (tmp_path / "progress" / "attempt").exists(), "nobody told the worker to stop"
    worker.close()
    await_earlier(tmp_path, told.append, 60.0)
    assert len(told) == 1


def test_a_worker_says_farewell_when_nothing_more_can_be_kept(tmp_path: Path) -> None:
    """Whoever begins the next attempt counts what was spent from then on."""
    left_before_closed: list[bool] = []

    class Client:
        figures, trouble = PAYING, ""

        async def aclose(self) -> None:
            left_before_closed.append(not [*live_files(tmp_path)])

    async def work(how: str) -> None:
        work, client = echo_work(tmp_path), Client()
        worker = pipeline._Worker(work, tmp_path, begin_attempt(tmp_path), client, None)  # pyright: ignore[reportArgumentType]
        await asyncio.sleep(0.05)
        if how == "closed":
            await worker.close()
            return
        begin_attempt(tmp_path)
        async with asyncio.timeout(30):
            while not worker.has_ended or len(left_before_closed) < 2 or [*live_files(tmp_path)]:
                await asyncio.sleep(0.02)

    for how in ("closed", "superseded"):
        asyncio.run(work(how))
    assert left_before_closed == [False, False]
    assert not [*live_files(tmp_path)]
