"""Make bundles by merging the nearest groups of documents first, where one of the two has a single source. Single
documents are bundled like this, and groups that a clustering leaves incomplete are completed.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from trailforge.generators.document_bundles.bundling.config import (
    LARGEST,
    BundleConfig,
    Group,
    Leftover,
    LeftoverReason,
)
from trailforge.generators.document_bundles.bundling.units import (
    Documents,
    SharedNames,
    Units,
    has_two,
    in_window,
    nearest,
)

Mask: TypeAlias = Callable[[slice], np.ndarray]
_NEIGHBOURS = 10
"""Looked at per document and round."""


def greedy_groups(documents: Documents, config: BundleConfig) -> list[Group]:
    """Group documents, beginning with each by itself, by merging; a document that finds no partner is a group of
    one.
    """
    units = Units(documents, ([row] for row in range(len(documents.vectors))), config)
    merge_nearest(units, config)
    return list(units.members.values())


def complete(documents: Documents, groups: list[Group], config: BundleConfig) -> tuple[list[Group], Group]:
    """Turn groups of at most four into bundles; returns these and the rows that could not be bundled.

    Documents that may not be together are separated. A group with one source takes the nearest document of another
    source, first one that is in no bundle, then one that its bundle can do without; a full group gives up its outermost
    document for that. A single document joins the nearest bundle with room. No two of the remaining rows could be a
    bundle.
    """
    units = Units(documents, groups, config)
    _part_outsiders(units)
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


def explain(documents: Documents, rest: Group, config: BundleConfig) -> list[Leftover]:
    """Return for each of the documents `rest` (row numbers) why it is in no bundle, considering these documents
    alone.
    """
    left = documents.take(rest)
    shared = SharedNames(left, config.min_shared).between(np.arange(len(rest)), np.arange(len(rest)))
    days = Units(left, ([place] for place in range(len(rest))), config).day_spans()

    def accompanied(same_source: bool, *, timely: bool = False, sharing: bool = False) -> set[int]:
        def company(block: slice) -> np.ndarray:
            mask = (left.sources[block, None] == left.sources) == same_source
            mask &= np.arange(len(rest))[block, None] != np.arange(len(rest))
            if timely:
                mask &= in_window(days[block], days)
            return mask & shared(block) if sharing else mask

        found = nearest(left.vectors, left.vectors, company, count=1, min_cosine=config.min_cosine)
        return {place for place, _, _ in found}

    reasons: dict[int, LeftoverReason] = {}
    if config.min_shared:
        reasons |= dict.fromkeys(accompanied(False, timely=True), "no_shared_name")
    if np.isfinite(left.windows).any():
        reasons |= dict.fromkeys(accompanied(False, sharing=True), "other_time")
    reasons |= dict.fromkeys(accompanied(True, sharing=True), "same_source")
    if left.sketches.shape[1]:
        reasons |= dict.fromkeys(accompanied(False, timely=True, sharing=True), "copy")
    return [Leftover(row, reasons.get(place, "alone")) for place, row in enumerate(rest)]


def merge_nearest(units: Units, config: BundleConfig) -> None:
    """Merge in place pairs of units (groups of documents), one of which has a single source, by mean cosine until no
    pair can be merged. This is average linkage over the graph of nearest neighbours, which is rebuilt when it is used
    up.
    """
    while links := _links(units, config):
        before = len(units.members)
        _merge_along(units, links, config)
        if len(units.members) == before:
            return


def take_nearest(units: Units, config: BundleConfig) -> bool:
    """Move documents from bundles that can do without them to units (groups of documents) with a single source; returns
    whether any was moved.
    """
    taken = False
    while offers := _offers(units, config):
        accepted = 0
        for _, unit, row in offers:
            donor = int(units.unit_of[row])
            if unit in units.members and donor in units.members and _may_move(units, row, donor, unit):
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


def _part_outsiders(units: Units) -> None:
    for unit, rows in list(units.members.items()):
        inside = list(rows)
        while (row := units.outsider(inside)) is not None:
            inside.remove(row)
        if len(inside) < len(rows):
            for group in [inside, *([row] for row in units.dissolve(unit) if row not in inside)]:
                units.add(group)


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
    spans, seeking, pairs = units.spans(), np.flatnonzero(unfinished), set[tuple[int, int]]()
    # Bundles that will not take a document must not hide another that will, hence the unfinished ones by themselves.
    for place in (unfinished & (sizes < LARGEST), ~unfinished & (sizes < LARGEST)):
        room = np.flatnonzero(place)
        if len(np.unique(units.sources[seeking])) < 2 and unfinished[room].all():
            continue  # only documents of one source: spares a search of all against all

        sharing = units.shared.between(seeking, room)

        def allowed(block: slice, room: np.ndarray = room, sharing: Mask = sharing) -> np.ndarray:
            rows = seeking[block, None]
            fits = sizes[rows] + sizes[room] <= LARGEST
            other = units.unit_of[rows] != units.unit_of[room]
            useful = ~unfinished[room] | (units.sources[rows] != units.sources[room])
            timely = in_window(spans[seeking[block]], spans[room])
            return fits & other & useful & timely & sharing(block)

        found = nearest(
            units.vectors[seeking], units.vectors[room], allowed, count=_NEIGHBOURS, min_cosine=config.min_cosine
        )
        for one, other, _ in found:
            first, second = sorted((int(units.unit_of[seeking[one]]), int(units.unit_of[room[other]])))
            pairs.add((first, second))
    return sorted(pairs)


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
        if not units.may_be_together(units.members[first] + units.members[second]):
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
    own = np.array([units.members[unit][0] for unit in takers])
    spans, days, sharing = units.spans(), units.day_spans(), units.shared.between(own, spare)

    def allowed(block: slice) -> np.ndarray:
        other = units.sources[own[block, None]] != units.sources[spare]
        return other & in_window(spans[own[block]], days[spare]) & sharing(block)

    found = nearest(
        np.stack([units.centre(unit) for unit in takers]),
        units.vectors[spare],
        allowed,
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


def _may_move(units: Units, row: int, donor: int, taker: int) -> bool:
    rows = [other for other in units.members[donor] if other != row]
    is_spare = len(rows) >= 2 and has_two(units.sources, rows)
    return is_spare and units.may_be_together(rows) and units.may_be_together([*units.members[taker], row])
