"""The steps with a scripted model: what it is asked, what becomes of its choices, and how the plan is read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.cut_replies import CutModel
from tests.support.scripted import prompt_text
from trailforge.filters.bundle_readings import BundleFilterConfig, judge_question
from trailforge.generators.document_bundles.write import BundleContext, BundleWork, BundleWriterConfig, open_writer
from trailforge.inference import Prices, Request
from trailforge.protocols import nl_dag
from trailforge.schemas import Bundle, BundleInput, SourceDocument
from trailforge.small_model.bundle_steps import StepWork, draft_of
from trailforge.small_model.composing.composing import GAP, GapQuestion
from trailforge.small_model.composing.joining import Bridge, Joined

LIGHTS = SourceDocument(
    id="news:1", source="news", kind="news", title="Two lights",
    text="The ship Vidar sank on 4 May 1911. The keeper Otto Berg painted the Norra Lighthouse in 1902. "
    "The Skarv Lighthouse was painted by Ida Holm in 1890.",
)  # fmt: skip
HISTORY = SourceDocument(
    id="arxiv:2", source="arxiv", kind="academic", title="Building on rock",
    text="The Skarv Lighthouse was opened on 9 June 1880. The Norra Lighthouse was opened on 3 May 1874. "
    "We give the height of each lighthouse. A lighthouse is a tower.",
)  # fmt: skip
BUNDLE = Bundle(uid="b", document_ids=("news:1", "arxiv:2"), sources=("news", "arxiv"), cohesion=0.6, theme="light")
ITEM = BundleInput(id="b", bundle=BUNDLE, documents=(LIGHTS, HISTORY))
NORRA = "When was the lighthouse that the keeper Otto Berg painted in 1902 opened?"


class SmallModel(CutModel):
    """Says `kinds` of what it is asked, and answers from the sentence it is shown; is cut where a prompt has `cuts`."""

    def __init__(self, *kinds: str, knows: bool = False, cuts: str = "") -> None:
        super().__init__(self._says, lambda request: cuts != "" and cuts in prompt_text(request).split("\n\n")[-1])
        self._kinds, self._knows = list(kinds), knows

    def _says(self, request: Request) -> str:
        prompt = prompt_text(request)
        if request.purpose == "kind":
            return f" {self._kinds.pop(0)}"
        if request.purpose == "closed_book":
            return "3 May 1874" if self._knows else "in 1900"
        shown = prompt.rpartition("Text:")[2]
        question = shown.partition("Question: ")[2]
        spans = (request.grammar or "").split('"')[3:-2:2]
        of_norra = next((span for span in spans if span == "Norra Lighthouse"), None)
        return f" {of_norra if of_norra and 'Otto Berg' in shown and 'painted in' in question else spans[0]}\n"


def work(model: SmallModel, **changes: int) -> StepWork:
    config = replace(BundleWriterConfig(kind="steps", read_max_tokens=16), **changes)
    context = BundleContext(
        run_id="r", model="scripted", preset="test", seed=0, prices=Prices(), config=config, client=model
    )  # fmt: skip
    return StepWork(item=ITEM, context=context)


async def test_a_row_joins_two_quotes_by_a_name_that_it_does_not_say() -> None:
    row = next(row for row in await work(SmallModel(), questions_per_bundle=20).write() if row.question == NORRA)
    assert row.answer == "3 May 1874" and row.preset == "test" and row.type == "factual"
    assert [hop.document_id for hop in row.hops] == ["news:1", "arxiv:2"]
    assert [hop.evidence in d.text for hop, d in zip(row.hops, ITEM.documents, strict=True)] == [True, True]
    plan = nl_dag.parse(row.dag_text)
    assert [(node.query, node.tool) for node in plan.nodes] == [
        ("What is the name of the lighthouse that the keeper Otto Berg painted in 1902?", "News"),
        ("When was a lighthouse opened?", "Academic"),
    ]
    assert [(edge.src, edge.dst) for edge in plan.edges] == [("A", "B")]


@pytest.mark.parametrize(
    ("noun", "query"),
    [
        ("island", "When did an island burn?"),
        ("university", "When did a university burn?"),
        ("person", "When did the person who drew it burn?"),
    ],
)
def test_the_second_query_calls_a_thing_by_its_kind_and_a_person_by_what_is_known(noun: str, query: str) -> None:
    asked = GapQuestion(f"When did {GAP} burn?", "1871")
    joined = Joined(
        Bridge("Otto", noun, 0, 1), f"the {noun} who drew it", "Otto drew it.", asked, "Otto burnt in 1871."
    )
    assert draft_of(joined)["hops"][1]["query"] == query


async def test_drafts_are_the_same_every_time_and_no_more_than_asked_for() -> None:
    first, second = [await work(SmallModel(), questions_per_bundle=20).write() for _ in range(2)]
    assert first == second and len(first) > 2
    assert await work(SmallModel(), questions_per_bundle=2).write() == first[:2]


async def rejections(model: SmallModel) -> list[str]:
    task = work(model, questions_per_bundle=20)
    row = next(row for row in await task.write() if row.question == NORRA)
    return [v.reason for v in await judge_question(row, ITEM, task, BundleFilterConfig()) if not v.keep]


async def test_a_plan_is_read_step_by_step_and_needs_both_documents() -> None:
    model = SmallModel()
    assert await rejections(model) == []
    questions = [prompt_text(r).rpartition("Question: ")[2] for r in model.requests if r.purpose == "read"]
    assert "When was Norra Lighthouse opened?\nAnswer:" in questions
    assert all(r.grammar for r in model.requests if r.purpose == "read")


async def test_what_is_known_without_reading_is_rejected() -> None:
    assert await rejections(SmallModel(knows=True)) == ["closed_book"]


@pytest.mark.parametrize(
    ("said", "taken"), [(["city"] * 3, "city"), (["city", "country"] * 3, None), (["thing"] * 3, None)]
)
async def test_a_kind_is_taken_when_the_model_stands_by_it(said: list[str], taken: str | None) -> None:
    documents = [
        replace(LIGHTS, text="The crew met Visby in 1901. The ship saw Visby burn."),
        replace(HISTORY, text="Trade made Visby rich by 1300."),
    ]  # fmt: skip
    task = work(SmallModel(*said))
    task.item = replace(ITEM, documents=tuple(documents))
    assert await task._kind("Visby") == taken


def test_the_configuration_names_the_writer() -> None:
    context = work(SmallModel()).context
    assert isinstance(open_writer(ITEM, context), StepWork)
    assert isinstance(open_writer(ITEM, replace(context, config=BundleWriterConfig())), BundleWork)
    assert BundleWriterConfig().prompt_version != context.config.prompt_version


@pytest.mark.parametrize("step", ["When was Norra", "What is the name"])
async def test_a_step_that_was_cut_leaves_no_answer(step: str) -> None:
    task = work(SmallModel(cuts=f"Question: {step}"), questions_per_bundle=20)
    row = next(row for row in await task.write() if row.question == NORRA)
    assert await task.answer(row, ITEM.documents, 0) is None
