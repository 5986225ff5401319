"""Training presets: the papers' numbers, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trailforge.presets import load_training_preset, training_preset_names
from trailforge.rewards.episode import REWARD_PRESETS
from trailforge.schemas import InvalidInput
from trailforge.training.config import KlConfig, RlConfig, load_train_preset

NAMES = ["dynasearcher", "msearcher", "r-search", "ragsearch"]
LOCAL = ["msearcher-local", "r-search-local"]


def test_the_presets_of_the_house_hold_the_rewards_of_the_house() -> None:
    assert training_preset_names() == sorted(["abstention", "browse", "demo", *NAMES, *LOCAL])
    ours = load_train_preset("abstention").reward
    assert ours.constants == REWARD_PRESETS["abstention"].constants
    assert load_train_preset("demo").sft.base_model == "smollm2"
    assert {name: load_train_preset(name).reward for name in NAMES} == {name: REWARD_PRESETS[name] for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_every_constant_of_the_reward_is_spelled_out_with_its_source(name: str) -> None:
    constants = load_train_preset(name).reward.constants
    assert load_training_preset(name)["reward"].keys() - {"kind"} == set(constants.__dataclass_fields__)
    text = Path(__file__).parents[2].joinpath("presets", "train", f"{name}.yaml").read_text()
    bare = [line for line in text.splitlines() if line.startswith("  ") and "# " not in line]
    assert not bare


def test_the_numbers_of_the_papers() -> None:
    """Sections as in the presets; numbers that are ours are not held here."""
    m, r, d, g = (load_train_preset(name) for name in ("msearcher", "r-search", "dynasearcher", "ragsearch"))
    assert (m.sft.batch_size, m.sft.epochs, m.sft.learning_rate) == (32, 5, 5e-6)
    assert (m.sft.warmup_ratio, m.sft.max_tokens) == (0.05, 16_384)
    assert (m.rl.prompts_per_step, m.rl.samples, m.rl.mini_batch, m.rl.updates_per_step) == (128, 8, 256, 4)
    assert (m.rl.algorithm, m.rl.loss, m.rl.kl.start) == ("dapo", "token", 0.0)
    assert (m.rl.clip_low, m.rl.clip_high, m.rl.max_searches, m.rl.max_tokens) == (0.2, 0.28, 10, 16_384)
    assert (r.rl.samples, r.rl.mini_batch, r.rl.learning_rate, r.rl.top_k) == (4, 32, 5e-6, 2)
    assert (r.rl.scale_rewards, r.rl.kl.start, r.rl.kl.end, r.rl.kl.annealing) == ("none", 0.1, 0.01, "linear")
    assert (d.rl.prompts_per_step, d.rl.samples, d.rl.epochs, d.rl.learning_rate) == (16, 8, 1, 1e-6)
    assert (d.rl.kl.start, d.rl.temperature, d.rl.top_p, d.rl.max_tokens, d.rl.top_k) == (1e-3, 1.0, 0.95, 8192, 5)
    assert (g.rl.prompts_per_step, g.rl.epochs, g.rl.max_searches, g.rl.top_k) == (32, 3, 5, 5)
    assert [p.protocol for p in (m, r, d, g)] == ["react", "r_search", "kg_search", "graph_r1"]


@pytest.mark.parametrize("name", LOCAL)
def test_local_presets_differ_in_what_is_searched_alone(name: str) -> None:
    paper, local = load_train_preset(name.removesuffix("-local")), load_train_preset(name)
    assert paper.retrieval.kind == "web" != local.retrieval.kind
    assert (local.sft, local.rl, local.judge, local.protocol) == (paper.sft, paper.rl, paper.judge, paper.protocol)
    assert local.reward.constants == paper.reward.constants
    assert load_train_preset("msearcher").retrieval.web_provider == "zhipu"
    assert load_train_preset("msearcher").retrieval.web_pages > 0


def write(path: Path, **changes: Any) -> str:
    """MSearcher's preset with other sections, or other keys in them; None takes a section away."""
    content = load_training_preset("msearcher")
    for name, value in changes.items():
        content[name] = content[name] | value if isinstance(value, dict) and name in content else value
    path.write_text(yaml.safe_dump({name: value for name, value in content.items() if value is not None}))
    return str(path)


def test_a_file_names_its_preset(tmp_path: Path) -> None:
    preset = load_train_preset(write(tmp_path / "mine.yaml", rl={"seed": 3}))
    assert (preset.name, preset.reward.name, preset.rl.seed) == ("mine", "mine", 3)


def test_numbers_without_a_point_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(Path(write(path)).read_text().replace("learning_rate: 5.0e-06", "learning_rate: 3E-6"))
    assert load_train_preset(str(path)).sft.learning_rate == 3e-6


@pytest.mark.parametrize(
    ("changes", "field", "problem"),
    [
        ({"model": {}}, "model", "unknown; expected protocol, reward, sft, rl"),
        ({"retrieval": {"kind": "solr"}}, "retrieval.kind", "solr"),
        ({"sft": None}, "sft", "missing"),
        ({"protocol": "nl"}, "protocol", "'nl' is none of react, r_search"),
        ({"reward": {"kind": "f1"}}, "reward.kind", "'f1' is none of msearcher"),
        ({"reward": {"alpha": 1}}, "reward.alpha", "unknown"),
        ({"reward": {"format_penalty": "none"}}, "reward.format_penalty", "'none' is none of literal"),
        ({"reward": {"cache_tokens": 0}}, "reward.cache_tokens", "expected 1 to max_tokens"),
        ({"reward": {"max_tokens": 8192}}, "reward.max_tokens", "8192, but episodes end at rl.max_tokens = 16384"),
        ({"sft": {"lr": 1.0}}, "sft.lr", "unknown"),
        ({"sft": {"epochs": 1.5}}, "sft.epochs", "expected int"),
        ({"sft": {"epochs": 0}}, "sft.epochs", "more than 0"),
        ({"sft": {"warmup_ratio": 1.0}}, "sft.warmup_ratio", "below 1"),
        ({"sft": {"logging": "mlflow"}}, "sft.logging", "none of tensorboard"),
        ({"sft": {"lora": {"r": 8}}}, "sft.lora.r", "unknown field of LoraConfig"),
        ({"rl": {"samples": 1}}, "rl.samples", "at least 2"),
        ({"rl": {"mini_batch": 300}}, "rl.mini_batch", "1024 episodes of a step cannot be parted"),
        ({"rl": {"top_p": 0.0}}, "rl.top_p", "above 0"),
        ({"rl": {"top_p": 0.95}}, "rl.top_p", "0.95 leaves, the trainer's of all"),
        ({"rl": {"importance_weights": "sequence_mask"}}, "rl.importance_weights", "none of token_truncate, none"),
        ({"rl": {"importance_cap": 0.0}}, "rl.importance_cap", "more than 0"),
        ({"rl": {"max_searches": 0}}, "rl.max_searches", "more than 0"),
        ({"rl": {"kl": {"start": 0.1, "end": 0.0}}}, "rl.kl.annealing", "annealing"),
        ({"rl": {"kl": {"end": 0.1, "annealing": "linear"}}}, "rl.kl.start", "above 0"),
        ({"rl": {"kl": {"start": -0.1}}}, "rl.kl.start", "negative"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_field(
    tmp_path: Path, changes: dict[str, Any], field: str, problem: str
) -> None:
    path = write(tmp_path / "mine.yaml", **changes)
    with pytest.raises(InvalidInput) as raised:
        load_train_preset(path)
    assert (raised.value.file, raised.value.field) == (path, field)
    assert problem in str(raised.value)


def test_an_unknown_name_gets_the_list_of_names() -> None:
    with pytest.raises(
        InvalidInput,
        match="no preset 'nope'; there are abstention, browse, demo, dynasearcher, msearcher, msearcher-local, ",
    ):
        load_train_preset("nope")


@pytest.mark.parametrize(("progress", "weight"), [(0.0, 0.1), (0.5, 0.055), (1.0, 0.01), (-1.0, 0.1), (2.0, 0.01)])
def test_the_weight_of_the_kl_term_falls_evenly(progress: float, weight: float) -> None:
    assert KlConfig(start=0.1, end=0.01, annealing="linear").at(progress) == pytest.approx(weight)
    assert KlConfig(start=0.1).at(progress) == 0.1


def test_episodes_of_a_step() -> None:
    config = RlConfig(
        base_model="m", learning_rate=1e-6, epochs=1, algorithm="grpo", prompts_per_step=6, samples=4, mini_batch=8,
        max_tokens=100,
    )  # fmt: skip
    assert (config.episodes_per_step, config.updates_per_step) == (24, 3)
