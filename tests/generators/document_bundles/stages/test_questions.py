"""The stage of questions with a scripted model: what is kept, what is rejected for which reason, and the books."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from tests.support.bundle_drafts import ITEM, SOUND, context, hop, script
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.stages.questions import TABLE, questions_of
from trailforge.generators.document_bundles.stages.review import FAULTS, UNASKED
from trailforge.inference import Meter, Reply, Request
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.runs.accounting import check_balance
from trailforge.schemas import BundleQuestion, MalformedReply, RejectedRow, from_dict

CONFIG = BundleRunConfig()
EDITED = replace(CONFIG, filters=replace(CONFIG.filters, review=True))
LOOKED_AT = replace(CONFIG, filters=replace(CONFIG.filters, asked=True, halves=True))
TOLD = "Who of the University of Bergen designed the tide mill's turbine?"
MADE_UP = {**SOUND, "hops": hop(0, evidence="the turbine that Mara Lind invented")}
CYCLE = {**SOUND, "hops": hop(0, needs=[2])}
LEAK = {**SOUND, "question": TOLD}


async def result_of(*drafts: dict[str, Any], **how: Any) -> ItemResult:
    return await questions_of(ITEM, context(ScriptedModel(script(drafts, **how))), CONFIG)


def books(result: ItemResult) -> list[tuple[str, int, int]]:
    """After a check that they balance."""
    check_balance(result.stages)
    return [(line.name, line.inputs, line.accepted) for line in result.stages]


async def test_a_sound_question_is_kept_with_its_calls_and_what_they_cost() -> None:
    result = await result_of(SOUND)
    (row,), rejected = result.rows[TABLE], result.rows["rejected"]
    assert rejected == [] and all(score.passed for score in row.filters)
    assert books(result) == [("write", 1, 1), ("filter", 1, 1)]
    calls = 1 + 2 + 1 + 2
    assert len(set(row.provenance.call_keys)) == result.usage.calls == calls
    assert result.usage.cost == pytest.approx(result.usage.prompt_tokens / 1e6)


@pytest.mark.parametrize(
    ("draft", "how", "reason", "calls"),
    [
        (SOUND, {"needs": ("Bergen",)}, "fewer_documents_suffice", 5),
        (SOUND, {"needs": ("Atlantis",)}, "not_answerable", 6),
        (SOUND, {"knows": True}, "closed_book", 3),
        (MADE_UP, {}, "unsupported_quote", 1),
        (CYCLE, {}, "invalid_plan", 1),
        (LEAK, {}, "answer_given_away", 1),
    ],
)
async def test_a_flawed_question_is_rejected_for_its_flaw_and_costs_no_more_than_it_takes_to_see_it(
    draft: dict[str, Any], how: dict[str, Any], reason: str, calls: int
) -> None:
    result = await result_of(draft, **how)
    (row,) = result.rows["rejected"]
    assert result.rows[TABLE] == []
    assert (row.stage, row.reason) == ("filter", reason) and row.detail
    assert books(result) == [("write", 1, 1), ("filter", 1, 0)]
    assert [(c.reason, c.count) for line in result.stages for c in line.rejected] == [(reason, 1)]
    kept = from_dict(BundleQuestion, json.loads(row.payload))
    assert kept.uid == row.uid and kept.question == draft["question"]
    assert [score.name for score in kept.filters if not score.passed] == [reason]
    assert result.usage.calls == calls


async def test_an_editor_sees_question_answer_and_evidence_before_readers_do() -> None:
    model = ScriptedModel(script([SOUND]))
    result = await questions_of(ITEM, context(model), EDITED)
    assert [score.name for score in result.rows[TABLE][0].filters][:3] == [
        "used_fact",
        "sibling_answer",
        "poor_question",
    ]
    assert model.requests[1].purpose == "review" and result.usage.calls == 7
    shown = prompt_text(model.requests[1])
    quotes = (f"- [{number}] {each['evidence']}" for number, each in enumerate(SOUND["hops"], start=1))
    for told in (SOUND["question"], SOUND["answer"], *quotes, *(document.text for document in ITEM.documents)):
        assert told in shown
    assert "{{" not in shown


async def test_an_editor_sees_a_document_that_no_hop_quotes_and_its_numbers_are_the_bundle_s() -> None:
    model = ScriptedModel(
        script([{**SOUND, "hops": [{**each, "document": n} for n, each in enumerate(SOUND["hops"], 2)]}])
    )
    other = replace(ITEM.documents[0], id="other", title="Harbours", text="Ystad has a harbour of another firm.")
    await questions_of(replace(ITEM, documents=(other, *ITEM.documents)), context(model), EDITED)
    shown = next(prompt_text(request) for request in model.requests if request.purpose == "review")
    assert other.text in shown and f"- [3] {SOUND['hops'][1]['evidence']}" in shown


async def test_readers_answer_what_the_editor_words() -> None:
    wording = "The mill that won the Ludlow prize has a turbine. At which university did its designer work?"
    model = ScriptedModel(script([SOUND], wording=f" {wording} "))
    (row,) = (await questions_of(ITEM, context(model), EDITED)).rows[TABLE]
    assert row.question == wording and row.uid == (await result_of(SOUND)).rows[TABLE][0].uid
    assert all(wording in prompt_text(request) for request in model.requests[2:])


async def test_a_wording_that_a_filter_rejects_is_left_out() -> None:
    model = ScriptedModel(script([SOUND], wording=f"Was it the {SOUND['answer']}?"))
    (row,) = (await questions_of(ITEM, context(model), EDITED)).rows[TABLE]
    assert row.question == SOUND["question"]


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_an_editor_finds_fault_with_is_read_by_nobody(fault: str) -> None:
    result = await questions_of(ITEM, context(ScriptedModel(script([SOUND], fault=fault))), EDITED)
    (row,) = result.rows["rejected"]
    assert (row.reason, row.detail, result.usage.calls) == ("poor_question", f"{fault}: It is said why.", 2)


async def test_what_a_filter_sees_for_itself_is_shown_to_no_editor() -> None:
    result = await questions_of(ITEM, context(ScriptedModel(script([LEAK]))), EDITED)
    assert [row.reason for row in result.rows["rejected"]] == ["answer_given_away"] and result.usage.calls == 1


async def test_a_review_that_cannot_be_read_shows_nothing_and_loses_its_question_alone() -> None:
    model = ScriptedModel(script([SOUND], fault="boring"))
    result = await questions_of(ITEM, context(model), EDITED)
    (row,) = result.rows["rejected"]
    assert (row.reason, row.detail[:12]) == ("poor_question", "no verdict: ")
    assert [request.purpose for request in model.requests][-2:] == ["review", "review"]


CAUSE = {
    **SOUND,
    "type": "causal",
    "question": "Why was the turbine of the tide mill that won the Ludlow prize built for slow water?",
    "answer": "Its designer, Mara Lind, had studied blades at the University of Bergen",
    "key_facts": ["Mara Lind studied blades at the University of Bergen"],
}
CHOICE = {
    **SOUND,
    "type": "single_choice",
    "options": ["Oslo", "Tartu", "Bergen", "Lund"],
    "correct": ["C"],
    "answer": "Bergen",
}


async def test_whoever_says_if_anybody_would_ask_sees_no_document_and_no_options() -> None:
    model = ScriptedModel(script([CHOICE]))
    await questions_of(ITEM, context(model), LOOKED_AT)
    (asked,) = [prompt_text(request) for request in model.requests if request.purpose == "asked"]
    assert f"Question: {CHOICE['question']}\n" in asked and "What answers it: Bergen\n" in asked and "{{" not in asked
    assert not any(told in asked for told in ("Tartu", "Lund", *(document.text for document in ITEM.documents)))


@pytest.mark.parametrize("fault", UNASKED)
async def test_what_nobody_would_ask_is_read_by_nobody_and_written_again(fault: str) -> None:
    model = ScriptedModel(script([SOUND], unasked=fault))
    result = await questions_of(ITEM, context(model, mends=1), LOOKED_AT)
    (row,) = result.rows["rejected"]
    assert (row.reason, row.detail) == ("unasked_question", f"{fault}: It is said why.")
    assert [request.purpose for request in model.requests][:3] == ["write", "asked", "mend"]
    told = f"Nobody who has read none of the documents would ask it: {fault}: It is said why."
    assert told in prompt_text(model.requests[2])


@pytest.mark.parametrize(("enough", "reasons"), [(0, []), (1, ["half_answers"]), (2, ["half_answers"]), (3, [])])
async def test_a_cause_of_which_one_document_s_half_would_do_is_none(enough: int, reasons: list[str]) -> None:
    model = ScriptedModel(script([CAUSE], enough=enough))
    result = await questions_of(ITEM, context(model), LOOKED_AT)
    rejected = [row for row in result.rows["rejected"] if row.reason == "half_answers"]
    assert [row.reason for row in rejected] == reasons
    assert all(row.detail == f"{CAUSED[enough]} alone answers it: It is said why." for row in rejected)
    (halves,) = [prompt_text(request) for request in model.requests if request.purpose == "halves"]
    assert all(f"[{number}] {each['evidence']}" in halves for number, each in enumerate(SOUND["hops"], start=1))
    assert CAUSE["answer"] not in halves and "{{" not in halves


CAUSED = dict(enumerate(ITEM.bundle.document_ids, start=1))


async def test_halves_are_looked_at_of_explanations_alone() -> None:
    model = ScriptedModel(script([SOUND], enough=1))
    (row,) = (await questions_of(ITEM, context(model), LOOKED_AT)).rows[TABLE]
    assert "half_answers" not in [score.name for score in row.filters]


async def test_drafts_of_one_bundle_are_judged_one_by_one() -> None:
    again = {**SOUND, "question": SOUND["question"].replace("At which", "In which")}
    mill, water = "The Ludlow prize went to the Orkney tide mill", "We measure their yield in slow water"
    hops = [{**SOUND["hops"][0], "evidence": mill}, {**SOUND["hops"][1], "evidence": water, "needs": []}]
    other = {**again, "hops": hops}
    result = await result_of(other, SOUND, again)
    assert [row.question for row in result.rows[TABLE]] == [SOUND["question"], other["question"]], "the chain first"
    assert [row.reason for row in result.rows["rejected"]] == ["used_fact"]
    assert books(result) == [("write", 1, 1), ("filter", 3, 2)]
    first, second = (set(row.provenance.call_keys) for row in result.rows[TABLE])
    assert len(first) == len(second) == 6 and len(first & second) == 1, "they share the call that wrote them"
    assert result.usage.calls == 1 + 5 + 5


OTHER = {**SOUND, "question": SOUND["question"].replace("At which", "In which")}


async def mended(model: ScriptedModel, config: BundleRunConfig = EDITED, mends: int = 1) -> ItemResult:
    return await questions_of(ITEM, context(model, mends=mends), config)


async def test_a_draft_that_an_editor_finds_fault_with_is_written_again_and_judged_as_any_other() -> None:
    model = ScriptedModel(script([SOUND], fault="one_document", mended=[OTHER]))
    result = await mended(model)
    (row,), (against,) = result.rows[TABLE], result.rows["rejected"]
    assert row.question == OTHER["question"] and against.detail == "one_document: It is said why."
    assert books(result) == [("write", 1, 1), ("filter", 2, 1)]
    assert [request.purpose for request in model.requests[:4]] == ["write", "review", "mend", "review"]
    first, again = (prompt_text(model.requests[at]) for at in (0, 2))
    assert again.startswith(first) and "{{" not in again
    told = again.removeprefix(first)
    assert "An editor finds: one_document: It is said why." in told
    assert f"Question: {SOUND['question']}" in told and f"- [2] {SOUND['hops'][1]['evidence']}" in told
    assert len(set(row.provenance.call_keys)) == result.usage.calls - 1 == 1 + 1 + 1 + 5, "all but the first review"


async def test_a_mended_draft_is_not_mended_again_and_no_more_drafts_are_than_the_writer_may() -> None:
    async def reasons(*drafts: dict[str, Any], mends: int, **how: Any) -> list[str]:
        result = await mended(ScriptedModel(script(drafts, fault="not_asked", **how)), mends=mends)
        books(result)
        return [row.reason for row in result.rows["rejected"]]

    assert await reasons(SOUND, mends=0) == ["poor_question"]
    assert await reasons(SOUND, mends=2, mended=[LEAK]) == ["poor_question", "answer_given_away"]
    assert await reasons(SOUND, OTHER, mends=1, mended=[LEAK]) == [
        "poor_question",
        "answer_given_away",
        "poor_question",
    ]
    assert await reasons(SOUND, mends=2) == ["poor_question"], "none is a good answer"


async def test_readers_and_rules_tell_what_to_mend_and_memory_does_not() -> None:
    async def told(draft: dict[str, Any], **how: Any) -> str:
        model = ScriptedModel(script([draft], **how))
        await mended(model, CONFIG)
        asked = [prompt_text(request) for request in model.requests if request.purpose == "mend"]
        return asked[0].rpartition("with the number of their document\n")[2] if asked else ""

    assert "one document alone has the answer: [2] give it: 'University of Bergen'" in await told(
        SOUND, needs=["Bergen"]
    )
    assert "A quote is not there: [1] does not say 'the turbine that Mara Lind invented'" in await told(MADE_UP)
    assert "It gives its answer away: 'University of Bergen' stands in " in await told(LEAK)
    assert not await told(SOUND, knows=True)
    strange = {**SOUND, "hops": [SOUND["hops"][0], {**SOUND["hops"][1], "document": 9}]}
    asked = await told(strange)
    assert "A quote is not there: document 9 does not say" in asked and "- [document 9] " in asked


@pytest.mark.parametrize("wording", ["", "Where did she teach whose turbine won the Ludlow prize?"])
async def test_a_writer_is_told_that_an_editor_changed_the_wording_where_one_did(wording: str) -> None:
    model = ScriptedModel(script([SOUND], wording=wording, needs=["Bergen"]))
    (row,) = (await mended(model)).rows["rejected"]
    (asked,) = [prompt_text(request) for request in model.requests if request.purpose == "mend"]
    told = f"An editor had changed the wording, which was: {SOUND['question']}"
    assert (told in asked) is bool(wording) and "An editor" not in row.detail


async def test_a_mend_without_the_form_mends_nothing_and_loses_no_other_row() -> None:
    model = ScriptedModel(script([SOUND], fault="one_document", mended=[{"type": "riddle"}]))
    result = await mended(model)
    assert [row.reason for row in result.rows["rejected"]] == ["poor_question"]
    assert books(result) == [("write", 1, 1), ("filter", 1, 0)] and result.usage.calls == len(model.requests) > 2


async def test_a_bundle_of_which_nothing_can_be_asked_is_rejected_itself() -> None:
    result = await result_of()
    (row,) = result.rows["rejected"]
    assert (row.uid, row.stage, row.reason) == (ITEM.id, "write", "no_question")
    assert json.loads(row.payload)["document_ids"] == list(ITEM.bundle.document_ids)
    assert books(result) == [("write", 1, 0), ("filter", 0, 0)]


async def test_a_bundle_that_gave_none_says_why_in_its_writer_s_words() -> None:
    async def detail(**reply: Any) -> str:
        model = ScriptedModel(lambda _: json.dumps({"questions": [], **reply}))
        (row,) = (await questions_of(ITEM, context(model), CONFIG)).rows["rejected"]
        return row.detail

    why = "Both name Mara Lind, and neither says more of her than the other."
    assert await detail(joins=f" {why}\n") == why
    assert await detail() == await detail(joins="") == "no question joins its documents"


async def test_a_reply_without_the_form_is_the_error_of_the_bundle() -> None:
    with pytest.raises(MalformedReply):
        await result_of({"type": "riddle"})


class SlowModel(ScriptedModel):
    """Answers in an order of its own."""

    def __init__(self, seed: int) -> None:
        ScriptedModel.__init__(self, script([SOUND, LEAK]))
        self._rng = random.Random(seed)

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        """After some time."""
        await asyncio.sleep(self._rng.uniform(0, 0.02))
        return await ScriptedModel.complete(self, request, meter)


async def test_the_rows_do_not_depend_on_which_call_is_answered_first() -> None:
    """As after a kill, when some answers are in the ledger and others are not."""
    first, *others = await asyncio.gather(*(questions_of(ITEM, context(SlowModel(n)), CONFIG) for n in range(6)))
    assert all(other == first for other in others)
    assert isinstance(first.rows["rejected"][0], RejectedRow)
