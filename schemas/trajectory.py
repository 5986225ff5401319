"""What comes out: trajectories, and the rows a trainer reads."""

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
that is taken back later; `mend`, it takes it back; `query`, it searches; `answer`, it is the final answer."""
ErrorSource = Literal["sampled", "provoked"]
"""How a mistake came about. `sampled`: the model made it, in a rollout that was made to find nothing in particular.
`provoked`: its query was searched because it loses the passage, or its answer was drawn until it differed."""
ThoughtSource = Literal["model", "templates"]
"""Who wrote the thoughts of a trajectory: the model, held against the steps by code, or sentences from fixed pools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str
    train: bool
    """True when the loss is taken on this turn: assistant turns only."""


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
    """A part of one turn that does one thing."""

    message: int
    """Position of the turn in the conversation."""
    kind: SpanKind
    start: int
    """Offset in its content, in characters."""
    end: int
    """Offset behind the last character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPair:
    """The two steps that a reflective trajectory contrasts."""

    wrong_rollout: int
    """Index into the tree's rollouts."""
    right_rollout: int
    wrong_step: int
    """0-based position in the wrong rollout's steps: the step that went wrong."""
    right_step: int
    """0-based position in the right rollout's steps: where the mended tail begins."""
    diverges_at: int
    """0-based step at which the two rollouts first differ; for decomposition, at which their plans do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryReward:
    """The final answer against the gold answers; recomputed by `trailforge verify`."""

    total: float
    """MCTS reward of MSearcher, 1.0 or 0.0; in rows of the protocol `r_search` the whole reward of R-Search, 0 to 1,
    in those of `kg_search` DynaSearcher's (see `KgReward`).

    The other parts are the answer's alone, whatever the protocol; to a question with options they compare letters.
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
    """None for correct trajectories."""
    origin: Origin
    plan: tuple[str, ...]
    """The plan that leads to the answer."""
    wrong_plan: tuple[str, ...] | None
    """The plan that was given up; None but for decomposition errors."""
    steps: tuple[Step, ...]
    messages: tuple[Message, ...]
    final_answer: str
    num_tool_calls: int
    num_hops: int
    token_estimate: int
    """Length by the rule of `schemas.estimate_tokens`; a trainer counts with its own tokenizer."""
    reward: TrajectoryReward
    step_pair: StepPair | None
    """None for correct trajectories."""
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
    """Of the agent's turns, in their order."""
    error_source: ErrorSource | None = None
    """None for correct trajectories, and where it is not known."""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """A message in the shape that trainers read."""

    role: Role
    content: str


RightBy = Literal["target", "matching", "title", "judge", "key_facts", "partly"]
"""What finds an answer right. `target`: the reward of its protocol, which compares it with the gold answer, its aliases
and their other names by rule. What only others find right, that reward does not pay in full: `matching`, the matcher of
the filters; `title`, a passage that was read and calls the gold answer so in its title; `judge`, a model; `key_facts`,
the facts that a bundle's question asks for. `partly`: it has some of the correct options."""


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
    """Empty: none of ours, but turns as an agent with other words was sent them."""
    question_id: str
    question: str
    answer: str
    answer_aliases: tuple[str, ...]
    trajectory_kind: TrajectoryKind
    reflection_error: ErrorType | None
    origin: Origin
    segment_index: int
    """0 for a whole conversation; otherwise which assistant turn this row trains, from 0."""
    segment_count: int
    """1 for a whole conversation; otherwise the number of assistant turns."""
    num_tool_calls: int
    num_hops: int
    token_estimate: int
    reward: TrajectoryReward
    provenance: Provenance
    spans: tuple[TextSpan, ...] = ()
    """As in the trajectory; empty where the data set marks none."""
    error_source: ErrorSource | None = None
    """As in the trajectory; None where the data set does not say."""
    right_by: RightBy | None = None
    """What finds its final answer right; None in rows of earlier versions, and where it is wrong."""
    is_wrong: bool = False
    """Its final answer is wrong: the row is there for its searches, and its last turn has no loss."""
    native: NativeConversation | None = None
    """The same conversation with native tool calls, turn by turn as in `messages`; None where it has none."""
    schema_version: str = SCHEMA_VERSION


TruthStyle = Literal["rule"]
AnswerKind = Literal["text", "options"]
"""`text`: words, compared with the targets. `options`: letters, compared with the correct ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundTruth:
    """What rewards need to know of a question."""

    target: tuple[str, ...]
    """The gold answer, its aliases, then their other names and spellings by rule. (Search-R1's name for it.)"""
    answer_kind: AnswerKind
    options: tuple[str, ...]
    """Texts of the options A, B, …; empty for `text`."""
    correct_options: tuple[str, ...]
    """Their letters; empty for `text`."""
    num_hops: int | None
    """How many facts have to be looked up, which `hops` may have more of; None when it is not known."""
    hops: tuple[Hop, ...]
    support_titles: tuple[str, ...]
    """Of the documents that the answer rests on; empty when they are not known."""
    dag_text: str
    """The gold search plan; empty where there is none."""
    allowed_tools: tuple[str, ...]
    """Of search plans; empty where there are none."""
    reward_preset: str
    """Name of the preset of `rewards` that an episode is paid by."""
    protocol: str
    """In which the agent talks."""
    support_texts: tuple[str, ...] = ()
    """Of the same documents as `support_titles`, empty ones where they are not known; empty when none is."""
    num_golds: int = 0
    """So many of `target` are the gold answer, its aliases, and what a graph calls it; 0: all of it."""
    num_given: int = 0
    """So many of these the source itself gives, without a graph's names; 0: all of them."""

    @property
    def golds(self) -> tuple[str, ...]:
        """The gold answer, then its aliases, a graph's names among them: what filters ask the matcher about."""
        return self.target[: self.num_golds or None]

    @property
    def given(self) -> tuple[str, ...]:
        """The gold answer, then its aliases, as the source gives them: what evaluations compare with."""
        return self.target[: self.num_given or self.num_golds or None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModel:
    """The column by which verl and slime hand the ground truth to a reward function."""

    style: TruthStyle
    ground_truth: GroundTruth


@dataclass(frozen=True, slots=True, kw_only=True)
class RlRow:
    """One question to learn on. The table `rl`."""

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
    """What is searched: the run id of the run whose documents or paragraphs hold the evidence; empty for a question
    that comes from a file."""
    curriculum_stage: int
    """1 for the easiest; 1 where the data set has no curriculum."""
    difficulty: float
    """Orders questions within a stage."""
    provenance_id: str
    """Id of the source in the run that made the row."""
    known_share: float | None = None
    """Share of the answers from memory that are right, corrected for chance; None where nobody was asked."""
    gold_stated: bool | None = None
    """Does a text that came with the question, or that an episode on it read, state a gold answer? None where there is
    no such text, and where no text has to say the answer (yes, no, options, explanations)."""
    pass_rate: float | None = None
    """Share of a measured agent's attempts that are right; None: it was not measured. So are the next."""
    attempts: int | None = None
    calls_needed: float | None = None
    """Searches of a right attempt, on average; None where none was right, too."""
    pages_needed: float | None = None
    """Different documents that a right attempt was shown, on average; None where none was right, too."""
    measured_by: str = ""
    """That agent with its back end and model; empty: none."""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceRow:
    """Two ways on from one place of a conversation, of which one is better. The table `pairs` of training sets."""

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
    """What both begin with, the agent's earlier turns included."""
    chosen: tuple[ChatMessage, ...]
    """The better end, from an assistant turn on."""
    rejected: tuple[ChatMessage, ...]
    """The worse one, from an assistant turn on."""
    reason: str
    """What is against it."""
    parts_at_fault: bool | None = None
    """Is the first turn of `rejected` itself the worse one? Else only the whole ends tell, and a trainer that takes the
    first turns alone must not learn them. None: not known."""
    schema_version: str = SCHEMA_VERSION

    @property
    def shows_fault(self) -> bool:
        """Do the first turns of both ends tell which is better? They do where the worse end is no more than that."""
        return len(self.rejected) == 1 or self.parts_at_fault is True
