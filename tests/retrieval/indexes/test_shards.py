"""Results of shards that are put into one array."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from trailforge.retrieval.indexes.shards import KeptShards


async def square(items: Sequence[int]) -> np.ndarray:
    return np.array(items) ** 2


async def first(items: Sequence[int]) -> np.ndarray:
    return np.array(items[:1])


def test_results_stand_in_the_array_where_their_items_do(tmp_path: Path) -> None:
    """The second time they are read from what the first has left."""
    for _ in range(2):
        into = np.zeros(5, dtype=np.int64)
        assert asyncio.run(KeptShards(tmp_path)("squares", square, range(5), 2, into)) == []
        assert into.tolist() == [0, 1, 4, 9, 16]


def test_a_result_of_another_length_is_not_repeated_over_its_shard(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"shape \(1,\), where \(2,\)"):
        asyncio.run(KeptShards(tmp_path)("first", first, range(4), 2, np.zeros(4, dtype=np.int64)))
