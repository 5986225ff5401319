"""TRL's own data preparation on its export: the labels are ours, token by token; every setting is one that it knows."""

from __future__ import annotations

import dataclasses
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import finished_runs as made
from tests.support.tiny_tokenizer import tiny_tokenizer
from tests.training.exports.commands import command_in
from trailforge.schemas import SftRow
from trailforge.schemas.text import count_conversation
from trailforge.training.exports import export
from trailforge.training.masks import IGNORED, masked_tokens, prepare_tokenizer
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.files import open_set

pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed")]
ASKED = [made.question(number) for number in range(30)]
LONG = [
    dataclasses.replace(each, id=f"long-{each.id}", question=f"{'It is a silent film. ' * 25}{each.question}")
    for each in ASKED[:9]
]
"""Questions whose rows are longer than those over a graph, whose prompt is the longest."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training set in `set/` and its export in `trl/`."""
    home = tmp_path_factory.mktemp("trl")
    rows = [row for asked in ASKED for row in made.mcts_rows(asked)]
    rows += [row for asked in LONG for row in made.mcts_rows(asked, reflective=True)]
    asked = [*ASKED, *LONG]
    runs = [made.mcts_run(home / "mcts", asked, rows), made.bundles_run(home / "b"), made.kg_run(home / "k", ASKED[:9])]
    # Reflective rows are cut, no others.
    longest = min(count_conversation(row.messages) for row in rows[len(ASKED) :]) - 1
    config = ViewConfig(validation_share=0.1, max_tokens=longest, long_rows="segments")
    make_training_set(runs, home / "set", config)
    export(home / "set", "trl", home / "trl")
    return home


def test_settings_are_known_to_trl(folder: Path) -> None:
    """Each key of the YAML files, by the classes that parse them."""
    from trl.scripts.utils import ScriptArguments
    from trl.trainer.model_config import ModelConfig
    from trl.trainer.sft_config import SFTConfig

    def known(*classes: Any) -> set[str]:
        return {field.name for each in classes for field in dataclasses.fields(each)}

    sft = yaml.safe_load((folder / "trl" / "sft.yaml").read_text())
    assert not sft.keys() - known(SFTConfig, ScriptArguments, ModelConfig)
    assert sft["gradient_accumulation_steps"] * 8 == 32


def test_the_command_of_the_readme_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the script that it starts, which refuses what it does not know."""
    from trl.scripts.sft import make_parser

    monkeypatch.chdir(folder / "trl")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    words = command_in(folder / "trl" / "README.md", "accelerate launch")
    arguments = words[words.index("trl.scripts.sft") + 1 :]
    on_cpu = ["--bf16", "false", "--use_cpu"]
    data, sft, model, _ = make_parser().parse_args_and_config([*arguments, *on_cpu], fail_with_unknown_args=False)
    assert (data.dataset_name, sft.max_length) == ("sft", 16384) and model.model_name_or_path.startswith("Qwen")


def test_labels_are_ours(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the exported settings and template; segments included."""
    from datasets import load_dataset
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    monkeypatch.chdir(folder / "trl")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(folder / "cache"))
    settings = yaml.safe_load(Path("sft.yaml").read_text())
    for name in ("model_name_or_path", "dataset_name", "dataset_test_split", "eval_strategy"):
        settings.pop(name)
    data = load_dataset("parquet", data_files={"train": "sft/train.parquet"}, cache_dir=str(folder / "cache"))["train"]
    tokenizer: Any = tiny_tokenizer()
    size: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=1, **size))
    config = SFTConfig(**settings | {"bf16": False, "use_cpu": True, "report_to": "none"})
    trainer = SFTTrainer(model=model, args=config, train_dataset=data, processing_class=tokenizer)
    found: Any = trainer.train_dataset
    prepare_tokenizer(tokenizer)
    expected = list(open_set(folder / "set").rows("sft", "train", SftRow))
    assert len(found) == len(expected) >= 50
    assert {row.protocol for row in expected} >= {"react", "r_search", "kg_search"} and any(
        row.segment_count > 1 for row in expected
    )
    for row, prepared in zip(expected, found, strict=True):
        masked = masked_tokens(tokenizer, row.messages, row.train)
        assert prepared["input_ids"] == masked.input_ids
        assert prepared["labels"] == masked.labels and IGNORED in masked.labels
