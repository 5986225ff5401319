"""Episodes of scripted agents as an evaluation that `trailforge demand` reads, and that command."""

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
    """What an agent did with a question."""

    question: Question
    brought: Sequence[Passage]
    """By each search the first passage."""
    answer: str
    seed: int = 0

    @property
    def is_right(self) -> bool:
        """Whether the answer is the gold one."""
        return self.answer == self.question.answer


def evaluate(played: Sequence[Played], folder: Path) -> None:
    """Write the episodes as an evaluation of one cell."""
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
    """The quotas that the command makes of an evaluation. Raises `RuntimeError` where it ends in an error."""
    out = evaluated / "demand.yaml"
    command = ["demand", str(evaluated), "--questions", str(questions), "--out", str(out), *how]
    result = CliRunner().invoke(app, command)
    if result.exit_code:
        raise RuntimeError(f"{result.output}{result.exception}")
    return read_demand(out)
