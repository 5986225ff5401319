"""A knowledge graph -> paths that lead to one entity -> questions in words, measured -> those that differ.

sample paths | cut into shards | write, filter | select | manifest
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from trailforge.filters.kg_questions import judge_question
from trailforge.generators.kg_questions import NAME
from trailforge.generators.kg_questions import select as selection
from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_questions.generate import KgQuestionContext, KgQuestionWork, seal
from trailforge.generators.kg_questions.paths import PathSampler
from trailforge.inference import ModelClient
from trailforge.pipelines.dataset import StageRun
from trailforge.pipelines.engine.model_work import ModelSession, ModelWork, rejected_row
from trailforge.pipelines.engine.shards import ItemResult, Receipt, Shard, run_pipeline
from trailforge.pipelines.runs.accounting import stage
from trailforge.pipelines.runs.intake import Settings, take_in_rows
from trailforge.pipelines.runs.stages import digest_of
from trailforge.pipelines.sources.refused import NONE, Refusals
from trailforge.retrieval.kg import KgStore
from trailforge.retrieval.kg.layout import MANIFEST as STORE_MANIFEST
from trailforge.schemas import FactChain, KgQuestion, RejectedRow, to_dict

WRITE, FILTER = "write", "filter"


def take_in(
    folder: Path,
    config: KgQuestionRunConfig,
    watched: Callable[[Iterable[FactChain]], Iterable[FactChain]] = iter,
    refused: Refusals = NONE,
) -> tuple[Settings, Mapping[str, int]]:
    """Paths of the graph as shards in the run's folder, without what people refuse.

    With it come the attempts that gave no path, by reason. `watched`: what the paths pass through, to count them.
    """
    sampler = PathSampler(KgStore.open(Path(config.kg)), config.paths, config.seed)
    settings = take_in_rows(
        Path(config.kg) / STORE_MANIFEST,
        watched(sampler.sample(config.count)),
        folder,
        record=FactChain,
        nouns="paths of the wanted forms",
        dataset=NAME,
        config_hash=config.hash,
        config=json.dumps(to_dict(config)),
        shard_size=config.output.shard_size,
        refused=refused,
    )
    return settings, sampler.rejected


def run_writing(run: StageRun) -> None:
    """Put paths into words and filter the questions one by one."""
    config: KgQuestionRunConfig = run.config
    work = WritingWork(folder=str(run.folder), run_id=run.settings.run_id, config=config, preset=run.preset)
    run_pipeline(work, run.folder, run.shards, run.arguments, config.schedule.patience)


def selection_shards(written: tuple[Shard, ...], receipts: list[Receipt]) -> tuple[Shard, ...]:
    """One, of all that was written."""
    return (selection.only_shard(written, digest_of(receipts)),)


def run_selection(run: StageRun) -> None:
    """Choose among the questions of all paths."""
    config: KgQuestionRunConfig = run.config
    selection.select(run.folder, run.before, config.output.shard_size, next(iter(run.shards)).made_of)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingWork(ModelWork):
    """Puts paths into words and measures the questions."""

    config: KgQuestionRunConfig
    preset: str

    item = FactChain
    tables = MappingProxyType({selection.CANDIDATES: KgQuestion, "rejected": RejectedRow})
    stage = WRITE

    async def open(self) -> WritingSession:
        """Connect."""
        return WritingSession(self, await self.client())


class WritingSession(ModelSession):
    """A worker at work."""

    def __init__(self, work: WritingWork, client: ModelClient) -> None:
        ModelSession.__init__(self, client)
        config = self._config = work.config
        self._context = KgQuestionContext(
            run_id=work.run_id,
            model=config.model.name,
            preset=work.preset,
            seed=config.seed,
            prices=config.model.prices,
            config=config.writer,
            client=client,
            as_of=config.as_of,
            graph=config.kg_hash[:12],
        )

    async def run(self, item: FactChain, position: int) -> ItemResult:
        """Write the question of one path, measure it, keep the books."""
        result = await question_of(item, self._context, self._config)
        self.count(result, *(row.shape for row in result.rows[selection.CANDIDATES]))
        return result


async def question_of(chain: FactChain, context: KgQuestionContext, config: KgQuestionRunConfig) -> ItemResult:
    """The drafts of a path, each with its verdicts."""
    work = KgQuestionWork(item=chain, context=context)
    accepted: list[KgQuestion] = []
    rejected: list[RejectedRow] = []
    drafts = await work.write()
    for draft in drafts:
        verdicts = await judge_question(draft, work, config.filters)
        # In order of key, since of calls made at once another may be answered first when the run goes on.
        row = seal(draft, verdicts, sorted(work.meter.keys))
        against = next((verdict for verdict in verdicts if not verdict.keep), None)
        if against is None:
            accepted.append(row)
        else:
            rejected.append(rejected_row(FILTER, row.uid, against, to_dict(row)))
    books = (
        stage(WRITE, inputs=1, accepted=1),
        stage(FILTER, inputs=len(drafts), accepted=len(accepted), rejected=[row.reason for row in rejected]),
    )
    return ItemResult(
        rows={selection.CANDIDATES: accepted, "rejected": rejected},
        stages=books,
        usage=work.meter.usage(context.prices),
    )
