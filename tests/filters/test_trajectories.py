"""One test per reason to reject, and one that a good row passes all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.rows import AGAIN, DIED, FIRST, MISLED, PLAN, QUESTION, SECOND, step, trajectory
from trailforge.filters import FilterConfig, first_rejection, judge_trajectory
from trailforge.filters.gold_hops import follows_gold, hops_found, own_hop
from trailforge.filters.trajectories import (
    answer_before_found,
    circular_step,
    duplicate_trajectory,
    evidence_was_there,
    hops_out_of_order,
    malformed_conversation,
    missing_hop,
    redundant_search,
    same_twice,
    too_long,
    undue_reflection,
    ungrounded_step,
    unresolved_reference,
    unrewarded_answer,
    wrong_intermediate,
)
from trailforge.schemas import Hop, Message, Origin, Question, Trajectory


@pytest.mark.parametrize(
    "row",
    [
        trajectory(),
        trajectory(FIRST, DIED, SECOND, error="reasoning"),
        trajectory(FIRST, MISLED, AGAIN, error="retrieval"),
    ],
)
def test_good_rows_pass_every_filter(row) -> None:
    verdicts = judge_trajectory(row, QUESTION, [], FilterConfig())
    assert first_rejection(verdicts) is None
    assert len({v.reason for v in verdicts}) == len(verdicts) == 16


def test_unrewarded_answer() -> None:
    verdict = unrewarded_answer(trajectory(FIRST, replace(SECOND, answer="Berlin")))
    assert (verdict.keep, verdict.reason, verdict.score) == (False, "unrewarded_answer", 0.0)
    assert "Berlin" in verdict.detail and "Vienna" in verdict.detail


def test_unresolved_reference() -> None:
    verdict = unresolved_reference(trajectory(FIRST, replace(SECOND, query="In which city was #1 born?")))
    assert (verdict.keep, verdict.reason) == (False, "unresolved_reference")
    assert not unresolved_reference(trajectory(FIRST, replace(SECOND, passages=()))).keep


def test_an_answer_in_a_query_before_it_is_found() -> None:
    leaky = replace(FIRST, query="Who of Vienna directed Metropolis?")
    verdict = answer_before_found(trajectory(leaky, SECOND))
    assert (verdict.keep, verdict.reason) == (False, "answer_before_found")


def test_an_answer_in_the_plan_or_as_an_earlier_mistake() -> None:
    assert not answer_before_found(trajectory(plan=("Who directed Metropolis in Vienna?", PLAN[1]))).keep
    early = step(0, "Who directed Metropolis?", "Wien", "0", is_mistake=True)
    assert not answer_before_found(trajectory(early, FIRST, SECOND, error="reasoning")).keep


def test_answer_in_the_question_is_no_leak() -> None:
    row = trajectory(replace(FIRST, query="Who of Vienna directed Metropolis?"), SECOND)
    assert answer_before_found(replace(row, question="Was the director of Metropolis born in Vienna or Wien?")).keep


def test_answer_may_be_used_after_it_was_found() -> None:
    plan = (*PLAN, "In which country is #2?", "Where was #1 born?")
    third = step(2, "In which country is Vienna?", "Austria", "1", plan=plan)
    fourth = step(3, "Where was Fritz Lang born?", "Vienna", "1", plan=plan)
    assert answer_before_found(trajectory(FIRST, SECOND, third, fourth, plan=plan)).keep


def test_duplicate_trajectory() -> None:
    row = trajectory()
    verdict = duplicate_trajectory(replace(row, uid="u2"), [row])
    assert (verdict.keep, verdict.reason, verdict.score) == (False, "duplicate_trajectory", 1.0)
    assert duplicate_trajectory(trajectory(FIRST, DIED, SECOND, error="reasoning"), [row]).keep


def test_other_words_that_find_the_same_tell_nothing_new() -> None:
    row = trajectory()
    assert not duplicate_trajectory(trajectory(FIRST, AGAIN), [row]).keep
    assert not duplicate_trajectory(trajectory(replace(FIRST, answer="The director Fritz Lang"), SECOND), [row]).keep
    assert not duplicate_trajectory(trajectory(FIRST, replace(SECOND, answer="Wien")), [row]).keep
    assert duplicate_trajectory(trajectory(replace(FIRST, answer="Peter Lorre"), SECOND), [row]).keep
    rejected = first_rejection(judge_trajectory(trajectory(FIRST, AGAIN), QUESTION, [row], FilterConfig()))
    assert rejected is not None and rejected.reason == "duplicate_trajectory"
    idle = replace(AGAIN, passages=AGAIN.passages[:1])
    assert not duplicate_trajectory(trajectory(FIRST, idle), [row]).keep
    another = replace(SECOND.passages[0], id="9", text="It is Vienna where Fritz Lang was born.")
    and_it = replace(AGAIN, passages=(another, *SECOND.passages))
    assert not duplicate_trajectory(trajectory(FIRST, and_it), [row]).keep, "reworded, and one find is the same"
    assert duplicate_trajectory(trajectory(FIRST, replace(and_it, query="Who comes from Graz?")), [row]).keep
    assert duplicate_trajectory(trajectory(FIRST, replace(and_it, passages=(another,))), [row]).keep


def test_a_misreading_is_its_answer_and_a_blamed_search_its_passages() -> None:
    read_so, read_otherwise = replace(DIED, answer="Beverly Hills"), replace(DIED, answer="1890")
    row = trajectory(FIRST, read_so, SECOND, error="reasoning")
    assert duplicate_trajectory(trajectory(FIRST, read_otherwise, SECOND, error="reasoning"), [row]).keep
    row = trajectory(FIRST, MISLED, AGAIN, error="retrieval")
    same_search = trajectory(FIRST, replace(MISLED, answer="1931"), AGAIN, error="retrieval")
    assert not duplicate_trajectory(same_search, [row]).keep


def test_malformed_conversation() -> None:
    row = trajectory()
    broken = Message(role="assistant", content="<think>x</think>", train=True)
    verdict = malformed_conversation(replace(row, messages=(*row.messages[:-1], broken)))
    assert (verdict.keep, verdict.reason) == (False, "malformed_conversation")
    assert not malformed_conversation(trajectory(FIRST, replace(SECOND, answer="</answer>"))).keep


def test_too_long() -> None:
    row = trajectory()
    assert too_long(row, max_tokens=200, max_tool_calls=2).keep
    assert too_long(row, max_tokens=199, max_tool_calls=2).reason == "too_long"
    assert not too_long(row, max_tokens=199, max_tool_calls=2).keep
    assert not too_long(row, max_tokens=200, max_tool_calls=1).keep


def test_ungrounded_step() -> None:
    verdict = ungrounded_step(trajectory(FIRST, replace(SECOND, answer="Berlin, Germany")))
    assert (verdict.keep, verdict.reason, verdict.score) == (False, "ungrounded_step", 0.5)


def test_a_last_answer_in_more_words_is_grounded_where_a_passage_states_the_gold_answer() -> None:
    composite = replace(SECOND, answer="Vienna, Austria")
    assert ungrounded_step(trajectory(FIRST, composite)).keep
    assert ungrounded_step(replace(trajectory(FIRST, composite), answer="Wien", answer_aliases=("Vienna",))).keep
    assert not ungrounded_step(replace(trajectory(FIRST, composite), answer="Wien", answer_aliases=())).keep
    off_topic = replace(SECOND.passages[0], title="Danube", text="The Danube flows through Vienna.")
    assert not ungrounded_step(trajectory(FIRST, replace(composite, passages=(off_topic,)))).keep
    third = step(2, "In which country is Vienna?", "Austria", plan=(*PLAN, "In which country is #2?"))
    third = replace(third, passages=(replace(off_topic, text="Vienna is in Austria."),))
    on_the_way = trajectory(FIRST, composite, third, plan=(*PLAN, "In which country is #2?"))
    assert ungrounded_step(on_the_way).score == pytest.approx(2 / 3)


def test_a_mistake_may_be_ungrounded() -> None:
    made_up = replace(DIED, answer="Atlantis")
    assert ungrounded_step(trajectory(FIRST, made_up, SECOND, error="reasoning")).keep


def test_wrong_intermediate_only_where_the_plan_follows_the_gold() -> None:
    row = trajectory(replace(FIRST, answer="Peter Lorre"), SECOND, origin="oracle")
    verdict = wrong_intermediate(row, QUESTION, scope="oracle")
    assert (verdict.keep, verdict.reason) == (False, "wrong_intermediate")
    assert wrong_intermediate(row, QUESTION, scope="off").keep
    other_way = replace(FIRST, sub_question="Who is in M?", query="Who is in M?", answer="Peter Lorre")
    by_rule = trajectory(other_way, SECOND, origin="rule")
    assert wrong_intermediate(by_rule, QUESTION, scope="oracle").keep
    assert not wrong_intermediate(by_rule, QUESTION, scope="oracle_and_rule").keep


@pytest.mark.parametrize("origin", ["policy", "rule", "oracle"])
def test_a_gold_hop_is_known_by_its_text_at_any_place_and_in_any_plan(origin: Origin) -> None:
    plan = ("Where is M set?", PLAN[0], "In which city was #2 born?")
    elsewhere = replace(FIRST, index=1, answer="Peter Lorre")
    steps = (step(0, plan[0], "Germany", "2", plan=plan), elsewhere, replace(SECOND, index=2, sub_question=plan[2]))
    row = trajectory(*steps, plan=plan, origin=origin)
    verdict = wrong_intermediate(row, QUESTION, scope="oracle")
    assert verdict.score == 1 + (origin == "oracle")  # Germany is no hop's answer
    assert origin == "oracle" or "'Fritz Lang'" in verdict.detail
    by_query = replace(elsewhere, sub_question="Who made it?", query="who directed Metropolis ?")
    assert own_hop(by_query, QUESTION) == 0
    filled_in = replace(SECOND, index=2, sub_question="In which city was #2 born?")
    assert own_hop(filled_in, QUESTION) == 1
    assert own_hop(replace(filled_in, query="In which city was Peter Lorre born?"), QUESTION) is None
    assert own_hop(replace(SECOND, query="In which city was Peter Lorre born?"), QUESTION) == 1
    wording = (PLAN[0], "Where did #1 come into the world?")
    told = replace(SECOND, sub_question=wording[1], query="Where did Peter Lorre come into the world?")
    assert [own_hop(told, QUESTION), own_hop(told, QUESTION, wording)] == [None, 1]


def test_a_search_for_what_was_shown_before() -> None:
    plan = (PLAN[0], "In which year was #1 born?", "In which city was the man of #2 born?")
    year = step(1, "In which year was Fritz Lang born?", "1890", "1", plan=plan)
    city = step(2, "In which city was Fritz Lang born?", "Vienna", "1", "2", plan=plan)
    verdict = redundant_search(trajectory(FIRST, year, city, plan=plan), QUESTION)
    assert (verdict.keep, verdict.reason, verdict.score) == (False, "redundant_search", 1.0)
    assert "Vienna" not in verdict.detail and city.query in verdict.detail
    new = replace(city.passages[0], id="7")
    first, last = (replace(city, passages=each) for each in ((new, *city.passages), (*city.passages, new)))
    assert redundant_search(trajectory(FIRST, year, first, plan=plan), QUESTION).keep
    assert not redundant_search(trajectory(FIRST, year, last, plan=plan), QUESTION).keep, "what it reads was shown"
    early = replace(FIRST, passages=(*FIRST.passages, SECOND.passages[0]))
    assert redundant_search(trajectory(early, SECOND), QUESTION).keep
    assert not redundant_search(trajectory(early, SECOND), replace(QUESTION, decomposition=())).keep


def test_a_search_that_mends_is_not_redundant_but_the_same_query_under_another_plan_is() -> None:
    unknown = replace(QUESTION, decomposition=())
    assert redundant_search(trajectory(FIRST, DIED, SECOND, error="reasoning"), unknown).keep
    row = trajectory(FIRST, DIED, SECOND, error="decomposition", first_plan=(PLAN[0], "Where did #1 die?"))
    assert not redundant_search(row, unknown).keep
    other = replace(DIED, query="Where did Fritz Lang die?")
    assert redundant_search(replace(row, steps=(FIRST, other, SECOND)), unknown).keep


def test_one_gold_hop_does_not_answer_two_steps() -> None:
    plan = (PLAN[0], "Who is #1?", PLAN[1])
    again = step(1, "Who is Fritz Lang?", "Fritz Lang", "0", plan=plan)
    row = trajectory(FIRST, again, replace(SECOND, index=2), plan=plan, origin="oracle")
    verdict = wrong_intermediate(row, QUESTION, scope="oracle")
    assert not verdict.keep and "found before" in verdict.detail


CLEMSON = Question(
    id="q2",
    question="Who has more titles than the school with Fort Hill or that of the state which Edwards won?",
    answer="University of South Carolina",
    answer_aliases=("USC",),
    decomposition=(
        Hop(question="Which state did Edwards win?", answer="South Carolina", support_id="0"),
        Hop(question="Where is Fort Hill?", answer="Clemson", support_id="1"),
        Hop(question="Who has more titles, #1 or #2?", answer="University of South Carolina", support_id="2"),
    ),
)
CLEMSON_PLAN = tuple(hop.question for hop in CLEMSON.decomposition)


def clemson_row(fort: str, **changes: object) -> Trajectory:
    answers = ("South Carolina", fort, "University of South Carolina")
    queries = (*CLEMSON_PLAN[:2], f"Who has more titles, South Carolina or {fort}?")
    steps = [step(n, query, answers[n], "0", plan=CLEMSON_PLAN) for n, query in enumerate(queries)]
    return trajectory(*steps, plan=CLEMSON_PLAN, question=CLEMSON, **changes)  # type: ignore[arg-type]


def test_a_step_that_asks_a_hops_question_has_to_give_that_hops_answer() -> None:
    verdict = wrong_intermediate(clemson_row("South Carolina", origin="oracle"), CLEMSON, scope="oracle")
    assert (verdict.keep, verdict.score) == (False, 1.0) and "'Clemson'" in verdict.detail
    assert wrong_intermediate(clemson_row("Clemson", origin="oracle"), CLEMSON, scope="oracle").keep
    assert wrong_intermediate(clemson_row("Clemson, South Carolina", origin="oracle"), CLEMSON, scope="oracle").keep
    turned = trajectory(replace(FIRST, answer="Vienna"), SECOND, origin="oracle")
    assert not wrong_intermediate(turned, QUESTION, scope="oracle").keep


def test_part_of_the_last_hops_answer_on_the_way_is_not_that_hops() -> None:
    row = clemson_row("South Carolina", origin="oracle")
    asked = "In which place is Fort Hill?"
    reworded = replace(row.steps[1], sub_question=asked, query=asked)
    row = replace(row, steps=(row.steps[0], reworded, row.steps[2]))
    verdict = wrong_intermediate(row, CLEMSON, scope="oracle")
    assert not verdict.keep and "no gold hop" in verdict.detail
    assert hops_found(row.steps, CLEMSON) == [[0], [0], [0, 2]]
    assert hops_found(clemson_row("University of South Carolina").steps, CLEMSON) == [[0], [0, 2], [0, 2]]
    assert follows_gold(row.steps, CLEMSON) is False
    assert follows_gold(clemson_row("Clemson").steps, CLEMSON) is True


def test_a_query_that_names_one_thing_in_the_place_of_two() -> None:
    verdict = same_twice(clemson_row("south carolina"))
    assert (verdict.keep, verdict.reason, verdict.score) == (False, "same_twice", 1.0)
    assert "South Carolina or south carolina" in verdict.detail
    assert same_twice(clemson_row("Clemson")).keep
    one_place = step(
        1, "Fritz Lang's city, or Fritz Lang's town?", "Vienna", "1", plan=(PLAN[0], "#1's city, or #1's?")
    )
    assert same_twice(trajectory(FIRST, one_place)).keep


def test_a_wordy_right_answer_is_no_mistake() -> None:
    wordy = replace(DIED, answer="He was born in Vienna")
    assert not undue_reflection(trajectory(FIRST, wordy, SECOND, error="reasoning"), QUESTION).keep


def test_undue_reflection() -> None:
    right = replace(DIED, answer="Wien")
    row = trajectory(FIRST, right, SECOND, error="decomposition", first_plan=PLAN)
    assert undue_reflection(row, QUESTION).reason == "undue_reflection"
    assert not undue_reflection(row, QUESTION).keep
    assert undue_reflection(trajectory(FIRST, DIED, SECOND, error="reasoning"), QUESTION).keep
    gold_step = trajectory(FIRST, replace(DIED, answer="Vienna"), SECOND, error="reasoning", origin="oracle")
    assert not undue_reflection(gold_step, QUESTION).keep


def test_a_hop_that_was_found_before_is_a_wrong_answer_further_on() -> None:
    again = replace(DIED, answer="Fritz Lang")
    row = trajectory(FIRST, again, SECOND, error="decomposition", first_plan=(PLAN[0], "Where is #1 from?"))
    assert undue_reflection(row, QUESTION).keep
    too_early = replace(DIED, index=0, answer="Fritz Lang")
    assert not undue_reflection(trajectory(too_early, FIRST, SECOND, error="decomposition"), QUESTION).keep


def test_evidence_was_there() -> None:
    had_it = replace(MISLED, passages=DIED.passages)
    verdict = evidence_was_there(trajectory(FIRST, had_it, AGAIN, error="retrieval"))
    assert (verdict.keep, verdict.reason, verdict.score) == (False, "evidence_was_there", 1.0)
    assert evidence_was_there(trajectory(FIRST, DIED, SECOND, error="reasoning")).keep
    assert evidence_was_there(trajectory(FIRST, MISLED, AGAIN, error="retrieval")).keep


def test_answers_of_gold_hops_are_found_in_their_order() -> None:
    turned = trajectory(replace(FIRST, answer="Vienna"), replace(SECOND, answer="Fritz Lang"))
    for origin in ("policy", "rule", "oracle"):
        verdict = hops_out_of_order(replace(turned, origin=origin), QUESTION)
        assert (verdict.keep, verdict.reason, verdict.score) == (False, "hops_out_of_order", 1.0)
        assert "Vienna" in verdict.detail
    assert hops_out_of_order(trajectory(), QUESTION).keep
    assert hops_out_of_order(turned, replace(QUESTION, decomposition=())).keep


def test_another_decomposition_is_not_out_of_order() -> None:
    other = trajectory(replace(FIRST, answer="Thea von Harbou"), SECOND)
    assert hops_out_of_order(other, QUESTION).keep and follows_gold(other.steps, QUESTION) is False
    one_step = trajectory(replace(SECOND, index=0), plan=PLAN[1:])
    assert hops_out_of_order(one_step, QUESTION).keep and follows_gold(one_step.steps, QUESTION) is False
    assert follows_gold(trajectory().steps, QUESTION) is True
    assert follows_gold(trajectory(FIRST, DIED, SECOND, error="reasoning").steps, QUESTION) is True


def test_a_gold_decomposition_that_goes_in_circles_orders_nothing() -> None:
    circle = (replace(QUESTION.decomposition[0], question="Who of #2 directed it?"), QUESTION.decomposition[1])
    assert hops_out_of_order(trajectory(), replace(QUESTION, decomposition=circle)).keep


def test_a_step_that_only_repeats_what_it_was_given_is_circular() -> None:
    repeated = replace(SECOND, answer="Fritz  lang")
    verdict = circular_step(trajectory(FIRST, repeated))
    assert (verdict.keep, verdict.reason) == (False, "circular_step")
    assert circular_step(trajectory(FIRST, replace(repeated, sub_question="Is #1 older, or Murnau?"))).keep
    assert circular_step(trajectory(FIRST, SECOND)).keep
    assert circular_step(trajectory(FIRST, replace(SECOND, answer="The Fritz Lang Museum"))).keep


def test_a_plan_that_leaves_out_a_hop_is_a_shortcut() -> None:
    whole = "In which city was the director of Metropolis born?"
    fused = trajectory(step(0, whole, "Vienna", "1", plan=(whole,)), plan=(whole,))
    verdict = missing_hop(fused, QUESTION)
    assert (verdict.keep, verdict.reason, verdict.score) == (False, "missing_hop", 0.5)
    assert "Fritz Lang" in verdict.detail and "Who directed Metropolis?" in verdict.detail
    config = FilterConfig(every_hop=True, grounded=False)
    rejected = first_rejection(judge_trajectory(fused, QUESTION, [], config))
    assert rejected is not None and rejected.reason == "missing_hop"


def test_a_shortcut_stays_where_its_passage_holds_both_facts() -> None:
    whole = "In which city was the director of Metropolis born?"
    both = replace(SECOND.passages[0], text="Fritz Lang, who directed Metropolis, was born in Vienna.")
    fused = step(0, whole, "Vienna", plan=(whole,))
    row = trajectory(replace(fused, passages=(both,)), plan=(whole,))
    assert first_rejection(judge_trajectory(row, QUESTION, [], FilterConfig())) is None
    lucky = trajectory(step(0, whole, "Vienna", "1", plan=(whole,)), plan=(whole,))
    rejected = first_rejection(judge_trajectory(lucky, QUESTION, [], FilterConfig()))
    assert rejected is not None and rejected.reason == "ungrounded_step"


def test_a_hop_that_only_a_mistake_finds_is_missing() -> None:
    found_and_dropped = replace(FIRST, is_mistake=True)
    instead = replace(FIRST, answer="Peter Lorre")
    row = trajectory(found_and_dropped, instead, SECOND, error="reasoning")
    assert missing_hop(row, QUESTION).score == 0.5
    assert missing_hop(trajectory(FIRST, DIED, SECOND, error="reasoning"), QUESTION).score == 1.0


def test_an_alias_finds_the_last_hop_and_the_question_may_name_another() -> None:
    assert missing_hop(trajectory(FIRST, replace(SECOND, answer="Wien")), QUESTION).keep
    named = replace(QUESTION, question="In which city was Fritz Lang, director of Metropolis, born?")
    one_step = trajectory(replace(SECOND, index=0), plan=PLAN[1:])
    assert missing_hop(one_step, named).keep and not missing_hop(one_step, QUESTION).keep


def test_without_a_gold_decomposition_no_hop_is_missing() -> None:
    verdict = missing_hop(trajectory(SECOND), replace(QUESTION, decomposition=()))
    assert (verdict.keep, verdict.score) == (True, 1.0)
