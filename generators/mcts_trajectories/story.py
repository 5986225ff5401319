"""Steps to conversations (MSearcher, section 3.1.4 and appendix A): a plan thought, a search per step, a final answer.

The sentences between the steps are drawn from `prompts/connectives.yaml` by a generator seeded with the trajectory's
uid, so a trajectory always reads the same. Tool turns carry `train = False`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trailforge.generators.sft_rows import whole_conversation
from trailforge.inference.prompts import Prompts, Sentences
from trailforge.mcts.plan import references
from trailforge.protocols import REACT
from trailforge.protocols.turns import Observation, Search, Turn
from trailforge.rewards import normalize_answer, same_answer, states
from trailforge.schemas import ErrorType, MalformedReply, Message, SftRow, Step, Trajectory, estimate_tokens

PROMPTS = Prompts("trailforge.generators.mcts_trajectories", "trailforge.generators")


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What a conversation is made of: its steps, and where it turns."""

    question: str
    plan: tuple[str, ...]
    """The plan that leads to the answer."""
    first_plan: tuple[str, ...]
    """The plan it begins with; differs from `plan` only for decomposition errors."""
    steps: tuple[Step, ...]
    error: ErrorType | None
    answer: str


def narrate(story: Story, *, seed: str) -> tuple[Message, ...]:
    """The conversation of a story."""
    return _Narrator(story, seed).narrate()


def user_turn(question: str) -> str:
    """How a conversation asks its question."""
    return REACT.user_turn(question)


def answer_in(ending: Message) -> str:
    """The final answer of the last turn; empty when there is none."""
    return REACT.final_answer(ending.content)


def with_answer(ending: Message, answer: str) -> Message:
    """The last turn with another final answer. Raises `MalformedReply` for a turn that breaks the grammar."""
    return replace(ending, content=REACT.render_turn(Turn(thought=thought_in(ending), answer=answer)))


def thought_in(turn: Message) -> str:
    """Of a turn of the agent. Raises `MalformedReply` for one that breaks the grammar."""
    return REACT.parse_turn(turn.content, strict=True).thought


def mismatch(row: Trajectory) -> str:
    """What a row's conversation says otherwise than its fields, in one line; empty when it says the same.

    Held against each other are the question, each search with what it found, and the final answer, which has to be
    what the last step found. The thoughts are free.
    """
    if row.messages[:2] != REACT.opening(row.question):
        return "it does not begin with the rules and the row's question"
    searched = [step for n, step in enumerate(row.steps) if not _rereads(row.reflection_error, row.steps, n)]
    turns, ending = row.messages[2:-1], row.messages[-1].content
    if len(turns) != 2 * len(searched):
        return f"it has {len(turns) // 2} searches, the row {len(searched)}"
    for number, (asking, found, step) in enumerate(zip(turns[::2], turns[1::2], searched, strict=True), start=1):
        try:
            asked = REACT.parse_turn(asking.content, strict=True).search
        except MalformedReply as error:
            return f"search {number}: {error}"
        if asked is None or asked.query != step.query.strip():
            return f"search {number} asks {asked.query if asked else None!r}, its step {step.query!r}"
        if found.content != REACT.render_result(Observation(passages=step.passages)):
            return f"search {number} found other passages than its step"
    if REACT.final_answer(ending) != row.final_answer.strip():
        return f"it ends with the answer {REACT.final_answer(ending)!r}, the row with {row.final_answer!r}"
    if not (row.steps and same_answer(row.final_answer, row.steps[-1].answer)):
        return f"its last step found {row.steps[-1].answer if row.steps else ''!r}, its answer is {row.final_answer!r}"
    return ""


def sft_row(row: Trajectory) -> SftRow:
    """The whole conversation as one row; the loss is taken on every assistant turn."""
    made = whole_conversation(row, data_source="mcts_trajectories", protocol=REACT.name, reward=row.reward)
    return replace(
        made,
        trajectory_kind=row.kind,
        reflection_error=row.reflection_error,
        num_tool_calls=sum(message.role == "tool" for message in row.messages),
        token_estimate=sum(estimate_tokens(message.content) for message in row.messages),
    )


class _Narrator:
    def __init__(self, story: Story, seed: str) -> None:
        self._story = story
        self._say = Sentences(PROMPTS.pools("connectives"), seed=seed).say

    def narrate(self) -> tuple[Message, ...]:
        steps = self._story.steps
        messages = [*REACT.opening(self._story.question)]
        thought = self._first_thought()
        for position, step in enumerate(steps):
            if not _rereads(self._story.error, steps, position):
                thought = [*thought, *self._ask(position)]
                messages += [
                    _assistant(REACT.render_turn(Turn(thought=" ".join(thought), search=Search(query=step.query)))),
                    Message(role="tool", content=REACT.render_result(Observation(passages=step.passages)), train=False),
                ]
                thought = []
            thought.append(self._accept(step))
            if step.is_mistake:
                thought += self._reflect(steps[position + 1])
        thought.append(self._say("final"))
        messages.append(_assistant(REACT.render_turn(Turn(thought=" ".join(thought), answer=self._story.answer))))
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
