"""Bundles out of units of one source: the nearest are merged first. Bundles from single documents are made so, and
what a clustering leaves unfinished is mended so."""

from __future__ import annotations

import heapq
from collections import defaultdict

import numpy as np

from pipelines.bundling.config import LARGEST, BundleConfig, Group, Leftover
from pipelines.bundling.units import Units, has_two, nearest

_NEIGHBOURS = 10
"""Looked at per document and round."""


def greedy_groups(vectors: np.ndarray, sources: np.ndarray, config: BundleConfig) -> list[Group]:
    """Every document for itself at first, then merged; what found no partner is a group of one."""
    units = Units(vectors, sources, ([row] for row in range(len(vectors))))
    merge_nearest(units, config)
    return list(units.members.values())


def complete(
    vectors: np.ndarray, sources: np.ndarray, groups: list[Group], config: BundleConfig
) -> tuple[list[Group], Group]:
    """Bundles of these groups of at most four, and the rows that could not be bundled.

    A group of one source takes in the nearest document of another, first one that is in no bundle, then one that its
    bundle can spare. A full group gives its outermost document away for that. A document by itself joins the nearest
    bundle with room.
    """
    units = Units(vectors, sources, groups)
    _make_room(units)
    _merge_and_take(units, config)
    for unit in units.unfinished():  # its documents may still find places one by one
        if len(units.members[unit]) > 1:
            for row in units.dissolve(unit):
                units.add([row])
    _merge_and_take(units, config)
    rest = sorted(units.members[unit][0] for unit in units.unfinished())
    bundles = [rows for unit, rows in units.members.items() if units.is_bundle(unit)]
    return bundles, rest


def explain(vectors: np.ndarray, sources: np.ndarray, rest: Group, config: BundleConfig) -> list[Leftover]:
    """Why each of these rows is in no bundle, among these rows alone."""
    rows = np.array(rest, int)

    def company(block: slice) -> np.ndarray:
        same = sources[rows[block, None]] == sources[rows]
        return same & (rows[block, None] != rows)

    found = nearest(vectors[rows], vectors[rows], company, count=1, min_cosine=config.min_cosine)
    accompanied = {rest[place] for place, _, _ in found}
    return [Leftover(row, "single_source" if row in accompanied else "alone") for row in rest]


def merge_nearest(units: Units, config: BundleConfig) -> None:
    """Merge pairs of units of which one has a single source, by mean cosine, until no pair can be merged.

    Average linkage over the graph of each document's nearest neighbours, which is made anew when it is used up.
    """
    while links := _links(units, config):
        before = len(units.members)
        _merge_along(units, links, config)
        if len(units.members) == before:
            return


def take_nearest(units: Units, config: BundleConfig) -> bool:
    """Units of one source take a document of another from bundles that stay bundles without; whether any did."""
    taken = False
    while offers := _offers(units, config):
        accepted = 0
        for _, unit, row in offers:
            donor = int(units.unit_of[row])
            if unit in units.members and donor in units.members and row in _spare(units, donor):
                rows = [other for other in units.dissolve(donor) if other != row]
                units.add(rows)
                units.add([*units.dissolve(unit), row])
                accepted += 1
        taken = taken or accepted > 0
        if not accepted:
            break
    return taken


def _merge_and_take(units: Units, config: BundleConfig) -> None:
    merge_nearest(units, config)
    while take_nearest(units, config):
        merge_nearest(units, config)  # a bundle that gave a document away has room


def _make_room(units: Units) -> None:
    for unit in units.unfinished():
        rows = units.members[unit]
        if len(rows) == LARGEST:
            outermost = min(rows, key=lambda row: (float(units.vectors[row] @ units.centre(unit)), row))
            units.dissolve(unit)
            units.add([row for row in rows if row != outermost])
            units.add([outermost])


def _links(units: Units, config: BundleConfig) -> list[tuple[int, int]]:
    """Pairs of units that may merge and hold documents near each other."""
    sizes, unfinished = units.sizes(), np.zeros(len(units.unit_of), bool)
    for unit in units.unfinished():
        unfinished[units.members[unit]] = True
    seeking, room = np.flatnonzero(unfinished), np.flatnonzero(sizes < LARGEST)
    if len(np.unique(units.sources[seeking])) < 2 and unfinished[room].all():
        return []  # only documents of one source are left: spares a search of all against all

    def allowed(block: slice) -> np.ndarray:
        rows = seeking[block, None]
        fits = sizes[rows] + sizes[room] <= LARGEST
        other = units.unit_of[rows] != units.unit_of[room]
        return fits & other & (~unfinished[room] | (units.sources[rows] != units.sources[room]))

    found = nearest(
        units.vectors[seeking], units.vectors[room], allowed, count=_NEIGHBOURS, min_cosine=config.min_cosine
    )
    pairs = {tuple(sorted((int(units.unit_of[seeking[a]]), int(units.unit_of[room[b]])))) for a, b, _ in found}
    return sorted((first, second) for first, second in pairs)


def _merge_along(units: Units, links: list[tuple[int, int]], config: BundleConfig) -> None:
    neighbours: defaultdict[int, set[int]] = defaultdict(set)
    for first, second in links:
        neighbours[first].add(second)
        neighbours[second].add(first)
    heap = [(-units.link(first, second), first, second) for first, second in links]
    heapq.heapify(heap)
    while heap:
        negative, first, second = heapq.heappop(heap)
        if -negative < config.min_cosine:
            return
        if first not in units.members or second not in units.members:
            continue
        merged = units.merge(first, second)
        around = (neighbours.pop(first) | neighbours.pop(second)) - {first, second}
        neighbours[merged] = {unit for unit in around if unit in units.members and units.may_merge(merged, unit)}
        for unit in neighbours[merged]:
            neighbours[unit].add(merged)
            heapq.heappush(heap, (-units.link(unit, merged), unit, merged))


def _offers(units: Units, config: BundleConfig) -> list[tuple[float, int, int]]:
    """(minus cosine, unit, row) of rows that bundles can spare and units of one source could use, the nearest first."""
    takers = [unit for unit in units.unfinished() if len(units.members[unit]) < LARGEST]
    spare = np.array([row for unit in units.members for row in _spare(units, unit)], int)
    if not takers or not len(spare):
        return []
    own = np.array([units.sources[units.members[unit][0]] for unit in takers])
    found = nearest(
        np.stack([units.centre(unit) for unit in takers]),
        units.vectors[spare],
        lambda block: own[block, None] != units.sources[spare],
        count=_NEIGHBOURS,
        min_cosine=config.min_cosine,
    )
    return sorted((-cosine, takers[taker], int(spare[place])) for taker, place, cosine in found)


def _spare(units: Units, unit: int) -> list[int]:
    """Rows without which a bundle is still one."""
    rows = units.members[unit]
    if len(rows) < 3:
        return []
    return [row for row in rows if has_two(units.sources, [other for other in rows if other != row])]
