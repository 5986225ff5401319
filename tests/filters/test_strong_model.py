"""Chains that a strong model made of three MuSiQue questions: which of them teach, and which are wrong.

The sub-questions, answers and passages are its own (passages shortened); the rows' names are the first digits of the
uids that they had.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import pytest

from tests.support import world
from tests.support.rows import trajectory
from trailforge.filters import FilterConfig, judge_trajectory
from trailforge.filters.gold_hops import follows_gold, golds_of_hops
from trailforge.filters.trajectories import duplicate_trajectory
from trailforge.mcts.plan import gold_plan, resolve
from trailforge.pipelines.sources import read_questions
from trailforge.rewards import same_answer
from trailforge.schemas import Hop, Origin, Passage, Question, Step, Trajectory

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "strong_model.json").read_text())


def question_of(name: str) -> Question:
    given = RECORDED["questions"][name]
    hops = tuple(Hop(question=asked, answer=answer) for asked, answer in given["hops"])
    return Question(id=name, question=given["question"], answer=given["answer"], decomposition=hops)


def row_of(uid: str) -> Trajectory:
    given = RECORDED["rows"][uid]
    steps = tuple(
        Step(**{**step, "passages": tuple(_passage(name) for name in step["passages"])}) for step in given["steps"]
    )
    plan = tuple(step.sub_question for step in steps if not step.is_mistake)
    made = trajectory(*steps, error=given.get("error"), plan=plan, question=question_of(given["question"]))
    return replace(made, uid=uid)


def _passage(name: str) -> Passage:
    title, text = RECORDED["passages"][name]
    return Passage(id=name, title=title, text=text, score=0.0)


def reasons(row: Trajectory, question: Question) -> list[str]:
    """Why it is rejected, sorted; empty when it is accepted."""
    return sorted(v.reason for v in judge_trajectory(row, question, [], FilterConfig()) if not v.keep)


ACCEPTED = [uid for uid, row in RECORDED["rows"].items() if not row["rejected"]]


@pytest.mark.parametrize("uid", RECORDED["rows"])
def test_wrong_chains_are_rejected_and_sound_ones_are_not(uid: str) -> None:
    given = RECORDED["rows"][uid]
    assert reasons(row_of(uid), question_of(given["question"])) == given["rejected"]


@pytest.mark.parametrize("uid", sorted(set(RECORDED["rows"]) - set(ACCEPTED)))
@pytest.mark.parametrize("origin", ["rule", "oracle"])
def test_a_wrong_chain_is_one_whoever_made_its_plan(uid: str, origin: Origin) -> None:
    found = reasons(replace(row_of(uid), origin=origin), question_of(RECORDED["rows"][uid]["question"]))
    assert "hops_out_of_order" in found


def test_rows_say_whether_they_follow_the_gold_hops() -> None:
    said = {uid: follows_gold(row_of(uid).steps, question_of(row_of(uid).question_id)) for uid in RECORDED["rows"]}
    assert {uid for uid, follows in said.items() if follows} == set(ACCEPTED) - {"by_listing"}
    without = replace(question_of("campuses"), decomposition=())
    assert follows_gold(row_of("e49a2dbf").steps, without) is None


def test_independent_steps_in_another_order_are_one_row() -> None:
    one, other = row_of("1ac4bdb1"), row_of("68107191")
    assert [step.answer for step in one.steps] != [step.answer for step in other.steps]
    assert not duplicate_trajectory(other, [one]).keep and not duplicate_trajectory(one, [other]).keep
    assert duplicate_trajectory(row_of("by_listing"), [row_of("c513cb0d")]).keep


# Swapped answers


def swapped(row: Trajectory, question: Question) -> list[Trajectory]:
    """The row with the answers of two gold hops in each other's place, each pair once; queries follow their answers."""
    hops = golds_of_hops(question)
    places = [place for place, step in enumerate(row.steps) if not step.is_mistake]
    at = {place: {n for n, hop in enumerate(hops) if any(same_answer(row.steps[place].answer, g) for g in hop)}
          for place in places}  # fmt: skip
    rows = []
    for one, other in combinations([place for place in places if at[place]], 2):
        if at[one] & at[other]:
            continue
        answers = {place: row.steps[place].answer for place in places}
        answers[one], answers[other] = answers[other], answers[one]
        by_number = {row.steps[place].index + 1: answer for place, answer in answers.items()}
        steps = tuple(
            replace(s, answer=answers.get(place, s.answer), query=resolve(s.sub_question, by_number))
            for place, s in enumerate(row.steps)
        )
        rows.append(replace(row, steps=steps, final_answer=steps[-1].answer))
    return rows


def gold_row(question: Question) -> Trajectory:
    """The gold chain; every search brings every paragraph of a hop, so that no passage alone gives a swap away."""
    supporting = {hop.support_id for hop in question.decomposition}
    kept = [paragraph for paragraph in question.paragraphs if paragraph.id in supporting]
    found = tuple(Passage(id=d.id, title=d.title, text=d.text, score=0.0) for d in kept)
    answers = {n: hop.answer for n, hop in enumerate(question.decomposition, start=1)}
    plan = gold_plan(question.decomposition).sub_questions
    steps = tuple(
        Step(index=n, sub_question=asked, query=resolve(asked, answers), passages=found, answer=answers[n + 1])
        for n, asked in enumerate(plan)
    )
    return trajectory(*steps, plan=plan, question=question, origin="oracle")


@pytest.mark.parametrize("uid", ACCEPTED)
def test_two_swapped_hop_answers_reject_a_recorded_row(uid: str) -> None:
    question = question_of(RECORDED["rows"][uid]["question"])
    changed = swapped(row_of(uid), question)
    assert changed
    assert all(reasons(row, question) != [] for row in changed)


@pytest.mark.parametrize("hops", [2, 3, 4])
def test_two_swapped_hop_answers_reject_a_made_row(hops: int) -> None:
    for number in range(10):
        question = world.question(number, hops)
        row = gold_row(question)
        assert reasons(row, question) == []
        changed = swapped(row, question)
        assert len(changed) == hops * (hops - 1) // 2
        assert all(reasons(each, question) != [] for each in changed)


def test_two_hops_that_do_not_rest_on_each_other_are_not_found_by_each_others_question() -> None:
    question = question_of("glisson")
    row = row_of("1ac4bdb1")
    everything = tuple(_passage(name) for name in ("act", "glisson", "courthouse", "jacksonville"))
    row = replace(row, steps=tuple(replace(step, passages=everything) for step in row.steps))
    assert reasons(row, question) == []
    crossed = [replace(row.steps[0], answer="Jackson County, Florida"), replace(row.steps[1], answer="United States")]
    crossed += [replace(row.steps[2], query="Which city has a courthouse in United States in Jackson County, Florida?")]
    found = reasons(replace(row, steps=(*crossed, row.steps[3])), question)
    assert {"hops_out_of_order", "ungrounded_step", "wrong_intermediate"} <= set(found)


@pytest.mark.parametrize(("name", "step"), [("musique_original20", 1), ("musique_reconstructed", 6)])
def test_two_swapped_hop_answers_reject_a_row_of_musique(data_dir: Path, name: str, step: int) -> None:
    accepted = swaps = 0
    passed = []
    for question in islice(read_questions(data_dir / "musique" / f"{name}.jsonl.gz"), 0, None, step):
        assert isinstance(question, Question)
        row = gold_row(question)
        if not reasons(row, question):
            accepted += 1
            for each in swapped(row, question):
                swaps += 1
                passed += [] if reasons(each, question) else [question.id]
    print(f"{name}: {swaps} swaps in {accepted} accepted rows, {len(passed)} passed")
    assert accepted and swaps and not passed
