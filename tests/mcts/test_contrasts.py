"""What is varied next: right rollouts are broken, failed ones mended, and neither for ever."""

from __future__ import annotations

from dataclasses import replace

from trailforge.mcts.contrasts import Contrasts, DrawnAnswers, Fault, Variation, are_alike
from trailforge.mcts.tree import Tree, TreeNode
from trailforge.schemas import Passage, Plan, Rollout, Step, VariationKind

PLAN = Plan(sub_questions=("Who directed Metropolis?", "Where was #1 born?"))
FOUND = (Passage(id="p", title="", text="", score=1.0),)


def leaf() -> TreeNode:
    tree = Tree("Where was the director of Metropolis born?", decomposable=True, origin="policy")
    return tree.add_child(tree.root, PLAN, (False, False), "policy")


def rollout(node: TreeNode, *answers: str, reward: float, varied: Variation | None = None, index: int = 0) -> Rollout:
    steps = tuple(
        Step(index=i, sub_question=asked, query=asked, passages=FOUND, answer=answer)
        for i, (asked, answer) in enumerate(zip(PLAN.sub_questions, answers, strict=True))
    )
    return Rollout(
        index=index,
        node=node.id,
        variation=varied.kind if varied else "none",
        varied_step=varied.step if varied else None,
        steps=steps,
        answer=answers[-1],
        reward=reward,
    )


def find_fault(step: Step) -> Fault | None:
    """In this file an answer with a question mark was missed, one with an exclamation mark misread."""
    return "missed" if step.answer.endswith("?") else "misread" if step.answer.endswith("!") else None


def tries(node: TreeNode, *answers: str, reward: float) -> list[tuple[str, int | None]]:
    """What is varied, in turn, where nothing ever comes of it."""
    made = [rollout(node, *answers, reward=reward)]
    found: list[tuple[str, int | None]] = []
    while len(found) < 20:
        variation = Contrasts(made, find_fault, 2).mend(node, len(made))
        if variation is None:
            break
        found.append((variation.kind, variation.step))
        made.append(replace(made[0], index=len(made), variation=variation.kind, varied_step=variation.step))
    return found


def test_the_first_answer_that_cannot_stand_is_mended_for_what_follows_rests_on_it() -> None:
    """Twice: by other words where it was missed, by another draw where it was misread. Then the plan is given up."""
    for reward in (0.0, 1.0):  # a right rollout on a guess is mended as a wrong one is
        assert tries(leaf(), "Lang?", "Vienna?", reward=reward) == [("query", 0)] * 2
        assert tries(leaf(), "Lang!", "Vienna?", reward=reward) == [("answer", 0)] * 2
        assert tries(leaf(), "Lang", "Vienna?", reward=reward) == [("query", 1)] * 2


def test_where_each_answer_stands_each_is_drawn_again_the_first_one_first() -> None:
    assert tries(leaf(), "Lang", "Berlin", reward=0.0) == [("answer", 0), ("answer", 1)] * 2


def test_a_plan_is_faulty_only_while_no_right_rollout_has_answers_that_stand() -> None:
    node = leaf()
    lucky, sound = rollout(node, "Lang?", "Vienna", reward=1.0), rollout(node, "Lang", "Vienna", reward=1.0, index=1)
    wrong = rollout(node, "Lang?", "Berlin", reward=0.0)
    assert Contrasts([lucky], find_fault, 2).is_faulty(node)
    assert not Contrasts([lucky, sound], find_fault, 2).is_faulty(node)
    assert not Contrasts([wrong], find_fault, 2).is_faulty(node), "it does not come through at all"


def test_what_stands_furthest_is_mended_next() -> None:
    """A first answer that was mended is not mended again, though the rollout that mended it missed the second."""
    node = leaf()
    misread = rollout(node, "Murnau!", "Vienna", reward=1.0)
    varied = Variation(kind="answer", step=0, base=misread)
    for reward in (1.0, 0.0):
        mended = rollout(node, "Lang", "Vienna?", reward=reward, varied=varied, index=1)
        worse = rollout(node, "Fritz!", "Vienna?", reward=reward, varied=varied, index=2)
        first = replace(misread, reward=reward)
        variation = Contrasts([first, mended, worse], find_fault, 2).mend(node, 3)
        assert variation is not None and (variation.kind, variation.step, variation.base) == ("query", 1, mended)


def test_of_rollouts_that_stand_as_far_the_last_one_is_mended() -> None:
    node = leaf()
    misread = rollout(node, "Lang", "Berlin!", reward=1.0)
    missed = rollout(node, "Lang", "Vienna?", reward=1.0, varied=Variation(kind="answer", step=1), index=1)
    variation = Contrasts([misread, missed], find_fault, 2).mend(node, 2)
    assert variation is not None and (variation.kind, variation.base) == ("query", missed)


def test_each_query_of_a_right_rollout_is_reworded_once_to_miss_and_each_answer_drawn_twice() -> None:
    node = leaf()
    kinds: tuple[tuple[VariationKind, int], ...] = (("query", 1), ("answer", 2))
    for kind, times in kinds:
        made = [rollout(node, "Lang", "Vienna", reward=1.0)]
        steps = []
        while (target := Contrasts(made, find_fault, 2).break_right([node], kind)) is not None:
            variation = target[1]
            assert target[0] is node and variation.kind == kind and variation.misses == (kind == "query")
            steps.append(variation.step)
            made.append(rollout(node, "Lang", "Vienna", reward=1.0, varied=variation, index=len(made)))
        assert steps == [0, 1] * times


def sampled(node: TreeNode, first: Rollout, same: bool) -> list[tuple[str, int | None]]:
    """What is rolled out, in turn, where each draw says the `same` as the one before, or something else."""
    made, found = [first], list[tuple[str, int | None]]()
    while len(found) < 20:
        variation = Contrasts(made, find_fault, 2, errors="sampled").repeat(node, len(made))
        if variation is None:
            break
        assert variation.base is None and not variation.misses, "nothing is kept, and nothing is to be lost"
        found.append((variation.kind, variation.step))
        again = tuple(
            replace(step, answer_sample=len(made), answer=step.answer if same else f"{step.answer} {len(made)}")
            for step in first.steps
        )
        number = len(made)
        made.append(replace(first, index=number, variation=variation.kind, varied_step=variation.step, steps=again))
    return found


def test_a_sampled_plan_is_rolled_out_by_its_own_queries_and_by_others_until_nothing_new_would_come() -> None:
    node = leaf()
    for reward in (0.0, 1.0):
        first = rollout(node, "Lang?", "Vienna", reward=reward)
        turns = [("query", 0), ("query", 1)]
        assert sampled(node, first, same=True) == [("answer", None), *turns, *turns]
        wavering = sampled(node, first, same=False)
        assert len(wavering) == 20 and wavering.count(("answer", None)) == 16, "only the rewordings end"


def test_a_settled_answer_is_not_drawn_again_to_break_or_mend() -> None:
    node = leaf()
    first = rollout(node, "Lang", "Vienna", reward=1.0)
    drawn = Variation(kind="answer", step=0, base=first)
    again = rollout(node, "Lang", "Vienna", reward=1.0, varied=drawn, index=1)
    again = replace(again, steps=(replace(again.steps[0], answer_sample=1), again.steps[1]))
    target = Contrasts([first, again], find_fault, 2).break_right([node], "answer")
    assert target is not None and target[1].step == 1
    wrong = [replace(each, reward=0.0) for each in (first, again)]
    mend = Contrasts(wrong, find_fault, 2).mend(node, 2)
    assert mend is not None and (mend.kind, mend.step) == ("answer", 1)


def test_the_models_own_plans_are_varied_before_the_gold_decomposition() -> None:
    tree = Tree("Where was the director of Metropolis born?", decomposable=True, origin="policy")
    gold = tree.add_child(tree.root, PLAN, (False, False), "oracle")
    own = tree.add_child(tree.root, Plan(sub_questions=("Who made Metropolis?", "Where was #1 born?")), (), "policy")
    made = [rollout(gold, "Lang", "Vienna", reward=1.0), rollout(own, "Lang", "Vienna", reward=1.0, index=1)]
    target = Contrasts(made, find_fault, 2).break_right([gold, own], "query")
    assert target is not None and target[0] is own


def test_a_prompt_is_settled_while_its_last_draws_agree() -> None:
    node = leaf()
    question, passages = "Who directed Metropolis?", FOUND
    first = rollout(node, "Lang", "Vienna", reward=1.0)

    def drawn(*answers: str) -> DrawnAnswers:
        rollouts = [
            replace(first, index=number, steps=(replace(first.steps[0], answer=answer, answer_sample=number),))
            for number, answer in enumerate(answers)
        ]
        return DrawnAnswers(rollouts, 2, are_alike)

    assert drawn().room(question, passages) == 2 and drawn("Lang").room(question, passages) == 1
    settled = drawn("Lang", "lang.").settled(question, passages)
    assert settled is not None and settled.answer == "Lang"
    assert drawn("Lang", "Lang").room(question, passages) == 0
    assert drawn("Lang", "Murnau").settled(question, passages) is None
    assert drawn("Lang", "Lang", "Murnau").room(question, passages) == 1
    settled = drawn("Murnau", "Lang", "Lang").settled(question, passages)
    assert settled is not None and settled.answer == "Lang", "a slip at first does not keep it open for ever"
    assert drawn("Lang", "Lang").settled(question, ()) is None, "over other passages it is another prompt"
    one = [first, replace(first, index=1)]
    assert DrawnAnswers(one, 2, are_alike).room(question, passages) == 1, "one call behind two rollouts is one draw"
