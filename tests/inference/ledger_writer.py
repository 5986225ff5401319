"""Writes to a ledger, as a process of its own: `python -m tests.inference.ledger_writer LEDGER NAME OWN SHARED SIZE`.

`LEDGER` is a file or a PostgreSQL URL. Says `ready`, waits for a line, then asks for all calls at once: `OWN` that
nobody else makes and `SHARED` that every writer makes. Prints `KEY TEXT` for each that is kept, or `error TYPE MESSAGE`
for each that is not.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from tests.inference.support import completion, reply_to
from trailforge.inference.ledgers import open_ledger

_AT_ONCE = 16


async def main(path: str, name: str, own: int, shared: int, size: int) -> None:
    """Write."""
    ledger = open_ledger(path if "://" in path else "", Path(path))
    await ledger.find("")
    print("ready", flush=True)
    sys.stdin.readline()
    slots = asyncio.Semaphore(_AT_ONCE)
    prompts = [f"{name} {n}" for n in range(own)] + [f"shared {n}" for n in range(shared)]
    random.Random(0).shuffle(prompts)

    async def write(prompt: str) -> None:
        request = completion(prompt)
        async with slots:
            text = f"{name}:{random.Random(prompt).randbytes(size).hex()}"
            try:
                kept = await ledger.put(request, reply_to(request, text))
            except Exception as error:
                print("error", type(error).__name__, error, flush=True)
            else:
                print(request.key, kept.text, flush=True)

    await asyncio.gather(*map(write, prompts))
    await ledger.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])))
