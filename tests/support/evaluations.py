"""Folders of evaluations, with episodes that nobody had to play."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.agent_episodes import COSTS, episode
from trailforge.evaluation.folder import EPISODES, AgentChoice, BackendChoice, Evaluation, write_evaluation
from trailforge.evaluation.prices import ModelPrice
from trailforge.evaluation.results.failures import tag_failures
from trailforge.schemas import Message, write_parquet
from trailforge.schemas.agent_episode import AgentEpisode, AgentSearch, RewardPart, TrainingStep

AGENTS = ("single_shot", "search_o1", "graph_search")
BACKENDS = ("dense", "linear_rag", "raptor_plain")
CHANCE = {"dense": 0.3, "linear_rag": 0.6, "raptor_plain": 0.5}
"""That a search brings a document, by back end."""
GIFT = {"single_shot": 1, "search_o1": 2, "graph_search": 4}
"""Searches for a document, by agent."""


def evaluation(**changes: Any) -> Evaluation:
    """A grid of all of them."""
    usual: dict[str, Any] = {
        "questions": "questions.jsonl",
        "questions_sha256": "0" * 64,
        "dataset": "set",
        "num_questions": 20,
        "agents": tuple(AgentChoice(name=name, config={}, hash=name) for name in AGENTS),
        "backends": tuple(
            BackendChoice(name=name, build_hours=place / 10, hours_per_million=place / 2, cost_per_million=2.0 * place)
            for place, name in enumerate(BACKENDS)
        ),
        "models": ("m",),
        "seeds": (0, 1),
        "top_k": 3,
        "prices": (ModelPrice(model="m", prompt=1.0, completion=4.0),),
    }  # fmt: skip
    return Evaluation(**(usual | changes))


def play_cell(agent: str, backend: str, questions: int = 20, seeds: Sequence[int] = (0, 1)) -> list[AgentEpisode]:
    """The episodes of an agent over a back end. The answer is right when both documents were found."""
    return [_play(agent, backend, f"q{number:02}", seed) for seed in seeds for number in range(questions)]


def _play(agent: str, backend: str, question: str, seed: int) -> AgentEpisode:
    draws = random.Random(f"{agent} {backend} {question} {seed}")
    searches, found_at, messages = [], [], [Message(role="user", content=f"What is {question}?", train=False)]
    for hop in range(2):
        found_at.append(None)
        for _ in range(GIFT[agent]):
            is_found = draws.random() < CHANCE[backend]
            title = f"Page {hop + 1} of {question}" if is_found else "Another page"
            query = f"hop {hop + 1} of {question}"
            searches.append(
                AgentSearch(
                    query=query, document_ids=(f"{question}-{hop}" if is_found else "x",), titles=(title,),
                    scores=(0.5,), context_tokens=100, seconds=0.01,
                )
            )  # fmt: skip
            messages.append(Message(role="assistant", content=f"I look for {query}.", train=True))
            messages.append(Message(role="user", content=f"({title}) Text.", train=False))
            if is_found:
                found_at[hop] = len(searches) - 1
                break
    answer = "Paris" if None not in found_at else "Rome"
    messages.append(Message(role="assistant", content=f"So it is {answer}.", train=True))
    costs = replace(
        COSTS, calls=len(searches) + 1, prompt_tokens=200 * len(searches), completion_tokens=30 * len(searches),
        context_tokens=100 * len(searches), seconds=0.5 * len(searches) + draws.random(),
    )  # fmt: skip
    scores = {"found_at": tuple(found_at), "supporting_recall": sum(place is not None for place in found_at) / 2}
    made = episode(
        question, seed=seed, agent=agent, backend=backend, model="m", uid=f"{agent}-{backend}-{question}-{seed}",
        messages=tuple(messages), answer=answer, costs=costs, scores=scores,
    )  # fmt: skip
    made = replace(made, searches=tuple(searches))
    return replace(made, failures=tag_failures(made))


def write_folder(folder: Path, grid: Evaluation, cells: Mapping[tuple[str, str], Sequence[AgentEpisode]]) -> Path:
    """A folder of an evaluation with the episodes of these cells."""
    folder.mkdir(parents=True, exist_ok=True)
    write_evaluation(folder, grid)
    for (agent, backend), rows in cells.items():
        cell = folder / EPISODES / f"{agent}-{backend}"
        cell.mkdir(parents=True, exist_ok=True)
        for place in range(0, len(rows), 16):
            write_parquet(cell / f"part-{place:05}.parquet", AgentEpisode, rows[place : place + 16])
    return folder


def whole_folder(folder: Path) -> Path:
    """A finished grid."""
    return write_folder(folder, evaluation(), {(a, b): play_cell(a, b) for a in AGENTS for b in BACKENDS})


def write_training(folder: Path) -> Path:
    """A folder of a training that kept the episodes of three steps, of which one failed in each."""
    for number, step in enumerate((1, 2, 12)):
        rows = play_cell("search_o1", "raptor_plain", seeds=(number,))
        rows = [replace(row, training=_paid(step, row.scores.right)) for row in rows]
        broken = replace(rows[0], stop="failed", failures=("failed",), training=TrainingStep(step=step))
        write_parquet(_made(folder / EPISODES) / f"step-{step:06}-rank-0.parquet", AgentEpisode, [broken, *rows[1:]])
    return folder


def _paid(step: int, right: float) -> TrainingStep:
    return TrainingStep(step=step, reward=right - 0.25, parts=(RewardPart(name="r_ans", value=right),))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
