"""How the commands of the guides run in `test_guides`: which do not, and what stands for servers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from typer.testing import CliRunner

from tests.commands.test_docs_commands import commands_of
from tests.end_to_end.support import free_port
from tests.end_to_end.test_tutorials import OWN_SERVER
from tests.support.model_server import running
from tests.support.warm import Running
from tests.support.world import question
from trailforge.cli import app

PARSED = {
    "mcts-trajectories --questions train.jsonl.gz --out /shared": "machines over ssh; `test_cluster` has a cluster",
    "mcts-trajectories --questions train.jsonl --cluster local": "four processes; `test_cluster` has two",
    "mcts-trajectories --questions train.jsonl --cluster slurm": "Slurm; `test_cluster` has stand-ins of its programs",
    "mcts-trajectories --questions train.jsonl --runner DataflowRunner": "Google's; `test_portable` has another runner",
    "train sft sets/all --preset msearcher --out trained/sft --launcher accelerate": "processes: `test_two_processes`",
    "train rl sets/all --preset msearcher-local": "vLLM on a GPU; `test_rl` trains without",
    "evaluate hotpotqa.jsonl.gz": "encoders of a hub, and a hosted model that builds four back ends",
    "doctor --makes nightly": "fetches the encoders of a night from a hub; `test_doctor` examines others",
    "fetch-documents": "asks arXiv and feeds; `test_fetching` has their replies",
}
"""Commands, by how they begin, that are only parsed, and why."""
NOT_RUN = {
    "docker": "there is no Docker where tests run; `test_containers` reads its files by Compose's rules",
    "kubectl": "a cluster; the launchers' tests have a stand-in",
    "java": "job servers of Flink and Spark; `test_portable` has a runner of Beam",
    "ray": "verl's cluster, on GPUs",
    "vf-eval": "`make test-engine` reads it (`test_commands_of_docs`)",
    "python3.11 -m venv": "gigabytes of an engine",
    ".venv-verl/bin/pip": "gigabytes of an engine; `test_commands_of_docs` looks for its lock",
    "python -c import datasets": "asks the Hub",
    "make bench B=teaching ARGS=sft": "hours of training; `test_teaching` has its worlds, rows and sets in small",
    "make bench B=teaching ARGS=grpo": "an hour of training from what these hours gave; `test_rl` trains a little",
    "make kills-cluster": "an hour of kills on a cluster; `test_cluster` ends a worker",
    "make test-vllm": "gigabytes of an engine; `test_commands_of_docs` has its options",
    "make test-engine": "gigabytes of an engine; `test_commands_of_docs` looks for its lock",
    "make rehearse": "minutes, and Kubernetes' schemas from an index; `test_slurm` has stand-ins",
    "make properties": "a thousand examples for each property, where CI tries 30",
    "make docs-run": "half an hour with the packaged model; `test_tutorials` has recorded replies",
    "make demo-night": "minutes of the packaged model; `test_nightly` has nights",
    "pip install pre-commit": "asks an index, and changes the clone's hooks",
}
"""Commands of other programs that no test runs, and why."""
RUN_ELSEWHERE = {
    "inspect datasets_out": "test_inspect",
    "inspect out/mcts": "test_inspect",
    "push datasets_out/demo --repo OWNER/NAME --private": "test_push",
    "mcts-trajectories --questions train.jsonl --cluster tcp": "test_cluster",
    "mcts-trajectories --questions train.jsonl --runner PortableRunner": "test_portable",
    "make demo": "test_demo",
    "make test": "test_guides",
    "pip": "test_package",
    "dask": "test_cluster",
    "prefect": "test_nightly",
    "python -c from prefect": "test_nightly",
    "sed s/BLOCK_ID": "test_nightly",
    "python -P -m apache_beam": "test_portable",
    "cp containers/example.env": "test_containers",
    "make kills": "test_killed",
    "make fuzz": "test_fuzz",
}
"""Commands, ours and of other programs, by the test that runs them: servers, clusters, installations."""
BY_CI = {
    "make install": "make install",
    "make check": "make lint test",
    "make test-core": "make test-core",
    "make docs": "make release DRY=1 docs",
    "make release": "make release DRY=1",
}
"""Targets by the line of `.ci/run` that makes them."""
IN_A_SHELL = ("export", "for", "done", "openssl")
"""Commands of a shell, which `test_on_clusters` runs together."""
ELSEWHERE = re.compile(r"http://(127\.0\.0\.1:8990|10\.0\.0\.\d:\d+)")
"""Search servers."""


def begins(words: list[str], starts: Mapping[str, str]) -> bool:
    """Whether a command begins as one of these; a page that is written (`--export`) is none that is served."""
    return " ".join(words).startswith(tuple(starts)) and "--export" not in words


@dataclass(frozen=True)
class How:
    """How the commands are run that begin in some way."""

    model: str = ""
    """The kind of scripted model in the place of a served one."""
    more: tuple[str, ...] = ()
    """Further words, of which the last of an option counts."""
    serves: bool = False
    """Whether it serves until it is stopped."""
    run: str = ""
    """The run that is looked at in the place of `datasets_out/demo`; empty: that one."""


def small(command: str, *more: str, model: str = "") -> How:
    """A small run of a data set."""
    return How(model or {"mcts-trajectories": ""}.get(command, command), ("--preset", f"{command}.yaml", *more))


TINY = ("--max-steps", "1", "--preset", "tiny.yaml")
HOW = {
    "": How(),
    "launch": How(),
    "mcts-trajectories": small("mcts-trajectories", "--limit", "2", "--model", OWN_SERVER),
    "document-bundles": small("document-bundles", model="bundles"),
    "agent-trajectories": small("agent-trajectories", "--limit", "2", "--model", OWN_SERVER, model="agents"),
    "agent-trajectories --preset browse": How(),
    "kg-trajectories": small("kg-trajectories", "--limit", "2", "--kg", "kgs/searched", model="kg"),
    "kg-questions": small("kg-questions", "--kg", "kgs/paths", "--count", "4", "--model", OWN_SERVER, model="kg"),
    "audit": How("judge", ("--model-name", "scripted")),
    "audit musique_dev.jsonl --paragraphs": How(),
    "evaluate": How("evaluations", ("--limit", "2", "--seeds", "0", "--encoder", "minilm")),
    "evaluate questions.jsonl --agent browse": How("browse", ("--limit", "1")),
    "index build passages.jsonl.gz --preset hippo_rag": How("evaluations"),
    "sql datasets_out/demo FROM rejected": How(run="datasets_out/spring"),
    "show datasets_out/demo --table rejected": How(run="datasets_out/spring"),
    "world": How(more=("--questions", "20")),
    "world --kg kgs/sample --out worlds/long": How(more=("--questions", "5", "--pages", "30")),
    "world --kg kgs/sample --out worlds/first": How(more=("--questions", "20", "--test-questions", "10")),
    "training-set": How(more=("--validation", "0.3")),
    "train sft": How(more=TINY),
    "train dpo": How(more=TINY),
    "serve-search": How(serves=True),
    "serve-model": How(serves=True),
}
"""By the longest beginning."""


@dataclass
class Guide:
    """A folder in which a guide's commands run, and what stands for servers."""

    folder: Path
    stack: ExitStack
    places: dict[str, str] = field(default_factory=dict)
    """What stands for a word, or for the beginning of one."""
    served: dict[str, str] = field(default_factory=dict)

    def model(self, kind: str) -> str:
        """URL of a scripted model."""
        if kind not in self.served:
            self.served[kind] = self.stack.enter_context(running(**({kind: 1} if kind else {})))
        return self.served[kind]

    def run(self, name: str, before: Mapping[str, Callable[[], object]] | None = None) -> dict[str, str]:
        """Run all commands of a guide that are not only parsed; what each printed. A line that comes twice runs once.

        `before`: what is done before the commands that begin in some way.
        """
        printed: dict[str, str] = {}
        for words in commands_of(name):
            typed = " ".join(words)
            if begins(words, PARSED) or begins(words, RUN_ELSEWHERE) or typed in printed:
                continue
            for start, act in (before or {}).items():
                if typed.startswith(start):
                    act()
            how = HOW[max((start for start in HOW if typed.startswith(start)), key=len)]
            printed[typed] = self.serve(words) if how.serves else self.put(words, how)
        return printed

    def put(self, words: list[str], how: How) -> str:
        """What a command prints, which has to end well."""
        given = [self._place(word, how) for word in [*words, *how.more]]
        result = CliRunner().invoke(app, given)
        assert result.exit_code == 0, (" ".join(given), result.output[-3000:], result.exception)
        assert "episodes failed" not in result.output, result.output[-3000:]
        return result.output

    def serve(self, words: list[str]) -> str:
        """What a server says, which is stopped when it answers: a search server when the guide has ended."""
        port, out, err = str(free_port()), self.folder / "served.out", self.folder / "served.err"
        given = [self._place(word, How()) for word in words]
        options = ["--port", port] if words[0] == "serve-search" else []
        process = Running([*given, *options], os.environ, out, err, folder=self.folder)
        until = time.monotonic() + 120
        while not (said := re.search(r"http://[^\s/]+:\d+", out.read_text() if out.exists() else "")):
            assert process.poll() is None and time.monotonic() < until, err.read_text()
            time.sleep(0.02)
        self.stack.callback(process.end_group)
        self.stack.callback(process.send_signal, signal.SIGINT)
        if words[0] == "serve-search":
            self.places.setdefault("search", said[0])
        return out.read_text()

    def _place(self, word: str, how: How) -> str:
        word = how.run if how.run and word == "datasets_out/demo" else self.places.get(word, word)
        for start, place in self.places.items():
            word = f"{place}{word[len(start) :]}" if word.startswith(f"{start}/") else word
        if OWN_SERVER in word:
            word = word.replace(OWN_SERVER, self.model(how.model))
        return ELSEWHERE.sub(self.places.get("search", ""), word)


def write_passages(*names: str) -> None:
    """What the questions are answered from."""
    texts = [text for n in range(4) for text in question(n, 2 + n % 2).paragraphs]
    lines = [json.dumps({"id": f"d{n}", "title": text.title, "text": text.text}) for n, text in enumerate(texts)]
    for name in names:
        Path(name).write_text("\n".join(lines) + "\n")


def link(place: str, run: Path) -> None:
    """Put a finished run where a guide has it."""
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    Path(place).symlink_to(run)


def copy(place: str, run: Path) -> None:
    """The same of a run that is decided on."""
    shutil.copytree(run, place)
