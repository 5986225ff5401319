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


def test_a_difference_that_led_to_the_same_answer_is_passed_over() -> None:
    """The first answers agree, though their passages do not: the error is where the answers part."""
    wrong = rollout(1, 1, PLAN, "ann Rome Tiber", "xy cd gh", 0.0)
    found = only(reflections(tree(RIGHT, wrong), same, holds, CONFIG))
    assert (found.error, found.pair.diverges_at) == ("reasoning", 1)


def test_a_search_that_brought_the_answer_is_not_blamed() -> None:
    wrong = rollout(1, 1, PLAN, "Ann Rome Tiber", "ab xy gh", 0.0)
    had_it = Passage(id="x", title="Ann", text="Ann left Turin for Rome.", score=0.0)
    wrong = replace(wrong, steps=(wrong.steps[0], replace(wrong.steps[1], passages=(had_it,)), wrong.steps[2]))
    found = only(reflections(tree(RIGHT, wrong), same, holds, CONFIG))
    assert found.error == "reasoning"
    mistake, mended = mended_steps(found)[1:3]
    assert (mistake.answer, mended.answer) == ("Rome", "Turin")
    assert mended.passages == mistake.passages == (had_it,) and mended.query == mistake.query


def test_an_abstention_leaves_no_answer_and_is_no_mistake_to_show() -> None:
    wrong = rollout(1, 1, PLAN, "Ann Rome Tiber", "ab cd gh", 0.0)
    assert only(reflections(tree(RIGHT, wrong), same, holds, CONFIG)).error == "reasoning"
    abstains = replace(wrong, steps=(wrong.steps[0], *(replace(step, answer="") for step in wrong.steps[1:])))
    assert reflections(tree(RIGHT, abstains), same, holds, CONFIG) == []


def test_a_pair_with_one_difference_alone_comes_first() -> None:
    far = rollout(1, 1, PLAN, "Ann Rome Tiber", "xy zw gh", 0.0)
    near = replace(rollout(2, 1, PLAN, "Ann Bern Aare", "ab cy gh", 0.0), variation="query", varied_step=1, base=0)
    found = reflections(tree(RIGHT, far, near), same, holds, CONFIG)
    assert [(f.wrong.index, f.parts_there) for f in found] == [(2, True), (1, False)]
    assert found[0].difference < found[1].difference
    elsewhere = replace(near, varied_step=0)
    assert [f.wrong.index for f in reflections(tree(RIGHT, far, elsewhere), same, holds, CONFIG)] == [1, 2]


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
    assert [r.index for r in correct_rollouts(tree(inner, RIGHT))] == [0]


def test_all_pairs_of_a_type_come_out_and_the_most_different_first() -> None:
    wrong = [
        rollout(1, 1, PLAN, "Ann Turin-East Tiber", "ab cy gh", 0.0),
        rollout(2, 1, PLAN, "Ann Rome Tiber", "ab xy gh", 0.0),
        rollout(3, 1, PLAN, "Ann Oslo Tiber", "ab cy gh", 0.0),
        rollout(4, 1, PLAN, "Ann Bern Tiber", "ab cz gh", 0.0),
    ]
    found = reflections(tree(RIGHT, *wrong), same, holds, ReflectionConfig(max_pairs=1))
    assert {f.error for f in found} == {"retrieval"}
    assert [f.wrong.index for f in found] == [2, 1, 3, 4]
    assert found[0].difference > found[1].difference


def test_the_same_mistake_is_shown_once() -> None:
    wrong = [rollout(i, 1, PLAN, f"Ann Rome Tiber{i}", "ab cd gh", 0.0) for i in (1, 2, 3)]
    assert len(reflections(tree(RIGHT, *wrong), same, holds, CONFIG)) == 1


def test_a_query_in_other_words_that_finds_and_answers_the_same_is_a_repeat() -> None:
    first = RIGHT.steps[0]
    reworded = replace(RIGHT, index=1, steps=(replace(first, query="Maker of A"), *RIGHT.steps[1:]))
    other = rollout(2, 1, PLAN, "Ann Turin Po", "xy cd ef", 1.0)
    assert [r.index for r in correct_rollouts(tree(RIGHT, reworded, other))] == [0, 2]


def test_correct_rollouts_give_each_plan_its_turn() -> None:
    again = rollout(1, 1, PLAN, "Ann Milan Po", "ab cd ef", 1.0)
    repeat = rollout(2, 1, PLAN, "Ann Turin Po", "ab cd ef", 1.0)
    other = rollout(3, 2, OTHER, "Ann Rome Po", "ab xy ef", 1.0)
    chosen = correct_rollouts(tree(RIGHT, again, repeat, other))
    assert [r.index for r in chosen] == [0, 3, 1]


CAPTAIN = ("Who wrote On Apes?", "On what ship did #1 sail?", "Who was the captain of #2 when #1 sailed?")
ANY_CAPTAIN = ("Who is the author of On Apes?", "On what ship did #1 sail?", "Who is the captain of #2?")
REWORDED = ("Who is the author of On Apes?", "On what ship did #1 sail?", "Who was captain of #2 when #1 sailed?")
VOYAGE = "Who was captain of the ship on which the author of On Apes did sail when he sailed?"


def voyage(wrong_plan: tuple[str, ...], wrong_answers: str, *, found: str | None = None) -> list[Reflection]:
    """A plan that failed twice beside `CAPTAIN`, which worked. `found`: the text that its last search brought."""
    rollouts = [rollout(0, 1, CAPTAIN, "Ann Beagle Fitz", "ab cd ef", 1.0)]
    rollouts += [rollout(i, 2, wrong_plan, f"{wrong_answers}{i}", "uv cd gh", 0.0) for i in (1, 2)]
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


def brothers(*wrong: Rollout, right_query: str = "", beside: str = "") -> list[Reflection]:
    """Failed rollouts beside a plan in other words that found the name, by its own query or by another one."""
    right = rollout(0, 1, ("Who has won it most often?", "Who is the sibling of #1?"), "Andy Jamie", "dr bs", 1.0)
    if right_query:
        first = replace(right.steps[0], query=right_query, query_rephrased=True)
        right = replace(right, steps=(first, right.steps[1]))
    plain = rollout(len(wrong) + 1, 1, right_plan := ("Who has won it most often?", "Who is the sibling of #1?"),
                    "Mo None", beside or "ef hi", 0.0)  # fmt: skip
    made = tree(right, *wrong, plain)
    plans = (("Whole?",), right_plan, ("Which player has won most awards?", "Who is the brother of #1?"))
    nodes = tuple(replace(node, plan=plan) for node, plan in zip(made.nodes, plans, strict=True))
    return [each for each in reflections(replace(made, nodes=nodes), same, holds, CONFIG)
            if each.error == "decomposition"]  # fmt: skip


FARAH = ("Which player has won most awards?", "Who is the brother of #1?")


def test_a_plan_is_not_blamed_where_a_reworded_query_found_it() -> None:
    wrong = [rollout(i, 2, FARAH, f"Farah Ali{i}", "da bc", 0.0) for i in (1, 2)]
    assert brothers(*wrong)
    assert brothers(*wrong, right_query="Winner of most of them") == []


def test_a_plan_is_not_blamed_where_the_right_ones_own_query_brings_the_same_passages() -> None:
    wrong = [rollout(i, 2, FARAH, f"Farah Ali{i}", "da bc", 0.0) for i in (1, 2)]
    assert brothers(*wrong, beside="da hi") == []


def test_one_slip_that_other_rollouts_keep_does_not_make_a_plan_fail_twice() -> None:
    first = rollout(1, 2, FARAH, "Farah Ali", "da bc", 0.0)
    kept = replace(rollout(2, 2, FARAH, "Farah Ben", "da bc", 0.0), base=1, variation="answer", varied_step=1)
    assert brothers(first, kept) == []
    drawn = replace(kept, varied_step=0)
    assert [each.pair.wrong_step for each in brothers(first, drawn)] == [0]
    elsewhere = replace(rollout(2, 2, FARAH, "Farah Ben", "ky bc", 0.0), base=1, variation="query", varied_step=0)
    assert brothers(first, elsewhere)
    nothing_found = replace(kept, variation="query", varied_step=0)
    assert brothers(first, nothing_found)


def test_the_policys_words_come_before_the_gold_decompositions() -> None:
    made = tree(RIGHT, rollout(1, 2, OTHER, "Ann Rome Po", "ab xy ef", 1.0))
    gold_first = replace(made, nodes=(made.nodes[0], replace(made.nodes[1], origin="oracle"), made.nodes[2]))
    assert [r.index for r in correct_rollouts(made)] == [0, 1]
    assert [r.index for r in correct_rollouts(gold_first)] == [1, 0]


GLISSON = (
    "What is the population ranking of the city that has a courthouse in James Glisson's birthplace in the country "
    "that passed the Judiciary Act of 1869?"
)
"""The plans, passages and answers below are of a strong model's search for it."""
AT_COURTHOUSE = (
    "What is James Glisson's birthplace?",
    "Which country passed the Judiciary Act of 1869?",
    "Which city has a courthouse in #1 in #2?",
    "What is the population ranking of #3?",
)
AT_BIRTHPLACE = (
    "Which country passed the Judiciary Act of 1869?",
    "What is James Glisson's birthplace in #1?",
    "Which city has a courthouse in #2?",
    "What is the population ranking of #3?",
)


def test_a_plan_is_not_blamed_for_where_a_reference_hangs() -> None:
    right = rollout(0, 1, AT_COURTHOUSE, "Jackson US Jacksonville 12th", "a b c d", 1.0)
    wrong = [rollout(i, 2, AT_BIRTHPLACE, f"US Jackson Marianna third{i}", "b a e f", 0.0) for i in (1, 2)]
    made = tree(right, *wrong)
    nodes = [replace(n, plan=p) for n, p in zip(made.nodes, ((GLISSON,), AT_COURTHOUSE, AT_BIRTHPLACE), strict=True)]
    assert reflections(replace(made, nodes=tuple(nodes), question=GLISSON), same, holds, CONFIG) == []
    other = ("Who is James Glisson?", *AT_BIRTHPLACE[1:])
    nodes[2] = replace(nodes[2], plan=other)
    assert reflections(replace(made, nodes=tuple(nodes), question=GLISSON), same, holds, CONFIG) != []


def test_a_plan_that_sets_a_condition_on_the_wrong_thing_is_blamed() -> None:
    """All its words are the question's, but the province that is meant is no longer told from the others."""
    right_plan = ("Which province of Canada lies on the Pacific?", "What is the capital of #1?")
    wrong_plan = ("What is the province of Canada?", "What is the capital of #1 that lies on the Pacific?")
    question = "What is the capital of the province of Canada that lies on the Pacific?"
    right = rollout(0, 1, right_plan, "Columbia Victoria", "a b", 1.0)
    wrong = [rollout(i, 2, wrong_plan, f"Ontario Banff{i}", "c d", 0.0) for i in (1, 2)]
    made = tree(right, *wrong)
    nodes = [replace(n, plan=p) for n, p in zip(made.nodes, ((question,), right_plan, wrong_plan), strict=True)]
    found = reflections(replace(made, nodes=tuple(nodes), question=question), same, holds, CONFIG)
    assert [(f.error, f.pair.wrong_step) for f in found] == [("decomposition", 0)]
