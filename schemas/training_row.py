"""What reinforcement learning starts from: a question as a prompt, and what an answer to it is held against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.question import Hop
from trailforge.schemas.trajectory import ChatMessage

TruthStyle = Literal["rule"]
AnswerKind = Literal["text", "options"]
"""`text`: words, compared with the targets. `options`: letters, compared with the correct ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundTruth:
    """What rewards need to know of a question."""

    target: tuple[str, ...]
    """The gold answer, then its aliases. (Search-R1's name for it.)"""
    answer_kind: AnswerKind
    options: tuple[str, ...]
    """Texts of the options A, B, …; empty for `text`."""
    correct_options: tuple[str, ...]
    """Their letters; empty for `text`."""
    num_hops: int | None
    """None when the gold hops are not known."""
    hops: tuple[Hop, ...]
    support_titles: tuple[str, ...]
    """Of the documents that the hops rest on; empty when they are not known."""
    dag_text: str
    """The gold search plan; empty where there is none."""
    allowed_tools: tuple[str, ...]
    """Of search plans; empty where there are none."""
    reward_preset: str
    """Name of the preset of `rewards` that an episode is paid by."""
    protocol: str
    """In which the agent talks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModel:
    """The column by which verl and slime hand the ground truth to a reward function."""

    style: TruthStyle
    ground_truth: GroundTruth


@dataclass(frozen=True, slots=True, kw_only=True)
class RlRow:
    """One question to learn on. The table `rl`."""

    STORED_AS: ClassVar[str] = "RlRow"
    SCHEMA_VERSION: ClassVar[str] = "1.0"

    uid: str
    data_source: str
    """Name of the data set whose run the question comes from."""
    prompt: tuple[ChatMessage, ...]
    """System prompt and question, as the protocol begins."""
    ability: str
    question_id: str
    question: str
    reward_model: RewardModel
    corpus_id: str
    """What is searched: the run id of the run whose documents or paragraphs hold the evidence."""
    curriculum_stage: int
    """1 for the easiest; 1 where the data set has no curriculum."""
    difficulty: float
    """Orders questions within a stage."""
    provenance_id: str
    """Id of the source in the run that made the row."""
    schema_version: str = SCHEMA_VERSION
