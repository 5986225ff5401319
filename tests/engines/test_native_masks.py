"""Native tool calls in the engines: TRL, verl and verifiers train the tokens that a server was sent and that were
written, in templates of the traits of Qwen3's, Llama 3's and Hermes'. Each runs in the environment that has it.
"""

# verl and verifiers are installed in environments of their own.
# pyright: reportMissingImports=false

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.protocols.browse.test_loop import Agent, run
from tests.support.browse_agent import Road
from tests.support.native_models import TEMPLATES, agent_of, native_tokenizer, served, trained_turns
from tests.support.sft_rows import sft_row
from trailforge.protocols.browse import BROWSE, window_rows
from trailforge.training.exports.verl_sft import DATA_SET, TOKENS
from trailforge.training.masks import MaskedTokens
from trailforge.training.native import native_tokens
from trailforge.training.native.tokens import server_messages

pytestmark = pytest.mark.slow
every_model = pytest.mark.parametrize("model", TEMPLATES)


async def trained_and_served(model: str) -> tuple[Any, MaskedTokens, list[list[int]], Any]:
    """Tokenizer, tokens and labels of an episode, the prompts that its server read, and the conversation."""
    agent, tokenizer = Agent(agent_of(model)), native_tokenizer(model)
    done = await run(agent, Road(4), writing="native")
    (row,) = window_rows(sft_row("u", (), protocol=BROWSE, question="q", answer="a"), done.record)
    assert row.native is not None
    (made,) = native_tokens(tokenizer, row.native, row.train)
    return tokenizer, made, served(tokenizer, agent.requests), row.native


def turns_of(ids: list[int], mask: list[int]) -> list[list[int]]:
    """The tokens before each trained turn."""
    return [ids[:at] for at, own in enumerate(mask) if own and not mask[at - 1]]


@every_model
async def test_trl_trains_what_was_served(model: str) -> None:
    pytest.importorskip("trl")
    from datasets import Dataset
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    tokenizer, made, prompts, _ = await trained_and_served(model)
    size: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    model_of = Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=1, **size))
    rows = Dataset.from_dict({"input_ids": [made.input_ids], "labels": [made.labels]})
    config = SFTConfig(max_length=None, bf16=False, use_cpu=True, report_to="none", packing=False)
    trainer: Any = SFTTrainer(model=model_of, args=config, train_dataset=rows, processing_class=tokenizer)
    (batch,) = trainer.get_train_dataloader()
    labels = batch["labels"][0].tolist()
    assert batch["input_ids"][0].tolist() == made.input_ids and labels == made.labels
    assert turns_of(made.input_ids, [int(label != -100) for label in labels]) == prompts


@every_model
async def test_verl_trains_what_was_served(model: str, tmp_path: Path) -> None:
    """By the names that its configuration has for our data set, up to the batch of its trainer."""
    pytest.importorskip("verl")
    from omegaconf import OmegaConf
    from verl.trainer.sft_trainer import create_sft_dataset
    from verl.utils.dataset.dataset_utils import SFTTensorCollator

    tokenizer, made, prompts, _ = await trained_and_served(model)
    row = {"input_ids": made.input_ids, "loss_mask": made.mask, "uid": "u"}
    pq.write_table(pa.Table.from_pylist([row, row], schema=TOKENS), tmp_path / "rows.parquet")
    path, name = DATA_SET
    config = {"custom_cls": {"path": path, "name": name}, "pad_mode": "no_padding", "max_length": 100_000}
    data: Any = create_sft_dataset(str(tmp_path / "rows.parquet"), OmegaConf.create(config), tokenizer, None)
    batch = SFTTensorCollator("no_padding")([data[0], data[1]])  # type: ignore[arg-type]
    for number in range(2):
        ids, mask = batch["input_ids"][number].tolist(), batch["loss_mask"][number].tolist()
        assert ids == made.input_ids and mask == made.mask and turns_of(ids, mask) == prompts


@every_model
async def test_verls_own_data_set_does_not(model: str, tmp_path: Path) -> None:
    """It puts each turn into the template by itself, and has tools from Parquet, which gives each the keys of all
    others. Its own check tells it so: why the export names another one.
    """
    pytest.importorskip("verl")
    from omegaconf import OmegaConf
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    tokenizer, made, _, native = await trained_and_served(model)
    row = {"messages": server_messages(native.messages), "tools": json.loads(native.tools)}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "rows.parquet")
    config = OmegaConf.create({"pad_mode": "no_padding", "max_length": 100_000})
    data = MultiTurnSFTDataset(str(tmp_path / "rows.parquet"), tokenizer, config)
    with pytest.raises(AssertionError, match="each turn separately"):
        data[0]
    config.ignore_input_ids_mismatch = True
    theirs = MultiTurnSFTDataset(str(tmp_path / "rows.parquet"), tokenizer, config)[0]
    assert theirs["input_ids"].tolist()[: len(made.input_ids)] != made.input_ids


def test_trained_turns_are_found() -> None:
    """What the comparisons here rest on."""
    row = MaskedTokens(input_ids=[1, 2, 3, 4], labels=[-100, 2, -100, 4])
    assert [before for before, _ in trained_turns([row])] == turns_of(row.input_ids, row.mask) == [[1], [1, 2, 3]]
