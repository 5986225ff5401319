"""Write episodes of scripted agents as an evaluation, and run the command `trailforge demand` on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from tests.support.agent_episodes import COSTS, run_of, setting
from tests.support.evaluations import evaluation
from trailforge.cli import app
from trailforge.evaluation.folder import EPISODES, AgentChoice, BackendChoice, write_evaluation
from trailforge.evaluation.results.metrics import make_episode
from trailforge.pipelines.sources.demand import Demand, read_demand
from trailforge.schemas import Passage, Question, write_parquet
from trailforge.schemas.agent_episode import AgentEpisode


@dataclass(frozen=True, kw_only=True)
class Played:
    """An attempt of a scripted agent at a question: the first passage that each search found, and the answer."""

    question: Question
    brought: Sequence[Passage]
    """By each search the first passage."""
    answer: str
    seed: int = 0

    @property
    def is_right(self) -> bool:
        """Tell whether the attempt's answer is the gold answer."""
        return self.answer == self.question.answer


def evaluate(played: Sequence[Played], folder: Path) -> None:
    """Write the attempts to a folder, as an evaluation of one agent over one back end."""
    shard = folder / EPISODES / "scripted" / "part-0.parquet"
    shard.parent.mkdir(parents=True)
    rows = [
        make_episode(
            each.question,
            run_of([(passage,) for passage in each.brought], each.answer, asked=each.question.question),
            setting(agent="scripted", seed=each.seed),
            costs=COSTS,
        )
        for each in played
    ]
    write_parquet(shard, AgentEpisode, rows)
    seeds = tuple(sorted({each.seed for each in played}))
    agents = (AgentChoice(name="scripted", config={}, hash="c"),)
    grid = {"agents": agents, "backends": (BackendChoice(name="bm25"),), "models": ("none",), "seeds": seeds}
    write_evaluation(folder, evaluation(**grid))


def run_demand(evaluated: Path, questions: Path, how: Sequence[str]) -> Demand:
    """Run `trailforge demand` on an evaluation, with the further options `how`, and return the quotas that it wrote.
    Raises `RuntimeError` when the command fails.
    """
    out = evaluated / "demand.yaml"
    command = ["demand", str(evaluated), "--questions", str(questions), "--out", str(out), *how]
    result = CliRunner().invoke(app, command)
    if result.exit_code:
        raise RuntimeError(f"{result.output}{result.exception}")
    return read_demand(out)
