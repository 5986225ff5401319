"""Steps to conversations (MSearcher, section 3.1.4 and appendix A): a plan thought, a search per step, a final answer.

The sentences between the steps are drawn from `prompts/connectives.yaml` by a generator seeded with the trajectory's
uid, so a trajectory always reads the same. Tool turns carry `train = False`.

SFT rows are made here of R-Search and KG-search episodes too, which bring their conversation along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trailforge.generators.kg_trajectories import NAME as KG_TRAJECTORIES
from trailforge.generators.mcts_trajectories import NAME as MCTS_TRAJECTORIES
from trailforge.generators.prompts import CONNECTIVES, Sentences
from trailforge.mcts.plan import references
from trailforge.protocols import kg_search, r_search, react
from trailforge.rewards import normalize_answer, same_answer, score_answer, score_choice, states
from trailforge.schemas import (
    ChatMessage,
    ErrorType,
    KgTrajectory,
    MalformedReply,
    Message,
    Provenance,
    SearchEpisode,
    SftRow,
    Step,
    Trajectory,
    TrajectoryReward,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What a conversation tells: its steps, and where it turns."""

    question: str
    plan: tuple[str, ...]
    """The plan that leads to the answer."""
    first_plan: tuple[str, ...]
    """The plan it begins with; differs from `plan` only for decomposition errors."""
    steps: tuple[Step, ...]
    error: ErrorType | None
    answer: str


def tell(story: Story, *, seed: str) -> tuple[Message, ...]:
    """The conversation of a story."""
    return _Narrator(story, seed).tell()


def user_turn(question: str) -> str:
    """How a conversation asks its question."""
    return question + react.USER_SUFFIX


def answer_in(ending: Message) -> str:
    """The final answer of the last turn; empty when there is none."""
    return react.final_answer(ending.content)


def with_answer(ending: Message, answer: str) -> Message:
    """The last turn with another final answer. Raises `MalformedReply` for a turn that breaks the grammar."""
    return replace(ending, content=react.render_answer(thought_in(ending), answer))


def thought_in(turn: Message) -> str:
    """Of a turn of the agent. Raises `MalformedReply` for one that breaks the grammar."""
    return react.parse_turn(turn.content).thought


def untold(row: Trajectory) -> str:
    """What a row's conversation says otherwise than its fields, in one line; empty when it says the same.

    Held against each other are the question, each search with what it found, and the final answer, which has to be
    what the last step found. The thoughts are free.
    """
    if row.messages[:2] != _opening(row.question):
        return "it does not begin with the rules and the row's question"
    searched = [step for n, step in enumerate(row.steps) if not _rereads(row.reflection_error, row.steps, n)]
    turns, ending = row.messages[2:-1], row.messages[-1].content
    if len(turns) != 2 * len(searched):
        return f"it has {len(turns) // 2} searches, the row {len(searched)}"
    for number, (asking, found, step) in enumerate(zip(turns[::2], turns[1::2], searched, strict=True), start=1):
        try:
            query = react.parse_turn(asking.content).query
        except MalformedReply as error:
            return f"search {number}: {error}"
        if query != step.query.strip():
            return f"search {number} asks {query!r}, its step {step.query!r}"
        if found.content != react.render_passages(step.passages):
            return f"search {number} found other passages than its step"
    if react.final_answer(ending) != row.final_answer.strip():
        return f"it ends with the answer {react.final_answer(ending)!r}, the row with {row.final_answer!r}"
    if not (row.steps and same_answer(row.final_answer, row.steps[-1].answer)):
        return f"its last step found {row.steps[-1].answer if row.steps else ''!r}, its answer is {row.final_answer!r}"
    return ""


def sft_rows(trajectory: Trajectory, *, per_turn: bool) -> list[SftRow]:
    """The whole conversation as one row and, if wanted, one row per assistant turn with its prefix.

    A per-turn row trains its last message alone (section 3.2.1: "split the dialogue into smaller segments").
    """
    turns = [i for i, m in enumerate(trajectory.messages) if m.train]
    rows = [_sft_row(trajectory, trajectory.messages, segment=0, segments=1)]
    if per_turn:
        rows += [
            _sft_row(trajectory, _train_last_only(trajectory.messages[: i + 1]), segment=n, segments=len(turns))
            for n, i in enumerate(turns)
            if len(turns) > 1
        ]
    return rows


def episode_sft_row(episode: SearchEpisode) -> SftRow:
    """The whole conversation as one row; the loss is taken on the two assistant turns.

    `reward.total` is the episode's reward; its other parts hold the final answer against the gold answer.
    """
    if episode.options:
        reward = score_choice(episode.final_answer, episode.correct_options)
    else:
        reward = score_answer(episode.final_answer, (episode.answer, *episode.answer_aliases))
    return _episode_row(episode, "episodes", r_search.NAME, replace(reward, total=episode.reward.total))


def kg_sft_row(row: KgTrajectory) -> SftRow:
    """The whole conversation as one row; the loss is taken on every assistant turn.

    `reward.total` is the episode's reward; its other parts hold the final answer against the gold answers.
    """
    reward = replace(score_answer(row.final_answer, row.golds), total=row.reward.total)
    return _episode_row(row, KG_TRAJECTORIES, kg_search.NAME, reward)


def _episode_row(
    row: SearchEpisode | KgTrajectory, data_source: str, protocol: str, reward: TrajectoryReward
) -> SftRow:
    """What brings its conversation along, as one row."""
    return SftRow(
        uid=row.uid,
        trajectory_uid=row.uid,
        data_source=data_source,
        messages=_as_chat(row.messages),
        train=tuple(m.train for m in row.messages),
        protocol=protocol,
        question_id=row.question_id,
        question=row.question,
        answer=row.answer,
        answer_aliases=row.answer_aliases,
        trajectory_kind="correct",
        reflection_error=None,
        origin=row.origin,
        segment_index=0,
        segment_count=1,
        num_tool_calls=row.num_tool_calls,
        num_hops=row.num_hops,
        token_estimate=row.token_estimate,
        reward=reward,
        provenance=row.provenance,
    )


def _as_chat(messages: Sequence[Message]) -> tuple[ChatMessage, ...]:
    return tuple(ChatMessage(role=m.role, content=m.content) for m in messages)


class _Narrator:
    def __init__(self, story: Story, seed: str) -> None:
        self._story = story
        self._say = Sentences(CONNECTIVES, seed=seed).say

    def tell(self) -> tuple[Message, ...]:
        steps = self._story.steps
        messages = [*_opening(self._story.question)]
        thought = self._first_thought()
        for position, step in enumerate(steps):
            if not _rereads(self._story.error, steps, position):
                thought = [*thought, *self._ask(position)]
                messages += [
                    _assistant(react.render_search(" ".join(thought), step.query)),
                    Message(role="tool", content=react.render_passages(step.passages), train=False),
                ]
                thought = []
            thought.append(self._accept(step))
            if step.is_mistake:
                thought += self._reflect(steps[position + 1])
        thought.append(self._say("final"))
        messages.append(_assistant(react.render_answer(" ".join(thought), self._story.answer)))
        return tuple(messages)

    def _first_thought(self) -> list[str]:
        plan = self._story.first_plan
        if len(plan) == 1:
            return [self._say("open_single")]
        return [self._say("open_plan", plan=_listing(plan))]

    def _ask(self, position: int) -> list[str]:
        """Name the sub-question, resolve what it refers to, and say so if the query is worded otherwise."""
        steps = self._story.steps
        step = steps[position]
        searches_again = position > 0 and steps[position - 1].is_mistake and self._story.error == "retrieval"
        if searches_again or len(self._story.first_plan) == 1 == len(self._story.plan):
            return [self._say("rephrased_query", query=step.query)] if step.query_rephrased or searches_again else []
        said = [self._say("next_subquestion", number=str(step.index + 1), sub_question=step.sub_question)]
        if step.query_rephrased:
            said.append(self._say("rephrased_query", query=step.query))
        elif references(step.sub_question):
            said.append(self._say("resolved_reference", query=step.query))
        return said

    def _accept(self, step: Step) -> str:
        source = next((p for p in step.passages if states(p.text, step.answer)), None)
        if source is None:
            return self._say("accept_answer", answer=_plain(step.answer))
        if normalize_answer(source.title) == normalize_answer(step.answer):
            return self._say("accept_title", answer=_plain(step.answer))
        return self._say("accept_answer_from", answer=_plain(step.answer), title=source.title)

    def _reflect(self, following: Step) -> list[str]:
        error = self._story.error
        said = [self._say(f"reflect_{error}")]
        if error == "decomposition":
            said.append(self._say("replan", plan=_listing(self._story.plan)))
            if following.index > 0:
                said.append(self._say("keep_answers", number=str(following.index + 1)))
        return said


def _opening(question: str) -> tuple[Message, ...]:
    return (
        Message(role="system", content=react.SYSTEM_PROMPT, train=False),
        Message(role="user", content=user_turn(question), train=False),
    )


def _rereads(error: ErrorType | None, steps: Sequence[Step], position: int) -> bool:
    """A mended reasoning error reads the same passages again: there is no new search."""
    return error == "reasoning" and position > 0 and steps[position - 1].is_mistake


def _listing(plan: Sequence[str]) -> str:
    return " ".join(f"{number}. {text}" for number, text in enumerate(plan, start=1))


def _plain(answer: str) -> str:
    """Without a full stop at the end, for the sentence brings its own."""
    return answer.rstrip(".")


def _assistant(content: str) -> Message:
    return Message(role="assistant", content=content, train=True)


def _train_last_only(messages: Sequence[Message]) -> tuple[Message, ...]:
    prefix = (Message(role=m.role, content=m.content, train=False) for m in messages[:-1])
    return (*prefix, messages[-1])


def _sft_row(trajectory: Trajectory, messages: Sequence[Message], *, segment: int, segments: int) -> SftRow:
    suffix = "" if segments == 1 else f"/{segment}"
    provenance: Provenance = trajectory.provenance
    return SftRow(
        uid=f"{trajectory.uid}{suffix}",
        trajectory_uid=trajectory.uid,
        data_source=MCTS_TRAJECTORIES,
        messages=_as_chat(messages),
        train=tuple(m.train for m in messages),
        protocol=react.NAME,
        question_id=trajectory.question_id,
        question=trajectory.question,
        answer=trajectory.answer,
        answer_aliases=trajectory.answer_aliases,
        trajectory_kind=trajectory.kind,
        reflection_error=trajectory.reflection_error,
        origin=trajectory.origin,
        segment_index=segment,
        segment_count=segments,
        num_tool_calls=sum(m.role == "tool" for m in messages),
        num_hops=trajectory.num_hops,
        token_estimate=sum(react.estimate_tokens(m.content) for m in messages),
        reward=trajectory.reward,
        provenance=provenance,
    )
