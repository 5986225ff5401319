"""The stage of episodes: of the candidates the first that every filter keeps, a reason for each that has none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.support import IN_PROCESS
from tests.support.bundle_rows import INSTRUMENT, ISLAND, QUESTIONS, sample_documents
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.episodes import EpisodeContext, PlannedEpisodeConfig
from trailforge.generators.document_bundles.stages.episodes import SFT, TABLE, episode_of, episode_stage
from trailforge.inference import ModelClient, Request
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.pipelines.engine.pipeline import run_pipeline
from trailforge.pipelines.engine.shards import ItemResult, Shard, read_receipt
from trailforge.pipelines.runs.accounting import check_balance
from trailforge.protocols.r_search import USER_SUFFIX
from trailforge.retrieval import Tools, local_tools
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
    return local_tools(sample_documents())


async def result_of(row: BundleQuestion, tools: Tools, reply: Reply | None = None, **episodes: Any) -> ItemResult:
    """Sampled when there is a model, else told from the gold plan."""
    config = BundleRunConfig(episodes=PlannedEpisodeConfig(plan="sampled" if reply else "gold", **episodes))
    client = ScriptedModel(reply) if reply else None
    context = EpisodeContext(run_id="r", seed=0, config=config.episodes, tools=tools, model="m", client=client)
    result = await episode_of(row, context, config)
    check_balance(result.stages)
    (line,) = result.stages
    assert (line.name, line.inputs, line.accepted) == ("episode", 1, len(result.rows[TABLE]))
    return result


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
         "answer_leaked"),
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
    (row,) = result.rows["rejected"]
    assert (row.uid, row.stage, row.reason) == (ISLAND.uid, "episode", reason) and row.detail
    assert from_dict(SearchEpisode, json.loads(row.payload)).question_id == ISLAND.uid


async def test_of_several_draws_the_best_is_kept(tools: Tools) -> None:
    result = await result_of(INSTRUMENT, tools, student(INSTRUMENT, "A", "C", "B", "D"))
    (episode,) = result.rows[TABLE]
    assert (episode.origin, episode.final_answer, episode.reward.total) == ("policy", "B", 1.0)
    assert result.usage.calls == 8 and len(episode.provenance.call_keys) == 2


async def test_without_a_good_draw_the_gold_plan_is_told(tools: Tools) -> None:
    (episode,) = (await result_of(INSTRUMENT, tools, student(INSTRUMENT, "A"))).rows[TABLE]
    assert (episode.origin, episode.final_answer) == ("oracle", "B")


async def test_without_a_good_draw_and_without_gold_the_best_is_rejected(tools: Tools) -> None:
    result = await result_of(INSTRUMENT, tools, student(INSTRUMENT, "A"), gold_fallback=False)
    (row,) = result.rows["rejected"]
    assert row.reason == "low_reward" and row.score == 0.5
    result = await result_of(INSTRUMENT, tools, student(INSTRUMENT, "B", plan="no plan at all"), gold_fallback=False)
    (row,) = result.rows["rejected"]
    assert row.reason == "malformed"


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
    config = BundleRunConfig(episodes=PlannedEpisodeConfig(**episodes))
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
    (line,) = read_receipt(tmp_path, shard).stages
    assert (line.inputs, line.accepted, [(c.reason, c.count) for c in line.failed]) == (2, 1, [(reason, 1)])
    (episode,) = read_parquet(tmp_path / "episodes" / "part-0.parquet", SearchEpisode)
    (sft,) = read_parquet(tmp_path / "sft" / "part-0.parquet", SftRow)
    assert episode.question_id == ISLAND.uid and sft.uid == episode.uid
