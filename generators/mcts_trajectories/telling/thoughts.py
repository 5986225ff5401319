"""Have a model write the thoughts of a finished trajectory in one reply, and check them against the steps by code.

The model is shown the steps alone, turn by turn: no gold answer, filter or reward. It returns each part of each thought
as a field of its own, so that the parts' spans are known. Where a reply does not hold, the model is told why and asked
again (`ThoughtsConfig.tries`); where none does, the whole row keeps the sentences from fixed pools. A row that the
model itself speaks against is no row (`doubts`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from trailforge.filters import malformed_conversation, quotes, unfounded_thoughts
from trailforge.generators.mcts_trajectories.telling.doubts import Doubt, doubts_of
from trailforge.generators.mcts_trajectories.telling.form import (
    ThoughtsReply,
    describe,
    fields_of,
    form,
    reply_schema,
    text_of,
)
from trailforge.generators.mcts_trajectories.telling.spans import Sentence, span_problem
from trailforge.generators.mcts_trajectories.telling.story import (
    Story,
    conversation,
    outline,
    stands_in_passages,
)
from trailforge.inference import Asker, Sampling, fill
from trailforge.rewards import states
from trailforge.schemas import MalformedReply, Step, ThoughtSource, Trajectory, check_least, count_conversation

PURPOSE = "thoughts"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtsConfig:
    """Settings of how thoughts are worded, by sentences from fixed pools or by the model, and how the model is
    called.
    """

    source: ThoughtSource = "templates"
    max_tokens: int = 4096
    temperature: float = 0.0
    top_p: float = 1.0
    max_words: int = 150
    """Most words of the agent's own in one turn."""
    tries: int = 1
    """Most replies until one can be used; with the second one the model is told what was wrong with the first."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for no room, or no reply."""
        check_least(self, 1, "max_tokens", "max_words", "tries")


async def write_thoughts(
    row: Trajectory, story: Story, asker: Asker, prompt: str, again: str, config: ThoughtsConfig
) -> tuple[Trajectory, list[Doubt]]:
    """Return the row with the model's thoughts, and the model's objections to the row.

    `again` is appended to the prompt, with the reason, after a reply that could not be used. The row is unchanged where
    no thoughts pass the checks, where there is an objection, or where the model breaks the reply's form twice, which
    says nothing about the row. In any case the calls are recorded in the row.
    """
    sampling = Sampling(temperature=config.temperature, top_p=config.top_p, max_tokens=config.max_tokens)
    text = fill(prompt, question=story.question, turns=describe(story), form=form(story))
    before, asked, doubts, told = set(asker.meter.keys), text, [], None
    for _ in range(config.tries):
        try:
            reply = await asker.json(asked, reply_schema(story), purpose=PURPOSE, sampling=sampling)
        except MalformedReply:
            break
        if doubts := doubts_of(story, reply):
            break
        reworded = with_thoughts(row, story, reply)
        problem = thought_problem(reworded, story, reply, config.max_words)
        if not problem:
            told = reworded
            break
        asked = f"{text}\n\n{fill(again, problem=problem)}"
    keys = tuple(key for key in asker.meter.keys if key not in before)
    provenance = replace(row.provenance, call_keys=(*row.provenance.call_keys, *keys))
    return replace(told or row, provenance=provenance), doubts


def with_thoughts(row: Trajectory, story: Story, reply: ThoughtsReply) -> Trajectory:
    """Return the row worded by a reply that follows the schema, without checking the reply."""
    texts = {(field.turn, field.part): text_of(reply, field) for field in fields_of(story) if field.holds == "thought"}
    thoughts = [
        [Sentence(texts[number, part], part.kind) for part in turn.parts]
        for number, turn in enumerate(outline(story), start=1)
    ]
    messages, spans = conversation(story, thoughts)
    tokens = count_conversation(messages)
    return replace(row, messages=messages, spans=spans, thoughts="model", token_estimate=tokens)


def thought_problem(row: Trajectory, story: Story, reply: ThoughtsReply, max_words: int) -> str:
    """Return in one line why the thoughts in a reply must not be used for a row; empty when they may. `max_words` is
    the largest number of words of the agent's own in one turn.
    """
    for field in fields_of(story):
        if field.holds == "quote" and (problem := quote_problem(story.steps[field.part.step], text_of(reply, field))):
            return f"turn {field.turn}: {problem}"
        if field.holds == "thought" and not text_of(reply, field):
            return f"turn {field.turn}: {field.name} is empty"
    problem = span_problem(row)
    verdicts = [malformed_conversation(row), unfounded_thoughts(row, max_words=max_words)]
    return problem or next((verdict.detail for verdict in verdicts if not verdict.keep), "")


def quote_problem(step: Step, quote: str) -> str:
    """Return in one line what is wrong with a sentence cited for a step, which must occur in a passage of the step, and
    in one with the answer if there is any; empty when nothing is.
    """
    if not quote:
        return "" if not stands_in_passages(step) or step.is_mistake else "no sentence is cited"
    citing = [passage for passage in step.passages if quotes(f"{passage.title}. {passage.text}", quote)]
    if not citing:
        return f"no passage says {quote!r}"
    having = [p for p in step.passages if states(f"{p.title}. {p.text}", step.answer)]
    if having and not any(passage in having for passage in citing):
        return f"the passage that says {quote!r} does not have {step.answer!r}"
    return ""
