"""Plays Slurm on this machine for one job: two hosts on loopback, its programs, a time limit, a next allocation.

The job's own script runs as it was written. What it starts is real (Dask, PostgreSQL, the command) but for vLLM, whose
place a scripted model takes; PostgreSQL, which refuses to run as root, is run as `nobody` then.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.postgres import programs_folder

HOSTS = ("127.0.0.1", "127.0.0.2")
_ROOT = Path(__file__).parents[2]
_PORTS = 6
_PATIENCE_S = 400.0

_SCONTROL = """\
if [ "$1" = show ]; then printf '%s\\n' {hosts}; else echo "$*" >> {log}; {requeue}; fi"""
_SRUN = """\
echo "srun $*" >> {log}
for word in "$@"; do case "$word" in --nodes=*) nodes="${{word#*=}}" ;; esac; done
trap 'kill $(jobs -p) 2> /dev/null; wait; exit 143' TERM
for ((host = 0; host < nodes; host++)); do
  SLURM_NODEID="$host" LISTEN="127.0.0.$((host + 1))" "${{@: -3}}" &
done
wait"""
_AS_NOBODY = """\
for word in "$@"; do case "$word" in *=*/ledger*) chmod o+rwx "$(dirname "${{word#*=}}")" ;; esac; done
exec {run} {program} "$@" """
_VLLM = """\
import asyncio, os, sys
sys.path.insert(0, {root!r})
from tests.support.model_server import Server, main
serve = Server._serve
async def serve_if_permitted(self, key):
    while os.path.exists({permits!r}) and open({log!r}).read().count("out ") >= int(open({permits!r}).read() or 0):
        await asyncio.sleep(0.05)
    await serve(self, key)
Server._serve = serve_if_permitted
given = dict(zip(sys.argv, sys.argv[1:]))
assert os.environ["VLLM_API_KEY"] and "--served-model-name" in given
open({pids!r}, "a").write(f"{{os.getpid()}}\\n")
reader, writer = os.pipe()
sys.stdin = open(reader)  # never at its end
sys.argv = ["vllm", "--host", given["--host"], "--port", given["--port"], "--log", {log!r}]
asyncio.run(main())
"""


STARTED: list[subprocess.Popen[bytes]] = []
"""Jobs that a test has begun, all of which end with it (`kill_started`)."""


class Slurm:
    """One job. `can_requeue`: whether the cluster lets jobs be requeued."""

    def __init__(self, folder: Path, *, can_requeue: bool = True, **programs: str) -> None:
        """`programs`: further ones, by name and shell text."""
        self.folder, self.log, self.calls = folder, folder / "slurm.log", folder / "calls.log"
        self.servers = folder / "vllm.pids"
        home = folder / "bin"
        home.mkdir()
        told = {"log": self.log, "hosts": " ".join(HOSTS), "requeue": "" if can_requeue else "exit 1"}
        shell = {
            "scontrol": _SCONTROL.format(**told).replace("; ; fi", "; fi"),
            "srun": _SRUN.format(**told),
            "sbatch": f'echo "sbatch $*" >> {self.log}',
        }
        for name, body in (shell | _postgres() | programs).items():
            write_program(home / name, body)
        scripted_vllm(home / "vllm", self.servers, self.calls)
        self.id = _free_job()
        path = [home, Path(sys.executable).parent, programs_folder() or "", "/usr/bin", "/bin"]
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TRAILFORGE_")},
            **{"PATH": os.pathsep.join(map(str, path)), "LISTEN": HOSTS[0], "SLURM_JOB_ID": str(self.id)},
            **{"SLURM_JOB_NODELIST": "n[1-2]", "CUDA_VISIBLE_DEVICES": ""},
        }

    def start(self, script: Path) -> subprocess.Popen[bytes]:
        """An allocation for this script."""
        with (self.folder / "job.log").open("ab") as log:
            job = subprocess.Popen(
                ["bash", script], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, cwd=self.folder,
            )  # fmt: skip
        STARTED.append(job)
        return job

    def end_of_time(self, job: subprocess.Popen[bytes]) -> int:
        """The signal of --signal=B:USR1, and the end of all that the job leaves; the script's code."""
        job.send_signal(signal.SIGUSR1)
        return self.wait(job)

    def wait(self, job: subprocess.Popen[bytes]) -> int:
        """The script's code. What it leaves is killed, as Slurm does."""
        try:
            return job.wait(_PATIENCE_S)
        finally:
            kill_all(job)

    def said(self) -> list[str]:
        """What was asked of Slurm."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def asked(self) -> list[str]:
        """Keys of the calls that servers were sent."""
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [line.removeprefix("in ") for line in lines if line.startswith("in ")]

    def until(self, job: subprocess.Popen[bytes], happens: Callable[[], object]) -> None:
        """Wait, while the job runs."""
        deadline = time.monotonic() + _PATIENCE_S
        while not happens():
            assert job.poll() is None and time.monotonic() < deadline, (self.folder / "job.log").read_text()[-6000:]
            time.sleep(0.1)


def kill_started() -> None:
    """End what tests have begun."""
    while STARTED:
        job = STARTED.pop()
        kill_all(job)
        job.wait()


def kill_all(job: subprocess.Popen[bytes]) -> None:
    """What is left of a job: of its session, whatever its process groups."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == job.pid:
                os.kill(int(entry.name), signal.SIGKILL)
        except ProcessLookupError:
            continue


def scripted_vllm(file: Path, pids: Path, calls: Path) -> None:
    """A `vllm` that answers by script, and writes its process ids and the calls that it is sent to these files.

    It answers no more calls than `answer_until` permits, if that was asked.
    """
    fields = {"root": str(_ROOT), "pids": str(pids), "log": str(calls), "permits": str(_permits(calls))}
    write_program(file, _VLLM.format(**fields), sys.executable)


def _permits(calls: Path) -> Path:
    return calls.with_suffix(".permits")


def answer_until(calls: Path, happens: Callable[[], object], within_s: float = _PATIENCE_S) -> None:
    """Let servers answer one call after the other until something happens, and then none: however slow a machine is,
    a run gets no further."""
    file, deadline = _permits(calls), time.monotonic() + within_s
    permitted = int(file.read_text()) if file.exists() else 0
    while not happens():
        assert time.monotonic() < deadline, permitted
        if not file.exists() or (calls.exists() and calls.read_text().count("out ") >= permitted):
            permitted += 1
            file.with_suffix(".new").write_text(str(permitted))
            file.with_suffix(".new").replace(file)
        time.sleep(0.02)


def answer_all(calls: Path) -> None:
    """Let servers answer all calls again."""
    _permits(calls).unlink()


def write_program(file: Path, body: str, interpreter: str = "/usr/bin/env bash") -> None:
    """A program that stands for another one."""
    file.write_text(f"#!{interpreter}\n{body}\n")
    file.chmod(0o755)


def _postgres() -> dict[str, str]:
    """Programs that run as `nobody` for root, and none for others."""
    home, run = programs_folder(), shutil.which("setpriv")
    if home is None or run is None or os.geteuid() != 0:
        return {}
    lowered = f"{run} --reuid=nobody --regid=nogroup --clear-groups"
    return {name: _AS_NOBODY.format(run=lowered, program=home / name) for name in ("initdb", "postgres")}


def _free_job() -> int:
    """A job's number whose ports are free on both hosts."""
    while True:
        job = random.SystemRandom().randrange(1, 500)
        first = 10000 + job % 500 * 40
        if all(_is_free(host, first + port) for host in HOSTS for port in range(_PORTS)):
            return job


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) != 0
