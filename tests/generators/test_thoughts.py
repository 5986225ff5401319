"""Thoughts by the model: of each accepted row, from the steps alone, and the pools where it does not hold."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.generators.strong_thoughts import REPLIES, ROWS
from tests.support.rows import AGAIN, FIRST, MISLED, QUESTION, trajectory
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.filters import FilterConfig
from trailforge.generators.mcts_trajectories.choice import reword
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.estimate import rehearse
from trailforge.generators.mcts_trajectories.generate import Context, GeneratorConfig, PromptNames
from trailforge.generators.mcts_trajectories.telling.doubts import DOUBTS, doubtful, doubts_of
from trailforge.generators.mcts_trajectories.telling.form import describe, reply_schema
from trailforge.generators.mcts_trajectories.telling.spans import span_problem, texts_of
from trailforge.generators.mcts_trajectories.telling.story import mismatch, rereads, sft_row, story_of
from trailforge.generators.mcts_trajectories.telling.thoughts import ThoughtsConfig
from trailforge.inference import Meter, Prices, Request
from trailforge.pipelines.life import Chosen
from trailforge.retrieval import RetrievalConfig, open_retrieval
from trailforge.schemas import Trajectory, Verdict
from trailforge.schemas.text import count_conversation

THOUGHTS = ThoughtsConfig(source="model", max_tokens=2048)
FILTERS = FilterConfig()


def run(
    script: Callable[[Request], str],
    *rows: Trajectory,
    config: ThoughtsConfig = THOUGHTS,
    filters: FilterConfig = FILTERS,
) -> tuple[list[Trajectory], Meter, ScriptedModel]:
    """The rows as they are told, what it took, and the model that was asked; none is rejected."""
    told, rejected, usage, model = check(script, *rows, config=config, filters=filters)
    assert rejected == []
    return told, usage, model


def check(
    script: Callable[[Request], str],
    *rows: Trajectory,
    config: ThoughtsConfig = THOUGHTS,
    filters: FilterConfig = FILTERS,
) -> tuple[list[Trajectory], list[tuple[Trajectory, Verdict]], Meter, ScriptedModel]:
    """The rows as they are told, those that are rejected, what it took, and the model that was asked."""
    model = ScriptedModel(script)
    mode = "reread" if any(map(rereads, rows)) else "search"
    context = Context(
        run_id="run",
        model="scripted",
        seed=0,
        prices=Prices(),
        config=GeneratorConfig(thoughts=config, reasoning_rows=mode),
        client=model,
        retrieval=open_retrieval(RetrievalConfig(kind="bm25")),
    )
    chosen, usage = asyncio.run(reword(QUESTION, Chosen(rows, ()), context, filters))
    return list(chosen.kept), list(chosen.rejected), usage, model


def says(name: str) -> Callable[[Request], str]:
    return lambda request: json.dumps(REPLIES[name])


def saying(name: str, *changes: tuple[str, str, object]) -> str:
    """The reply of a row, with fields changed; a field that is changed to None is left out."""
    reply = copy.deepcopy(REPLIES[name])
    for turn, field, value in changes:
        reply[turn][field] = value
        if value is None:
            del reply[turn][field]
    return json.dumps(reply)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_told_in_the_models_words(name: str) -> None:
    row = ROWS[name]
    (told,), usage, model = run(says(name), row)
    assert told.thoughts == "model" and span_problem(told) == mismatch(told) == ""
    assert [len(model.requests), usage.calls] == [1, 1]
    (request,) = model.requests
    assert (request.purpose, request.sampling.max_tokens) == ("thoughts", 2048)
    assert told.provenance.call_keys == (*row.provenance.call_keys, request.key)
    assert told.token_estimate == count_conversation(told.messages)
    assert (told.uid, told.steps, told.final_answer) == (row.uid, row.steps, row.final_answer)
    assert texts_of(told, "query", "answer") == texts_of(row, "query", "answer")
    fields = [(field, text) for turn in REPLIES[name].values() for field, text in turn.items()]
    assert texts_of(told, "claim", "mistake") == [text for field, text in fields if field.endswith("claim")]
    assert texts_of(told, "mend") == [text for field, text in fields if field == "reflection"]
    assert texts_of(told, "plan") == [text for field, text in fields if field in ("plan", "new_plan")]
    assert sft_row(told).spans == told.spans


def test_a_reply_that_cannot_be_used_is_written_again_with_the_reason() -> None:
    good = json.dumps(REPLIES["campuses"])
    bad = good.replace("Let me start with", "I know it is 12, but check")

    def script(request: Request) -> str:
        return good if "cannot be used" in prompt_text(request) else bad

    (told,), usage, model = run(script, ROWS["campuses"], config=replace(THOUGHTS, tries=2))
    assert told.thoughts == "model" and usage.calls == 2
    first, second = map(prompt_text, model.requests)
    assert second.startswith(first) and "turn 1: the number 12" in second.removeprefix(first)
    assert told.provenance.call_keys[-2:] == tuple(request.key for request in model.requests)
    (kept,), usage, _ = run(lambda request: bad, ROWS["campuses"], config=replace(THOUGHTS, tries=2))
    assert kept.thoughts == "templates" and usage.calls == 2


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        ("I would rather not.", 2),
        ("{}", 2),
        (json.dumps(REPLIES["campuses"] | {"turn_9": {}}), 2),
        (json.dumps(REPLIES["campuses"]).replace("Let me start with", "I know it is 12, but check"), 1),
    ],
)
def test_what_does_not_hold_keeps_the_sentences_from_pools(reply: str, calls: int) -> None:
    row = ROWS["campuses"]
    (told,), usage, model = run(lambda request: reply, row)
    assert told == replace(row, provenance=told.provenance)
    keys = tuple(request.key for request in model.requests)
    assert told.provenance.call_keys == (*row.provenance.call_keys, *keys) and usage.calls == len(keys) == calls


@pytest.mark.parametrize(
    ("name", "turn", "field", "step"),
    [
        ("director", "turn_3", "stated", 1),
        ("director", "turn_2", "stated", 0),
        ("director misread", "turn_4", "stated", 2),
        ("director reread", "turn_3", "second_stated", 2),
    ],
)
def test_a_row_whose_claim_is_not_stated_by_the_models_own_word_is_rejected(
    name: str, turn: str, field: str, step: int
) -> None:
    row, reply = ROWS[name], saying(name, (turn, field, False))
    told, ((rejected, verdict),), usage, model = check(lambda request: reply, row)
    assert told == [] and usage.calls == len(model.requests) == 1
    assert (verdict.keep, verdict.reason, verdict.score) == (False, "unsupported_claim", 1.0)
    assert row.steps[step].query in verdict.detail and row.steps[step].answer in verdict.detail
    keys = (*row.provenance.call_keys, model.requests[0].key)
    assert rejected == replace(row, provenance=replace(row.provenance, call_keys=keys))


@pytest.mark.parametrize(
    "quote", ["", "She was its head for years.", ROWS["director"].steps[1].passages[-1].text.partition(".")[0]]
)
def test_a_claim_is_not_stated_where_the_words_that_are_cited_do_not_show_it(quote: str) -> None:
    """None, words that nothing says, and words of a passage that lack the answer; whatever the model says of them."""
    row, reply = ROWS["director"], saying("director", ("turn_3", "quote", quote), ("turn_3", "stated", True))
    told, ((_, verdict),), _, _ = check(lambda request: reply, row)
    assert told == [] and verdict.reason == "unsupported_claim" and row.steps[1].query in verdict.detail


def test_rows_that_rest_on_a_claim_that_is_not_stated_in_the_first_are_not_told() -> None:
    row, other = ROWS["director"], ROWS["campuses"]
    twin = replace(row, uid="twin")
    reply = saying("director", ("turn_2", "stated", False))
    replies = {row.question: reply, other.question: json.dumps(REPLIES["campuses"])}

    def model_says(request: Request) -> str:
        return next(text for asked, text in replies.items() if asked in prompt_text(request))

    told, rejected, usage, model = check(model_says, row, twin, other)
    assert [each.uid for each in told] == [other.uid] and told[0].thoughts == "model"
    assert [each.uid for each, _ in rejected] == [row.uid, "twin"] and len({verdict for _, verdict in rejected}) == 1
    assert usage.calls == len(model.requests) == 2
    assert rejected[1][0] == twin, "no call was made for it"


def test_a_claim_that_is_not_stated_rejects_whatever_the_gate_says() -> None:
    for stated, kept in ((True, 1), (False, 0)):
        reply = saying("director", ("turn_3", "stated", stated), ("turn_1", "next", "Boston is where I would begin."))
        told, rejected, _, _ = check(lambda request, reply=reply: reply, ROWS["director"])
        assert (len(told), len(rejected)) == (kept, 1 - kept)
        assert [row.thoughts for row in told] == ["templates"] * kept


def test_a_mistake_that_the_passages_state_is_none() -> None:
    row = ROWS["director misread"]
    for turn, field, value, reason in (
        ("turn_3", "stated", True, "mistake_is_stated"),
        ("turn_3", "sound", False, "untrue_reflection"),
        ("turn_3", "fits", False, "unfit_query"),
    ):
        reply = saying("director misread", (turn, field, value), ("turn_3", "reflection", ""))
        told, ((_, verdict),), _, _ = check(lambda request, reply=reply: reply, row)
        assert (told, verdict.keep, verdict.reason) == ([], False, reason)
        assert verdict.detail and "{" not in verdict.detail


def test_a_claim_beside_which_the_passages_have_another_answer_is_a_choice_and_no_finding() -> None:
    row = ROWS["director"]
    answer, rival = row.steps[1].answer, "Rosenberg"
    for named, reasons in (
        (rival, ["ambiguous_passages"]),
        (f"{rival}; {answer}", ["ambiguous_passages"]),
        (answer, []),
        ("", []),
    ):
        reply = saying("director", ("turn_3", "others", named))
        _, rejected, _, _ = check(lambda request, reply=reply: reply, row)
        assert [verdict.reason for _, verdict in rejected] == reasons
    for unseen in ("Zanzibar", row.steps[0].answer):  # nothing that was shown, and what the sub-question names itself
        reply = saying("director", ("turn_3", "others", unseen))
        assert check(lambda request, reply=reply: reply, row)[1] == []


def test_a_mistake_that_is_stated_is_another_answer_to_who_concludes_something_else() -> None:
    """And none to who concludes the same in more words."""
    row = ROWS["director misread"]
    story = story_of(row, "reread")
    wrong, right = (step for step in row.steps if step.query == row.steps[1].query)
    (doubt,) = (each for each in doubts_of(story, {"turn_3": {"stated": True}}))
    twin = replace(row, steps=(row.steps[0], replace(right, index=1)))
    assert doubtful(twin, [doubt]).reason == "ambiguous_passages" and not doubtful(twin, [doubt]).keep
    same = replace(twin, steps=(row.steps[0], replace(right, answer=f"{wrong.answer} indeed")))
    assert doubtful(same, [doubt]).keep


def test_a_search_for_what_is_known_is_needless_after_the_same_searches_alone() -> None:
    row = ROWS["director"]
    reply = json.loads(saying("director", ("turn_2", "missing", False)))
    (doubt,) = doubts_of(story_of(row, "search"), reply)
    assert doubt.reason == "needless_search" and not doubtful(row, [doubt]).keep
    other = replace(row, steps=(replace(row.steps[0], query="something else"), row.steps[1]))
    assert doubtful(other, [doubt]).keep
    fields = [turn["properties"] for turn in reply_schema(story_of(row, "search"))["properties"].values()]
    assert ["missing" in turn for turn in fields] == [False, True, False]


def test_a_query_that_serves_no_purpose_rejects_all_rows_that_search_by_it() -> None:
    row = ROWS["director"]
    reply = saying("director", ("turn_1", "fits", False))
    told, rejected, usage, _ = check(lambda request: reply, row, replace(row, uid="twin"))
    assert told == [] and usage.calls == 1
    assert [verdict.reason for _, verdict in rejected] == ["unfit_query"] * 2


def test_the_answer_of_a_step_that_should_not_have_been_asked_may_be_stated() -> None:
    named = [name for name, row in ROWS.items() if row.reflection_error == "decomposition"]
    assert named
    for name in named:
        story = story_of(ROWS[name], "search")
        (turn,) = (t["properties"] for t in reply_schema(story)["properties"].values() if "new_plan" in t["properties"])
        assert "stated" not in turn and "sound" in turn


@given(st.data())
def test_a_row_is_doubted_exactly_where_a_reply_speaks_against_it(data: st.DataObject) -> None:
    row = ROWS[name := data.draw(st.sampled_from(sorted(ROWS)))]
    story = story_of(row, "reread" if rereads(row) else "search")
    reply = copy.deepcopy(REPLIES[name])
    asked = [(turn, field) for turn in reply for field, value in reply[turn].items() if isinstance(value, bool)]
    turned = data.draw(st.sets(st.sampled_from(asked)))
    for turn, field in turned:
        reply[turn][field] = not reply[turn][field]
    doubts = doubts_of(story, reply)
    assert len(doubts) == len(turned)
    assert doubtful(row, doubts).keep is not bool(turned)
    assert doubtful(row, doubts).reason in DOUBTS


def test_of_a_search_that_found_nothing_it_is_asked_whether_the_passages_say_it() -> None:
    """No sentence is cited for it; where the model finds the answer there, the search is not to be blamed."""
    row = trajectory(FIRST, replace(MISLED, answer=""), AGAIN, error="retrieval")
    story = story_of(row, "search")
    fields = reply_schema(story)["properties"]["turn_3"]["properties"]
    assert [name for name in fields if name in ("quote", "stated", "claim", "reflection")] == [
        "stated", "claim", "reflection",
    ]  # fmt: skip
    assert "the answer to 'In which city was Fritz Lang born?'?" in describe(story)
    (doubt,) = doubts_of(story, {"turn_3": {"stated": True}})
    assert doubt.reason == "mistake_is_stated" and doubts_of(story, {"turn_3": {"stated": False}}) == []
    assert not doubtful(row, [doubt]).keep


@pytest.mark.parametrize("name", ROWS)
def test_of_each_claim_it_is_asked_whether_it_is_stated_before_it_is_worded(name: str) -> None:
    row = ROWS[name]
    turns = reply_schema(story_of(row, "reread" if rereads(row) else "search"))["properties"]
    fields = [list(turn["properties"]) for turn in turns.values()]
    assert sum(field.endswith("stated") for turn in fields for field in turn) == sum(
        not step.is_mistake or row.reflection_error != "decomposition" for step in row.steps
    )
    assert sum("next" in turn for turn in fields) == sum(turn[-1] == "fits" for turn in fields)
    assert sum("reflection" in turn for turn in fields) == sum("sound" in turn for turn in fields)
    for turn in fields:
        for at, field in enumerate(turn):
            if field.endswith("stated"):
                which = field.removesuffix("stated")
                rest = [name for name in turn[at + 1 : at + 3] if name != f"{which}others"]
                assert turn[at - 1] == f"{which}quote" and rest[0] == f"{which}claim"
                assert (len(rest) == 1) is (f"{which}others" in turn)


@pytest.mark.parametrize("value", [None, "false", "yes", 0])
def test_a_reply_that_does_not_say_whether_a_claim_is_stated_is_malformed_and_the_row_is_kept(value: object) -> None:
    reply = saying("director", ("turn_3", "stated", value), ("turn_2", "stated", False))
    (told,), usage, _ = run(lambda request: reply, ROWS["director"])
    assert (told.thoughts, told.messages, usage.calls) == ("templates", ROWS["director"].messages, 2)


def test_thoughts_that_make_a_row_too_long_are_not_taken() -> None:
    row = ROWS["campuses"]
    (told,), _, _ = run(says("campuses"), row)
    least = replace(FILTERS, max_tokens=told.token_estimate)
    assert run(says("campuses"), row, filters=least)[0][0].thoughts == "model"
    (kept,), usage, _ = run(says("campuses"), row, filters=replace(least, max_tokens=told.token_estimate - 1))
    assert (kept.messages, kept.thoughts, usage.calls) == (row.messages, "templates", 1)


def test_each_row_has_its_own_call_and_none_is_made_where_pools_are_asked_for() -> None:
    rows = [ROWS["campuses"], ROWS["director"]]
    told, usage, _ = run(
        lambda request: json.dumps(REPLIES["campuses" if "Desert" in prompt_text(request) else "director"]), *rows
    )
    assert [row.thoughts for row in told] == ["model", "model"] and usage.calls == 2
    told, usage, model = run(says("campuses"), *rows, config=ThoughtsConfig())
    assert told == rows and usage.calls == 0 and not model.requests


@pytest.mark.parametrize("name", ROWS)
def test_the_model_is_shown_the_steps_and_asked_for_a_field_a_part(name: str) -> None:
    row = ROWS[name]
    asked: list[Request] = []
    run(lambda request: asked.append(request) or json.dumps(REPLIES[name]), row)  # type: ignore[func-returns-value]
    prompt = prompt_text(asked[0])
    for step in row.steps:
        assert step.query in prompt and step.answer in prompt and all(p.text in prompt for p in step.passages)
    assert row.question in prompt and "{{" not in prompt
    assert not any(word in prompt.lower() for word in ("gold", "reward", "filter", "hop answer"))
    schema = reply_schema(story_of(row, "reread" if rereads(row) else "search"))
    jsonschema.validate(REPLIES[name], schema)
    assert asked[0].json_schema == json.dumps(schema)


def test_an_alias_or_gold_answer_that_no_step_found_is_not_shown() -> None:
    row = replace(ROWS["director"], answer="Wien", answer_aliases=("Vindobona",))
    prompt = describe(story_of(row, "search"))
    assert "Wien" not in prompt and "Vindobona" not in prompt


async def test_an_estimate_counts_the_calls_for_thoughts() -> None:
    sizes = {}
    for source in ("templates", "model"):
        config = GeneratorConfig(thoughts=ThoughtsConfig(source=source))
        lines, _ = await rehearse([QUESTION], MctsRunConfig(generator=config), total=1)
        sizes[source] = {line.stage: line.usage for line in lines}
    assert "thoughts" not in sizes["templates"]
    thoughts = sizes["model"].pop("thoughts")
    assert thoughts.calls > 0 and thoughts.completion_tokens > 50 * thoughts.calls
    assert sizes["model"] == sizes["templates"]


def test_other_words_of_the_prompt_are_another_version() -> None:
    assert PromptNames().version != PromptNames(thoughts="split").version
