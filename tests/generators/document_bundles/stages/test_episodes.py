"""The stage of episodes: of the candidates the first that every filter keeps, a reason for each that has none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.support import IN_PROCESS
from tests.support.bundle_rows import INSTRUMENT, ISLAND, QUESTIONS, WHEEL, sample_documents
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.filters.answers import AnswerJudgeOptions
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.planned_episodes import EpisodeContext, PlannedEpisodeConfig
from trailforge.generators.document_bundles.search_thoughts import PlanThoughtConfig
from trailforge.generators.document_bundles.stages.episodes import ANOTHER, SFT, TABLE, episode_of, episode_stage
from trailforge.inference import ModelClient, Request
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.pipelines.engine.pipeline import run_pipeline
from trailforge.pipelines.engine.shards import ItemResult, Shard, read_receipt
from trailforge.pipelines.runs.accounting import check_balance
from trailforge.protocols.r_search import USER_SUFFIX
from trailforge.retrieval import RetrieverConfig, Tools, local_tools
from trailforge.schemas import (
    BundleQuestion,
    ContextOverflow,
    PlanEdge,
    RejectedRow,
    SearchEpisode,
    SftRow,
    SourceDocument,
    from_dict,
    read_parquet,
    write_parquet,
)

Reply = Callable[[Request], str]


@pytest.fixture(scope="module")
def tools() -> Tools:
    return local_tools(sample_documents(), RetrieverConfig(kind="bm25"))


async def result_of(
    row: BundleQuestion,
    tools: Tools,
    reply: Reply | None = None,
    judge: AnswerJudgeOptions = AnswerJudgeOptions(),  # noqa: B008
    **episodes: Any,
) -> ItemResult:
    """Sampled when there is a model, else told from the gold plan."""
    config = BundleRunConfig(episodes=PlannedEpisodeConfig(plan="sampled" if reply else "gold", **episodes))
    client = ScriptedModel(reply or (lambda request: ""))
    context = EpisodeContext(
        run_id="r", seed=0, config=config.episodes, tools=tools, judge=judge, model="m", client=client
    )
    result = await episode_of(row, context, config)
    check_balance(result.stages)
    draws, line = result.stages
    assert (line.name, line.inputs, line.accepted) == ("episode", 1, len(result.rows[TABLE]))
    lost = [row for row in result.rows["rejected"] if row.stage == "draw"]
    assert (draws.name, draws.inputs, draws.accepted) == ("draw", line.accepted + len(lost), line.accepted)
    return result


def lost_episodes(result: ItemResult) -> dict[str, SearchEpisode]:
    """Candidates that are not the question's episode, by why."""
    rows = [row for row in result.rows["rejected"] if row.stage == "draw"]
    return {row.reason: from_dict(SearchEpisode, json.loads(row.payload)) for row in rows}


def student(row: BundleQuestion, *answers: str, plan: str | None = None) -> Reply:
    """Plans as the row does, or so; its draws answer differently, in turn."""

    def reply(request: Request) -> str:
        if prompt_text(request).endswith(USER_SUFFIX):
            return f"<think>I plan.</think><search>\n{plan or row.dag_text}\n"
        return f"<answer>{answers[request.sample % len(answers)]}"

    return reply


@pytest.mark.parametrize("row", QUESTIONS, ids=lambda row: row.uid)
async def test_a_sound_question_gives_an_episode_and_the_row_to_train_on(row: BundleQuestion, tools: Tools) -> None:
    result = await result_of(row, tools)
    (episode,), (sft,) = result.rows[TABLE], result.rows[SFT]
    assert result.rows["rejected"] == [] and result.usage.calls == 0
    assert (episode.question_id, episode.origin, episode.reward.total) == (row.uid, "oracle", 1.0)
    assert (sft.uid, sft.train) == (episode.uid, tuple(message.train for message in episode.messages))
    assert [message.content for message in sft.messages] == [message.content for message in episode.messages]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dag_nodes": tuple(replace(n, query="tide tables of the moon") for n in ISLAND.dag_nodes)},
         "evidence_not_found"),
        ({"dag_nodes": tuple(replace(n, query=f"{n.query} with more than 500 plants") for n in ISLAND.dag_nodes)},
         "answer_before_search"),
        ({"dag_nodes": (*ISLAND.dag_nodes[:2], replace(ISLAND.dag_nodes[2], query="plants of the island found in B"))},
         "placeholder_query"),
    ],
    ids=["lost", "leaked", "placeholder"],
)  # fmt: skip
async def test_a_gold_plan_that_teaches_nothing_good_is_rejected_for_that(
    changes: dict[str, Any], reason: str, tools: Tools
) -> None:
    result = await result_of(replace(ISLAND, **changes), tools)
    assert result.rows[TABLE] == result.rows[SFT] == []
    row = result.rows["rejected"][-1]
    assert (row.uid, row.stage, row.reason) == (ISLAND.uid, "episode", reason) and row.detail
    assert from_dict(BundleQuestion, json.loads(row.payload)) == replace(ISLAND, **changes)
    assert {why: each.question_id for why, each in lost_episodes(result).items()} == {reason: ISLAND.uid}


async def test_draws_end_with_the_first_that_is_kept_and_all_are_on_record(tools: Tools) -> None:
    result = await result_of(INSTRUMENT, tools, student(INSTRUMENT, "A", "C", "B", "D"))
    (episode,) = result.rows[TABLE]
    assert (episode.origin, episode.final_answer, episode.reward.total) == ("policy", "B", 1.0)
    assert result.usage.calls == 6 and len(episode.provenance.call_keys) == 2
    rows = result.rows["rejected"]
    assert [(row.stage, row.reason, row.score) for row in rows] == [("draw", "low_reward", 0.5)] * 2
    assert {from_dict(SearchEpisode, json.loads(row.payload)).final_answer for row in rows} == {"A", "C"}


async def test_draws_go_on_past_idle_searches_and_end_with_a_plan_whose_only_fault_is_an_edge(tools: Tools) -> None:
    nodes = "\n".join(f"{node.node_id}: {node.query} ({node.tool})" for node in INSTRUMENT.dag_nodes)
    again = INSTRUMENT.dag_nodes[0]
    plans = [
        f"Nodes:\n{nodes}\nX: {again.query} ({again.tool})\nEdges:",
        f"Nodes:\n{nodes}\nEdges: A -> B",
        f"Nodes:\n{nodes}\nEdges:",
    ]

    def reply(request: Request) -> str:
        return student(INSTRUMENT, "B", plan=plans[request.sample])(request)

    row = replace(INSTRUMENT, dag_edges=())
    result = await result_of(row, tools, reply)
    (episode,) = result.rows[TABLE]
    assert result.usage.calls == 4 and len(episode.searches) == len(INSTRUMENT.hops)
    assert episode.plan_edges == (PlanEdge(src="A", dst="B"),) and episode.reward.total == 1.0
    lost = result.rows["rejected"]
    assert [(each.stage, each.reason, each.detail) for each in lost] == [("draw", ANOTHER, f"{episode.uid} is")]


async def test_of_kept_draws_a_word_of_a_title_more_weighs_less_than_an_idle_search(tools: Tools) -> None:
    """Noise is up to a tenth of a query's words."""
    nodes = "\n".join(f"{node.node_id}: {node.query} ({node.tool})" for node in INSTRUMENT.dag_nodes)
    again = INSTRUMENT.dag_nodes[0]
    plans = [f"Nodes:\n{nodes}\nX: {again.query} ({again.tool})\nEdges:", f"Nodes:\n{nodes}\nEdges: A -> B"]

    def reply(request: Request) -> str:
        return student(INSTRUMENT, "B", plan=plans[request.sample])(request)

    result = await result_of(replace(INSTRUMENT, dag_edges=()), tools, reply, samples=2)
    assert result.rows[TABLE][0].plan_edges, "an idle search is worse than a needless edge"


async def test_without_a_good_draw_the_gold_plan_is_told(tools: Tools) -> None:
    result = await result_of(INSTRUMENT, tools, student(INSTRUMENT, "A"))
    (episode,) = result.rows[TABLE]
    assert (episode.origin, episode.final_answer, episode.thoughts) == ("oracle", "B", "templates")
    assert {why: each.origin for why, each in lost_episodes(result).items()} == {"low_reward": "policy"}


async def test_without_a_good_draw_and_without_gold_the_best_is_rejected(tools: Tools) -> None:
    result = await result_of(INSTRUMENT, tools, student(INSTRUMENT, "A"), gold_fallback=False)
    row = result.rows["rejected"][-1]
    assert (row.stage, row.reason, row.score) == ("episode", "low_reward", 0.5)
    result = await result_of(INSTRUMENT, tools, student(INSTRUMENT, "B", plan="no plan at all"), gold_fallback=False)
    row = result.rows["rejected"][-1]
    assert row.reason == "malformed_conversation" and result.usage.calls == 4


@pytest.mark.parametrize(
    ("thought", "source"),
    [
        ("The lander is Philae; its mother ship and the university have to be found.", "model"),
        ("It was Rosetta, so I look for its spectrometer.", "templates"),
    ],
    ids=["sound", "knows too much"],
)
async def test_the_thought_of_a_gold_plan_is_the_models_where_it_is_sound(
    thought: str, source: str, tools: Tools
) -> None:
    def reply(request: Request) -> str:
        return thought if request.purpose == "thought" else student(INSTRUMENT, "A")(request)

    worded = PlanThoughtConfig(source="model", max_tokens=77)
    result = await result_of(INSTRUMENT, tools, reply, thoughts=worded)
    (episode,) = result.rows[TABLE]
    assert (episode.origin, episode.thoughts) == ("oracle", source) and (episode.thought == thought) == (
        source == "model"
    )
    assert episode.messages[2].content.startswith(f"<think>{episode.thought}</think><search>")
    assert result.usage.calls == 9
    assert len(episode.provenance.call_keys) == 1 + (source == "model")


async def test_explanations_are_scored_by_the_judge_and_by_nobody_when_it_is_off(tools: Tools) -> None:
    said = "The blocks of composite make rims hot, and cracks get longer"

    def reply(request: Request) -> str:
        return '{"score": 0.95}' if request.purpose == "grade" else student(WHEEL, said)(request)

    on = AnswerJudgeOptions(near_misses=True, free_answers=True)
    (episode,) = (await result_of(WHEEL, tools, reply, judge=on)).rows[TABLE]
    assert (episode.origin, episode.scored_by, episode.reward.answer) == ("policy", "judge", 0.95)
    (episode,) = (await result_of(WHEEL, tools, reply)).rows[TABLE]
    assert episode.origin == "oracle"


CYCLE = replace(ISLAND, uid="cycle", dag_edges=(PlanEdge(src="A", dst="B"), PlanEdge(src="B", dst="A")))


def worked(folder: Path, rows: list[BundleQuestion], monkeypatch: pytest.MonkeyPatch, **episodes: Any) -> Shard:
    """Run the stage over the rows on Beam, with a model whose window is too small for one of them."""

    def reply(request: Request) -> str:
        if "mother ship" in prompt_text(request):
            raise ContextOverflow("the prompt is too long")
        return student(ISLAND, "more than 500")(request)

    async def client(work: ModelWork) -> ModelClient:
        model: Any = ScriptedModel(reply)
        return model

    monkeypatch.setattr(ModelWork, "client", client)
    for table in ("documents", "bundle_questions"):
        (folder / table).mkdir()
    write_parquet(folder / "documents" / "part-0.parquet", SourceDocument, sample_documents())
    write_parquet(folder / "bundle_questions" / "part-0.parquet", BundleQuestion, rows)
    shard = Shard(name="part-0", input="bundle_questions/part-0.parquet", first=0, rows=len(rows))
    config = BundleRunConfig(episodes=PlannedEpisodeConfig(**episodes), tools=RetrieverConfig(kind="bm25"))
    work = ModelWork(stage=episode_stage, folder=str(folder), run_id="r", config=config)
    run_pipeline(work, folder, [shard], IN_PROCESS)
    return shard


@pytest.mark.parametrize(
    ("plan", "failed", "reason"),
    [("gold", "cycle", "malformed_reply"), ("sampled", "instrument", "context_overflow")],
)
def test_a_question_that_fails_is_a_row_and_the_others_have_their_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str, failed: str, reason: str
) -> None:
    rows = [ISLAND, CYCLE if plan == "gold" else INSTRUMENT]
    shard = worked(tmp_path, rows, monkeypatch, plan=plan)
    (row,) = read_parquet(tmp_path / "rejected" / "part-0.parquet", RejectedRow)
    assert (row.uid, row.stage, row.reason) == (failed, "episode", reason)
    assert from_dict(BundleQuestion, json.loads(row.payload)) == rows[1]
    (line,) = (line for line in read_receipt(tmp_path, shard).stages if line.name == "episode")
    assert (line.inputs, line.accepted, [(c.reason, c.count) for c in line.failed]) == (2, 1, [(reason, 1)])
    (episode,) = read_parquet(tmp_path / "episodes" / "part-0.parquet", SearchEpisode)
    (sft,) = read_parquet(tmp_path / "sft" / "part-0.parquet", SftRow)
    assert episode.question_id == ISLAND.uid and sft.uid == episode.uid
