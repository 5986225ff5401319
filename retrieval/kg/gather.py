"""What a source's rows come to before they are a graph: names and triples by id, and the rows that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from trailforge.retrieval.kg.columns import as_texts
from trailforge.schemas import InvalidInput, RejectedRow

_CHUNK = 500_000
_MOST_INVALID = 0.05
"""Share of invalid rows above which the source is taken for a wrong or broken one."""
_ENOUGH_INVALID = 1000
"""Invalid rows from which their share is looked at while reading."""


class _Texts:
    """Texts that are moved from Python objects into Arrow, chunk by chunk."""

    def __init__(self) -> None:
        self._chunks: list[pa.LargeStringArray] = []
        self.fresh: list[str] = []

    def flush(self) -> None:
        """Move what is fresh."""
        self._chunks.append(as_texts(self.fresh))
        self.fresh.clear()

    def all(self) -> pa.ChunkedArray:
        """All texts in order; they are given away, so that their memory can be."""
        self.flush()
        chunks, self._chunks = self._chunks, []
        return pa.chunked_array(chunks, pa.large_string())


class NamedThings:
    """Entities or relations with their names, in the order of the source. An id may come several times."""

    def __init__(self) -> None:
        self._ids, self._names = _Texts(), _Texts()
        self._counts: list[np.ndarray] = []
        self._fresh_counts: list[int] = []

    def add(self, key: str, names: Iterable[str]) -> None:
        """One thing's names, the label first. Repeated and empty ones are left out."""
        distinct = dict.fromkeys(" ".join(name.split()) for name in names)
        distinct.pop("", None)
        self._ids.fresh.append(key)
        self._names.fresh += distinct
        self._fresh_counts.append(len(distinct))
        if len(self._fresh_counts) >= _CHUNK:
            self._flush()

    def ids(self) -> pa.ChunkedArray:
        """The id of each addition."""
        return self._ids.all()

    def names(self) -> tuple[pa.ChunkedArray, np.ndarray]:
        """All names, and how many each addition has."""
        self._flush()
        return self._names.all(), np.concatenate(self._counts)

    def _flush(self) -> None:
        self._ids.flush()
        self._names.flush()
        self._counts.append(np.array(self._fresh_counts, np.int64))
        self._fresh_counts.clear()


class Gathered:
    """Where a source puts its rows."""

    def __init__(self) -> None:
        self.entities, self.relations = NamedThings(), NamedThings()
        self.rejected: list[RejectedRow] = []
        self._values: set[str] = set()
        self.rows = 0
        """Read, the invalid ones too."""
        self._heads, self._relations, self._tails = _Texts(), _Texts(), _Texts()

    def named(self, things: NamedThings, key: str, names: Iterable[str]) -> None:
        """A valid row about one of the entities or relations: its id and names, the label first."""
        self.rows += 1
        things.add(key, names)

    def triple(self, head: str, relation: str, tail: str) -> None:
        """A valid row that is a triple, by ids."""
        self.rows += 1
        self._heads.fresh.append(head)
        self._relations.fresh.append(relation)
        self._tails.fresh.append(tail)
        if len(self._heads.fresh) >= _CHUNK:
            for column in (self._heads, self._relations, self._tails):
                column.flush()

    def fact(self, head: str, relation: str, value: str) -> None:
        """A valid row that is a triple with a value instead of a tail: a date, a number, a text."""
        key = value_id(value)
        if key not in self._values:
            self._values.add(key)
            self.entities.add(key, [value])
        self.triple(head, relation, key)

    def triples(self) -> tuple[pa.ChunkedArray, pa.ChunkedArray, pa.ChunkedArray]:
        """All heads, relations and tails, by id."""
        return self._heads.all(), self._relations.all(), self._tails.all()

    def reject(self, file: object, row: int, field: str | None, problem: str, payload: str) -> None:
        """A row that cannot be used. Raises `InvalidInput` when there are too many of them."""
        self.rows += 1
        detail = str(InvalidInput(problem, file=file, row=row, field=field))
        rejected = RejectedRow(
            uid=f"{file}:{row}", stage="kg", reason=InvalidInput.reason, score=0.0, detail=detail, payload=payload
        )
        self.rejected.append(rejected)
        if len(self.rejected) > _ENOUGH_INVALID:
            self.check()

    def check(self) -> None:
        """Raise `InvalidInput` with the first reason when more than 5 % of the rows are invalid."""
        share = len(self.rejected) / max(self.rows, 1)
        if share > _MOST_INVALID:
            raise InvalidInput(
                f"{len(self.rejected):,} of {self.rows:,} rows are invalid ({share:.0%}, at most {_MOST_INVALID:.0%}); "
                f"the first: {self.rejected[0].detail}"
            )


def value_id(value: str) -> str:
    """The id of a value: between quotation marks, as no entity's is."""
    return f'"{value}"'


def codes_of(groups: Sequence[pa.ChunkedArray]) -> tuple[pa.LargeStringArray, list[np.ndarray]]:
    """Groups of texts as numbers (int32, same lengths), and the distinct texts in the order they first come."""
    encoded = pa.chunked_array(list(chain.from_iterable(g.chunks for g in groups)), pa.large_string())
    encoded = encoded.dictionary_encode().unify_dictionaries()
    numbers = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks] or [np.zeros(0, np.int32)])
    distinct = encoded.chunk(0).dictionary if encoded.num_chunks else as_texts([])
    return distinct, np.split(numbers, np.cumsum([len(group) for group in groups])[:-1])
