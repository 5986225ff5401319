"""Files that start a training on one machine or on many: accelerate, Slurm, Kubernetes. Pure: text in, text out.

A launcher gets the command that one process would run and gives the files around it; those of clusters are templates
beside this file. What the command is asked does
not change: its numbers are global ones, and each process works out its share.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any, Literal, get_args

import yaml

from trailforge.schemas import InvalidInput

Launcher = Literal["local", "accelerate", "slurm", "k8s"]
Sharding = Literal["none", "fsdp2", "zero2", "zero3"]
"""How a model is spread over devices. `none`: each device holds all of it (DDP)."""

NO_SEQUENCE_PARALLEL = (
    "TRL's RL gives each row to one device; verl parts rows: train rl --engine verl, with sequence_parallel in its "
    "--engine-options"
)
ACCELERATE = "accelerate.yaml"
_SBATCH, _JOBSET, _LOCAL = "train.sbatch", "jobset.yaml", "train.sh"
_PORT, _VLLM_PORT = 29500, 8000
_WORKERS, _SERVERS = "train", "vllm"
_IN_POD = "/tmp"
"""Where a pod writes what is its own; its working folder is the volume, which all pods share."""
_SLURM_NAME = re.compile(r"[\w.,-]+", re.ASCII)
"""What a line of `#SBATCH` can hold as it is: partitions may be several, with commas."""
_NAME = re.compile(r"\{\{(\w+)\}\}")
"""Of a value in a template."""
_HOST_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
"""What pods are called begins with it, and is at most 63 long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchConfig:
    """Where a training runs. Raises `InvalidInput` for what cannot be."""

    name: str = "trailforge"
    """Of the job; also the first part of host names on Kubernetes: small letters, digits and -, at most 40."""
    nodes: int = 1
    """That train."""
    devices_per_node: int = 8
    """Processes per node, one for each accelerator."""
    sharding: Sharding = "fsdp2"
    sequence_parallel: int = 1
    """Devices that share the tokens of a row. 1: TRL's RL parts none."""
    precision: Literal["bf16", "fp16", "no"] = "bf16"
    use_cpu: bool = False
    """Processes on the CPU, joined by gloo."""
    vllm_nodes: int = 0
    """Further nodes that hold vLLM servers for the rollouts of `train rl`; 0 or 1. Other commands take none."""
    vllm_tensor_parallel: int = 1
    base_model: str = ""
    """What these serve."""
    time: str = "24:00:00"
    """Slurm's limit, which wants to be well over five minutes, and how long is waited for Kubernetes:
    hours:minutes:seconds."""
    partition: str = ""
    account: str = ""
    image: str = "trailforge:latest"
    """Container that Kubernetes starts, with the project installed: its working folder is `mount`."""
    namespace: str = "default"
    volume_claim: str = "trailforge"
    """Kubernetes: what is mounted at `mount`, with data, models and checkpoints. Paths of a command that are not
    absolute are taken from there."""
    mount: str = "/data"
    environment: tuple[str, ...] = ()
    """NAME=VALUE for every process. No secrets: these come from the cluster's own store."""
    secret: str = ""
    """Kubernetes: name of a Secret whose keys become environment variables."""

    def __post_init__(self) -> None:
        for name, least in (("nodes", 1), ("devices_per_node", 1), ("vllm_nodes", 0), ("vllm_tensor_parallel", 1)):
            if getattr(self, name) < least:
                raise InvalidInput(f"has to be {least} or more", field=name)
        if self.sequence_parallel != 1:
            raise InvalidInput(NO_SEQUENCE_PARALLEL, field="sequence_parallel")
        if self.vllm_nodes > 1:
            raise InvalidInput("one node of vLLM servers is what the trainer speaks to", field="vllm_nodes")
        if self.vllm_nodes and not self.base_model:
            raise InvalidInput("vLLM has to be told which model to serve", field="base_model")
        if not re.fullmatch(r"\d+:[0-5]\d:[0-5]\d", self.time):
            raise InvalidInput(f"{self.time!r}: expected hours:minutes:seconds", field="time")
        for name in ("name", "partition", "account"):
            value = getattr(self, name)
            if not _SLURM_NAME.fullmatch(value) and (value or name == "name"):
                raise InvalidInput(f"{value!r}: expected letters, digits and _ . , -", field=name)
        if not posixpath.isabs(self.mount):
            raise InvalidInput(f"{self.mount!r}: expected an absolute path", field="mount")
        if self.use_cpu and self.sharding != "none":
            raise InvalidInput("on the CPU the model is not sharded: none", field="sharding")
        for text in self.environment:
            name, equals, _ = text.partition("=")
            if not (equals and name.isidentifier()):
                raise InvalidInput(f"{text!r}: expected NAME=VALUE", field="environment")
            if any(word in name.upper() for word in ("KEY", "TOKEN", "PASSWORD", "SECRET")):
                raise InvalidInput(f"{name} looks like a secret, which would stand in a file", field="environment")

    @property
    def variables(self) -> dict[str, str]:
        """The environment, by name in order. No process imports what lies in the folder that it is started in."""
        given = dict(text.split("=", 1) for text in self.environment)
        return dict(sorted({"PYTHONSAFEPATH": "1", **given}.items()))

    @property
    def processes(self) -> int:
        """On all nodes together."""
        return self.nodes * self.devices_per_node


def render(
    command: Sequence[str], launcher: Launcher, config: LaunchConfig, folder: str | os.PathLike[str] = "."
) -> dict[str, str]:
    """Files by name. `command`: arguments of `trailforge`, e.g. `["train", "sft", …]`.

    The first file is the one to hand in. `folder`: where the files will be, as all nodes see it. A job that a cluster
    starts anew goes on from its last checkpoint. Raises `InvalidInput` for what the launcher cannot do.
    """
    if launcher not in get_args(Launcher):
        raise InvalidInput(f"no launcher {launcher!r}; there are {', '.join(get_args(Launcher))}", field="launcher")
    if list(command[:2]) != ["train", "rl"]:
        config = replace(config, vllm_nodes=0)
    _check(command, launcher, config)
    if launcher == "local":
        return {_LOCAL: _script([shlex.join(["trailforge", *command])], config)}
    if launcher in ("slurm", "k8s") and "--resume" not in command:
        command = [*command, "--resume"]
    accelerate = {ACCELERATE: yaml.safe_dump(accelerate_config(config), sort_keys=False)}
    match launcher:
        case "accelerate":
            return {_LOCAL: _script([_launch(command, config, folder)], config)} | accelerate
        case "slurm":
            return {_SBATCH: _sbatch(command, config, folder)} | accelerate
        case _:
            return {_JOBSET: _jobset(command, config)}


def _check(command: Sequence[str], launcher: Launcher, config: LaunchConfig) -> None:
    if launcher in ("local", "accelerate") and config.nodes > 1:
        raise InvalidInput("several nodes need slurm or k8s", field="nodes")
    if launcher in ("local", "accelerate") and config.vllm_nodes:
        raise InvalidInput("a node of vLLM servers needs slurm or k8s", field="vllm_nodes")
    if config.vllm_nodes and "--vllm-url" in command:
        raise InvalidInput("starts a server, and --vllm-url names one: give one of them", field="vllm_nodes")
    if launcher != "k8s":
        return
    if not _HOST_NAME.fullmatch(config.name):
        raise InvalidInput(f"{config.name!r}: expected small letters, digits and -, at most 40", field="name")
    if "--out" in command:
        volume = posixpath.normpath(config.mount)
        out = posixpath.normpath(posixpath.join(volume, command[command.index("--out") + 1]))
        if posixpath.commonpath([volume, out]) != volume:
            raise InvalidInput(
                f"{out} is not on the volume, which is at {volume}: it would end with its pod", field="out"
            )


def accelerate_config(config: LaunchConfig) -> dict[str, Any]:
    """What `accelerate launch --config_file` reads. Ranks and addresses are given on the command line."""
    common: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": _distributed_type(config),
        "mixed_precision": config.precision,
        "num_machines": config.nodes,
        "num_processes": config.processes,
        "machine_rank": 0,
        "main_training_function": "main",
        "rdzv_backend": "static",
        "same_network": True,
        "use_cpu": config.use_cpu,
        "debug": False,
    }
    if config.sharding == "fsdp2":
        common["fsdp_config"] = {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_cpu_ram_efficient_loading": True,
            "fsdp_offload_params": False,
            "fsdp_reshard_after_forward": True,
            "fsdp_state_dict_type": "FULL_STATE_DICT",
        }
    if config.sharding in ("zero2", "zero3"):
        stage = int(config.sharding[-1])
        common["deepspeed_config"] = {
            "zero_stage": stage,
            "zero3_init_flag": stage == 3,
            "zero3_save_16bit_model": stage == 3,
            "offload_optimizer_device": "none",
            "offload_param_device": "none",
            "deepspeed_multinode_launcher": "standard",
        }
    return common


def _distributed_type(config: LaunchConfig) -> str:
    if config.sharding == "fsdp2":
        return "FSDP"
    if config.sharding in ("zero2", "zero3"):
        return "DEEPSPEED"
    if config.processes == 1:
        return "NO"
    return "MULTI_CPU" if config.use_cpu else "MULTI_GPU"


def _launch(command: Sequence[str], config: LaunchConfig, folder: str | os.PathLike[str], *ranks: str) -> str:
    """The line that starts the processes of one node. `ranks`: options as a shell is to read them."""
    parts = ["accelerate", "launch", "--config_file", os.path.join(folder, ACCELERATE)]
    parts += ["--num_processes", str(config.processes), "--num_machines", str(config.nodes)]
    asked = []
    if config.vllm_nodes:
        asked = [] if "--rollouts" in command else ["--rollouts vllm-server"]
        asked += [f'--vllm-url "http://$VLLM_HOST:{_VLLM_PORT}"']
    return " ".join([shlex.join(parts), *ranks, shlex.join(["-m", "trailforge", *command]), *asked])


def _script(lines: Sequence[str], config: LaunchConfig) -> str:
    exports = [f"export {name}={shlex.quote(value)}" for name, value in config.variables.items()]
    return "\n".join(["#!/usr/bin/env bash", "set -euo pipefail", *exports, *lines]) + "\n"


def _sbatch(command: Sequence[str], config: LaunchConfig, folder: str | os.PathLike[str]) -> str:
    """A batch script: vLLM's node first if there is one, then one task of `accelerate launch` on each other node."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in config.variables.items()]
    server = _fill(_template("sbatch_server.txt"), {"serve": shlex.quote(shlex.join(_serve(config)))})
    ranks = _ranks('"$SLURM_PROCID"', '"$MAIN_ADDRESS"')
    values = {
        "name": config.name,
        "nodes": str(config.nodes + config.vllm_nodes),
        "gpus": "" if config.use_cpu else str(config.devices_per_node),
        "time": config.time,
        "partition": config.partition,
        "account": config.account,
        "exports": "\n".join(exports),
        "server": server.rstrip() if config.vllm_nodes else "",
        "servers": str(config.vllm_nodes),
        "trainers": str(config.nodes),
        "launch": shlex.quote(_launch(command, config, folder, *ranks)),
    }
    return _fill(_template("sbatch.txt"), values)


def _template(name: str) -> str:
    return (resources.files("trailforge.training.launching") / name).read_text(encoding="utf-8")


def _fill(template: str, values: Mapping[str, str]) -> str:
    """A text with values in the place of their names. A line whose value is empty is left out."""
    lines = [line for line in template.splitlines() if all(values[name] for name in _NAME.findall(line))]
    return "\n".join(_NAME.sub(lambda name: values[name[1]], line) for line in lines) + "\n"


def _fill_tree(template: Any, values: Mapping[str, Any]) -> Any:
    """The same for YAML that was read: a value may be anything, and takes its key along where it is None."""
    if isinstance(template, dict):
        filled = {key: _fill_tree(value, values) for key, value in template.items()}
        return {key: value for key, value in filled.items() if value is not None}
    if isinstance(template, list):
        return [_fill_tree(value, values) for value in template]
    name = _NAME.fullmatch(template) if isinstance(template, str) else None
    return template if name is None else values[name[1]]


def _serve(config: LaunchConfig) -> list[str]:
    """TRL's server: vLLM that takes new weights from the trainer. One of it: of dense models vLLM runs no more."""
    parallel = ["--tensor-parallel-size", str(config.vllm_tensor_parallel)]
    served = ["trl", "vllm-serve", "--model", config.base_model, *parallel]
    return [*served, "--host", "0.0.0.0", "--port", str(_VLLM_PORT)]


def _ranks(rank: str, address: str) -> tuple[str, ...]:
    """Who this node is, and where node 0 is, as the shell of the node reads it."""
    return (f"--machine_rank {rank}", f"--main_process_ip {address}", f"--main_process_port {_PORT}")


def _jobset(command: Sequence[str], config: LaunchConfig) -> str:
    """A JobSet: its headless service gives each pod a name that the others know (NAME-train-0-0 is node 0)."""
    first = f"{config.name}-{_WORKERS}-0-0.{config.name}"
    ranks = _ranks('"$JOB_COMPLETION_INDEX"', first)
    accelerate = yaml.safe_dump(accelerate_config(config), sort_keys=False)
    script = "\n".join(
        [
            "set -euo pipefail",
            f"cat > {_IN_POD}/{ACCELERATE} <<'END'",
            accelerate.rstrip(),
            "END",
            _launch(command, config, _IN_POD, *ranks),
        ]
    )
    server = f"{config.name}-{_SERVERS}-0-0.{config.name}"
    environment = config.variables | ({"VLLM_HOST": server} if config.vllm_nodes else {})
    jobs = [_replicated(_WORKERS, config.nodes, script, environment, config)]
    if config.vllm_nodes:
        jobs.append(_replicated(_SERVERS, 1, shlex.join(_serve(config)), config.variables, config))
    values = {"name": config.name, "namespace": config.namespace, "jobs": jobs}
    jobset = _fill_tree(_jobset_templates()[0], values)
    return "# kubectl apply -f jobset.yaml\n" + yaml.safe_dump(jobset, sort_keys=False)


def _jobset_templates() -> list[Any]:
    """The JobSet, and one of its jobs."""
    return list(yaml.safe_load_all(_template("jobset.yaml")))


def _replicated(
    name: str, pods: int, script: str, environment: Mapping[str, str], config: LaunchConfig
) -> dict[str, Any]:
    values = {
        "job": name,
        "pods": pods,
        "image": config.image,
        "script": script,
        "mount": config.mount,
        "env": [{"name": key, "value": value} for key, value in sorted(environment.items())],
        "secrets": [{"secretRef": {"name": config.secret}}] if config.secret else None,
        "resources": None if config.use_cpu else {"limits": {"nvidia.com/gpu": config.devices_per_node}},
        "volume_claim": config.volume_claim,
    }
    return _fill_tree(_jobset_templates()[1], values)
