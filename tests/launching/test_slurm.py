"""A run's job as Slurm would run it: servers, workers, scheduler and ledger, and its end of time in the middle."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.commands.test_docs_commands import taken
from tests.launching.slurm import Slurm, answer_all, answer_until, kill_started, write_program
from tests.launching.test_generation import RUN, TWO_HOSTS
from tests.support.postgres import programs_folder
from tests.support.world import write_questions
from trailforge import cli
from trailforge.launching.generation import render_run
from trailforge.pipelines.runs.verify import verify_run

IN_FLIGHT, WORKERS = 4, 2
PRESET = {
    "model": {"name": "scripted", "max_in_flight": IN_FLIGHT},
    "generator": {"rollout": {"top_k": 2}},
    "retrieval": {"kind": "bm25"},
    "output": {"shard_size": 2},
    "server": {"model": "scripted", "silence_s": 20},
}
SETTINGS = {
    "use_cpu": True,
    "sharding": "none",
    "generation": {"nodes": 2, "servers": 2, "workers": WORKERS},
}


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that another user may enter, as PostgreSQL is run by one for root."""
    with tempfile.TemporaryDirectory(prefix="trailforge-slurm-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)
        kill_started()


def written(home: Path, monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, Any], *more: str) -> Path:
    """The job's script, as the command writes it. `more`: further options of the run."""
    monkeypatch.chdir(home)
    monkeypatch.setattr("trailforge.launching.generation._PAUSE_S", 1)
    write_questions(home / "questions.jsonl", 10)
    (home / "preset.yaml").write_text(yaml.safe_dump(PRESET))
    (home / "cluster.yaml").write_text(yaml.safe_dump(settings))
    words = ["launch", "slurm", "--settings", "cluster.yaml", "mcts-trajectories", "--questions", "questions.jsonl"]
    done = CliRunner().invoke(
        cli.app, [*words, "--preset", "preset.yaml", "--out", "run", *more], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return home / "run-launch" / "generate.sbatch"


@pytest.mark.slow
@pytest.mark.skipif("TRAILFORGE_REHEARSE" not in os.environ, reason="`make rehearse` runs it")
@pytest.mark.skipif(programs_folder() is None, reason="PostgreSQL is not installed here (no initdb)")
def test_a_run_goes_on_in_the_next_allocation_and_pays_for_nothing_twice(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    script, slurm = written(home, monkeypatch, SETTINGS), Slurm(home)
    run = home / "run"
    job = slurm.start(script)
    answer_until(slurm.calls, lambda: len(slurm.asked()) > 40)
    # A server dies under way: it is started again, and the run goes on.
    first = slurm.servers.read_text().split()
    assert len(first) == 2
    os.kill(int(first[0]), signal.SIGKILL)
    slurm.until(job, lambda: len(slurm.servers.read_text().split()) == 3)
    answer_until(slurm.calls, lambda: list((run / "shards").rglob("*.json")))
    assert not (run / "manifest.json").exists()
    assert slurm.end_of_time(job) == 0
    assert slurm.said()[-1] == f"requeue {slurm.id}"
    receipts = {path: path.stat().st_ino for path in (run / "shards").rglob("*.json")}

    answer_all(slurm.calls)
    assert slurm.wait(slurm.start(script)) == 0, (home / "job.log").read_text()[-6000:]
    assert (run / "manifest.json").exists() and not verify_run(run).problems
    assert {path: path.stat().st_ino for path in receipts} == receipts
    # Again only what was under way when the server died, and when time ended.
    asked = slurm.asked()
    assert len(asked) - len(set(asked)) <= 2 * IN_FLIGHT * WORKERS
    assert slurm.said()[-1].startswith("srun")
    assert not list((home / "run-launch").glob("tls-*")) and (home / "run-launch" / "ledger").is_dir()


LISTENS = """\
import socket, sys
if sys.argv[1] == "scheduler":
    port = int(sys.argv[sys.argv.index("--port") + 1])
    server = socket.create_server(("127.0.0.1", port))
    while True:
        server.accept()[0].close()
"""
CHAINED = "sbatch {script}"
"""Without options: what is said on the command line would go over the script's, by which jobs of a run work alone."""
ASKED_FROM_OUTSIDE = ("--model", "http://models.example.org/v1")


OUTSIDE = {"servers": 0, "ledger": "file", "tries": 3}
"""Of the section `generation`: the model is elsewhere."""


def with_stand_ins(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    codes: str,
    *,
    can_requeue: bool = True,
    generation: Mapping[str, Any] = OUTSIDE,
    **programs: str,
) -> Slurm:
    """A job whose command ends with these codes, one after the other; `-`: it works until it is told to end.

    Its scheduler only listens, its workers and servers wait. The command writes its environment to a file.
    """
    more = () if generation.get("servers") else ASKED_FROM_OUTSIDE
    written(home, monkeypatch, {"use_cpu": True, "sharding": "none", "generation": generation}, *more)
    (home / "codes").write_text("".join(f"{code}\n" for code in codes.split()))
    (home / "dask.py").write_text(LISTENS)
    run = f"""\
if [ "$1" = serve-model ]; then exec sleep 600; fi
env > {home}/environment
echo "$*" >> {home}/runs
code="$(sed -n "$(wc -l < {home}/runs)p" {home}/codes)"
if [ "$code" = - ]; then exec sleep 600; fi
exit "$code" """
    dask = f"""if [ "$1" = worker ]; then exec sleep 600; fi; exec {sys.executable} {home}/dask.py "$@" """
    return Slurm(home, can_requeue=can_requeue, trailforge=run, dask=dask, **programs)


@pytest.mark.parametrize(
    ("codes", "ends_with", "starts"),
    [("4 10 0", 0, 3), ("3 4 10 0", 10, 3), ("2 0", 2, 1), ("7 0", 7, 1), ("137 0", 0, 2), ("8 0", 8, 1)],
)
def test_the_command_is_started_again_for_what_passes_and_for_nothing_else(
    home: Path, monkeypatch: pytest.MonkeyPatch, codes: str, ends_with: int, starts: int
) -> None:
    slurm = with_stand_ins(home, monkeypatch, codes)
    assert slurm.wait(slurm.start(home / "run-launch" / "generate.sbatch")) == ends_with
    runs = (home / "runs").read_text().splitlines()
    assert len(runs) == starts and len(set(runs)) == 1
    given = taken(shlex.split(runs[0])).params
    assert given["cluster"].startswith("tls://127.0.0.1:") and given["model"] == ASKED_FROM_OUTSIDE[1]
    assert not [line for line in slurm.said() if line.startswith(("requeue", "sbatch"))]
    assert not list((home / "run-launch").glob("tls-*"))


@pytest.mark.parametrize(("can_requeue", "asked"), [(True, ["requeue {id}"]), (False, ["requeue {id}", CHAINED])])
def test_at_the_end_of_its_time_a_job_is_requeued_or_chained(
    home: Path, monkeypatch: pytest.MonkeyPatch, can_requeue: bool, asked: list[str]
) -> None:
    slurm = with_stand_ins(home, monkeypatch, "-", can_requeue=can_requeue)
    script = home / "run-launch" / "generate.sbatch"
    job = slurm.start(script)
    slurm.until(job, (home / "runs").exists)
    assert slurm.end_of_time(job) == 0
    expected = [each.format(id=slurm.id, script=script) for each in asked]
    assert [line for line in slurm.said() if not line.startswith("srun")] == expected


def variables(file: Path) -> dict[str, str]:
    """What `env` has written of ours."""
    lines = (line.partition("=") for line in file.read_text().splitlines() if line.startswith("TRAILFORGE_"))
    return {name: value for name, _, value in lines}


ENDS_BY_INT = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); signal.pause()"
"""As PostgreSQL does, also where it is started with the signal ignored."""


def test_keys_that_a_job_makes_end_with_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm keeps the environment of what is submitted in a file, and the next job would have them. Yours go on."""
    slurm = with_stand_ins(
        home, monkeypatch, "-", can_requeue=False, generation={"servers": 1, "workers": 1},
        initdb='for word in "$@"; do case "$word" in --pgdata=*) mkdir "${word#*=}" ;; esac; done',
        postgres=f'if [ "$1" = --single ]; then exec cat; fi; exec {sys.executable} -c "{ENDS_BY_INT}"',
        pg_isready="", curl="", sbatch=f"env > {home}/submitted",
    )  # fmt: skip
    slurm.environment["TRAILFORGE_API_KEY"] = "mine"
    job = slurm.start(home / "run-launch" / "generate.sbatch")
    slurm.until(job, (home / "runs").exists)
    assert slurm.end_of_time(job) == 0, (home / "job.log").read_text()
    assert variables(home / "environment")["TRAILFORGE_LEDGER_PASSWORD"]
    assert "TRAILFORGE_LEDGER_PASSWORD" not in variables(home / "submitted")
    assert variables(home / "submitted")["TRAILFORGE_API_KEY"] == "mine"


def test_calls_are_in_the_ledger_that_the_settings_name(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`file` is SQLite, whatever the shell names from which the job is submitted."""
    slurm = with_stand_ins(home, monkeypatch, "0")
    slurm.environment["TRAILFORGE_LEDGER_URL"] = "postgresql://forger@elsewhere/calls"
    assert slurm.wait(slurm.start(home / "run-launch" / "generate.sbatch")) == 0
    assert "TRAILFORGE_LEDGER_URL" not in variables(home / "environment")


def test_an_allocation_in_which_nothing_began_is_not_followed_by_another(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that never loads would else be waited for in one allocation after the other."""
    slurm = with_stand_ins(home, monkeypatch, "0")
    write_program(home / "bin" / "dask", "exec sleep 600")
    job = slurm.start(home / "run-launch" / "generate.sbatch")
    slurm.until(job, lambda: len(slurm.said()) > 0)
    assert slurm.end_of_time(job) == 10
    assert "before the command could begin" in (home / "job.log").read_text()
    assert not (home / "runs").exists() and not [line for line in slurm.said() if line.startswith("requeue")]


def test_what_does_not_come_up_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trailforge.launching.generation._PATIENCE_S", 1)
    slurm = with_stand_ins(home, monkeypatch, "0")
    write_program(home / "bin" / "dask", "exec sleep 600")
    assert slurm.wait(slurm.start(home / "run-launch" / "generate.sbatch")) == 4
    assert "error: Dask's scheduler does not answer after 1 s" in (home / "job.log").read_text()


def test_patience_is_of_the_clock_and_not_of_how_often_is_asked(tmp_path: Path) -> None:
    """A server whose host drops what it is sent lets each question wait for seconds."""
    script = render_run(RUN, "slurm", TWO_HOSTS, str(tmp_path), str(tmp_path))["node.sh"]
    (tmp_path / "node.sh").write_text(
        script.replace(
            '\n"$@"\n',
            f"""
asks() {{ echo asked >> {tmp_path}/log; sleep 2; return 1; }}
until_ready "the model" 6 asks
""",
        )
    )
    done = subprocess.run(["bash", tmp_path / "node.sh"], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 4 and "error: the model does not answer after 6 s" in done.stderr
    assert 1 <= len((tmp_path / "log").read_text().splitlines()) <= 4


def test_a_program_that_is_not_there_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = with_stand_ins(home, monkeypatch, "0")
    slurm.environment["PATH"] = f"{home}/bin:/usr/bin:/bin"
    (home / "bin" / "dask").unlink()
    assert slurm.wait(slurm.start(home / "run-launch" / "generate.sbatch")) == 2
    assert "error: no dask on 127.0.0.1: see setup in the settings" in (home / "job.log").read_text()
