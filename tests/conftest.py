"""For all tests: no call leaves this machine, Prefect has a home of its own, examples are the same in every CI run."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

_SECRETS = (
    *("TRAILFORGE_API_KEY", "TRAILFORGE_LEDGER_PASSWORD", "OPENAI_API_KEY", "OPENAI_BASE_URL", "HF_TOKEN"),
    *("GNEWS_API_KEY", "SERPER_API_KEY"),
)
_ELSEWHERE = ("TRAILFORGE_LEDGER_URL", "PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_PROFILE")
_PINNED = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",  # several processes share the cores: threads of one would spin where another's should run
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "TOKENIZERS_PARALLELISM": "false",
}
_SHARED = {
    "demo": [
        *(f"end_to_end/test_{name}.py" for name in ("demo", "document_bundles", "equal_rewards", "inspect")),
        *(f"end_to_end/test_{name}.py" for name in ("kg_trajectories", "kg_questions", "readme", "guides")),
    ],
    "prefect": [
        *(f"end_to_end/test_{name}.py" for name in ("schedule", "nightly", "replanned_night")),
        *(f"flows/test_{name}.py" for name in ("data_sets", "nightly", "runs", "train")),
    ],
    "wheel": ["end_to_end/test_package.py", "end_to_end/test_portable.py"],
    "umap": [
        "generators/document_bundles/bundling/test_clustering.py",
        "generators/document_bundles/test_maps.py",
        "retrieval/backends/test_estimates.py",
        "retrieval/backends/test_raptor.py",
    ],
    "torch": [
        *(f"commands/test_{name}.py" for name in ("evaluate", "training", "training_bad_input")),
        "generators/document_bundles/bundling/test_sample_documents.py",
        "generators/test_strong_model_run.py",
        *(f"retrieval/{name}.py" for name in ("test_encoder", "backends/test_dense", "backends/test_strong_trees")),
        "retrieval/backends/test_hippo_rag_run.py",
        *(
            f"training/test_{name}.py"
            for name in ("dpo", "failed_searches", "chat_marks", "generation", "judged_scores")
        ),
        *(f"training/test_{name}.py" for name in ("launch", "learning", "memory", "rl", "sft", "two_processes")),
        *(f"training/{name}.py" for name in ("test_weights", "exports/test_commands", "exports/test_trl_itself")),
    ],
}
"""Tests that look at the same runs, use Prefect or the same wheel, or load or compile the same libraries."""
_TOGETHER = {f"tests/{file}": shared for shared, files in _SHARED.items() for file in files}
_prefect_home = tempfile.TemporaryDirectory(prefix="trailforge-tests-", ignore_cleanup_errors=True)

# At import and not in a fixture: test modules import Prefect and tokenizers, which read the environment once.
os.environ.update(_PINNED, PREFECT_HOME=_prefect_home.name)
for _name in (*_SECRETS, *_ELSEWHERE):
    os.environ.pop(_name, None)

# A shell starts what runs in the background deaf to Ctrl-C; commands that tests stop in that way must not inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: on two shared cores the first example of a test may wait for an import.
settings.register_profile("local", deadline=None, max_examples=30)
settings.register_profile("ci", deadline=None, max_examples=30, derandomize=True, database=None, print_blob=True)
settings.register_profile("long", deadline=None, max_examples=1_000)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_configure(config: pytest.Config) -> None:
    """The processes of pytest-xdist have one server of warm commands: to load its libraries takes ten seconds. Where
    they run all the tests, they are forks of it, too, and it has imported these.
    """
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        from tests.support import forked_workers, warm

        first = ""
        if config.args_source is config.ArgsSource.TESTPATHS:
            config.option.tx = [forked_workers.spec()] * len(config.option.tx)
            first = f"from tests.support import forked_workers; forked_workers.load({config.invocation_params.args!r})"
        warm.share(Path(_prefect_home.name), first)


# What is imported and collected stays to the end: looking for garbage in it takes a third of the time of collecting.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """From here on there may be garbage, which is looked for seldom: what is imported later is much and none of it."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_unconfigure() -> None:
    """Stop Prefect's private server, which the processes of pytest-xdist would leave behind, and remove its home."""
    if "trailforge.flows" in sys.modules:
        if (services := sys.modules.get("prefect._internal.concurrency.services")) is not None:
            services.QueueService.drain_all(timeout=10)  # of what it still has to tell the server, it waits a minute
        sys.modules["trailforge.flows"].stop_server()
    logging.raiseExceptions = False  # its server says goodbye at exit, to a stream that pytest has closed
    _prefect_home.cleanup()


class _ByFile(LoadScopeScheduling):
    """Of the processes that share the tests, each takes whole files; what shares things dear to make stays together.

    `--dist loadgroup` would do it, but pytest 9 no longer hears of its groups (pytest-xdist 3.8, its issue 1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return _TOGETHER.get(file, file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Files in their order: by default those with few tests come last, and these are the ones that take minutes."""
    config.option.loadscopereorder = False
    return _ByFile(config, log)


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Bytes take the name of their argument: gzip packs the time into them, and all processes must agree."""
    del config
    return argname if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def _environment_as_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test may set what it likes in `os.environ`, even without monkeypatch: the next one finds the values above."""
    for name in (*_SECRETS, *_ELSEWHERE):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**_PINNED, "PREFECT_HOME": _prefect_home.name}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of public data sets that TRAILFORGE_DATA names; the test is skipped when there is none."""
    folder = os.environ.get("TRAILFORGE_DATA")
    if not folder:
        pytest.skip("TRAILFORGE_DATA is not set")
    path = Path(folder).resolve()
    assert path.is_dir(), f"TRAILFORGE_DATA names {folder}, which is no folder"
    return path
