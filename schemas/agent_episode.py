"""What an agent did with a question over a back end, and its worth: of an evaluation, or verified to train on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.bundle import FilterScore
from trailforge.schemas.episode import FactReading
from trailforge.schemas.provenance import Provenance
from trailforge.schemas.question import Hop
from trailforge.schemas.trajectory import Message, NativeMessage
from trailforge.schemas.versions import Earlier, Row, migration, rename_back_end

AgentStop = Literal["answered", "too_many_turns", "malformed", "too_long", "failed"]
"""`answered`: by the agent itself. `too_many_turns`: it would have gone on. `malformed`: its last turn cannot be read.
`too_long`: there was no room left, or a reply was cut. `failed`: a tool or the model gave an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSearch:
    """One search of an agent, and what it was given."""

    query: str
    entities: tuple[str, ...] = ()
    """Looked up in a knowledge graph."""
    relations: tuple[str, ...] = ()
    document_ids: tuple[str, ...]
    """Of the passages that it was given, best first."""
    titles: tuple[str, ...]
    """In the same order."""
    source_ids: tuple[str, ...] = ()
    """Of the documents that passages were made from which are none themselves, as summaries."""
    source_titles: tuple[str, ...] = ()
    """Of the same; empty where it is not known."""
    scores: tuple[float, ...]
    """Of the back end; those of different back ends tell nothing about each other."""
    triples: tuple[str, ...] = ()
    """As the agent read them."""
    context_tokens: int
    """Of what it was given to read."""
    seconds: float
    """That the search took; 0: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCall:
    """A model call that is no turn of the conversation, as when documents are read for it."""

    purpose: str
    prompt: str
    reply: str
    is_cut: bool = False
    """The reply came to no end. Rows of before do not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """What one model was asked."""

    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCosts:
    """What an episode took."""

    calls: int
    """Of the agent's model and of those that its searches ask; so are the tokens."""
    prompt_tokens: int
    completion_tokens: int
    context_tokens: int
    """Of all that was retrieved and shown."""
    others: tuple[ModelUsage, ...] = ()
    """What of it is of other models than the agent's, as of searches that ask one. Rows of before do not say."""
    cached_tokens: int | None = None
    """So many of the agent's prompt tokens its server had in its prefix cache; None where it never said any."""
    seconds: float | None
    """From question to end, waiting for model and tools; None: not known, for the ledger had some of its replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentScores:
    """An answer against its golds, and searches against the documents that it rests on."""

    exact_match: float
    f1: float
    contain_em: float
    """A gold answer stands in the answer, letter by letter, both normalised: the papers' measure; long answers gain.
    Of options, and of a set of answers, `exact_match`: who names everything names the right ones too."""
    right: float
    """By our own matcher (`rewards.matching`), which wants the answer to be the gold one."""
    judge: float | None = None
    """A judging model's verdict, 0 to 1; None: none was asked."""
    supporting_recall: float | None = None
    """Share of the supporting documents that some search brought; None: the data set does not name them."""
    found_at: tuple[int | None, ...] = ()
    """For each supporting document, in the order of the hops, the 0-based search that brought it first; None: none."""
    answer_in_text: float | None = None
    """1.0 where a text that a search gave states a gold answer, else 0.0; None: not looked for, as what was read is not
    known, or no text states such an answer (yes and no, letters of options)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPart:
    """What a reward is made of, by the name that the equations of its preset give."""

    name: str
    value: float | None
    """None: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStep:
    """Where in a training an episode was made, and what it was paid there."""

    step: int
    """The optimizer step that was the first to train it, from 1; 0: the framework does not say."""
    reward: float | None = None
    """None: it was paid nothing, as its search failed, or later, by the framework."""
    parts: tuple[RewardPart, ...] = ()


Writing = Literal["tags", "native"]
"""How a research agent writes its calls: as tags in text, or as native tool calls."""
PageTool = Literal["search", "open", "find", ""]
"""The tools of a research agent; empty: it called one that there is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseCall:
    """One call of a research agent, and what it was shown."""

    turn: int
    """Position in the record's messages of the turn that makes the call."""
    result: int
    """Position of the message with its result."""
    tool: PageTool
    query: str = ""
    """What was searched for, or the words to find."""
    page: str = ""
    """The page to open or to find words in, as the agent named it."""
    part: int = 0
    """The part to open; 0 where the agent named none."""
    problem: str = ""
    """Why the call was not carried out; empty where it was."""
    pages: tuple[str, ...] = ()
    """Ids of the pages that it shows, best first."""
    parts: tuple[int, ...] = ()
    """Which part of each page it shows; 0 where that is not known."""
    titles: tuple[str, ...] = ()
    """Titles of the same pages."""
    tokens: int = 0
    """How long its result is."""
    seconds: float = 0.0
    """How long it took; 0 where a row must not follow from a clock."""
    is_repeat: bool = False
    """Whether the same call was made before in the episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseView:
    """What the model saw in a run of turns, each of whose prompts begins with the one before: one window to train on.

    The prompt of a turn is the opening, the summary if there is one, then the messages from `start` up to the turn.
    """

    first: int
    """Position of the first message that is new in this window."""
    end: int
    """Position behind its last one."""
    start: int
    """Position of the first message after the opening that was shown; those before it were not."""
    marked_before: int
    """Results before this position were replaced by a mark."""
    summary: int | None = None
    """Position of the message whose text stood in the opening as a summary of what came before `start`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseFigures:
    """How a long episode went, counted from its calls and its words alone."""

    calls: int
    """How many calls were made."""
    searches: int
    opens: int
    finds: int
    refused_calls: int
    """Calls that could not be carried out."""
    repeated_calls: int
    """Calls that were made before in the same words."""
    pages_found: int
    """Different pages that a search or a find showed."""
    pages_opened: int
    """Different pages that were opened."""
    pages_unused: int
    """Opened pages that no later thought, call or answer names by id or title."""
    pages_cited: int
    """Different pages that the last turn cites and that were shown."""
    made_up_citations: int
    """Citations of the last turn that name a page or a part that was never shown."""
    gold_pages: int | None = None
    """How many pages the answer rests on; None where that is not known, as in the next three."""
    gold_found: int | None = None
    """How many of them a search or a find showed."""
    gold_opened: int | None = None
    gold_cited: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseRecord:
    """An episode of a research agent in full: every message as it was sent and written, and what each turn saw."""

    writing: Writing
    tools: str
    """The tools as they were offered, a JSON list; empty where calls are tags."""
    context: str
    """The rule by which context was kept: `all`, `newest:K`, or `summary:TOKENS`."""
    sends_thoughts: bool
    """Whether earlier thoughts were sent back to the model."""
    messages: tuple[NativeMessage, ...]
    """The whole conversation, in order: nothing is left out that some turn did not see."""
    views: tuple[BrowseView, ...]
    """The windows, in order; every turn of the model is new in one of them."""
    calls: tuple[BrowseCall, ...]
    figures: BrowseFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEpisode:
    """One episode of an agent, one question over one back end: a row of `episodes/` of an evaluation or a training."""

    STORED_AS: ClassVar[str] = "AgentEpisode"
    SCHEMA_VERSION: ClassVar[str] = "1.4"
    EARLIER: ClassVar[Earlier] = dict.fromkeys(("1.0", "1.1"), rename_back_end) | dict.fromkeys(
        ("1.2", "1.3"), migration()
    )

    uid: str
    """Hash of question, agent with its settings, back end with its index, model and seed."""
    question_id: str
    dataset: str
    question: str
    golds: tuple[str, ...]
    """The gold answer, then its aliases."""
    options: tuple[str, ...] = ()
    """See `Question.options`."""
    correct_options: tuple[str, ...] = ()
    """See `Question.correct_options`."""
    answer_set: tuple[str, ...] = ()
    """See `Question.answer_set`."""
    agent: str
    protocol: str
    """That its conversation follows; empty: none of ours."""
    backend: str
    index: str
    """Hash of what was searched; empty: the question's own paragraphs, or the web."""
    model: str
    seed: int
    """In a training, which draws without one for each episode: its number in the step."""
    messages: tuple[Message, ...]
    """The conversation: what the model was sent and what it wrote, in order."""
    searches: tuple[AgentSearch, ...]
    calls: tuple[AgentCall, ...] = ()
    """Beside the conversation."""
    answer: str
    """Empty unless it gave one."""
    stop: AgentStop
    error: str = ""
    """What failed."""
    costs: AgentCosts
    scores: AgentScores
    failures: tuple[str, ...] = ()
    """Tags of what went wrong, from `evaluation.failures`; empty for a right answer that its searches bear out."""
    training: TrainingStep | None = None
    """None: an evaluation's."""
    browse: BrowseRecord | None = None
    """The whole episode of an agent with several tools, in its native form; None for agents of one tool."""
    schema_version: str = SCHEMA_VERSION


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
    SCHEMA_VERSION: ClassVar[str] = "1.5"
    EARLIER: ClassVar[Earlier] = dict.fromkeys(("1.0", "1.1", "1.2"), _rename_in_episode) | dict.fromkeys(
        ("1.3", "1.4"), migration()
    )

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
