"""Episodes that agents lead: of R-Search a plan of searches, what they found and an answer; of DynaSearcher (section 3)
searches of documents and graph with annotations and rewards, and pairs of a good and a bad one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.bundle import BundleQuestionType, Passage, PlanEdge, PlanNode
from trailforge.schemas.kg import KgTriple
from trailforge.schemas.provenance import Provenance
from trailforge.schemas.question import Hop
from trailforge.schemas.rollout import Origin
from trailforge.schemas.trajectory import ChatMessage, Message, PreferenceRow, ThoughtSource
from trailforge.schemas.versions import Earlier, Row, migration, rename_back_end

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
    SCHEMA_VERSION: ClassVar[str] = "1.3"
    EARLIER: ClassVar[Earlier] = {"1.0": _with_thoughts, "1.1": migration(), "1.2": migration()}
    # 1.0: without thoughts and scored_by; 1.2: without gold_in_queries

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
    gold_in_queries: float = 0.0
    """Largest share of a query's words that are the gold documents' titles', answer's or key facts' and not the
    question's. 0 also in rows from before it was measured."""
    schema_version: str = SCHEMA_VERSION


KgTrajectoryKind = Literal["good", "bad"]
"""`good`: in the right form, with a right final answer. Filters ask for more."""
KgFlag = Literal["stale_or_conflicting"]
"""`stale_or_conflicting`: knowledge graph and documents answer a search differently; see `KgConflict`."""
EpisodeStop = Literal["answered", "too_many_turns", "malformed", "too_long"]
"""How an episode ended; see `protocols.episodes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityLink:
    """An entity that one mention of a search may mean; a mention that means nothing has one link without entity."""

    mention: str
    entity_id: str | None
    """None when no name in the graph is similar, as all that follows."""
    label: str | None
    score: float | None
    """0 to 1; see `EntityMatch`."""
    margin: float | None
    is_searched: bool
    """Its triples were looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationLink:
    """The relation that a phrase of a search means best."""

    phrase: str
    relation_id: str | None
    """None when no relation is similar, as label and score."""
    label: str | None
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KgStep:
    """One executed search and what both tools gave."""

    index: int
    """0-based place among the episode's searches."""
    sub_question: str
    """The gold hop that is searched for, with its `#k`, when the episode is guided; else the query."""
    query: str
    entities: tuple[EntityLink, ...]
    """By mention, in the agent's order, the best first."""
    relations: tuple[RelationLink, ...]
    """One for each phrase, in the agent's order."""
    triples_offered: tuple[KgTriple, ...]
    """Best first, within the tool's limits."""
    triples_kept: tuple[KgTriple, ...]
    """What the filter left and the agent read."""
    documents: tuple[Passage, ...]
    """Best first."""
    answer: str | None
    """What the agent took from it; None when it does not say, as in free episodes."""

    @property
    def mentions(self) -> tuple[str, ...]:
        """As the agent wrote them."""
        return tuple(dict.fromkeys(link.mention for link in self.entities))

    @property
    def phrases(self) -> tuple[str, ...]:
        """The relations, as the agent wrote them."""
        return tuple(link.phrase for link in self.relations)


@dataclass(frozen=True, slots=True, kw_only=True)
class KgConflict:
    """A search to which the knowledge graph and the documents give different answers."""

    step: int
    """0-based index of the search."""
    kg_value: str
    """What the kept triples with the asked entity and relation say; several values with commas between them."""
    document_value: str
    """What the model reads in the documents alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactReading:
    """What a model read, in all that an episode had read, of a fact that its answer rests on."""

    question: str
    """Asks for the fact by itself."""
    answer: str
    """Empty: it is not stated there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoughtDocument:
    """A document that the answer rests on, and how near the searches of an episode came to it."""

    id: str | None
    """Among the question's paragraphs; None when it is not one of them."""
    title: str
    similarity: float | None = None
    """The highest cosine between its text and a document that was found; None where one of its title was found, and
    where titles alone are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgReward:
    """The parts of the reward; see `rewards.dynasearcher.DynaSearcherReward`."""

    total: float
    r_acc: float
    r_ans: float
    r_recall: float | None
    """None when no supporting document is known."""
    r_penalty: float | None
    """None when the number of hops is not known."""
    r_gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KgTrajectory:
    """An episode of the protocol `kg_search`: one row of `kg_trajectories/`."""

    STORED_AS: ClassVar[str] = "KgTrajectory"
    SCHEMA_VERSION: ClassVar[str] = "1.3"
    EARLIER: ClassVar[Earlier] = {"1.0": migration(), "1.1": migration(), "1.2": migration()}

    uid: str
    """Hash of question id, draw and conversation: the same episode has the same uid in every run."""
    question_id: str
    question: str
    answer: str
    answer_aliases: tuple[str, ...]
    """Those of the question, then the graph's names of the answer's entity."""
    kind: KgTrajectoryKind
    origin: Origin
    """`oracle`: the searches follow the gold decomposition. `policy`: the model searched as it would."""
    plan: tuple[str, ...]
    """Gold sub-questions that guided the episode; empty when it was free."""
    sample: int
    """Number of the draw among the question's episodes."""
    steps: tuple[KgStep, ...]
    messages: tuple[Message, ...]
    stop: EpisodeStop
    final_answer: str
    """Empty unless answered."""
    num_tool_calls: int
    """Executed searches; each asks both tools."""
    num_hops: int
    """Facts to be looked up; see `Question.num_hops`. 0 when it is not known."""
    token_estimate: int
    """Length by the rule of `schemas.estimate_tokens`; a trainer counts with its own tokenizer."""
    gold_hops: tuple[Hop, ...]
    supporting: tuple[SoughtDocument, ...]
    """The documents that the answer rests on, each once."""
    reward: KgReward
    flags: tuple[KgFlag, ...]
    conflicts: tuple[KgConflict, ...]
    """What `stale_or_conflicting` rests on; of selected episodes alone, as others are not held against themselves."""
    provenance: Provenance
    judge_score: float | None = None
    """The judge's verdict on the final answer, in [0, 1]; None when the matcher alone decided."""
    readings: tuple[FactReading, ...] = ()
    """Of what the answer rests on, where nothing that was read names it plainly; of selected episodes alone."""
    schema_version: str = SCHEMA_VERSION

    @property
    def golds(self) -> tuple[str, ...]:
        """The gold answer, then its aliases."""
        return (self.answer, *self.answer_aliases)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastivePair:
    """A better and a worse episode of one question, for preference training: one row of `pairs/`."""

    STORED_AS: ClassVar[str] = "ContrastivePair"
    SCHEMA_VERSION: ClassVar[str] = "2.0"
    EARLIER: ClassVar[Earlier] = {
        "1.0": migration(added={"parts_at_fault": True}),
        "AgentPair 1.0": rename_back_end,
        "AgentPair 1.1": rename_back_end,
    }

    uid: str
    """Hash of the two episodes' uids."""
    question_id: str
    question: str
    answer: str
    protocol: str = ""
    """In which both are written; empty: in none that our trainers know, or of an earlier version, in the table's."""
    agent: str = ""
    """What drew both, and a hash of its name, its numbers and its words; empty where a data set draws in one way."""
    agent_config: str = ""
    backend: str = ""
    """What such an agent searched, and which corpus."""
    index: str = ""
    good_uid: str
    """In the table of kept episodes."""
    bad_uid: str
    """In `rejected/`."""
    good_messages: tuple[Message, ...]
    """Up to `diverges_at` the bad one's, which differ from the good one's in words alone."""
    bad_messages: tuple[Message, ...]
    diverges_at: int
    """Index of the first message in which they differ, an agent's turn in both: all before it is a common prompt."""
    bad_answer: str = ""
    reason: str
    """Name of the filter that rejected the bad one."""
    detail: str
    """What it said: one line for a person."""
    good_reward: float | None = None
    """What the whole episodes are paid; None where the rows of a data set tell no reward."""
    bad_reward: float | None = None
    origin: Origin = "policy"
    """`oracle` when one of the two is."""
    parts_at_fault: bool | None = None
    """As in `PreferenceRow`."""
    provenance: Provenance | None = None
    """Of both: the calls of the good one, then those of the bad one. None in rows of an earlier version."""
    schema_version: str = SCHEMA_VERSION

    def preference(self, data_source: str, protocol: str) -> PreferenceRow:
        """As training takes it. `protocol`: that of the table, which holds where the row says none."""

        def plain(messages: tuple[Message, ...]) -> tuple[ChatMessage, ...]:
            return tuple(ChatMessage(role=each.role, content=each.content) for each in messages)

        start = self.diverges_at
        return PreferenceRow(
            uid=self.uid,
            data_source=data_source,
            protocol=self.protocol or protocol,
            question_id=self.question_id,
            question=self.question,
            prompt=plain(self.good_messages[:start]),
            chosen=plain(self.good_messages[start:]),
            rejected=plain(self.bad_messages[start:]),
            reason=self.reason,
            parts_at_fault=self.parts_at_fault,
        )
