"""Tree search against plain rejection sampling with the same number of model calls, question by question.

Rejection sampling: one plan (the policy's first split, until nothing can be split further), whole trajectories sampled
on it with every answer drawn again, the correct ones kept. It may make as many calls as the search of that question.
Both sides go through the same filters; the kept rows are all different.

    make bench B=tree_vs_rejection ARGS="--run datasets_out/musique100"

`--run` is a finished run; preset, questions and seed are read from it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from trailforge.generators.mcts_trajectories.choice import choose_rows
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.generate import Context, plan_runner, policy_prompts, trajectories
from trailforge.inference import Caps, Meter, ModelClient
from trailforge.inference.asker import Asker
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.mcts.contrasts import Variation
from trailforge.mcts.inputs import Policy
from trailforge.mcts.plan import apply_split, split_problem
from trailforge.mcts.policy import open_policy
from trailforge.pipelines.runs.finish import read_manifest
from trailforge.pipelines.runs.intake import read_settings
from trailforge.retrieval import open_retrieval
from trailforge.schemas import (
    DroppedSplits,
    Node,
    Plan,
    Question,
    Rollout,
    SearchTree,
    Split,
    Trajectory,
    from_dict,
    read_rows,
)
from trailforge.small_model.server import EmbeddedServer


def main() -> None:
    """Run the baseline beside a finished run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="folder of a finished mcts-trajectories run")
    parser.add_argument(
        "--ledger", type=Path, help="where the baseline keeps its calls (default: RUN/../rejection.sqlite)"
    )
    parser.add_argument("--in-flight", type=int, default=3, help="questions at a time")
    options = parser.parse_args()
    settings, manifest = read_settings(options.run), read_manifest(options.run)
    if settings is None or manifest is None:
        raise SystemExit(f"{options.run} holds no finished run")
    config = from_dict(MctsRunConfig, json.loads(settings.config))
    ledger = options.ledger or options.run.parent / "rejection.sqlite"
    with _served(config) as config:
        sampled = asyncio.run(_sample_all(options.run, config, ledger, options.in_flight))
    _print(options.run, sampled)


@contextlib.contextmanager
def _served(config: MctsRunConfig) -> Iterator[MctsRunConfig]:
    if config.model.url != "embedded":
        yield config
        return
    with EmbeddedServer(slots=config.model.max_in_flight) as server:
        yield replace(config, model=replace(config.model, url=server.base_url))


async def _sample_all(folder: Path, config: MctsRunConfig, ledger: Path, in_flight: int) -> list[Baseline]:
    questions = list(read_rows(sorted(folder.glob("inputs/*.parquet")), Question))
    trees = {t.question_id: t for t in read_rows(sorted(folder.glob("trees/*.parquet")), SearchTree)}
    client = ModelClient(config.model.client(Caps()), SqliteLedger(ledger))
    context = Context(
        run_id="rejection", model=config.model.name, seed=config.seed, prices=config.model.prices,
        config=config.generator,
        client=client, retrieval=open_retrieval(config.retrieval),
    )  # fmt: skip
    free = asyncio.Semaphore(in_flight)

    async def one(question: Question) -> Baseline:
        async with free:
            done = await _sample(question, context, config, trees[question.id].calls)
        progress.advance(bar)
        return done

    try:
        with Progress() as progress:
            bar = progress.add_task("rejection sampling", total=len(questions))
            return await asyncio.gather(*(one(question) for question in questions))
    finally:
        await client.aclose()


class Baseline:
    """What rejection sampling yielded on one question."""

    def __init__(self, calls: int, rollouts: int, correct: int, rows: list[Trajectory]) -> None:
        self.calls, self.rollouts, self.correct, self.rows = calls, rollouts, correct, rows


async def _sample(question: Question, context: Context, config: MctsRunConfig, budget: int) -> Baseline:
    meter = Meter()
    asker = Asker(client=context.client, model=context.model, style=context.config.rollout.style,
                  seed=context.seed, meter=meter)  # fmt: skip
    generator = context.config
    policy = open_policy(asker, policy_prompts(generator.prompts), generator.policy)
    plan = await draw_plan(question, policy, generator.search.max_sub_questions)
    roll_out = plan_runner(question, asker, context)
    rollouts: list[Rollout] = []
    for draw in range(budget):
        if meter.calls >= budget:
            break
        done = await roll_out(plan, Variation(kind="answer", sample=draw))
        if done is None:  # cut, so without a verdict
            continue
        rollouts.append(
            Rollout(index=len(rollouts), node=0, variation=done.variation, varied_step=None,
                    steps=done.steps, answer=done.answer, reward=done.reward)
        )  # fmt: skip
    tree = as_tree(question, [plan], rollouts)
    candidates = [row for row in trajectories(question, tree, context) if row.kind == "correct"]
    uncapped = replace(generator.reflection, max_correct=len(candidates))
    accepted, _ = choose_rows(question, candidates, config.filters, uncapped)
    return Baseline(meter.calls, len(rollouts), sum(r.reward > 0 for r in rollouts), list(accepted))


async def draw_plan(question: Question, policy: Policy, max_sub_questions: int) -> Plan:
    """Return the policy's plan: everything that can be split is split once, one after the other."""
    plan, position = Plan(sub_questions=(question.question,)), 0
    while position < len(plan) < max_sub_questions:
        sub_question = plan.sub_questions[position]
        (is_decomposable,) = await policy.judge([sub_question])
        proposed = (await policy.propose(sub_question, 1)).splits if is_decomposable else ()
        splits = [Split(index=position, first=first, second=second) for first, second in proposed]
        usable = [split for split in splits if split_problem(sub_question, split) is None]
        if usable:
            plan = apply_split(plan, usable[0])
        else:
            position += 1
    return plan


def as_tree(question: Question, plans: list[Plan], rollouts: list[Rollout]) -> SearchTree:
    """Return plans and their rollouts as a tree without splits, so that the code that makes rows of trees makes them of
    these.
    """
    nodes = []
    for number, plan in enumerate(plans):
        rewards = [r.reward for r in rollouts if r.node == number]
        nodes.append(
            Node(
                id=number, parent=None, plan=plan.sub_questions, origin="policy", visits=len(rewards),
                value=sum(rewards) / max(len(rewards), 1), decomposable=(False,) * len(plan), depth=0,
            )
        )  # fmt: skip
    return SearchTree(
        question_id=question.id, question=question.question, answer=question.answer,
        answer_aliases=question.answer_aliases, nodes=tuple(nodes), rollouts=tuple(rollouts), stop_reason="budget",
        oracle_used=False, dropped_splits=DroppedSplits(), rounds=0, max_depth=0, calls=0, prompt_tokens=0,
        completion_tokens=0, cost=0.0,
    )  # fmt: skip


def _print(folder: Path, sampled: list[Baseline]) -> None:
    trees = list(read_rows(sorted(folder.glob("trees/*.parquet")), SearchTree))
    rows = list(read_rows(sorted(folder.glob("mcts_trajectories/*.parquet")), Trajectory))
    own = [row for row in rows if row.origin != "oracle"]
    kinds = Counter(row.reflection_error or "correct" for row in rows)
    table = Table(title=f"{len(trees)} questions, equal calls per question")
    for column in ("", "tree search", "… without gold plans", "rejection sampling"):
        table.add_column(column, justify="left" if not column else "right")
    calls, baseline_calls = sum(t.calls for t in trees), sum(b.calls for b in sampled)
    kept = sum(len(b.rows) for b in sampled)

    def line(name: str, *values: float) -> None:
        table.add_row(name, *(f"{v:.1f}" if isinstance(v, float) else str(v) for v in values))

    line("model calls", calls, calls, baseline_calls)
    line("questions with an accepted row", *(len({r.question_id for r in x}) for x in (rows, own)),
         sum(bool(b.rows) for b in sampled))  # fmt: skip
    line("accepted rows", len(rows), len(own), kept)
    for kind in ("correct", "retrieval", "reasoning", "decomposition"):
        line(f"  {kind}", kinds[kind], sum((r.reflection_error or "correct") == kind for r in own),
             kept if kind == "correct" else 0)  # fmt: skip
    line("calls per accepted row", *(calls / max(len(x), 1) for x in (rows, own)), baseline_calls / max(kept, 1))
    Console().print(table)
    Console().print(
        f"rows of gold plans: {len(rows) - len(own)} of {len(rows)}; trees with a gold plan: "
        f"{sum(t.oracle_used for t in trees)} of {len(trees)}; rollouts of the baseline: "
        f"{sum(b.rollouts for b in sampled)}, correct {sum(b.correct for b in sampled)}"
    )


if __name__ == "__main__":
    main()
