"""How an agent is trained: the configuration of supervised training and of reinforcement learning, as presets have it.

A training preset is a YAML file with the sections `reward`, `sft` and `rl`, and maybe `dpo`, `retrieval` and `judge`;
those of the papers are in `presets/train/`. A key that is left out keeps the default of its class; there is none for
what a paper decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from trailforge.inference.judge import JudgeConfig
from trailforge.presets import load_training_preset
from trailforge.protocols.browse import TRAINED_PROTOCOLS
from trailforge.protocols.environment import EnvironmentConfig
from trailforge.rewards import MSearcherConstants
from trailforge.rewards.episode import CONSTANTS, RewardPreset
from trailforge.rewards.r_search import RSearchConstants
from trailforge.schemas import InvalidInput, from_dict, located, to_dict

T = TypeVar("T")

Scheduler = Literal["constant", "linear", "cosine"]
"""What happens to the learning rate after the warm-up."""
Precision = Literal["bfloat16", "float32"]
Attention = Literal["eager", "sdpa", "flash_attention_2", "flash_attention_3"]
"""The kernel of attention, by transformers' names. Those of flash_attention have packages of their own."""
Logging = Literal["tensorboard", "wandb", "none"]
Algorithm = Literal["grpo", "dapo"]
"""The algorithm of reinforcement learning. `dapo`: GRPO with a higher upper clip, token-level loss and no KL.

What makes up each algorithm stands in fields of its own; the name only decides how a framework is asked for it.
"""
KlEstimator = Literal["k3"]
"""The estimator of KL(policy || reference) from one sample, by Schulman's names: GRPO's, and the only one that
TRL has.
"""
ScaleRewards = Literal["group", "batch", "none"]
"""The standard deviation by which advantages are divided; `none`: reward minus the group's mean alone."""
Loss = Literal["token", "sequence"]
"""How the loss is averaged. `token`: the mean over all trained tokens of a batch. `sequence`: the mean over episodes of
their token means.
"""
Rollouts = Literal["vllm-server", "vllm-colocate", "transformers"]
"""What generates episodes: a vLLM server apart, vLLM on the trainer's own accelerators, or the trainer's model."""
ImportanceWeights = Literal["token_truncate", "none"]
"""How the difference between sampler and trainer is weighed.

`token_truncate`: the loss of each token is weighed by its probability to the trainer over that to vLLM, at most
`importance_cap`. Products over whole episodes are not offered: over hundreds of tokens they are nearly 0 or above any
bound. `none`: literally the papers' losses, in which sampler and trainer are one.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraConfig:
    """Low-rank adapters that are trained in place of all weights."""

    rank: int = 16
    alpha: int = 32
    dropout: float = 0.0
    target_modules: tuple[str, ...] = ()
    """Names of the layers; empty: every linear one but the head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerConfig:
    """Settings that supervised training and reinforcement learning have in common."""

    base_model: str
    """Name or path of the model that is trained."""
    learning_rate: float
    """The highest value of the learning rate."""
    epochs: int
    scheduler: Scheduler = "constant"
    warmup_ratio: float = 0.0
    """Share of the steps in which the learning rate rises."""
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    lora: LoraConfig | None = None
    """Low-rank adapters; None: all weights are trained."""
    per_device: int = 1
    """Sequences that one accelerator trains at a time; the rest of a batch is accumulated."""
    precision: Precision = "bfloat16"
    attention: Attention | None = None
    """Kernel of attention; None: the one that transformers chooses."""
    liger: bool = False
    """Whether layers are computed by the kernels of the package liger-kernel."""
    gradient_checkpointing: bool = True
    seed: int = 0
    save_steps: int = 50
    """Optimizer steps between checkpoints; in RL rounded up to whole steps of `prompts_per_step`."""
    logging: Logging = "tensorboard"

    def __post_init__(self) -> None:
        self._more_than_zero("learning_rate", "epochs", "max_grad_norm", "per_device", "save_steps")
        if not 0.0 <= self.warmup_ratio < 1.0:
            raise InvalidInput(f"expected 0 to below 1, got {self.warmup_ratio}", field="warmup_ratio")

    @property
    def transformers_scheduler(self) -> str:
        """Return the scheduler by transformers' name, whose `constant` has no warm-up."""
        return "constant_with_warmup" if self.scheduler == "constant" else self.scheduler

    def _more_than_zero(self, *names: str) -> None:
        for name in names:
            if (value := getattr(self, name)) is not None and value <= 0:
                raise InvalidInput(f"has to be more than 0, got {value}", field=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SftConfig(TrainerConfig):
    """Supervised training on conversations; the loss is taken on the agent's turns alone."""

    batch_size: int
    """Number of conversations in one optimizer step, over all accelerators."""
    max_tokens: int
    """Most tokens of a conversation. Longer ones are left out and counted: one that is cut would teach to stop in the
    middle.
    """
    packing: bool = False
    """Whether conversations are laid end to end, up to `max_tokens`, so that nothing is padded; none sees another.

    `batch_size` then counts such rows, and TRL mixes each 1,000 conversations of the set's order to fill them.
    """

    def __post_init__(self) -> None:
        TrainerConfig.__post_init__(self)
        self._more_than_zero("batch_size", "max_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class DpoConfig(TrainerConfig):
    """Preference training on pairs of conversations (DPO); the loss is taken on the agent's turns alone, from where the
    two differ.
    """

    batch_size: int
    """Number of pairs in one optimizer step, over all accelerators."""
    max_tokens: int
    """Most tokens of a conversation. Pairs with a longer one are left out and counted."""
    beta: float = 0.1
    """How much it costs to depart from the model with which the training begins."""

    def __post_init__(self) -> None:
        TrainerConfig.__post_init__(self)
        self._more_than_zero("batch_size", "max_tokens", "beta")


@dataclass(frozen=True, slots=True, kw_only=True)
class KlConfig:
    """The weight of the KL term in the loss."""

    start: float = 0.0
    """The weight at the first step; 0: no KL term, and no reference model."""
    end: float | None = None
    """The weight at the last step; None: as at the first."""
    annealing: Literal["none", "linear"] = "none"
    estimator: KlEstimator = "k3"

    def __post_init__(self) -> None:
        if self.start < 0 or (self.end is not None and self.end < 0):
            raise InvalidInput("must not be negative", field="start" if self.start < 0 else "end")
        if (self.annealing == "none") != (self.end is None):
            raise InvalidInput("annealing and end go together; give both, or neither", field="annealing")
        if self.annealing != "none" and not self.start:
            raise InvalidInput("annealing has to begin above 0, or no reference model is loaded", field="start")

    def at(self, progress: float) -> float:
        """Return the weight when this share of the steps, 0 to 1, is done."""
        return self.start if self.end is None else self.start + (self.end - self.start) * min(max(progress, 0.0), 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RlConfig(TrainerConfig):
    """Reinforcement learning on questions.

    The penalty for overlong episodes is part of the reward: its lengths are `max_tokens` and `cache_tokens` of
    `rewards.msearcher.MSearcherConstants`, and a framework's own penalty has to stay off.
    """

    algorithm: Algorithm
    prompts_per_step: int
    """Number of questions for which episodes are made between two changes of the policy that makes them."""
    samples: int
    """Number of episodes of a question: the group over which advantages are taken."""
    mini_batch: int
    """Number of episodes (not questions, as verl counts) in one optimizer step."""
    clip_low: float = 0.2
    """The lower clip: the ratio to the old policy is at least 1 - clip_low."""
    clip_high: float = 0.2
    """The upper clip: the ratio to the old policy is at most 1 + clip_high."""
    kl: KlConfig = field(default_factory=KlConfig)
    scale_rewards: ScaleRewards = "group"
    loss: Loss = "token"
    mask_truncated: bool = False
    """Whether no loss is taken on episodes that end because `max_tokens` leaves no room (`too_long`).

    Their rewards still count in the mean of their group.
    """
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int
    """Most tokens of an episode: of everything after the prompt, observations too."""
    max_observation_tokens: int = 1024
    """Most tokens of one tool turn; more is cut."""
    max_searches: int | None = None
    """Most searches of an episode; None: `max_tokens` alone ends it."""
    top_k: int = 5
    """Number of passages that a search shows; in plans, that each node shows."""
    rollouts: Rollouts = "vllm-colocate"
    importance_weights: ImportanceWeights = "token_truncate"
    """The importance weights of episodes that vLLM made."""
    importance_cap: float = 3.0
    """The largest importance weight; the default is TRL's."""
    keep_episodes: bool = True
    """Whether episodes are written beside the checkpoints, for `trailforge inspect`."""
    keep_every: int = 1
    """Which batches of episodes are kept: every so many. 10 keeps the first, the eleventh …"""

    def __post_init__(self) -> None:
        TrainerConfig.__post_init__(self)
        self._more_than_zero("prompts_per_step", "samples", "mini_batch", "clip_low", "clip_high")
        self._more_than_zero("temperature", "max_tokens", "max_observation_tokens", "max_searches", "top_k")
        self._more_than_zero("importance_cap", "keep_every")
        if self.samples < 2:
            raise InvalidInput("a group has at least 2 episodes", field="samples")
        if not 0.0 < self.top_p <= 1.0:
            raise InvalidInput(f"expected above 0 to 1, got {self.top_p}", field="top_p")
        if self.top_p < 1.0 and self.rollouts != "transformers" and self.importance_weights != "none":
            raise InvalidInput(
                f"vLLM's probabilities are of the tokens that {self.top_p} leaves, the trainer's of all: their ratio "
                "is no importance weight; set top_p: 1.0, or importance_weights: none",
                field="top_p",
            )
        if self.episodes_per_step % self.mini_batch:
            raise InvalidInput(
                f"{self.episodes_per_step} episodes of a step cannot be parted into mini-batches of "
                f"{self.mini_batch}; take one that divides them",
                field="mini_batch",
            )

    @property
    def episodes_per_step(self) -> int:
        """Return the number of episodes made between two updates of the policy that makes them."""
        return self.prompts_per_step * self.samples

    @property
    def updates_per_step(self) -> int:
        """Return the number of optimizer steps taken on the episodes of one step."""
        return self.episodes_per_step // self.mini_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainPreset:
    """A recipe: how an agent of one protocol is rewarded and trained."""

    name: str
    protocol: str
    """The protocol in which the agent talks: a name of `protocols.browse.TRAINED_PROTOCOLS`."""
    reward: RewardPreset
    sft: SftConfig
    rl: RlConfig
    dpo: DpoConfig | None = None
    """Training on pairs; None: the recipe has none."""
    retrieval: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    judge: JudgeConfig | None = None
    """The judge of answers to questions without options; None: these are compared with the gold ones word by word."""

    def __post_init__(self) -> None:
        constants = self.reward.constants
        if self.judge is not None and not isinstance(constants, RSearchConstants):
            raise InvalidInput(f"the reward {self.reward.kind} has no judge; leave this section out", field="judge")
        if isinstance(constants, MSearcherConstants) and constants.max_tokens != self.rl.max_tokens:
            raise InvalidInput(
                f"{constants.max_tokens}, but episodes end at rl.max_tokens = {self.rl.max_tokens}; "
                "give both the same number",
                field="reward.max_tokens",
            )


def load_train_preset(name_or_path: str) -> TrainPreset:
    """Load a training preset by name or by a YAML file's path.

    Raises `InvalidInput`, naming the preset and the field.
    """
    content = load_training_preset(name_or_path)
    with located(file=name_or_path):
        return _train_preset(Path(name_or_path).stem, content)


def describe_preset(preset: TrainPreset) -> dict[str, Any]:
    """Return a preset in the form in which `load_train_preset` reads it from YAML."""
    content: dict[str, Any] = {"protocol": preset.protocol}
    content["reward"] = {"kind": preset.reward.kind, **to_dict(preset.reward.constants)}
    sections = {name: getattr(preset, name) for name in ("sft", "rl", "dpo", "retrieval", "judge")}
    return content | {name: to_dict(section) for name, section in sections.items() if section is not None}


def _train_preset(name: str, content: dict[str, Any]) -> TrainPreset:
    expected, optional = ("protocol", "reward", "sft", "rl"), ("dpo", "retrieval", "judge")
    for key in content:
        if key not in (*expected, *optional):
            raise InvalidInput(f"unknown; expected {', '.join((*expected, *optional))}", field=str(key))
    if missing := [key for key in expected if key not in content]:
        raise InvalidInput("missing in the preset; add it", field=missing[0])
    if content["protocol"] not in TRAINED_PROTOCOLS:
        raise InvalidInput(f"{content['protocol']!r} is none of {', '.join(TRAINED_PROTOCOLS)}", field="protocol")
    return TrainPreset(
        name=name,
        protocol=content["protocol"],
        reward=_reward(name, content["reward"]),
        sft=_section(SftConfig, content["sft"], "sft"),
        rl=_section(RlConfig, content["rl"], "rl"),
        dpo=None if content.get("dpo") is None else _section(DpoConfig, content["dpo"], "dpo"),
        retrieval=_section(EnvironmentConfig, content.get("retrieval") or {}, "retrieval"),
        judge=None if content.get("judge") is None else _section(JudgeConfig, content["judge"], "judge"),
    )


def _reward(name: str, section: Any) -> RewardPreset:
    """The section names a kind; its other keys are the constants of that kind."""
    kind = section.get("kind") if isinstance(section, dict) else None
    if kind not in CONSTANTS:
        raise InvalidInput(f"{kind!r} is none of {', '.join(CONSTANTS)}", field="reward.kind")
    constants = {key: value for key, value in section.items() if key != "kind"}
    return RewardPreset(name=name, constants=_section(CONSTANTS[kind], constants, "reward"))


def _section(record: type[T], content: Any, name: str) -> T:
    with located(section=name):
        return from_dict(record, content)
