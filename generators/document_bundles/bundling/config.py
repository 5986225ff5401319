"""Configuration and result of bundling documents."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from trailforge.schemas import InvalidInput

Method = Literal["recipe", "hdbscan", "greedy", "partitioned"]
Reduction = Literal["umap", "pca", "none"]
LeftoverReason = Literal["alone", "same_source", "other_time", "no_shared_name", "copy", "other_matter"]
WHY_LEFT: dict[LeftoverReason, str] = {
    "alone": "in no bundle: no document that is left is near it",
    "same_source": "in no bundle: what would go with it is of its own source",
    "other_time": "in no bundle: what would go with it is out of the window of days",
    "no_shared_name": "in no bundle: what is near it speaks of none of the names that it speaks of",
    "copy": "in no bundle: what would go with it holds the same text",
    "other_matter": "in no bundle: what would go with it shares its subject and tells of another matter",
}
"""What is said of a document that is in no bundle, by the reason."""


Group: TypeAlias = list[int]
"""Rows of documents that belong together."""

PACKAGES = ("faiss", "matplotlib", "sklearn", "threadpoolctl", "umap")
"""The modules of optional packages that bundling imports."""
LARGEST = 4
"""Most documents in a bundle, as in the paper; a bundle has at least two, from at least two sources."""

_SHARE = "above 0 and at most 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleConfig:
    """How documents are bundled. The defaults scale to any number of documents; `method: recipe` is the paper's
    method.
    """

    method: Method = "partitioned"
    """How documents are grouped. `recipe` (R-Search): themes by Ward's agglomerative clustering of reduced vectors, cut
    by k-means until they are small enough. `hdbscan`: themes by HDBSCAN instead, as in the code that was released with
    the paper. `greedy`: the nearest documents of different sources first. `partitioned`: `within` in each part of a
    coarse partition."""
    within: Literal["recipe", "greedy"] = "greedy"
    """The method that `partitioned` uses within a part."""
    reduction: Reduction = "umap"
    """How vectors are reduced before `recipe` and `hdbscan`. In parts of a partition `pca` takes a hundredth of UMAP's
    time."""
    dimensions: int = 50
    """Number of dimensions of the vectors after the reduction."""
    theme_size: int = 100
    """Number of documents in a theme, on average, before k-means cuts it."""
    part_size: int = 1000
    """Number of documents in a part, on average. A part of more than twice as many is cut again."""
    min_cosine: float = 0.4
    """In a bundle each document's mean cosine to the others reaches this; else it would be there for its source alone.
    0 asks for next to nothing. Depends on the encoder: with MiniLM the median of all pairs of 3,594 articles and
    abstracts of different sources is 0.08, one in thirty reaches 0.25, one in a thousand 0.4, one in 5,000 0.45."""
    is_centred: bool = False
    """Take away from each vector what all documents of its archive have in common. In a narrow archive all are alike:
    a quarter of the pairs of 1,831 arXiv abstracts reach a cosine of 0.4, less their mean one in two hundred."""
    min_shared: float = 0.0
    """In a bundle each document shares names with at least half of the others, and is near them: the sum over the
    names of ln(documents / documents with it) reaches this. A name that stands twice, outside of lists of names, counts
    in full, else half. 0: no matter which names."""
    max_name_share: float = 0.1
    """Largest share of documents that a joining name stands in, although in ten documents a name always may stand."""
    source_name_share: float = 1.0
    """A name in a larger share of a source's documents, of eight or more, is its own, its place or its speaker,
    and joins none of them: two offices of one state have the state in common whatever they tell. 1: such names join."""
    min_retold: float = 0.0
    """In a bundle of news each document tells of one matter with another: words of the titles, by rarity, figures and
    names, or the days say so (`measures.worth_of_pair`: `retold`). What shares a subject alone does not; papers may.
    Bundles are parted by it when they are made; what is left of one is held against `min_cosine` again."""
    few_share: float = 0.01
    """Largest share of documents that have a rare name, for the ranking of bundles; in ten documents a name is always
    rare (`measures`)."""
    few_weight: float = 2.0
    """How much more a fact about a rare name counts when bundles are ranked."""
    singled_weight: float = 8.0
    """How much it counts in the ranking of bundles that one document singles out one of several things of a kind that
    the other tells of (`singled.count_singled`). 0: such things are not looked for."""
    event_days: int = 2
    """Most days between news that may report one event, for the ranking of bundles."""
    window_days: int = 0
    """Most days between the dates of two documents of a bundle; 0: dates do not matter. Documents without a date go
    with any."""
    papers_window_days: int = 0
    """`window_days` for papers among each other, whose next conference on a subject is a year away; 0: the same as for
    all."""

    def __post_init__(self) -> None:
        """Raises `InvalidInput` for sizes of which nothing can be made."""
        for name in ("dimensions", "theme_size", "part_size"):
            if getattr(self, name) < LARGEST:
                raise InvalidInput(f"{getattr(self, name)} is less than {LARGEST}; set it to that or more", field=name)
        if self.min_shared < 0 or not 0 < self.max_name_share <= 1:
            field, wanted = ("min_shared", "0 or more") if self.min_shared < 0 else ("max_name_share", _SHARE)
            raise InvalidInput(f"{getattr(self, field)} is out of range: expected {wanted}", field=field)
        if not 0 < self.source_name_share <= 1:
            raise InvalidInput(
                f"{self.source_name_share} is out of range: expected {_SHARE}", field="source_name_share"
            )
        if not 0 <= self.min_retold <= 1:
            raise InvalidInput(f"{self.min_retold} is out of range: expected 0 to 1", field="min_retold")
        if not 0 < self.few_share <= 1:
            raise InvalidInput(f"{self.few_share} is out of range: expected {_SHARE}", field="few_share")
        for name in ("few_weight", "singled_weight"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"{getattr(self, name)} is out of range: expected 0 or more", field=name)
        for name in ("window_days", "papers_window_days", "event_days"):
            if getattr(self, name) < 0:
                raise InvalidInput(f"expected 0 or more days, found {getattr(self, name)}", field=name)

    def window_of(self, *, is_paper: bool) -> float:
        """Return within how many days of each other papers (`is_paper`) or other documents must be dated; infinite when
        dates do not matter.
        """
        return (self.papers_window_days if is_paper else 0) or self.window_days or math.inf


class Leftover(NamedTuple):
    """A document that is in no bundle, with the reason."""

    index: int
    reason: LeftoverReason
    """Why the document is in no bundle, judged by the leftovers of its part that are near it: `same_source`: one of
    its own source would do but for that; `other_time`: one of another source would, but for the window;
    `no_shared_name`: of another source, in the window, but they share no names; `copy`: one that has all of this holds
    the same text; `alone`: none is near. `other_matter`: those that it was with tell of another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundling:
    """The result of bundling n documents: each is, by its row number, in exactly one bundle or among the leftovers."""

    bundles: tuple[tuple[int, ...], ...]
    """The bundles: rows in ascending order, and the bundles by their first row."""
    leftovers: tuple[Leftover, ...]
    """The documents in no bundle, by row."""
