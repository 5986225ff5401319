"""The row of a verified episode. Light to import: the declaration names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trailforge.schemas import FactReading, FilterScore, Hop, Provenance
from trailforge.schemas.agent_episode import AgentEpisode
from trailforge.schemas.versions import Earlier, Row, rename_back_end


@dataclass(frozen=True, slots=True, kw_only=True)
class FromMemory:
    """What the same model said to a question without any search: what a question that it knows leaves behind."""

    question_id: str
    question: str
    golds: tuple[str, ...]
    draws: int
    """How often it was asked; 0: not at all."""
    answers: tuple[str, ...]
    """Replies that were cut are left out."""


def _rename_in_episode(row: Row) -> Row:
    return row | {"episode": rename_back_end(row["episode"])}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTrajectory:
    """A verified episode: one row of `agent_trajectories/`."""

    STORED_AS: ClassVar[str] = "AgentTrajectory"
    SCHEMA_VERSION: ClassVar[str] = "1.3"
    EARLIER: ClassVar[Earlier] = dict.fromkeys(("1.0", "1.1", "1.2"), _rename_in_episode)

    uid: str
    """Hash of the episode's and of the draw."""
    question_id: str
    agent: str
    agent_config: str
    """Hash of the agent's name, its numbers and its words."""
    sft_protocol: str
    """Of the SFT row that is made of it; empty: its conversation is in no protocol of ours."""
    graph: str
    """Hash of the knowledge graph that was searched; empty: none."""
    sample: int
    """Number of the draw; each has a seed of its own."""
    episode: AgentEpisode
    """As an evaluation has it, but `seconds` are 0: a row does not follow from a clock."""
    gold_hops: tuple[Hop, ...]
    num_hops: int
    token_estimate: int
    """Of the conversation, by `schemas.text.count_conversation`."""
    draws: int
    """Episodes that were drawn on the question; one that broke off is none."""
    right_draws: int
    """Those of them whose answer is right, and whose last turn does not say that it guesses."""
    memory_draws: int = 0
    """How often the same model was asked without any search; 0: not at all."""
    memory_answers: tuple[str, ...] = ()
    """What it said; replies that were cut are left out."""
    readings: tuple[FactReading, ...] = ()
    """Of what the answer rests on, where nothing that was read names it plainly; of episodes that no other filter
    rejects."""
    filters: tuple[FilterScore, ...] = ()
    """What each filter measured."""
    sft_calls: bool = False
    """Whether, where it is in no protocol, SFT rows are made of its conversation and of each call whose reply was used,
    as these were sent: all of them are turns of a chat."""
    provenance: Provenance
    schema_version: str = SCHEMA_VERSION

    @property
    def golds(self) -> tuple[str, ...]:
        """The gold answer, then its aliases."""
        return self.episode.golds

    @property
    def from_memory(self) -> FromMemory:
        """What the model knows of the question."""
        return FromMemory(
            question_id=self.question_id,
            question=self.episode.question,
            golds=self.golds,
            draws=self.memory_draws,
            answers=self.memory_answers,
        )
