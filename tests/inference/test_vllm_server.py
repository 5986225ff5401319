"""vLLM started by us: the command that a preset's section makes, and the life of the process, with a stand-in."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.end_to_end.support import trailforge
from tests.inference.test_servers import happens, is_running
from trailforge.inference.server import LocalServer
from trailforge.inference.vllm.server import VllmConfig, VllmServer, serve, server_environment, vllm_arguments
from trailforge.schemas import InvalidInput, OutputError, ServerUnavailable, from_dict, to_dict

ROOT = Path(__file__).parents[2]
NAME = "Qwen/QwQ-32B"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# The command


def test_the_least_that_can_be_said_makes_this_command() -> None:
    assert VllmServer(VllmConfig(), NAME).command_line == (
        "vllm serve Qwen/QwQ-32B --served-model-name Qwen/QwQ-32B --host 127.0.0.1 --port 8000 "
        "--tensor-parallel-size 1 --dtype auto --structured-outputs-config.backend auto --enable-prefix-caching"
    )


def test_all_that_can_be_said_makes_this_command() -> None:
    config = VllmConfig(
        model="/models/my weights",
        environment="/opt/vllm",
        start="module",
        host="0.0.0.0",
        port=8001,
        tensor_parallel_size=2,
        prefix_caching=False,
        reasoning_parser="deepseek_r1",
        structured_outputs="guidance",
        max_model_len=4096,
        dtype="bfloat16",
        gpu_memory_share=0.5,
        max_num_seqs=64,
        extra_args=("--enforce-eager",),
        variables=("CUDA_VISIBLE_DEVICES=0,1", "NOTE=two words"),
    )
    assert VllmServer(config, NAME).command_line == (
        "env CUDA_VISIBLE_DEVICES=0,1 'NOTE=two words' /opt/vllm/bin/python -m vllm.entrypoints.openai.api_server "
        "--model '/models/my weights' --served-model-name Qwen/QwQ-32B --host 0.0.0.0 --port 8001 "
        "--tensor-parallel-size 2 --dtype bfloat16 --max-model-len 4096 --max-num-seqs 64 "
        "--gpu-memory-utilization 0.5 --reasoning-parser deepseek_r1 "
        "--structured-outputs-config.backend guidance --no-enable-prefix-caching --enforce-eager"
    )


CONFIGS = st.builds(
    VllmConfig,
    model=st.text(),
    host=st.sampled_from(["127.0.0.1", "0.0.0.0", "::1", "::"]),
    port=st.integers(1, 65535),
    tensor_parallel_size=st.integers(1, 16),
    prefix_caching=st.booleans(),
    reasoning_parser=st.sampled_from(["", "deepseek_r1", "qwen3"]),
    structured_outputs=st.sampled_from(["auto", "xgrammar", "guidance", "outlines", "lm-format-enforcer"]),
    max_model_len=st.none() | st.integers(1, 1 << 20),
    gpu_memory_share=st.none() | st.floats(0.01, 1.0),
    max_num_seqs=st.none() | st.integers(1, 1024),
    extra_args=st.lists(st.text(), max_size=3).map(tuple),
)


@given(CONFIGS, st.text(min_size=1))
def test_what_is_said_is_in_the_command_and_nothing_is_said_twice(config: VllmConfig, name: str) -> None:
    words = vllm_arguments(config, name)
    options = words[1 : len(words) - len(config.extra_args)]
    said = dict(zip(options[::2], options[1::2], strict=False))
    assert words[0] == (config.model or name)
    assert said["--served-model-name"] == name
    assert said["--port"] == str(config.port) and said["--host"] == config.host
    flags = [word for word in options[::2] if word.startswith("--")]
    assert len(flags) == len(set(flags))
    assert ("--max-model-len" in flags) == (config.max_model_len is not None)
    assert ("--reasoning-parser" in flags) == bool(config.reasoning_parser)
    assert ("--enable-prefix-caching" in flags) == config.prefix_caching
    assert tuple(words[len(words) - len(config.extra_args) :]) == config.extra_args
    line = VllmServer(config, name).command_line
    assert shlex.split(line) == ["vllm", "serve", *words]


@given(CONFIGS)
def test_a_section_survives_the_way_through_a_file(config: VllmConfig) -> None:
    assert from_dict(VllmConfig, to_dict(config)) == config


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"tensor_parallel_size": 0}, "tensor_parallel_size"),
        ({"gpu_memory_share": 0.0}, "gpu_memory_share"),
        ({"gpu_memory_share": 92.0}, "gpu_memory_share"),
        ({"variables": ["NAME"]}, "variables"),
        ({"variables": ["2=x"]}, "variables"),
    ],
)
def test_what_cannot_be_is_refused_by_name(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        from_dict(VllmConfig, changes)
    assert caught.value.field == f"server.{field}"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("10.1.2.3", "http://10.1.2.3:8000"),
    ],
)
def test_the_url_is_one_that_this_machine_reaches(host: str, url: str) -> None:
    server = VllmServer(VllmConfig(host=host), NAME)
    assert (server.url, server.base_url) == (url, url + "/v1")


def test_our_python_does_not_leak_into_its_environment() -> None:
    ours = {"PYTHONPATH": "/here", "VIRTUAL_ENV": "/here/.venv", "PATH": "/bin", "CUDA_VISIBLE_DEVICES": "7"}
    assert server_environment(("CUDA_VISIBLE_DEVICES=0,1", "A=b=c"), ours) == {
        "PATH": "/bin",
        "VLLM_NO_USAGE_STATS": "1",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "A": "b=c",
    }


# The process


class Fake:
    """A folder like that of an environment with vLLM, whose `vllm` is our stand-in."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._pids = folder, folder / "pids"
        (folder / "bin").mkdir()
        program = folder / "bin" / "vllm"
        fake = ROOT / "tests" / "support" / "fake_vllm.py"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(fake))} "$@"\n')
        program.chmod(0o755)

    def config(self, *fake: str, **changes: Any) -> VllmConfig:
        """A section that starts it."""
        section = {
            "environment": str(self.folder),
            "port": free_port(),
            "extra_args": ("--fake", *fake) if fake else (),
            "variables": (f"FAKE_VLLM_PIDS={self._pids}",),
            "ready_within_s": 150.0,
        }
        return VllmConfig(**section | changes)

    @property
    def pids(self) -> list[int]:
        """Of the server and of the child that it started."""
        assert happens(lambda: self._pids.exists() and self._pids.read_text() != "", within_s=120)
        return [int(pid) for pid in self._pids.read_text().split()]

    @property
    def variables(self) -> set[str]:
        """Names in its environment."""
        return set(self._pids.with_suffix(".env").read_text().split())

    def is_gone(self) -> bool:
        """Whether server and child have ended. Who is killed lives on until the system has taken it down."""
        return happens(lambda: not any(is_running(pid) for pid in self.pids), within_s=60)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Fake]:
    folder = tmp_path / "vllm environment"
    folder.mkdir()
    yield Fake(folder)


def test_it_serves_tells_its_figures_and_ends_with_its_children(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with VllmServer(fake.config(), NAME) as server:
        assert server.pid is not None and is_running(server.pid)
        with urllib.request.urlopen(f"{server.base_url}/models") as reply:
            assert NAME in reply.read().decode()
        assert server.metrics().running == 64
        server.raise_if_ended()
        assert "PYTHONPATH" not in fake.variables and "VLLM_NO_USAGE_STATS" in fake.variables
        assert all(is_running(pid) for pid in fake.pids)
    assert server.pid is None
    assert fake.is_gone()


def test_a_proxy_in_the_environment_is_not_asked_about_loopback(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with VllmServer(fake.config(), NAME) as server:
        assert server.metrics().preemptions == 12


def test_one_that_dies_at_its_start_is_an_error_with_the_end_of_its_log(fake: Fake) -> None:
    server = VllmServer(fake.config("die"), NAME)
    with pytest.raises(ServerUnavailable) as caught:
        server.start()
    assert str(caught.value) == (
        f"vLLM did not come up: loading {NAME} | Traceback: something deep | RuntimeError: no accelerator"
    )
    assert server.pid is None


def test_one_that_never_gets_healthy_is_ended_with_its_children(fake: Fake) -> None:
    server = VllmServer(fake.config("mute", ready_within_s=6.0), NAME)
    with pytest.raises(ServerUnavailable, match=rf"vLLM did not come up within 6 s: loading {NAME}"):
        server.start()
    assert fake.is_gone()


def test_one_that_does_not_want_to_end_is_killed(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    impatient = tmp_path / "supervisor.py"
    text = (ROOT / "inference" / "vllm" / "supervisor.py").read_text(encoding="utf-8")
    impatient.write_text(text.replace("_GENTLY_S = 15.0", "_GENTLY_S = 0.3"), encoding="utf-8")
    monkeypatch.setattr("trailforge.inference.vllm.supervisor.__file__", str(impatient))
    with VllmServer(fake.config("deaf"), NAME):
        pass
    assert fake.is_gone()


def test_one_that_ends_by_itself_later_is_an_error_with_the_end_of_its_log(fake: Fake) -> None:
    with VllmServer(fake.config("short"), NAME) as server:
        ended: list[str] = []

        def has_ended() -> bool:
            try:
                server.raise_if_ended()
            except ServerUnavailable as error:
                ended.append(str(error))
            return bool(ended)

        assert happens(has_ended, within_s=120)
    assert ended == [f"vLLM ended: loading {NAME} | RuntimeError: engine lost"]
    assert fake.is_gone()


def test_a_taken_port_is_told_before_anything_starts(fake: Fake) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        server = VllmServer(fake.config(port=other.getsockname()[1]), NAME)
        with pytest.raises(ServerUnavailable, match=r"cannot listen at 127\.0\.0\.1:\d+ \(Address already in use\)"):
            server.start()
    assert server.pid is None


def test_a_folder_without_vllm_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServerUnavailable, match=f"there is no {tmp_path}/bin/vllm: install vLLM in an environment"):
        VllmServer(VllmConfig(environment=str(tmp_path)), NAME).start()


def test_a_log_that_cannot_be_written_is_named(fake: Fake, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"no/such\.log cannot be written"):
        VllmServer(fake.config(), NAME, log=tmp_path / "no" / "such.log").start()


PARENT = """
import sys, time, yaml
from trailforge.inference.vllm.server import VllmConfig, VllmServer
from trailforge.schemas import from_dict
server = VllmServer(from_dict(VllmConfig, yaml.safe_load(sys.stdin)), "any")
server.start()
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_does_not_outlive_its_parent(fake: Fake, number: signal.Signals) -> None:
    section = yaml.safe_dump(to_dict(fake.config()))
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert parent.stdin is not None and parent.stdout is not None
        parent.stdin.write(section)
        parent.stdin.close()
        parent.stdin = None
        assert parent.stdout.readline() == "up\n"
        assert all(is_running(pid) for pid in fake.pids)
        os.kill(parent.pid, number)
        parent.wait()
        assert happens(fake.is_gone, within_s=120)
    finally:
        parent.kill()
        parent.communicate()


class _Supervised(LocalServer):
    """A program that is not there, under the supervisor."""

    @property
    def url(self) -> str:
        return "http://127.0.0.1:9"

    def start(self) -> None:
        supervisor = ROOT / "inference" / "vllm" / "supervisor.py"
        log = tempfile.TemporaryFile()  # noqa: SIM115, closed by stop()
        self.launch([sys.executable, "-I", str(supervisor), "/no/such/program"], os.environ, log, 10)


def test_the_supervisor_says_what_it_cannot_start() -> None:
    server = _Supervised("it")
    with pytest.raises(ServerUnavailable, match="it did not come up: /no/such/program: No such file or directory"):
        server.start()
    assert server.pid is None


# In the foreground


def test_serving_tells_command_log_health_url_and_figures(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trailforge.inference.vllm.server._TELL_EVERY_S", 0.1)
    config, lines = fake.config(), list[str]()

    def tell(line: str) -> None:
        lines.append(line)
        if "running" in line:
            raise KeyboardInterrupt

    serve(config, NAME, tmp_path / "vllm.log", tell)
    assert lines[0] == f"command: {VllmServer(config, NAME).command_line}"
    assert lines[1] == f"log:     {tmp_path}/vllm.log"
    assert lines[3].startswith("healthy after ") and lines[3].endswith(f"--model http://127.0.0.1:{config.port}/v1")
    assert lines[4].startswith("64 running, 7 waiting") and lines[5:] == ["stopped"]
    assert (tmp_path / "vllm.log").read_text() == f"loading {NAME}\n"
    assert fake.is_gone()


def test_serving_ends_at_a_ctrl_c_that_python_dropped(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As CPython drops it where it comes in the middle of a finalizer."""
    before, lines = signal.getsignal(signal.SIGINT), list[str]()

    def drop(server: VllmServer) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(VllmServer, "raise_if_hung", drop)
    serve(fake.config(), NAME, tmp_path / "vllm.log", lines.append)
    assert lines[3].startswith("healthy after ") and lines[4:] == ["stopped"]
    assert signal.getsignal(signal.SIGINT) is before
    assert fake.is_gone()


def test_serving_ends_with_an_error_when_vllm_ends(fake: Fake, tmp_path: Path) -> None:
    with pytest.raises(ServerUnavailable, match=r"vLLM ended: .*engine lost"):
        serve(fake.config("short"), NAME, tmp_path / "vllm.log", lambda line: None)
    assert fake.is_gone()


def test_serving_ends_with_an_error_when_vllm_answers_no_more(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process lives on: only /health tells."""
    monkeypatch.setattr("trailforge.inference.vllm.server._HEALTHY_WITHIN_S", 0.2)
    with pytest.raises(ServerUnavailable, match=r"has not answered at \S+/health for 1 s"):
        serve(fake.config("hang", silence_s=1.0), NAME, tmp_path / "vllm.log", lambda line: None)
    assert fake.is_gone()


def preset_of(config: VllmConfig, tmp_path: Path) -> Path:
    """A preset with that section."""
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"model": {"name": NAME}, "server": to_dict(config)}))
    return path


def test_the_command_serves_until_ctrl_c(fake: Fake, tmp_path: Path) -> None:
    port = free_port()
    words = ["serve-model", "--preset", str(preset_of(fake.config(), tmp_path)), "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "trailforge", *words, "--log", str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        while not (line := process.stdout.readline()).startswith("healthy"):
            assert line
        assert f"http://127.0.0.1:{port}/v1" in line
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=200)
        assert (rest, process.returncode) == ("stopped\n", 0)
        assert fake.is_gone()
    finally:
        process.kill()
        process.communicate()


def test_the_command_may_be_printed_alone() -> None:
    words = ["serve-model", "--preset", "msearcher", "--port", "8001", "--print-command"]
    done = trailforge(*words)
    assert done.code == 0 and done.err == ""
    assert done.out == (
        "vllm serve Qwen/QwQ-32B --served-model-name Qwen/QwQ-32B --host 127.0.0.1 --port 8001 "
        "--tensor-parallel-size 2 --dtype bfloat16 --max-model-len 32768 --max-num-seqs 256 "
        "--gpu-memory-utilization 0.92 --reasoning-parser deepseek_r1 --structured-outputs-config.backend xgrammar "
        "--enable-prefix-caching --disable-uvicorn-access-log\n"
    )


def test_a_preset_without_a_server_serves_nothing() -> None:
    words = ["serve-model", "--preset", "demo"]
    done = trailforge(*words)
    assert done.code == 2
    assert done.err == "error: preset demo: the preset has no section 'server', so there is nothing to serve\n"
