"""The rows of verified episodes and of pairs. Light to import: the declaration names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trailforge.schemas import FactReading, FilterScore, Hop, Message, PreferenceRow, Provenance
from trailforge.schemas.agent_episode import AgentEpisode
from trailforge.schemas.trajectory import preference_of
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
    """Of the SFT row that is made of it; empty: its conversation is in no form that our trainers know."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPair:
    """A better and a worse episode of one agent over one back end on one question, for DPO: one row of `pairs/`.

    The worse one's answer is wrong, or it is right and a query of it names what had not been read.
    """

    STORED_AS: ClassVar[str] = "AgentPair"
    SCHEMA_VERSION: ClassVar[str] = "1.2"
    EARLIER: ClassVar[Earlier] = {"1.0": rename_back_end, "1.1": rename_back_end}

    uid: str
    """Hash of the two episodes' uids."""
    question_id: str
    question: str
    answer: str
    agent: str
    agent_config: str
    protocol: str
    """As `AgentTrajectory.sft_protocol`."""
    backend: str
    index: str
    good_uid: str
    """In `agent_trajectories/`."""
    bad_uid: str
    """In `rejected/`."""
    good_messages: tuple[Message, ...]
    bad_messages: tuple[Message, ...]
    diverges_at: int
    """The message from which they differ, an agent's turn in both: all before it is the common prompt."""
    bad_answer: str
    reason: str
    """Name of the filter that rejected the bad one."""
    detail: str
    provenance: Provenance
    """Of both: the calls of the good one, then those of the bad one."""
    parts_at_fault: bool | None = None
    """As in `PreferenceRow`."""
    schema_version: str = SCHEMA_VERSION

    def preference(self, data_source: str, protocol: str) -> PreferenceRow:
        """As training takes it: in the protocol of the agent, whatever the table's."""
        del protocol
        return preference_of(self, data_source, self.protocol, parts_at_fault=self.parts_at_fault)
