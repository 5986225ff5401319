"""Turns of agents and tools by any grammar, and what a KG-search episode is paid."""

from __future__ import annotations

from collections.abc import Sequence

from trailforge.protocols import KG_SEARCH, R_SEARCH, Grammar
from trailforge.protocols.episodes import EpisodeRun
from trailforge.protocols.nl_dag import SearchPlan
from trailforge.protocols.r_search import search_of
from trailforge.protocols.turns import Observation, Search, Turn
from trailforge.rewards.dynasearcher import (
    DEFAULT,
    DynaSearcherConstants,
    DynaSearcherReward,
    Titled,
    dynasearcher_reward,
    r_recall,
)
from trailforge.schemas import Passage


def search_turn(grammar: Grammar, thought: str, query: str) -> str:
    """An agent's turn that searches."""
    return grammar.render_turn(Turn(thought=thought, search=Search(query=query)))


def plan_turn(thought: str, plan: SearchPlan) -> str:
    """R-Search's turn that searches."""
    return R_SEARCH.render_turn(Turn(thought=thought, search=search_of(plan)))


def answer_turn(grammar: Grammar, thought: str, answer: str) -> str:
    """The turn that ends an episode; R-Search has no thought there."""
    return grammar.render_turn(Turn(thought=thought, answer=answer))


def result_turn(grammar: Grammar, passages: Sequence[Passage]) -> str:
    """A tool's turn."""
    return grammar.render_result(Observation(passages=tuple(passages)))


def kg_score(
    run: EpisodeRun,
    *,
    golds: Sequence[str],
    supporting: Sequence[Titled],
    hops: int | None,
    constants: DynaSearcherConstants = DEFAULT,
) -> DynaSearcherReward:
    """The reward of a KG-search episode, from what its run says."""
    return dynasearcher_reward(
        prediction=run.answer,
        golds=golds,
        format_holds=KG_SEARCH.format_reward(run.messages) == 1.0,
        recall=r_recall(supporting, run.passages),
        searches=run.num_searches,
        hops=hops,
        constants=constants,
    )


def text_of(run: EpisodeRun) -> str:
    """An episode from the agent's first word on, as one text."""
    return "".join(each.content if each.role == "assistant" else f"\n{each.content}\n" for each in run.messages[2:])
