"""Which pairs become which error, and where the mended tail begins."""

from __future__ import annotations

from dataclasses import replace

from trailforge.mcts.reflection import Reflection, ReflectionConfig, correct_rollouts, mended_steps, reflections
from trailforge.schemas import DroppedSplits, Node, Passage, Rollout, SearchTree, Step

PLAN = ("Who made A?", "Where was #1 born?", "What river crosses #2?")
OTHER = ("Who made A?", "Where did #1 die?", "What river crosses #2?")
CONFIG = ReflectionConfig()


def same(a: str, b: str) -> bool:
    return a.casefold() == b.casefold()


def holds(text: str, answer: str) -> bool:
    return answer in text


def rollout(index: int, node: int, plan: tuple[str, ...], answers: str, passages: str, reward: float) -> Rollout:
    """`answers` and `passages`: a word per step; a passage word is the set of ids by letter."""
    steps = tuple(
        Step(
            index=i,
            sub_question=text,
            query=text,
            passages=tuple(Passage(id=c, title=c, text=c, score=0.0) for c in found),
            answer=answer,
        )
        for i, (text, answer, found) in enumerate(zip(plan, answers.split(), passages.split(), strict=True))
    )
    return Rollout(
        index=index, node=node, variation="none", varied_step=None, steps=steps, answer=steps[-1].answer, reward=reward
    )


def tree(*rollouts: Rollout) -> SearchTree:
    plans = [("Whole?",), PLAN, OTHER]
    nodes = tuple(
        Node(id=i, parent=None if i == 0 else 0, plan=plan, origin="policy", visits=0, value=0.0,
             decomposable=(i == 0,) * len(plan), depth=min(i, 1))
        for i, plan in enumerate(plans)
    )  # fmt: skip
    return SearchTree(
        question_id="q", question="Whole?", answer="Po", answer_aliases=(), nodes=nodes, rollouts=rollouts,
        stop_reason="satisfied", oracle_used=False, dropped_splits=DroppedSplits(), rounds=1, max_depth=1,
        calls=0, prompt_tokens=0, completion_tokens=0, cost=0.0,
    )  # fmt: skip


RIGHT = rollout(0, 1, PLAN, "Ann Turin Po", "ab cd ef", 1.0)


def only(found: list[Reflection]) -> Reflection:
    assert len(found) == 1
    return found[0]


def test_other_passages_at_the_first_difference_is_a_retrieval_error() -> None:
    wrong = rollout(1, 1, PLAN, "Ann Rome Tiber", "ab xy gh", 0.0)
    found = only(reflections(tree(RIGHT, wrong), same, holds, CONFIG))
    assert found.error == "retrieval"
    assert (found.pair.diverges_at, found.pair.wrong_step, found.pair.right_step) == (1, 1, 1)
    assert [(s.answer, s.is_mistake) for s in mended_steps(found)] == [
        ("Ann", False), ("Rome", True), ("Turin", False), ("Po", False),
    ]  # fmt: skip
    assert mended_steps(found)[2].passages == RIGHT.steps[1].passages


def test_same_passages_and_another_answer_is_a_reasoning_error() -> None:
    wrong = rollout(1, 1, PLAN, "Ann Rome Tiber", "ab cd gh", 0.0)
    found = only(reflections(tree(RIGHT, wrong), same, holds, CONFIG))
    assert (found.error, found.pair.diverges_at) == ("reasoning", 1)


def test_the_order_of_passages_makes_no_difference() -> None:
    wrong = rollout(1, 1, PLAN, "Ann Rome Tiber", "ba dc gh", 0.0)
    assert only(reflections(tree(RIGHT, wrong), same, holds, CONFIG)).error == "reasoning"


def test_other_passages_but_the_same_answer_is_no_pair() -> None:
    wrong = rollout(1, 1, PLAN, "ann Rome Tiber", "xy cd gh", 0.0)
    assert reflections(tree(RIGHT, wrong), same, holds, CONFIG) == []


def test_an_empty_answer_is_no_mistake_to_show() -> None:
    base = rollout(1, 1, PLAN, "Ann ? ?", "ab cd ef", 0.0)
    assert reflections(tree(RIGHT, base), same, holds, CONFIG) == []


def test_another_plan_from_j_is_a_decomposition_error() -> None:
    wrong = [rollout(i, 2, OTHER, f"Ann Rome Tiber{i}", "ab xy gh", 0.0) for i in (1, 2)]
    found = reflections(tree(RIGHT, *wrong), same, holds, CONFIG)
    assert {f.error for f in found} == {"decomposition"}
    assert (found[0].pair.diverges_at, found[0].pair.wrong_step, found[0].pair.right_step) == (1, 1, 1)
    assert [(s.sub_question, s.is_mistake) for s in mended_steps(found[0])] == [
        (PLAN[0], False), (OTHER[1], True), (PLAN[1], False), (PLAN[2], False),
    ]  # fmt: skip


def test_a_plan_that_asks_the_same_in_other_words_is_not_blamed() -> None:
    reworded = tuple(f"What is it: {sub_question}" for sub_question in PLAN)
    wrong = [rollout(i, 2, reworded, f"Ann Turin Tiber{i}", "ab cd gh", 0.0) for i in (1, 2)]
    nodes = list(tree(RIGHT, *wrong).nodes)
    nodes[2] = replace(nodes[2], plan=reworded)
    assert reflections(replace(tree(RIGHT, *wrong), nodes=tuple(nodes)), same, holds, CONFIG) == []


def test_the_wrong_step_is_the_first_that_the_right_tail_refutes() -> None:
    wrong = [rollout(i, 2, OTHER, f"Ann Turin Tiber{i}", "ab xy gh", 0.0) for i in (1, 2)]
    found = reflections(tree(RIGHT, *wrong), same, holds, CONFIG)[0]
    assert (found.pair.diverges_at, found.pair.wrong_step, found.pair.right_step) == (1, 2, 1)


def test_a_plan_that_works_sometimes_is_not_blamed() -> None:
    wrong = rollout(1, 2, OTHER, "Ann Rome Tiber", "ab xy gh", 0.0)
    lucky = rollout(2, 2, OTHER, "Ann Rome Po", "ab xy gh", 1.0)
    errors = {f.error for f in reflections(tree(RIGHT, wrong, lucky), same, holds, CONFIG)}
    assert "decomposition" not in errors


def test_a_plan_tried_once_is_not_blamed() -> None:
    wrong = rollout(1, 2, OTHER, "Ann Rome Tiber", "ab xy gh", 0.0)
    assert reflections(tree(RIGHT, wrong), same, holds, CONFIG) == []


def test_plans_that_disagree_on_answers_before_j_are_no_pair() -> None:
    wrong = [rollout(i, 2, OTHER, f"Bob Rome Tiber{i}", "ab xy gh", 0.0) for i in (1, 2)]
    assert reflections(tree(RIGHT, *wrong), same, holds, CONFIG) == []


def test_rollouts_of_inner_nodes_are_not_used() -> None:
    inner = Rollout(index=1, node=0, variation="none", varied_step=None, steps=RIGHT.steps[:1], answer="Po", reward=1.0)
    assert [r.index for r in correct_rollouts(tree(inner, RIGHT), CONFIG)] == [0]


def test_at_most_n_pairs_of_a_type_and_the_most_different_first() -> None:
    wrong = [
        rollout(1, 1, PLAN, "Ann Turin-East Tiber", "ab cd gh", 0.0),
        rollout(2, 1, PLAN, "Ann Rome Tiber", "ab xy gh", 0.0),
        rollout(3, 1, PLAN, "Ann Oslo Tiber", "ab cy gh", 0.0),
        rollout(4, 1, PLAN, "Ann Bern Tiber", "ab cz gh", 0.0),
    ]
    found = [
        f
        for f in reflections(tree(RIGHT, *wrong), same, holds, ReflectionConfig(max_pairs=2))
        if f.error == "retrieval"
    ]
    assert [f.wrong.index for f in found] == [2, 3]
    assert found[0].difference > found[1].difference


def test_the_same_mistake_is_shown_once() -> None:
    wrong = [rollout(i, 1, PLAN, f"Ann Rome Tiber{i}", "ab cd gh", 0.0) for i in (1, 2, 3)]
    assert len(reflections(tree(RIGHT, *wrong), same, holds, CONFIG)) == 1


def test_a_query_in_other_words_that_finds_and_answers_the_same_is_a_repeat() -> None:
    first = RIGHT.steps[0]
    reworded = replace(RIGHT, index=1, steps=(replace(first, query="Maker of A"), *RIGHT.steps[1:]))
    other = rollout(2, 1, PLAN, "Ann Turin Po", "xy cd ef", 1.0)
    assert [r.index for r in correct_rollouts(tree(RIGHT, reworded, other), ReflectionConfig(max_correct=2))] == [0, 2]


def test_correct_rollouts_give_each_plan_its_turn() -> None:
    again = rollout(1, 1, PLAN, "Ann Milan Po", "ab cd ef", 1.0)
    repeat = rollout(2, 1, PLAN, "Ann Turin Po", "ab cd ef", 1.0)
    other = rollout(3, 2, OTHER, "Ann Rome Po", "ab xy ef", 1.0)
    chosen = correct_rollouts(tree(RIGHT, again, repeat, other), ReflectionConfig(max_correct=3))
    assert [r.index for r in chosen] == [0, 3, 1]


CAPTAIN = ("Who wrote On Apes?", "On what ship did #1 sail?", "Who was the captain of #2 when #1 sailed?")
ANY_CAPTAIN = ("Who is the author of On Apes?", "On what ship did #1 sail?", "Who is the captain of #2?")
REWORDED = ("Who is the author of On Apes?", "On what ship did #1 sail?", "Who was captain of #2 when #1 sailed?")
VOYAGE = "Who was captain of the ship on which the author of On Apes did sail when he sailed?"


def voyage(wrong_plan: tuple[str, ...], wrong_answers: str, *, found: str | None = None) -> list[Reflection]:
    """A plan that failed twice beside `CAPTAIN`, which worked. `found`: the text that its last search brought."""
    rollouts = [rollout(0, 1, CAPTAIN, "Ann Beagle Fitz", "ab cd ef", 1.0)]
    rollouts += [rollout(i, 2, wrong_plan, f"{wrong_answers}{i}", "ab cd ef", 0.0) for i in (1, 2)]
    if found:
        page = Passage(id="i", title="Log", text=found, score=1.0)
        rollouts[1:] = [replace(r, steps=(*r.steps[:-1], replace(r.steps[-1], passages=(page,)))) for r in rollouts[1:]]
    made = tree(*rollouts)
    nodes = [replace(n, plan=p) for n, p in zip(made.nodes, ((VOYAGE,), CAPTAIN, wrong_plan), strict=True)]
    return reflections(replace(made, nodes=tuple(nodes), question=VOYAGE), same, holds, CONFIG)


def test_other_words_with_the_same_answer_are_no_difference() -> None:
    pair = voyage(ANY_CAPTAIN, "Ann Beagle Stokes")[0].pair
    assert (pair.diverges_at, pair.wrong_step, pair.right_step) == (2, 2, 2)


def test_a_plan_is_not_blamed_for_a_passage_that_was_misread() -> None:
    had_it = "Fitz was the captain of the Beagle when Ann sailed on it."
    assert voyage(ANY_CAPTAIN, "Ann Beagle Ann", found=had_it) == []
    assert (
        voyage(ANY_CAPTAIN, "Ann Beagle Stokes", found="Stokes was the captain of the Beagle.")[0].pair.wrong_step == 2
    )
    other_relation = (*ANY_CAPTAIN[:2], "Who built #2?")
    assert voyage(other_relation, "Ann Beagle Ann", found=had_it)[0].error == "decomposition"


def test_a_plan_in_the_questions_words_that_asks_for_the_same_things_is_not_blamed() -> None:
    assert voyage(REWORDED, "Ann Beagle Stokes") == []
    assert voyage(REWORDED, "Bob Bounty Bligh") == []
    other_relation = ("Who printed On Apes?", *REWORDED[1:])
    assert voyage(other_relation, "Bob Bounty Bligh")[0].pair.diverges_at == 0
