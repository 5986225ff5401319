"""Replies to bundle questions are scored by letters, the matcher, a judge or key facts, as their type allows."""

from __future__ import annotations

import pytest

from tests.support.bundle_questions import choice, question
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.filters.answers import AnswerJudgeOptions, AnswerScorer, open_scorer, speaks_of_fact, states_fact
from trailforge.inference import Meter
from trailforge.inference.asker import Asker
from trailforge.inference.judge import Judged
from trailforge.schemas import BundleQuestion

COHEN = question(
    type="causal",
    question="How do the results of the deepfake detector that did best on DeepSpeak speak against what Cohen said?",
    answer="He said that no computer algorithms can detect whether something is inherently fake, but GenConViT, after "
    "fine-tuning, detected deepfakes with an accuracy of 93.82%.",
    key_facts=("no algorithms detect | no algorithm can tell", "GenConViT", "93.82%"),
)
NIDA = question(
    type="causal",
    question="Why might replies written by language models help with what the institute tries to do on its Chat Day?",
    answer="Its scientists could answer only 2,500 of 8,000 questions on Chat Day, while readers of LLM-generated "
    "replies reported the least stigmatized attitudes toward medications for addiction treatment.",
    key_facts=("2,500 of the 8,000 | 2,500 of 8,000", "least stigmatized attitudes"),
)
LIBRARY = question(
    type="causal",
    question="Why could UXAgent spare the National Library of Medicine trouble with its hallway testing?",
    answer="The library had to draw passers-by in a lobby with free lattes and wait for them, while UXAgent "
    "automatically generates thousands of simulated users to test a website.",
    key_facts=("lattes", "simulated users"),
)
WHOLE, HALF = True, False
REPLIES = [
    (NIDA, WHOLE, "Because NIDA's scientists managed to answer only 2,500 of the 8,000 questions they received, and "
     "experiments found that reading LLM-generated responses led to the least stigmatized attitudes toward addiction "
     "treatment."),
    (NIDA, HALF, "Because the scientists could answer only 2,500 of the 8,000 questions that teenagers asked, and "
     "language models could answer the rest without judging them."),
    (NIDA, HALF, "Because readers of LLM-generated responses reported the least stigmatized attitudes toward "
     "medications for addiction treatment, so such replies could reach those whom the scientists had no time to "
     "answer."),
    (COHEN, WHOLE, "Cohen said there are no computer algorithms that can detect if something is inherently fake, "
     "whereas the fine-tuned GenConViT identified deepfakes with 93.82% accuracy."),
    (COHEN, HALF, "GenConViT's accuracy of 93.82% shows that algorithms can detect deepfakes well, against his claim "
     "that they could not."),
    (COHEN, HALF, "They show that algorithms can detect deepfakes accurately, although Cohen said that there are no "
     "computer algorithms that can detect if something is inherently fake."),
    (LIBRARY, WHOLE, "Because it generates thousands of simulated users automatically, so nobody has to be lured with "
     "lattes, approached and waited for in a busy lobby."),
    (LIBRARY, WHOLE, "Because with simulated users the staff would not have to attract passers-by in a lobby with free "
     "lattes and wait for them."),
    (LIBRARY, HALF, "Because it automatically generates thousands of simulated users to test the website, so no human "
     "participants have to be recruited on the spot."),
]  # fmt: skip
"""What a strong model replied, from all documents or from one, and whether it says all that the gold answer says."""


async def is_right(row: BundleQuestion, reply: str, scorer: AnswerScorer | None = None) -> bool:
    scorer = scorer or AnswerScorer()
    return scorer.accepts(*await scorer.score(row, reply))


@pytest.mark.parametrize(("row", "right", "reply"), REPLIES)
async def test_an_explanation_is_right_when_it_says_all_key_facts(row: BundleQuestion, right: bool, reply: str) -> None:
    value, by = await AnswerScorer().score(row, reply)
    assert by == "key_facts" and value is not None and (value == 1) is right and value > 0


async def test_an_explanation_without_key_facts_and_judge_is_right_in_its_own_words_alone() -> None:
    row = question(type="causal", answer="The blades turn even in slow water")
    assert await is_right(row, "Because the blades turn even in slow water.")
    assert not await is_right(row, "since such blades turn in water that is slow")


@pytest.mark.parametrize(
    ("gold", "reply", "right"),
    [
        ("five years", "5", True),
        ("five years", "six years", False),
        ("the sixth inning", "The 6th inning", True),
        ("11 years", "11", True),
        ("11 years", "19", False),
        ("$4.3 billion", "$4.3B", True),
        ("54x", "54-fold", True),
        ("54-fold", "54 times", True),
        ("54x", "54 percent", False),
        ("September 30, 2015", "30 September 2015", True),
        ("University of Bergen", "the University of Bergen, Norway", True),
        ("University of Bergen", "the University of Bergen or of Oslo", False),
        ("University of Bergen", "UNKNOWN", False),
        ("University of Bergen", "", False),
    ],
)
async def test_a_fact_is_right_in_another_form(gold: str, reply: str, right: bool) -> None:
    assert await AnswerScorer().score(question(answer=gold), reply) == (float(right), "matching")


SIGNED = "Of the five who condemned the threat, who signed the letter on the oil waiver?"


@pytest.mark.parametrize(
    ("gold", "reply", "asked", "right"),
    [
        ("Chris Coons and Jack Reed", "Chris Coons, Jack Reed", SIGNED, True),
        ("Chris Coons and Jack Reed", "Jack Reed; Senator Chris Coons.", SIGNED, True),
        ("Maine, Iowa and Ohio", "Ohio, Iowa, and Maine", SIGNED, True),
        ("5 and 7", "5, 7", SIGNED, True),
        ("5 and 7", "7 and 5", SIGNED, False),
        ("Maine and Iowa", "Iowa and Maine", "Which states got most and least, in this order?", False),
        ("Chris Coons and Jack Reed", "Chris Coons", SIGNED, False),
        ("Chris Coons and Jack Reed", "Chris Coons, Jack Reed, Tim Kaine", SIGNED, False),
        ("Chris Coons and Jack Reed", "Jack Reed, Jack Reed", SIGNED, False),
        ("Maine and Iowa", "Maine and Ohio", SIGNED, False),
    ],
)
async def test_a_list_is_right_name_by_name_and_no_judge_is_asked(
    gold: str, reply: str, asked: str, right: bool
) -> None:
    scorer, model = judging('{"score": 0.4}', near_misses=True)
    assert await scorer.score(question(question=asked, answer=gold), reply) == (
        (1.0, "matching") if right else (0.4, "judge")
    )
    assert len(model.requests) == (not right)


async def test_an_alias_is_as_good_as_the_answer() -> None:
    assert await is_right(question(aliases=("UiB",)), "UiB") and not await is_right(question(), "UiB")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [("A, C and D", 1.0), ("A and C", 0.8), ("A, B, C, D", 0.857143), ("UNKNOWN", 0.0), ("option 0; option 2", 0.8)],
)
async def test_options_are_scored_by_their_letters_or_their_texts(reply: str, expected: float) -> None:
    value, by = await AnswerScorer().score(choice("A", "C", "D"), reply)
    assert by == "options" and value == pytest.approx(expected, abs=1e-6)
    assert await is_right(choice("A", "C", "D"), reply) is (expected == 1)


def judging(reply: str, *, near_misses: bool = False, free_answers: bool = False) -> tuple[AnswerScorer, ScriptedModel]:
    model = ScriptedModel(lambda request: reply)
    options = AnswerJudgeOptions(near_misses=near_misses, free_answers=free_answers)
    return open_scorer(options, Asker(client=model, model="scripted", style="chat", seed=0, meter=Meter())), model


@pytest.mark.parametrize(
    ("verdict", "expected", "right"),
    [('{"score": 0.95}', 0.95, True), ('{"score": 0.7}', 0.7, False), ("I would say so.", None, False)],
)
async def test_a_judge_decides_on_explanations(verdict: str, expected: float | None, right: bool) -> None:
    scorer, model = judging(verdict, free_answers=True)
    assert await scorer.score(COHEN, REPLIES[3][2]) == (expected, "judge")
    assert await is_right(COHEN, REPLIES[3][2], scorer) is right
    assert COHEN.answer in prompt_text(model.requests[0])


async def test_a_judge_is_asked_about_near_misses_of_facts_and_never_about_what_is_sure() -> None:
    scorer, model = judging('{"score": 1}', near_misses=True)
    for reply in ("University of Bergen", "UNKNOWN", "in the far north", ""):
        assert (await scorer.score(question(), reply))[1] == "matching"
    assert (await scorer.score(choice("A", "B", "C"), "A"))[1] == "options"
    assert (await scorer.score(COHEN, "They differ."))[1] == "key_facts"
    assert model.requests == []
    assert await scorer.score(question(), "Bergen") == (1.0, "judge") and len(model.requests) == 1


@pytest.mark.parametrize(
    ("gold", "reply", "by"),
    [
        ("staff shortage", "too few nurses", "judge"),  # no word in common
        ("A staff shortage", "Too few nurses.", "judge"),
        ("staff shortage", "Nurses of Bergen", "matching"),
        ("staff shortage", "12 nurses", "matching"),
        ("staff shortage", "5 nurses", "matching"),
        ("3 months", "too few nurses", "matching"),
        ("staff shortage", "nurses of Århus", "matching"),
        ("staff shortage", "I do not know", "matching"),
        ("staff shortage", "The documents do not say.", "matching"),
        ("Mara Lind", "too few nurses", "matching"),
        ("nurses", "too few", "matching"),
        ("staff shortage", "not known", "matching"),
    ],
)
async def test_a_judge_compares_phrases_that_share_no_word(gold: str, reply: str, by: str) -> None:
    scorer, model = judging('{"score": 1}', near_misses=True)
    assert await scorer.score(question(answer=gold), reply) == (float(by == "judge"), by)
    assert len(model.requests) == (by == "judge")
    assert (await AnswerScorer().score(question(answer=gold), reply)) == (0.0, "matching")


async def test_a_judge_that_is_off_is_never_asked() -> None:
    scorer, model = judging('{"score": 1}')
    assert await scorer.score(question(), "Bergen") == (0.0, "matching") and model.requests == []


@pytest.mark.parametrize(
    ("text", "fact", "said"),
    [
        ("the blades were turning in slower water", "turn in slow water", False),
        ("the blade turns where water is slow", "blades turning in slow water", True),
        ("it turns", "no turns", False),
        ("2500 in all", "2,500", True),
        ("12,500 in all", "2,500", False),
        ("in Oslo", "Bergen | Oslo", True),
        ("nothing at all", " | ", False),
    ],
)
def test_a_key_fact_is_said_with_all_its_words_in_one_wording(text: str, fact: str, said: bool) -> None:
    assert states_fact(text, fact) is said
    assert speaks_of_fact(text, fact) or not said


def test_a_key_fact_is_spoken_of_in_other_words() -> None:
    answer = "Semi-supervised learning helps, and segmentation accuracy significantly affects the quality of models."
    assert speaks_of_fact(answer, "segmentation accuracy affects 3D model quality")
    assert not speaks_of_fact(answer, "annotations are costly | labels cost much in cities")


async def test_what_a_judge_is_asked_is_the_question_and_all_its_golds() -> None:
    seen: list[Judged] = []

    async def ask(judged: Judged) -> float | None:
        seen.append(judged)
        return 0.4

    scorer = AnswerScorer(judge=ask, options=AnswerJudgeOptions(near_misses=True))
    row = question(aliases=("UiB",))
    assert await scorer.score(row, "Bergen") == (0.4, "judge")
    assert seen == [Judged(question=row.question, answer="Bergen", golds=("University of Bergen", "UiB"))]


async def test_a_judge_is_shown_the_key_facts_of_an_explanation() -> None:
    scorer, model = judging('{"score": 1}', free_answers=True)
    await scorer.score(COHEN, REPLIES[3][2])
    prompt = prompt_text(model.requests[0])
    assert COHEN.key_facts and all(f"\n- {fact}\n" in prompt for fact in COHEN.key_facts)
    scorer, model = judging('{"score": 1}', near_misses=True)
    await scorer.score(question(key_facts=("of no use",)), "Bergen")
    assert "of no use" not in prompt_text(model.requests[0])
