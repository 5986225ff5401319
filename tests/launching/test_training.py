"""Rendered launch files: read by accelerate's own parser, by bash, and held against what JobSet wants."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trailforge.launching.config import LaunchConfig, Launcher, Sharding
from trailforge.launching.training import accelerate_config, render
from trailforge.schemas import InvalidInput

COMMAND = ["train", "rl", "data set", "--preset", "it's mine", "--out", "runs/a"]
ODD = "two words, $HOME, `id`, 'quotes' and \"more\""


def closed(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    """An object with these keys and no others, all there but the optional ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def listed(items: dict[str, Any], least: int = 1) -> dict[str, Any]:
    """A list of these."""
    return {"type": "array", "items": items, "minItems": least}


LABEL = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
TEXT, WHOLE = {"type": "string"}, {"type": "integer", "minimum": 0}
CONTAINER = closed(
    {
        "name": LABEL,
        "image": {"type": "string", "minLength": 1},
        "command": listed(TEXT),
        "workingDir": {"type": "string", "pattern": "^/"},
        "env": listed(closed({"name": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}, "value": TEXT}), 0),
        "envFrom": listed(closed({"secretRef": closed({"name": LABEL})})),
        "volumeMounts": listed(closed({"name": LABEL, "mountPath": {"type": "string", "pattern": "^/"}})),
        "resources": closed({"limits": closed({"nvidia.com/gpu": {"type": "integer", "minimum": 1}})}),
    },
    "envFrom",
    "resources",
)
VOLUME = {
    "oneOf": [
        closed({"name": LABEL, "persistentVolumeClaim": closed({"claimName": LABEL})}),
        closed({"name": LABEL, "emptyDir": closed({"medium": {"enum": ["Memory"]}})}),
    ]
}
POD = closed(
    {
        "restartPolicy": {"enum": ["Never", "OnFailure"]},
        "securityContext": closed({"fsGroup": WHOLE, "fsGroupChangePolicy": {"enum": ["Always", "OnRootMismatch"]}}),
        "containers": listed(CONTAINER),
        "volumes": listed(VOLUME),
    }
)
JOB = closed(
    {
        "parallelism": WHOLE,
        "completions": WHOLE,
        "completionMode": {"const": "Indexed"},
        "backoffLimit": WHOLE,
        "template": closed({"spec": POD}),
    }
)
REPLICATED = closed({"name": LABEL, "replicas": WHOLE, "template": closed({"spec": JOB})})
JOBSET = closed(
    {
        "apiVersion": {"const": "jobset.x-k8s.io/v1alpha2"},
        "kind": {"const": "JobSet"},
        "metadata": closed({"name": LABEL, "namespace": LABEL}),
        "spec": closed(
            {
                "network": closed({"enableDNSHostnames": {"type": "boolean"}, "subdomain": LABEL}),
                "successPolicy": closed({"operator": {"enum": ["All", "Any"]}, "targetReplicatedJobs": listed(LABEL)}),
                "failurePolicy": closed({"maxRestarts": WHOLE}),
                "replicatedJobs": listed(REPLICATED),
            }
        ),
    }
)
"""The fields of JobSet v1alpha2, Job and Pod that these files use, by the names and types of their definitions."""


def bash_reads(script: str) -> None:
    checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


def stand_in(folder: Path, programs: dict[str, str]) -> dict[str, str]:
    """An environment in which these programs, by name and shell text, are found in a folder first."""
    for name, body in programs.items():
        (folder / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def launched(line: str) -> Any:
    """A line `accelerate launch …` as accelerate reads it."""
    from accelerate.commands.launch import launch_command_parser

    words = shlex.split(line)
    assert words[:2] == ["accelerate", "launch"]
    return launch_command_parser().parse_args([word.replace("$SLURM_PROCID", "1") for word in words[2:]])


@pytest.mark.parametrize("sharding", get_args(Sharding))
def test_accelerate_reads_its_configuration(tmp_path: Path, sharding: Sharding) -> None:
    from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file

    path = tmp_path / "accelerate.yaml"
    path.write_text(yaml.safe_dump(accelerate_config(LaunchConfig(nodes=2, sharding=sharding))))
    read = load_config_from_file(str(path))
    assert isinstance(read, ClusterConfig)
    assert (read.num_machines, read.num_processes, read.mixed_precision) == (2, 16, "bf16")
    kind = {"none": "MULTI_GPU", "fsdp2": "FSDP"}.get(sharding, "DEEPSPEED")
    assert read.distributed_type == kind
    assert (read.fsdp_config or {}).get("fsdp_version") == (2 if sharding == "fsdp2" else None)
    assert (read.deepspeed_config or {}).get("zero_stage") == {"zero2": 2, "zero3": 3}.get(sharding)


def test_one_node() -> None:
    (name, script), (other, _) = render(COMMAND, "accelerate", LaunchConfig(environment=(f"NCCL_DEBUG={ODD}",))).items()
    assert (name, other) == ("train.sh", "accelerate.yaml")
    bash_reads(script)
    *_, export, safe, line = script.splitlines()
    assert shlex.split(export) == ["export", f"NCCL_DEBUG={ODD}"]
    assert safe == "export PYTHONSAFEPATH=1"
    read = launched(line)
    assert (read.config_file, read.module, read.num_processes) == ("./accelerate.yaml", True, 8)
    assert [read.training_script, *read.training_script_args] == ["trailforge", *COMMAND]


def test_slurm() -> None:
    config = LaunchConfig(
        nodes=2,
        vllm_nodes=1,
        vllm_tensor_parallel=4,
        base_model="org/model",
        partition="gpu",
        setup=("module load cuda",),
    )
    files = render(COMMAND, "slurm", config)
    script = files["train.sbatch"]
    bash_reads(script)
    options = [line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH")]
    assert {"nodes=3", "gpus-per-node=8", "partition=gpu", "requeue", "signal=B:USR1@300"} <= set(options)
    assert not [option for option in options if option.startswith("account")]
    assert script.index("\nmodule load cuda\n") < script.index("srun")
    server, trainers = (line for line in script.splitlines() if line.startswith("srun"))
    assert shlex.split(shlex.split(server)[-2])[:4] == ["trl", "vllm-serve", "--model", "org/model"]
    assert "--tensor-parallel-size 4" in server and "--data-parallel-size" not in server
    read = launched(shlex.split(trainers)[-2])
    assert (read.machine_rank, read.num_machines, read.num_processes) == (1, 2, 16)
    assert read.main_process_ip == "$MAIN_ADDRESS"
    server_is_asked = ["--rollouts", "vllm-server", "--vllm-url", "http://$VLLM_HOST:8000"]
    assert read.training_script_args == [*COMMAND, "--resume", *server_is_asked]


@pytest.mark.parametrize("launcher", ["slurm", "k8s"])
def test_only_rl_has_a_node_of_vllm(launcher: Launcher) -> None:
    """With the same file for all commands; what another one is asked does not change."""
    config = LaunchConfig(nodes=2, vllm_nodes=1, base_model="m")
    sft = ["train", "sft", "set", "--preset", "p", "--out", "a"]
    assert render(sft, launcher, config) == render(sft, launcher, LaunchConfig(nodes=2))
    assert "vllm" not in "".join(render(sft, launcher, config).values()).lower()


def test_slurm_runs_every_node_with_its_rank(tmp_path: Path) -> None:
    """By a `srun` and `scontrol` that stand for Slurm's on one machine."""
    script = render(COMMAND, "slurm", LaunchConfig(nodes=2))["train.sbatch"]
    stands_for = {
        "scontrol": "printf 'n1\\nn2\\n'",
        "srun": 'for SLURM_PROCID in 0 1; do export SLURM_PROCID; "${@: -3}"; done',
        "accelerate": f"printf '%s\\n' \"$*\" >> {tmp_path}/log",
    }
    environment = stand_in(tmp_path, stands_for) | {"SLURM_JOB_NODELIST": "n[1-2]"}
    subprocess.run(["bash", "-c", script], env=environment, check=True, timeout=200)
    lines = (tmp_path / "log").read_text().splitlines()
    assert [f"--machine_rank {n} --main_process_ip n1 --main_process_port 29500 -m cli" in lines[n] for n in (0, 1)]
    assert (
        all(line.endswith("train rl data set --preset it's mine --out runs/a --resume") for line in lines)
        and len(lines) == 2
    )


@pytest.mark.parametrize(("ended", "code", "requeued"), [(143, 1, True), (0, 0, False)])
def test_slurm_starts_a_job_anew_whose_time_ends(tmp_path: Path, ended: int, code: int, requeued: bool) -> None:
    """The trainers' step is told, not the server's and not srun; when it ends, and not well, the job is requeued."""
    config = LaunchConfig(vllm_nodes=1, base_model="m")
    script = render(COMMAND, "slurm", config)["train.sbatch"]
    home = shlex.quote(str(tmp_path))
    stands_for = {
        "scontrol": f"""if [ "$1" = show ]; then printf 'n1\\nn2\\n'; else echo "$*" >> {home}/log; fi""",
        # The trainers end a while after they are told; the server ends when its srun is killed.
        "srun": f"""case "$1" in
--job-name=train)
  touch {home}/started
  until [ -e {home}/told ]; do sleep 0.02; done
  sleep 0.2; echo trained >> {home}/log; exit {ended};;
*) exec sleep 600;;
esac""",
        "squeue": "printf '7.0 bash\\n7.1 train\\n7.batch batch\\n'",
        "scancel": f'echo "cancel $*" >> {home}/log; touch {home}/told',
    }
    environment = stand_in(tmp_path, stands_for) | {"SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_ID": "7"}
    with subprocess.Popen(["bash", "-c", script], env=environment) as job:
        try:
            deadline = time.monotonic() + 120
            while not (tmp_path / "started").exists():
                assert time.monotonic() < deadline
                time.sleep(0.02)
            job.send_signal(signal.SIGUSR1)
            assert job.wait(timeout=120) == code
        finally:
            job.kill()
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines == ["cancel --signal=TERM 7.1", "trained", *["requeue 7"] * requeued]


def test_kubernetes() -> None:
    config = LaunchConfig(
        name="rl", nodes=2, vllm_nodes=1, base_model="m", secret="keys", environment=(f"NCCL_DEBUG={ODD}",)
    )
    jobset = yaml.safe_load(render(COMMAND, "k8s", config)["jobset.yaml"])
    jsonschema.validate(jobset, JOBSET)
    alone = yaml.safe_load(render(COMMAND, "k8s", LaunchConfig(use_cpu=True, sharding="none"))["jobset.yaml"])
    jsonschema.validate(alone, JOBSET)
    trainers, servers = jobset["spec"]["replicatedJobs"]
    assert (trainers["template"]["spec"]["completions"], servers["template"]["spec"]["completions"]) == (2, 1)
    (container,) = trainers["template"]["spec"]["template"]["spec"]["containers"]
    (server,) = servers["template"]["spec"]["template"]["spec"]["containers"]
    assert container["workingDir"] == server["workingDir"] == container["volumeMounts"][0]["mountPath"] == "/data"
    environment = {each["name"]: each["value"] for each in container["env"]}
    name = jobset["metadata"]["name"]
    expected = {"HF_HOME": "/data/huggingface", "NCCL_DEBUG": ODD, "PYTHONSAFEPATH": "1"}
    assert environment == {**expected, "VLLM_HOST": f"{name}-vllm-0-0.{name}"}
    assert container["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 8}}
    script = container["command"][2]
    bash_reads(script)
    read = launched(script.splitlines()[-1].replace("$JOB_COMPLETION_INDEX", "1"))
    # Not in the working folder, which all pods of all jobs share.
    assert read.config_file == "/tmp/accelerate.yaml" and "cat > /tmp/accelerate.yaml" in script
    assert (read.machine_rank, read.main_process_ip) == (1, f"{name}-train-0-0.{name}")
    assert [read.training_script, *read.training_script_args][:-4] == ["trailforge", *COMMAND, "--resume"]
    assert yaml.safe_load(script.split("<<'END'\n")[1].split("\nEND")[0]) == accelerate_config(config)
    assert json.dumps(jobset).count("hostNetwork") == 0


@pytest.mark.parametrize(
    ("changes", "launcher", "field"),
    [
        ({"nodes": 2}, "accelerate", "nodes"),
        ({"nodes": 2}, "local", "nodes"),
        ({"nodes": 0}, "slurm", "nodes"),
        ({"vllm_nodes": 1}, "slurm", "base_model"),
        ({"vllm_nodes": 2, "base_model": "m"}, "slurm", "vllm_nodes"),
        ({"use_cpu": True}, "accelerate", "sharding"),
        ({"environment": ("WANDB_API_KEY=1",)}, "k8s", "environment"),
        ({"environment": ("no value",)}, "k8s", "environment"),
        ({"name": "My_Run"}, "k8s", "name"),
        ({"time": "1-00:00:00"}, "slurm", "time"),
        ({"name": "x" * 50}, "k8s", "name"),
        ({}, "condor", "launcher"),
        ({"vllm_nodes": 1, "base_model": "m"}, "accelerate", "vllm_nodes"),
        ({"vllm_nodes": 1, "base_model": "m"}, "local", "vllm_nodes"),
        ({"name": ""}, "slurm", "name"),
        ({"name": "a b"}, "slurm", "name"),
        ({"partition": "gpu\nrm -rf x"}, "slurm", "partition"),
        ({"partition": "gpu\n"}, "slurm", "partition"),
        ({"account": "me # you"}, "slurm", "account"),
        ({"mount": "data"}, "k8s", "mount"),
        ({"sequence_parallel": 2}, "accelerate", "sequence_parallel"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], launcher: Launcher, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        render(COMMAND, launcher, LaunchConfig(**changes))
    assert refused.value.field == field


def test_a_server_is_started_or_named() -> None:
    config = LaunchConfig(vllm_nodes=1, base_model="m")
    assert render([*COMMAND, "--rollouts", "vllm-server"], "slurm", config)["train.sbatch"].count("--rollouts") == 1
    assert render([*COMMAND, "--rollouts=vllm-server"], "slurm", config)["train.sbatch"].count("--rollouts") == 1
    for named in (["--vllm-url", "http://a:8000"], ["--vllm-url=http://a:8000"]):
        with pytest.raises(InvalidInput, match="one of them"):
            render([*COMMAND, *named], "slurm", config)


@pytest.mark.parametrize("launcher", ["accelerate", "slurm", "k8s"])
@pytest.mark.parametrize("engine", [["--engine", "verl"], ["--engine=verl"]])
def test_of_verl_nothing_is_launched(launcher: Launcher, engine: list[str]) -> None:
    """It starts its processes itself, over Ray."""
    with pytest.raises(InvalidInput, match="start this command on its first node"):
        render([*COMMAND, *engine], launcher, LaunchConfig())
    assert render([*COMMAND, "--engine", "trl"], launcher, LaunchConfig())


def test_a_second_training_leaves_the_first_alone() -> None:
    names = set()
    for out in ("trained/sft", "/data/trained/sft", "trained/rl", "more/rl"):
        jobset = yaml.safe_load(render(["train", "sft", "set", "--out", out], "k8s", LaunchConfig())["jobset.yaml"])
        names.add(jobset["metadata"]["name"])
        assert jobset["spec"]["network"]["subdomain"] == jobset["metadata"]["name"]
    assert len(names) == 3


@pytest.mark.parametrize(
    ("out", "kept"),
    [
        ("a", True),
        ("/data/a", True),
        ("/data/../a", False),
        ("../a", False),
        ("/home/me/a", False),
        ("/database", False),
    ],
)
def test_a_pod_writes_to_the_volume(out: str, kept: bool) -> None:
    """Elsewhere checkpoints would be gone when it is started anew, and the model when it ends."""
    for words in (["--out", out], [f"--out={out}"]):
        command = ["train", "sft", "set", *words]
        if kept:
            assert shlex.join(words) in render(command, "k8s", LaunchConfig())["jobset.yaml"]
            continue
        with pytest.raises(InvalidInput, match="is not on the volume"):
            render(command, "k8s", LaunchConfig())


def test_partitions_and_accounts_stand_in_the_script_as_they_are() -> None:
    script = render(COMMAND, "slurm", LaunchConfig(partition="gpu,gpu-long", account="lab_1.x"))["train.sbatch"]
    assert {"#SBATCH --partition=gpu,gpu-long", "#SBATCH --account=lab_1.x"} <= set(script.splitlines())


@given(st.lists(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1), min_size=1, max_size=3))
def test_arguments_reach_the_command_as_they_are(arguments: list[str]) -> None:
    line = render(arguments, "local", LaunchConfig())["train.sh"].splitlines()[-1]
    assert shlex.split(line) == ["trailforge", *arguments]
    read = launched(render(["train", *arguments], "accelerate", LaunchConfig())["train.sh"].splitlines()[-1])
    assert read.training_script_args == ["train", *arguments]
