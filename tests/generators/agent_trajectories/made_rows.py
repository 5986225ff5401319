"""Episodes of Search-R1's form by hand: what a draw searched, read and said, as the row that follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trailforge.evaluation.agents import AgentRun
from trailforge.evaluation.results.metrics import EpisodeSetting, make_episode
from trailforge.generators.agent_trajectories.rows import derive_fields, with_shares
from trailforge.protocols import SEARCH_R1
from trailforge.protocols.turns import Observation, Search, Turn
from trailforge.schemas import Document, Hop, Message, Passage, Provenance, Question
from trailforge.schemas.agent_episode import AgentCosts, AgentSearch, AgentTrajectory

QUESTION = Question(
    id="q1",
    question="In which city was the director of Metropolis born?",
    answer="Vienna",
    answer_aliases=("Wien",),
    decomposition=(
        Hop(question="Who directed Metropolis?", answer="Fritz Lang", support_id="0"),
        Hop(question="In which city was #1 born?", answer="Vienna", support_id="1"),
    ),
    paragraphs=(
        Document(id="0", title="Metropolis", text="Fritz Lang directed Metropolis."),
        Document(id="1", title="Fritz Lang", text="Fritz Lang was born in Vienna."),
        Document(id="2", title="M", text="M is a film of 1931."),
    ),
    dataset="made",
)
FOUND = [("Who directed Metropolis?", "0"), ("In which city was Fritz Lang born?", "1")]
"""Queries, and the paragraphs that they find."""


def run_of(
    searches: Sequence[tuple[str, str]] = FOUND,
    answer: str = "Vienna",
    *,
    thoughts: Sequence[str] = (),
    question: Question = QUESTION,
    **changes: Any,
) -> AgentRun:
    """A run that searches so and answers. `thoughts`: of its turns, in order."""
    thinks = [*thoughts, *["I look it up."] * (len(searches) + 1 - len(thoughts))]
    messages, made = list(SEARCH_R1.opening(question.question)), []
    for (query, found), thought in zip(searches, thinks, strict=False):
        texts = [each for each in question.paragraphs if each.id in found.split()]
        passages = tuple(Passage(id=d.id, title=d.title, text=d.text, score=1.0) for d in texts)
        turn = SEARCH_R1.render_turn(Turn(thought=thought, search=Search(query=query), answer=None, repairs=()))
        result = SEARCH_R1.render_result(Observation(passages=passages))
        messages += [Message(role="assistant", content=turn, train=True)]
        messages += [Message(role="tool", content=result, train=False)]
        made.append(
            AgentSearch(
                query=query,
                document_ids=tuple(each.id for each in passages),
                titles=tuple(each.title for each in passages),
                scores=tuple(each.score for each in passages),
                context_tokens=5,
                seconds=0.0,
            )
        )
    if answer:
        last = SEARCH_R1.render_turn(Turn(thought=thinks[-1], search=None, answer=answer, repairs=()))
        messages.append(Message(role="assistant", content=last, train=True))
    run = AgentRun(answer=answer, stop="answered", messages=tuple(messages), searches=tuple(made))
    return replace(run, **changes)


def row_of(
    run: AgentRun | None = None,
    *,
    sample: int = 0,
    question: Question = QUESTION,
    sft_protocol: str = SEARCH_R1.name,
    **changes: Any,
) -> AgentTrajectory:
    """The row of a run, as the only draw on its question."""
    setting = EpisodeSetting(
        agent=SEARCH_R1.name, agent_config="c", protocol=SEARCH_R1.name, backend="bm25", model="m", seed=0
    )
    costs = AgentCosts(calls=3, prompt_tokens=9, completion_tokens=9, context_tokens=9, seconds=0.0)
    row = AgentTrajectory(
        uid="", question_id="", agent="", agent_config="c", sft_protocol=sft_protocol, graph="", sample=sample,
        episode=make_episode(question, run or run_of(), setting, costs=costs), gold_hops=(), num_hops=0,
        token_estimate=0, draws=0, right_draws=0,
        provenance=Provenance(
            run_id="r", source_id="made:q1", model="m", prompt_version="v", seed=0, call_keys=(f"k{sample}",),
            retriever="bm25",
        ),
    )  # fmt: skip
    (row,) = with_shares([replace(row, **derive_fields(row, question))])
    return replace(row, **changes)
