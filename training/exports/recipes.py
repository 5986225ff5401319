"""The numbers of each paper's training, for the commands of an export (section in brackets; the others are ours)."""

from __future__ import annotations

from dataclasses import dataclass

from training.sets import TrainingSet


@dataclass(frozen=True, slots=True, kw_only=True)
class SftNumbers:
    """Of supervised training."""

    base_model: str
    batch_size: int
    """Conversations in an optimizer step, over all accelerators."""
    epochs: int
    learning_rate: float
    warmup_ratio: float
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RlNumbers:
    """Of reinforcement learning."""

    prompts_per_step: int
    samples: int
    """Episodes of a question."""
    mini_batch: int
    """Episodes in an optimizer step; verl counts questions instead."""
    learning_rate: float
    clip_low: float
    clip_high: float
    kl: float
    """Weight of the KL term; where it falls, at the beginning."""
    scale_rewards: bool
    """Divide advantages by the group's standard deviation."""
    token_loss: bool
    """Mean over all tokens of a batch; else over episodes of their means."""
    temperature: float
    top_p: float
    max_tokens: int
    """Of an episode after its prompt, observations too."""
    max_searches: int
    epochs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How the agents of one paper are trained."""

    preset: str
    sft: SftNumbers
    rl: RlNumbers


_QWEN = "Qwen/Qwen2.5-7B-Instruct"
MSEARCHER = Recipe(
    preset="msearcher",
    sft=SftNumbers(  # (4.4)
        base_model=_QWEN, batch_size=32, epochs=5, learning_rate=5e-6, warmup_ratio=0.05, max_tokens=16384
    ),
    rl=RlNumbers(
        prompts_per_step=128,  # (4.4)
        samples=8,  # (4.4)
        mini_batch=256,  # (4.4)
        learning_rate=1e-6,
        clip_low=0.2,  # (3.2.2)
        clip_high=0.28,  # (3.2.2)
        kl=0.0,  # (3.2.2)
        scale_rewards=True,
        token_loss=True,  # (eq. 11)
        temperature=1.0,
        top_p=1.0,
        max_tokens=16384,  # (4.4)
        max_searches=10,  # (4.4)
    ),
)
R_SEARCH = Recipe(
    preset="r-search",
    sft=SftNumbers(  # the paper has no SFT
        base_model="deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",  # (4.1)
        batch_size=32,
        epochs=2,
        learning_rate=5e-6,
        warmup_ratio=0.05,
        max_tokens=8192,
    ),
    rl=RlNumbers(
        prompts_per_step=8,  # 8 GPUs x 4 accumulated = 32 episodes (4.1)
        samples=4,  # (4.1)
        mini_batch=32,  # (4.1)
        learning_rate=5e-6,  # (4.1)
        clip_low=0.2,
        clip_high=0.2,
        kl=0.1,  # falls to 0.01 (4.1)
        scale_rewards=False,  # (eq. 4)
        token_loss=False,  # (eq. 5)
        temperature=1.0,
        top_p=1.0,
        max_tokens=8192,
        max_searches=1,  # one plan (3.2)
    ),
)
DYNASEARCHER = Recipe(
    preset="dynasearcher",
    sft=SftNumbers(  # the paper has no SFT
        base_model=_QWEN, batch_size=32, epochs=2, learning_rate=5e-6, warmup_ratio=0.05, max_tokens=8192
    ),
    rl=RlNumbers(
        prompts_per_step=16,  # (4.1)
        samples=8,  # (4.1)
        mini_batch=128,
        learning_rate=1e-6,  # (4.1)
        clip_low=0.2,
        clip_high=0.2,
        kl=1e-3,  # (4.1)
        scale_rewards=True,
        token_loss=True,
        temperature=1.0,  # (4.1)
        top_p=0.95,  # (4.1)
        max_tokens=8192,  # (4.1)
        max_searches=10,
    ),
)
_OF = {
    "mcts_trajectories": MSEARCHER,
    "document_bundles": R_SEARCH,
    "kg_trajectories": DYNASEARCHER,
    "kg_questions": DYNASEARCHER,
}


def recipe_for(training_set: TrainingSet) -> Recipe:
    """That of the data set which the set holds most rows for training of; of two, the first in alphabetical order."""
    counts: dict[str, int] = {}
    for count in training_set.manifest.counts:
        if count.split == "train":
            counts[count.dataset] = counts.get(count.dataset, 0) + count.rows
    return _OF[min(counts, key=lambda name: (-counts[name], name))]
