"""The settings with which a training set is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from trailforge.protocols.browse import TRAINED_PROTOCOLS, asking_of
from trailforge.rewards.episode import reward_preset
from trailforge.schemas import ErrorType, InvalidInput

Order = Literal["curriculum", "shuffled"]
LongRows = Literal["drop", "segments"]
Mistakes = Literal["train", "mask"]
"""What becomes of a claim that is taken back later.

`train`: the loss is taken on it as on all that the agent wrote, as in MSearcher's eq. 10. `mask`: it is left out of the
loss, so that mending is learnt and the mistake is not.
"""
TEXT_PROTOCOLS = tuple(name for name in TRAINED_PROTOCOLS if asking_of(name).searches != "plan")
"""Names of the protocols in which any question without options can be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The share of the training rows that should come from one run or data set."""

    part: str
    """The name of a data set, or the folder of a run or file of questions."""
    weight: float
    """The part's weight against the weights of the others."""


WritingKind = Literal["tags", "native", "renamed"]
"""How a research agent's conversation writes its calls: as tags in text, as native calls, or as native calls of tools
with other names.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingShare:
    """The share of research agents' conversations that is to be written as tags or as native calls."""

    writing: WritingKind
    share: float


def read_writings(text: str) -> tuple[WritingShare, ...]:
    """Read shares of writings from text such as `tags,native:0.3,renamed:0.3`; those without a number share what the
    others leave. Raises `InvalidInput` for an unknown writing, and for shares that do not add up to 1.
    """
    given: dict[str, float | None] = {}
    for part in text.split(","):
        name, colon, number = (each.strip() for each in part.partition(":"))
        if name not in get_args(WritingKind):
            known = ", ".join(get_args(WritingKind))
            raise InvalidInput(f"no writing {name!r}; there are {known}", field="--writings")
        try:
            given[name] = float(number) if colon else None
        except ValueError:
            given[name] = math.nan
    told = [share for share in given.values() if share is not None]
    left, others = 1.0 - sum(told), len(given) - len(told)
    shares = {name: left / others if share is None else share for name, share in given.items()}
    if not all(0.0 <= share <= 1.0 for share in shares.values()) or abs(sum(shares.values()) - 1.0) > 1e-6:
        raise InvalidInput(f"{text!r}: expected shares that add up to 1, as tags,native:0.5", field="--writings")
    return tuple(WritingShare(writing=name, share=share) for name, share in shares.items())  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class WantedRange:
    """A range of numbers, both ends included; None means no end."""

    least: float | None = None
    most: float | None = None

    def __contains__(self, number: float) -> bool:
        """Whether a number is one of them."""
        return (self.least is None or self.least <= number) and (self.most is None or number <= self.most)

    def __str__(self) -> str:
        """As it is given: `0.1..0.7`, `4..`."""
        return "..".join("" if end is None else f"{end:g}" for end in (self.least, self.most))

    @classmethod
    def read(cls, text: str, field: str) -> WantedRange:
        """Read a range from text such as `0.1..0.7` or `4..`. Raises `InvalidInput`, naming the field."""
        least, dots, most = text.partition("..")
        try:
            band = cls(*(float(end) if end.strip() else None for end in (least, most)))
        except ValueError:
            band = cls()
        given = [end for end in (band.least, band.most) if end is not None]
        if not dots or not given or not all(map(math.isfinite, given)):
            raise InvalidInput(f"{text!r}: expected two numbers, as 0.1..0.7, or one of them, as 4..", field=field)
        if given != sorted(given):
            raise InvalidInput(f"{text!r} begins above its end; exchange the two", field=field)
        return band


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewConfig:
    """All settings of a training set. The same runs and settings give the same bytes."""

    seed: int = 0
    validation_share: float = 0.05
    """Share of the questions for validation; 0: no validation."""
    order: Order = "curriculum"
    """The order of the rows. `curriculum`: easy rows first, see `training.sets.order`."""
    mix: tuple[Share, ...] = ()
    """The proportion of runs, or of data sets. They are cut down to it, and no row is doubled; empty: all rows are
    taken."""
    protocol: str | None = None
    """The protocol in which questions without options are asked; None: that of their data set.

    Conversations stay as they are. A protocol that plans cannot be chosen: the kinds of document that a plan names are
    those of bundles.
    """
    reward: str | None = None
    """The reward by which questions say that they are paid; None: the reward of their protocol."""
    tokenizer: str | None = None
    """Path or name of a tokenizer of transformers, by which rows are measured; None: by `schemas.text.count_tokens`."""
    max_tokens: int = 16384
    """Most tokens of a conversation, its template included, and of a prompt for RL. The default is MSearcher's, section
    4.4.
    """
    long_rows: LongRows = "drop"
    """What becomes of a conversation that is too long.

    `segments`: it becomes one row for each turn of the agent, with all before it; rows that are still too long are
    dropped.
    """
    segments: bool = False
    """Whether every conversation becomes one row for each turn of the agent, with all before it and the loss on that
    turn alone (MSearcher, section 3.2.1).
    """
    mistakes: Mistakes = "train"
    """What becomes of a claim that is taken back later: `train`: the loss is taken on it; `mask`: it is not."""
    with_reflective: bool = True
    """Whether rows that make a mistake and mend it are taken."""
    leave_out: tuple[ErrorType, ...] = ()
    """Errors whose mending rows are left out: mended misreadings may cost more than they teach."""
    errors: Literal["sampled", "all"] = "all"
    """Which mistakes are taken. `sampled`: no rows whose mistake was provoked (`error_source`); rows that do not say
    stay.
    """
    max_known_share: float = 0.375
    """Largest share of right answers from memory that a question may have.

    A question that some model knows better is left out of `rl/`, as it needs no search. 1: all stay, with their share.
    """
    unstated: Literal["drop", "mark"] = "drop"
    """What becomes of a question whose gold answer is stated by no text that came with it or was read for it.

    It leaves `rl/`, or stays with `gold_stated: false`.
    """
    pass_rate: WantedRange | None = None
    """The share of a measured agent's attempts that are right, as a range for questions and rows made of them; None:
    any.
    """
    calls: WantedRange | None = None
    """The mean number of searches of a right attempt, as a range for questions and rows made of them; None: any."""
    keep_wrong: float = 0.0
    """Largest share of the conversations that may be episodes which searched well and answered wrongly.

    No loss is taken on their last turn (`SftRow.is_wrong`). Whether they teach is disputed.
    """
    writings: tuple[WritingShare, ...] = ()
    """The writings of research agents' conversations, by lot for each; empty: they stay as they are.

    Agents whose tools always had one name lose much when it changes: `renamed` gives them others.
    """
    benchmarks: tuple[str, ...] = ()
    """Files of questions that must not be trained on."""
    ngram: int = 8
    """Number of words in a row that a question may not share with a benchmark's; a shorter question counts as a
    whole.
    """
    rows_per_file: int = 5000

    def __post_init__(self) -> None:
        if not 0 <= self.validation_share < 1:
            raise InvalidInput(f"expected 0 to below 1, got {self.validation_share}", field="validation_share")
        if not 0 <= self.max_known_share <= 1:
            raise InvalidInput(f"expected 0 to 1, got {self.max_known_share}", field="max_known_share")
        if not 0 <= self.keep_wrong < 1:
            raise InvalidInput(f"expected 0 to below 1, got {self.keep_wrong}", field="keep_wrong")
        for name in ("max_tokens", "ngram", "rows_per_file"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"expected at least 1, got {getattr(self, name)}", field=name)
        if unknown := {*self.leave_out} - {*get_args(ErrorType)}:
            known = ", ".join(get_args(ErrorType))
            raise InvalidInput(f"{min(unknown)!r} is no error that rows mend; there are {known}", field="leave_out")
        if self.protocol is not None and self.protocol not in TEXT_PROTOCOLS:
            raise InvalidInput(f"{self.protocol!r} is none of {', '.join(TEXT_PROTOCOLS)}", field="protocol")
        if self.reward is not None:
            reward_preset(self.reward)
        for share in self.mix:
            if not (math.isfinite(share.weight) and share.weight > 0):
                raise InvalidInput(f"{share.part}: expected a weight above 0, got {share.weight}", field="mix")
        for share in self.mix:
            if sum(other.part == share.part for other in self.mix) > 1:
                raise InvalidInput(f"{share.part} has two weights; give it one", field="mix")
