"""Servers that we start: they come up or say why not, they stop, and they never outlive us."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.inference.support import chat, config
from trailforge.inference import ModelClient, Sampling
from trailforge.inference.packaged import PACKAGED_MODELS, SMOLLM2, PackagedModel, packaged_licence
from trailforge.schemas import InvalidInput, ServerUnavailable
from trailforge.small_model.server import EmbeddedServer

ROOT = Path(__file__).parents[2]


def is_running(pid: int) -> bool:
    """Whether there is such a process; one that has ended and is not waited for yet is none."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def happens(what: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackagedModel:
    """An embedded model whose weights are none."""
    (tmp_path / "made_up_weights").mkdir()
    (tmp_path / "made_up_weights" / "weights.gguf").write_bytes(b"these are no weights")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    model = PackagedModel(name="made-up", package="made_up_weights", file="weights.gguf", licence="none")
    monkeypatch.setitem(PACKAGED_MODELS, model.name, model)
    return model


@pytest.fixture
def server_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Puts a shell script in the place of the interpreter that runs the server."""
    monkeypatch.setattr("importlib.util.find_spec", _with_xllamacpp(importlib.util.find_spec))

    def program(script: str) -> None:
        path = tmp_path / "server-program"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr("trailforge.small_model.server.sys.executable", str(path))

    return program


def _with_xllamacpp(find_spec: Callable) -> Callable:
    """As if the package were installed: the program that would use it is another."""
    return lambda name, *rest: find_spec("json" if name == "xllamacpp" else name, *rest)


# Without a model


def test_an_unknown_model_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(InvalidInput, match=f"no embedded model 'gpt-9'; there are {SMOLLM2.name}") as caught:
        EmbeddedServer("gpt-9")
    assert caught.value.field == "model.name"


def test_our_models_have_a_licence_and_others_none_that_we_know() -> None:
    assert packaged_licence(SMOLLM2.name) == "Apache-2.0"
    assert packaged_licence("gpt-9") is None


def test_weights_are_found_without_importing_their_package(made_up: PackagedModel, tmp_path: Path) -> None:
    (tmp_path / "made_up_weights" / "__init__.py").write_text("raise RuntimeError('imported')")
    assert made_up.weights() == tmp_path / "made_up_weights" / "weights.gguf"


@pytest.mark.parametrize(("package", "file"), [("no_such_package", "weights.gguf"), ("made_up_weights", "other.gguf")])
def test_missing_weights_name_the_package_and_a_mend(made_up: PackagedModel, package: str, file: str) -> None:
    model = PackagedModel(name="missing", package=package, file=file, licence="none")
    with pytest.raises(ServerUnavailable, match=f"needs the file {file}: run `trailforge doctor --fetch`"):
        model.weights()


def test_without_the_engine_the_error_names_it_and_a_mend(
    made_up: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name == "xllamacpp" else find_spec(name, *rest)
    )
    with pytest.raises(ServerUnavailable, match="needs the package xllamacpp: pip install"):
        EmbeddedServer(made_up.name).start()


def test_a_server_that_dies_at_once_is_an_error_with_the_end_of_its_log(
    made_up: PackagedModel, server_program: Callable[[str], None]
) -> None:
    server_program("for n in 1 2 3 4 5; do echo line $n; done; echo out of memory >&2; exit 3")
    server = EmbeddedServer(made_up.name)
    with pytest.raises(ServerUnavailable) as caught:
        server.start()
    assert str(caught.value) == "the embedded model did not come up: line 4 | line 5 | out of memory"
    assert server.pid is None


def test_a_server_that_dies_without_a_word_says_so(
    made_up: PackagedModel, server_program: Callable[[str], None]
) -> None:
    server_program("exit 1")
    with pytest.raises(ServerUnavailable, match="did not come up: it printed nothing"):
        EmbeddedServer(made_up.name).start()


def test_a_server_that_does_not_come_up_in_time_is_ended(
    made_up: PackagedModel,
    server_program: Callable[[str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trailforge.small_model.server._READY_WITHIN_S", 2.0)
    server_program(f"echo $$ > {tmp_path}/pid; echo loading; exec cat > /dev/null")
    with pytest.raises(ServerUnavailable, match=r"did not come up within 2 s: loading"):
        EmbeddedServer(made_up.name).start()
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_a_server_that_does_not_want_to_stop_is_killed(
    made_up: PackagedModel,
    server_program: Callable[[str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trailforge.small_model.server._READY_WITHIN_S", 2.0)
    monkeypatch.setattr("trailforge.small_model.server._STOP_WITHIN_S", 0.2)
    server_program(f"echo $$ > {tmp_path}/pid; exec sleep 600")
    with pytest.raises(ServerUnavailable):
        EmbeddedServer(made_up.name).start()
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_stopping_what_was_never_started_does_nothing() -> None:
    server = EmbeddedServer()
    server.stop()
    assert server.pid is None


def test_weights_that_are_none_are_an_error_with_the_end_of_the_log(made_up: PackagedModel) -> None:
    pytest.importorskip("xllamacpp")
    server = EmbeddedServer(made_up.name)
    with pytest.raises(ServerUnavailable, match="did not come up: ") as caught:
        server.start()
    assert "printed nothing" not in str(caught.value)
    assert "Error" in str(caught.value) or "fail" in str(caught.value)
    assert server.pid is None


# With the model on this machine

SHORT = Sampling(temperature=0.0, max_tokens=12)


@pytest.fixture(scope="module")
def installed() -> None:
    """Skips where the extra `embedded` is not installed."""
    pytest.importorskip("xllamacpp")
    try:
        SMOLLM2.weights()
    except ServerUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def embedded(installed: None) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(slots=2) as server:
        yield server


async def greedy(url: str, draw: int = 0) -> str:
    """The beginning of an answer. Another draw is sent with another seed, which must not matter."""
    client = ModelClient(config(url, model=SMOLLM2.name, dialect="llama_cpp"))
    try:
        question = chat("What is the capital of France?", model=SMOLLM2.name, sampling=SHORT, sample=draw)
        return (await client.complete(question)).text
    finally:
        await client.aclose()


@pytest.mark.slow
@pytest.mark.real_model
async def test_a_greedy_question_is_answered_the_same_twice(embedded: EmbeddedServer) -> None:
    answers = [await greedy(embedded.base_url, draw) for draw in (0, 0, 1, 2)]
    assert len(set(answers)) == 1
    assert len(answers[0].split()) > 1


@pytest.mark.slow
@pytest.mark.real_model
async def test_a_grammar_binds_the_embedded_model(embedded: EmbeddedServer) -> None:
    client = ModelClient(config(embedded.base_url, dialect="llama_cpp"))
    reply = await client.complete(
        chat("What is the capital of France?", grammar='root ::= "seven" | "eleven"', model=SMOLLM2.name)
    )
    await client.aclose()
    assert reply.text in ("seven", "eleven")
    assert reply.prompt_tokens > 5 and reply.completion_tokens > 0


@pytest.mark.slow
@pytest.mark.real_model
def test_a_server_that_is_stopped_is_gone(installed: None) -> None:
    server = EmbeddedServer(slots=1)
    server.start()
    pid, url = server.pid, server.base_url
    assert pid is not None and is_running(pid)
    server.stop()
    assert server.pid is None
    assert not is_running(pid)
    with pytest.raises(ServerUnavailable):
        asyncio.run(greedy(url))


PARENT = """
import time
from trailforge.small_model.server import EmbeddedServer
server = EmbeddedServer(slots=1)
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.real_model
def test_a_server_does_not_outlive_a_parent_that_is_killed(installed: None) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        assert happens(lambda: not is_running(pid), within_s=120)
    finally:
        parent.kill()
        parent.communicate()
