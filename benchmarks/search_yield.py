"""What a search yields with a model that is mostly right, by preset, and rejection sampling with as many calls.

No model is asked. A simulated one errs by chance: two to four hops, one proposed split in four wrong, passages that
vary with the wording of the query, answers right with the chance p where the passage is there (`_chains.py`). Each draw
is independent of the others, as a real model's are not. Candidates are counted before the filters, rows after them.
Rejection sampling draws a plan and its answers anew each time, with as many calls as the search of the same question
made; its correct rows go through the same filters.

    make bench B=search_yield
    make bench B=search_yield ARGS="--presets tree-search --questions 200 --search width=4 patience=80"
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from _chains import ChainModel, Engines, make_question
from rich.console import Console
from rich.table import Table
from tree_vs_rejection import as_tree, draw_plan

from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.generate import (
    Context,
    generate,
    plan_runner,
    policy_prompts,
    sift,
    trajectories,
)
from trailforge.inference import Meter, Prices
from trailforge.inference.asker import Asker
from trailforge.mcts.contrasts import PLAIN
from trailforge.mcts.policy import open_policy
from trailforge.mcts.reflection import ReflectionConfig
from trailforge.pipelines.runs.config import read_config
from trailforge.presets import load_preset
from trailforge.schemas import Plan, Question, Rollout

ERRORS = ("retrieval", "reasoning", "decomposition")


@dataclass(slots=True)
class Yield:
    """Sums over the questions at one p."""

    questions: int = 0
    rollouts: int = 0
    calls: int = 0
    candidates: Counter[str] = field(default_factory=Counter)
    """Before filters, by type."""
    rows: Counter[str] = field(default_factory=Counter)
    """After them."""
    origins: Counter[str] = field(default_factory=Counter)
    """Of these, whose plan they follow."""
    stops: Counter[str] = field(default_factory=Counter)
    sampled_rows: int = 0
    """Of rejection sampling."""
    sampled_calls: int = 0


def main() -> None:
    """Search with every preset and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=["msearcher", "tree-search", "gold-first"])
    parser.add_argument("--questions", type=int, default=100, help="for each p (default: 100)")
    parser.add_argument("--p", type=float, nargs="+", default=[0.8, 0.9, 0.95], help="chances to be right")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--search", nargs="*", default=[], metavar="NAME=N", help="others than the preset's")
    options = parser.parse_args()
    for preset in options.presets:
        config = _preset(preset, options.search)
        found = {p: asyncio.run(_search(p, options.questions, options.seed, config)) for p in options.p}
        _print(preset, found)


def _preset(name: str, changes: Sequence[str]) -> MctsRunConfig:
    config = read_config(MctsRunConfig, load_preset(name, "mcts_trajectories"), source=name)
    changed = {name: int(number) for name, _, number in (change.partition("=") for change in changes)}
    search = replace(config.generator.search, **changed)
    return replace(config, generator=replace(config.generator, search=search))


def _capped(kinds: Iterable[str], caps: ReflectionConfig) -> Counter[str]:
    """Candidates of one question by kind, as many as it may give rows."""
    return Counter({kind: min(count, caps.max_pairs) for kind, count in Counter(kinds).items()})


async def _search(p: float, count: int, seed: int, config: MctsRunConfig) -> Yield:
    total, caps = Yield(questions=count), config.generator.reflection
    for number in range(count):
        question = make_question(number, seed)
        context = Context(
            run_id="yield", model="chains", seed=seed, prices=Prices(), config=config.generator,
            client=ChainModel(p), retrieval=Engines(),
        )  # fmt: skip
        made = await generate(
            question, context, accept=lambda rows, question=question: sift(question, rows, config.filters, caps)[0]
        )
        accepted, _ = sift(question, made.candidates, config.filters, caps)
        total.rollouts += len(made.tree.rollouts)
        total.calls += made.tree.calls
        total.candidates.update(_capped((row.reflection_error or "correct" for row in made.candidates), caps))
        total.rows.update(row.reflection_error or "correct" for row in accepted)
        total.origins.update(row.origin for row in accepted)
        total.stops[made.tree.stop_reason] += 1
        sampled, calls = await _sample(question, replace(context, client=ChainModel(p)), config, made.tree.calls)
        total.sampled_rows += sampled
        total.sampled_calls += calls
    return total


async def _sample(question: Question, context: Context, config: MctsRunConfig, budget: int) -> tuple[int, int]:
    """Accepted rows and calls of rejection sampling: no draw is begun when the budget is spent."""
    meter, plans, rollouts = Meter(), list[Plan](), list[Rollout]()
    generator = replace(config.generator, reflection=replace(config.generator.reflection, max_correct=1000))
    prompts = policy_prompts(generator.prompts)
    while meter.calls < budget:
        asker = Asker(
            client=context.client, model="chains", style="chat", seed=context.seed + len(rollouts), meter=meter
        )
        policy = open_policy(asker, prompts, generator.policy)
        plan = await draw_plan(question, policy, generator.search.max_sub_questions)
        done = await plan_runner(question, asker, context)(plan, PLAIN)
        assert done is not None
        if plan not in plans:
            plans.append(plan)
        rollouts.append(
            Rollout(index=len(rollouts), node=plans.index(plan), variation="none", varied_step=None,
                    steps=done.steps, answer=done.answer, reward=done.reward)
        )  # fmt: skip
    made = trajectories(question, as_tree(question, plans, rollouts), replace(context, config=generator))
    accepted, _ = sift(question, [row for row in made if row.kind == "correct"], config.filters, generator.reflection)
    return len(accepted), meter.calls


def _print(title: str, found: dict[float, Yield]) -> None:
    table = Table(title=f"{title}, {next(iter(found.values())).questions} questions each")
    table.add_column("a question")
    for p in found:
        table.add_column(f"p = {p:g}", justify="right")

    def line(name: str, values: Sequence[float | str]) -> None:
        table.add_row(name, *(v if isinstance(v, str) else f"{v:.2f}" for v in values))

    all_of = list(found.values())
    line("rollouts", [y.rollouts / y.questions for y in all_of])
    line("reflective candidates", [sum(y.candidates[e] for e in ERRORS) / y.questions for y in all_of])
    for error in ERRORS:
        line(f"  {error}", [y.candidates[error] / y.questions for y in all_of])
    line("calls", [y.calls / y.questions for y in all_of])
    line("accepted rows", [y.rows.total() / y.questions for y in all_of])
    for kind in ("correct", *ERRORS):
        line(f"  {kind}", [y.rows[kind] / y.questions for y in all_of])
    line("  on the policy's plans", [y.origins["policy"] / max(y.rows.total(), 1) for y in all_of])
    line("calls per accepted row", [y.calls / max(y.rows.total(), 1) for y in all_of])
    line("  rejection sampling", [y.sampled_calls / max(y.sampled_rows, 1) for y in all_of])
    line("stops", [" ".join(f"{k} {v / y.questions:.0%}" for k, v in y.stops.most_common()) for y in all_of])
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
