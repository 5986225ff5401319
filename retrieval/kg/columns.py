"""The columns of a store on disk: NumPy files, opened memory-mapped so that processes share one copy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from trailforge.schemas import RetrievalError

_SMALL = np.iinfo(np.uint32).max
_LARGE = (1 << 64) - 1


def save(folder: Path, name: str, column: np.ndarray) -> None:
    """Write a column as `name.npy`."""
    np.save(folder / f"{name}.npy", column, allow_pickle=False)


def load(folder: Path, name: str) -> np.ndarray:
    """Open a column, memory-mapped and read-only. Raises `RetrievalError` when it is missing or damaged."""
    path = folder / f"{name}.npy"
    try:
        column = np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)  # a memmap costs 1 µs an index more
    except Exception as error:  # a damaged header: no base class is common to OSError, TokenError, SyntaxError …
        raise RetrievalError(f"{path} is missing or damaged: build the store again") from error
    if column.ndim != 1 or column.dtype.kind not in "iu":
        raise RetrievalError(f"{path} is damaged: build the store again")
    return column


def offsets(lengths: np.ndarray) -> np.ndarray:
    """Return the starts of consecutive stretches of these lengths, and the end of the last; shape (len(lengths) +
    1,).
    """
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends.astype(np.uint32) if ends[-1] <= _SMALL else ends


def grouped(keys: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of each group, in order, as (starts, rows): those of group g are `rows[starts[g]:starts[g +
    1]]`."""
    return offsets(np.bincount(keys, minlength=groups)), np.argsort(keys, kind="stable")


def stretches(starts: np.ndarray, groups: np.ndarray, rows: int) -> np.ndarray:
    """Return the positions of all members of some groups, one group after the other: group g has those from `starts[g]`
    up to `starts[g + 1]` (`grouped`). Raises `IndexError` for any beyond `rows`.
    """
    first, last = starts[groups].astype(np.int64), starts[groups + 1].astype(np.int64)
    if last.max(initial=0) > rows:
        raise IndexError(f"a stretch up to {last.max()} of {rows} rows")
    return stretch(first, last - first)


def stretch(first: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return positions `first[i]` up to `first[i] + lengths[i]` for each i, one after the other; int64."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(first - (ends - lengths), lengths)


def places(column: np.ndarray, values: np.ndarray, side: Literal["left", "right"] = "left") -> np.ndarray:
    """Return the positions of values in a sorted column, or where they would be inserted. They are first cast to the
    column's type, since NumPy would copy the column otherwise.
    """
    return np.searchsorted(column, values.astype(column.dtype), side=side)


class Texts:
    """A column of texts: their UTF-8 bytes one after the other, and where each begins."""

    def __init__(self, blob: np.ndarray, starts: np.ndarray) -> None:
        self._blob, self._starts = blob.data, starts

    @classmethod
    def load(cls, folder: Path, name: str) -> Texts:
        """Open a column of texts; raises what `load` raises."""
        return cls(load(folder, f"{name}.utf8"), load(folder, f"{name}.starts"))

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, row: int) -> str:
        return str(self._blob[int(self._starts[row]) : int(self._starts[row + 1])], "utf-8")

    def between(self, first: int, last: int) -> list[str]:
        """Return the texts of neighbouring rows. Raises `IndexError` for rows that do not exist."""
        if not first <= last <= len(self):
            raise IndexError(f"rows {first} to {last} of {len(self)}")
        return self.many(np.arange(first, last))

    def many(self, rows: np.ndarray | Sequence[int]) -> list[str]:
        """Return the texts at some row numbers."""
        rows = np.asarray(rows, np.int64)
        blob = self._blob
        spans = zip(self._starts[rows].tolist(), self._starts[rows + 1].tolist(), strict=True)
        return [str(blob[first:last], "utf-8") for first, last in spans]


def save_texts(folder: Path, name: str, texts: pa.LargeStringArray) -> None:
    """Write a column of texts, for `Texts.load`."""
    _, starts, blob = texts.buffers()
    bounds = np.frombuffer(starts, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    content = np.frombuffer(blob, np.uint8) if blob is not None else np.zeros(0, np.uint8)
    save(folder, f"{name}.utf8", content[bounds[0] : bounds[-1]])
    save(folder, f"{name}.starts", offsets(np.diff(bounds)))


def as_texts(texts: Iterable[str]) -> pa.LargeStringArray:
    """Return texts as an Arrow array."""
    return pa.array(texts if isinstance(texts, list) else list(texts), pa.large_string())


Keys = np.ndarray
"""Type of keys: uint64, shape (n,)."""


def mix(keys: Keys) -> Keys:
    """Spread keys evenly over 64 bits: the finaliser of the splitmix64 generator (Steele and others, 2014)."""
    keys = keys.astype(np.uint64, copy=True)
    keys ^= keys >> np.uint64(30)
    keys *= np.uint64(0xBF58476D1CE4E5B9)
    keys ^= keys >> np.uint64(27)
    keys *= np.uint64(0x94D049BB133111EB)
    keys ^= keys >> np.uint64(31)
    return keys


def mix_one(key: int) -> int:
    """Return `mix` of one key, ignoring its bits beyond 64: twenty times faster than as an array."""
    key &= _LARGE
    key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9 & _LARGE
    key = (key ^ key >> 27) * 0x94D049BB133111EB & _LARGE
    return key ^ key >> 31


def bucket_bits(rows: int, per_bucket: int) -> int:
    """Return the number of bits of a bucket's number for which about `per_bucket` rows share a bucket."""
    return max(1, (rows // per_bucket).bit_length())


def buckets(mixed: Keys, bits: int) -> np.ndarray:
    """Return the buckets of mixed keys, which are their highest bits, as int64."""
    return (mixed >> np.uint64(64 - bits)).astype(np.int64)


def bucket_of(starts: np.ndarray, mixed: int, rows: int) -> slice:
    """Return the rows of a mixed key's bucket, in a table with these bucket starts. Raises what `stretches` raises."""
    bucket = mixed >> (64 - bits_of(starts))
    first, last = int(starts[bucket]), int(starts[bucket + 1])
    if last > rows:
        raise IndexError(f"a stretch up to {last} of {rows} rows")
    return slice(first, last)


def bits_of(starts: np.ndarray) -> int:
    """Return how many bits a bucket's number has in a table with these bucket starts; see `bucket_bits`."""
    return (len(starts) - 1).bit_length() - 1
