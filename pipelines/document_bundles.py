"""Documents -> bundles -> questions -> a curriculum of them -> episodes (the second straight way of the house).

take in | clean | embed | bundle | write and filter questions | select | episodes | manifest

Every stage leaves receipts in the run's folder and is done once. Those that ask a model run by `shards.run_pipeline`,
the others as Beam pipelines of their own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from filters.bundles import judge_question
from generators.document_bundles import BundleContext, BundleWork, seal
from inference import Meter, ModelClient, open_ledger
from pipelines.accounting import stage
from pipelines.bundles_card import card
from pipelines.bundles_config import BundleRunConfig
from pipelines.dataset import LEDGER, Dataset, Stage
from pipelines.intake import Settings, take_in_documents
from pipelines.shards import ItemResult, Shard, read_receipt, receipt_path, run_pipeline
from pipelines.stages import cleaning, embedding, grouping, selection
from schemas import (
    Bundle,
    BundleInput,
    BundleQuestion,
    DocumentEmbedding,
    Manifest,
    RejectedRow,
    SourceDocument,
    SourceKind,
    Verdict,
    to_dict,
)

DATASET = "document_bundles"
WRITE, FILTER = "write", "filter"
BEFORE_MODEL = (cleaning.NAME, embedding.NAME, grouping.NAME)
WITH_MODEL = (WRITE, selection.NAME)
"""The stages, in order."""
TABLES: Mapping[str, type] = {
    cleaning.TABLE: SourceDocument,
    embedding.TABLE: DocumentEmbedding,
    grouping.TABLE: Bundle,
    grouping.INPUTS: BundleInput,
    selection.CANDIDATES: BundleQuestion,
    selection.TABLE: BundleQuestion,
    "rejected": RejectedRow,
}


def take_in(
    sources: Sequence[Path],
    folder: Path,
    config: BundleRunConfig,
    limit: int | None,
    *,
    column_map: Mapping[str, str] | None = None,
    source: str | None = None,
    kind: SourceKind | None = None,
) -> Settings:
    """Documents of files as shards in the run's folder."""
    return take_in_documents(
        sources,
        folder,
        dataset=DATASET,
        config_hash=config.hash,
        config=json.dumps(to_dict(config)),
        shard_size=config.output.documents_per_shard,
        limit=limit,
        column_map=column_map,
        source=source,
        kind=kind,
    )


def stages_of(folder: Path, settings: Settings) -> list[Stage]:
    """All stages in their order, with the shards that are known so far."""
    config: BundleRunConfig = BUNDLES.configuration(settings)
    cleaned = _next(folder, settings.shards, lambda receipts: cleaning.next_shards(receipts, embedding.NAME))
    together = None if cleaned is None else (grouping.only_shard(cleaned),)
    stages = [
        Stage(name=cleaning.NAME, unit="documents", shards=settings.shards),
        Stage(name=embedding.NAME, unit="documents", shards=cleaned),
        Stage(name=grouping.NAME, unit="documents", shards=together),
    ]
    if not config.questions:
        return stages
    bundles = _made_by(folder, together)
    selecting = None if bundles is None else (selection.only_shard(bundles),)
    return [
        *stages,
        Stage(name=WRITE, unit="bundles", shards=bundles),
        Stage(name=selection.NAME, unit="bundles", shards=selecting),
    ]


def run(
    name: str, folder: Path, settings: Settings, config: BundleRunConfig, preset: str, arguments: Sequence[str]
) -> None:
    """Run what of a stage is missing; the stages before it are finished."""
    shards = {stage.name: stage.shards or () for stage in stages_of(folder, settings)}
    output = config.output
    match name:
        case cleaning.NAME:
            cleaning.clean(folder, shards[name], config.content, config.duplicates, arguments)
        case embedding.NAME:
            embedding.embed(folder, shards[name], config.encoder, arguments)
        case grouping.NAME:
            documents = shards[embedding.NAME]
            grouping.group(folder, documents, config.bundles, config.seed, output.bundles_per_shard, arguments)
        case selection.NAME:
            selection.select(folder, shards[WRITE], config)
        case _:
            work = QuestionWork(folder=str(folder.absolute()), run_id=settings.run_id, config=config, preset=preset)
            run_pipeline(work, folder, shards[name], arguments, config.schedule.patience)


def _next(
    folder: Path, shards: Sequence[Shard] | None, following: Callable[[list], tuple[Shard, ...]]
) -> tuple[Shard, ...] | None:
    """What follows from the receipts of these shards; None while one is missing."""
    if shards is None or any(not receipt_path(folder, shard).exists() for shard in shards):
        return None
    return following([read_receipt(folder, shard) for shard in shards])


def _made_by(folder: Path, shards: Sequence[Shard] | None) -> tuple[Shard, ...] | None:
    """The shards that a stage of one shard has made."""
    return _next(folder, shards, lambda receipts: receipts[0].shards)


def _card(folder: Path, manifest: Manifest, settings: Settings) -> str:
    return card(folder, manifest, BUNDLES.configuration(settings))


BUNDLES = Dataset(
    name=DATASET,
    item=SourceDocument,
    tables=TABLES,
    config=BundleRunConfig,
    last_stage=selection.NAME,
    counted=(selection.CANDIDATES, "type"),
    stages=stages_of,
    card=_card,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionWork:
    """Questions of bundles: what a worker needs to know. Picklable; see `shards.Work`."""

    folder: str
    run_id: str
    config: BundleRunConfig
    preset: str

    item = BundleInput
    tables = TABLES
    stage = WRITE

    @property
    def items_in_flight(self) -> int:
        """Bundles at a time."""
        return self.config.schedule.questions_in_flight

    async def open(self) -> QuestionSession:
        """Connect to ledger and model; fails at once when one of them is not there."""
        ledger = open_ledger(self.config.ledger, Path(self.folder) / LEDGER, run=self.run_id)
        client = ModelClient(self.config.client, ledger)
        try:
            await client.check()
        except BaseException:
            await client.aclose()
            raise
        return QuestionSession(self, client)


class QuestionSession:
    """A worker's connections, and what it has done so far."""

    def __init__(self, work: QuestionWork, client: ModelClient) -> None:
        config = work.config
        self._config, self._client = config, client
        self._context = BundleContext(
            run_id=work.run_id,
            model=config.model.name,
            preset=work.preset,
            seed=config.seed,
            prices=config.model.prices,
            config=config.writer,
            client=client,
        )
        self._done: Counter[str] = Counter()

    async def run(self, item: BundleInput, position: int) -> ItemResult:
        """Write the questions of one bundle, measure them, keep the books."""
        result = await questions_of(item, self._context, self._config)
        self._done["items"] += 1
        self._done["prompt_tokens"] += result.usage.prompt_tokens
        self._done["completion_tokens"] += result.usage.completion_tokens
        self._done.update(row.type for row in result.rows[selection.CANDIDATES])
        return result

    def counters(self) -> dict[str, int]:
        """Bundles, candidates by type, calls, tokens."""
        return dict(self._done) | self._client.told

    async def close(self) -> None:
        """Close client and ledger."""
        await self._client.aclose()


async def questions_of(item: BundleInput, context: BundleContext, config: BundleRunConfig) -> ItemResult:
    """Drafts of a bundle, each with its verdicts."""
    work = BundleWork(item=item, context=context)
    drafts = await work.write()
    total = work.meter
    accepted: list[BundleQuestion] = []
    rejected: list[RejectedRow] = []
    for draft in drafts:
        reader = replace(work, meter=Meter())  # a row's calls are those that it was written and measured by
        verdicts = await judge_question(draft, item, reader, config.filters)
        row = seal(draft, verdicts, (*work.meter.keys, *reader.meter.keys), item.documents)
        against = next((verdict for verdict in verdicts if not verdict.keep), None)
        if against is None:
            accepted.append(row)
        else:
            rejected.append(_rejected(FILTER, row.uid, against, to_dict(row)))
        total = total + reader.meter
    reasons = [row.reason for row in rejected]
    books = (
        stage(WRITE, inputs=1, accepted=int(bool(drafts)), rejected=[] if drafts else ["no_question"]),
        stage(FILTER, inputs=len(drafts), accepted=len(accepted), rejected=reasons),
    )
    if not drafts:
        nothing = Verdict(keep=False, reason="no_question", score=0.0, detail="no question joins its documents")
        rejected.append(_rejected(WRITE, item.id, nothing, to_dict(item.bundle)))
    return ItemResult(
        rows={selection.CANDIDATES: accepted, "rejected": rejected}, stages=books, usage=total.usage(context.prices)
    )


def _rejected(at: str, uid: str, verdict: Verdict, payload: object) -> RejectedRow:
    return RejectedRow(
        uid=uid,
        stage=at,
        reason=verdict.reason,
        score=verdict.score,
        detail=verdict.detail,
        payload=json.dumps(payload, ensure_ascii=False),
    )
