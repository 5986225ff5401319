"""Supervised training of a tiny model on the CPU: what is learned, going on, and what is refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support import finished_runs as made
from tests.training.tiny import preset, save_tiny_model, sft_rows, trained_runs, training_set
from trailforge.schemas import InvalidInput, OutputError
from trailforge.training.config import LoraConfig
from trailforge.training.trl.checkpoints import find_last_whole, is_whole
from trailforge.training.trl.offline import tokenise, train_sft
from trailforge.training.weights import load_model, load_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training set of eight conversations."""
    return training_set(tmp_path_factory.mktemp("set"), sft=sft_rows(copies=2))


def trained(rows: Path, tiny_model: Path, out: Path, steps: int = 4, **changes: Any) -> Path:
    """A short training."""
    resume = changes.pop("resume", False)
    changed = preset(sft={"epochs": 4, **changes})
    return train_sft(rows, changed, out, base_model=str(tiny_model), resume=resume, max_steps=steps)


def losses(out: Path) -> list[float]:
    """Of each step."""
    return json.loads((out / "training.json").read_text())["losses"]


def weights(model: Path) -> dict[str, Any]:
    """Of a saved model."""
    return load_model(str(model)).state_dict()


def test_trained_tokens_are_the_agents_turns(tokenizer: Any) -> None:
    """Each from its first token to its end of turn; no role, no tool text, no heading."""
    (row, *_) = sft_rows()
    (example,), _ = tokenise(tokenizer, [row], 1024)
    turns = [message.content for message in row.messages if message.role == "assistant"]
    assert [tokenizer.decode(run) for run in trained_runs(example)] == [f"{turn}<|im_end|>" for turn in turns]


def test_masked_mistakes_are_not_trained(tokenizer: Any) -> None:
    (row,) = made.mcts_rows(made.question(0), reflective=True)
    ((whole,), (masked,)) = (tokenise(tokenizer, [row], 4096, masks_mistakes=masks)[0] for masks in (False, True))
    (mistake,) = [row.messages[s.message].content[s.start : s.end] for s in row.spans if s.kind == "mistake"]
    texts = ["".join(tokenizer.decode(ids) for ids in trained_runs(example)) for example in (whole, masked)]
    assert mistake in texts[0] and "Beverly Hills" in mistake
    assert mistake not in texts[1] and "Beverly Hills" not in texts[1]
    assert 0 < sum(masked.mask) < sum(whole.mask)


def test_long_conversations_and_those_without_a_trained_token_are_left_out_and_counted(tokenizer: Any) -> None:
    """None is cut: the shortest limit that keeps a row is its length."""
    rows = sft_rows()
    whole, _ = tokenise(tokenizer, rows, 1024)
    shortest = min(len(each.input_ids) for each in whole)
    kept, left_out = tokenise(tokenizer, rows, shortest)
    assert kept == [each for each in whole if len(each.input_ids) == shortest]
    assert left_out == {"too_long": len(rows) - len(kept), "untrained": 0} and left_out["too_long"] > 0
    mute = replace(rows[0], train=(False,) * len(rows[0].messages))
    assert tokenise(tokenizer, [mute], 1024) == ([], {"too_long": 0, "untrained": 1})


def test_what_the_steps_take_is_said_before_the_first(
    rows: Path, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The time is a lower bound: a training of the same rows takes longer."""
    trained(rows, tiny_model, tmp_path / "out", steps=2)
    said = re.search(
        r"8 conversations, ([\d,]+) tokens, ([\d,]+) of them trained; 2 steps of 4 conversations, each at least "
        r"([\d.]+) s here and about 0\.\d GB of memory", capsys.readouterr().err,
    )  # fmt: skip
    assert said is not None
    figures = json.loads((tmp_path / "out/training.json").read_text())
    assert int(said[2].replace(",", "")) == figures["trained_tokens_per_epoch"] < int(said[1].replace(",", ""))
    assert 2 * float(said[3]) <= figures["seconds"]


def test_what_was_left_out_is_in_the_figures(rows: Path, tiny_model: Path, tmp_path: Path, tokenizer: Any) -> None:
    lengths = sorted(len(each.input_ids) for each in tokenise(tokenizer, sft_rows(copies=2), 1024)[0])
    trained(rows, tiny_model, tmp_path / "out", steps=1, max_tokens=lengths[3], batch_size=2)
    figures = json.loads((tmp_path / "out" / "training.json").read_text())
    kept = sum(length <= lengths[3] for length in lengths)
    assert (figures["rows"], figures["left_out"]) == (kept, {"too_long": 8 - kept, "untrained": 0})


def test_packed_conversations_do_not_see_each_other(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    """The loss of four in one row is that of four beside each other."""
    trained(rows, tiny_model, tmp_path / "padded", steps=2, batch_size=8, per_device=8)
    trained(rows, tiny_model, tmp_path / "packed", steps=2, batch_size=1, packing=True, max_tokens=2000)
    assert losses(tmp_path / "packed") == pytest.approx(losses(tmp_path / "padded"), rel=2e-4)


def test_the_model_is_loaded_when_the_processes_are_a_group(
    rows: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each of them would hold all of its weights."""
    from accelerate import PartialState

    from trailforge.training.trl import offline

    class Loading(Exception):
        """Loads nothing."""

    def look(name: str, **options: Any) -> None:
        assert PartialState._shared_state
        raise Loading

    monkeypatch.setattr(offline, "load_base", look)
    monkeypatch.setattr(PartialState, "_shared_state", {})
    with pytest.raises(Loading):
        trained(rows, tiny_model, tmp_path / "out")


def test_loss_falls_and_the_model_is_there(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    """On a batch that is always the same; the same seed gives the same losses, checkpoints are whole."""
    model = trained(rows, tiny_model, tmp_path / "a", steps=5, batch_size=8, per_device=8, learning_rate=1e-2)
    found = losses(tmp_path / "a")
    assert len(found) == 5 and found[-1] < 0.75 * found[0]
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= {path.name for path in model.iterdir()}
    assert "generation" in (model / "chat_template.jinja").read_text()
    assert find_last_whole(tmp_path / "a") == tmp_path / "a" / "checkpoints" / "checkpoint-5"
    trained(rows, tiny_model, tmp_path / "b", steps=2, batch_size=8, per_device=8, learning_rate=1e-2)
    assert losses(tmp_path / "b") == found[:2]


@dataclass(frozen=True)
class Whole:
    """A training of four steps with the settings as they are, to be read only."""

    out: Path
    model: Path
    seen: list[list[int]]
    """The conversations that it learnt, in their order."""


@pytest.fixture(scope="module")
def whole(rows: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """In one go."""
    from trl.trainer.sft_trainer import SFTTrainer

    out, seen = tmp_path_factory.mktemp("whole") / "out", []
    own: Any = SFTTrainer.compute_loss

    def spy(self: Any, model: Any, inputs: dict[str, Any], *arguments: Any, **options: Any) -> Any:
        seen.extend(inputs["input_ids"].tolist())
        return own(self, model, inputs, *arguments, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SFTTrainer, "compute_loss", spy)
        return Whole(out, trained(rows, tiny_model, out), seen)


def test_rows_are_learnt_in_the_sets_order(whole: Whole, tokenizer: Any) -> None:
    """Which is that of its curriculum, in every epoch."""
    expected = [row.messages[1].content for row in sft_rows(copies=2)] * 2
    assert len(whole.seen) == len(expected) == 16
    assert all(question in tokenizer.decode(ids) for question, ids in zip(expected, whole.seen, strict=True))


def test_told_to_stop_it_ends_the_step_and_goes_on_later(
    whole: Whole,
    rows: Path,
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By SIGTERM in the second of four steps: a whole checkpoint, no model; then the weights of a run in one go."""
    import torch
    from trl.trainer.sft_trainer import SFTTrainer

    own: Any = SFTTrainer.training_step

    def told(self: Any, *arguments: Any, **options: Any) -> Any:
        if self.state.global_step == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return own(self, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(SFTTrainer, "training_step", told)
        with pytest.raises(SystemExit) as left:
            trained(rows, tiny_model, tmp_path / "out", save_steps=100)
    assert left.value.code == 143 and "stopped after step 2 of 4" in capsys.readouterr().err
    assert find_last_whole(tmp_path / "out") == tmp_path / "out" / "checkpoints" / "checkpoint-2"
    assert not (tmp_path / "out" / "model").exists() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    model = trained(rows, tiny_model, tmp_path / "out", resume=True, save_steps=100)
    before, after = weights(whole.model), weights(model)
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("spare", [0, 8], ids=["embeddings grow", "embeddings have room"])
def test_a_model_that_does_not_speak_chatml_learns_its_marks(
    rows: Path, tmp_path: Path, spare: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """As base models: no template, no marks. What comes of it has both, and is a model like others."""
    import torch

    base = save_tiny_model(tmp_path / "base", speaks_chatml=False, spare=spare)
    with pytest.raises(InvalidInput, match="train sft") as refused:
        load_tokenizer(str(base))
    assert refused.value.file == str(base)
    model = trained(rows, base, tmp_path / "out", steps=2)
    assert "does not know <|im_start|> and <|im_end|>: added" in capsys.readouterr().err
    tokenizer, start, end = load_tokenizer(str(model)), *_marks(model)
    assert (start, end) == (tokenizer.convert_tokens_to_ids("<|im_start|>"), tokenizer.eos_token_id)
    assert "<|im_start|>" in tokenizer.chat_template
    before, after = load_model(str(base)), load_model(str(model))
    assert after.lm_head.weight.shape[0] == before.lm_head.weight.shape[0] + (2 if spare == 0 else 0) > end
    assert end in (after.generation_config.eos_token_id, *_listed(after.generation_config.eos_token_id))
    old, own = before.config.eos_token_id, after.model.embed_tokens.weight
    near, far = (float(torch.dist(own[end], before.lm_head.weight[token])) for token in (old, old + 1))
    assert near < 0.4 * far and not torch.equal(own[end], before.lm_head.weight[old])
    lora = LoraConfig(rank=2)
    with pytest.raises(InvalidInput, match="adapters do not"):
        trained(rows, base, tmp_path / "adapters", steps=1, lora=lora)
    assert not (tmp_path / "adapters").exists()
    trained(rows, model, tmp_path / "adapters", steps=1, lora=lora)


def _marks(model: Path) -> list[int]:
    from tokenizers import Tokenizer

    saved = Tokenizer.from_file(str(model / "tokenizer.json"))
    marks = [saved.encode(mark, add_special_tokens=False).ids for mark in ("<|im_start|>", "<|im_end|>")]
    assert [len(ids) for ids in marks] == [1, 1]
    return [ids[0] for ids in marks]


def _listed(found: int | list[int]) -> list[int]:
    return found if isinstance(found, list) else [found]


def test_accumulated_batches_are_the_batch(whole: Whole, rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    """One device step of four, or four of one, is the same optimizer step."""
    trained(rows, tiny_model, tmp_path / "out", per_device=4)
    assert losses(tmp_path / "out") == pytest.approx(losses(whole.out), rel=2e-4)


def test_resumed_training_ends_in_the_same_weights(
    whole: Whole, rows: Path, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the last whole checkpoint; one whose writing was interrupted is named and passed over."""
    import torch

    out = tmp_path / "interrupted"
    shutil.copytree(whole.out, out)
    shutil.rmtree(out / "model")
    broken = out / "checkpoints" / "checkpoint-4"
    (broken / "optimizer.pt").write_bytes((broken / "optimizer.pt").read_bytes()[:100])
    assert not is_whole(broken)
    resumed = trained(rows, tiny_model, out, resume=True)
    assert "checkpoint-4 is not whole" in capsys.readouterr().err
    assert is_whole(broken)
    before, after = weights(whole.model), weights(resumed)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert losses(out) == losses(whole.out)
    again = trained(rows, tiny_model, out, resume=True, logging="none", save_steps=7)  # nothing is left to do
    assert all(torch.equal(before[name], tensor) for name, tensor in weights(again).items())


def test_a_checkpoint_without_its_seal_is_not_whole(tmp_path: Path) -> None:
    """As when the process died between its files."""
    checkpoint = tmp_path / "checkpoints" / "checkpoint-2"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"weights")
    assert find_last_whole(tmp_path) is None


def test_folder_of_another_training_is_refused(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    """Also with --resume, when its settings or rows differ; the reason names them."""
    trained(rows, tiny_model, tmp_path / "out", steps=1)
    with pytest.raises(OutputError, match="--resume"):
        trained(rows, tiny_model, tmp_path / "out", steps=1)
    with pytest.raises(OutputError, match="config"):
        trained(rows, tiny_model, tmp_path / "out", steps=1, learning_rate=1.0, resume=True)
    others = training_set(tmp_path / "others", sft=sft_rows(copies=2)[::-1])
    with pytest.raises(OutputError, match=r"other settings \(training_set\)"):
        trained(others, tiny_model, tmp_path / "out", steps=1, resume=True)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="not empty"):
        trained(rows, tiny_model, tmp_path / "else", steps=1)


def test_what_does_not_fit_is_refused_before_anything_is_written(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    """A missing model, a missing set, a batch that cannot be parted, nothing to train, a log without its package."""
    out = tmp_path / "out"
    (tmp_path / "empty").mkdir()
    for base, files, changes, message in (
        (tmp_path / "nowhere", rows, {}, "no such folder"),
        (tmp_path / "empty", rows, {}, "holds no model"),
        (tiny_model, tmp_path / "empty", {}, "no training set"),
        (tiny_model, rows, {"per_device": 3}, "cannot be parted"),
        (tiny_model, rows, {"max_tokens": 10}, "no conversation has a token to train"),
        *([] if find_spec("wandb") else [(tiny_model, rows, {"logging": "wandb"}, "wandb is not installed")]),
    ):
        with pytest.raises(InvalidInput, match=message):
            trained(files, base, out, steps=1, **changes)
    assert not out.exists()


def test_a_name_that_cannot_be_fetched_is_refused(rows: Path, tmp_path: Path) -> None:
    """With what else to give."""
    with pytest.raises(InvalidInput, match="smollm2"):
        train_sft(rows, preset(), tmp_path / "out", base_model="nobody/nothing-7b")


def test_tensorboard_is_written(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    """By default, beside the checkpoints; and adapters train in place of all weights."""
    model = trained(rows, tiny_model, tmp_path / "out", steps=1, logging="tensorboard", lora=LoraConfig(rank=2))
    assert list((tmp_path / "out" / "logs").glob("events.*"))
    assert (model / "adapter_model.safetensors").exists()
