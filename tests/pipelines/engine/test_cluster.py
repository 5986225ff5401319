"""Which clusters may be used, what moves when a worker is lost, and stages without a model on Dask's own graphs."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.engine.test_shards import echo_work, runs, spooled
from trailforge.inference import Usage
from trailforge.pipelines.engine import cluster, dask_jobs, pipeline
from trailforge.pipelines.engine.attempts import Patience, begin_attempt
from trailforge.pipelines.engine.beam_work import Begin, beam_pipeline, spread_elements
from trailforge.pipelines.engine.cluster import ClusterPlace, check_one_machine, parse_cluster, read_cluster
from trailforge.pipelines.engine.dask_jobs import run_tasks
from trailforge.pipelines.engine.runners import LOCAL, beam_options, dask_address
from trailforge.pipelines.engine.shards import receipt_path
from trailforge.schemas import ClusterError, InvalidInput, OutputError

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def on_dask() -> Iterator[tuple[str, ...]]:
    """A scheduler with two workers, in threads of this process."""
    place: dict[str, Any] = {"processes": False, "dashboard_address": None, "host": "127.0.0.1", "protocol": "tcp://"}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, silence_logs=50, **place) as here:
        yield ("--runner=dask", f"--scheduler={here.scheduler_address}")


@pytest.mark.parametrize("text", ["tcp://127.0.0.1:8786", "tcp://localhost:8786", "tcp://[::1]:1", "tls://head:8786"])
def test_a_scheduler_on_this_machine_or_behind_tls_may_be_used(text: str) -> None:
    assert parse_cluster(text) == ClusterPlace(address=text)


@pytest.mark.parametrize("text", ["tcp://head:8786", "tcp://10.0.0.5:8786", "ws://head:80", "tcp://0.0.0.0:8786"])
def test_an_open_scheduler_on_a_network_is_refused_unless_it_is_wanted(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"run what anybody sends them.*--insecure"):
        parse_cluster(text)
    assert parse_cluster(text, insecure=True).address == text


@pytest.mark.parametrize(
    "text", ["head:8786", "tls://head", "http://head:1", "local:x", "local:0", "no.yaml", "", "tls://h:x"]
)
def test_what_names_no_cluster_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="--cluster"):
        parse_cluster(text)


def test_processes_here_are_counted(tmp_path: Path) -> None:
    assert parse_cluster("local:4").workers == 4
    assert parse_cluster("local").workers >= 1
    (tmp_path / "slurm.yaml").write_text("workers: 2")
    assert parse_cluster(str(tmp_path / "slurm.yaml")).slurm == tmp_path / "slurm.yaml"


def test_a_cluster_goes_with_dask_alone() -> None:
    assert read_cluster("", beam_options()) is None
    assert read_cluster("local:2", beam_options()) == read_cluster("local:2", beam_options("dask"))
    for runner in (beam_options(LOCAL, ["direct_num_workers=2"]), beam_options("portable", ["job_endpoint=h:1"])):
        with pytest.raises(InvalidInput, match="--cluster"):
            read_cluster("local:2", runner)
    with pytest.raises(InvalidInput, match="needs --cluster"):
        read_cluster("", beam_options("dask"))


def test_a_file_of_jobs_has_to_say_how_many(tmp_path: Path) -> None:
    pytest.importorskip("dask_jobqueue")
    file = tmp_path / "slurm.yaml"
    for text in ("queue: cpu", "workers: 0", "workers: -1", "workers: 1.5", "workers: true"):
        file.write_text(text)
        with pytest.raises(InvalidInput, match="workers: N"), cluster.open_cluster(ClusterPlace(slurm=file), tmp_path):
            pass


_SBATCH = """#!/bin/sh
cp "$1" "$JOBS/script"
setsid bash "$JOBS/script" > "$JOBS/worker.log" 2>&1 &
echo $! >> "$JOBS/numbers"
echo Submitted batch job $!
"""
_SCANCEL = """#!/bin/sh
kill -KILL -- "-$1"
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Slurm by stand-ins, which run a job's script here. The folder where they leave it, and the file of options."""
    pytest.importorskip("dask_jobqueue")
    pytest.importorskip("cryptography")
    folder = tmp_path / "jobs"
    folder.mkdir()
    for name, script in (("sbatch", _SBATCH), ("scancel", _SCANCEL)):
        (folder / name).write_text(script)
        (folder / name).chmod(0o700)
    (folder / "slurm.yaml").write_text("{workers: 1, cores: 1, memory: 1GB, local_directory: /tmp, interface: lo}")
    monkeypatch.setenv("JOBS", str(folder))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    yield folder
    for number in (folder / "numbers").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(number), signal.SIGKILL)


@pytest.mark.slow
def test_keys_of_jobs_are_gone_when_the_run_ends(jobs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / cluster.KEYS).mkdir(parents=True)
    (run / cluster.KEYS / "key.pem").write_text("of a run that was killed")
    with cluster.open_cluster(ClusterPlace(slurm=jobs / "slurm.yaml"), run) as arguments:
        assert dask_address(arguments).startswith("tls://")
        keys = list((run / cluster.KEYS).iterdir())
        assert {path.stat().st_mode & 0o77 for path in (run / cluster.KEYS, *keys)} == {0}
        assert not [path for path in keys if "of a run" in path.read_text()]
        run_tasks(arguments, tmp_path, partial(_note, log=tmp_path / "log"), [1], Patience())
        assert str(run / cluster.KEYS) in (jobs / "script").read_text(), "the worker has other keys"
    assert (tmp_path / "log").read_text() == "1\n"
    assert not (run / cluster.KEYS).exists()
    with cluster._keys_in(run / cluster.KEYS):
        assert (run / cluster.KEYS).exists()
        cluster.remove_keys()  # as a command does that is interrupted
        assert not (run / cluster.KEYS).exists()


def test_a_file_for_a_ledger_is_for_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    here = cluster.machine()
    assert here and here == cluster.machine()
    check_one_machine(here, "")
    monkeypatch.setattr(cluster, "machine", lambda: "another")
    check_one_machine(here, "postgresql://forger@db/calls")
    with pytest.raises(InvalidInput, match="is for one: name a ledger in PostgreSQL"):
        check_one_machine(here, "")


def test_workers_on_another_machine_refuse_a_file_for_a_ledger(
    on_dask: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.check_workers(on_dask, "", asks_model=True)
    monkeypatch.setattr(cluster, "machine", lambda: threading.current_thread().name)  # workers have others than we
    with pytest.raises(InvalidInput, match="workers are on other machines"):
        cluster.check_workers(on_dask, "", asks_model=True)


def test_a_worker_is_silent_when_the_scheduler_has_not_heard_of_it_for_so_long() -> None:
    seen: dict[str, tuple[float, float]] = {}
    workers = {"a": {"last_seen": 5.0}, "b": {"last_seen": 900.0}}  # by another clock than ours
    assert dask_jobs._silent(workers, seen, 10, 0.0) == []
    workers["b"]["last_seen"] = 901.0
    assert dask_jobs._silent(workers, seen, 10, 9.0) == []
    assert dask_jobs._silent(workers, seen, 10, 10.5) == ["a"]
    assert dask_jobs._silent({"c": {"last_seen": 1.0}}, seen, 10, 20.0) == []


def _note(item: int, log: Path) -> int:
    with log.open("a") as file:
        file.write(f"{item}\n")
    return item


def test_each_item_is_run(on_dask: tuple[str, ...], tmp_path: Path) -> None:
    run_tasks(on_dask, tmp_path, partial(_note, log=tmp_path / "log"), range(40), Patience())
    assert sorted(map(int, (tmp_path / "log").read_text().split())) == list(range(40))


def _raise(item: int) -> int:
    if item == 3:
        raise OutputError("the disk is full")
    return item


def _err(item: int) -> int:
    raise KeyError(f"a bug at {item}")


def test_an_error_of_an_item_is_raised_as_it_is_and_a_bug_is_the_cluster_s(
    on_dask: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(OutputError, match="the disk is full"):
        run_tasks(on_dask, tmp_path, _raise, range(5), Patience())
    with pytest.raises(ClusterError, match=r"the cluster says: .*a bug at 7.*; run the same command again"):
        run_tasks(on_dask, tmp_path, _err, [7], Patience())


def test_shards_run_on_the_cluster(on_dask: tuple[str, ...], tmp_path: Path) -> None:
    shards = spooled(tmp_path, 3, 2, 2, 1, 1)
    pipeline.run_pipeline(echo_work(tmp_path), tmp_path, shards, on_dask)
    assert all(receipt_path(tmp_path, shard).exists() for shard in shards)
    assert max(Counter(line.split()[0] for line in runs(tmp_path)).values()) == 1
    assert not list((tmp_path / "progress").glob("*.claim*")), "what is finished needs no claim"
    assert not (tmp_path / "progress" / "attempt").exists()


@pytest.mark.parametrize("runner", [(f"--runner={LOCAL}",), ("--runner=dask",)])
def test_a_runner_that_leaves_shards_out_and_reports_success_is_found_out(
    runner: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Receipts count, and no exit code."""
    shards = spooled(tmp_path, 1, 1, 2)

    def do_less(*given: Any, **_: Any) -> None:
        """All but the last, as a runner that computes one of several collections."""
        do_fn = pipeline.RunShards(echo_work(tmp_path), str(tmp_path))
        do_fn.setup()
        do_fn.start_bundle()
        for shard in shards[:-1]:
            do_fn.process(shard)
        list(do_fn.finish_bundle())
        do_fn.teardown()

    def spread_fewer(at: Any, name: str, elements: Any, *given: Any, **more: Any) -> Any:
        return spread_elements(at, name, elements[:-1], *given, **more)

    monkeypatch.setattr(pipeline, "_run_on_dask", do_less)
    monkeypatch.setattr(pipeline, "spread_elements", spread_fewer)
    with pytest.raises(ClusterError, match=f"reports success, but 1 of {len(shards)} shards have no receipt"):
        pipeline.run_pipeline(echo_work(tmp_path), tmp_path, shards, runner)


def _letters(text: str) -> list[tuple[str, int]]:
    return [(letter, 1) for letter in text]


def _write_all(items: list[Any], file: Path) -> str:
    file.write_text(repr(sorted(items, key=repr)))
    return file.name


def _with_total(pair: tuple[str, int], total: int, log: Path) -> tuple[str, int, int]:
    with log.open("a") as file:
        file.write("called\n")
    return (*pair, total)


def _sum_of(pairs: list[tuple[str, int]]) -> int:
    return sum(count for _, count in pairs)


def _build(begin: Begin, folder: Path) -> None:
    """Every operation, side inputs read by many, and three collections of which nothing is made."""
    words = begin.spread("Words", ["abba", "cab", "abba", "d", "ee", "é雪"])
    counts = words.flat_map("Letters", _letters).add_up("Counts")
    total = begin.gather("Total", _sum_of, counts)
    with_total = counts.map("With total", _with_total, total, folder / "calls")
    begin.gather("Write totals", partial(_write_all, file=folder / "totals"), with_total)
    lengths = words.distinct("Once").map("Length", lambda word: (word, len(word)))
    upper = words.filter("Long", lambda word: len(word) > 1).map("Upper", lambda word: (word, word.upper()))
    joined = begin.join("Both", length=lengths, upper=upper).map(
        "Sorted", lambda group: (group[0], {name: sorted(values) for name, values in group[1].items()})
    )
    begin.gather("Write joined", partial(_write_all, file=folder / "joined"), joined)
    grouped = begin.merge("All", lengths, upper).group("By word").map("Plain", lambda g: (g[0], sorted(map(str, g[1]))))
    begin.gather("Write grouped", partial(_write_all, file=folder / "grouped"), grouped)


def test_a_stage_without_a_model_gives_on_dask_what_it_gives_here(on_dask: tuple[str, ...], tmp_path: Path) -> None:
    """Each end is reached, each element once, and each call of a function is one: Beam's runner for Dask fails here."""
    for name, runner in (("here", beam_options()), ("dask", on_dask)):
        folder = tmp_path / name
        folder.mkdir()
        with beam_pipeline(folder, runner, Patience()) as begin:
            _build(begin, folder)
    for file in ("totals", "joined", "grouped", "calls"):
        assert (tmp_path / "dask" / file).read_text() == (tmp_path / "here" / file).read_text(), file
    assert "('a', 5, 16)" in (tmp_path / "here" / "totals").read_text()


@pytest.fixture
def without_workers() -> Iterator[tuple[str, ...]]:
    place: dict[str, Any] = {"processes": False, "dashboard_address": None, "host": "127.0.0.1", "protocol": "tcp://"}
    with distributed.LocalCluster(n_workers=0, silence_logs=50, **place) as here:
        yield ("--runner=dask", f"--scheduler={here.scheduler_address}")


@pytest.mark.timeout(60)
def test_a_stage_without_a_model_waits_for_workers_as_long_as_the_preset_says(
    without_workers: tuple[str, ...], tmp_path: Path
) -> None:
    began = time.monotonic()
    with (
        pytest.raises(ClusterError, match=r"no worker for 0\.5 s; start some, then run the same command again"),
        beam_pipeline(tmp_path, without_workers, Patience(start_s=0.5)) as begin,
    ):
        begin.spread("Words", ["a"]).map("Upper", str.upper)
    assert time.monotonic() - began >= 0.5


def test_a_worker_that_stands_still_in_a_stage_without_a_model_is_taken_away_when_the_preset_says(
    on_dask: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(dask_jobs, "_silent", lambda workers, seen, silence_s, now: asked.append(silence_s) or [])
    with beam_pipeline(tmp_path, on_dask, Patience(silence_s=0.1)) as begin:
        begin.spread("Words", ["a"]).map("Rest", _rest)
    assert set(asked) == {0.1}


def _rest(word: str) -> str:
    time.sleep(0.5)
    return word


def test_keys_meet_whatever_process_they_come_from() -> None:
    from trailforge.pipelines.engine.beam_work import _key_bytes

    assert _key_bytes(("a", ("b", 1), None)) == b"('a',('b',1),None)"
    assert _key_bytes("\ud800") and _key_bytes(b"x") == b"b'x'"
    with pytest.raises(TypeError, match="a key of float"):
        _key_bytes(1.0)


def test_tasks_of_one_process_share_a_client_until_their_attempt_ends(tmp_path: Path, on_dask: tuple[str, ...]) -> None:
    first, second = spooled(tmp_path, 2, 2)
    work, attempt = echo_work(tmp_path), begin_attempt(tmp_path)
    with distributed.Client(on_dask[1].partition("=")[2], set_as_default=False) as client:
        run = partial(pipeline.run_shard_here, work, tmp_path, attempt, cluster.machine())
        names = client.gather([client.submit(run, shard, pure=False) for shard in (first, second)])
    assert names == [first.name, second.name]
    shared = pipeline._shared[tmp_path, attempt]
    (tmp_path / "progress" / "attempt").unlink()
    while not (tmp_path / "closed.log").exists():
        time.sleep(0.02)
    assert shared.worker.has_ended
    assert (tmp_path / "closed.log").read_text() == "closed\n"


def test_a_worker_of_another_machine_writes_into_no_file_of_sqlite(tmp_path: Path, on_dask: tuple[str, ...]) -> None:
    (shard,) = spooled(tmp_path, 2)
    with pytest.raises(InvalidInput, match="is for one"):
        run = partial(pipeline.run_shard_here, echo_work(tmp_path), tmp_path, begin_attempt(tmp_path), "another")
        run_tasks(on_dask, tmp_path, run, [shard], Patience())
    assert not runs(tmp_path)


def test_a_shard_that_was_finished_before_its_worker_was_lost_is_not_run_again(
    on_dask: tuple[str, ...], tmp_path: Path
) -> None:
    (shard,) = spooled(tmp_path, 2)
    work = echo_work(tmp_path)
    pipeline.run_pipeline(work, tmp_path, [shard], on_dask)
    before = runs(tmp_path)
    run_tasks(
        on_dask, tmp_path, partial(pipeline.run_shard_here, work, tmp_path, begin_attempt(tmp_path), cluster.machine()),
        [shard], Patience(),
    )  # fmt: skip
    assert runs(tmp_path) == before


def test_a_scheduler_behind_tls_is_used_by_dask_s_own_configuration(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from dask import config
    from distributed.security import Security

    security = Security.temporary()
    place: dict[str, Any] = {"processes": False, "dashboard_address": None, "host": "127.0.0.1", "protocol": "tls://"}
    place |= {"n_workers": 1, "threads_per_worker": 1, "silence_logs": 50}
    with distributed.LocalCluster(security=security, **place) as here:
        assert here.scheduler_address.startswith("tls://")
        arguments = ("--runner=dask", f"--scheduler={here.scheduler_address}")
        with config.set(cluster.client_keys(security)):
            shards = spooled(tmp_path, 2, 1)
            pipeline.run_pipeline(echo_work(tmp_path), tmp_path, shards, arguments)
        with pytest.raises(ClusterError, match="no scheduler of Dask at tls://"):
            cluster.check_workers(arguments, "", asks_model=False)  # without keys
    assert all(receipt_path(tmp_path, shard).exists() for shard in shards)


def test_limits_of_a_run_go_with_the_client_that_began_it(on_dask: tuple[str, ...]) -> None:
    limits = echo_work(Path()).config.client.limits(Usage())

    def runs_held(dask_scheduler: Any) -> list[str]:
        return sorted(dask_jobs._centers(dask_scheduler).by_run)

    with distributed.Client(on_dask[1].partition("=")[2], set_as_default=False) as watcher:
        with dask_jobs.holding_limits(on_dask, "a", limits, lambda keys: {}):
            assert watcher.run_on_scheduler(runs_held) == ["a"]
        assert watcher.run_on_scheduler(runs_held) == []
        with distributed.Client(on_dask[1].partition("=")[2], set_as_default=False) as killed:
            killed.run_on_scheduler(dask_jobs._begin_center, run="b", limits=limits, client=killed.id)
            assert watcher.run_on_scheduler(runs_held) == ["b"]
        while watcher.run_on_scheduler(runs_held):
            time.sleep(0.05)
