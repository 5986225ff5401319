"""Render the files that start a generation run on Slurm or Kubernetes: model servers, workers, the command, the ledger.

The command is that of one machine, with the addresses of the model servers and of the cluster added.
"""

from __future__ import annotations

import math
import posixpath
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from trailforge.inference.ledgers import MOST_CONNECTIONS
from trailforge.inference.vllm import VllmConfig, vllm_arguments
from trailforge.launching.config import (
    FILE,
    START,
    Cluster,
    LaunchConfig,
    check_pods,
    name_after,
    pod_variables,
    pods_name,
)
from trailforge.launching.templates import export_lines, fill, fill_tree, read_template
from trailforge.schemas import InvalidInput

SBATCH, NODE, MANIFESTS = "generate.sbatch", "node.sh", "generate.yaml"
_OURS = ("--runner", "--cluster", "--insecure", "--beam-option", "--prefect")
"""Options of a run that say where it works."""
_PAUSE_S = 10
"""Before something that ended is started again."""
_PATIENCE_S = 600
"""For ledger and scheduler, which begin within seconds where disk and processors are not busy."""
_LEAST_MINUTES = 10
"""Of an allocation in which servers load and a run gets on."""
_OTHERS = 8
"""Processes beside the workers that use the ledger: the command, workers in the place of lost ones, people."""
_LEDGER_PROGRAMS = ("initdb", "postgres", "pg_isready")
_MOST_SERVERS_PER_NODE = 38
"""A job has forty ports on each host, two of them for scheduler and ledger."""
_PROBE_S = {"vllm_start": 10, "vllm_silence": 20}
"""How often Kubernetes asks a server that loads, and one that is up."""
_TLS = "/etc/trailforge-tls"
_VLLM_PORT = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunToLaunch:
    """A generation run to launch, with the model servers that it needs."""

    command: tuple[str, ...]
    """Arguments of `trailforge`, e.g. `("mcts-trajectories", "--questions", …)`."""
    out: str
    """Folder of the run."""
    preset: str
    """Name or path of the run's preset."""
    model: str = ""
    """Where the model is, by the command or else by its preset."""
    is_named: bool = False
    """Whether the command itself says where the model is."""
    server: VllmConfig | None = None
    """The section `server` of the preset."""
    served: str = ""
    """Name of the model in calls."""
    ledger: str = ""
    """URL of the ledger that the preset names."""


def render_run(run: RunToLaunch, cluster: Cluster, config: LaunchConfig, folder: str, workdir: str) -> dict[str, str]:
    """Return the text of each file by its name; the first file is the one to submit.

    `folder` is where they will be and `workdir` where the command runs, both as all hosts see them. Raises
    `InvalidInput` for impossible settings.
    """
    _check(run, config)
    if cluster == "slurm":
        return _slurm(run, config, folder, workdir)
    return {MANIFESTS: _kubernetes(run, config)}


def _check(run: RunToLaunch, config: LaunchConfig) -> None:
    taken = [word for word in run.command if word.partition("=")[0] in _OURS]
    if taken:
        raise InvalidInput("the launch itself decides where the run works: leave it out", field=taken[0])
    servers = config.generation.servers
    if servers and run.is_named:
        raise InvalidInput(
            f"is {servers}, but --model names a running server: set it to 0, or leave --model out", field=_OF_SERVERS
        )
    if servers and run.server is None:
        raise InvalidInput(f"preset {run.preset} has no section 'server' that says how they run", field=_OF_SERVERS)
    if not servers and (not run.model or run.model == "embedded"):
        raise InvalidInput(
            "nothing else serves the model on a cluster: say 1 or more, or give --model URL", field=_OF_SERVERS
        )
    if run.ledger and config.generation.ledger == FILE:
        raise InvalidInput(
            f"is file, but preset {run.preset} names a PostgreSQL, which would be used: give its URL here",
            field="generation.ledger",
        )


_OF_SERVERS = "generation.servers"


def _slurm(run: RunToLaunch, config: LaunchConfig, folder: str, workdir: str) -> dict[str, str]:
    wanted = config.generation
    if config.minutes <= _LEAST_MINUTES:
        problem = f"five minutes before its end a run is stopped: give it more than {_LEAST_MINUTES} minutes"
        raise InvalidInput(problem, field="time")
    per_node = math.ceil(wanted.servers / wanted.nodes)
    devices = run.server.tensor_parallel_size if run.server and wanted.servers and not config.use_cpu else 0
    if per_node > _MOST_SERVERS_PER_NODE:
        raise InvalidInput(
            f"expected at most {_MOST_SERVERS_PER_NODE} servers on a host, got {per_node}: take fewer, or more nodes",
            field=_OF_SERVERS,
        )
    if per_node * devices > config.devices_per_node:
        raise InvalidInput(
            f"{wanted.servers} of {devices} devices do not fit on {wanted.nodes} hosts of {config.devices_per_node}",
            field=_OF_SERVERS,
        )
    values = {
        "name": name_after(config.name, posixpath.join(workdir, run.out)),
        "nodes": str(wanted.nodes),
        "cpus": str(wanted.cpus_per_node or ""),
        "memory": wanted.memory_per_node,
        "gpus": str(per_node * devices or ""),
        "time": config.time,
        "partition": config.partition,
        "account": config.account,
        "exports": export_lines(config.variables),
        "setup": "\n".join(config.setup),
        "workdir": shlex.quote(workdir),
        "folder": shlex.quote(folder),
        "workers": str(wanted.workers),
        "connections": str(_connections(wanted.workers)),
        "servers": str(wanted.servers),
        "servers_per_node": str(per_node),
        "devices": str(devices),
        "ledger": shlex.quote(wanted.ledger),
        "programs": " ".join(_LEDGER_PROGRAMS) if wanted.ledger == START else "srun",
        "command": shlex.join(run.command),
        "preset": shlex.quote(run.preset),
        "tries": str(wanted.tries),
        "pause": str(_PAUSE_S),
        "patience": str(_PATIENCE_S),
        "ready": str(math.ceil((run.server or VllmConfig()).ready_within_s)),
    }
    return {SBATCH: fill(read_template("generate_slurm.txt"), values)} | {
        NODE: fill(read_template("generate_node.txt"), values)
    }


def _kubernetes(run: RunToLaunch, config: LaunchConfig) -> str:
    check_pods(run.out, config)
    wanted = config.generation
    if wanted.ledger == FILE:
        raise InvalidInput(
            "SQLite works on one host only, and pods run on several: set it to start", field="generation.ledger"
        )
    if wanted.ledger == START and not config.secret:
        raise InvalidInput(
            "PostgreSQL wants a password: name a Secret with TRAILFORGE_LEDGER_PASSWORD (docs/cluster.md)",
            field="secret",
        )
    parts = yaml.safe_load(read_template("generate_kubernetes.yaml"))
    chosen = [
        *(parts["ledger"] if wanted.ledger == START else []),
        *(parts["servers"] if wanted.servers else []),
        *parts["run"],
    ]
    values = _values(run, replace(config, name=pods_name(config, run.out)))
    documents = [yaml.dump(fill_tree(part, values), Dumper=_Plain, sort_keys=False, width=110) for part in chosen]
    return _ABOUT + "---\n".join(documents)


_ABOUT = """\
# kubectl apply -f generate.yaml
# Pods listen on all addresses of the cluster's own network. Nothing is reachable from outside, and the policy keeps
# other pods out where the network honours policies. Keys come from the Secret.
"""


class _Plain(yaml.SafeDumper):
    """Writes what stands twice twice: people read these files."""

    def ignore_aliases(self, data: Any) -> bool:
        """Always."""
        del data
        return True


def _values(run: RunToLaunch, config: LaunchConfig) -> dict[str, Any]:
    wanted, labels = (
        config.generation,
        {"app.kubernetes.io/name": "trailforge", "app.kubernetes.io/instance": config.name},
    )
    parts = {
        f"{part}_labels": labels | {"app.kubernetes.io/component": part}
        for part in ("ledger", "vllm", "scheduler", "worker", "run")
    }
    scheme = "tls" if wanted.tls_secret else "tcp"
    address = f"{scheme}://{config.name}-scheduler:8786"
    asked = ["--runner", "dask", "--cluster", address, *([] if wanted.tls_secret else ["--insecure"])]
    if wanted.servers:
        asked += ["--model", ",".join(_urls(config))]
    ledger = f"postgresql://forger@{config.name}-ledger:5432/calls" if wanted.ledger == START else wanted.ledger
    shared = {
        **pod_variables(config),
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "20",
        **_tls_variables(wanted.tls_secret),
    }
    mounts, volumes = _volumes(config)
    return (
        parts
        | _of_servers(run, config)
        | {
            "labels": labels,
            "name": config.name,
            "namespace": config.namespace,
            "image": config.image,
            "mount": config.mount,
            "volume_claim": config.volume_claim,
            "secret": config.secret,
            "secrets": [{"secretRef": {"name": config.secret}}] if config.secret else None,
            "ledger_disk": wanted.ledger_disk,
            "postgres_image": wanted.postgres_image,
            "postgres_arguments": ["-c", f"max_connections={_connections(wanted.workers)}"],
            "servers": wanted.servers,
            "vllm_image": wanted.vllm_image,
            "scheme": scheme,
            "address": address,
            "workers": wanted.workers,
            "worker_resources": {
                "requests": {"cpu": wanted.worker_cpu, "memory": wanted.worker_memory},
                "limits": {"memory": wanted.worker_memory},
            },
            "scheduler_env": _env(shared),
            "env": _env(shared | {"TRAILFORGE_LEDGER_URL": ledger}),
            "mounts": mounts,
            "volumes": volumes,
            "await": _await(config),
            "command": ["trailforge", *run.command, *asked],
        }
    )


def _urls(config: LaunchConfig) -> list[str]:
    """Of the servers, by the names that a headless service gives its pods."""
    host = f"{config.name}-vllm"
    return [f"http://{host}-{number}.{host}:{_VLLM_PORT}/v1" for number in range(config.generation.servers)]


def _of_servers(run: RunToLaunch, config: LaunchConfig) -> dict[str, Any]:
    server = replace(run.server or VllmConfig(), host="0.0.0.0", port=_VLLM_PORT)
    # Not with the other pods' models: files of vLLM's image belong to another user.
    variables = {
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HOME": posixpath.join(config.mount, "huggingface-vllm"),
        **config.variables,
        **dict(text.split("=", 1) for text in server.variables),
    }
    keys = {"VLLM_API_KEY": "TRAILFORGE_API_KEY", "HF_TOKEN": "HF_TOKEN"} if config.secret else {}
    secrets = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": config.secret, "key": key, "optional": True}}}
        for name, key in keys.items()
    ]
    return {
        "vllm_arguments": vllm_arguments(replace(server, start="command"), run.served),
        "vllm_env": [*_env(variables), *secrets],
        "vllm_resources": None if config.use_cpu else {"limits": {"nvidia.com/gpu": server.tensor_parallel_size}},
        "vllm_start": math.ceil(server.ready_within_s / _PROBE_S["vllm_start"]),
        "vllm_silence": max(1, math.ceil(server.silence_s / _PROBE_S["vllm_silence"])),
    }


def _env(variables: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in variables.items()]


def _connections(workers: int) -> int:
    """That PostgreSQL has to allow: its own default is used up by 25 workers."""
    return MOST_CONNECTIONS * (workers + _OTHERS)


def _tls_variables(secret: str) -> dict[str, str]:
    """Dask's own configuration, as it reads it from the environment."""
    if not secret:
        return {}
    at = "DASK_DISTRIBUTED__COMM__"
    found = {f"{at}REQUIRE_ENCRYPTION": "true", f"{at}TLS__CA_FILE": f"{_TLS}/ca.crt"}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        found |= {f"{at}TLS__{role}__CERT": f"{_TLS}/tls.crt", f"{at}TLS__{role}__KEY": f"{_TLS}/tls.key"}
    return found


def _volumes(config: LaunchConfig) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What pods of a run mount, and where that comes from."""
    mounts: list[dict[str, Any]] = [{"name": "data", "mountPath": config.mount}]
    volumes: list[dict[str, Any]] = [{"name": "data", "persistentVolumeClaim": {"claimName": config.volume_claim}}]
    if secret := config.generation.tls_secret:
        mounts.append({"name": "tls", "mountPath": _TLS, "readOnly": True})
        volumes.append({"name": "tls", "secret": {"secretName": secret}})
    return mounts, volumes


def _await(config: LaunchConfig) -> str:
    """A script that ends when all that the command needs listens. Names of pods that are not ready lead nowhere."""
    wanted = config.generation
    places = [f"{config.name}-scheduler/8786"]
    places += [f"{config.name}-ledger/5432"] if wanted.ledger == START else []
    places += [f"{config.name}-vllm/{_VLLM_PORT}"] if wanted.servers else []
    return "\n".join(f"until (: < /dev/tcp/{place}) 2> /dev/null; do sleep 2; done" for place in places)
