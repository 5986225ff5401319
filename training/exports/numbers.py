"""Write the numbers of a preset as options of other trainers' commands."""

from __future__ import annotations

from collections.abc import Container

from trailforge.protocols.browse import BROWSE, TOOLS_JSON
from trailforge.schemas import count_tokens
from trailforge.training.config import RlConfig, Scheduler, SftConfig
from trailforge.training.sets.files import TrainingSet


def note_omissions(numbers: SftConfig | RlConfig, schedulers: Container[Scheduler]) -> str:
    """Return a note on what of the preset the command cannot express; empty when there is nothing. `schedulers` are
    those that the trainer has.
    """
    notes = []
    if isinstance(numbers, RlConfig) and numbers.kl.end is not None:
        notes.append(f"the weight of the KL term falls from {numbers.kl.start} to {numbers.kl.end} over the steps")
    if numbers.scheduler not in schedulers:
        notes.append(f"the learning rate falls ({numbers.scheduler})")
    return f"\n\nIn the preset {', and '.join(notes)}; with this command it does not." if notes else ""


def save_interval(numbers: SftConfig | RlConfig) -> int:
    """Return the steps between checkpoints as verl and slime count them: in RL, a step is all updates on the same
    episodes.
    """
    return -(-numbers.save_steps // (numbers.updates_per_step if isinstance(numbers, RlConfig) else 1))


def prompt_room(training_set: TrainingSet, protocols: Container[str]) -> int:
    """Return a token limit that every prompt fits: twice the longest one, since the model may use another tokenizer
    than the set. `protocols` are those of the questions that are asked: to a research agent's prompt, its tools belong,
    which stand in no row.
    """
    longest = max(count.longest for count in training_set.manifest.counts if count.table == "rl")
    longest += count_tokens(TOOLS_JSON) if BROWSE in protocols else 0
    return -(-2 * longest // 512) * 512
