"""The search: its invariants, its budget, its fallback, and that it is the same every time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mcts.toy import GOOD_SPLITS, QUESTION, ToyPolicy, coin_roll_out, simulation
from trailforge.mcts.contrasts import Errors, Variation
from trailforge.mcts.inputs import CallBounds, OracleTurn, Proposal, SearchConfig, WantedRows
from trailforge.mcts.plan import plan_key
from trailforge.mcts.search import search
from trailforge.mcts.tree import Tree
from trailforge.schemas import Hop, Plan, Question, SearchTree

GOLD_FIRST = SearchConfig(oracle="first", errors="provoked")
PROVOKED = SearchConfig(errors="provoked")


def rows_by_reward(tree: SearchTree) -> Counter[str]:
    """Rows as a tree without filters gives them: one per right and per wrong rollout of a leaf plan."""
    leaves = {node.id for node in tree.nodes if not any(node.decomposable)}
    found = Counter({"retrieval": 9, "decomposition": 9})
    found.update("correct" if r.reward else "reasoning" for r in tree.rollouts if r.node in leaves)
    return found


def run(
    roll_out, policy=None, config=None, parallel=1, calls=lambda: 0, question: Question = QUESTION, progress=None
) -> SearchTree:
    return asyncio.run(
        search(
            question,
            policy=policy or ToyPolicy(GOOD_SPLITS),
            roll_out=roll_out,
            calls=calls,
            config=config or SearchConfig(),
            parallel=parallel,
            progress=progress,
        )
    )


def check_statistics(tree: SearchTree) -> None:
    """N counts, and V is the mean of, the rollouts at and below each node."""
    for node in tree.nodes:
        below = [r.reward for r in tree.rollouts if node.id in _ancestry(tree, r.node)]
        assert node.visits == len(below)
        assert node.value == pytest.approx(sum(below) / len(below) if below else 0.0)
    for node in tree.nodes:
        children = [n for n in tree.nodes if n.parent == node.id]
        own = sum(r.node == node.id for r in tree.rollouts)
        assert node.visits == own + sum(child.visits for child in children)


def _ancestry(tree: SearchTree, node: int | None) -> set[int]:
    ids = set()
    while node is not None:
        ids.add(node)
        node = tree.nodes[node].parent
    return ids


@settings(max_examples=60)
@given(
    chance=st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]),
    seed=st.integers(0, 1000),
    parallel=st.integers(1, 4),
    width=st.integers(1, 5),
)
def test_visits_add_up_and_values_are_means(chance: float, seed: int, parallel: int, width: int) -> None:
    tree = run(coin_roll_out(chance, seed), config=SearchConfig(width=width), parallel=parallel)
    check_statistics(tree)
    assert [r.index for r in tree.rollouts] == list(range(len(tree.rollouts)))
    assert len({plan_key(node.plan) for node in tree.nodes}) == len(tree.nodes)


@pytest.mark.parametrize("parallel", [1, 3])
def test_the_same_replies_make_the_same_tree_whatever_their_timing(parallel: int) -> None:
    def jittered(seed: int):
        plain = coin_roll_out(0.4, 7)
        order = iter(range(10_000))

        async def roll_out(plan: Plan, variation: Variation):
            await asyncio.sleep(((next(order) * seed) % 5) / 1000)
            return await plain(plan, variation)

        return roll_out

    assert run(jittered(1), parallel=parallel) == run(jittered(3), parallel=parallel)


def test_every_new_child_is_rolled_out_in_the_round_that_made_it() -> None:
    tree = run(coin_roll_out(0.0, 1), config=SearchConfig(max_rounds=1, oracle="never"))
    assert [node.parent for node in tree.nodes] == [None, 0, 0]
    assert sorted(r.node for r in tree.rollouts) == [1, 2]
    assert tree.stop_reason == "budget"


def test_the_search_ends_when_every_wanted_row_is_there() -> None:
    async def alternating(plan: Plan, variation: Variation):
        right = len(plan) == 3 and variation.sample % 2 == 0
        answers = ["x"] * (len(plan) - 1) + ["Vienna" if right else f"w{variation.sample}"]
        return simulation(plan, answers, float(right), variation)

    tree = run(alternating, progress=rows_by_reward)
    assert tree.stop_reason == "satisfied"
    leaf = next(n for n in tree.nodes if len(n.plan) == 3)
    assert leaf.plan == ("What is the film of the year?", "Who directed #1?", "Where was #2 born?")
    assert [r.reward for r in tree.rollouts if r.node == leaf.id] == [1.0, 0.0]
    more = SearchConfig(wanted=WantedRows(correct=2, reasoning=2))
    assert len(run(alternating, progress=rows_by_reward, config=more).rollouts) > len(tree.rollouts)


def test_however_many_rollouts_are_right_the_search_goes_on_while_rows_are_missing() -> None:
    nothing = run(coin_roll_out(1.0, 1), progress=lambda tree: Counter())
    assert nothing.stop_reason == "exhausted"
    assert sum(r.reward for r in nothing.rollouts) > 6


def test_a_question_that_brings_no_more_rows_is_given_up() -> None:
    """Patience begins with the first right rollout, and again with each new row."""
    made = 0

    async def counted(plan: Plan, variation: Variation):
        nonlocal made
        made += len(plan)
        answers = ["x"] * (len(plan) - 1) + ["Vienna"]
        return simulation(plan, answers, 1.0, variation)

    def search_for(rows: Callable[[SearchTree], Counter[str]]) -> int:
        nonlocal made
        made = 0
        tree = run(counted, calls=lambda: made, config=SearchConfig(patience=6), progress=rows)
        assert tree.stop_reason == "exhausted"
        return made

    assert search_for(lambda tree: Counter()) < search_for(lambda tree: Counter(correct=len(tree.rollouts) > 4))


def test_a_contrast_keeps_its_base_and_names_the_step_that_it_varies() -> None:
    tree = run(coin_roll_out(1.0, 1), config=PROVOKED, progress=lambda tree: Counter())
    varied = [r for r in tree.rollouts if r.base is not None]
    assert {r.variation for r in varied} == {"query", "answer"}
    for rollout in varied:
        base = tree.rollouts[rollout.base or 0]
        assert (base.node, base.reward) == (rollout.node, 1.0)
        assert rollout.varied_step in {step.index for step in base.steps}


def test_a_plan_that_failed_once_is_tried_again_when_another_has_succeeded() -> None:
    async def by_plan(plan: Plan, variation: Variation):
        right = plan.sub_questions[0].startswith("Who")
        return simulation(plan, ["x", "Vienna" if right else "w"][: len(plan)], float(right), variation)

    splits = {QUESTION.question: GOOD_SPLITS[QUESTION.question]}
    tree = run(
        by_plan, policy=ToyPolicy(splits), config=replace(PROVOKED, max_rounds=2), progress=lambda tree: Counter()
    )
    failed = next(n for n in tree.nodes if n.value == 0)
    assert [r.base is not None for r in tree.rollouts if r.node == failed.id] == [False, True]


@settings(max_examples=60)
@given(
    chance=st.sampled_from([0.0, 0.2, 0.6, 0.9, 1.0]),
    seed=st.integers(0, 1000),
    parallel=st.integers(1, 4),
    most=st.integers(1, 60),
    rollouts=st.integers(1, 6),
    errors=st.sampled_from(["sampled", "provoked"]),
    oracle=st.sampled_from(["last", "first", "never"]),
)
def test_no_budget_is_ever_overshot(
    chance: float, seed: int, parallel: int, most: int, rollouts: int, errors: Errors, oracle: OracleTurn
) -> None:
    """Every call takes as much as its bound allows."""
    bounds, spent = CallBounds(), 0

    class Costly(ToyPolicy):
        async def judge(self, sub_questions: Sequence[str]) -> Sequence[bool | None]:
            nonlocal spent
            spent += bounds.judge
            return await super().judge(sub_questions)

        async def propose(self, sub_question: str, count: int) -> Proposal:
            nonlocal spent
            spent += bounds.split
            return await super().propose(sub_question, count)

    async def costly(plan: Plan, variation: Variation):
        nonlocal spent
        spent += bounds.rollout(len(plan)) if variation.base is None else bounds.variation(len(plan))
        return await coin_roll_out(chance, seed)(plan, variation)

    config = SearchConfig(max_calls=most, max_leaf_rollouts=rollouts, errors=errors, oracle=oracle)
    tree = run(costly, policy=Costly(GOOD_SPLITS), calls=lambda: spent, config=config, parallel=parallel)
    assert spent <= most
    assert max(Counter(r.node for r in tree.rollouts).values(), default=0) <= rollouts
    check_statistics(tree)


def test_identical_splits_and_plans_are_dropped_and_counted() -> None:
    splits = {QUESTION.question: [*GOOD_SPLITS[QUESTION.question][:1] * 2, ("no entity", "here"), ("A?", "[E]?")]}
    tree = run(coin_roll_out(0.5, 1), policy=ToyPolicy(splits))
    assert (tree.dropped_splits.identical, tree.dropped_splits.malformed, tree.dropped_splits.no_progress) == (1, 1, 1)


def test_two_roads_to_the_same_plan_make_one_node() -> None:
    tree = run(coin_roll_out(0.0, 1), config=SearchConfig(oracle="never"))
    assert sum(len(node.plan) == 3 for node in tree.nodes) == 1
    assert tree.dropped_splits.identical == 1


def test_each_meaning_is_judged_once_and_a_question_of_known_hops_is_not() -> None:
    policy = ToyPolicy(GOOD_SPLITS)
    run(coin_roll_out(0.3, 2), policy=policy)
    assert policy.judged and len(policy.judged) == len(set(policy.judged))
    assert QUESTION.question not in policy.judged and not any("#2" in text for text in policy.judged)
    run(coin_roll_out(0.3, 2), policy=policy, question=replace(QUESTION, decomposition=()))
    assert QUESTION.question in policy.judged


def test_oracle_joins_when_the_policy_has_no_valid_split_for_the_root() -> None:
    policy = ToyPolicy({QUESTION.question: [("no entity", "here")]})
    tree = run(coin_roll_out(1.0, 1), policy=policy)
    assert tree.oracle_used
    oracle = tree.nodes[1]
    assert (oracle.origin, oracle.parent, oracle.plan[2]) == ("oracle", 0, "Where was #2 born?")
    assert all(r.node == 1 for r in tree.rollouts)


def test_oracle_joins_when_the_budget_ends_without_a_correct_rollout() -> None:
    async def only_the_oracle(plan: Plan, variation: Variation):
        right = "Who made #1?" in plan.sub_questions and variation.sample in (1, 3)
        last = "Vienna" if right else f"w{variation.sample}"
        return simulation(plan, ["x"] * (len(plan) - 1) + [last], float(right), variation)

    hops = (
        QUESTION.decomposition[0],
        type(QUESTION.decomposition[1])(question="Who made #1?", answer="Lang"),
        QUESTION.decomposition[2],
    )
    question = Question(id="toy", question=QUESTION.question, answer="Vienna", decomposition=hops)
    tree = run(only_the_oracle, question=question, progress=rows_by_reward)
    assert tree.oracle_used and tree.stop_reason == "satisfied"
    assert {n.origin for n in tree.nodes} == {"policy", "oracle"}
    check_statistics(tree)


def test_a_question_that_its_own_decomposition_does_not_solve_is_given_up_where_that_comes_first() -> None:
    policy = ToyPolicy(GOOD_SPLITS)
    tree = run(coin_roll_out(0.0, 1), policy=policy, config=GOLD_FIRST)
    assert (tree.stop_reason, tree.rounds) == ("exhausted", 0) and not policy.judged
    assert [node.origin for node in tree.nodes] == ["policy", "oracle"]
    mends = [(rollout.variation, rollout.varied_step) for rollout in tree.rollouts]
    assert mends[0] == ("none", None) and len(mends) == GOLD_FIRST.oracle_rollouts and len(set(mends)) > 2


def test_a_question_that_its_own_decomposition_solves_is_split_by_the_policy_all_the_same() -> None:
    hops = (*QUESTION.decomposition[:2], type(QUESTION.decomposition[0])(question="Where is #2 from?", answer="Vienna"))
    question = Question(id="toy", question=QUESTION.question, answer="Vienna", decomposition=hops)
    tree = run(coin_roll_out(1.0, 1), config=GOLD_FIRST, question=question)
    assert tree.rollouts[0].node == 1 and tree.nodes[1].origin == "oracle"
    assert any(node.origin == "policy" and not any(node.decomposable) for node in tree.nodes)
    check_statistics(tree)


@pytest.mark.parametrize("errors", ["sampled", "provoked"])
def test_gold_is_not_rolled_out_once_a_plan_of_the_policy_was_right(errors: Errors) -> None:
    hops = (*QUESTION.decomposition[:2], Hop(question="Where is #2 from?", answer="Vienna"))
    question = replace(QUESTION, decomposition=hops)
    config = SearchConfig(errors=errors)
    for seed in range(10):
        tree = run(coin_roll_out(0.5, seed), config=config, question=question, progress=rows_by_reward)
        first = next((r.index for r in tree.rollouts if r.reward and r.node in _leaves(tree)), None)
        of_gold = [r.index for r in tree.rollouts if tree.nodes[r.node].origin == "oracle"]
        assert first is not None and (not of_gold or of_gold[0] <= first)
        assert tree.oracle_used == bool(of_gold)


def test_gold_joins_last_when_the_policy_has_spent_its_calls_and_never_where_that_is_said() -> None:
    made = 0

    async def costly(plan: Plan, variation: Variation):
        nonlocal made
        made += len(plan)
        return await coin_roll_out(0.0, 1)(plan, variation)

    def search_with(config: SearchConfig) -> SearchTree:
        nonlocal made
        made = 0
        hops = (*QUESTION.decomposition[:2], Hop(question="Where is #2 from?", answer="Vienna"))
        question = replace(QUESTION, decomposition=hops)
        return run(costly, calls=lambda: made, config=config, question=question)

    tree = search_with(SearchConfig(policy_calls=25))
    origins = [tree.nodes[r.node].origin for r in tree.rollouts]
    assert origins == sorted(origins, reverse=True) and set(origins) == {"policy", "oracle"}, "gold is last"
    of_policy = sum(len(r.steps) for r, origin in zip(tree.rollouts, origins, strict=True) if origin == "policy")
    assert of_policy <= 25
    tree = search_with(SearchConfig(policy_calls=25, oracle="never"))
    assert not tree.oracle_used and {node.origin for node in tree.nodes} == {"policy"} and made <= 25


def test_sampled_rollouts_keep_nothing_of_each_other() -> None:
    seen: list[Variation] = []

    async def noting(plan: Plan, variation: Variation):
        seen.append(variation)
        return await coin_roll_out(0.5, 3)(plan, variation)

    tree = run(noting, config=SearchConfig(), progress=lambda tree: Counter())
    assert {r.base for r in tree.rollouts} == {None} and not any(variation.misses for variation in seen)
    assert {(variation.kind, variation.step is None) for variation in seen} == {
        ("none", True),
        ("answer", True),
        ("query", False),
    }


def test_a_plan_that_would_bring_nothing_new_is_closed_and_the_search_ends() -> None:
    """A model that is sure of everything: each prompt is answered twice, each query reworded, and then it is over."""
    splits = {QUESTION.question: GOOD_SPLITS[QUESTION.question][:1]}

    async def steady(plan: Plan, variation: Variation):
        done = simulation(plan, ["x"] * (len(plan) - 1) + ["Vienna"], 1.0, variation)
        return replace(done, steps=tuple(replace(step, answer_sample=variation.sample) for step in done.steps))

    config = SearchConfig(max_leaf_rollouts=50, step_tries=1)
    tree = run(steady, policy=ToyPolicy(splits), config=config, progress=lambda tree: Counter())
    assert tree.stop_reason == "exhausted"
    assert [(r.variation, r.varied_step) for r in tree.rollouts] == [
        ("none", None),
        ("answer", None),
        ("query", 0),
        ("query", 1),
    ]


def _leaves(tree: SearchTree) -> set[int]:
    return {node.id for node in tree.nodes if not any(node.decomposable)}


def test_no_oracle_without_a_gold_decomposition() -> None:
    question = Question(id="toy", question=QUESTION.question, answer="Vienna")
    tree = run(coin_roll_out(0.0, 1), question=question)
    assert not tree.oracle_used
    assert tree.stop_reason in ("budget", "exhausted")


def test_a_tree_whose_leaf_plans_are_all_tried_out_is_exhausted() -> None:
    config = SearchConfig(max_leaf_rollouts=2, oracle="never", max_rounds=100)
    tree = run(coin_roll_out(0.0, 1), config=config)
    assert tree.stop_reason == "exhausted"


def test_a_plan_at_the_length_limit_is_a_leaf() -> None:
    tree = run(coin_roll_out(0.0, 1), config=SearchConfig(max_sub_questions=2, oracle="never"))
    assert max(len(node.plan) for node in tree.nodes) == 2
    assert all(not any(node.decomposable) for node in tree.nodes if len(node.plan) == 2)


def test_malformed_proposals_are_counted() -> None:
    class Broken(ToyPolicy):
        async def propose(self, sub_question: str, count: int) -> Proposal:
            return Proposal(splits=(), malformed=2)

    assert run(coin_roll_out(1.0, 1), policy=Broken(GOOD_SPLITS)).dropped_splits.malformed == 2


def test_uct_is_the_papers_formula() -> None:
    tree = Tree("q", decomposable=True, origin="policy")
    for text in ("a", "b"):
        plan = Plan(sub_questions=(text, "#1 x"))
        assert tree.reserve(plan)
        tree.add_child(tree.root, plan, (False, False), "policy")
    first, second = tree.nodes[1:]
    assert tree.uct(first, 0.6) == float("inf")
    for reward in (1.0, 0.0, 1.0):
        tree.backpropagate(first, reward)
    tree.backpropagate(second, 0.0)
    assert tree.uct(first, 0.6) == pytest.approx(2 / 3 + 0.6 * (2 * 1.3862943611 / 3) ** 0.5)
    assert tree.select(0.6) is first
    tree.mark_pending(first, +1)
    assert tree.uct(first, 0.6) == pytest.approx(2 / 4 + 0.6 * (2 * 1.6094379124 / 4) ** 0.5)
    assert tree.select(0.6) is second
    tree.mark_pending(first, -1)
    assert (first.pending, tree.root.pending) == (0, 0)


def cut_at(roll_out, *numbers: int):
    """The same rollouts, but these of every plan come to no end."""

    async def cut(plan: Plan, variation: Variation):
        return None if variation.sample in numbers else await roll_out(plan, variation)

    return cut


def test_a_rollout_that_was_cut_is_neither_a_wrong_answer_nor_made_again() -> None:
    begun: list[tuple[tuple[str, ...], int]] = []

    async def noting(plan: Plan, variation: Variation):
        begun.append((plan.sub_questions, variation.sample))
        return await coin_roll_out(1.0, 1)(plan, variation)

    tree = run(cut_at(noting, 0, 2))
    check_statistics(tree)
    assert {r.reward for r in tree.rollouts} == {1.0}
    assert len(begun) == len(set(begun)) and {number for _, number in begun} & {0, 2} == set()


@pytest.mark.parametrize("cut", [True, False])
def test_where_the_plain_rollout_was_cut_the_next_one_keeps_nothing(cut: bool) -> None:
    second: list[Variation] = []

    async def noting(plan: Plan, variation: Variation):
        second.extend([variation] if variation.sample == 1 else [])
        return None if cut and not variation.sample else await coin_roll_out(0.0, 1)(plan, variation)

    run(noting, config=PROVOKED)
    assert {variation.base is None for variation in second} == {cut}


@pytest.mark.parametrize("policy", [ToyPolicy(GOOD_SPLITS), ToyPolicy({})])
def test_a_search_whose_rollouts_are_all_cut_ends_with_nothing(policy: ToyPolicy) -> None:
    tree = run(cut_at(coin_roll_out(1.0, 1), *range(100)), policy=policy, config=SearchConfig(max_rounds=10_000))
    assert (tree.rollouts, tree.stop_reason) == ((), "exhausted")
    assert all((node.visits, node.value) == (0, 0.0) for node in tree.nodes)


def test_without_a_verdict_the_question_is_split_and_its_parts_are_not() -> None:
    class Silent(ToyPolicy):
        async def judge(self, sub_questions: Sequence[str]) -> Sequence[bool | None]:
            return [None] * len(sub_questions)

    tree = run(coin_roll_out(1.0, 1), policy=Silent(GOOD_SPLITS), question=replace(QUESTION, decomposition=()))
    assert tree.nodes[0].decomposable == (True,) and len(tree.nodes) > 1
    assert not any(any(node.decomposable) for node in tree.nodes[1:])
    assert tree.dropped_splits.malformed == len({text for node in tree.nodes for text in node.plan})
