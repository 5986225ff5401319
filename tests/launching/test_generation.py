"""What `trailforge launch` writes for a run: read by bash, by our own command line, and held against Kubernetes."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.commands.test_docs_commands import taken
from tests.launching.slurm import write_program
from tests.support.world import write_questions
from trailforge import cli
from trailforge.inference.vllm.server import VllmConfig, vllm_arguments
from trailforge.launching.config import Cluster, GenerationConfig, LaunchConfig, pods_name
from trailforge.launching.generation import RunToLaunch, render_run
from trailforge.schemas import ClusterError, InvalidInput
from trailforge.schemas.errors import TrailforgeError

COMMAND = ("mcts-trajectories", "--questions", "it's here.jsonl", "--preset", "msearcher", "--out", "runs/my run")
SERVER = VllmConfig(tensor_parallel_size=2, reasoning_parser="deepseek_r1", ready_within_s=1800)
RUN = RunToLaunch(
    command=COMMAND, out="runs/my run", preset="msearcher", model="http://127.0.0.1:8000/v1", server=SERVER,
    served="Qwen/QwQ-32B",
)  # fmt: skip
TWO_HOSTS = LaunchConfig(
    secret="keys",
    partition="gpu",
    setup=("module load cuda",),
    environment=("NCCL_DEBUG=WARN",),
    generation=GenerationConfig(nodes=2, servers=6, workers=5),
)
TO_A_FILE = replace(TWO_HOSTS, generation=GenerationConfig(ledger="file", servers=4))
NO_SERVER = replace(TWO_HOSTS, generation=GenerationConfig(servers=0))
NAME = pods_name(TWO_HOSTS, RUN.out)
ASKED_FROM_OUTSIDE = "http://models.example.org/v1"


def written(cluster: Cluster, run: RunToLaunch = RUN, config: LaunchConfig = TWO_HOSTS) -> dict[str, str]:
    return render_run(run, cluster, config, "/shared/my runs/a-launch", "/shared/my runs")


def objects(run: RunToLaunch = RUN, config: LaunchConfig = TWO_HOSTS) -> dict[tuple[str, str], dict[str, Any]]:
    """Of Kubernetes, by kind and name."""
    found = list(yaml.safe_load_all(written("k8s", run, config)["generate.yaml"]))
    named = {(each["kind"], each["metadata"]["name"]): each for each in found}
    assert len(named) == len(found)
    return named


def containers(each: Any) -> Iterator[dict[str, Any]]:
    """Those of a tree of YAML."""
    if isinstance(each, dict):
        yield from [*each.get("containers", ()), *each.get("initContainers", ())]
        for value in each.values():
            yield from containers(value)
    elif isinstance(each, list):
        for value in each:
            yield from containers(value)


def unset(text: str) -> list[str]:
    return [line for line in text.splitlines() if "{{" in line]


@pytest.mark.parametrize(("workers", "least"), [(5, 30), (64, 264)])
def test_the_ledger_has_connections_for_all_workers(workers: int, least: int) -> None:
    """PostgreSQL's own default is 100, which 25 workers take."""
    config = replace(TWO_HOSTS, generation=replace(TWO_HOSTS.generation, workers=workers))
    (arguments,) = [
        each["args"] for each in containers(list(objects(config=config).values())) if each["name"] == "postgresql"
    ]
    lines = [line for line in written("slurm", config=config)["node.sh"].splitlines() if "keep INT postgres" in line]
    for text in (" ".join(arguments), *lines):
        (most,) = re.findall(r"-c max_connections=(\d+)", text)
        assert int(most) >= least


# Slurm


@pytest.mark.parametrize(
    "generation",
    [
        GenerationConfig(nodes=2, servers=6, workers=5),
        GenerationConfig(servers=0, ledger="file", cpus_per_node=16, memory_per_node="64G"),
        GenerationConfig(nodes=3, servers=0, ledger="postgresql://forger@db.example.org/calls"),
    ],
)
def test_scripts_are_ones_that_bash_reads(generation: GenerationConfig) -> None:
    run = RUN if generation.servers else replace(RUN, model=ASKED_FROM_OUTSIDE, is_named=True)
    for text in written("slurm", run, replace(TWO_HOSTS, generation=generation)).values():
        assert not unset(text)
        done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        if shellcheck := shutil.which("shellcheck"):
            told = subprocess.run([shellcheck, "-"], input=text, text=True, capture_output=True, check=False)
            assert told.returncode == 0, told.stdout


def test_a_job_asks_for_what_its_parts_take() -> None:
    script = written("slurm")["generate.sbatch"]
    options = [line.removeprefix("#SBATCH --") for line in script.splitlines() if line.startswith("#SBATCH")]
    # Three servers of two devices on each host. Of what nobody said, the cluster's own defaults hold.
    assert {"nodes=2", "gpus-per-node=6", "partition=gpu", "requeue"} <= set(options)
    assert {"signal=B:USR1@300", "dependency=singleton"} <= set(options)
    assert not [each for each in options if each.startswith(("account", "mem", "cpus"))]
    assert "\nmodule load cuda\n" in script and "\nexport NCCL_DEBUG=WARN\n" in script


def job_name(out: str) -> str:
    script = written("slurm", replace(RUN, out=out))["generate.sbatch"]
    (line,) = (each for each in script.splitlines() if each.startswith("#SBATCH --job-name="))
    return line.partition("=")[2]


def test_jobs_of_one_name_are_of_one_run() -> None:
    """By which they wait for each other: two would write one folder, and those of two runs need not wait."""
    assert job_name("runs/my run") == job_name("./runs/my run/") == job_name("/shared/my runs/runs/my run")
    names = {job_name(out) for out in ("runs/my run", "runs/my-run", "more/my run", "runs/" + "long" * 20)}
    assert len(names) == 4 and all(re.fullmatch(r"trailforge-[a-z-]+-[0-9a-f]{6}", name) for name in names)


def test_servers_are_no_more_than_the_devices_of_the_hosts() -> None:
    config = replace(TWO_HOSTS, devices_per_node=4)
    with pytest.raises(InvalidInput, match="6 of 2 devices do not fit on 2 hosts of 4"):
        written("slurm", config=config)
    assert (
        "gpus-per-node"
        not in written("slurm", config=replace(config, use_cpu=True, sharding="none"))["generate.sbatch"]
    )


def started_by(role: str, tmp_path: Path, programs: int = 1, **environment: str) -> list[str]:
    """What `node.sh ROLE` runs: so many programs, each with its devices and arguments."""
    log, folder = tmp_path / "log", tmp_path / "bin"
    folder.mkdir()
    for name in ("trailforge", "dask"):
        body = f'line="$(printf "%q " "$CUDA_VISIBLE_DEVICES" {name} "$@")"\necho "$line" >> {log}\nexec sleep 600'
        write_program(folder / name, body)
    files = written("slurm", config=replace(TWO_HOSTS, generation=GenerationConfig(nodes=2, servers=5, workers=5)))
    script = tmp_path / "node.sh"
    script.write_text(files["node.sh"].replace("'/shared/my runs'", shlex.quote(str(tmp_path))))
    given = {"NODES": "2", "WORKERS": "5", "SERVERS": "5", "SERVERS_PER_NODE": "3", "DEVICES_PER_SERVER": "2"}
    given |= {"FIRST_HOST": "n1", "FIRST_PORT": "10000", "LISTEN": "0.0.0.0", "TRAILFORGE_API_KEY": "k"}
    process = subprocess.Popen(
        ["bash", script, role], start_new_session=True,
        env={"PATH": f"{folder}:/usr/bin:/bin", **given, "CUDA_VISIBLE_DEVICES": "", **environment},
    )  # fmt: skip
    deadline = time.monotonic() + 120
    try:
        while not log.exists() or len(log.read_text().splitlines()) < programs:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return sorted(log.read_text().splitlines())


def test_each_server_has_devices_and_a_port_of_its_own(tmp_path: Path) -> None:
    """The second of two hosts holds the last two of five servers. Slurm has said which devices are the job's."""
    lines = started_by("serve", tmp_path, 2, SLURM_NODEID="1", CUDA_VISIBLE_DEVICES="2,3,4,5,6,7")
    assert [shlex.split(line)[:2] for line in lines] == [["2,3", "trailforge"], ["4,5", "trailforge"]]
    for number, line in enumerate(lines):
        words = shlex.split(line)[2:]
        assert {"--port", str(10002 + number), "--host", "0.0.0.0"} < set(words)
        assert taken(words).params["preset"] == "msearcher"


@pytest.mark.parametrize(("host", "share"), [("0", "3"), ("1", "2")])
def test_workers_are_shared_out_over_the_hosts(tmp_path: Path, host: str, share: str) -> None:
    pytest.importorskip("distributed")
    (line,) = started_by("work", tmp_path, SLURM_NODEID=host)
    words = shlex.split(line)
    assert words[words.index("--nworkers") + 1] == share
    from distributed.cli.dask_worker import main

    assert main.make_context("worker", words[3:]).params["nthreads"] == 1


def test_dask_takes_the_schedulers_command(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    (line,) = started_by("schedule", tmp_path)
    from distributed.cli.dask_scheduler import main

    params = main.make_context("scheduler", shlex.split(line)[3:]).params
    assert (params["protocol"], params["port"]) == ("tls", "10000")


# Kubernetes


@pytest.mark.slow
@pytest.mark.skipif("TRAILFORGE_REHEARSE" not in os.environ, reason="`make rehearse` installs the schemas and runs it")
@pytest.mark.parametrize(
    "config",
    [
        TWO_HOSTS,
        replace(TWO_HOSTS, generation=replace(TWO_HOSTS.generation, tls_secret="dask-tls", servers=2)),
        replace(TWO_HOSTS, use_cpu=True, sharding="none", generation=GenerationConfig(servers=1, workers=1)),
        LaunchConfig(generation=GenerationConfig(ledger="postgresql://forger@db/calls", servers=1)),
    ],
)
def test_objects_are_ones_that_kubernetes_takes(config: LaunchConfig) -> None:
    """By its published schemas, strictly: no field that it does not know."""
    kubernetes: Any = importlib.import_module("kubernetes_validate")

    def is_valid(each: Any) -> bool:
        try:
            kubernetes.validate(each, "1.31", strict=True)
        except kubernetes.ValidationError:
            return False
        return True

    written = objects(config=config)
    assert len(written) >= 4 and [key for key, each in written.items() if not is_valid(each)] == []
    assert not any(is_valid(each | {"spec": {**each.get("spec", {}), "nosuch": 1}}) for each in written.values())


def test_what_belongs_together_is_found_by_its_labels() -> None:
    found = objects()
    pods = [each["spec"]["template"] for each in found.values() if "template" in each["spec"]]
    labels = [pod["metadata"]["labels"] for pod in pods]
    for (kind, _), each in found.items():
        if kind == "Service":
            chosen = [each for each in labels if found_by(each, found[kind, _]["spec"]["selector"])]
            assert len(chosen) == 1
        elif "selector" in each["spec"]:
            assert each["spec"]["selector"]["matchLabels"] == each["spec"]["template"]["metadata"]["labels"]
    (policy,) = (each for (kind, _), each in found.items() if kind == "NetworkPolicy")
    assert all(found_by(each, policy["spec"]["podSelector"]["matchLabels"]) for each in labels) and len(labels) == 5
    ports = {name: each["spec"]["ports"][0]["port"] for (kind, name), each in found.items() if kind == "Service"}
    assert ports == {f"{NAME}-ledger": 5432, f"{NAME}-vllm": 8000, f"{NAME}-scheduler": 8786}


def found_by(labels: dict[str, str], selector: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


def test_the_command_of_the_job_is_ours_with_the_cluster_and_the_servers_named() -> None:
    (job,) = (each for (kind, _), each in objects().items() if kind == "Job")
    (run,) = job["spec"]["template"]["spec"]["containers"]
    assert run["command"][: len(COMMAND) + 1] == ["trailforge", *COMMAND]
    given = taken(run["command"][1:]).params
    assert given["cluster"] == f"tcp://{NAME}-scheduler:8786" and given["insecure"]
    urls = given["model"].split(",")
    assert len(urls) == 6 and urls[5] == f"http://{NAME}-vllm-5.{NAME}-vllm:8000/v1"
    # What people have to see to ends the job; what passes by itself, or took the pod away, does not.
    fails, ignored = {}, {}
    for rule in job["spec"]["podFailurePolicy"]["rules"]:
        (fails if rule["action"] == "FailJob" else ignored).update(rule)
    resumable = {TrailforgeError.exit_code} | {each.exit_code for each in subclasses(TrailforgeError)}
    assert resumable - set(fails["onExitCodes"]["values"]) == {3, 4, 10} and ignored["onPodConditions"]


def subclasses(kind: type[TrailforgeError]) -> Iterator[type[TrailforgeError]]:
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def test_servers_are_asked_for_their_health_and_have_the_presets_options() -> None:
    stateful = objects()["StatefulSet", f"{NAME}-vllm"]["spec"]
    (vllm,) = stateful["template"]["spec"]["containers"]
    assert stateful["replicas"] == 6 and vllm["resources"] == {"limits": {"nvidia.com/gpu": 2}}
    assert vllm["args"] == vllm_arguments(replace(SERVER, host="0.0.0.0"), "Qwen/QwQ-32B")
    probes = [vllm[f"{kind}Probe"] for kind in ("startup", "readiness", "liveness")]
    assert {probe["httpGet"]["path"] for probe in probes} == {"/health"}
    start, _, alive = probes
    assert start["periodSeconds"] * start["failureThreshold"] == SERVER.ready_within_s
    assert alive["periodSeconds"] * alive["failureThreshold"] == SERVER.silence_s


def test_a_second_run_leaves_the_first_alone() -> None:
    """Both by one file of settings: no object of one may take the place of the other's, nor its ledger's data."""
    first, second, third = (objects(replace(RUN, out=out)) for out in ("runs/a", "runs/b", "more/a"))
    assert not set(first) & set(second) and not set(first) & set(third)
    assert set(first) == set(objects(replace(RUN, out="/data/runs/a")))
    labels = [found["Job", name]["metadata"]["labels"] for found in (first, second) for name in names_of_jobs(found)]
    assert labels[0] != labels[1]
    longest = replace(TWO_HOSTS, name="a" * 40)
    for kind, name in objects(replace(RUN, out="runs/" + "Long_" * 30), longest):
        # Kubernetes adds to the names of pods and of their revisions, which may have 63 letters.
        assert re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", name) and len(name) <= 52, (kind, name)


def names_of_jobs(found: Iterable[tuple[str, str]]) -> list[str]:
    return [name for kind, name in found if kind == "Job"]


def test_all_pods_have_the_environment_of_the_settings() -> None:
    """And models that they fetch are on the volume: a pod that begins anew would fetch them again."""
    config = replace(TWO_HOSTS, environment=("HTTPS_PROXY=http://proxy:3128",), mount="/volume")
    of_vllm = replace(RUN, server=replace(SERVER, variables=("VLLM_LOGGING_LEVEL=DEBUG",)))
    found = {name: each for (_, name), each in objects(of_vllm, config).items() if "template" in each["spec"]}
    for name, each in found.items():
        (container,) = each["spec"]["template"]["spec"]["containers"]
        given = {variable["name"]: variable.get("value", "") for variable in container["env"]}
        if not name.endswith("-ledger"):
            assert given["HTTPS_PROXY"] == "http://proxy:3128" and given["HF_HOME"].startswith("/volume/"), name
        assert ("VLLM_LOGGING_LEVEL" in given) == name.endswith("-vllm")
    assert len(found) == 5
    said = replace(config, environment=("HF_HOME=/models",))
    for each in containers([each for (_, name), each in objects(RUN, said).items() if "ledger" not in name]):
        assert "/models" in [
            variable.get("value") for variable in each.get("env", ()) if variable["name"] == "HF_HOME"
        ] or (each["name"] == "await")


def test_keys_of_pods_come_from_the_secret() -> None:
    found = {
        variable["name"]: variable.get("valueFrom", {}).get("secretKeyRef", {}).get("name")
        for each in containers(list(objects().values()))
        for variable in each.get("env", ())
        if any(word in variable["name"] for word in ("KEY", "PASSWORD", "TOKEN"))
    }
    assert found == dict.fromkeys(("VLLM_API_KEY", "HF_TOKEN", "POSTGRES_PASSWORD"), "keys")


def test_with_certificates_the_scheduler_is_no_open_one() -> None:
    config = replace(TWO_HOSTS, generation=replace(TWO_HOSTS.generation, tls_secret="dask-tls"))
    found = objects(config=config)
    (run,) = found["Job", NAME]["spec"]["template"]["spec"]["containers"]
    assert "--insecure" not in run["command"] and f"tls://{NAME}-scheduler:8786" in run["command"]
    for kind, name in [
        ("Job", NAME),
        ("Deployment", f"{NAME}-scheduler"),
        ("Deployment", f"{NAME}-worker"),
    ]:
        spec = found[kind, name]["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert {"name": "tls", "secret": {"secretName": "dask-tls"}} in spec["volumes"]
        given = {variable["name"]: variable["value"] for variable in container["env"]}
        (mounted,) = (mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "tls")
        assert given["DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT"] == f"{mounted}/tls.crt"


def test_dask_reads_these_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    dask = pytest.importorskip("dask")
    config = replace(TWO_HOSTS, generation=replace(TWO_HOSTS.generation, tls_secret="dask-tls"))
    (container,) = objects(config=config)["Deployment", f"{NAME}-scheduler"]["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each["value"] for each in container["env"]}
    read = dask.config.collect_env(given)["distributed"]
    with dask.config.set(distributed=read):
        assert dask.config.get("distributed.comm.tls.ca-file") == "/etc/trailforge-tls/ca.crt"
        assert dask.config.get("distributed.comm.require-encryption") is True
        assert dask.config.get("distributed.scheduler.allowed-failures") == 20


# What cannot be


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"nodes": 2, "ledger": "file"}, "generation.ledger"),
        ({"ledger": "mysql://a/b"}, "generation.ledger"),
        ({"ledger": ""}, "generation.ledger"),
        ({"ledger": "postgresql://me:secret@db/calls"}, "generation.ledger"),
        ({"nodes": 0}, "generation.nodes"),
        ({"workers": 0}, "generation.workers"),
        ({"memory_per_node": "lots"}, "generation.memory_per_node"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        GenerationConfig(**changes)
    assert refused.value.field == field and "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("cluster", "run", "config", "field"),
    [
        ("k8s", RUN, replace(TWO_HOSTS, secret=""), "secret"),
        ("k8s", RUN, replace(TWO_HOSTS, generation=GenerationConfig(ledger="file")), "generation.ledger"),
        ("k8s", RUN, replace(TWO_HOSTS, name="My_Run"), "name"),
        ("k8s", replace(RUN, out="/home/a"), TWO_HOSTS, "out"),
        ("slurm", replace(RUN, ledger="postgresql://db/calls"), TO_A_FILE, "generation.ledger"),
        ("slurm", replace(RUN, is_named=True), TWO_HOSTS, "generation.servers"),
        ("slurm", replace(RUN, server=None), TWO_HOSTS, "generation.servers"),
        ("slurm", replace(RUN, model="embedded"), NO_SERVER, "generation.servers"),
        ("slurm", replace(RUN, command=(*COMMAND, "--cluster=local:4")), TWO_HOSTS, "--cluster=local:4"),
        ("slurm", RUN, replace(TWO_HOSTS, generation=GenerationConfig(servers=50)), "generation.servers"),
        ("slurm", RUN, replace(TWO_HOSTS, time="0:10:00"), "time"),
    ],
)  # fmt: skip
def test_runs_that_cannot_be_are_refused(cluster: Cluster, run: RunToLaunch, config: LaunchConfig, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        written(cluster, run, config)
    assert refused.value.field == field


# The command


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with questions and settings, in which commands are run."""
    monkeypatch.chdir(tmp_path)
    write_questions(tmp_path / "questions.jsonl", 3)
    (tmp_path / "cluster.yaml").write_text("{secret: keys, generation: {servers: 2}}\n")
    return tmp_path


def said(*words: str) -> str:
    done = CliRunner().invoke(cli.app, ["launch", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


LAUNCHED = ("mcts-trajectories", "--questions", "questions.jsonl", "--preset", "msearcher")
ON = ("--settings", "cluster.yaml")


def test_files_are_written_and_nothing_is_submitted(here: Path) -> None:
    told = said("slurm", *ON, *LAUNCHED, "--out", "runs/a")
    folder = here / "runs" / "a-launch"
    assert sorted(path.name for path in folder.iterdir()) == ["generate.sbatch", "node.sh"]
    assert told.splitlines()[-1] == f"not submitted: --submit does it, or sbatch {folder}/generate.sbatch"
    assert (
        f"trailforge {shlex.join([*LAUNCHED, '--out', 'runs/a'])} --runner" in (folder / "generate.sbatch").read_text()
    )
    assert not (here / "runs" / "a").exists()
    told = said("k8s", *ON, *LAUNCHED, "--out", "runs/a")
    name = pods_name(LaunchConfig(), "runs/a")
    assert str(here / f"{name}-launch" / "generate.yaml") in told
    chosen = f"statefulset,deployment --selector app.kubernetes.io/instance={name}"
    assert f"to free devices: kubectl delete --namespace default {chosen}" in told
    assert f"--follow job/{name}\n" in told
    assert said("k8s", *ON, "--print", *LAUNCHED, "--out", "runs/a").startswith(
        f"# --- {here}/{name}-launch/generate.yaml"
    )


def test_keys_of_the_environment_are_in_no_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the command takes from there: what is written is what was typed."""
    for name in ("TRAILFORGE_API_KEY", "TRAILFORGE_LEDGER_PASSWORD", "HF_TOKEN", "WANDB_API_KEY"):
        monkeypatch.setenv(name, "not-here")
    training = ("train", "sft", "sets/a", "--preset", "msearcher")
    for cluster in ("slurm", "k8s"):
        launched = [(cluster, *ON, "--print", *words, "--out", "a") for words in (LAUNCHED, training)]
        texts = [said(*words) for words in launched]
        texts.append(CliRunner().invoke(cli.app, [*training, "--out", "a", "--launcher", cluster, "--print"]).output)
        assert all("msearcher" in text and "not-here" not in text for text in texts)


def test_trainings_go_by_the_same_file(here: Path) -> None:
    words = ("train", "sft", "sets/a", "--preset", "msearcher", "--out", "trained/a")
    said("slurm", *ON, *words)
    assert "accelerate launch" in (here / "trained" / "a-launch" / "train.sbatch").read_text()
    assert "kind: JobSet" in said("k8s", *ON, "--print", *words)


@pytest.mark.parametrize(("cluster", "asked"), [
    ("slurm", ["sbatch {folder}/generate.sbatch"]),
    ("k8s", [
        f"kubectl delete --namespace default --ignore-not-found job {pods_name(LaunchConfig(), 'a')}",
        "kubectl apply -f {folder}/generate.yaml",
    ]),
])  # fmt: skip
def test_they_are_submitted_where_that_is_said(
    here: Path, monkeypatch: pytest.MonkeyPatch, cluster: str, asked: list[str]
) -> None:
    """By programs that stand for Slurm's and Kubernetes'."""
    programs = here / "bin"
    programs.mkdir()
    for name in ("sbatch", "kubectl"):
        write_program(programs / name, f'echo "{name} $*" >> {here}/log; exit "${{CODE:-0}}"')
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    said(cluster, *ON, "--submit", "--into", "files", *LAUNCHED, "--out", "a")
    assert (here / "log").read_text().splitlines() == [each.format(folder=here / "files") for each in asked]
    monkeypatch.setenv("CODE", "3")
    with pytest.raises(ClusterError, match="ended with code 3; its output says why"):
        said(cluster, *ON, "--submit", *LAUNCHED, "--out", "a")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("slurm", *LAUNCHED), "--out"),
        (("slurm", "status", "runs/a"), "status is not launched"),
        (("slurm", "evaluate"), "evaluate is not launched"),
        (("slurm", "train"), "no command ''; give one that makes data, or train sft, dpo or rl"),
        (("slurm", "nothing"), "no command 'nothing'"),
        (("slurm", "mcts-trajectories", "--questions", "none.jsonl", "--out", "a"), "none.jsonl: no such file"),
        (("slurm", *LAUNCHED, "--out", "a", "--dry-run"), "--dry-run"),
        (("slurm", "--print", "--submit", *LAUNCHED, "--out", "a"), "--print only shows the files"),
        (("k8s", *ON, *LAUNCHED, "--out=/home/me/a"), "/home/me/a is not on the volume"),
        (("k8s", *ON, "train", "sft", "sets/a", "--preset", "msearcher", "--out=/home/me/a"), "is not on the volume"),
        (("slurm", "train", "rl", "sets/a", "--preset", "msearcher", "--out", "a", "--engine=verl"), "a Ray cluster"),
        (("slurm", *LAUNCHED, "--out", "a", "--redo", "truncated"), "would ask, and pay, again"),
        (("slurm", "--settings", "none.yaml", *LAUNCHED, "--out", "a"), "no such file"),
        (("slurm", *LAUNCHED, "--out", "a", "--cluster", "local:2"), "leave it out"),
        (("k8s", *LAUNCHED, "--out", "a"), "name a Secret"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(here: Path, words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        said(*words)
    assert sorted(path.name for path in here.iterdir()) == ["cluster.yaml", "questions.jsonl"]


def test_an_option_that_the_command_does_not_take_is_refused_now_and_not_in_the_queue(here: Path) -> None:
    done = CliRunner().invoke(cli.app, ["launch", "slurm", *LAUNCHED, "--out", "a", "--questoins", "x"])
    assert done.exit_code == 2 and "--questoins" in done.output
    assert not (here / "a-launch").exists()
