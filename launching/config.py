"""Read where and how work is launched, from the one settings file (`cluster.yaml`) for generation runs and
trainings.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from trailforge.inference.ledgers import check_ledger_url
from trailforge.schemas import InvalidInput, check_least, located

Launcher = Literal["local", "accelerate", "slurm", "k8s"]
Cluster = Literal["slurm", "k8s"]
"""Launchers of generation runs on a cluster; on one machine the command itself is enough."""
Sharding = Literal["none", "fsdp2", "zero2", "zero3"]
"""How a model is spread over devices. `none`: each device holds all of it (DDP)."""

NO_SEQUENCE_PARALLEL = (
    "TRL's RL gives each row to one device; verl parts rows: train rl --engine verl, with sequence_parallel in its "
    "--engine-options"
)
START, FILE = "start", "file"
_SLURM_NAME = re.compile(r"[\w.,-]+", re.ASCII)
"""What a line of `#SBATCH` can hold as it is: partitions may be several, with commas."""
_HOST_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
"""What pods are called begins with it, and is at most 63 long."""
_MOST_OF_NAME, _HEX_OF_NAME = 33, 6
"""Letters: with the hyphen between them as many as a host name of ours may have."""
_QUANTITY = re.compile(r"\d+(\.\d+)?([KMGTP]i?)?B?")
_SECRET_WORDS = ("KEY", "TOKEN", "PASSWORD", "SECRET")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationConfig:
    """The section `generation` of `cluster.yaml`: what `trailforge launch` starts beside a run. Raises `InvalidInput`
    for impossible values.
    """

    nodes: int = 1
    """Number of hosts of a Slurm job. Servers and workers are spread over all of them; the first one also runs the
    rest."""
    servers: int = 1
    """Number of vLLM servers, as the section `server` of the run's preset describes; 0: the command names a server by
    `--model`."""
    workers: int = 4
    """Number of processes that work on shards, on all hosts together. They wait for the model most of their time."""
    cpus_per_node: int = 0
    """Number of CPUs of each host on Slurm; 0: the cluster's default."""
    memory_per_node: str = ""
    """Memory of each host on Slurm, such as 256G; empty: the cluster's default."""
    ledger: str = START
    """Where every model call is kept. `start`: a PostgreSQL that is started with the run;
    `postgresql://user@host/database`: an existing one, its password in TRAILFORGE_LEDGER_PASSWORD; `file`: SQLite in
    the run's folder, for one host alone."""
    tries: int = 3
    """How often the command is started in one allocation while a server or the cluster is away."""
    worker_cpu: str = "1"
    """CPU of a worker's pod on Kubernetes."""
    worker_memory: str = "4Gi"
    ledger_disk: str = "20Gi"
    """Size of the Kubernetes volume claim that holds PostgreSQL's data."""
    vllm_image: str = "vllm/vllm-openai:v0.32.0"
    postgres_image: str = "postgres:17"
    tls_secret: str = ""
    """Name of a Kubernetes Secret with `tls.crt`, `tls.key` and `ca.crt`, for Dask. Without one the scheduler is open
    to pods of this run, and to all that no network policy keeps out."""

    def __post_init__(self) -> None:
        with located(section="generation"):
            check_least(self, 1, "nodes", "workers", "tries")
            check_least(self, 0, "servers", "cpus_per_node")
        for name in ("memory_per_node", "worker_memory", "ledger_disk"):
            text = getattr(self, name)
            if not _QUANTITY.fullmatch(text) and (text or name != "memory_per_node"):
                raise InvalidInput(f"{text!r}: expected a number with a unit, such as 64G", field=f"generation.{name}")
        if not self.ledger:
            raise InvalidInput("say start, file, or the URL of a PostgreSQL", field="generation.ledger")
        if self.ledger == FILE and self.nodes > 1:
            raise InvalidInput(
                "SQLite is for one host: say start, or the URL of a PostgreSQL", field="generation.ledger"
            )
        if self.ledger not in (START, FILE):
            with located(section="generation"):
                check_ledger_url(self.ledger)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchConfig:
    """Where and how work is launched; the first fields concern trainings alone. Raises `InvalidInput` for impossible
    values.
    """

    nodes: int = 1
    """Number of hosts that train."""
    sharding: Sharding = "fsdp2"
    sequence_parallel: int = 1
    """Number of devices that share the tokens of a row. 1 for RL with TRL, which cannot split rows."""
    precision: Literal["bf16", "fp16", "no"] = "bf16"
    vllm_nodes: int = 0
    """Number of further hosts with vLLM servers for the rollouts of `train rl`; 0 or 1. Other commands take none."""
    vllm_tensor_parallel: int = 1
    base_model: str = ""
    """Model that these vLLM servers serve."""

    name: str = "trailforge"
    """Beginning of the names of jobs and pods: on Kubernetes small letters, digits and -, at most 40. The rest of a
    name follows from the output folder's path; the same folder by another path gives another job, with another
    ledger."""
    devices_per_node: int = 8
    """Number of accelerators of a host; in a training also the number of processes there."""
    use_cpu: bool = False
    """Whether processes run on the CPU, joined by gloo, and model servers without an accelerator."""
    time: str = "24:00:00"
    """Time limit as hours:minutes:seconds: that of the Slurm job, which should be well over five minutes, and how long
    to wait for Kubernetes."""
    partition: str = ""
    account: str = ""
    setup: tuple[str, ...] = ()
    """Lines of shell that a Slurm job runs before all else, such as `module load cuda` or `source
    /shared/venv/bin/activate`."""
    image: str = "trailforge:latest"
    """Container image that Kubernetes starts, with the project installed: its working folder is `mount`."""
    namespace: str = "default"
    volume_claim: str = "trailforge"
    """Name of the Kubernetes volume claim that is mounted at `mount`, with data, models and checkpoints. Relative paths
    of a command start there."""
    mount: str = "/data"
    environment: tuple[str, ...] = ()
    """Environment variables as NAME=value for every process but PostgreSQL's pod. No secrets: these come from the
    cluster's own store."""
    secret: str = ""
    """Name of a Kubernetes Secret whose keys become environment variables."""
    generation: GenerationConfig = field(default_factory=GenerationConfig)

    def __post_init__(self) -> None:
        for name, least in (("nodes", 1), ("devices_per_node", 1), ("vllm_nodes", 0), ("vllm_tensor_parallel", 1)):
            check_least(self, least, name)
        if self.sequence_parallel != 1:
            raise InvalidInput(NO_SEQUENCE_PARALLEL, field="sequence_parallel")
        if self.vllm_nodes > 1:
            raise InvalidInput(
                f"expected 0 or 1, got {self.vllm_nodes}: the trainer uses one node of vLLM servers", field="vllm_nodes"
            )
        if self.vllm_nodes and not self.base_model:
            raise InvalidInput("is empty: name the model that the vLLM servers of vllm_nodes serve", field="base_model")
        if not re.fullmatch(r"\d+:[0-5]\d:[0-5]\d", self.time):
            raise InvalidInput(f"{self.time!r}: expected hours:minutes:seconds", field="time")
        for name in ("name", "partition", "account"):
            value = getattr(self, name)
            if not _SLURM_NAME.fullmatch(value) and (value or name == "name"):
                raise InvalidInput(f"{value!r}: expected letters, digits and _ . , -", field=name)
        if not posixpath.isabs(self.mount):
            raise InvalidInput(f"{self.mount!r}: expected an absolute path", field="mount")
        if self.use_cpu and self.sharding != "none":
            raise InvalidInput("on the CPU the model is not sharded; set it to none", field="sharding")
        _refuse_secrets(self.environment)

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment variables, sorted by name. One of them keeps processes from importing files of the
        current folder.
        """
        given = dict(text.split("=", 1) for text in self.environment)
        return dict(sorted({"PYTHONSAFEPATH": "1", **given}.items()))

    @property
    def processes(self) -> int:
        """Return the number of processes of a training, on all hosts together."""
        return self.nodes * self.devices_per_node

    @property
    def minutes(self) -> int:
        """Return `time` in whole minutes, rounded down."""
        hours, minutes, _ = (int(part) for part in self.time.split(":"))
        return hours * 60 + minutes


def _refuse_secrets(environment: Sequence[str]) -> None:
    for text in environment:
        name, equals, _ = text.partition("=")
        if not (equals and name.isidentifier()):
            raise InvalidInput(f"{text!r}: expected NAME=VALUE", field="environment")
        if any(word in name.upper() for word in _SECRET_WORDS):
            raise InvalidInput(
                f"{name} looks like a secret, which would stand in a file; leave it out, and set it where the job runs",
                field="environment",
            )


def name_after(name: str, out: str) -> str:
    """Return the name of the job that writes to a folder, derived from its absolute path: one name for each folder."""
    path = posixpath.normpath(out)
    readable = re.sub(r"[^a-z0-9]+", "-", posixpath.basename(path).lower())
    digest = hashlib.sha256(path.encode()).hexdigest()[:_HEX_OF_NAME]
    return f"{f'{name}-{readable}'[:_MOST_OF_NAME].rstrip('-')}-{digest}"


def pods_name(config: LaunchConfig, out: str) -> str:
    """Return the job's name on Kubernetes, where relative paths start at the volume."""
    return name_after(config.name, posixpath.join(config.mount, out))


def pod_variables(config: LaunchConfig) -> dict[str, str]:
    """Return the environment variables of a pod. Downloads from a hub go to the volume, since a pod's own disk is lost
    with it.
    """
    return {"HF_HOME": posixpath.join(config.mount, "huggingface")} | config.variables


def check_pods(out: str, config: LaunchConfig) -> None:
    """Raise `InvalidInput` for a name that pods cannot have, and for an `--out` that would be lost with its pod."""
    if not _HOST_NAME.fullmatch(config.name):
        raise InvalidInput(f"{config.name!r}: expected small letters, digits and -, at most 40", field="name")
    volume = posixpath.normpath(config.mount)
    path = posixpath.normpath(posixpath.join(volume, out))
    if posixpath.commonpath([volume, path]) != volume:
        raise InvalidInput(
            f"{path} is not on the volume at {volume}, and would be lost with its pod; give a path on it", field="out"
        )


def option_value(command: Sequence[str], name: str) -> str | None:
    """Return the value of an option in a command line, given as `--name value` or `--name=value`; of several the last
    counts."""
    found = None
    for word, following in zip(command, [*command[1:], ""], strict=True):
        if word == name:
            found = following
        elif word.startswith(f"{name}="):
            found = word.partition("=")[2]
    return found
