"""Ask a model in one call what passages say of one fact: a fact of the graph, or one that an answer rests on.

All callers use the same prompt (`prompts/read_fact.txt`) and get the same "not stated".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from statistics import fmean
from typing import Literal, Protocol, TypeVar

from trailforge.filters import SoughtFact, answering_facts
from trailforge.inference import Asker, Meter, Sampling, fill
from trailforge.rewards import is_abstention, read_short_answer
from trailforge.schemas import FactReading, MalformedReply, Question

PROMPT = "read_fact"
"""The name of the prompt, in `generators/prompts`."""
PURPOSE = "read_answer"
"""The purpose under which calls that read for answers are counted."""
AnswerCheck = Literal["off", "reading"]
"""Whether what the answer of a selected episode rests on is read once more. `reading`: by the model, where no sentence
and no triple states it plainly."""


class ReadRow(Protocol):
    """A row whose answer a model can be asked to find again in what its agent read."""

    @property
    def uid(self) -> str:
        """Return the row's identifier, which no other row has."""
        ...


R = TypeVar("R", bound=ReadRow)
C = TypeVar("C")


def most_facts(questions: Sequence[Question]) -> float:
    """Return the mean, over these questions, of the largest number of facts that a model may be asked to read again for
    an answer.
    """
    return fmean(len(answering_facts(each.question, each.golds, each.decomposition)) for each in questions)


def limit_of(check: AnswerCheck) -> str:
    """Return the sentence for a dataset card that says how thoroughly it was checked that answers are stated in what
    was read.
    """
    by_words = "- That an answer stands in what was read is judged by words"
    if check == "off":
        return f"{by_words}; that it follows from it is not judged."
    return (
        f"{by_words}. Where no triple and no sentence that is nothing but the statement gives it, a model read once "
        "more what the answer rests on, and had to find it (`readings`)."
    )


async def read_passages(
    prompt: str,
    question: str,
    lines: Sequence[str],
    asker: Asker,
    *,
    purpose: str,
    sampling: Sampling,
    most_words: int,
    sample: int = 0,
    grammar: str | None = None,
) -> str:
    """Ask a model for a short answer to a question from these lines of passages; empty when it finds none, or when its
    reply was cut.

    `prompt` is the text of the prompt, `purpose` the heading under which the call is counted, `most_words` the largest
    number of words of an answer, `sample` the number of the draw; `grammar` restricts what a reply may be, None does
    not.
    """
    text = fill(prompt, question=question, context="\n".join(lines))
    reply = await asker.text(text, purpose=purpose, sampling=sampling, sample=sample, grammar=grammar)
    return read_short_answer(reply.answer or "", most_words)


async def read_facts(facts: Sequence[SoughtFact], read: Callable[[str], Awaitable[str]]) -> tuple[FactReading, ...]:
    """Ask `read` the question of each fact, all at once, and return its answers.

    An answer that is empty or cut is no verdict on the episode: it raises `MalformedReply`, as `read` raises what the
    model's client does, and the question is counted as failed.
    """

    async def one(fact: SoughtFact) -> FactReading:
        answer = await read(fact.question)
        if not answer.strip():
            raise MalformedReply(f"the model's answer to {fact.question!r} is empty or cut short")
        return FactReading(question=fact.question, answer="" if is_abstention(answer) else answer)

    return tuple(await asyncio.gather(*map(one, facts)))


async def choose_read(
    rows: Sequence[R],
    chosen: C,
    choose: Callable[[Sequence[R]], C],
    unread: Callable[[C], Sequence[R]],
    read: Callable[[R, Meter], Awaitable[R]],
) -> tuple[C, Meter]:
    """Let a model read again each row that `unread` names for the choice `chosen`, and choose once more among all rows;
    returns the last choice and the calls.

    `choose` chooses among rows, and `read` returns a row with what was read of it, counting its calls. Where a row
    proves not to state its answer, the next best takes its place and is read in turn.
    """
    rows, meter = list(rows), Meter()
    while waiting := unread(chosen):
        meters = [Meter() for _ in waiting]
        done = {row.uid: row for row in await asyncio.gather(*map(read, waiting, meters))}
        rows, meter = [done.get(row.uid, row) for row in rows], sum(meters, meter)
        chosen = choose(rows)
    return chosen, meter
