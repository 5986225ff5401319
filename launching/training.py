"""Render the files that start a training on one machine or on many: accelerate, Slurm, Kubernetes.

A launcher gets the command that one process would run and adds the files around it; those of clusters are templates
beside this file. The command's options do not change: their numbers are global, and each process works out its share.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import yaml

from trailforge.launching.config import (
    LaunchConfig,
    Launcher,
    check_pods,
    option_value,
    pod_variables,
    pods_name,
)
from trailforge.launching.templates import export_lines, fill, fill_tree, read_template
from trailforge.schemas import InvalidInput

ACCELERATE = "accelerate.yaml"
SBATCH, JOBSET, SCRIPT = "train.sbatch", "jobset.yaml", "train.sh"
_PORT, _VLLM_PORT = 29500, 8000
_WORKERS, _SERVERS = "train", "vllm"
_IN_POD = "/tmp"
"""Where a pod writes what is its own; its working folder is the volume, which all pods share."""


def render(
    command: Sequence[str], launcher: Launcher, config: LaunchConfig, folder: str | os.PathLike[str] = "."
) -> dict[str, str]:
    """Return the text of each file by its name; the first file is the one to submit.

    `command` are the arguments of `trailforge`, e.g. `["train", "sft", …]`. `folder` is where the files will be, as all
    hosts see it. A job that a cluster restarts continues from its last checkpoint. Raises `InvalidInput` for what the
    launcher cannot do.
    """
    if launcher not in get_args(Launcher):
        raise InvalidInput(f"no launcher {launcher!r}; there are {', '.join(get_args(Launcher))}", field="launcher")
    if list(command[:2]) != ["train", "rl"]:
        config = replace(config, vllm_nodes=0)
    _check(command, launcher, config)
    if launcher == "local":
        return {SCRIPT: _script([shlex.join(["trailforge", *command])], config)}
    if launcher in ("slurm", "k8s") and option_value(command, "--resume") is None:
        command = [*command, "--resume"]
    accelerate = {ACCELERATE: yaml.safe_dump(accelerate_config(config), sort_keys=False)}
    match launcher:
        case "accelerate":
            return {SCRIPT: _script([_launch(command, config, folder)], config)} | accelerate
        case "slurm":
            return {SBATCH: _sbatch(command, config, folder)} | accelerate
        case _:
            return {JOBSET: _jobset(command, replace(config, name=jobset_name(command, config)))}


def _check(command: Sequence[str], launcher: Launcher, config: LaunchConfig) -> None:
    if launcher != "local" and option_value(command, "--engine") == "verl":
        raise InvalidInput("verl runs on a Ray cluster: start this command on its first node", field="--engine")
    if launcher in ("local", "accelerate") and config.nodes > 1:
        raise InvalidInput("several nodes need the launcher slurm or k8s", field="nodes")
    if launcher in ("local", "accelerate") and config.vllm_nodes:
        raise InvalidInput("a node of vLLM servers needs the launcher slurm or k8s", field="vllm_nodes")
    if config.vllm_nodes and option_value(command, "--vllm-url") is not None:
        raise InvalidInput("starts a server, and --vllm-url names one: give one of them", field="vllm_nodes")
    if launcher == "k8s":
        check_pods(_out(command), config)


def jobset_name(command: Sequence[str], config: LaunchConfig) -> str:
    """Return the name of the JobSet, the object by which Kubernetes runs the pods of a training."""
    return pods_name(config, _out(command))


def _out(command: Sequence[str]) -> str:
    return option_value(command, "--out") or ""


def accelerate_config(config: LaunchConfig) -> dict[str, Any]:
    """Return the content of the file for `accelerate launch --config_file`. Ranks and addresses are given on the
    command line.
    """
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
        asked = [] if option_value(command, "--rollouts") is not None else ["--rollouts vllm-server"]
        asked += [f'--vllm-url "http://$VLLM_HOST:{_VLLM_PORT}"']
    return " ".join([shlex.join(parts), *ranks, shlex.join(["-m", "trailforge", *command]), *asked])


def _script(lines: Sequence[str], config: LaunchConfig) -> str:
    head = ["#!/usr/bin/env bash", "set -euo pipefail", export_lines(config.variables)]
    return "\n".join([*head, *lines]) + "\n"


def _sbatch(command: Sequence[str], config: LaunchConfig, folder: str | os.PathLike[str]) -> str:
    """A batch script: vLLM's node first if there is one, then one task of `accelerate launch` on each other node."""
    server = fill(read_template("train_slurm_server.txt"), {"serve": shlex.quote(shlex.join(_serve(config)))})
    ranks = _ranks('"$SLURM_PROCID"', '"$MAIN_ADDRESS"')
    values = {
        "name": config.name,
        "nodes": str(config.nodes + config.vllm_nodes),
        "gpus": "" if config.use_cpu else str(config.devices_per_node),
        "time": config.time,
        "partition": config.partition,
        "account": config.account,
        "exports": export_lines(config.variables),
        "setup": "\n".join(config.setup),
        "server": server.rstrip() if config.vllm_nodes else "",
        "servers": str(config.vllm_nodes),
        "trainers": str(config.nodes),
        "launch": shlex.quote(_launch(command, config, folder, *ranks)),
    }
    return fill(read_template("train_slurm.txt"), values)


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
    environment = pod_variables(config) | ({"VLLM_HOST": server} if config.vllm_nodes else {})
    jobs = [_replicated(_WORKERS, config.nodes, script, environment, config)]
    if config.vllm_nodes:
        jobs.append(_replicated(_SERVERS, 1, shlex.join(_serve(config)), pod_variables(config), config))
    values = {"name": config.name, "namespace": config.namespace, "jobs": jobs}
    jobset = fill_tree(_jobset_templates()[0], values)
    return "# kubectl apply -f jobset.yaml\n" + yaml.safe_dump(jobset, sort_keys=False)


def _jobset_templates() -> list[Any]:
    """The JobSet, and one of its jobs."""
    return list(yaml.safe_load_all(read_template("train_kubernetes.yaml")))


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
    return fill_tree(_jobset_templates()[1], values)
