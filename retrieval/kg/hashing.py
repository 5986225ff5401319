"""Hash tables on disk: keys fall into buckets, and rows lie bucket by bucket."""

from __future__ import annotations

import numpy as np

Keys = np.ndarray
"""uint64, shape (n,)."""


def mix(keys: Keys) -> Keys:
    """Spread keys evenly over 64 bits: the finaliser of the splitmix64 generator (Steele and others, 2014)."""
    keys = keys.astype(np.uint64, copy=True)
    keys ^= keys >> np.uint64(30)
    keys *= np.uint64(0xBF58476D1CE4E5B9)
    keys ^= keys >> np.uint64(27)
    keys *= np.uint64(0x94D049BB133111EB)
    keys ^= keys >> np.uint64(31)
    return keys


def bucket_bits(rows: int, per_bucket: int) -> int:
    """Bits of a bucket's number, so that about so many rows share one."""
    return max(1, (rows // per_bucket).bit_length())


def buckets(mixed: Keys, bits: int) -> np.ndarray:
    """The buckets of mixed keys: their highest bits; int64."""
    return (mixed >> np.uint64(64 - bits)).astype(np.int64)


def bits_of(starts: np.ndarray) -> int:
    """The `bits` of a table with these bucket starts."""
    return (len(starts) - 1).bit_length() - 1
