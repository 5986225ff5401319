"""Plays Kubernetes on this machine for one run: what its pods run, with loopback for the names of services.

Commands, arguments, variables and secrets are those of the manifests. PostgreSQL's image has a server of the tests in
its place, vLLM's a scripted model. A Job is tried again as its failure policy says.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.launching.slurm import kill_all, scripted_vllm

BESIDE = (("StatefulSet", "vllm"), ("Deployment", "scheduler"), ("Deployment", "worker"))


class Pods:
    """Of one run. `secret`: what its Secret holds; `ledger`: the URL of the database, in the place of the service's."""

    def __init__(self, manifests: Path, home: Path, secret: Mapping[str, str], ledger: str) -> None:
        self.home, self.secret = home, secret
        self.calls = home / "calls.log"
        programs = home / "bin"
        programs.mkdir()
        scripted_vllm(programs / "vllm", home / "vllm.pids", self.calls)
        self._path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), "/usr/bin", "/bin"])
        scheduler, server = _free_ports(2)
        text = manifests.read_text()
        (self._name,) = (each["metadata"]["name"] for each in yaml.safe_load_all(text) if each["kind"] == "Job")
        for name, here in {
            f"postgresql://forger@{self._name}-ledger:5432/calls": ledger,
            f"/dev/tcp/{self._name}-ledger/5432": f"/dev/tcp/127.0.0.1/{ledger.rpartition(':')[2].partition('/')[0]}",
            f"{self._name}-scheduler:8786": f"127.0.0.1:{scheduler}",
            f"/dev/tcp/{self._name}-scheduler/8786": f"/dev/tcp/127.0.0.1/{scheduler}",
            f"{self._name}-vllm-0.{self._name}-vllm:8000": f"127.0.0.1:{server}",
            f"/dev/tcp/{self._name}-vllm/8000": f"/dev/tcp/127.0.0.1/{server}",
            "'8786'": f"'{scheduler}'",
            "'8000'": f"'{server}'",
            "0.0.0.0": "127.0.0.1",
            "/data": str(home),
        }.items():
            assert name in text, name
            text = text.replace(name, here)
        self._objects = {(each["kind"], each["metadata"]["name"]): each["spec"] for each in yaml.safe_load_all(text)}
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """All that runs beside the Job; as many workers as are asked for."""
        for spec in (self._objects[kind, f"{self._name}-{part}"] for kind, part in BESIDE):
            (container,) = spec["template"]["spec"]["containers"]
            self._running += [self._run(container) for _ in range(spec["replicas"])]

    def start_job(self) -> subprocess.Popen[bytes]:
        """A pod of the Job, once what it waits for is there."""
        pod = self._objects["Job", self._name]["template"]["spec"]
        (before,), (container,) = pod["initContainers"], pod["containers"]
        assert self._run(before).wait(300) == 0
        return self._run(container)

    def goes_on_after(self, code: int) -> bool:
        """Whether the Job is tried again after a pod that ended with this code."""
        rules = self._objects["Job", self._name]["podFailurePolicy"]["rules"]
        (failing,) = (rule["onExitCodes"] for rule in rules if rule["action"] == "FailJob")
        return code != 0 and (128 - code if code < 0 else code) not in failing["values"]

    def asked(self) -> list[str]:
        """Keys of the calls that the server was sent."""
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [line.removeprefix("in ") for line in lines if line.startswith("in ")]

    def stop(self) -> None:
        """End all."""
        for process in self._running:
            kill_all(process)
            process.wait()

    def _run(self, container: dict[str, Any]) -> subprocess.Popen[bytes]:
        given = {each["name"]: self._value(each) for each in container.get("env", ())}
        if "envFrom" in container:
            given |= self.secret
        ours = {name: value for name, value in os.environ.items() if not name.startswith("TRAILFORGE_")}
        with (self.home / "pods.log").open("ab") as log:
            return subprocess.Popen(
                [*container["command"], *container.get("args", ())], env={**ours, "PATH": self._path, **given},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home, start_new_session=True,
            )  # fmt: skip

    def _value(self, variable: dict[str, Any]) -> str:
        if "value" in variable:
            return variable["value"]
        return self.secret.get(variable["valueFrom"]["secretKeyRef"]["key"], "")


def kill(process: subprocess.Popen[bytes]) -> int:
    """A pod is lost; the code that it ends with."""
    os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    kill_all(process)
    return code


def _free_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports
