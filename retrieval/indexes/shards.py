"""Store the finished shards of an index build on disk, so that a build that was killed continues with the missing
ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import os
import resource
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trailforge.inference import Prices, Usage, all_or_error, metering
from trailforge.retrieval.backends.declaration import Item, Result, put_rows
from trailforge.retrieval.indexes.manifest import BuildFigures
from trailforge.retrieval.indexes.seals import file_hash
from trailforge.schemas import OutputError, sync, to_dict

Report = Callable[[str, int, int], None]
"""A function that is called with the name of a part of a build, its number of finished shards, and of all."""
_PROGRESS = "progress.json"
_NOTE_EVERY_S = 1.0


class KeptShards:
    """A `ShardMap` that stores finished shards in a folder, for one build.

    Shards are named by part and position, and store the items that they were made from. A stored shard is reused when
    its items equal the present ones. The usage of models is stored with a shard, so that it counts whichever process
    paid for it.
    """

    def __init__(
        self, folder: Path, *, began: float | None = None, at_once: int = 1, report: Report | None = None
    ) -> None:
        """`began`: when the build did, by `time.monotonic`. `at_once`: how many shards are worked on side by side."""
        self._folder, self._at_once, self._report = folder, at_once, report
        self._names: set[str] = set()
        self._usage = Usage()
        self._before = _read_progress(folder)
        self._began = time.monotonic() if began is None else began
        self._noted = time.monotonic()

    @property
    def usage(self) -> Usage:
        """Return the calls and tokens of models in the finished shards."""
        return self._usage

    @property
    def spent(self) -> BuildFigures:
        """Return time and memory used so far, over all processes that worked on the build."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return BuildFigures(
            seconds=round(self._before.seconds + time.monotonic() - self._began, 3),
            peak_memory_bytes=max(self._before.peak_memory_bytes, peak),
        )

    async def __call__(
        self,
        name: str,
        work: Callable[[Sequence[Item]], Awaitable[Result]],
        items: Sequence[Item],
        per_shard: int,
        into: np.ndarray | None = None,
    ) -> list[Result]:
        if name in self._names or not name.replace("_", "").replace("-", "").isalnum():
            raise ValueError(f"{name!r}: the name of a part is of letters, digits, - and _, and once in a build")
        self._names.add(name)
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        starts = range(0, len(items), per_shard)
        results: list[Any] = [None] * len(starts) if into is None else []
        waiting, done = iter(enumerate(starts)), 0

        async def work_through() -> None:
            nonlocal done
            for number, start in waiting:
                result: Any = await self._shard(folder / f"{number:08}", work, items[start : start + per_shard])
                if into is None:
                    results[number] = result
                else:
                    put_rows(into[start : start + per_shard], result)
                done += 1
                if self._report is not None:
                    self._report(name, done, len(starts))

        await all_or_error(work_through() for _ in range(min(self._at_once, len(starts))))
        return results

    async def _shard(
        self, path: Path, work: Callable[[Sequence[Item]], Awaitable[Result]], items: Sequence[Item]
    ) -> Result:
        made_of = _hash_items(items)
        kept = await asyncio.to_thread(_read, path, made_of)
        if kept is None:
            with metering() as meter:
                result = await work(items)
            kept = await _finish(asyncio.to_thread(_write, path, made_of, result, meter.usage(Prices())))
            self._note_progress()
        self._usage += kept.usage
        return kept.result

    def _note_progress(self) -> None:
        if time.monotonic() - self._noted >= _NOTE_EVERY_S:
            self._noted = time.monotonic()
            unfinished = self._folder / f".{_PROGRESS}"
            unfinished.write_text(json.dumps(to_dict(self.spent)), encoding="utf-8")
            os.replace(unfinished, self._folder / _PROGRESS)


@dataclass(frozen=True, slots=True)
class _Kept:
    result: Any
    usage: Usage


async def _finish(writing: Coroutine[Any, Any, _Kept]) -> _Kept:
    """Await to the end, also when another shard has failed: what was worked out is kept."""
    task = asyncio.ensure_future(writing)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def _write(path: Path, made_of: str, result: Any, usage: Usage) -> _Kept:
    """Keep a shard; its result as it will be read. Raises `OutputError`."""
    receipt: dict[str, Any] = {
        "made_of": made_of,
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cut_replies": usage.cut_replies,
    }
    try:
        if isinstance(result, np.ndarray):
            array = path.with_suffix(".npy")
            _put(array, lambda file: np.save(file, result))
            receipt["array"] = file_hash(array)
        else:
            receipt["result"] = result
        content = json.dumps(receipt).encode()
        _put(path.with_suffix(".json"), lambda file: file.write(content))
    except OSError as error:
        raise OutputError(f"cannot write {path.parent}: {error.strerror or error}") from error
    kept = _read(path, made_of)
    assert kept is not None, path
    return kept


def _read(path: Path, made_of: str) -> _Kept | None:
    """A shard that is kept whole and is of these items."""
    try:
        receipt = json.loads(path.with_suffix(".json").read_bytes())
        if receipt["made_of"] != made_of:
            return None
        if "array" not in receipt:
            result = receipt["result"]
        elif file_hash(path.with_suffix(".npy")) != receipt["array"]:
            return None
        else:
            result = np.load(path.with_suffix(".npy"))
        counts = ("calls", "prompt_tokens", "completion_tokens", "cut_replies")
        return _Kept(result, Usage(**{name: receipt[name] for name in counts}))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _put(path: Path, write: Callable[[Any], object]) -> None:
    unfinished = path.with_name(f".{path.name}")
    with unfinished.open("wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
    sync(path.parent)


def _read_progress(folder: Path) -> BuildFigures:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return BuildFigures(**json.loads((folder / _PROGRESS).read_bytes()))
    return BuildFigures()


def _hash_items(items: Sequence[Any]) -> str:
    """Raises `TypeError` for what has no plain form: it could not be told from other items."""
    return hashlib.sha256(json.dumps(list(items), default=_as_plain, sort_keys=True).encode()).hexdigest()


def _as_plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, np.generic):
        return value.item()
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"items of a shard are texts, numbers, records, arrays, lists or dicts of them, not {type(value)}")
