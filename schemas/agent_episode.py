"""Records of what an agent did with one question over one search back end, and how good its answer was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from trailforge.schemas.bundle import FilterScore
from trailforge.schemas.episode import FactReading, OpenBranch
from trailforge.schemas.provenance import Provenance
from trailforge.schemas.question import Hop
from trailforge.schemas.trajectory import Message, NativeMessage
from trailforge.schemas.versions import Earlier, Row, migration, rename_back_end

AgentStop = Literal["answered", "too_many_turns", "malformed", "too_long", "failed"]
"""How an episode ended. `answered`: the agent gave an answer. `too_many_turns`: it reached the limit of turns.
`malformed`: its last turn cannot be read. `too_long`: the context had no room left, or a reply was cut. `failed`: a
tool or the model raised an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSearch:
    """One search of an agent, with what the search returned."""

    query: str
    entities: tuple[str, ...] = ()
    """Names that the search looked up in a knowledge graph."""
    relations: tuple[str, ...] = ()
    document_ids: tuple[str, ...]
    """Ids of the passages that the search returned, best first."""
    titles: tuple[str, ...]
    """Titles of these passages, in the order of `document_ids`."""
    source_ids: tuple[str, ...] = ()
    """Ids of the original documents behind passages that are not documents themselves, such as summaries."""
    source_titles: tuple[str, ...] = ()
    """Titles of the documents in `source_ids`; empty where they are not known."""
    scores: tuple[float, ...]
    """The back end's scores of the passages; scores of different back ends cannot be compared."""
    triples: tuple[str, ...] = ()
    """Triples of the knowledge graph, as the agent read them."""
    context_tokens: int
    """Number of tokens that the search gave the agent to read."""
    seconds: float
    """Seconds that the search took; 0 when not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCall:
    """A model call outside the conversation, for example one that reads documents for the agent."""

    purpose: str
    prompt: str
    reply: str
    is_cut: bool = False
    """Whether the reply was cut before its end. False in rows of earlier versions, which did not record it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """Number of calls and tokens that one model was asked for."""

    model: str
    calls: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCosts:
    """What an episode cost in turns, searches, model calls, tokens and time."""

    calls: int
    """Calls of the agent's model and of the models that its searches ask. The token counts cover the same calls."""
    prompt_tokens: int
    completion_tokens: int
    context_tokens: int
    """Number of tokens of all that was retrieved and shown."""
    others: tuple[ModelUsage, ...] = ()
    """The part of these costs that other models than the agent's caused, such as those that searches ask. Empty in rows
    of earlier versions."""
    cached_tokens: int | None = None
    """So many of the agent's prompt tokens its server had in its prefix cache; None where it never said any."""
    seconds: float | None
    """Seconds from question to end, waiting for model and tools included; None when not known, because some replies
    came from the ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentScores:
    """Scores of an answer against the gold answers, and of the searches against the supporting documents."""

    exact_match: float
    f1: float
    contain_em: float
    """Whether a gold answer occurs in the answer letter by letter, both normalised. Papers report this measure; it
    favours long answers. For questions with options or with a set of answers it is `exact_match`, since an answer that
    names everything also names the right ones."""
    right: float
    """Score by trailforge's own matcher (`rewards.matching`), which asks whether the answer is the gold one."""
    judge: float | None = None
    """Verdict of a judging model, 0 to 1; None when no judge was asked."""
    supporting_recall: float | None = None
    """Share of the supporting documents that some search returned; None when the data set does not name them."""
    found_at: tuple[int | None, ...] = ()
    """For each supporting document, in the order of the hops, the 0-based search that returned it first; None when no
    search did."""
    answer_in_text: float | None = None
    """1.0 where a text that a search returned states a gold answer, else 0.0; None when not looked for, because what
    was read is not known or because no text states such an answer (yes and no, letters of options)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardPart:
    """One named part of a reward; names are those in the equations of the reward's preset."""

    name: str
    value: float | None
    """Value of this part; None when not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStep:
    """The step of a training in which an episode was made, and the reward that it was paid."""

    step: int
    """The optimizer step that trained the episode first, from 1; 0 when the framework does not say."""
    reward: float | None = None
    """Reward that the episode was paid; None when it was paid none because its search failed, or when the framework
    paid it later."""
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
    """The messages that the model saw in a run of turns in which each prompt begins with the one before: one window to
    train on.

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
    """Measures of a long episode, counted by code from its calls and its words."""

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


MendedKind = Literal["wrong_page", "wrong_candidate", "dead_end"]
"""What an agent did wrong and mended. `wrong_page`: it read a page that the answer does not rest on, and said so, or
never spoke of it again. `wrong_candidate`: it searched on from the name of such a page. `dead_end`: two or more turns
in a row found nothing new, before it took another way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MendedMistake:
    """A mistake of a research agent that it noticed and corrected itself."""

    kind: MendedKind
    call: int
    """Position in the record's calls of the first one that went wrong."""
    mended_in: int
    """Position in the record's messages of the turn that gives it up."""
    page: str = ""
    """Id of the page that was given up; empty for a dead end."""
    title: str = ""
    """Title of that page."""


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
    mended: tuple[MendedMistake, ...] = ()
    """Mistakes that the agent noticed and mended, as far as rules find them, in the order of their calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEpisode:
    """One episode of an agent, one question over one back end: a row of `episodes/` of an evaluation or a training."""

    STORED_AS: ClassVar[str] = "AgentEpisode"
    SCHEMA_VERSION: ClassVar[str] = "1.5"
    EARLIER: ClassVar[Earlier] = {
        **dict.fromkeys(("1.0", "1.1"), rename_back_end),
        **dict.fromkeys(("1.2", "1.3", "1.4"), migration()),
    }

    uid: str
    """Hash of question, agent with its settings, back end with its index, model and seed."""
    question_id: str
    dataset: str
    question: str
    golds: tuple[str, ...]
    """The gold answer, then its aliases."""
    options: tuple[str, ...] = ()
    """Texts of the options of the question; see `Question.options`."""
    correct_options: tuple[str, ...] = ()
    """Letters of the correct options; see `Question.correct_options`."""
    answer_set: tuple[str, ...] = ()
    """All answers that the question asks for; see `Question.answer_set`."""
    agent: str
    protocol: str
    """Name of the protocol that the conversation follows; empty when it follows none of trailforge."""
    backend: str
    index: str
    """Hash of the index that was searched; empty when the question's own paragraphs or the web were searched."""
    model: str
    seed: int
    """Seed of the episode. In a training, which draws without one seed for each episode, it is the episode's number in
    its step."""
    messages: tuple[Message, ...]
    """The conversation: what the model was sent and what it wrote, in order."""
    searches: tuple[AgentSearch, ...]
    calls: tuple[AgentCall, ...] = ()
    """Model calls outside the conversation."""
    answer: str
    """The agent's final answer; empty when it gave none."""
    stop: AgentStop
    error: str = ""
    """Message of the error that ended the episode; empty when none did."""
    costs: AgentCosts
    scores: AgentScores
    failures: tuple[str, ...] = ()
    """Tags of what went wrong, from `evaluation.results.failures`; empty for a right answer that searches bear out."""
    training: TrainingStep | None = None
    """The training step that made the episode; None for episodes of an evaluation."""
    browse: BrowseRecord | None = None
    """The whole episode of an agent with several tools, in its native form; None for agents of one tool."""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class FromMemory:
    """Answers of the same model to a question without any search, which show whether it knew the answer before."""

    question_id: str
    question: str
    golds: tuple[str, ...]
    draws: int
    """How often the model was asked; 0 when it was not asked."""
    answers: tuple[str, ...]
    """The model's answers; replies that were cut are left out."""


def _rename_in_episode(row: Row) -> Row:
    return row | {"episode": rename_back_end(row["episode"])}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTrajectory:
    """A verified episode: one row of `agent_trajectories/`."""

    STORED_AS: ClassVar[str] = "AgentTrajectory"
    SCHEMA_VERSION: ClassVar[str] = "1.7"
    EARLIER: ClassVar[Earlier] = {
        **dict.fromkeys(("1.0", "1.1", "1.2"), _rename_in_episode),
        **dict.fromkeys(("1.3", "1.4", "1.5", "1.6"), migration()),
    }

    uid: str
    """Hash of the episode's uid and of the draw's number."""
    question_id: str
    agent: str
    agent_config: str
    """Hash of the agent's name, its numbers and its words."""
    sft_protocol: str
    """Protocol of the SFT row that is made of this row; empty when the conversation is in no protocol of trailforge."""
    graph: str
    """Hash of the knowledge graph that was searched; empty when none was."""
    sample: int
    """Number of the draw; each draw has its own seed."""
    episode: AgentEpisode
    """The episode as an evaluation records it, but with all `seconds` 0: a row must not depend on a clock."""
    gold_hops: tuple[Hop, ...]
    num_hops: int
    token_estimate: int
    """Number of tokens of the conversation, counted by `schemas.text.count_conversation`."""
    draws: int
    """Number of episodes that were drawn on the question, without those that broke off."""
    right_draws: int
    """Number of drawn episodes whose answer is right and whose last turn does not say that it guesses."""
    memory_draws: int = 0
    """How often the same model was asked the question without any search; 0 when it was not asked."""
    memory_answers: tuple[str, ...] = ()
    """What the model answered without search; replies that were cut are left out."""
    readings: tuple[FactReading, ...] = ()
    """Readings of facts that the answer rests on, where no text that was read names them plainly. Only made for
    episodes that no other filter rejects."""
    open_branches: tuple[OpenBranch, ...] | None = None
    """What a model that read a selected episode found open at its links; None where none was asked."""
    filters: tuple[FilterScore, ...] = ()
    """What each filter measured."""
    sft_calls: bool = False
    """Whether, for a conversation in no protocol, SFT rows are made of the conversation and of each call whose reply
    was used, exactly as they were sent. That needs all of them to be turns of a chat."""
    provenance: Provenance
    schema_version: str = SCHEMA_VERSION

    @property
    def golds(self) -> tuple[str, ...]:
        """Return the gold answer, then its aliases."""
        return self.episode.golds

    @property
    def from_memory(self) -> FromMemory:
        """Return the model's answers to the question without search."""
        return FromMemory(
            question_id=self.question_id,
            question=self.episode.question,
            golds=self.golds,
            draws=self.memory_draws,
            answers=self.memory_answers,
        )
