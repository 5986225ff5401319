"""What the stages that ask a model have in common: see `shards.Work` and `shards.Session`."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from trailforge.inference import ModelClient, Prices, check_ledger, open_ledger
from trailforge.pipelines.dataset import LEDGER
from trailforge.pipelines.engine.shards import ItemResult
from trailforge.pipelines.runs.config import RunConfig
from trailforge.schemas import RejectedRow, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWork:
    """What a worker needs to know. Picklable."""

    folder: str
    run_id: str
    config: RunConfig

    @property
    def items_in_flight(self) -> int:
        """Items at a time."""
        return self.config.schedule.questions_in_flight

    @property
    def prices(self) -> Prices:
        """Of the model's tokens."""
        return self.config.model.prices

    async def client(self) -> ModelClient:
        """Connected to ledger and model. Fails at once when one of them is not there."""
        ledger = open_ledger(self.config.ledger, Path(self.folder) / LEDGER, run=self.run_id)
        client = ModelClient(self.config.client, ledger)
        try:
            await client.check()
        except BaseException:
            await client.aclose()
            raise
        return client


async def check_servers(config: RunConfig) -> None:
    """Raises `ProviderError` and its kinds when the model server does not answer, or refuses us.

    A shared ledger that is not there is an `OutputError`.
    """
    await check_ledger(config.ledger)
    client = ModelClient(config.client)
    try:
        await client.check()
    finally:
        await client.aclose()


class ModelSession:
    """A worker's connections, and what it has done so far."""

    def __init__(self, client: ModelClient) -> None:
        self.client = client
        self._done: Counter[str] = Counter()

    def count(self, result: ItemResult, *kinds: str) -> None:
        """An item is done, and gave rows of these kinds."""
        self._done["items"] += 1
        self._done["prompt_tokens"] += result.usage.prompt_tokens
        self._done["completion_tokens"] += result.usage.completion_tokens
        self._done.update(kinds)

    def counters(self) -> dict[str, int]:
        """Items, rows by kind, calls, tokens."""
        return dict(self._done) | self.client.told

    async def close(self) -> None:
        """Close client and ledger."""
        await self.client.aclose()


def rejected_row(at: str, uid: str, verdict: Verdict, payload: object) -> RejectedRow:
    """A row of `rejected/`. `payload`: as plain values."""
    return RejectedRow(
        uid=uid,
        stage=at,
        reason=verdict.reason,
        score=verdict.score,
        detail=verdict.detail,
        payload=json.dumps(payload, ensure_ascii=False),
    )
