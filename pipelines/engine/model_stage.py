"""Run stages that ask a model: a data set says what is done with one item, and the engine does it for all items."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trailforge.inference import Asker, Client, Meter, ModelClient, Prices, Style
from trailforge.inference.ledgers import Ledger, check_ledger, open_ledger
from trailforge.inference.shared_limits import LimitsLink
from trailforge.pipelines.dataset import LEDGER
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.runs.config import RunConfig
from trailforge.schemas import Provenance, RejectedRow, TrailforgeError, Verdict

if TYPE_CHECKING:
    from trailforge.pipelines.dataset import StageRun


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStage:
    """A stage that asks a model about each of its items; it can be used as `Stage.run`."""

    name: str
    """Name under which items are counted, and failures of items with them."""
    item: type
    """Record class of the items."""
    tables: Mapping[str, type]
    """Record class of each table that is written, by the table's name; `rejected` is always among them."""
    counted: tuple[str, ...]
    """What the progress bar counts: a table, and its columns that hold a row's kind, the first that is not null."""
    open_context: Callable[[ModelWork, ModelClient], Any]
    """Opens what all items share. It is called once for each worker, on its event loop, and raises when something is
    not there."""
    run_item: Callable[[Any, Any, Any], Awaitable[Any]]
    """`(item, context, config)`: returns the `ItemResult` of one item, or what `settle` makes it from."""
    settle: Callable[[Any, Any, Any, Any], Awaitable[ItemResult]] | None = None
    """`(item, what run_item gave, context, config)`: returns the `ItemResult`; None: `run_item` gives it."""

    def __call__(self, run: StageRun) -> None:
        """Run what is missing of a stage. Raises the first error that stopped a worker."""
        from trailforge.pipelines.engine.pipeline import run_pipeline  # Beam

        config = run.config
        work = ModelWork(
            stage=self, folder=str(run.folder), run_id=run.settings.run_id, config=config, preset=run.preset
        )
        run_pipeline(work, run.folder, run.shards, run.arguments, config.schedule.patience)

    def kinds(self, result: ItemResult) -> Iterator[str]:
        """Yield the kind of each row that is counted, or the stage's name for rows without one."""
        table, *columns = self.counted
        for row in result.rows.get(table, ()):
            yield next((kind for kind in (getattr(row, column) for column in columns) if kind is not None), self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWork:
    """What a worker needs to know of a run, in a form that can be pickled."""

    stage: ModelStage
    folder: str
    run_id: str
    config: Any
    """The run's configuration, a `RunConfig`."""
    preset: str = ""
    """Name of the preset."""

    def ledger(self) -> Ledger:
        """Return the run's ledger. Nothing is opened before its first use."""
        return open_ledger(self.config.ledger, Path(self.folder) / LEDGER, run=self.run_id)

    async def client(self, link: LimitsLink | None = None) -> ModelClient:
        """Return a client connected to ledger and model, failing at once when one of them cannot be reached. `link`
        connects to the process that holds the limits, where several workers share them.
        """
        ledger = self.ledger()
        client = ModelClient(self.config.client, ledger, link)
        try:
            await client.check()
        except BaseException:
            await client.aclose()
            raise
        return client

    def shared(self, client: ModelClient) -> dict[str, Any]:
        """Return the values for the fields of a `RunContext`."""
        model = self.config.model
        return {
            "run_id": self.run_id,
            "preset": self.preset,
            "model": model.name,
            "prices": model.prices,
            "seed": self.config.seed,
            "client": client,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What all items of a run share, in every data set; data sets add fields of their own."""

    run_id: str
    preset: str = ""
    model: str
    prices: Prices = field(default_factory=Prices)
    seed: int
    client: Client

    def asker(self, meter: Meter, style: Style = "chat", *, priority: int = 0) -> Asker:
        """Return a client of this model under the run's seed; `meter` counts the calls of one item, and `style` says
        whether calls are chats or texts to complete. Of calls that wait to be sent, those of the highest `priority` go
        first.
        """
        return Asker(client=self.client, model=self.model, style=style, seed=self.seed, meter=meter, priority=priority)

    def provenance(
        self, source_id: str, prompt_version: str, call_keys: Sequence[str] = (), *, retriever: str = ""
    ) -> Provenance:
        """Return the provenance of a row that was made from the source with this id. `prompt_version` is the hash of
        the prompts in use, `call_keys` are the ledger keys of the calls behind the row, and `retriever` names what
        found its passages.
        """
        return Provenance(
            run_id=self.run_id,
            source_id=source_id,
            model=self.model,
            prompt_version=prompt_version,
            seed=self.seed,
            call_keys=tuple(call_keys),
            retriever=retriever,
        )


async def check_servers(config: RunConfig) -> None:
    """Check that the model server answers and accepts the key. Raises the kinds of `ProviderError` when it does not,
    and `OutputError` for a shared ledger that cannot be reached.
    """
    await check_ledger(config.ledger)
    async with aclosing(ModelClient(config.client)) as client:
        await client.check()


def failed_row(at: str, uid: str, error: TrailforgeError, payload: object) -> RejectedRow:
    """Return the row of `rejected/` for the item `uid` that failed with this error in the stage `at`. `payload` is what
    is stored of it, as plain values.
    """
    against = Verdict(keep=False, reason=error.reason, score=0.0, detail=str(error))
    return rejected_row(at, uid, against, payload)


def rejected_row(at: str, uid: str, verdict: Verdict, payload: object) -> RejectedRow:
    """Return the row of `rejected/` for the item `uid` with this verdict in the stage `at`. `payload` is what is stored
    of it, as plain values.
    """
    return RejectedRow(
        uid=uid,
        stage=at,
        reason=verdict.reason,
        score=verdict.score,
        detail=verdict.detail,
        payload=json.dumps(payload, ensure_ascii=False),
    )
