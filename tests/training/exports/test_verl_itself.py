"""verl's own data sets and configuration on its export. verl pins another transformers, so it has to be installed in an
environment of its own: `make test-engine ENGINE=verl`."""

# verl is not installed beside the project; see above.
# pyright: reportMissingImports=false

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support import finished_runs as made
from tests.support.tiny_tokenizer import tiny_tokenizer
from tests.training.exports.commands import command_in, verl_config, verl_settings
from trailforge.schemas import RlRow, SftRow, to_dict
from trailforge.schemas.text import count_conversation
from trailforge.training.config import load_train_preset
from trailforge.training.exports import export
from trailforge.training.exports.verl import AGENT, VerlFiles, VerlOptions
from trailforge.training.masks import masked_tokens, prepare_tokenizer
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig
from trailforge.training.sets.files import TrainingSet, open_set

pytest.importorskip("verl")
OmegaConf: Any = pytest.importorskip("omegaconf").OmegaConf
pytestmark = pytest.mark.slow
ASKED = [made.question(number) for number in range(30)]


@pytest.fixture(scope="module")
def made_set(tmp_path_factory: pytest.TempPathFactory) -> TrainingSet:
    """A training set in `set/` and its export in `verl/`; a row is cut into its turns."""
    home = tmp_path_factory.mktemp("verl")
    rows = [row for asked in ASKED for row in made.mcts_rows(asked)]
    rows += [row for asked in ASKED[:9] for row in made.mcts_rows(asked, reflective=True)]
    runs = [made.mcts_run(home / "mcts", ASKED, rows), made.bundles_run(home / "b"), made.kg_run(home / "k", ASKED[:9])]
    longest = max(count_conversation(row.messages) for row in rows[: len(ASKED)])
    make_training_set(runs, home / "set", ViewConfig(validation_share=0.1, max_tokens=longest, long_rows="segments"))
    export(home / "set", "verl", home / "verl")
    return open_set(home / "set")


@pytest.fixture
def tokenizer() -> Any:
    """With our template."""
    found: Any = tiny_tokenizer()
    prepare_tokenizer(found)
    return found


def exported(made_set: TrainingSet) -> Path:
    """The export's folder."""
    return made_set.folder.with_name("verl")


def test_loss_mask_is_ours_and_the_line_end_of_each_turn(made_set: TrainingSet, tokenizer: Any) -> None:
    """verl trains the line end after a turn too; all else is the same, token by token."""
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    config = OmegaConf.create({"pad_mode": "no_padding", "max_length": 8192})
    data = MultiTurnSFTDataset(str(exported(made_set) / "sft" / "train.parquet"), tokenizer, config)
    rows = list(made_set.rows("sft", "train", SftRow))
    assert len(data) == len(rows) >= 40 and any(row.segment_count > 1 for row in rows)
    (line_end,) = tokenizer.encode("\n", add_special_tokens=False)
    for number, row in enumerate(rows):
        found, ours = data[number], masked_tokens(tokenizer, row.messages, row.train)
        assert found["input_ids"].tolist() == ours.input_ids
        theirs = found["loss_mask"].tolist()
        assert [at for at, (a, b) in enumerate(zip(theirs, ours.mask, strict=True)) if a != b] == [
            at for at in range(1, len(theirs)) if ours.mask[at - 1] and not ours.mask[at]
        ]
        assert all(ours.input_ids[at] == line_end for at in range(len(theirs)) if theirs[at] and not ours.mask[at])


def test_questions_come_through_whole(made_set: TrainingSet, tokenizer: Any) -> None:
    """Prompt, agent, arguments of tools, ground truth."""
    from verl.utils.dataset.rl_dataset import RLHFDataset

    config = OmegaConf.create({"max_prompt_length": 4096, "return_raw_chat": True, "cache_dir": str(made_set.folder)})
    data = RLHFDataset(str(exported(made_set) / "rl" / "train.parquet"), tokenizer, config)
    rows = list(made_set.rows("rl", "train", RlRow))
    assert len(data) == len(rows)
    for number, row in enumerate(rows):
        found = data[number]
        assert [(m["role"], m["content"]) for m in found["raw_prompt"]] == [(m.role, m.content) for m in row.prompt]
        assert found["agent_name"] == AGENT and found["index"] == number
        assert found["tools_kwargs"]["search"]["create_kwargs"]["corpus_id"] == row.corpus_id
        assert row.question in found["extra_info"]["question"] and found["reward_model"]["ground_truth"].startswith("{")


@pytest.mark.parametrize(("module", "config"), [("sft_trainer", "sft_trainer_engine"), ("main_ppo", "ppo_trainer")])
def test_commands_of_the_readme_are_known_to_verl(made_set: TrainingSet, module: str, config: str) -> None:
    """Every override names a key that exists, by verl's own configuration, and so does our list of its keys."""
    settings = composed(made_set, module, config)
    for key in verl_settings(config, []):
        parent, _, name = key.rpartition(".")
        assert name in OmegaConf.select(settings, parent), key


def test_the_command_for_rl_passes_verls_own_checks(made_set: TrainingSet) -> None:
    """As `main_ppo` asks them; nothing mandatory is missing, and the reward is found."""
    from verl.trainer.ppo.reward import get_custom_reward_fn
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    settings = composed(made_set, "main_ppo", "ppo_trainer")
    weighing = settings.algorithm.rollout_correction
    assert (weighing.rollout_is, weighing.rollout_is_threshold, weighing.rollout_rs) == ("token", 3.0, None)
    assert not weighing.bypass_mode and not weighing.rollout_is_batch_normalize
    assert settings.actor_rollout_ref.rollout.calculate_log_probs
    validate_config(settings, need_reference_policy(settings), need_critic(settings))
    OmegaConf.to_container(settings.actor_rollout_ref, resolve=True, throw_on_missing=True)
    assert callable(get_custom_reward_fn(settings))


def test_a_training_that_we_start_is_read_by_verls_own_command(made_set: TrainingSet, tmp_path: Path) -> None:
    """Its parser takes every word of the script, and its reward function pays by the recipe."""
    from verl.trainer.ppo.reward import get_custom_reward_fn
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    recipe = load_train_preset("msearcher")
    recipe = replace(recipe, retrieval=recipe.retrieval.of_kind("http://127.0.0.1:9"))
    options = VerlOptions(nodes=2, sequence_parallel=2, tensor_parallel=2, offload=True, overrides=("data.seed=3",))
    files = VerlFiles(recipe, options, "Qwen/Qwen2.5-7B", sys.executable, max_steps=5)
    script = files.write(made_set.folder, tmp_path / "a training", (), None)
    words = shlex.split(script.read_text().replace("\\\n", " "))
    overrides = words[words.index("verl.trainer.main_ppo") + 1 :]
    command = [sys.executable, "-m", "verl.trainer.main_ppo", "--cfg", "job", *overrides]
    done = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr[-2000:]
    settings = OmegaConf.create(done.stdout)
    assert settings.trainer.nnodes == 2 and settings.trainer.total_training_steps == 5 and settings.data.seed == 3
    assert settings.actor_rollout_ref.actor.ulysses_sequence_parallel_size == 2
    full = verl_config(overrides, "ppo_trainer")
    validate_config(full, need_reference_policy(full), need_critic(full))
    (loop,) = OmegaConf.load(script.parent / full.actor_rollout_ref.rollout.agent.agent_loop_config_path)
    assert loop.search.kind == "http://127.0.0.1:9" and loop.search.documents == []
    rows = list(made_set.rows("rl", "train", RlRow))
    asked = [row for row in rows if row.reward_model.ground_truth.protocol == recipe.protocol]
    assert 0 < len(asked) == pq.read_metadata(script.parent / "rl" / "train.parquet").num_rows < len(rows)
    pay: Any = get_custom_reward_fn(full)
    truth = to_dict(asked[0].reward_model.ground_truth)
    said = f"<think>a</think>\n<answer>{truth['target'][0]}</answer>"
    assert pay(data_source="x", solution_str=said, ground_truth=truth, extra_info={})["score"] == 1.0


def composed(made_set: TrainingSet, module: str, config: str) -> Any:
    """verl's configuration with a command of the README."""
    words = command_in(exported(made_set) / "README.md", f"verl.trainer.{module}")
    overrides = words[words.index(f"verl.trainer.{module}") + 1 :]
    assert len(overrides) > 8
    return verl_config([word.replace("$MODEL", "model") for word in overrides], config)
