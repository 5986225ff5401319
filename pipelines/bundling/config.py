"""What a bundling is asked for, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from schemas import InvalidInput

Method = Literal["recipe", "hdbscan", "greedy", "partitioned"]
Reduction = Literal["umap", "pca", "none"]
LeftoverReason = Literal["alone", "single_source"]
Group: TypeAlias = list[int]
"""Rows that belong together."""

LARGEST = 4
"""Documents in a bundle at most, as in the paper; at least two, from at least two sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleConfig:
    """How documents are bundled. The defaults scale to any number; `method: recipe` is the paper's."""

    method: Method = "partitioned"
    """`recipe` (R-Search): themes by Ward's agglomerative clustering of reduced vectors, cut by k-means until they are
    small enough. `hdbscan`: themes by HDBSCAN instead, as in the code that was released with the paper. `greedy`: the
    nearest documents of different sources first. `partitioned`: `within` in each part of a coarse partition."""
    within: Literal["recipe", "greedy"] = "greedy"
    """What `partitioned` does in a part."""
    reduction: Reduction = "umap"
    """Before `recipe` and `hdbscan`. In parts of a partition `pca` takes a hundredth of UMAP's time."""
    dimensions: int = 50
    """After the reduction."""
    theme_size: int = 100
    """Documents to a theme, on average, before k-means cuts it."""
    part_size: int = 1000
    """Documents to a part, on average. One of more than twice as many is cut again."""
    min_cosine: float = 0.0
    """A document is joined to others, or moved to a bundle, only when its mean cosine to them reaches this. Depends on
    the encoder: with MiniLM half of all pairs of 750 articles and abstracts are below 0.07, and 95 % below 0.34."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for sizes of which nothing can be made."""
        for name in ("dimensions", "theme_size", "part_size"):
            if getattr(self, name) < LARGEST:
                raise InvalidInput(f"{getattr(self, name)} is less than {LARGEST}", field=name)


class Leftover(NamedTuple):
    """A document that is in no bundle."""

    index: int
    reason: LeftoverReason
    """`single_source`: of its part only documents of its own source are left near it; `alone`: none at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundling:
    """Each of n documents, by its row, in exactly one place."""

    bundles: tuple[tuple[int, ...], ...]
    """Rows in ascending order; the bundles by their first row."""
    leftovers: tuple[Leftover, ...]
    """By row."""
