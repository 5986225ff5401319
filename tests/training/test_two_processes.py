"""Two processes over gloo on loopback: they train as one, and share an engine. One start does both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.training.tiny import preset, sft_rows, training_set
from trailforge.training.trl.checkpoints import is_whole
from trailforge.training.trl.offline import train_sft
from trailforge.training.weights import load_model

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training set of eight conversations."""
    return training_set(tmp_path_factory.mktemp("set"), sft=sft_rows(copies=2))


@pytest.fixture(scope="module")
def launched(rows: Path, tiny_model: Path) -> subprocess.CompletedProcess[str]:
    """`in_two_processes`, whose training is in the folder `two` beside the rows."""
    script = Path(__file__).with_name("in_two_processes.py")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(script)]
    alone = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(script.parents[2]), "GLOO_SOCKET_IFNAME": "lo"}
    given = [str(rows), str(tiny_model), str(rows / "two")]
    return subprocess.run([*launch, *given], env=os.environ | alone, capture_output=True, text=True, timeout=240)


def test_two_processes_train_as_one(
    launched: subprocess.CompletedProcess[str], rows: Path, tiny_model: Path, tmp_path: Path
) -> None:
    """The same global batch gives the same losses and weights."""
    two = rows / "two"
    assert is_whole(two / "checkpoints" / "checkpoint-2"), launched.stderr[-3000:]
    one = train_sft(rows, preset(sft={"epochs": 4}), tmp_path / "one", base_model=str(tiny_model), max_steps=2)
    losses = [json.loads((folder / "training.json").read_text())["losses"] for folder in (tmp_path / "one", two)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    before, after = (load_model(str(model)).state_dict() for model in (one, two / "model"))
    assert all(torch.allclose(before[name], after[name], atol=2e-3) for name in before)


def test_an_engine_that_two_processes_share(launched: subprocess.CompletedProcess[str]) -> None:
    """Episodes of different lengths, and none at all in one process: nobody waits for ever, nobody gets another's."""
    assert launched.returncode == 0, launched.stderr[-3000:]
    assert {f"process {rank} got its episodes" for rank in (0, 1)} <= set(launched.stdout.splitlines())
