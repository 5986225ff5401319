"""Episodes of agents: small ones by hand, and those of scripted agents of known strength over the world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.support.world import answer_of, ask, chain_of, misread, name_of
from trailforge.evaluation.agents import AgentRun
from trailforge.evaluation.results.failures import tag_failures
from trailforge.evaluation.results.metrics import EpisodeSetting, make_episode
from trailforge.retrieval.backends.bm25 import Bm25Retriever
from trailforge.schemas import Message, Passage, Question
from trailforge.schemas.agent_episode import AgentCosts, AgentEpisode, AgentScores, AgentSearch, AgentStop

COSTS = AgentCosts(calls=2, prompt_tokens=100, completion_tokens=20, context_tokens=30, seconds=1.5)


def setting(**changes: Any) -> EpisodeSetting:
    """A setting."""
    usual = {"agent": "scripted", "agent_config": "c", "backend": "bm25", "model": "none", "seed": 0}
    return EpisodeSetting(**(usual | changes))


def search(*passages: Passage, query: str = "?") -> AgentSearch:
    """A search that brought these."""
    return AgentSearch(
        query=query,
        document_ids=tuple(each.id for each in passages),
        titles=tuple(each.title for each in passages),
        scores=tuple(each.score for each in passages),
        context_tokens=sum(len(each.text.split()) for each in passages),
        seconds=0.25,
    )


def run_of(
    searches: Sequence[Sequence[Passage]], answer: str = "", *, stop: AgentStop = "answered", asked: str = "?"
) -> AgentRun:
    """A run whose searches brought these passages, each shown in a turn of its own."""
    messages = [Message(role="user", content=f"Question: {asked}", train=False)]
    for passages in searches:
        shown = "\n".join(f"({each.title}) {each.text}" for each in passages)
        messages += [Message(role="assistant", content="I search.", train=True)]
        messages += [Message(role="user", content=shown, train=False)]
    messages += [Message(role="assistant", content=f"I say {answer}.", train=True)]
    found = tuple(search(*passages) for passages in searches)
    return AgentRun(answer=answer, stop=stop, messages=tuple(messages), searches=found)


def episode(
    question: str = "q",
    *,
    seed: int = 0,
    found_at: tuple[int | None, ...] = (0,),
    searches: int = 1,
    answer: str = "Paris",
    golds: tuple[str, ...] = ("Paris",),
    stop: AgentStop = "answered",
    read: str = "",
    scores: dict[str, Any] | None = None,
    **changes: Any,
) -> AgentEpisode:
    """An episode by hand. Unless `scores` says otherwise it is right when its answer is the first gold."""
    right = float(answer == golds[0])
    known = {"exact_match": right, "f1": right, "contain_em": right, "right": right, "found_at": found_at}
    passage = Passage(id="7", title="Title", text=read, score=1.0)
    values: dict[str, Any] = {
        "uid": f"{question}-{seed}",
        "question_id": question,
        "dataset": "set",
        "question": f"What is {question}?",
        "golds": golds,
        "agent": "scripted",
        "protocol": "",
        "backend": "bm25",
        "index": "",
        "model": "none",
        "seed": seed,
        "messages": (Message(role="user", content=f"What is {question}?\n(Title) {read}", train=False),),
        "searches": (search(passage),) * searches,
        "answer": answer,
        "stop": stop,
        "costs": COSTS,
        "scores": AgentScores(**(known | (scores or {}))),
    }
    values.update(changes)
    made = AgentEpisode(**values)
    return made if "failures" in changes else replace(made, failures=tag_failures(made))


# Scripted agents over the world


async def play(question: Question, *, hops: int | None = None, misreads: bool = False, guess: str = "") -> AgentRun:
    """Search for the hops of a question one after the other, one passage each, and answer what the last one says.

    `hops`: answer after so many, None: after all. `misreads`: take another passage's name for the last answer.
    `guess`: answer it at once.
    """
    chain, found = chain_of(question.question), []
    if guess:
        return run_of([], guess, asked=question.question)
    retriever, entity = Bm25Retriever(question.paragraphs), chain[-1]
    for relation in list(reversed(chain[:-1]))[:hops]:
        found.append(await retriever.retrieve(ask([relation, entity]), 1))
        entity = answer_of([relation, entity])
        assert entity in found[-1][0].text, "the world's passages are found by the words of their hop"
    said = misread([each.text for each in question.paragraphs], question.question, entity, 0) if misreads else entity
    return run_of(found, said, asked=question.question)


def guess_wrong(question: Question) -> str:
    """A name that the world does not give."""
    return name_of("guess", question.id)


def row(question: Question, run: AgentRun, *, seed: int = 0, agent: str = "scripted") -> AgentEpisode:
    """The row of a run."""
    return make_episode(question, run, setting(seed=seed, agent=agent), costs=COSTS)
