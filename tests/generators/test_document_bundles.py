"""Questions of a bundle by a scripted model: a sound one is kept, each flawed one is rejected for its flaw alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.bundle_drafts import ITEM, SOUND, hop, work
from tests.support.bundle_questions import PAPER, STREET, question
from tests.support.cut_replies import CutModel
from trailforge.filters.bundle_readings import BundleFilterConfig, judge_question
from trailforge.generators.document_bundles.drafts import plan_of
from trailforge.generators.document_bundles.write import BundleWork, complexity_of, with_scores
from trailforge.protocols import nl_dag
from trailforge.schemas import MalformedReply, PlanEdge

TWO_OPTIONS = {"type": "single_choice", "options": ["Bergen", "Oslo"], "correct": ["A"]}


async def rejections(task: BundleWork) -> list[str]:
    (row,) = await task.write()
    return [v.reason for v in await judge_question(row, ITEM, task, BundleFilterConfig()) if not v.keep]


async def test_a_sound_question_is_kept_with_what_was_measured() -> None:
    task = work(SOUND)
    (row,) = await task.write()
    verdicts = await judge_question(row, ITEM, task, BundleFilterConfig())
    sealed = with_scores(row, verdicts, task.meter.keys, ITEM.documents)
    assert all(score.passed for score in sealed.filters) and len(sealed.filters) == 15
    assert nl_dag.parse(sealed.dag_text).nodes == sealed.dag_nodes
    assert [node.tool for node in sealed.dag_nodes] == ["News", "Academic"]
    assert sealed.dag_edges == (PlanEdge(src="A", dst="B"),)
    assert len(sealed.provenance.call_keys) == task.meter.calls == 1 + 2 + 1 + 2
    assert 0 < sealed.complexity < 1


@pytest.mark.parametrize(
    ("draft", "how", "reason"),
    [
        (SOUND, {"needs": ("Bergen",)}, "fewer_documents_suffice"),
        (SOUND, {"needs": ("Atlantis",)}, "not_answerable"),
        (SOUND, {"knows": True}, "closed_book"),
        ({**SOUND, "hops": hop(0, evidence="the turbine that Mara Lind invented")}, {}, "unsupported_quote"),
        ({**SOUND, "hops": hop(0, needs=[2])}, {}, "invalid_plan"),
        ({**SOUND, "hops": hop(1, needs=[1, 7])}, {}, "invalid_plan"),
        (
            {**SOUND, "question": "Who of the University of Bergen designed the tide mill's turbine?"},
            {},
            "answer_given_away",
        ),
        ({**SOUND, "hops": hop(0, query="the University of Bergen and tide mills")}, {}, "answer_given_away"),
        ({**SOUND, **TWO_OPTIONS}, {}, "bad_options"),
        ({**SOUND, "hops": SOUND["hops"][:1]}, {}, "too_few_documents"),
    ],
)
async def test_each_flaw_is_rejected_for_itself_alone(draft: dict[str, Any], how: dict[str, Any], reason: str) -> None:
    assert await rejections(work(draft, **how)) == [reason]


async def test_evidence_of_one_source_is_rejected_for_that_alone() -> None:
    task = work(SOUND)
    (row,) = await task.write()
    item = replace(ITEM, documents=tuple(replace(document, source="news", kind="news") for document in ITEM.documents))
    verdicts = await judge_question(row, item, task, BundleFilterConfig())
    assert [v.reason for v in verdicts if not v.keep] == ["quotes_one_source"]
    assert task.meter.calls == 1  # no model is asked about it


async def test_a_document_that_is_not_there_is_no_crash() -> None:
    assert set(await rejections(work({**SOUND, "hops": hop(1, document=9)}))) == {
        "unsupported_quote",
        "too_few_documents",
    }


async def test_nothing_that_joins_documents_is_an_answer_too() -> None:
    assert await work(None).write() == []


async def test_a_reply_without_the_form_twice_is_an_error_of_the_bundle() -> None:
    with pytest.raises(MalformedReply):
        await work({"type": "riddle"}).write()


def test_more_sources_hops_depth_and_options_are_more_complex() -> None:
    easy = question()
    wide = question(dag_edges=())
    assert complexity_of(wide, [STREET, PAPER], 0.0) < complexity_of(easy, [STREET, PAPER], 0.0)
    of_one_source = [STREET, replace(PAPER, source=STREET.source, kind=STREET.kind)]
    assert complexity_of(easy, of_one_source, 0.0) < complexity_of(easy, [STREET, PAPER], 0.0)
    unused = replace(PAPER, id="else:3", source="else")
    assert complexity_of(easy, [STREET, PAPER, unused], 0.0) == complexity_of(easy, [STREET, PAPER], 0.0)
    assert complexity_of(easy, [STREET, PAPER], 0.5) < complexity_of(easy, [STREET, PAPER], 0.0)
    assert complexity_of(easy, [STREET, PAPER], 0.0) < complexity_of(question(type="causal"), [STREET, PAPER], 0.0)


def test_a_hop_that_needs_the_same_finding_twice_has_one_edge() -> None:
    _, edges = plan_of(hop(1, needs=[1, 1]), ITEM.documents)
    assert edges == (PlanEdge(src="A", dst="B"),)


async def test_a_reading_that_was_cut_is_no_answer() -> None:
    task = work(SOUND)
    (row,) = await task.write()
    task.context = replace(task.context, client=CutModel(lambda _: "the University of Bergen"))
    assert await task.answer(row, [STREET, PAPER], 0) is None
    assert await task.answer(row, (), 0) is None


async def test_evidence_is_what_the_document_says_though_the_prompt_shows_it_escaped() -> None:
    """The writer quotes what it was shown; the row has the document's own words, as searches bring them."""
    said, shown = (
        "the turbine [INST]that Mara</s> Lind designed",
        "the turbine &#91;INST]that Mara&lt;/s> Lind designed",
    )
    street = replace(STREET, text=STREET.text.replace("the turbine that Mara Lind designed", said))
    item = replace(ITEM, documents=(street, *ITEM.documents[1:]))
    task = work({**SOUND, "hops": hop(0, evidence=shown)})
    task.item = item
    (row,) = await task.write()
    assert [v.reason for v in await judge_question(row, item, task, BundleFilterConfig()) if not v.keep] == []
    assert row.hops[0].evidence == said
