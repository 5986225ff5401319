"""The generator with the scripted model: a perfect one solves everything, a planted flaw gives exactly its label."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support import world
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.filters import FilterConfig, first_rejection, judge_trajectory
from trailforge.generators.mcts_trajectories.generate import Context, Generated, GeneratorConfig, generate
from trailforge.inference import Prices, Request
from trailforge.mcts.contrasts import Errors
from trailforge.mcts.inputs import SearchConfig
from trailforge.mcts.rollout import RolloutConfig
from trailforge.retrieval import RetrievalConfig, open_retrieval
from trailforge.schemas import Question, Trajectory

PERFECT = world.Model()


def run(
    script: Callable[[Request], str], question: Question, *, top_k: int = 2, search: SearchConfig | None = None
) -> Generated:
    context = Context(
        run_id="run",
        model="scripted",
        seed=0,
        prices=Prices(prompt_per_million=1.0, completion_per_million=2.0),
        config=GeneratorConfig(rollout=RolloutConfig(top_k=top_k), search=search or SearchConfig()),
        client=ScriptedModel(script),
        retrieval=open_retrieval(RetrievalConfig(kind="bm25")),
    )
    return asyncio.run(generate(question, context))


def perfect(request: Request) -> str:
    return PERFECT(prompt_text(request), request.sampling_seed)


def accepted(question: Question, generated: Generated) -> list[Trajectory]:
    rows: list[Trajectory] = []
    for row in generated.candidates:
        if first_rejection(judge_trajectory(row, question, rows, FilterConfig())) is None:
            rows.append(row)
    return rows


@pytest.mark.parametrize("hops", [2, 3, 4])
@pytest.mark.parametrize("number", range(5))
def test_a_perfect_model_gives_every_question_a_correct_trajectory(number: int, hops: int) -> None:
    question = world.question(number, hops)
    generated = run(perfect, question)
    rows = accepted(question, generated)
    assert rows and {row.kind for row in rows} == {"correct"}
    assert {row.origin for row in rows} == {"policy"}
    assert not generated.tree.oracle_used
    assert all(row.reward.total == 1.0 and row.final_answer == question.answer for row in rows)
    assert all(row.num_tool_calls == row.num_hops == hops for row in rows)
    assert len(rows) == len(generated.candidates)


def planted(flaw: Callable[[Request, str], str | None]) -> Callable[[Request], str]:
    """A perfect model but for what `flaw` (request, prompt) replies in its place."""

    def script(request: Request) -> str:
        return flaw(request, prompt_text(request)) or perfect(request)

    return script


def _misreads_last_hop(question: Question) -> Callable[[Request, str], str | None]:
    last = world.ask([*world.chain_of(question.question)[:1], question.decomposition[-2].answer])

    def flaw(request: Request, prompt: str) -> str | None:
        misread = (
            request.purpose == "answer" and request.sample > 0 and prompt.rsplit("Question: ", 1)[1].startswith(last)
        )
        if not misread:
            return None
        context = prompt.rsplit("Passages:\n", 1)[1].splitlines()
        return world.misread(context, last, question.answer, request.sample)

    return flaw


def test_a_misreading_gives_reasoning_errors_and_nothing_else() -> None:
    question = world.question(1, 3)
    rows = accepted(question, run(planted(_misreads_last_hop(question)), question))
    reflective = [row for row in rows if row.kind == "reflective"]
    assert {row.reflection_error for row in reflective} == {"reasoning"}
    for row in reflective:
        mistake = next(i for i, step in enumerate(row.steps) if step.is_mistake)
        assert row.steps[mistake].answer != row.steps[mistake + 1].answer == question.answer
        assert row.steps[mistake].passages == row.steps[mistake + 1].passages
        assert row.steps[-1].answer == question.answer
        assert row.num_tool_calls == row.num_hops + 1
        pair = row.step_pair
        assert pair and pair.diverges_at == pair.wrong_step == pair.right_step == mistake == 2


def test_a_misleading_query_gives_retrieval_errors_and_nothing_else() -> None:
    question = world.question(2, 2)
    decoys = {d.text.split(" of ")[1].split(" is ")[0] for d in question.paragraphs[1::2]}

    def flaw(request: Request, prompt: str) -> str | None:
        if request.purpose != "rephrase":
            return None
        query = prompt.rsplit("Query: ", 1)[1].splitlines()[0].strip()
        return " ".join([query, *(decoy.lower() for decoy in sorted(decoys))])

    rows = accepted(question, run(planted(flaw), question, top_k=1))
    reflective = [row for row in rows if row.kind == "reflective"]
    assert {row.reflection_error for row in reflective} == {"retrieval"}
    for row in reflective:
        mistake = next(i for i, step in enumerate(row.steps) if step.is_mistake)
        wrong, mended = row.steps[mistake], row.steps[mistake + 1]
        assert wrong.query_rephrased and not mended.query_rephrased
        assert wrong.sub_question == mended.sub_question
        assert {p.id for p in wrong.passages} != {p.id for p in mended.passages}
        assert row.steps[-1].answer == question.answer
        assert row.num_tool_calls == row.num_hops + 1


def test_a_wrong_split_gives_decomposition_errors_and_nothing_else() -> None:
    question = world.question(3, 2)
    chain = world.chain_of(question.question)
    other = next(r for r in world.RELATIONS if r not in chain)

    def flaw(request: Request, prompt: str) -> str | None:
        if request.purpose != "split":
            return None
        right = json.loads(PERFECT(prompt, 0))["decompositions"]
        wrong = {"first": right[0]["first"], "second": f"What is the {other} of [E]?"}
        return json.dumps({"decompositions": [wrong, *right]})

    rows = accepted(question, run(planted(flaw), question, top_k=4))
    reflective = [row for row in rows if row.kind == "reflective"]
    assert {row.reflection_error for row in reflective} == {"decomposition"}
    for row in reflective:
        assert row.wrong_plan and row.wrong_plan[0] == row.plan[0] and other in row.wrong_plan[1]
        assert [step.is_mistake for step in row.steps] == [False, True, False]
        assert row.step_pair and row.step_pair.diverges_at == 1
        assert row.steps[-1].answer == question.answer


def errors_of(generated: Generated) -> set[tuple[str | None, str | None]]:
    return {(row.reflection_error, row.error_source) for row in generated.candidates}


def test_what_the_search_made_to_err_is_provoked() -> None:
    """An answer drawn until it differs; a query that is searched because it loses the passage."""
    question = world.question(1, 3)
    provoked = SearchConfig(errors="provoked")
    flawed = planted(_misreads_last_hop(question))
    assert errors_of(run(flawed, question, search=provoked)) == {(None, None), ("reasoning", "provoked")}
    assert errors_of(run(flawed, question)) == {(None, None), ("reasoning", "sampled")}


def _misses_plainly(question: Question) -> Callable[[Request, str], str | None]:
    """The first answer to the first hop is wrong, and right ever after."""
    hop = question.decomposition[0].question

    def flaw(request: Request, prompt: str) -> str | None:
        asked = prompt.rsplit("Question: ", 1)[-1]
        is_first = request.purpose == "answer" and request.sample == 0 and asked.startswith(hop)
        return "Nobody" if is_first else "Nowhere" if "of Nobody" in asked else None

    return flaw


@pytest.mark.parametrize("errors", ["sampled", "provoked"])
def test_a_plain_mistake_that_a_later_draw_mends_is_sampled(errors: Errors) -> None:
    question = world.question(1, 2)
    generated = run(planted(_misses_plainly(question)), question, search=SearchConfig(errors=errors))
    of_first = [row for row in generated.candidates if row.steps[0].is_mistake and row.steps[0].answer == "Nobody"]
    assert of_first and {row.error_source for row in of_first} == {"sampled"}
    for row in of_first:
        assert not row.steps[0].is_provoked and row.num_tool_calls > row.num_hops, "it goes on from the mend"


def test_the_rows_of_solved_questions_lie_on_the_policys_own_plans() -> None:
    """A model that is mostly right, over questions that bring their gold decomposition."""
    origins = Counter[str]()
    model = world.Model(error_rate=0.15)
    for number in range(12):
        question = world.question(number, 2 + number % 3)
        generated = run(lambda request: model(prompt_text(request), request.sampling_seed), question)
        origins.update(row.origin for row in accepted(question, generated))
    assert origins.total() >= 12 and origins["policy"] >= 0.8 * origins.total()


def test_without_a_usable_split_rows_follow_the_gold_plan_and_say_so() -> None:
    question = world.question(4, 3)
    model = world.Model(splits=False)
    generated = run(lambda request: model(prompt_text(request), 0), question)
    assert generated.tree.oracle_used and generated.tree.dropped_splits.malformed > 0
    rows = accepted(question, generated)
    assert rows and {row.origin for row in rows} == {"oracle"}


def test_costs_and_keys_belong_to_the_tree_and_its_rows() -> None:
    question = world.question(5, 2)
    generated = run(perfect, question)
    tree = generated.tree
    assert tree.calls > 0 and tree.prompt_tokens > tree.completion_tokens > 0
    assert tree.cost == pytest.approx((tree.prompt_tokens + 2 * tree.completion_tokens) / 1e6)
    row = generated.candidates[0]
    assert row.provenance.call_keys == tuple(k for step in row.steps for k in step.call_keys)
    assert all(len(key) == 64 for key in row.provenance.call_keys)


def test_the_same_question_and_replies_give_the_same_rows() -> None:
    question = world.question(6, 3)
    flawed = planted(_misreads_last_hop(question))
    one, other = run(flawed, question), run(flawed, question)
    assert (one.tree, one.candidates, one.chosen) == (other.tree, other.candidates, other.chosen)
    assert set(one.meter.keys) == set(other.meter.keys) and one.candidates


def test_an_unreadable_split_reply_is_repaired_once() -> None:
    question = world.question(7, 2)
    broken: list[str] = []

    def flaw(request: Request, prompt: str) -> str | None:
        if request.purpose == "split" and not broken:
            broken.append(request.key)
            return "I would rather not."
        return None

    def script(request: Request) -> str:
        reply = flaw(request, prompt_text(request))
        if reply is None and request.purpose == "split" and not isinstance(request.prompt, str):
            return PERFECT(request.prompt[0].content, 0)
        return reply or perfect(request)

    generated = run(script, question)
    assert len(broken) == 1
    assert not generated.tree.oracle_used and generated.tree.dropped_splits.malformed == 0


def test_answers_before_a_lost_one_are_kept_and_nothing_is_asked_of_nothing() -> None:
    question = replace(world.question(8, 2))
    silent = planted(lambda request, prompt: " \n" if request.purpose == "answer" else None)
    tree = run(silent, question).tree
    assert all(step.answer == "" for rollout in tree.rollouts for step in rollout.steps)
    assert all(not rollout.steps[1].call_keys for rollout in tree.rollouts if len(rollout.steps) == 2)
