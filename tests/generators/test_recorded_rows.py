"""Rows that a strong model's replies made, each with a strict reader's verdict (`tests/recorded/README.md`).

Where a verdict needs a reply to a prompt that did not exist then, the reply is played as an honest model would give it.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.rows import trajectory
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.filters import FilterConfig, first_rejection, judge_trajectory
from trailforge.filters.grounding import says
from trailforge.filters.questions import can_be_asked, garbled_places, quote_of, stated_hops
from trailforge.generators.mcts_trajectories.asking import prepare_question
from trailforge.generators.mcts_trajectories.choice import choose_rows, reword
from trailforge.generators.mcts_trajectories.generate import Context, GeneratorConfig
from trailforge.generators.mcts_trajectories.telling.form import form
from trailforge.generators.mcts_trajectories.telling.spans import texts_of
from trailforge.generators.mcts_trajectories.telling.story import story_of
from trailforge.generators.mcts_trajectories.telling.thoughts import ThoughtsConfig
from trailforge.inference import Prices, Request
from trailforge.mcts.plan import gold_plan
from trailforge.mcts.reflection import ReflectionConfig
from trailforge.pipelines.life import Chosen
from trailforge.retrieval import RetrievalConfig, open_retrieval
from trailforge.schemas import Document, Hop, Passage, Question, Step, Trajectory

FILE = Path(__file__).parents[1] / "recorded" / "mcts_rows.json.gz"
RECORDED: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
ROWS = RECORDED["rows"]

UNCLEAR = {"3hop2__127483_84553_10557", "3hop2__125104_90098_10557"}
"""Questions of which an honest model says that nobody can tell what they ask."""
GARBLED = {
    "Where do suicides by young females at a greater rate elderly females?",
    "In what state is the committee focusing?",
    "Which is the native country of the tantacle snake?",
    "What is the country of Representative of Falkland Islands , London?",
}
"""Queries of which it says that nobody would type them."""
STATED = "36%"
"""The mistake of which it says that the passages state it."""
PLAIN_WORDS = {
    "In what state is the committee focusing?": "On which state does the cross-border transactions committee focus?",
    "Which is the native country of the tantacle snake?": "Which region is the tentacled snake native to?",
    "What is the country of Representative of #1, #2?": "In which country is the representative of #1 in #2?",
}


def question_of(key: str) -> Question:
    given = RECORDED["questions"][key]
    return Question(
        id=key,
        question=given["question"],
        answer=given["answer"],
        answer_aliases=tuple(given["aliases"]),
        decomposition=tuple(Hop(question=q, answer=a, support_id=i) for q, a, i in given["hops"]),
        paragraphs=tuple(Document(id=i, title=title, text=text) for i, title, text in given["paragraphs"]),
        dataset="musique",
    )


def row_of(uid: str, **told: Any) -> Trajectory:
    given = ROWS[uid]
    question = question_of(given["question"])
    passages = {p.id: Passage(id=p.id, title=p.title, text=p.text, score=0.0) for p in question.paragraphs}
    steps = [Step(**{**step, "passages": tuple(passages[i] for i in step["passages"])}) for step in given["steps"]]
    row = trajectory(*steps, error=given["error"], plan=tuple(given["plan"]), question=question, **told)
    row = replace(row, uid=uid, origin=given["origin"], judge_score=given["judge_score"])
    return replace(row, reward=replace(row.reward, total=1.0)) if row.judge_score else row


def reasons(uid: str) -> list[str]:
    row = row_of(uid)
    verdicts = judge_trajectory(row, question_of(row.question_id), [], FilterConfig())
    return [verdict.reason for verdict in verdicts if not verdict.keep]


def context(model: ScriptedModel, **config: Any) -> Context:
    return Context(
        run_id="r",
        model="scripted",
        seed=0,
        prices=Prices(),
        config=GeneratorConfig(**config),
        client=model,
        retrieval=open_retrieval(RetrievalConfig(kind="bm25")),
    )


def honest(row: Trajectory) -> str:
    """What an honest model says of a row's steps; its thoughts do not matter here."""
    story = story_of(row, "search")
    reply = json.loads(form(story).replace("true or false", "true"))
    for number, step in enumerate(story.steps, start=1):
        reply[f"turn_{number}"]["fits"] = step.query not in GARBLED
        if "others" in reply[f"turn_{number + 1}"]:
            reply[f"turn_{number + 1}"]["others"] = ""
        if "quote" in reply[f"turn_{number + 1}"] and not step.is_mistake:
            having = [passage for passage in step.passages if says(passage, step.answer)] or step.passages
            reply[f"turn_{number + 1}"]["quote"] = quote_of(having[0], step.answer)
        if step.is_mistake and "stated" in reply[f"turn_{number + 1}"]:
            reply[f"turn_{number + 1}"]["stated"] = step.answer == STATED
    return json.dumps(reply)


async def told(row: Trajectory) -> tuple[list[str], list[str]]:
    """The uid of a row that stays when an honest model tells it, and the reasons for one that does not."""
    model = ScriptedModel(lambda request: honest(row))
    config = context(model, thoughts=ThoughtsConfig(source="model"))
    (kept, rejected), _ = await reword(question_of(row.question_id), Chosen([row], []), config, FilterConfig())
    assert len(model.requests) == 1
    return [each.uid for each in kept], [verdict.reason for _, verdict in rejected]


async def prepared(key: str) -> tuple[Question, str, int]:
    """A question as it is searched, the reason for which it is set aside, and the calls that took."""

    def reply(request: Request) -> str:
        plan = gold_plan(question_of(key).decomposition).sub_questions
        assert question_of(key).question in prompt_text(request)
        return json.dumps({"clear": key not in UNCLEAR, "sub_questions": [PLAIN_WORDS.get(q, q) for q in plan]})

    model = ScriptedModel(reply)
    asked, usage = await prepare_question(question_of(key), context(model), own_paragraphs=True)
    assert usage.calls == len(model.requests) == len(asked.call_keys)
    return asked.question, "" if asked.verdict.keep else asked.verdict.reason, usage.calls


@pytest.mark.parametrize(
    ("uid", "reason"),
    [
        ("58a6", "redundant_search"),  # no: a detour by the year
        ("8d1c", "redundant_search"),  # weak: its third search asks what was just shown
        ("c089", "wrong_intermediate"),  # no: "Latin adjective silvestris", at another place than the hop's
    ],
)
def test_filters_reject_what_a_strict_reader_would_not_train_on(uid: str, reason: str) -> None:
    assert reasons(uid) == [reason]


@pytest.mark.parametrize("uid", ["1ac8", "6b8e", "76b3", "a0a2"])
def test_what_was_wrongly_rejected_is_accepted(uid: str) -> None:
    assert ROWS[uid]["verdict"] == "wrongly rejected" and reasons(uid) == []


@pytest.mark.parametrize("uid", [uid for uid, row in ROWS.items() if row["verdict"] == "yes"])
async def test_a_good_row_stays(uid: str) -> None:
    assert reasons(uid) == []
    assert await told(row_of(uid)) == ([uid], [])
    assert (await prepared(ROWS[uid]["question"]))[1:] == ("", 0)


def test_a_row_that_differs_by_an_idle_passage_is_a_copy() -> None:
    question = question_of(ROWS["0a2c"]["question"])
    for first, second in (("0a2c", "6bb3"), ("6bb3", "0a2c")):
        accepted, rejected = choose_rows(question, [row_of(first), row_of(second)], FilterConfig(), ReflectionConfig())
        assert [row.uid for row in accepted] == [first]
        assert [verdict.reason for _, verdict in rejected] == ["duplicate_trajectory"]


@pytest.mark.parametrize("uid", ["2e1c", "e852"])
async def test_a_mistake_that_the_passages_state_is_rejected(uid: str) -> None:
    assert ROWS[uid]["verdict"] == "no" and await told(row_of(uid)) == ([], ["mistake_is_stated"])


@pytest.mark.parametrize("uid", ["5bbb", "7ffb"])
async def test_a_true_reflection_is_not_doubted_and_reads_again_without_the_same_search(uid: str) -> None:
    row = row_of(uid)
    plain = replace(row, steps=tuple(replace(step, query=step.query.replace(" , ", ", ")) for step in row.steps))
    assert await told(plain) == ([uid], [])
    again = row_of(uid, reasoning_rows="reread")
    query = next(step.query for step in row.steps if step.is_mistake)
    assert [texts_of(each, "query").count(query) for each in (row, again)] == [2, 1]


@pytest.mark.parametrize(("weak", "better"), [("4044", "854b"), ("115c", "5095"), ("03d7", "52f2"), ("1a35", "60f3")])
async def test_a_garbled_query_goes_and_the_policys_own_words_stay(weak: str, better: str) -> None:
    assert await told(row_of(weak)) == ([], ["unfit_query"])
    assert await told(row_of(better)) == ([better], [])
    question = question_of(ROWS[weak]["question"])
    accepted, rejected = choose_rows(question, [row_of(better), row_of(weak)], FilterConfig(), ReflectionConfig())
    assert [row.uid for row in accepted] == [better]
    assert [verdict.reason for _, verdict in rejected] == ["duplicate_trajectory"]


@pytest.mark.parametrize("uid", ["115c", "03d7", "1a35", "7ffb"])
async def test_garbled_gold_questions_are_searched_in_the_models_words(uid: str) -> None:
    question = question_of(ROWS[uid]["question"])
    asked, why, calls = await prepared(question.id)
    before, after = gold_plan(question.decomposition).sub_questions, gold_plan(asked.decomposition).sub_questions
    assert (why, calls) == ("", 1)
    assert after == tuple(PLAIN_WORDS.get(text, text) for text in before) != before


@pytest.mark.parametrize("uid", ["fa48", "5bbb", "c089"])
async def test_a_question_that_nobody_asks_is_set_aside_by_one_call(uid: str) -> None:
    assert (await prepared(ROWS[uid]["question"]))[1:] == ("garbled_question", 1)


async def test_a_question_that_holds_its_answer_is_set_aside_without_a_call() -> None:
    assert ROWS["1363"]["verdict"] == "no"
    assert (await prepared(ROWS["1363"]["question"]))[1:] == ("answer_in_question", 0)


def test_each_hop_of_the_recorded_questions_is_stated_by_a_sentence() -> None:
    for key in RECORDED["questions"]:
        question = question_of(key)
        quotes = stated_hops(question, question.paragraphs)
        assert None not in quotes and len(quotes) == len(question.decomposition)
        texts = [text for p in question.paragraphs for text in (p.title, p.text)]
        assert all(any(quote in text for text in texts) for quote in quotes if quote)
        is_named = key == ROWS["1363"]["question"]
        assert can_be_asked(question, own_paragraphs=True).keep is not is_named


def test_few_recorded_questions_look_garbled() -> None:
    garbled = {key for key in RECORDED["questions"] if garbled_places(q := question_of(key), q.paragraphs)}
    assert garbled >= UNCLEAR and len(garbled) == 5


def test_the_first_verdict_says_why_and_of_what() -> None:
    row = row_of("58a6")
    verdict = first_rejection(judge_trajectory(row, question_of(row.question_id), [], FilterConfig()))
    assert verdict is not None and "Where did the Chess Olympiad of 1984 take place?" in verdict.detail
