"""Container files, as far as they can be checked without Docker: Compose's rules, presets, our commands."""

from __future__ import annotations

import re
import shlex
import tomllib
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import pytest
import yaml

from tests.commands.test_docs_commands import taken
from trailforge.inference.vllm.server import vllm_arguments
from trailforge.launching.config import GenerationConfig
from trailforge.pipelines.runs.config import preset_server
from trailforge.presets import load_preset

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "containers"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILES = sorted(FOLDER.glob("*.Dockerfile"))
_WORDS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_DURATION = {"type": "string", "pattern": r"^(\d+(us|ms|s|m|h))+$"}
_HEALTH = {
    "type": "object",
    "properties": {
        "test": _WORDS,
        **dict.fromkeys(("interval", "timeout", "start_period"), _DURATION),
        "retries": {"type": "integer"},
    },
    "required": ["test", "retries"],
    "additionalProperties": False,
}
_SERVICE = {
    "type": "object",
    "properties": {
        "image": {"type": "string"},
        "init": {"type": "boolean"},
        "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
        "entrypoint": _WORDS,
        "command": _WORDS,
        "working_dir": {"type": "string"},
        "shm_size": {"type": "string", "pattern": r"^\d+(b|kb|mb|gb)$"},
        "environment": {"type": "object", "additionalProperties": {"type": "string"}},
        "ports": _WORDS,
        "volumes": _WORDS,
        "healthcheck": _HEALTH,
        "depends_on": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"condition": {"enum": ["service_started", "service_healthy"]}},
                "required": ["condition"],
                "additionalProperties": False,
            },
        },
        "deploy": {"type": "object"},
    },
    "required": ["image", "restart"],
    "additionalProperties": False,
}
"""The fields of the Compose Specification that this file uses, by the names and types of its schema."""


def instructions(file: Path) -> list[tuple[str, str]]:
    """Of a Dockerfile: the words that it knows, and what follows them."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


@pytest.mark.parametrize("service", SERVICES)
def test_services_are_ones_that_compose_takes(service: str) -> None:
    jsonschema.validate(SERVICES[service], _SERVICE)
    declared = set(COMPOSE["volumes"])
    for volume in SERVICES[service].get("volumes", ()):
        source = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", volume).partition(":")[0]
        assert source in declared or source.startswith(("/", "./", "../")), volume
    for other, wanted in SERVICES[service].get("depends_on", {}).items():
        assert wanted["condition"] != "service_healthy" or "healthcheck" in SERVICES[other]


def test_other_machines_reach_nothing() -> None:
    """Containers listen on all addresses of their own network; this machine's loopback alone leads there."""
    published = [port for each in SERVICES.values() for port in each.get("ports", ())]
    assert len(published) == 3 and all(port.startswith("127.0.0.1:") for port in published)
    assert not [name for name, each in SERVICES.items() if "network_mode" in each]


def test_keys_come_from_the_environment_alone() -> None:
    """And one that is missing is asked for, instead of leaving a server open."""
    named = dict(line.split("=", 1) for line in (FOLDER / "example.env").read_text().splitlines() if line[:1].isupper())
    for each in SERVICES.values():
        for name, value in each.get("environment", {}).items():
            if re.search("KEY|PASSWORD|TOKEN", name):
                variable = re.fullmatch(r"\$\{(\w+):(\?.+|-)\}", value)
                assert variable and named[variable[1]] == ""
                assert variable[2] != "-" or name == "HF_TOKEN"


def test_vllm_has_the_options_of_the_production_preset() -> None:
    content = load_preset("msearcher", "mcts_trajectories")
    server = preset_server(content, source="msearcher")
    assert server is not None
    vllm = SERVICES["vllm"]
    given = [word for part in vllm["command"] for word in part.split("=", 1)]
    wanted = vllm_arguments(server, content["model"]["name"])
    wanted[wanted.index("--host") + 1] = "0.0.0.0"
    assert sorted(given) == sorted(wanted)
    (devices,) = vllm["deploy"]["resources"]["reservations"]["devices"]
    assert devices["count"] == server.tensor_parallel_size
    assert (vllm["image"], SERVICES["postgres"]["image"]) == (
        GenerationConfig().vllm_image,
        GenerationConfig().postgres_image,
    )


def test_commands_of_containers_are_taken() -> None:
    of_prefect: Any = pytest.importorskip("prefect.cli._app")._app
    found = [each["command"] for each in SERVICES.values() if "command" in each]
    found += [yaml.safe_load(rest) for file in DOCKERFILES for word, rest in instructions(file) if word == "CMD"]
    ours = [words[1:] for words in found if words[0] == "trailforge"]
    assert len(ours) == 3
    for words in ours:
        assert words[-1] == "--help" or taken(words).params
    theirs = [words[1:] for words in found if words[0] == "prefect"]
    assert len(theirs) == 2
    for words in theirs:
        _, read, _ = of_prefect.parse_args(words, exit_on_error=False, print_error=False)
        assert read.arguments
    names = {line.removeprefix("TRAILFORGE_") for line in SERVICES["worker"]["environment"] if "LEDGER" in line}
    assert names == {"LEDGER_URL", "LEDGER_PASSWORD"}


def lines_of_compose() -> list[list[str]]:
    """Those that its comments and the documentation give."""
    text = (FOLDER / "compose.yaml").read_text() + (ROOT / "docs" / "cluster.md").read_text()
    text = re.sub(r" \\\n *#? *", " ", text)
    return [shlex.split(line, comments=True) for line in re.findall(r"docker compose .*", text)]


def test_a_line_of_compose_names_the_file_of_keys() -> None:
    """Without it Compose refuses every line, since keys are missing."""
    lines = lines_of_compose()
    assert len(lines) >= 4
    for words in lines:
        assert words[2:6] == ["--env-file", "containers/mine.env", "-f", "containers/compose.yaml"], words


def test_what_the_worker_makes_stays_and_asks_the_model_of_these_containers() -> None:
    """Deployments name paths of the worker's folder, of which only mounted ones outlive the container."""
    worker = SERVICES["worker"]
    home = PurePosixPath(worker["working_dir"])
    mounted = [PurePosixPath(re.sub(r"\$\{.*?\}", "here", each).split(":")[1]) for each in worker["volumes"]]
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    for each in deployments:
        out = home / each["parameters"]["out"]
        assert any(out.is_relative_to(folder) for folder in mounted), each["name"]
    deployed = [words for words in lines_of_compose() if "deploy" in words]
    assert len(deployed) == 2 and deployed[0] == deployed[1]
    name, _, url = deployed[0][deployed[0].index("--param") + 1].partition("=")
    assert (name, urlsplit(url).hostname) == ("model", "vllm") and urlsplit(url).port == 8000
    of_prefect: Any = pytest.importorskip("prefect.cli._app")._app
    words = deployed[0][deployed[0].index("prefect") + 1 :]
    _, read, _ = of_prefect.parse_args(words, exit_on_error=False, print_error=False)
    assert read.arguments["param"] == [f"model={url}"]


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_a_dockerfile_builds_from_what_is_here(file: Path) -> None:
    steps = instructions(file)
    stages = {rest.split()[-1] for word, rest in steps if word == "FROM" and " AS " in rest}
    known = {"FROM", "ARG", "ENV", "RUN", "COPY", "USER", "WORKDIR", "CMD"}
    assert {word for word, _ in steps} <= known and steps[0][0] == "FROM"
    for word, rest in steps:
        if word == "COPY":
            *flags, source, _ = rest.split()
            by_stage = [flag.removeprefix("--from=") for flag in flags if flag.startswith("--from=")]
            assert set(by_stage) <= stages
            assert by_stage or (ROOT / source).exists()
    users = [rest for word, rest in steps if word == "USER"]
    # Whose group Kubernetes gives the volume, in the files of both launches.
    assert users == ["1000"]
    for name in ("generate_kubernetes.yaml", "train_kubernetes.yaml"):
        assert f"fsGroup: {users[-1]}" in (ROOT / "launching" / name).read_text()
    assert all(before[0] != "USER" or after[0] != "RUN" for before, after in pairwise(steps))


def test_images_hold_what_they_are_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = dict(instructions(FOLDER / "core.Dockerfile"))
    assert core["FROM"].startswith("python:3.11-")
    arguments = [rest for word, rest in instructions(FOLDER / "core.Dockerfile") if word == "ARG"]
    extras = next(each.partition("=")[2].split(",") for each in arguments if each.startswith("EXTRAS="))
    assert set(extras) <= set(project["optional-dependencies"]) and "cluster" in extras
    assert "locks/trl.lock" in (FOLDER / "training.Dockerfile").read_text()


def test_an_image_holds_no_key_and_no_tests() -> None:
    left_out = (ROOT / ".dockerignore").read_text().split()
    assert {"containers/*.env", "tests", ".git", ".venv*"} <= set(left_out)
    assert {"containers/*.env", "!containers/example.env"} <= set((ROOT / ".gitignore").read_text().split())
