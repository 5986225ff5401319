"""Records of the results: trajectories, and the rows that trainers read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from trailforge.schemas.provenance import Provenance
from trailforge.schemas.question import Hop
from trailforge.schemas.rollout import Origin, Step
from trailforge.schemas.versions import Earlier, migration

Role = Literal["system", "user", "assistant", "tool"]
TrajectoryKind = Literal["correct", "reflective"]
ErrorType = Literal["retrieval", "reasoning", "decomposition"]
SpanKind = Literal["plan", "claim", "mistake", "mend", "query", "answer"]
"""What a part of a turn does: `plan`, it lists sub-questions; `claim`, it accepts an answer; `mistake`, it accepts one
that is withdrawn later; `mend`, it withdraws it; `query`, it searches; `answer`, it is the final answer."""
ErrorSource = Literal["sampled", "provoked"]
"""How a mistake came about. `sampled`: the model made it, in a rollout that was not steered towards it. `provoked`: its
query was chosen because it loses the passage, or its answer was sampled until it differed."""
ThoughtSource = Literal["model", "templates"]
"""Author of a trajectory's thoughts: the model, checked against the steps by code, or sentences from fixed pools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str
    train: bool
    """Whether the loss is taken on this turn: assistant turns only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool by a model, as OpenAI-compatible servers give and take it."""

    id: str
    """The id that the tool's message answers."""
    name: str
    arguments: str
    """The JSON object of its arguments as text, as the model wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeMessage:
    """One turn of a conversation with native tool calls; without any it is an ordinary turn."""

    role: Role
    content: str
    reasoning: str = ""
    """The thought that the server delivers beside the content, and is sent back as `reasoning_content`."""
    tool_calls: tuple[ToolCall, ...] = ()
    """What the turn calls; only the assistant's turns call tools."""
    tool_call_id: str = ""
    """Which call a tool's turn answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeConversation:
    """A conversation with native tool calls, and the tools that its model was offered."""

    tools: str
    """The tools, a JSON list in OpenAI's form."""
    messages: tuple[NativeMessage, ...]
    """All turns, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSpan:
    """A part of one turn, by character offsets, that has one function such as a claim or a query."""

    message: int
    """Position of the turn in the conversation."""
    kind: SpanKind
    start: int
    """Offset of the first character in the turn's content."""
    end: int
    """Offset behind the last character in the turn's content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPair:
    """The two steps that a reflective trajectory contrasts."""

    wrong_rollout: int
    """Index of the wrong rollout in the tree's rollouts."""
    right_rollout: int
    wrong_step: int
    """0-based position in the wrong rollout's steps of the step that went wrong."""
    right_step: int
    """0-based position in the right rollout's steps where the corrected tail begins."""
    diverges_at: int
    """0-based step at which the two rollouts first differ; for decomposition, at which their plans first differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryReward:
    """Scores of the final answer against the gold answers; `trailforge verify` recomputes them."""

    total: float
    """Whole reward of the protocol: MSearcher's MCTS reward, 1.0 or 0.0; for `r_search` that of R-Search, 0 to 1; for
    `kg_search` that of DynaSearcher (see `KgReward`).

    The other fields score the answer alone, whatever the protocol; for a question with options they compare letters.
    """
    exact_match: float
    f1: float
    cover_exact_match: float


def _with_error_source(row: dict[str, Any]) -> dict[str, Any]:
    """Searches of before varied right rollouts alone in these ways, or plans that had failed: a mistake that rests on
    such a step counts as provoked. Of any other nothing is known."""
    places = [place for place, step in enumerate(row["steps"]) if step.get("is_mistake")]
    before = row["steps"][: places[0] + 1] if places else []
    is_varied = any(step.get("query_rephrased") or step.get("answer_sample") for step in before)
    return row | {"error_source": "provoked" if is_varied else None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """A finished trajectory: one row of `mcts_trajectories/`."""

    STORED_AS: ClassVar[str] = "Trajectory"
    SCHEMA_VERSION: ClassVar[str] = "1.4"
    EARLIER: ClassVar[Earlier] = dict.fromkeys(("1.0", "1.1", "1.2", "1.3"), _with_error_source)

    uid: str
    """Hash of question id, kind and steps: the same trajectory has the same uid in every run."""
    question_id: str
    question: str
    answer: str
    answer_aliases: tuple[str, ...]
    kind: TrajectoryKind
    reflection_error: ErrorType | None
    """Kind of mistake that the trajectory corrects; None for correct trajectories."""
    origin: Origin
    plan: tuple[str, ...]
    """The plan that leads to the answer."""
    wrong_plan: tuple[str, ...] | None
    """The plan that was given up; None except for decomposition errors."""
    steps: tuple[Step, ...]
    messages: tuple[Message, ...]
    final_answer: str
    num_tool_calls: int
    num_hops: int
    token_estimate: int
    """Length by the rule of `schemas.estimate_tokens`; a trainer counts with its own tokenizer."""
    reward: TrajectoryReward
    step_pair: StepPair | None
    """The two steps that the reflection contrasts; None for correct trajectories."""
    wrong_rollout: int | None
    right_rollout: int
    diverges_at: int | None
    provenance: Provenance
    thoughts: ThoughtSource = "templates"
    judge_score: float | None = None
    """The judge's verdict on the final answer, in [0, 1]; None when the matcher alone decided."""
    follows_gold: bool | None = None
    """Whether the accepted answers are those of the gold decomposition, in its order; None when there is none."""
    spans: tuple[TextSpan, ...] = ()
    """Marked parts of the agent's turns, in their order."""
    error_source: ErrorSource | None = None
    """How the mistake came about; None for correct trajectories, and where it is not known."""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """A message in the form that trainers read."""

    role: Role
    content: str


RightBy = Literal["target", "matching", "title", "judge", "key_facts", "partly"]
"""The check by which an answer is right. `target`: the reward of its protocol, which compares it with the gold answer,
its aliases and their other names by rule. What only others find right, that reward does not pay in full: `matching`,
the matcher of the filters; `title`, a passage that was read and calls the gold answer so in its title; `judge`, a
model; `key_facts`, the facts that a bundle's question asks for. `partly`: it has some of the correct options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SftRow:
    """One supervised example: a whole conversation, or one assistant turn with its prefix."""

    STORED_AS: ClassVar[str] = "SftRow"
    SCHEMA_VERSION: ClassVar[str] = "1.5"
    EARLIER: ClassVar[Earlier] = dict.fromkeys(("1.0", "1.1", "1.2", "1.3", "1.4"), migration())

    uid: str
    trajectory_uid: str
    data_source: str
    messages: tuple[ChatMessage, ...]
    train: tuple[bool, ...]
    """Parallel to `messages`: True where the loss is taken."""
    protocol: str
    """Protocol of the conversation; empty when it is none of trailforge, but the turns as another agent was sent
    them."""
    question_id: str
    question: str
    answer: str
    answer_aliases: tuple[str, ...]
    trajectory_kind: TrajectoryKind
    reflection_error: ErrorType | None
    origin: Origin
    segment_index: int
    """Index, from 0, of the assistant turn that this row trains; 0 for a whole conversation."""
    segment_count: int
    """Number of assistant turns of the conversation; 1 for a whole conversation."""
    num_tool_calls: int
    num_hops: int
    token_estimate: int
    reward: TrajectoryReward
    provenance: Provenance
    spans: tuple[TextSpan, ...] = ()
    """Marked parts of turns, as in `Trajectory.spans`; empty where the data set marks none."""
    error_source: ErrorSource | None = None
    """How the mistake came about, as in `Trajectory.error_source`; None where the data set does not say."""
    right_by: RightBy | None = None
    """The check by which the final answer is right; None in rows of earlier versions, and where it is wrong."""
    is_wrong: bool = False
    """Its final answer is wrong: the row is there for its searches, and its last turn has no loss."""
    native: NativeConversation | None = None
    """The same conversation with native tool calls, turn by turn as in `messages`; None where it has none."""
    schema_version: str = SCHEMA_VERSION


TruthStyle = Literal["rule"]
AnswerKind = Literal["text", "options"]
"""Form of the answer. `text`: words, compared with the targets. `options`: letters, compared with the correct ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundTruth:
    """What rewards need to know of a question."""

    target: tuple[str, ...]
    """The gold answer, its aliases, then their other names and spellings by rule. (Search-R1's name for it.)"""
    answer_kind: AnswerKind
    options: tuple[str, ...]
    """Texts of the options A, B, …; empty for `text`."""
    correct_options: tuple[str, ...]
    """Letters of the correct options; empty for `text`."""
    num_hops: int | None
    """Number of facts to be looked up, which can be fewer than `hops`; None when it is not known."""
    hops: tuple[Hop, ...]
    support_titles: tuple[str, ...]
    """Titles of the documents that the answer rests on; empty when they are not known."""
    dag_text: str
    """The gold search plan; empty where there is none."""
    allowed_tools: tuple[str, ...]
    """Tools that a search plan may use; empty where there are no plans."""
    reward_preset: str
    """Name of the preset of `rewards` that gives the reward of an episode."""
    protocol: str
    """Protocol in which the agent answers."""
    support_texts: tuple[str, ...] = ()
    """Texts of the documents in `support_titles`, in the same order; an empty text where one is not known, and no texts
    when none is."""
    num_golds: int = 0
    """Number of leading entries of `target` that are the gold answer, its aliases, and a graph's names of it; 0: all of
    them."""
    num_given: int = 0
    """Number of leading entries of `target` that the source itself gives, without a graph's names; 0: all
    `num_golds`."""

    @property
    def golds(self) -> tuple[str, ...]:
        """Return the gold answer and its aliases, with a graph's names, for comparison by the matcher in filters."""
        return self.target[: self.num_golds or None]

    @property
    def given(self) -> tuple[str, ...]:
        """Return the gold answer and its aliases as the source gives them, for comparison in evaluations."""
        return self.target[: self.num_given or self.num_golds or None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModel:
    """The column in which verl and slime pass the ground truth to a reward function."""

    style: TruthStyle
    ground_truth: GroundTruth


@dataclass(frozen=True, slots=True, kw_only=True)
class RlRow:
    """One question for reinforcement learning: one row of the table `rl`."""

    STORED_AS: ClassVar[str] = "RlRow"
    SCHEMA_VERSION: ClassVar[str] = "1.4"
    EARLIER: ClassVar[Earlier] = dict.fromkeys(("1.0", "1.1", "1.2", "1.3"), migration())

    uid: str
    data_source: str
    """Name of the data set whose run the question comes from, or of the file."""
    prompt: tuple[ChatMessage, ...]
    """System prompt and question, as the protocol begins."""
    ability: str
    question_id: str
    question: str
    reward_model: RewardModel
    corpus_id: str
    """Id of the corpus that is searched: the run id of the run whose documents or paragraphs hold the evidence; empty
    for a question that comes from a file."""
    curriculum_stage: int
    """Stage in the curriculum, 1 for the easiest; 1 where the data set has no curriculum."""
    difficulty: float
    """Difficulty, which orders questions within a stage."""
    provenance_id: str
    """Id of the source in the run that made the row."""
    known_share: float | None = None
    """Share of the answers from memory that are right, corrected for chance; None where no model was asked."""
    gold_stated: bool | None = None
    """Whether a text that came with the question, or that an episode on it read, states a gold answer. None where there
    is no such text, and where no text has to say the answer (yes, no, options, explanations)."""
    pass_rate: float | None = None
    """Share of a measured agent's attempts that are right; None when it was not measured, as in the three fields that
    follow."""
    attempts: int | None = None
    calls_needed: float | None = None
    """Mean number of searches in a right attempt; None where it was not measured or no attempt was right."""
    pages_needed: float | None = None
    """Mean number of different documents shown in a right attempt; None where it was not measured or no attempt was
    right."""
    measured_by: str = ""
    """The measured agent with its back end and model; empty when none was measured."""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceRow:
    """Two continuations of one conversation, of which one is better: one row of the table `pairs` of training sets."""

    STORED_AS: ClassVar[str] = "PreferenceRow"
    SCHEMA_VERSION: ClassVar[str] = "1.1"
    EARLIER: ClassVar[Earlier] = {"1.0": migration()}

    uid: str
    data_source: str
    """Name of the data set whose run the pair comes from."""
    protocol: str
    question_id: str
    question: str
    prompt: tuple[ChatMessage, ...]
    """Messages that both continuations begin with, the agent's earlier turns included."""
    chosen: tuple[ChatMessage, ...]
    """The better continuation, from an assistant turn on."""
    rejected: tuple[ChatMessage, ...]
    """The worse continuation, from an assistant turn on."""
    reason: str
    """Reason why the worse continuation was rejected."""
    parts_at_fault: bool | None = None
    """Whether the first turn of `rejected` is itself the worse one. Otherwise only the whole continuations differ in
    quality, and a trainer that compares first turns alone must not learn from the pair. None when not known."""
    schema_version: str = SCHEMA_VERSION

    @property
    def shows_fault(self) -> bool:
        """Tell whether the first turns of both continuations show which is better; True also where the worse
        continuation is only one turn.
        """
        return len(self.rejected) == 1 or self.parts_at_fault is True
