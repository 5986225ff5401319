"""Preference training of a tiny model on the CPU: what the loss is taken on, that it learns, and what is refused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.training.tiny import FACTS, conversation, preset, save_tiny_model, training_set
from trailforge.schemas import ChatMessage, InvalidInput, PreferenceRow
from trailforge.training.config import DpoConfig, TrainPreset
from trailforge.training.masks import END
from trailforge.training.trl.offline import tokenise_pairs, train_dpo

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")


def pair(number: int, *, shared: int = 2) -> PreferenceRow:
    """A fact that one agent finds and another does not. `shared`: how many messages both begin with."""
    question, answer, query = FACTS[number]
    found = f"<tool_response>\n1. (Found) {answer} is in the passage.\n</tool_response>"
    good = conversation(question, answer, query, found)
    bad = conversation(question, "nobody", "who", "<tool_response>\nNothing.\n</tool_response>")
    return PreferenceRow(
        uid=str(number),
        data_source="kg_trajectories",
        protocol="react",
        question_id=str(number),
        question=question,
        prompt=good[:shared],
        chosen=good[shared:],
        rejected=bad[shared:],
        reason="wrong_answer",
    )


PAIRS = [pair(number, shared=2 if number % 2 else 4) for number in range(4)]


def recipe(**changes: Any) -> TrainPreset:
    """A preset with a section for pairs."""
    settings: dict[str, Any] = {"base_model": "none", "batch_size": 4, "per_device": 2, "epochs": 4, "max_tokens": 1024}
    settings |= {"learning_rate": 1e-3, "precision": "float32", "logging": "none", "gradient_checkpointing": False}
    return replace(preset(), dpo=DpoConfig(**(settings | changes)))


def agents(messages: Sequence[ChatMessage]) -> str:
    """What the agent wrote, each turn with its end."""
    return "".join(message.content + END for message in messages if message.role == "assistant")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training set of four."""
    return training_set(tmp_path_factory.mktemp("set"), pairs=PAIRS)


def test_the_loss_is_on_the_agents_turns_from_where_the_two_part(
    pairs: Path, tiny_model: Path, tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the tensors that TRL trains on; the turn that both share and what tools said is context."""
    from trl.trainer.dpo_trainer import DPOTrainer

    seen: list[tuple[str, str]] = []
    own: Any = DPOTrainer._compute_loss

    def spy(self: Any, model: Any, inputs: dict[str, Any], *others: Any) -> Any:
        ids, masks, real = (inputs[name] for name in ("input_ids", "completion_mask", "attention_mask"))
        for row, mask, there in zip(ids, masks.bool(), real.bool(), strict=True):
            seen.append((tokenizer.decode(row[mask & there]), tokenizer.decode(row[there & ~mask])))
            assert not (mask & ~there).any()
        return own(self, model, inputs, *others)

    monkeypatch.setattr(DPOTrainer, "_compute_loss", spy)
    train_dpo(pairs, recipe(), tmp_path / "out", base_model=str(tiny_model), max_steps=1)
    halves = [end for two in (PAIRS[:2], PAIRS[2:]) for end in (*(p.chosen for p in two), *(p.rejected for p in two))]
    assert [trained for trained, _ in seen] == [agents(end) for end in halves]
    assert all("tool_response" in context and "Think, then" in context for _, context in seen)
    assert "<search>" not in seen[0][0] and "<search>" in seen[1][0]


def test_the_better_ends_become_likelier(
    pairs: Path, tiny_model: Path, tmp_path: Path, tokenizer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first loss is that of a model that is its own reference, ln 2; then it falls. What the steps take was said
    before them, the time as a lower bound.
    """
    model = train_dpo(pairs, recipe(epochs=6), tmp_path / "out", base_model=str(tiny_model))
    found = json.loads((tmp_path / "out" / "training.json").read_text())
    examples, _ = tokenise_pairs(tokenizer, PAIRS, 1024)
    tokens = sum(len(each["chosen_ids"]) + len(each["rejected_ids"]) for each in examples)
    trained = sum(sum(each["chosen_mask"]) + sum(each["rejected_mask"]) for each in examples)
    said = re.search(
        rf"4 pairs, {tokens:,} tokens, {trained:,} of them trained; 6 steps of 4 pairs, each at least "
        r"([\d.]+) s here and about 0\.\d GB of memory", capsys.readouterr().err,
    )  # fmt: skip
    assert said is not None and 6 * float(said[1]) <= found["seconds"]
    assert found["losses"][0] == pytest.approx(math.log(2), abs=1e-5)
    assert len(found["losses"]) == 6 and found["losses"][-1] < 0.5 * found["losses"][0]
    assert found["accuracies"][-1] == 1.0 and (model / "tokenizer.json").is_file()
    assert (found["rows"], found["left_out"]) == (4, {"too_long": 0})


def test_pairs_with_a_conversation_over_the_limit_are_left_out(tokenizer: Any) -> None:
    whole, _ = tokenise_pairs(tokenizer, PAIRS, 1024)
    longest = [max(len(each["chosen_ids"]), len(each["rejected_ids"])) for each in whole]
    kept, too_long = tokenise_pairs(tokenizer, PAIRS, max(longest) - 1)
    assert len(kept) == 4 - too_long == sum(length < max(longest) for length in longest) < 4


def test_what_does_not_fit_is_refused_before_anything_is_written(pairs: Path, tiny_model: Path, tmp_path: Path) -> None:
    base = save_tiny_model(tmp_path / "base", speaks_chatml=False)
    for changed, model, message in (
        (preset(), tiny_model, "no such section"),
        (replace(recipe(), protocol="kg_search"), tiny_model, "no pair in the protocol kg_search"),
        (recipe(batch_size=3), tiny_model, "cannot be parted"),
        (recipe(max_tokens=20), tiny_model, "no pair fits"),
        (recipe(), base, "train sft"),
    ):
        with pytest.raises(InvalidInput, match=message):
            train_dpo(pairs, changed, tmp_path / "out", base_model=str(model))
    with pytest.raises(InvalidInput, match="beta"):
        recipe(beta=0.0)
    assert not (tmp_path / "out").exists()
