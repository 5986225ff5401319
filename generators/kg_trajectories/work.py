"""Questions and a knowledge graph -> annotated search episodes -> pairs, SFT rows (the third straight way).

read_questions | cut into shards | n episodes, select (per question) | write shard | manifest
"""

from __future__ import annotations

from pathlib import Path

from trailforge.generators.kg_trajectories import DATASET, EPISODE, FILTER, NAME, SEARCH
from trailforge.generators.kg_trajectories.config import KgContext, KgRunConfig
from trailforge.generators.kg_trajectories.generate import generate, hold_against_documents
from trailforge.generators.kg_trajectories.rows import kg_sft_row
from trailforge.generators.kg_trajectories.selection import contrastive_pairs, select
from trailforge.inference import ModelClient
from trailforge.pipelines.engine.model_stage import ModelStage, ModelWork, failed_row, rejected_row
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.runs.accounting import stage
from trailforge.pipelines.runs.intake import RunInputs, Settings, take_in_questions
from trailforge.retrieval import open_retrieval
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import InvalidInput, Question, to_dict


def take_in(inputs: RunInputs, folder: Path, config: KgRunConfig) -> Settings:
    """Questions of a file as shards in the run's folder, without what people refuse."""
    return take_in_questions(
        inputs,
        folder,
        config,
        shard_size=config.output.shard_size,
        needs_paragraphs=config.retrieval.searches_paragraphs,
        needs_decomposition=config.generator.is_led,
    )


def open_context(work: ModelWork, client: ModelClient) -> KgContext:
    """What all questions share. Raises when index or graph is not there."""
    config = work.config
    if not config.kg:
        raise InvalidInput("no knowledge graph", field="kg")
    return KgContext(
        **work.shared(client),
        config=config.generator,
        retrieval=open_retrieval(config.retrieval),
        store=KgStore.open(Path(config.kg)),
    )


async def episodes_of(question: Question, context: KgContext, config: KgRunConfig) -> ItemResult:
    """The selected episodes of a question, the others with what is against them, pairs of both."""
    generated = await generate(question, context)
    lost = [
        failed_row(EPISODE, f"{question.id}:{episode.sample}", episode.error, to_dict(question))
        for episode in generated.lost
    ]
    selection = select(generated.candidates, config.selection)
    selected, of_check = await hold_against_documents(selection.selected, question, context)
    rejected = [rejected_row(FILTER, row.uid, verdict, to_dict(row)) for row, verdict in selection.rejected]
    books = (
        stage(SEARCH, inputs=1, accepted=1),
        stage(
            EPISODE,
            inputs=len(generated.candidates) + len(lost),
            accepted=len(generated.candidates),
            failed=[row.reason for row in lost],
        ),
        stage(
            FILTER,
            inputs=len(generated.candidates),
            accepted=len(selected),
            rejected=[row.reason for row in rejected],
        ),
    )
    return ItemResult(
        rows={
            NAME: selected,
            "pairs": contrastive_pairs(selected, selection.rejected, config.generator.max_pairs),
            "sft": [kg_sft_row(row) for row in selected],
            "rejected": [*lost, *rejected],
        },
        stages=books,
        usage=(generated.meter + of_check).usage(context.prices),
    )


search_stage = ModelStage(
    name=SEARCH,
    item=Question,
    tables=DATASET.records,
    counted=(NAME, "origin"),
    open_context=open_context,
    run_item=episodes_of,
)
