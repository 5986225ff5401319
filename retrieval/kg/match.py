"""From a mention to entities, from a phrase to relations: how well a name agrees, and how surely it is the one.

A score is 1 for the label, 0.99 for an alias, at most 0.98 for the same words in another order or for a name that is
only similar: what agrees exactly stands before what does not. Entities of equal score are told apart by how many words
of the sub-query they and their neighbours have, then by degree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trailforge.retrieval.kg.folding import Spellings, content_words, name_words
from trailforge.retrieval.kg.layout import reads
from trailforge.retrieval.kg.store import KgStore
from trailforge.retrieval.kg.vocabulary import agreement
from trailforge.schemas import EntityMatch, MatchKind, RelationMatch

MIN_SCORE = 0.5
"""What agrees less is no match."""
_ALIAS = 0.01
"""What a score loses when it is an alias that agrees."""
_INEXACT = 0.98
_SHARED = 0.9
"""Weight of sharing words, against agreeing letter by letter."""
_MOST_WORDS = 12
"""Of a mention: longer ones are no names."""
_MOST_NAMES = 256
"""Compared by their letters; see `_nearest`."""
_MOST_COLLIDING = 20
"""Entities of equal score whose neighbourhoods are read, by degree."""
_MOST_NEIGHBOURS = 1000
"""Read in each direction, of all these neighbourhoods together."""


class _Scored(NamedTuple):
    """An entity's best name."""

    score: float
    row: int
    name: str
    kind: MatchKind


@reads
def match_entity(store: KgStore, mention: str, sub_query: str = "", k: int = 5) -> list[EntityMatch]:
    """The `k` entities that a mention may mean, best first; none when no name is similar."""
    words = name_words(mention)[:_MOST_WORDS]
    best = _best_names(store, words, _nearest(store, store.names.candidates(words))) if words else []
    if not best or k <= 0:
        return []
    best.sort(key=lambda one: -one.score)
    last = best[min(k, len(best)) - 1].score
    offered = [one for one in best if one.score >= last]
    degrees = dict(zip((one.row for one in offered), store.degrees(_rows(offered)).tolist(), strict=True))
    overlaps = _overlaps(store, offered, degrees, content_words(sub_query) - set(words))
    offered.sort(key=lambda one: (-one.score, -overlaps.get(one.row, 0), -degrees[one.row], one.row))
    runner_up = best[1].score if len(best) > 1 else 0.0
    return [
        EntityMatch(
            entity_id=store.id_of(one.row),
            label=store.label_of(one.row),
            name=one.name,
            kind=one.kind,
            score=one.score,
            margin=round(one.score - (best[0].score if place else runner_up), 6),
            overlap=overlaps.get(one.row, 0),
            degree=degrees[one.row],
        )
        for place, one in enumerate(offered[:k])
    ]


@reads
def match_relation(store: KgStore, phrase: str, k: int = 5) -> list[RelationMatch]:
    """The `k` relations that a phrase may mean, best first; of equal score the one with the lower row first."""
    words = name_words(phrase)[:_MOST_WORDS]
    if not words:
        return []
    best: dict[int, tuple[float, str]] = {}
    agreements = similarities(words, store.relation_name_words)
    named = ((row, name) for row, names in enumerate(store.relation_names) for name in names)
    for (row, name), agreed in zip(named, agreements, strict=True):
        is_alias = name is not store.relation_names[row][0]
        score = round(agreed - (_ALIAS if is_alias else 0.0), 6)
        if score >= MIN_SCORE and (row not in best or score > best[row][0]):
            best[row] = score, name
    ranked = sorted(best, key=lambda row: (-best[row][0], row))
    top = [best[row][0] for row in ranked[:2]] + [0.0, 0.0]
    return [
        RelationMatch(
            relation_id=store.relation_id(row),
            label=store.relation_names[row][0],
            name=best[row][1],
            score=best[row][0],
            margin=round(best[row][0] - top[0 if place else 1], 6),
        )
        for place, row in enumerate(ranked[: max(k, 0)])
    ]


def similarities(words: Sequence[str], names: Spellings) -> list[float]:
    """How well names agree with a mention, 0 to 1, all by their words (see `name_words`); 1 only for the same words.

    The best of three: letter by letter (edits, a swap counted as one, over the longer length), the same with the words
    sorted, and the share of distinct words in common times 0.9. All but sameness is capped at 0.98.
    """
    asked, distinct = " ".join(words), frozenset(words)
    in_order = agreement(" ".join(sorted(words)), names.in_order)
    spelt = np.maximum(agreement(asked, names.straight), in_order).tolist()
    rows = zip(names.straight, names.distinct, spelt, strict=True)
    return [
        1.0 if name == asked else min(_INEXACT, max(as_spelt, _SHARED * _dice(distinct, others)))
        for name, others, as_spelt in rows
    ]


def _dice(words: frozenset[str], others: frozenset[str]) -> float:
    if words.isdisjoint(others):
        return 0.0
    return 2 * len(words & others) / (len(words) + len(others))


def _best_names(store: KgStore, words: Sequence[str], names: np.ndarray) -> list[_Scored]:
    """Each entity with the one of these names that agrees best."""
    owners = store.owners(names)
    texts = store.name_texts(names)
    split = [name_words(text) for text in texts]
    rows = zip(owners.tolist(), store.are_labels(names, owners).tolist(), texts, split, strict=True)
    best: dict[int, _Scored] = {}
    for (row, is_label, name, others), agreed in zip(rows, similarities(words, Spellings.of(split)), strict=True):
        score = round(agreed - (0.0 if is_label else _ALIAS), 6)
        if score >= MIN_SCORE and (row not in best or score > best[row].score):
            best[row] = _Scored(score, row, name, _kind(agreed, is_label, sorted(words) == sorted(others)))
    return list(best.values())


def _kind(agreed: float, is_label: bool, has_same_words: bool) -> MatchKind:
    if agreed == 1:
        return "label" if is_label else "alias"
    return "word_order" if has_same_words else "fuzzy"


def _nearest(store: KgStore, tiers: Sequence[np.ndarray]) -> np.ndarray:
    """The names to be compared: from the nearest tier on, of the last one those whose entities have most triples."""
    chosen = np.zeros(0, np.int64)
    for tier in tiers:
        names = np.setdiff1d(tier, chosen)
        room = _MOST_NAMES - len(chosen)
        if len(names) > room:
            names = names[np.lexsort((names, -store.degrees(store.owners(names))))[:room]]
        chosen = np.concatenate([chosen, names])
    return np.sort(chosen)


def _overlaps(store: KgStore, offered: Sequence[_Scored], degrees: dict[int, int], wanted: set[str]) -> dict[int, int]:
    """For entities that share their score with another: how many of the wanted words are around them."""
    same = Counter(one.score for one in offered)
    colliding = [one.row for one in offered if same[one.score] > 1]
    if not wanted or not colliding:
        return {}
    colliding.sort(key=lambda row: (-degrees[row], row))
    colliding = colliding[:_MOST_COLLIDING]
    most = _MOST_NEIGHBOURS // len(colliding)
    return {row: len(wanted & _surroundings(store, row, most)) for row in colliding}


def _surroundings(store: KgStore, row: int, most: int) -> set[str]:
    """Words of an entity's names, its relations, and labels of neighbours: at most so many in each direction."""
    texts = store.names_of(row)
    words: set[str] = set()
    for side in (store.out, store.into):
        words.update(*(store.relation_words[relation] for relation in side.relations_of(row).tolist()))
        texts += store.labels_of(side.some_neighbours_of(row, most))
    return words.union(*map(name_words, texts))


def _rows(scored: Sequence[_Scored]) -> np.ndarray:
    return np.array([one.row for one in scored], np.int64)
