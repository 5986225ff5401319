"""A knowledge graph -> paths that lead to one entity -> questions in words, measured -> those that differ.

sample paths | cut into shards | write, filter | select | manifest
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from trailforge.generators.kg_questions import select as selection
from trailforge.generators.kg_questions.card import card
from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_questions.filters import judge_question
from trailforge.generators.kg_questions.generate import KgQuestionContext, KgQuestionWork, seal
from trailforge.generators.kg_questions.paths import PathSampler
from trailforge.inference import ModelClient
from trailforge.pipelines.dataset import Dataset, Stage, digest_of, following
from trailforge.pipelines.engine.model_work import ModelSession, ModelWork, rejected_row
from trailforge.pipelines.engine.shards import ItemResult, run_pipeline
from trailforge.pipelines.runs.accounting import stage
from trailforge.pipelines.runs.intake import Settings, take_in_paths
from trailforge.pipelines.sources.refused import NONE, Refusals
from trailforge.retrieval.kg import KgStore
from trailforge.retrieval.kg.layout import MANIFEST as STORE_MANIFEST
from trailforge.schemas import FactChain, KgQuestion, Manifest, RejectedRow, read_rows, to_dict

DATASET = selection.TABLE
WRITE, FILTER = "write", "filter"
STAGES = (WRITE, selection.NAME)
"""In order."""


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
    settings = take_in_paths(
        Path(config.kg) / STORE_MANIFEST,
        watched(sampler.sample(config.count)),
        folder,
        dataset=DATASET,
        config_hash=config.hash,
        config=json.dumps(to_dict(config)),
        shard_size=config.output.shard_size,
        refused=refused,
    )
    return settings, sampler.rejected


def stages_of(folder: Path, settings: Settings) -> list[Stage]:
    """Both stages."""
    written = settings.shards
    selecting = following(folder, written, lambda made: (selection.only_shard(written, digest_of(made)),))
    return [
        Stage(name=WRITE, unit="questions", shards=written),
        Stage(name=selection.NAME, unit="questions", shards=selecting),
    ]


def run(
    name: str, folder: Path, settings: Settings, config: KgQuestionRunConfig, preset: str, arguments: Sequence[str]
) -> None:
    """Run what of a stage is missing; the stages before it are finished."""
    folder = folder.absolute()  # workers may stand elsewhere
    if name == selection.NAME:
        shard = next(iter(stages_of(folder, settings)[-1].shards or ()))
        selection.select(folder, settings.shards, config.output.shard_size, shard.made_of)
        return
    work = WritingWork(folder=str(folder), run_id=settings.run_id, config=config, preset=preset)
    run_pipeline(work, folder, settings.shards, arguments, config.schedule.patience)


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


def _card(folder: Path, manifest: Manifest, settings: Settings) -> str:
    rows = read_rows(sorted((folder / DATASET).glob("part-*.parquet")), KgQuestion)
    return card(folder, manifest, KG_QUESTIONS.configuration(settings), rows)


KG_QUESTIONS = Dataset(
    name=DATASET,
    item=FactChain,
    tables=MappingProxyType(
        {DATASET: KgQuestion, selection.CANDIDATES: KgQuestion, "rejected": RejectedRow},
    ),
    config=KgQuestionRunConfig,
    last_stage=selection.NAME,
    counted=(DATASET, "shape"),
    candidates=selection.CANDIDATES,
    option="--kg",
    stages=stages_of,
    card=_card,
    beside={"plots": r"funnel\.png"},
    lists=(selection.JSONL,),
)
