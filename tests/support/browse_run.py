"""One episode over a road of pages, in a process that may be killed: URL LEDGER WRITING CONTEXT STOPS OUT."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.support.browse_agent import QUESTION, Road
from trailforge.inference import ClientConfig, ModelClient, Sampling
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.protocols.browse.context import read_rule
from trailforge.protocols.browse.loop import BrowseConfig, run_browse_episode
from trailforge.schemas import to_dict


async def main(url: str, ledger: str, writing: str, context: str, stops: str, out: str) -> None:
    """Run it and write its record."""
    client = ModelClient(ClientConfig(base_url=url, model="scripted"), SqliteLedger(Path(ledger)))
    config = BrowseConfig(
        writing="tags" if writing == "tags" else "native",
        context=read_rule(context),
        sampling=Sampling(temperature=1.0, max_tokens=256),
    )
    try:
        run = await run_browse_episode(
            QUESTION, Road(int(stops)), client=client, model="scripted", config=config, clock=None
        )
    finally:
        await client.aclose()
    text = json.dumps([run.stop, run.answer, to_dict(run.record)], ensure_ascii=False)
    Path(out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
