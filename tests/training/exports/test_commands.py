"""The commands of the READMEs as the trainers read them: each option is one of theirs, and what they need is there."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.support import finished_runs as made
from tests.training.exports.commands import command_in, read, verl_settings
from trailforge.schemas import InvalidInput
from trailforge.training.config import LoraConfig, TrainPreset, load_train_preset
from trailforge.training.exports import TRAINERS, export
from trailforge.training.exports.numbers import save_interval
from trailforge.training.exports.verl import VerlFiles, VerlOptions
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig

GPUS = 8
PRESETS = {"msearcher": "mcts", "r-search": "bundles", "dynasearcher": "kg"}
"""With what a set is made of."""


@pytest.fixture(scope="module", params=PRESETS)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainPreset]:
    """Exports for all trainers of a set whose commands hold a preset's numbers."""
    home = tmp_path_factory.mktemp("commands")
    asked = [made.question(number) for number in range(3)]
    match PRESETS[request.param]:
        case "mcts":
            run = made.mcts_run(home / "run", asked, [row for each in asked for row in made.mcts_rows(each)])
        case "bundles":
            run = made.bundles_run(home / "run")
        case _:
            run = made.kg_run(home / "run", asked)
    make_training_set([run], home / "set", ViewConfig(validation_share=0.0))
    for name in TRAINERS:
        export(home / "set", name, home / name)
    return home, load_train_preset(request.param)


def test_trl(exported: tuple[Path, TrainPreset], monkeypatch: pytest.MonkeyPatch) -> None:
    """By accelerate's own parser, and its reading of the configuration that the command names."""
    from accelerate.commands.config.config_args import ClusterConfig, load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    home, preset = exported
    monkeypatch.chdir(home / "trl")
    words = command_in(home / "trl" / "README.md", "accelerate launch")
    launch = launch_command_parser().parse_args(words[2:])
    config = load_config_from_file(launch.config_file)
    assert isinstance(config, ClusterConfig)
    settings = yaml.safe_load(Path("sft.yaml").read_text())
    assert config.num_processes * settings["gradient_accumulation_steps"] == preset.sft.batch_size
    assert (launch.module, launch.training_script) == (True, "trl.scripts.sft")
    assert launch.training_script_args == ["--config", "sft.yaml"]


def test_verl_supervised(exported: tuple[Path, TrainPreset]) -> None:
    """No row is longer than what a device takes at a time, which would end the training where it comes up."""
    home, preset = exported
    words = command_in(home / "verl" / "README.md", "verl.trainer.sft_trainer")
    settings = verl_settings("sft_trainer_engine", words[words.index("verl.trainer.sft_trainer") + 1 :])
    assert int(settings["data.max_token_len_per_gpu"]) >= int(settings["data.max_length"]) == preset.sft.max_tokens
    assert settings["data.truncation"] == "right" and "wandb" not in settings["trainer.logger"]


def test_verl_rl(exported: tuple[Path, TrainPreset]) -> None:
    """What has no default is given, and checkpoints are written."""
    home, preset = exported
    words = command_in(home / "verl" / "README.md", "verl.trainer.main_ppo")
    settings = verl_settings("ppo_trainer", words[words.index("verl.trainer.main_ppo") + 1 :])
    assert "???" not in settings.values() and settings["actor_rollout_ref.rollout.name"] == "vllm"
    assert settings["actor_rollout_ref.actor.use_dynamic_bsz"] == "True"
    room = int(settings["data.max_prompt_length"]) + int(settings["data.max_response_length"])
    assert int(settings["actor_rollout_ref.actor.ppo_max_token_len_per_gpu"]) == room > preset.rl.max_tokens
    assert int(settings["trainer.save_freq"]) == -(-preset.rl.save_steps // preset.rl.updates_per_step)
    assert "wandb" not in settings["trainer.logger"]
    optimizer = "actor_rollout_ref.actor.optim"
    assert float(settings[f"{optimizer}.weight_decay"]) == preset.rl.weight_decay
    assert float(settings[f"{optimizer}.clip_grad"]) == preset.rl.max_grad_norm
    is_weighed = preset.rl.importance_weights == "token_truncate"
    weighing = "algorithm.rollout_correction.rollout_is"
    assert settings["actor_rollout_ref.rollout.calculate_log_probs"] == str(is_weighed)
    assert settings[weighing] == ("token" if is_weighed else None)
    assert not is_weighed or float(settings[f"{weighing}_threshold"]) == preset.rl.importance_cap


def test_a_verl_training_that_we_start(exported: tuple[Path, TrainPreset], tmp_path: Path) -> None:
    """Its words are verl's; what it may not begin is refused before anything is written."""
    home, preset = exported
    preset = replace(preset, retrieval=preset.retrieval.of_kind("http://127.0.0.1:9"))
    (home / "model").mkdir(exist_ok=True)
    files = VerlFiles(preset, VerlOptions(sequence_parallel=2), str(home / "model"), "python3", max_steps=3)
    script = files.write(home / "set", tmp_path / "out", (), None)
    words = shlex.split(script.read_text().replace("\\\n", " "))
    ours = words[words.index("verl.trainer.main_ppo") + 1 :]
    settings = verl_settings("ppo_trainer", [word for word in ours if not word.startswith("+")])
    assert settings["actor_rollout_ref.model.path"] == str(home / "model")
    room = int(settings["data.max_prompt_length"]) + preset.rl.max_tokens
    assert int(settings["actor_rollout_ref.actor.ppo_max_token_len_per_gpu"]) * 2 == room
    assert settings["trainer.total_training_steps"] == "3" and settings["trainer.resume_mode"] == "disable"
    assert int(settings["trainer.test_freq"]) == save_interval(preset.rl)
    assert settings["trainer.rollout_data_dir"] == str(tmp_path / "out" / "rollouts")
    assert settings["data.seed"] == str(preset.rl.seed)
    assert ("# In the preset the weight of the KL term falls" in script.read_text()) == (preset.rl.kl.end is not None)
    again = load_train_preset(str(script.parent / "preset.yaml"))
    assert replace(again, name=preset.name, reward=preset.reward) == preset
    assert again.reward.constants == preset.reward.constants
    (tmp_path / "out" / "checkpoints").mkdir()
    with pytest.raises(InvalidInput, match="--resume"):
        files.write(home / "set", tmp_path / "out", (), None)
    with pytest.raises(InvalidInput, match="say what is searched"):
        replace(files, recipe=replace(preset, retrieval=preset.retrieval.of_kind("bm25"))).write(
            home / "set", tmp_path / "other", (), None
        )
    with pytest.raises(InvalidInput, match="cannot be parted"):
        replace(files, options=VerlOptions(nodes=3)).write(home / "set", tmp_path / "other", (), None)
    for change in ({"lora": LoraConfig()}, {"scale_rewards": "batch"}):
        recipe = replace(preset, rl=replace(preset.rl, **change))
        with pytest.raises(InvalidInput, match=f"rl.{next(iter(change))}"):
            replace(files, recipe=recipe).write(home / "set", tmp_path / "other", (), None)
    assert not (tmp_path / "other").exists()


def test_what_verl_cannot_be_parted_into_is_refused() -> None:
    with pytest.raises(InvalidInput, match="groups of 3"):
        VerlOptions(tensor_parallel=3)
    with pytest.raises(InvalidInput, match="memory"):
        VerlOptions(memory=1.5)


def test_openrlhf(exported: tuple[Path, TrainPreset]) -> None:
    """OpenRLHF divides the batch by what the devices take at a time: 0 with its default of 8 for each of 8."""
    home, preset = exported
    words = command_in(home / "openrlhf" / "README.md", "openrlhf.cli.train_sft")
    assert words[:3] == ["deepspeed", "--module", "openrlhf.cli.train_sft"]
    settings = vars(read("openrlhf", words[3:]))
    accumulated, left = divmod(settings["train.batch_size"], settings["train.micro_batch_size"] * GPUS)
    assert (accumulated, left) == (preset.sft.batch_size // GPUS, 0)
    assert settings["data.multiturn"] and settings["data.apply_chat_template"] and settings["data.output_key"] is None


@pytest.mark.parametrize("stage", ["sft", "rl"])
def test_slime(exported: tuple[Path, TrainPreset], stage: str) -> None:
    """slime wants to know how long to train, and saves only when it is told where and how often."""
    home, preset = exported
    program = {"sft": "train_async.py", "rl": "train.py"}[stage]
    words = command_in(home / "slime" / "README.md", f" {program}")
    ours = words[words.index(program) + 1 :]
    assert ours[:2] == ["${MODEL_ARGS[@]}", "${CLUSTER_ARGS[@]}"]
    settings = read("slime", ours[2:])
    numbers = preset.sft if stage == "sft" else preset.rl
    assert settings.num_epoch == numbers.epochs and settings.save_interval == save_interval(numbers)
    assert settings.save == f"$EXPORT/{stage}-model" and settings.prompt_data == f"$EXPORT/{stage}/train.parquet"
    samples = settings.rollout_batch_size * (settings.n_samples_per_prompt or 1)
    assert samples % settings.global_batch_size == 0
    if stage == "rl":
        assert settings.use_kl_loss == (preset.rl.kl.start > 0) and settings.eps_clip_high == preset.rl.clip_high
        is_weighed = preset.rl.importance_weights == "token_truncate"
        assert (settings.use_tis, settings.tis_clip) == (is_weighed, preset.rl.importance_cap if is_weighed else None)


def test_llama_factory(exported: tuple[Path, TrainPreset]) -> None:
    """The rows stand in the order of learning, which it would shuffle."""
    home, preset = exported
    words = command_in(home / "sharegpt" / "README.md", "llamafactory-cli")
    settings = read("llamafactory", words[2:])
    batch = settings.per_device_train_batch_size * settings.gradient_accumulation_steps * GPUS
    assert settings.disable_shuffling and batch == preset.sft.batch_size
