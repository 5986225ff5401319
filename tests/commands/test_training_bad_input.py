"""Training commands on input that will not do: the exit code, one line that says what, and nothing half-written."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pyarrow.parquet as pq
import pytest
import yaml

from tests.end_to_end.support import trailforge as process
from tests.support import finished_runs as made
from tests.support.files import restate
from tests.training.tiny import SAMPLE, rl_rows, save_tiny_model, sft_rows, training_set
from trailforge import cli
from trailforge.schemas import ChatMessage
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
ASKED = [made.question(number) for number in range(4)]
DOCUMENTS = ("--documents", SAMPLE / "documents.jsonl")
Command = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A preset for it."""
    common = {"base_model": "none", "epochs": 1, "learning_rate": 1e-3, "precision": "float32", "logging": "none"}
    rl = {"algorithm": "grpo", "prompts_per_step": 2, "samples": 2, "mini_batch": 4, "per_device": 4, "max_tokens": 60}
    content = {
        "protocol": "react",
        "retrieval": {"kind": "bm25"},
        "reward": {"kind": "msearcher", "max_tokens": 60, "cache_tokens": 10},
        "sft": common | {"batch_size": 4, "max_tokens": 600, "save_steps": 1},
        "rl": common | rl | {"rollouts": "transformers"},
    }
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture
def trailforge(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command without a process of its own, which would import its libraries anew: exit code, standard error."""

    def end(said: str, exit_code: int, *, is_error: bool = True) -> NoReturn:
        print(f"error: {said}" if is_error else said, file=sys.stderr)
        raise SystemExit(exit_code)

    monkeypatch.setattr(cli, "_end", end)
    monkeypatch.setenv("PREFECT_LOGGING_LEVEL", "CRITICAL")  # or all logs of this process would be disabled

    def run(*words: object) -> tuple[int, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main([str(word) for word in words])
        return int(ended.value.code or 0), capsys.readouterr().err

    return run


def refused(ended: tuple[int, str], *expected: str, code: int = 2) -> None:
    """One line that holds all this, and the exit code of the error."""
    found, told = ended
    lines = [line for line in told.splitlines() if line.startswith("error: ")]
    assert found == code, told
    assert len(lines) == 1 and told.rstrip().endswith(lines[0]) and "Traceback" not in told
    assert all(text in lines[0] for text in expected), lines[0]


def names(folder: Path) -> set[str]:
    """What lies in a folder, hidden things too."""
    return {path.name for path in folder.iterdir()}


def of_another_version(path: Path) -> None:
    """Write a table anew as of another schema version."""
    table = pq.read_table(path)
    metadata = (table.schema.metadata or {}) | {b"trailforge.version": b"9.0"}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def cut(path: Path) -> None:
    """Leave a table's first three rows."""
    pq.write_table(pq.read_table(path).slice(0, 3), path)


def test_a_shard_of_another_version(trailforge: Command, tiny_model: Path, recipe: Path, tmp_path: Path) -> None:
    rows = training_set(tmp_path / "set", sft=sft_rows(), rl=rl_rows())
    for table in ("sft", "rl"):
        of_another_version(rows / table / "train" / "part-00000.parquet")
    restate(rows)
    run = made.mcts_run(tmp_path / "run", ASKED, [row for asked in ASKED for row in made.mcts_rows(asked)])
    made_set = make_training_set([run], tmp_path / "made", ViewConfig(validation_share=0.0))
    of_another_version(tmp_path / "made" / made_set.files[0].path)
    restate(tmp_path / "made")
    before = names(tmp_path)
    common = ("--preset", recipe, "--base-model", tiny_model, "--out", tmp_path / "out")
    for words in (
        ("train", "sft", rows, *common),
        ("train", "rl", rows, *common, *DOCUMENTS),
        ("export", tmp_path / "made", "--to", "verl", "--out", tmp_path / "out"),
    ):
        refused(trailforge(*words), "part-00000.parquet", "schema version 9.0")
    assert names(tmp_path) == before


def test_a_shard_that_was_changed(trailforge: Command, tiny_model: Path, recipe: Path, tmp_path: Path) -> None:
    """A readable file with other rows than the manifest says, as after an interrupted copy, is not trained on."""
    rows = training_set(tmp_path / "set", sft=sft_rows(), rl=rl_rows())
    for table in ("sft", "rl"):
        cut(rows / table / "train" / "part-00000.parquet")
    run = made.mcts_run(tmp_path / "run", ASKED, [row for asked in ASKED for row in made.mcts_rows(asked)])
    made_set = make_training_set([run], tmp_path / "made", ViewConfig(validation_share=0.0))
    cut(tmp_path / "made" / made_set.files[0].path)
    before = names(tmp_path)
    common = ("--preset", recipe, "--base-model", tiny_model, "--out", tmp_path / "out")
    for words in (
        ("train", "sft", rows, *common),
        ("train", "rl", rows, *common, *DOCUMENTS),
        ("export", tmp_path / "made", "--to", "trl", "--out", tmp_path / "out"),
    ):
        refused(trailforge(*words), "part-00000.parquet is not the file that manifest.json describes", code=8)
    assert names(tmp_path) == before


def test_no_question_in_the_presets_protocol(
    trailforge: Command, tiny_model: Path, recipe: Path, tmp_path: Path
) -> None:
    """Says in which ones they are, and how to ask them in it."""
    rows = training_set(tmp_path / "set", rl=rl_rows("kg_search"))
    before = names(tmp_path)
    command = ("train", "rl", rows, "--preset", recipe, "--base-model", tiny_model, "--out", tmp_path / "out")
    refused(
        trailforge(*command, *DOCUMENTS),
        "rl/train asks nothing in react (kg_search 4); `training-set --protocol react` asks them so",
    )
    assert names(tmp_path) == before


def test_a_vllm_server_that_nobody_would_ask(
    trailforge: Command, tiny_model: Path, recipe: Path, tmp_path: Path
) -> None:
    rows = training_set(tmp_path / "set", rl=rl_rows())
    command = ("train", "rl", rows, "--preset", recipe, "--base-model", tiny_model, "--out", tmp_path / "out")
    url = ("--vllm-url", "http://127.0.0.1:9")
    refused(trailforge(*command, *DOCUMENTS, *url), "transformers asks no vLLM server: give --rollouts vllm-server")
    refused(trailforge(*command, *DOCUMENTS, *url, "--rollouts", "vllm-colocate"), "vllm-colocate asks no vLLM server")
    refused(trailforge(*command, *DOCUMENTS, "--rollouts", "vllm-server"), "give --vllm-url")
    assert not (tmp_path / "out").exists()


def test_a_split_without_rows(trailforge: Command, tiny_model: Path, recipe: Path, tmp_path: Path) -> None:
    rows = training_set(tmp_path / "set", rl=rl_rows())
    questions = training_set(tmp_path / "other", sft=sft_rows())
    run = made.mcts_run(tmp_path / "run", ASKED[:1], made.mcts_rows(ASKED[0]))
    before = names(tmp_path)
    common = ("--preset", recipe, "--base-model", tiny_model, "--out", tmp_path / "out")
    refused(trailforge("train", "sft", rows, *common), str(rows), "no rows in sft/train")
    refused(trailforge("train", "rl", questions, *common, *DOCUMENTS), str(questions), "no rows in rl/train")
    evaluated = ("evaluate", rows, "--agent", "react", "--backend", "bm25", "--out", tmp_path / "out")
    refused(trailforge(*evaluated, "--model", "http://127.0.0.1:9/v1", *DOCUMENTS), "no rows in rl/validation")
    refused(trailforge("training-set", run, "--out", tmp_path / "out", "--validation", 0.5), "would be empty")
    assert names(tmp_path) == before


def test_rows_longer_than_the_limit(trailforge: Command, tiny_model: Path, recipe: Path, tmp_path: Path) -> None:
    run = made.mcts_run(tmp_path / "run", ASKED, [row for asked in ASKED for row in made.mcts_rows(asked)])
    content = yaml.safe_load(recipe.read_text())
    content["sft"]["max_tokens"] = 10
    recipe.write_text(yaml.safe_dump(content))
    asked = rl_rows()
    endless = replace(asked[0], prompt=(asked[0].prompt[0], ChatMessage(role="user", content="word " * 3000)))
    rows = training_set(tmp_path / "set", sft=sft_rows(), rl=[endless, *asked[1:]])
    before = names(tmp_path)
    refused(
        trailforge("training-set", run, "--out", tmp_path / "out", "--max-tokens", 20),
        "no rows are left (too_long)",
        "--max-tokens",
        code=14,
    )
    common = ("--preset", recipe, "--base-model", tiny_model, "--out", tmp_path / "out")
    refused(trailforge("train", "sft", rows, *common), "no conversation has a token to train within 10")
    refused(trailforge("train", "rl", rows, *common, *DOCUMENTS), "do not fit into the model's 2048", "rl.max_tokens")
    assert names(tmp_path) == before


def test_a_base_model_that_is_not_there(trailforge: Command, tiny_model: Path, recipe: Path, tmp_path: Path) -> None:
    """Neither folder nor name; one whose weights are damaged; one whose tokenizer is missing."""
    rows = training_set(tmp_path / "set", sft=sft_rows(), rl=rl_rows())
    for name, gone in (("weights", "model.safetensors"), ("words", "tokenizer.json")):
        (tmp_path / name).mkdir()
        for path in tiny_model.iterdir():
            if path.name != gone and not (gone.startswith("tokenizer") and path.name.startswith("tokenizer")):
                (tmp_path / name / path.name).write_bytes(path.read_bytes())
    before = names(tmp_path)
    for base, said in (
        (tmp_path / "nowhere", "no such folder"),
        ("nobody/nothing-7b", "cannot be fetched"),
        (tmp_path / "weights", "weights cannot be loaded"),
        (tmp_path / "words", "holds no tokenizer"),
    ):
        common = ("--preset", recipe, "--base-model", base, "--out", tmp_path / "out")
        refused(trailforge("train", "sft", rows, *common), said)
        refused(trailforge("train", "rl", rows, *common, *DOCUMENTS), said)
    assert names(tmp_path) == before


def test_an_interrupted_checkpoint(trailforge: Command, tiny_model: Path, recipe: Path, tmp_path: Path) -> None:
    """It is passed over, and said so; the training ends. A folder without --resume stays as it is."""
    rows = training_set(tmp_path / "set", sft=sft_rows(copies=2))
    out = tmp_path / "out"
    command = ("train", "sft", rows, "--preset", recipe, "--base-model", tiny_model, "--out", out)
    assert trailforge(*command, "--max-steps", 2)[0] == 0
    broken = out / "checkpoints" / "checkpoint-2"
    (broken / "model.safetensors").write_bytes(b"half of it")
    (out / "model" / "model.safetensors").unlink()
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    refused(trailforge(*command, "--max-steps", 2), "--resume", code=9)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    code, told = trailforge(*command, "--max-steps", 2, "--resume")
    assert code == 0 and f"{broken} is not whole" in told
    assert (out / "model" / "model.safetensors").stat().st_size > 1000
    assert (out / "settings.json").write_text("{") and trailforge(*command, "--resume")[0] == 9


def test_the_command_itself(tmp_path: Path) -> None:
    """As a process: one line on standard error, and its exit code."""
    run = made.mcts_run(tmp_path / "run", ASKED, [row for asked in ASKED for row in made.mcts_rows(asked)])
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(manifest | {"schema_version": "9.0"}))
    words = ["training-set", str(run), "--out", str(tmp_path / "out")]
    done = process(*words)
    refused((done.code, done.err), str(run / "manifest.json"), "Manifest of schema version 9.0")
    assert done.err.count("\n") == 1 and names(tmp_path) == {"run"}
