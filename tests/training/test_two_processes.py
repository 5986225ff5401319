"""Two processes over gloo on loopback: they train as one, and share an engine. One start does both."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.end_to_end.support import free_port
from tests.support.warm import Running
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
def said(rows: Path, tiny_model: Path) -> list[str]:
    """By each of the processes `in_two_processes`, whose training is in the folder `two` beside the rows."""
    group = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    alone = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    logs = [rows / f"{rank}.log" for rank in (0, 1)]
    processes = [
        Running(
            [str(rows), str(tiny_model), str(rows / "two")],
            {**os.environ, **group, **alone, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            log,
            log,
            module="tests.training.in_two_processes",
        )
        for rank, log in enumerate(logs)
    ]
    try:
        codes = [process.wait(240) for process in processes]
    finally:
        for process in processes:
            process.end_group()
    texts = [log.read_text() for log in logs]
    assert codes == [0, 0], "\n".join(text[-3000:] for text in texts)
    return texts


def test_two_processes_train_as_one(said: list[str], rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    """The same global batch gives the same losses and weights."""
    import torch

    two = rows / "two"
    assert is_whole(two / "checkpoints" / "checkpoint-2"), said
    one = train_sft(rows, preset(sft={"epochs": 4}), tmp_path / "one", base_model=str(tiny_model), max_steps=2)
    losses = [json.loads((folder / "training.json").read_text())["losses"] for folder in (tmp_path / "one", two)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    before, after = (load_model(str(model)).state_dict() for model in (one, two / "model"))
    assert all(torch.allclose(before[name], after[name], atol=2e-3) for name in before)


def test_an_engine_that_two_processes_share(said: list[str]) -> None:
    """Episodes of different lengths, and none at all in one process: nobody waits for ever, nobody gets another's."""
    for rank, text in enumerate(said):
        assert f"process {rank} got its episodes" in text.splitlines()
