"""What is varied next: right rollouts are broken, failed ones mended, and neither for ever."""

from __future__ import annotations

from dataclasses import replace

from trailforge.mcts.contrasts import Contrasts, Fault, Variation
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
