"""The real commands in processes of their own, as a person runs them. Prefect's home is that of the test session."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from tests.support.warm import Running
from trailforge.pipelines.dataset import LEDGER

ROOT = Path(__file__).parents[2]
QUESTIONS = ROOT / "sample_data" / "musique_style_questions.jsonl"
DOCUMENTS = ROOT / "sample_data" / "documents.jsonl"
PRESET = """\
model: {name: scripted, max_in_flight: 8}
generator: {rollout: {top_k: 2}}
retrieval: {kind: bm25}
output: {shard_size: 16}
"""
"""For the scripted model of `tests.support.model_server`."""
SERVER = "PREFECT_API_URL"
_PATIENCE_S = 150
"""While a server's database is busy it answers 503, which Prefect's own clients wait out, too."""
REPLIES = Path(__file__).parent / "replies"
DEPLOYMENTS = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
POOL = DEPLOYMENTS[0]["work_pool"]["name"]


@dataclass(frozen=True)
class Ended:
    """What a command left, but for the line on stderr that says what it reads."""

    code: int
    out: str
    err: str

    @property
    def error_line(self) -> str:
        """The one line on stderr, checked to be one and no traceback. Lines of progress are left out."""
        lines = [line for line in self.err.splitlines() if line.strip() and not _is_progress(line)]
        assert len(lines) == 1, f"expected one line on stderr, got:\n{self.err}"
        return lines[0]


@dataclass(frozen=True)
class Site:
    """A Prefect server with a home of its own, and its command line."""

    home: Path
    url: str
    environment: dict[str, str]

    def prefect(self, *arguments: object, **more: str) -> str:
        """`prefect ARGUMENTS` in the root of the project, which has to end well; what it printed."""
        return self.python("-m", "prefect", "--no-prompt", *arguments, **more)

    def python(self, *arguments: object, **more: str) -> str:
        """The same of `python ARGUMENTS`."""
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=ROOT, env={**self.environment, **more}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=800,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    def ask(self, path: str, **body: Any) -> Any:
        """POST to the server's API."""
        request = urllib.request.Request(
            f"{self.url}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(request, timeout=150) as reply:
                    return json.load(reply)
            except urllib.error.HTTPError as error:
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > until:
                    raise
                time.sleep(1)


def trailforge(
    *arguments: object,
    timeout_s: float = 120,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run `trailforge` and wait. `tests.conftest` sets PREFECT_HOME."""
    assert "PREFECT_HOME" in os.environ
    with tempfile.TemporaryDirectory(prefix="trailforge-command-") as name:
        out, err = Path(name) / "out", Path(name) / "err"
        process = Running(list(map(str, arguments)), {**os.environ, "COLUMNS": "400", **(environment or {})}, out, err)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.end_group()
            raise
        printed, told = out.read_text(), err.read_text()
    said = "".join(line for line in told.splitlines(keepends=True) if not _of_when(line).startswith("reading "))
    return Ended(code, printed, said)


@dataclass(frozen=True)
class Made:
    """A run of the demo, which several test modules look at: none may change it."""

    out: Path
    command: tuple[object, ...]
    printed: str


def readme_commands() -> list[list[str]]:
    """The words after `trailforge` of each command that README.md prints, in order."""
    blocks = re.findall(r"```bash\n(.*?)\n```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [words[1:] for line in lines if (words := shlex.split(line, comments=True))[:1] == ["trailforge"]]


def readme_command(name: str, **paths: Path) -> list[object]:
    """README's command of this name, with other paths: `out` for that of `--out`, `kg` for that of `--kg` …"""
    words = next(words for words in readme_commands() if " ".join(words).startswith(f"{name} "))
    given = {f"--{option}": path for option, path in paths.items()}
    return [given.get(before, word) for before, word in zip(["", *words], words, strict=False)]


def put_replies(out: Path, name: str) -> None:
    """Begin a run of the demo with the ledger of an earlier one: what the packaged model replied then it is not asked
    again. A call that was not made then, as after a change of a prompt, is made now. To record anew: a run without
    this, and `gzip -9n` of its `ledger/calls.sqlite`.
    """
    (out / LEDGER).parent.mkdir(parents=True)
    (out / LEDGER).write_bytes(gzip.decompress((REPLIES / f"{name}.sqlite.gz").read_bytes()))


def made(out: Path, name: str, *fewer: object, **paths: Path) -> Made:
    """Run a command of README.md, with paths of the test's; `fewer` asks for less than it does, by its own option."""
    command = [*readme_command(name, out=out, **paths), *fewer]
    ended = trailforge(*command, timeout_s=900)
    assert ended.code == 0, ended.err
    return Made(out, tuple(command), ended.out)


@contextmanager
def prefect_server(log: Path, *, home: Path | None = None) -> Iterator[dict[str, str]]:
    """A Prefect server for several commands, which otherwise start one each; gives the environment that names it.

    `home`: its data and settings are there, instead of in the home of the test session.
    """
    port, own = free_port(), {"PREFECT_HOME": str(home)} if home else {}
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "prefect", "server", "start", "--no-ui", "--host", "127.0.0.1", "--port", str(port)],
            env={**os.environ, **own, "PREFECT_LOGGING_LEVEL": "ERROR"},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}/api"
            wait_for(f"{url}/health", process, log)
            yield {SERVER: url, **own}
        finally:
            process.terminate()
            process.wait(timeout=150)
            listing = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
            left = [line for line in listing.splitlines() if f"--port {port}" in line]
            assert not left, f"the server that tests started is still there: {left}"


def leftovers(folder: Path) -> list[str]:
    """What a command that failed must not leave: half-written files, a staged intake, a manifest."""
    odd = (".tmp-", ".intake", "manifest.json", "README.md")
    return [str(path) for path in folder.rglob("*") if any(mark in path.name for mark in odd)]


def _of_when(line: str) -> str:
    """A line on stderr without the time before it."""
    return re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", "", line)


def _is_progress(line: str) -> bool:
    line = _of_when(line)
    return line.startswith("reading ") or (line.startswith("questions ") and "calls" in line)


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(url: str, process: subprocess.Popen[bytes] | Running, log: Path, *, seconds: float = 300) -> None:
    """Until something answers there, which the process has to bring about."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(url, timeout=30):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"{url} does not answer:\n{log.read_text()}")


def build(folder: Path, kind: str, out: Path) -> Path:
    """Build an sdist or a wheel of the sources in a folder."""
    script = f"from setuptools import build_meta; build_meta.build_{kind}({str(out)!r})"
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr
    (built,) = out.iterdir()
    return built


def unpythonic() -> dict[str, str]:
    """The environment without variables by which Python would find this checkout."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
