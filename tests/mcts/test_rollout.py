"""Executing a plan: what varies between repeats, what is asked, and how replies become answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cut_replies import CutModel
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.inference import Meter, Request
from trailforge.inference.asker import Asker
from trailforge.mcts.rollout import (
    AnswerJudge,
    PlanRunner,
    RolloutConfig,
    RolloutPrompts,
    is_usable_query,
    read_passages,
    variation_of,
    within_a_sentence,
)
from trailforge.mcts.search import Simulation
from trailforge.rewards.answers import read_first_line, read_short_answer
from trailforge.schemas import Passage, Plan

PLAN = Plan(sub_questions=("Who directed Metropolis?", "Where was #1 born?"))
PROMPTS = RolloutPrompts(answer="{{context}}\nQ: {{question}}", rephrase="Reword: {{query}}")


class Echo:
    """A retriever whose one passage repeats the query."""

    async def retrieve(self, query: str, k: int) -> list[Passage]:
        return [Passage(id=query, title="T", text=f"About {query}", score=1.0)][:k]


def runner(
    script: Callable[[Request], str], client: ScriptedModel | None = None, judge: AnswerJudge | None = None
) -> tuple[PlanRunner, ScriptedModel]:
    client = client or ScriptedModel(script)
    asker = Asker(client=client, model="m", style="chat", seed=0, meter=Meter())
    made = PlanRunner(
        golds=["Vienna"],
        asker=asker,
        retriever=Echo(),
        reader=read_passages,
        prompts=PROMPTS,
        config=RolloutConfig(),
        judge=judge,
        judge_threshold=0.9,
    )
    return made, client


async def rolled_out(run: PlanRunner, plan: Plan, repeat: int) -> Simulation:
    done = await run(plan, repeat)
    assert done is not None
    return done


def knows(request: Request) -> str:
    """Answers both hops, and rewords by a prefix."""
    prompt = prompt_text(request)
    if prompt.startswith("Reword: "):
        return f"please tell: {prompt.removeprefix('Reword: ')}"
    return "Fritz Lang" if prompt.endswith("Who directed Metropolis?") else "Vienna."


async def test_dependencies_enter_a_step_by_their_answers() -> None:
    run, _ = runner(knows)
    done = await rolled_out(run, PLAN, 0)
    assert [step.query for step in done.steps] == ["Who directed Metropolis?", "Where was Fritz Lang born?"]
    assert (done.answer, done.reward, done.variation) == ("Vienna", 1.0, "none")


async def test_a_step_whose_dependency_has_no_answer_asks_nothing() -> None:
    run, client = runner(lambda request: "")
    done = await rolled_out(run, PLAN, 0)
    assert [step.answer for step in done.steps] == ["", ""]
    assert len(client.requests) == 1 and done.reward == 0.0


@pytest.mark.parametrize("reply", ["Unknown.", "The passages do not say.", "**Answer:** not specified"])
async def test_an_abstention_is_no_answer_and_is_never_passed_on(reply: str) -> None:
    run, client = runner(lambda request: reply)
    done = await rolled_out(run, PLAN, 0)
    assert [step.answer for step in done.steps] == ["", ""]
    assert len(client.requests) == 1 and done.reward == 0.0


@pytest.mark.parametrize(
    ("last", "asked", "paid"),
    [
        ("Vienna", [], (1.0, None)),
        ("Greater Vienna and Graz", ["Greater Vienna and Graz"], (1.0, 0.9)),
        ("Vienna or Graz", ["Vienna or Graz"], (0.0, 0.4)),
        ("Graz", [], (0.0, None)),
        ("unknown", [], (0.0, None)),
    ],
)
async def test_a_judge_is_asked_about_near_misses_alone(
    last: str, asked: list[str], paid: tuple[float, float | None]
) -> None:
    seen: list[str] = []

    async def judge(answer: str) -> float:
        seen.append(answer)
        return 0.9 if answer.startswith("Greater") else 0.4

    run, _ = runner(lambda request: last, judge=judge)
    done = await rolled_out(run, Plan(sub_questions=("Where was Fritz Lang born?",)), 0)
    assert seen == asked
    assert (done.reward, done.judge_score) == paid


async def test_the_two_sources_of_variation_are_never_mixed() -> None:
    run, _ = runner(knows)
    for repeat in range(7):
        done = await rolled_out(run, PLAN, repeat)
        rephrased = [step.index for step in done.steps if step.query_rephrased]
        sampled = [step.index for step in done.steps if step.answer_sample]
        if done.variation == "query":
            assert rephrased == [done.varied_step] and not sampled
        elif done.variation == "answer":
            assert sampled == [0, 1] and not rephrased
        else:
            assert not rephrased and not sampled


async def test_a_rephrased_query_searches_in_other_words_but_answers_the_same_question() -> None:
    run, client = runner(knows)
    done = await rolled_out(run, PLAN, 2)
    assert done.steps[0].query == "please tell: Who directed Metropolis?"
    assert done.steps[0].passages[0].text == "About please tell: Who directed Metropolis?"
    assert prompt_text(client.requests[1]).endswith("Q: Who directed Metropolis?")


@given(st.integers(0, 40), st.integers(1, 6))
def test_variations_take_turns_over_the_steps(repeat: int, steps: int) -> None:
    variation = variation_of(repeat, steps)
    assert variation.kind == ("none" if repeat == 0 else "answer" if repeat % 2 else "query")
    assert (variation.step is not None) == (variation.kind == "query")
    if variation.step is not None:
        assert variation.step == (repeat // 2 - 1) % steps


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Vienna.", "Vienna"),
        ("\n\nAnswer: Vienna\nbecause", "Vienna"),
        ('1. "Fritz Lang"', "Fritz Lang"),
        ("Washington D.C.", "Washington D.C."),
        ("Robert Downey Jr.", "Robert Downey Jr."),
        ("one two three four five", "one two three"),
        ("  \n ", ""),
    ],
)
def test_a_reply_becomes_a_short_answer(reply: str, answer: str) -> None:
    assert read_short_answer(reply, 3) == answer


def test_the_first_line_that_says_something_counts() -> None:
    assert read_first_line("\n - Output: the river Po\nmore") == "the river Po"


@pytest.mark.parametrize(
    ("rephrased", "usable"),
    [
        ("Metropolis film directed by", False),
        ("director of Metropolis 1927", False),
        ("Fritz Lang birthplace of Metropolis director 1927", True),
        ("who directed metropolis, by fritz lang, in 1927?", True),
        ("Fritz Lang #1 Metropolis 1927", False),
        ("Fritz Lang Metropolis 1927 director " * 9, False),
        ("", False),
    ],
)
def test_a_query_is_usable_when_it_differs_and_keeps_names_and_numbers(rephrased: str, usable: bool) -> None:
    assert is_usable_query(rephrased, "Is the director of Metropolis of 1927 Fritz Lang?") is usable


def test_a_query_on_something_else_is_not_usable() -> None:
    assert not is_usable_query("The Smiths of Rye", "Who is the author of the play?")
    assert is_usable_query("play author", "Who is the author of the play?")


@pytest.mark.parametrize(
    ("query", "rephrased", "usable"),
    [
        ("Who is the author of Don Quixote?", "Don Quixote by", False),
        ("Who is the author of Don Quixote?", "Don Quixote author", True),
        ("Who is the author of Don Quixote?", "Don Quixote", False),
        ("Who is the author of Don Quixote?", "Who was Don Quixote written by?", True),
        ("On what novel is the film Apocalypse Now based?", "On the novel Apocalypse Now", False),
        ("On what novel is the film Apocalypse Now based?", "From which novel comes the film Apocalypse Now?", True),
        ("Who wrote On the Origin of Species?", "On the Origin of Species wrote whom", True),
        ("Who is the painter of The Third of May 1808?", "The Third of May 1808", False),
        ("Who discovered penicillin?", "penicillin", False),
    ],
)
def test_a_query_is_whole_and_more_than_a_piece(query: str, rephrased: str, usable: bool) -> None:
    assert is_usable_query(rephrased, query) is usable


@given(st.text(alphabet="abc AB", min_size=1, max_size=12), st.text(alphabet="abc AB", max_size=6))
def test_no_piece_of_a_query_is_usable(piece: str, rest: str) -> None:
    assert not is_usable_query(piece, f"Which {piece} {rest}?")


@pytest.mark.parametrize(
    ("answer", "text", "title", "written"),
    [
        ("The riel", "The currency of Cambodia is the riel.", "Money", "the riel"),
        ("The Danube", "The Danube forms the border. The Danube is long.", "Border", "the Danube"),
        ("The Hague", "It lies near The Hague.", "Delft", "The Hague"),
        ("The Third Man", "The Third Man was made in 1949.", "The Third Man (film)", "The Third Man"),
        ("A volcano", "It is a volcano.", "Etna", "a volcano"),
        ("Theodor Storm", "He was Theodor Storm.", "Immensee", "Theodor Storm"),
    ],
)
def test_an_article_is_small_unless_it_belongs_to_a_name(answer: str, text: str, title: str, written: str) -> None:
    passages = [Passage(id="1", title=title, text=text, score=1.0)]
    assert within_a_sentence(answer, passages) == written


async def test_answers_enter_further_questions_as_a_sentence_has_them() -> None:
    run, _ = runner(lambda request: "The director")
    done = await rolled_out(run, PLAN, 0)
    assert done.steps[1].query == "Where was the director born?"


@given(st.text(), st.integers(1, 20))
def test_a_short_answer_is_one_line_of_at_most_so_many_words(reply: str, most: int) -> None:
    answer = read_short_answer(reply, most)
    assert len(answer.split()) <= most and len(answer.splitlines()) <= 1


async def test_passages_are_numbered_with_their_titles() -> None:
    passages = [
        Passage(id="1", title="A", text="x", score=1.0),
        Passage(id="2", title="B", text="y", score=0.5),
    ]
    assert await read_passages("q", passages) == "1. (A) x\n2. (B) y"


@pytest.mark.parametrize("hop", ["Who directed Metropolis?", "Where was Fritz Lang born?"])
async def test_a_cut_answer_is_no_answer_and_ends_the_rollout(hop: str) -> None:
    model = CutModel(knows, lambda request: prompt_text(request).endswith(hop))
    run, _ = runner(knows, model)
    assert await run(PLAN, 0) is None


async def test_a_cut_rephrasing_is_not_searched_for() -> None:
    run, _ = runner(knows, CutModel(knows, lambda request: request.purpose == "rephrase"))
    done = await rolled_out(run, PLAN, 2)
    assert not any(step.query_rephrased for step in done.steps)


@pytest.mark.parametrize("hop", ["Who directed Metropolis?", "Where was Fritz Lang born?"])
async def test_where_the_plain_answer_was_cut_a_reworded_query_does_not_rest_on_it(hop: str) -> None:
    """Step 2's query is reworded while step 1's answer was cut, and the other way round."""
    model = CutModel(knows, lambda request: prompt_text(request).endswith(hop) and request.sample == 0)
    run, _ = runner(knows, model)
    assert await run(PLAN, 0) is None
    for repeat in (2, 4):
        done = await run(PLAN, repeat, anew=True)
        assert done is not None and (done.variation, done.reward) == ("query", 1.0)
        assert [step.query_rephrased for step in done.steps] == [repeat == 2, repeat == 4]


async def test_where_it_was_not_a_reworded_query_keeps_the_plain_answers() -> None:
    run, _ = runner(knows)
    done = await rolled_out(run, PLAN, 4)
    assert [step.answer_sample for step in done.steps] == [0, 0]
