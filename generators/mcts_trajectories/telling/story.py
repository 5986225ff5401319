"""Turn search steps into conversations (MSearcher, section 3.1.4 and appendix A): a plan, a search per step, a final
answer.

`outline` says what each turn must say. It is worded here in sentences from `prompts/connectives.yaml`, drawn by a
generator seeded with the trajectory's uid, so that a trajectory always reads the same, or else by the model
(`thoughts`). Tool turns have `train = False`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trailforge.filters import shown_at
from trailforge.generators.mcts_trajectories.telling.spans import Sentence, write_turn
from trailforge.generators.sft_rows import whole_conversation
from trailforge.inference import Prompts, Sentences
from trailforge.mcts import asked_for, references
from trailforge.protocols import REACT, Observation, Turn, find_right_by, make_truth
from trailforge.rewards import mentions, normalize_answer, same_answer, states
from trailforge.schemas import (
    ErrorType,
    MalformedReply,
    Message,
    Passage,
    SftRow,
    SpanKind,
    Step,
    TextSpan,
    Trajectory,
    count_conversation,
)

PROMPTS = Prompts("trailforge.generators.mcts_trajectories", "trailforge.generators")
ReasoningRows = Literal["search", "reread"]
"""How a wrong reading is mended, and what was shown before is found. `search`: by a search, as in the paper, whose
tail repeats query and passages of the mended step (section 3.1.4). `reread`: the same passages are read again."""
PartName = Literal["plan", "next", "claim", "reflection", "new_plan", "end"]
_NAME = re.compile(r"[A-Z0-9][\w'’-]*(?: +[A-Z0-9][\w'’-]*)*")
_NO_NAMES = frozenset(
    "who whom whose what when where which why how in on at of for from to by is was were are did does do has had have "
    "the a an and tv name list find give tell if".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The content of a conversation before it is worded: its steps, and where a mistake is taken back."""

    question: str
    plan: tuple[str, ...]
    """The plan that leads to the answer."""
    first_plan: tuple[str, ...]
    """The plan that the conversation begins with; it differs from `plan` only for decomposition errors."""
    steps: tuple[Step, ...]
    error: ErrorType | None
    answer: str
    reasoning_rows: ReasoningRows = "search"

    def rereads(self, position: int) -> bool:
        """Tell whether the step at a position (from 0) only reads passages again that an earlier step found, without a
        search. A step that mends a misreading reads the passages that were misread.
        """
        if self.reasoning_rows == "search" or not position:
            return False
        (*before, last), step = self.steps[:position], self.steps[position]
        if last.is_mistake:
            return self.error == "reasoning" and last.passages == step.passages
        return not step.is_mistake and any(step.passages == each.passages for each in (*before, last))

    def searches(self) -> list[int]:
        """Return the positions of the steps that search."""
        return [position for position in range(len(self.steps)) if not self.rereads(position)]


@dataclass(frozen=True, slots=True)
class ThoughtPart:
    """Something that the thought of a turn must say, such as what was found or what is asked next."""

    name: PartName
    kind: SpanKind | None
    step: int
    """Position of the step that the part is about."""


@dataclass(frozen=True, slots=True)
class TurnOutline:
    """A turn of the agent that is still to be worded: what its thought must say, and what it does."""

    parts: tuple[ThoughtPart, ...]
    search: int | None
    """Position of the step that the turn searches for; None for the turn that answers."""


def read_on(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps. Where one searches for what an earlier step's passages already showed, it gets those passages
    in place of its own: the answer stood there, and a row should not teach to look it up again.
    """
    read = list(steps)
    for place, step in enumerate(steps):
        if (shown := shown_at(steps, place)) is not None:
            read[place] = replace(step, passages=read[shown].passages)
    return tuple(read)


def outline(story: Story) -> list[TurnOutline]:
    """Return for each turn what its thought must say."""
    turns: list[TurnOutline] = []
    parts = [ThoughtPart("plan", "plan" if len(story.first_plan) > 1 else None, 0)]
    for position, step in enumerate(story.steps):
        if not story.rereads(position):
            turns.append(TurnOutline((*parts, ThoughtPart("next", None, position)), position))
            parts = []
        # That a search found nothing is no mistake to think.
        parts.append(ThoughtPart("claim", "mistake" if step.is_mistake and step.answer else "claim", position))
        if step.is_mistake:
            parts.append(ThoughtPart("reflection", "mend", position))
            if story.error == "decomposition":
                parts.append(ThoughtPart("new_plan", "plan", position))
    return [*turns, TurnOutline((*parts, ThoughtPart("end", None, len(story.steps) - 1)), None)]


def conversation(
    story: Story, thoughts: Sequence[Sequence[Sentence]]
) -> tuple[tuple[Message, ...], tuple[TextSpan, ...]]:
    """Return the conversation of a story, and its spans. `thoughts` has the sentences of each turn of its outline."""
    messages = [*REACT.opening(story.question)]
    spans: list[TextSpan] = []
    for turn, sentences in zip(outline(story), thoughts, strict=True):
        step = None if turn.search is None else story.steps[turn.search]
        query = None if step is None else step.query.strip()
        message, marked = write_turn(len(messages), sentences, query=query, answer=story.answer.strip())
        messages.append(message)
        spans += marked
        if step is not None:
            found = REACT.render_result(Observation(passages=step.passages))
            messages.append(Message(role="tool", content=found, train=False))
    return tuple(messages), tuple(spans)


def narrate(story: Story, *, seed: str) -> tuple[tuple[Message, ...], tuple[TextSpan, ...]]:
    """Word a story in sentences from fixed pools; returns its conversation and its spans."""
    narrator = _Narrator(story, seed)
    return conversation(
        story, [[sentence for part in turn.parts for sentence in narrator.render(part)] for turn in outline(story)]
    )


def story_of(row: Trajectory, reasoning_rows: ReasoningRows) -> Story:
    """Return the content of a row's conversation, from its steps. `reasoning_rows` says whether a corrected misreading
    searches again or reads the same passages again.
    """
    return Story(
        question=row.question,
        plan=row.plan,
        first_plan=row.wrong_plan or row.plan,
        steps=row.steps,
        error=row.reflection_error,
        answer=row.final_answer,
        reasoning_rows=reasoning_rows,
    )


def with_answer(ending: Message, answer: str) -> Message:
    """Return the last turn with another final answer. Raises `MalformedReply` for a turn that breaks the grammar."""
    return replace(ending, content=REACT.render_turn(Turn(thought=thought_in(ending), answer=answer)))


def thought_in(turn: Message) -> str:
    """Return the thought of an agent's turn. Raises `MalformedReply` for a turn that breaks the grammar."""
    return REACT.parse_turn(turn.content, strict=True).thought


def mismatch(row: Trajectory) -> str:
    """Return where a row's conversation differs from its fields, in one line; empty when it does not.

    Compared are the question, each search with its results, and the final answer, which must be what the last step
    found. The thoughts are free.
    """
    if row.messages[:2] != REACT.opening(row.question):
        return "it does not begin with the rules and the row's question"
    searched = [row.steps[position] for position in story_in_conversation(row).searches()]
    turns, ending = row.messages[2:-1], row.messages[-1].content
    if len(turns) != 2 * len(searched):
        return f"it has {len(turns) // 2} searches, the row {len(searched)}"
    told = sum(span.kind in ("claim", "mistake") for span in row.spans)
    if row.spans and told != len(row.steps):
        return f"it tells what {told} steps read in its searches, the row has {len(row.steps)}"
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


def rereads(row: Trajectory) -> bool:
    """Tell whether a step of the row reads what was shown before, without a search."""
    return sum(message.role == "tool" for message in row.messages) < len(row.steps)


def story_in_conversation(row: Trajectory) -> Story:
    """Return the content of the row's conversation as its turns actually show it."""
    return story_of(row, "reread" if rereads(row) else "search")


def sft_row(row: Trajectory) -> SftRow:
    """Return the whole conversation as one row with the loss on every assistant turn."""
    truth = make_truth((row.answer, *row.answer_aliases), protocol=REACT.name)
    right_by = find_right_by(row.final_answer, truth)
    made = whole_conversation(
        row, data_source="mcts_trajectories", protocol=REACT.name, reward=row.reward, right_by=right_by
    )
    return replace(
        made,
        trajectory_kind=row.kind,
        reflection_error=row.reflection_error,
        error_source=row.error_source,
        num_tool_calls=sum(message.role == "tool" for message in row.messages),
        token_estimate=count_conversation(row.messages),
        spans=row.spans,
    )


class _Narrator:
    """Words the parts of a story in the order of its outline."""

    def __init__(self, story: Story, seed: str) -> None:
        self._story = story
        self._draw = Sentences(PROMPTS.pools("connectives"), seed=seed).draw

    def render(self, part: ThoughtPart) -> Iterator[Sentence]:
        if part.name == "plan":
            plan = self._story.first_plan
            text = self._draw("open_single") if len(plan) == 1 else self._draw("open_plan", plan=list_plan(plan))
            yield Sentence(text, part.kind)
        elif part.name == "next":
            yield from map(Sentence, self._ask(part.step))
        elif part.name == "claim":
            yield Sentence(self._claim(self._story.steps[part.step]), part.kind)
        elif part.name == "reflection":
            yield Sentence(self._reflect(self._story.steps[part.step]), part.kind)
        elif part.name == "new_plan":
            yield Sentence(self._draw("replan", plan=list_plan(self._story.plan)), part.kind)
            following = self._story.steps[part.step + 1].index
            if following > 0:
                yield Sentence(self._draw("keep_answers", number=str(following + 1)))
        else:
            yield Sentence(self._draw("final"))

    def _ask(self, position: int) -> list[str]:
        """Name the sub-question, resolve what it refers to, and say so if the query is worded otherwise."""
        steps = self._story.steps
        step = steps[position]
        if position > 0 and steps[position - 1].is_mistake and self._story.error != "decomposition":
            is_same = step.query == steps[position - 1].query
            return [self._draw("search_again" if is_same else "rephrased_query", query=step.query)]
        if len(self._story.first_plan) == 1 == len(self._story.plan):
            return [self._draw("rephrased_query", query=step.query)] if step.query_rephrased else []
        sentences = [self._draw("next_subquestion", number=str(step.index + 1), sub_question=step.sub_question)]
        if step.query_rephrased:
            sentences.append(self._draw("rephrased_query", query=step.query))
        elif references(step.sub_question):
            sentences.append(self._draw("resolved_reference", query=step.query))
        return sentences

    def _claim(self, step: Step) -> str:
        if not step.answer:
            return self._draw("claim_nothing")
        answer = step.answer.rstrip(".")  # the sentence brings its own full stop
        if step.is_mistake and not stands_in_passages(step):
            return self._draw("claim_from_memory", answer=answer)
        source = cited_passage(step)
        if source is None:
            return self._draw("accept_answer", answer=answer)
        if normalize_answer(source.title) == normalize_answer(step.answer):
            return self._draw("accept_title", answer=answer)
        return self._draw("accept_answer_from", answer=answer, title=source.title)

    def _reflect(self, step: Step) -> str:
        error = self._story.error
        if not step.answer:
            return self._draw("reflect_nothing")
        if error == "decomposition" or stands_in_passages(step):
            return self._draw(f"reflect_{error}")
        return self._draw(f"reflect_memory_{error}")


def stands_in_passages(step: Step) -> bool:
    """Tell whether the answer occurs in a passage; yes and no need not."""
    is_verdict = normalize_answer(step.answer) in ("yes", "no")
    return not step.from_memory and (
        is_verdict or any(states(f"{p.title}. {p.text}", step.answer) for p in step.passages)
    )


def cited_passage(step: Step) -> Passage | None:
    """Return the first passage that has the answer and names most of what the query names; None when no passage names
    anything of it.
    """
    having = [passage for passage in step.passages if states(passage.text, step.answer)]
    best = max(having, key=lambda passage: _shared_names(step.query, passage), default=None)
    return best if best is not None and _shared_names(step.query, best) else None


def _shared_names(query: str, passage: Passage) -> int:
    """How many of a query's names and numbers, or of its words where it has none, a passage names.

    A name of several words is there when half of them are: "Lang" for "Fritz Lang".
    """
    text = f"{passage.title}. {passage.text}"
    names = [[word for word in name.split() if word.lower() not in _NO_NAMES] for name in _NAME.findall(query)]
    names = [words for words in names if words] or [[word] for word in sorted(asked_for(query))]
    return sum(2 * sum(mentions(text, word) for word in words) >= len(words) for words in names)


def list_plan(plan: Sequence[str]) -> str:
    """Return a plan on one line, with its sub-questions numbered."""
    return " ".join(f"{number}. {text}" for number, text in enumerate(plan, start=1))
