"""Records of search episodes: those of R-Search (plan, results, answer), those of DynaSearcher (searches of documents
and graph, with annotations and rewards), and pairs of a better and a worse episode.
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
"""Method that scored the answer; `words` is the F1 of its words, in rows of earlier versions."""

SearchStatus = Literal["found", "skipped", "failed"]
"""Outcome of a search: `found`, it was run; `skipped`, it had no query or named no known tool; `failed`, its tool
failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSearch:
    """One search of an episode's plan, with its outcome."""

    node_id: str
    query: str
    tool: str
    status: SearchStatus
    passages: tuple[Passage, ...]
    """Passages that the search found, best first, unescaped; the conversation shows them escaped."""


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
    """Uid of the `BundleQuestion` that the episode answers."""
    question: str
    """The question as it was asked, with its options by letter."""
    type: BundleQuestionType
    answer: str
    """The gold answer as an agent gives it: letters for choices (`A, C`), words otherwise."""
    answer_aliases: tuple[str, ...]
    """Other right answers in words; none for choices."""
    options: tuple[str, ...]
    correct_options: tuple[str, ...]
    origin: Origin
    """`oracle`: composed along the gold plan. `policy`: sampled from a model."""
    thought: str
    """The agent's thought before the search; empty when the conversation cannot be read."""
    plan_text: str
    """The plan as the agent wrote it into `<search>`; empty when the conversation cannot be read."""
    plan_nodes: tuple[PlanNode, ...]
    plan_edges: tuple[PlanEdge, ...]
    searches: tuple[PlannedSearch, ...]
    """Searches in the order of execution; none when the plan was not run."""
    messages: tuple[Message, ...]
    final_answer: str
    num_tool_calls: int
    """Number of searches that a tool was asked for."""
    num_hops: int
    """Number of hops of the question."""
    token_estimate: int
    """Length by the rule of `protocols.base.estimate_tokens`; a trainer counts with its own tokenizer."""
    evidence_found: float
    """Share of the hops whose evidence the searches brought; see `rewards.evidence_recall`."""
    reward: RSearchReward
    provenance: Provenance
    thoughts: ThoughtSource = "templates"
    """Author of the thought before the search: the model, or sentences from fixed pools."""
    scored_by: AnswerScoredBy = "words"
    """Method that gave the score `reward.answer`. A gold plan scores 1, since it answers with the gold answer."""
    gold_in_queries: float = 0.0
    """Largest share of a query's words that occur in the gold documents' titles, answer or key facts but not in the
    question. 0 in rows from before it was measured."""
    schema_version: str = SCHEMA_VERSION


KgTrajectoryKind = Literal["good", "bad"]
"""Class of an episode: `good` ones are well-formed and end with a right answer. Filters ask for more."""
KgFlag = Literal["stale_or_conflicting"]
"""Remarks on an episode; `stale_or_conflicting`: graph and documents answer a search differently; see `KgConflict`."""
EpisodeStop = Literal["answered", "too_many_turns", "malformed", "too_long"]
"""How an episode ended; see `protocols.episodes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityLink:
    """An entity that a name in a search may mean; a name without any match has one link without entity."""

    mention: str
    entity_id: str | None
    """Id of the entity; None, like all fields after it, when no name in the graph is similar."""
    label: str | None
    score: float | None
    """Similarity of the names, 0 to 1; see `EntityMatch`."""
    margin: float | None
    is_searched: bool
    """Whether the entity's triples were looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationLink:
    """The relation that best matches a phrase of a search."""

    phrase: str
    relation_id: str | None
    """Id of the relation; None, like label and score, when no relation is similar."""
    label: str | None
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KgStep:
    """One executed search, with the results of both tools."""

    index: int
    """0-based position among the episode's searches."""
    sub_question: str
    """The gold hop, with its `#k`, that a guided episode searches for; in other episodes the query."""
    query: str
    entities: tuple[EntityLink, ...]
    """Entities that were matched, by mention in the agent's order, the best first."""
    relations: tuple[RelationLink, ...]
    """Relations that were matched, one for each phrase in the agent's order."""
    triples_offered: tuple[KgTriple, ...]
    """Triples that the graph returned, best first, within the tool's limits."""
    triples_kept: tuple[KgTriple, ...]
    """Triples that the filter kept and the agent read."""
    documents: tuple[Passage, ...]
    """Passages that the document search returned, best first."""
    answer: str | None
    """Answer that the agent took from the search; None when it does not say, as in free episodes."""

    @property
    def mentions(self) -> tuple[str, ...]:
        """Return the mentions of entities as the agent wrote them."""
        return tuple(dict.fromkeys(link.mention for link in self.entities))

    @property
    def phrases(self) -> tuple[str, ...]:
        """Return the phrases for relations as the agent wrote them."""
        return tuple(link.phrase for link in self.relations)


@dataclass(frozen=True, slots=True, kw_only=True)
class KgConflict:
    """A search for which the knowledge graph and the documents give different answers."""

    step: int
    """0-based index of the search."""
    kg_value: str
    """Answer of the kept triples with the asked entity and relation; several values are separated by commas."""
    document_value: str
    """Answer that the model reads in the documents alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactReading:
    """The answer of a model that was asked for one fact behind an episode's answer, over all texts that the episode had
    read.
    """

    question: str
    """A question that asks for the fact alone."""
    answer: str
    """The fact as the texts state it; empty when they do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBranch:
    """An alternative that an episode left open, as a model that read the episode reports it: somebody or something that
    fits a step of the question as well as what the episode follows, and of which no thought says why it leads nowhere.
    """

    link: str
    """The link of the question, in the model's words: "friend of Ada Lund"."""
    name: str
    """Its name, as the results have it."""
    why: str
    """Why the model holds it to be open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoughtDocument:
    """A document that the answer rests on, with its highest similarity to the episode's search results."""

    id: str | None
    """Id of the document among the question's paragraphs; None when it is not one of them."""
    title: str
    similarity: float | None = None
    """Highest cosine between its text and a document that was found; None where a document of its title was found, and
    where only titles are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KgReward:
    """The parts of DynaSearcher's reward, and their sum; the equations are in `rewards.dynasearcher`."""

    total: float
    r_acc: float
    r_ans: float
    r_recall: float | None
    """Reward for recall; None when no supporting document is known."""
    r_penalty: float | None
    """Penalty for the number of searches; None when the number of hops is not known."""
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
    """Aliases of the question's answer, then the graph's names of the answer's entity."""
    kind: KgTrajectoryKind
    origin: Origin
    """`oracle`: the searches follow the gold decomposition. `policy`: the model searched freely."""
    plan: tuple[str, ...]
    """Gold sub-questions that guided the episode; empty when the model searched freely."""
    sample: int
    """Number of the draw among the question's episodes."""
    steps: tuple[KgStep, ...]
    messages: tuple[Message, ...]
    stop: EpisodeStop
    final_answer: str
    """The agent's final answer; empty when it gave none."""
    num_tool_calls: int
    """Number of executed searches; each asks both tools."""
    num_hops: int
    """Number of facts to be looked up; see `Question.num_hops`. 0 when it is not known."""
    token_estimate: int
    """Length by the rule of `schemas.estimate_tokens`; a trainer counts with its own tokenizer."""
    gold_hops: tuple[Hop, ...]
    supporting: tuple[SoughtDocument, ...]
    """The documents that the answer rests on, each once."""
    reward: KgReward
    flags: tuple[KgFlag, ...]
    conflicts: tuple[KgConflict, ...]
    """Conflicts behind the flag `stale_or_conflicting`. Only looked for in selected episodes."""
    provenance: Provenance
    judge_score: float | None = None
    """The judge's verdict on the final answer, in [0, 1]; None when the matcher alone decided."""
    readings: tuple[FactReading, ...] = ()
    """Readings of facts that the answer rests on, where no text that was read names them plainly. Only made for
    selected episodes."""
    schema_version: str = SCHEMA_VERSION

    @property
    def golds(self) -> tuple[str, ...]:
        """Return the gold answer, then its aliases."""
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
    """Protocol of both conversations; empty when it is none that trailforge's trainers know, or when rows of an earlier
    version take it from the table."""
    agent: str = ""
    """Name of the agent that made both episodes, with a hash of its settings and prompts; empty where a data set uses
    one agent only."""
    agent_config: str = ""
    backend: str = ""
    """Back end and corpus that the agent searched; empty where a data set uses one only."""
    index: str = ""
    good_uid: str
    """Uid of the better episode in the table of kept episodes."""
    bad_uid: str
    """Uid of the worse episode in `rejected/`."""
    good_messages: tuple[Message, ...]
    """Conversation of the better episode. Before `diverges_at` its messages are those of the worse one, apart from
    their wording."""
    bad_messages: tuple[Message, ...]
    diverges_at: int
    """Index of the first message in which the two differ, an agent's turn in both; all before it is a common prompt."""
    bad_answer: str = ""
    reason: str
    """Name of the filter that rejected the worse episode."""
    detail: str
    """Remark of that filter, one line for a person."""
    good_reward: float | None = None
    """Reward of the whole episode; None where the data set's rows have no reward."""
    bad_reward: float | None = None
    origin: Origin = "policy"
    """Origin of the pair: `oracle` when one of the two episodes is."""
    parts_at_fault: bool | None = None
    """Whether the first differing turn is itself at fault, as in `PreferenceRow`."""
    provenance: Provenance | None = None
    """Provenance of both episodes: the calls of the better one, then those of the worse one. None in rows of an earlier
    version."""
    schema_version: str = SCHEMA_VERSION

    def preference(self, data_source: str, protocol: str) -> PreferenceRow:
        """Return the pair as training reads it. `protocol` is the table's, and is used where the row names none."""

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
