"""Simulate what the presets' tree searches yield with a model of measured behaviour, and what rejection sampling yields
with as many calls.

No model is asked. Questions, passages and replies are made up (`rehearsal.world`); how often a search finds its
passage, a wording loses it, a split is right, an answer is right and a repeated draw differs is counted from recorded
runs (`search_counts`). `--p` sets the share of right first answers where the passage is there, all else as counted.
Rows are those that the filters keep; calls are all that a run makes, also those that tell a row. Rejection sampling
draws a plan and its answers anew each time, with as many calls as the search of the same question made; its correct
rows go through the same filters.

    make bench B=search_yield
    make bench B=search_yield ARGS="--presets msearcher --p 0.9 --questions 400 --search width=4 patience=80"
    make bench B=search_yield ARGS="--check --questions 300"

`--check` foretells each recorded run by what was counted in the others of its kind, searched by the preset as it was
then. Its rows are those that today's rules make of the recorded trees.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from rich.console import Console
from rich.table import Table
from tree_vs_rejection import as_tree, draw_plan

from trailforge.generators.mcts_trajectories.choice import choose_rows, reword
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.estimate import Yield, behaviour_of, context_of, search_one
from trailforge.generators.mcts_trajectories.generate import Context, plan_runner, policy_prompts, trajectories
from trailforge.generators.mcts_trajectories.rehearsal.counted import Behaviour, Outcome, read_counted, with_shares
from trailforge.generators.mcts_trajectories.rehearsal.world import ChainModel, make_question
from trailforge.inference import Meter
from trailforge.inference.asker import Asker
from trailforge.mcts.contrasts import PLAIN
from trailforge.mcts.policy import open_policy
from trailforge.pipelines.runs.config import read_config
from trailforge.presets import load_preset
from trailforge.schemas import Plan, Question, Rollout

PRESETS = ("msearcher", "tree-search", "gold-first")
_KINDS = ("correct", "retrieval", "reasoning", "decomposition")
_PURPOSES = ("answer", "rephrase", "split", "judge", "thoughts", "grade")
_MOST_DRAWS = 60
"""Plans that rejection sampling draws for a question: where equal prompts are answered from the ledger it would never
spend its calls."""
_NEVER_SETTLED = 1000


def main() -> None:
    """Simulate the searches and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", default=PRESETS)
    parser.add_argument("--p", type=float, nargs="*", default=[0.8, 0.9, 0.95], help="shares of right first answers")
    parser.add_argument("--questions", type=int, default=100, help="for each column (default: 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--search", nargs="*", default=[], metavar="NAME=N", help="others than the preset's")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--sets", type=int, default=100, help="of the check, each as large as the recorded one")
    options = parser.parse_args()
    if options.check:
        _print_checks(options.questions, options.sets, options.seed)
        return
    for preset in options.presets:
        config = read_preset(preset, options.search)
        counted = behaviour_of(config)
        columns = {"as counted": counted} | {f"p = {p:g}": with_shares(counted, read=p) for p in options.p}
        found = {
            name: asyncio.run(search_all(config, behaviour, usual_hops(options.questions), options.seed, sampled=True))
            for name, behaviour in columns.items()
        }
        _print(preset, found)


def read_preset(name: str, changes: Sequence[str] = ()) -> MctsRunConfig:
    """Return a shipped preset with some numbers of its search changed."""
    config = read_config(MctsRunConfig, load_preset(name, "mcts_trajectories"), source=name)
    changed = {field: int(number) for field, _, number in (change.partition("=") for change in changes)}
    search = replace(config.generator.search, **changed)
    return replace(config, generator=replace(config.generator, search=search))


def usual_hops(count: int) -> list[int]:
    """Return the hop counts of `count` questions: two, three and four in turn."""
    return [2 + number % 3 for number in range(count)]


async def search_all(
    config: MctsRunConfig, behaviour: Behaviour, hops: Sequence[int], seed: int | str, *, sampled: bool = False
) -> tuple[Yield, Yield]:
    """Return what searching questions with these numbers of hops yielded, and what rejection sampling yielded with as
    many calls; the latter is empty unless `sampled`.
    """
    searched, drawn = Yield(), Yield()
    for number, of_one in enumerate(hops):
        question = make_question(number, seed, of_one, behaviour)
        model = ChainModel(behaviour, question)
        calls = await search_one(question, context_of(config, behaviour, model), config, searched)
        if sampled:
            await _sample(question, behaviour, config, calls, drawn)
    return searched, drawn


async def _sample(question: Question, behaviour: Behaviour, config: MctsRunConfig, budget: int, total: Yield) -> None:
    """Rejection sampling of one question: no draw is begun when the budget is spent."""
    model = ChainModel(behaviour, question)
    context = context_of(config, behaviour, model)
    meter, plans, rollouts = Meter(), list[Plan](), list[Rollout]()
    generator = replace(config.generator, reflection=replace(config.generator.reflection, max_correct=1000))
    prompts = policy_prompts(generator.prompts)
    while meter.calls < budget and len(rollouts) < _MOST_DRAWS:
        asker = Asker(client=model, model="chains", style="chat", seed=context.seed + len(rollouts), meter=meter)
        policy = open_policy(asker, prompts, generator.policy)
        plan = await draw_plan(question, policy, generator.search.max_sub_questions)
        done = await plan_runner(question, asker, context)(plan, PLAIN)
        assert done is not None, "no reply of this world is cut"
        if plan not in plans:
            plans.append(plan)
        rollouts.append(
            Rollout(index=len(rollouts), node=plans.index(plan), variation="none", varied_step=None,
                    steps=done.steps, answer=done.answer, reward=done.reward)
        )  # fmt: skip
    await _keep_correct(question, plans, rollouts, replace(context, config=generator), config, total)


async def _keep_correct(
    question: Question,
    plans: list[Plan],
    rollouts: list[Rollout],
    context: Context,
    config: MctsRunConfig,
    total: Yield,
) -> None:
    made = trajectories(question, as_tree(question, plans, rollouts), context)
    correct = [row for row in made if row.kind == "correct"]
    chosen = choose_rows(question, correct, config.filters, context.config.reflection)
    told, _ = await reword(question, chosen, context, config.filters)
    assert isinstance(context.client, ChainModel)
    total.add(told.kept, context.client.purposes, "drawn")


def _print(preset: str, found: dict[str, tuple[Yield, Yield]]) -> None:
    searched, drawn = [pair[0] for pair in found.values()], [pair[1] for pair in found.values()]
    table = Table(title=f"{preset}, {searched[0].questions} questions a column")
    table.add_column("a question")
    for name in found:
        table.add_column(name, justify="right")

    def line(name: str, values: Sequence[float | str]) -> None:
        table.add_row(name, *(each if isinstance(each, str) else f"{each:.2f}" for each in values))

    line("calls", [each.calls.total() / each.questions for each in searched])
    line("accepted rows", [each.rows.total() / each.questions for each in searched])
    for kind in _KINDS:
        line(f"  {kind}", [each.rows[kind] / each.questions for each in searched])
    line("  error provoked", [each.provoked / each.questions for each in searched])
    line("rows on the policy's plans", [_share(each.origins["policy"], each.rows.total()) for each in searched])
    line("calls a row", [each.calls_a_row for each in searched])
    line("  rejection sampling", [each.calls_a_row for each in drawn])
    line("rows of rejection sampling", [each.rows.total() / each.questions for each in drawn])
    line("stops", [" ".join(f"{k} {v / y.questions:.0%}" for k, v in y.stops.most_common()) for y in searched])
    Console(width=140).print(table)


def _share(some: int, of: int) -> str:
    return f"{some / of:.0%}" if of else "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A recorded run, and a simulation of it by the behaviour counted in other runs."""

    name: str
    config: MctsRunConfig
    behaviour: Behaviour
    outcome: Outcome

    @property
    def hops(self) -> list[int]:
        """Return the number of hops of each recorded question."""
        return [hop for hop, number in self.outcome.hops.items() for _ in range(number)]

    def recorded(self, value: Callable[[Outcome], float]) -> float:
        """Return a value's mean over the recorded questions."""
        return value(self.outcome) / self.outcome.questions


def checks() -> list[Check]:
    """Return a check for each recorded run of a strong model, each predicted from the other runs of its kind."""
    runs = [
        (model, number) for model in ("strong", "strong_corpus") for number in range(len(read_counted(model).readings))
    ]
    return [_check(model, number) for model, number in runs]


def _check(model: str, number: int) -> Check:
    counted = read_counted(model)
    reading = counted.readings[number]
    is_recent = model == "strong_corpus"
    changes = [] if is_recent else [f"agreeing_draws={_NEVER_SETTLED}"]  # by then no prompt was ever settled
    config = read_preset(counted.preset, changes)
    told_once = replace(config.generator.thoughts, tries=1)  # a second reply was asked for in none of them
    return Check(
        name=reading.name,
        config=replace(config, generator=replace(config.generator, thoughts=told_once)),
        behaviour=counted.behaviour(leave_out=reading.name),
        outcome=reading.outcome,
    )


def foretell(check: Check, questions: int, sets: int, seed: int) -> tuple[Yield, list[Yield]]:
    """Predict a recorded run: the yield over `questions` simulated questions with its hops, and the yields of `sets`
    samples of the recorded size, each with a behaviour drawn from the counts' uncertainty.
    """
    rng = random.Random(seed)
    searched, _ = asyncio.run(search_all(check.config, check.behaviour, rng.choices(check.hops, k=questions), seed))
    of_sets = []
    for number in range(sets):
        world = draw_behaviour(check.behaviour, rng)
        found, _ = asyncio.run(search_all(check.config, world, check.hops, f"{seed}:{number}"))
        of_sets.append(found)
    return searched, of_sets


def draw_behaviour(behaviour: Behaviour, rng: random.Random) -> Behaviour:
    """Draw a behaviour from the uncertainty of these counts, each share by itself (Jeffreys' posterior)."""
    shares = {each.name: getattr(behaviour, each.name) for each in fields(Behaviour)}
    drawn = {name: rng.betavariate(some + 0.5, of - some + 0.5) for name, (some, of) in shares.items() if of}
    return with_shares(behaviour, **drawn)


def _print_checks(questions: int, sets: int, seed: int) -> None:
    table = Table(title=f"as counted ({questions} questions), in nine of ten sets [{sets} sets], as recorded")
    table.add_column("a question")
    told = checks()
    found = [foretell(check, questions, sets, seed) for check in told]
    for check in told:
        table.add_column(f"{check.name}, {len(check.hops)} questions", justify="right")

    def line(name: str, simulated: Callable[[Yield], float], recorded: Callable[[Outcome], float]) -> None:
        cells = []
        for check, (searched, of_sets) in zip(told, found, strict=True):
            low, high = within(of_sets, simulated)
            mean = simulated(searched) / searched.questions
            cells.append(f"{mean:.2f} [{low:.2f}, {high:.2f}] {check.recorded(recorded):.2f}")
        table.add_row(name, *cells)

    line("calls", lambda each: each.calls.total(), lambda each: each.calls)
    for purpose in _PURPOSES:
        line(
            f"  {purpose}",
            lambda each, purpose=purpose: each.calls[purpose],
            lambda each, purpose=purpose: each.calls_for.get(purpose, 0),
        )
    line("rows", lambda each: each.rows.total(), lambda each: sum(each.rows.values()))
    for kind in _KINDS:
        line(f"  {kind}", lambda each, kind=kind: each.rows[kind], lambda each, kind=kind: each.rows.get(kind, 0))
    line("  on the policy's plans", lambda each: each.origins["policy"], lambda each: each.origins.get("policy", 0))
    Console(width=160).print(table)


def within(of_sets: Sequence[Yield], value: Callable[[Yield], float]) -> tuple[float, float]:
    """Return the values, per question, between which nine of ten sets lie."""
    values = sorted(value(each) / each.questions for each in of_sets)
    cut = len(values) // 20
    return values[cut], values[-1 - cut]


if __name__ == "__main__":
    main()
