"""Executing a plan: what varies between repeats, what is asked, and how replies become answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cut_replies import CutModel
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.inference import Meter, Reply, Request
from trailforge.inference.asker import Asker
from trailforge.mcts.contrasts import PLAIN, DrawnAnswers, Variation, are_alike
from trailforge.mcts.inputs import Simulation
from trailforge.mcts.rollout import (
    AnswerJudge,
    PlanRunner,
    RolloutConfig,
    RolloutPrompts,
    is_usable_query,
    read_passages,
    within_a_sentence,
    without_remark,
)
from trailforge.rewards.answers import read_first_line, read_short_answer
from trailforge.schemas import Passage, Plan, Rollout, VariationKind

PLAN = Plan(sub_questions=("Who directed Metropolis?", "Where was #1 born?"))
PROMPTS = RolloutPrompts(answer="{{context}}\nQ: {{question}}", rephrase="Not {{earlier}}\nReword: {{query}}")


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


async def rolled_out(run: PlanRunner, plan: Plan, variation: Variation = PLAIN) -> Simulation:
    done = await run(plan, variation)
    assert done is not None
    return done


def as_rollout(done: Simulation) -> Rollout:
    return Rollout(
        index=0, node=0, variation=done.variation, varied_step=done.varied_step, steps=done.steps,
        answer=done.answer, reward=done.reward,
    )  # fmt: skip


async def varied(run: PlanRunner, kind: VariationKind, step: int, *seen: str) -> Simulation:
    """The plain rollout with one step varied."""
    base = as_rollout(await rolled_out(run, PLAN))
    return await rolled_out(run, PLAN, Variation(kind=kind, step=step, sample=1, base=base, seen=seen))


def knows(request: Request) -> str:
    """Answers both hops, and rewords by a prefix."""
    prompt = prompt_text(request)
    if "Reword: " in prompt:
        return f"please tell: {prompt.partition('Reword: ')[2]}"
    return "Fritz Lang" if prompt.endswith("Who directed Metropolis?") else "Vienna."


async def test_dependencies_enter_a_step_by_their_answers() -> None:
    run, _ = runner(knows)
    done = await rolled_out(run, PLAN)
    assert [step.query for step in done.steps] == ["Who directed Metropolis?", "Where was Fritz Lang born?"]
    assert (done.answer, done.reward, done.variation) == ("Vienna", 1.0, "none")


async def test_a_step_whose_dependency_has_no_answer_asks_nothing() -> None:
    run, client = runner(lambda request: "")
    done = await rolled_out(run, PLAN)
    assert [step.answer for step in done.steps] == ["", ""]
    assert len(client.requests) == 1 and done.reward == 0.0


@pytest.mark.parametrize("reply", ["Unknown.", "The passages do not say.", "**Answer:** not specified"])
async def test_an_abstention_is_no_answer_and_is_never_passed_on(reply: str) -> None:
    run, client = runner(lambda request: reply)
    done = await rolled_out(run, PLAN)
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
    done = await rolled_out(run, Plan(sub_questions=("Where was Fritz Lang born?",)))
    assert seen == asked
    assert (done.reward, done.judge_score) == paid


async def test_a_reworded_query_varies_one_step_and_keeps_the_others() -> None:
    run, client = runner(knows)
    plain = await rolled_out(run, PLAN)
    asked = len(client.requests)
    done = await varied(run, "query", 1)
    assert done.steps[0] == plain.steps[0] and (done.variation, done.varied_step) == ("query", 1)
    assert [step.query_rephrased for step in done.steps] == [False, True]
    assert done.steps[1].query == "please tell: Where was Fritz Lang born?"
    assert done.steps[1].passages[0].text == "About please tell: Where was Fritz Lang born?"
    assert prompt_text(client.requests[-1]).endswith("Q: Where was Fritz Lang born?")
    new = [request.purpose for request in client.requests[asked:]]
    assert new == ["rephrase", "answer"], "the kept step costs nothing"


async def test_what_rests_on_a_varied_answer_is_asked_again_and_what_does_not_is_kept() -> None:
    plan = Plan(sub_questions=("Who directed Metropolis?", "Who wrote Faust?", "Where was #1 born?"))

    def wavering(request: Request) -> str:
        return "Thea von Harbou" if request.sample == 1 else knows(request)

    run, client = runner(wavering)
    base = as_rollout(await rolled_out(run, plan))
    asked = len(client.requests)
    done = await rolled_out(run, plan, Variation(kind="answer", step=0, sample=1, base=base))
    assert [step.answer for step in done.steps] == ["Thea von Harbou", "Vienna", "Vienna"]
    assert done.steps[0].passages == base.steps[0].passages and done.steps[1] == base.steps[1]
    assert done.steps[2].query == "Where was Thea von Harbou born?"
    assert len(client.requests) == asked + 2


async def test_an_answer_is_drawn_until_it_differs_but_not_for_ever() -> None:
    run, client = runner(lambda request: "Berlin" if request.sample == 1001 else knows(request))
    done = await varied(run, "answer", 1)
    assert done.answer == "Berlin" and done.steps[1].answer_sample == 1001
    run, client = runner(knows)
    assert (await varied(run, "answer", 1)).answer == "Vienna"
    assert len(client.requests) == 2 + RolloutConfig().tries


async def test_a_rewording_is_shown_the_earlier_ones_and_is_none_of_them() -> None:
    run, client = runner(knows)
    done = await varied(run, "query", 0, "please tell: Who directed Metropolis?")
    rewordings = [prompt_text(r) for r in client.requests if r.purpose == "rephrase"]
    assert len(rewordings) == RolloutConfig().tries
    seen = ["- please tell: Who directed Metropolis?" in prompt for prompt in rewordings]
    assert seen == [False, True, True], "the first reply is that of the step's first rewording, and has others left"
    assert not any(step.query_rephrased for step in done.steps)


async def test_the_first_reply_with_rewordings_is_used_up_before_another_is_asked_for() -> None:
    words = "1. Who then directed Metropolis?\n2. Who ever directed Metropolis?"
    run, client = runner(lambda request: words if request.purpose == "rephrase" else knows(request))
    first = await varied(run, "query", 0)
    second = await varied(run, "query", 0, "Who then directed Metropolis?")
    assert [done.steps[0].query for done in (first, second)] == words.replace("1. ", "").replace("2. ", "").split("\n")
    assert len({r.key for r in client.requests if r.purpose == "rephrase"}) == 1


async def test_words_that_are_to_miss_are_searched_only_if_their_passages_lose_the_answer() -> None:
    class Knowing(Echo):
        async def retrieve(self, query: str, k: int) -> list[Passage]:
            text = "It was not he." if "ever" in query else f"Fritz Lang did. ({query})"
            return [Passage(id=query, title="T", text=text, score=1.0)]

    async def reworded(words: str) -> tuple[Rollout, Simulation, list[str]]:
        run, client = runner(lambda request: words if request.purpose == "rephrase" else knows(request))
        run = replace(run, retriever=Knowing())
        base = as_rollout(await rolled_out(run, PLAN))
        asked = len(client.requests)
        done = await rolled_out(run, PLAN, Variation(kind="query", step=0, sample=1, base=base, misses=True))
        return base, done, [request.purpose for request in client.requests[asked:]]

    base, done, _ = await reworded("Who then directed Metropolis?\nWho ever directed Metropolis?")
    assert done.steps[0].query == "Who ever directed Metropolis?" and done.steps[0].query_rephrased
    base, done, asked = await reworded("Who then directed Metropolis?\nWho else directed Metropolis?")
    assert done.steps == base.steps and asked == ["rephrase"]


async def test_words_that_lose_the_answer_and_answers_drawn_until_they_differ_are_provoked() -> None:
    class Losing(Echo):
        async def retrieve(self, query: str, k: int) -> list[Passage]:
            text = "It was not he." if query.startswith("please") else "Fritz Lang did."
            return [Passage(id=query, title="T", text=text, score=1.0)]

    run, _ = runner(knows)
    run = replace(run, retriever=Losing())
    base = as_rollout(await rolled_out(run, PLAN))
    lost = await rolled_out(run, PLAN, Variation(kind="query", step=0, sample=1, base=base, misses=True))
    assert [step.is_provoked for step in lost.steps] == [True, False]
    mended = await rolled_out(run, PLAN, Variation(kind="query", step=0, sample=1, base=base))
    assert mended.steps[0].query_rephrased and not any(step.is_provoked for step in mended.steps)
    run, _ = runner(lambda request: "Berlin" if request.sample else knows(request))
    assert [step.is_provoked for step in (await varied(run, "answer", 1)).steps] == [False, True]
    run, _ = runner(knows)
    assert not any(step.is_provoked for step in (await varied(run, "answer", 1)).steps), "it never differed"


async def test_a_sampled_query_is_searched_whatever_it_finds_and_every_answer_is_drawn_again() -> None:
    class Same(Echo):
        async def retrieve(self, query: str, k: int) -> list[Passage]:
            return await super().retrieve("same", k)

    run, client = runner(knows)
    run = replace(run, retriever=Same())
    done = await rolled_out(run, PLAN, Variation(kind="query", step=1, sample=3))
    assert [step.query_rephrased for step in done.steps] == [False, True]
    assert [step.answer_sample for step in done.steps] == [3, 3]
    assert not any(step.is_provoked for step in done.steps)
    assert [request.sample for request in client.requests if request.purpose == "answer"] == [3, 3]


async def test_what_was_answered_twice_alike_is_not_asked_again_in_a_sampled_rollout() -> None:
    def wavering(request: Request) -> str:
        is_last = prompt_text(request).endswith("born?")
        return f"town {request.sample}" if is_last else knows(request)

    run, client = runner(wavering)
    made = [as_rollout(await rolled_out(run, PLAN, Variation(kind="answer", sample=number))) for number in range(2)]
    asked = len(client.requests)
    draws = DrawnAnswers(made, 2, are_alike)
    done = await rolled_out(run, PLAN, Variation(kind="answer", sample=2, draws=draws))
    assert [step.answer for step in done.steps] == ["Fritz Lang", "town 2"]
    assert done.steps[0].call_keys == made[0].steps[0].call_keys
    assert len(client.requests) == asked + 1, "the first answer was settled, the second was not"


async def test_a_mend_whose_wordings_all_fail_is_offered_others_and_one_that_is_to_miss_is_not() -> None:
    words = iter("then ever then then".split())

    class Stubborn(Echo):
        async def retrieve(self, query: str, k: int) -> list[Passage]:
            return await super().retrieve("new" if "ever" in query else "old", k)

    def script(request: Request) -> str:
        return f"Who {next(words)} directed Metropolis?" if request.purpose == "rephrase" else knows(request)

    run, client = runner(script)
    run = replace(run, retriever=Stubborn())
    base = as_rollout(await rolled_out(run, PLAN))
    done = await rolled_out(run, PLAN, Variation(kind="query", step=0, sample=1, base=base))
    prompts = [prompt_text(request) for request in client.requests if request.purpose == "rephrase"]
    assert done.steps[0].query == "Who ever directed Metropolis?" and len(prompts) == 2
    assert "Who then directed Metropolis?" in prompts[1], "it is told what failed"
    run, client = runner(script)
    run = replace(run, retriever=Stubborn())
    await rolled_out(run, PLAN, Variation(kind="query", step=0, sample=1, base=base, misses=True))
    assert [request.purpose for request in client.requests].count("rephrase") == 1


async def test_wordings_that_find_what_an_earlier_one_found_are_passed_by() -> None:
    words = "Who then directed Metropolis?\nWho ever directed Metropolis?"

    class Known(Echo):
        async def retrieve(self, query: str, k: int) -> list[Passage]:
            return await super().retrieve("known" if "then" in query else query, k)

    run, _ = runner(lambda request: words if request.purpose == "rephrase" else knows(request))
    run = replace(run, retriever=Known())
    base = as_rollout(await rolled_out(run, PLAN))
    variation = Variation(kind="query", step=0, sample=1, base=base, read=(frozenset({"known"}),))
    assert (await rolled_out(run, PLAN, variation)).steps[0].query == "Who ever directed Metropolis?"


async def test_an_answer_marked_as_from_memory_says_so_without_the_mark() -> None:
    run, _ = runner(lambda request: "Fritz Lang" if request.sample else "Fritz Lang (memory)")
    done = await rolled_out(run, Plan(sub_questions=("Who directed Metropolis?",)))
    assert (done.answer, done.steps[0].from_memory) == ("Fritz Lang", True)
    run, _ = runner(lambda request: "unknown (memory)")
    done = await rolled_out(run, Plan(sub_questions=("Who directed Metropolis?",)))
    assert (done.answer, done.steps[0].from_memory) == ("", False)


async def test_a_rewording_that_finds_the_same_passages_is_followed_by_another() -> None:
    words = "1. Who then directed Metropolis?\n2. Who ever directed Metropolis?\n3. Metropolis, who directed it?"

    class Blunt(Echo):
        async def retrieve(self, query: str, k: int) -> list[Passage]:
            return await super().retrieve("it" if query.endswith("it?") else "same", k)

    model = ScriptedModel(lambda request: words if request.purpose == "rephrase" else knows(request))
    run, _ = runner(knows, model)
    run = replace(run, retriever=Blunt())
    done = await varied(run, "query", 0)
    assert done.steps[0].query == "Metropolis, who directed it?"
    assert [r.purpose for r in model.requests].count("rephrase") == 1


async def test_the_models_own_reasoning_is_kept_with_its_step() -> None:
    class Thinking(ScriptedModel):
        async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
            return replace(await super().complete(request, meter), reasoning="It says so.")

    run, _ = runner(knows, Thinking(knows))
    assert [step.reasoning for step in (await rolled_out(run, PLAN)).steps] == ["It says so."] * 2


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
    assert not is_usable_query("Angkor Wat Angkor Wat", "In what country does Angkor Wat stand?")
    assert is_usable_query("singer of Duran Duran", "Who sings in Duran Duran?")
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


@pytest.mark.parametrize(
    ("query", "rephrased", "usable"),
    [
        ("What is James Glisson's birthplace?", "Where was James Glisson born?", True),
        ("When was Barack Obama born?", "Barack Obama's date of birth", True),
        ("What is the capital of France?", "France's capital", True),
        ("What network aired The Chisholms?", "What TV network aired The Chisholms?", True),
        ("Who is the author of Emma?", "Name of Emma's Author", True),
        ("Which county is Weirton in?", "Weirton County", True),
        ("What is James Glisson's birthplace?", "Where was Glisson born?", False),
        ("What is James Glisson's birthplace?", "Was James Glisson born in Marianna?", False),
        ("What is the capital of France?", "Paris, France's capital", False),
        ("What is the capital of France?", "Paris is the capital of France", False),
        ("What is the capital of France?", "Is Lyon or Paris France's capital?", False),
        ("When was Barack Obama born in 1961?", "Barack Obama's date of birth", False),
    ],
)
def test_ordinary_rewordings_are_usable_and_answers_and_new_names_are_not(
    query: str, rephrased: str, usable: bool
) -> None:
    assert is_usable_query(rephrased, query) is usable


@pytest.mark.parametrize(
    ("query", "rephrased", "usable"),
    [
        ("Who has won the award the most?", "only person to win the award three times", False),
        ("Who has won the award the most?", "only person to win the award 3 times", False),
        ("Who has won the award the most?", "the one person with most wins of the award", True),
        ("Who won the third season of the show?", "winner of season three of the show", True),
        ("Who won season 3 of the show?", "winner of the third season of the show, season 3", True),
        ("Who won the third season of the show?", "winner of season four of the show", False),
    ],
)
def test_a_number_word_is_a_number(query: str, rephrased: str, usable: bool) -> None:
    assert is_usable_query(rephrased, query) is usable


@pytest.mark.parametrize(
    ("answer", "text", "title", "written"),
    [
        ("Andy Murray (three times)", "Andy Murray won it three times.", "Award", "Andy Murray"),
        ("Metropolis (1927 film)", "It is a film.", "Metropolis (1927 film)", "Metropolis (1927 film)"),
        ("CSU (the university)", "Of the CSU (the University) it says", "Schools", "CSU (the university)"),
        ("(unclear)", "Nothing.", "Nothing", "(unclear)"),
        ("f(x)", "A function.", "Maths", "f(x)"),
        ("Oslo", "A town.", "Norway", "Oslo"),
    ],
)
def test_a_remark_behind_an_answer_stays_where_a_passage_writes_it(
    answer: str, text: str, title: str, written: str
) -> None:
    assert without_remark(answer, [Passage(id="1", title=title, text=text, score=1.0)]) == written


@given(st.text(alphabet="ab( )", max_size=20))
def test_an_answer_is_never_cut_to_nothing(answer: str) -> None:
    cut = without_remark(answer, [])
    assert answer.startswith(cut) and bool(cut.strip()) == bool(answer.strip())
    assert without_remark(answer, [Passage(id="1", title="", text=f"so {answer} it is", score=1.0)]) == answer


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
    done = await rolled_out(run, PLAN)
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
    assert await run(PLAN, PLAIN) is None


async def test_a_cut_rephrasing_is_not_searched_for() -> None:
    run, _ = runner(knows, CutModel(knows, lambda request: request.purpose == "rephrase"))
    done = await varied(run, "query", 0)
    assert not any(step.query_rephrased for step in done.steps)
