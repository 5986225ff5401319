"""An R-Search episode: a question, a plan of searches, what they found, an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.bundle import BundleQuestionType, Passage, PlanEdge, PlanNode
from trailforge.schemas.provenance import Provenance
from trailforge.schemas.rollout import Origin
from trailforge.schemas.trajectory import Message, ThoughtSource
from trailforge.schemas.versions import Earlier, Row

AnswerScoredBy = Literal["options", "matching", "judge", "key_facts", "words"]
"""What said how right an answer is; `words`: the F1 of its words, in rows of earlier versions."""

SearchStatus = Literal["found", "skipped", "failed"]
"""Of a search: it was run, it was not (no query, no such tool), or its tool failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSearch:
    """A node of an episode's plan, and what became of it."""

    node_id: str
    query: str
    tool: str
    status: SearchStatus
    passages: tuple[Passage, ...]
    """Best first, as found: in the conversation their text is escaped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RSearchReward:
    """The parts of the reward (R-Search, section 3.4), each in [0, 1], and their weighted sum."""

    total: float
    format: float
    dag: float
    answer: float


def _with_thoughts(row: Row) -> Row:
    """Draws of a model had its own thoughts, gold plans those of the pools."""
    return row | {"thoughts": "model" if row["origin"] == "policy" else "templates"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEpisode:
    """One answer to a bundle's question in the R-Search protocol. The table `episodes`."""

    STORED_AS: ClassVar[str] = "SearchEpisode"
    SCHEMA_VERSION: ClassVar[str] = "1.1"
    EARLIER: ClassVar[Earlier] = {"1.0": _with_thoughts}  # without thoughts and scored_by

    uid: str
    """Hash of question and conversation: the same episode has the same uid in every run."""
    question_id: str
    """The uid of the `BundleQuestion`."""
    question: str
    """As asked: with its options by letter."""
    type: BundleQuestionType
    answer: str
    """The gold answer as an agent gives it: letters for choices (`A, C`), words otherwise."""
    answer_aliases: tuple[str, ...]
    """Other right answers in words; none for choices."""
    options: tuple[str, ...]
    correct_options: tuple[str, ...]
    origin: Origin
    """`oracle`: told along the gold plan. `policy`: sampled from a model."""
    thought: str
    """Before the search; empty when the conversation cannot be read."""
    plan_text: str
    """As in `<search>`; empty as above."""
    plan_nodes: tuple[PlanNode, ...]
    plan_edges: tuple[PlanEdge, ...]
    searches: tuple[PlannedSearch, ...]
    """In the order of execution; none when the plan was not run."""
    messages: tuple[Message, ...]
    final_answer: str
    num_tool_calls: int
    """Searches that a tool was asked for."""
    num_hops: int
    """Of the question."""
    token_estimate: int
    """Length by the rule of `protocols.base.estimate_tokens`; a trainer counts with its own tokenizer."""
    evidence_found: float
    """Share of the hops whose evidence the searches brought; see `rewards.evidence_recall`."""
    reward: RSearchReward
    provenance: Provenance
    thoughts: ThoughtSource = "templates"
    """Who worded the thought before the search: the model, or sentences from pools."""
    scored_by: AnswerScoredBy = "words"
    """What `reward.answer` is the score of. A gold plan's is 1: it answers with the gold answer."""
    schema_version: str = SCHEMA_VERSION
