"""Match mentions with entities, and phrases with relations: how similar a name is, and how certain the match.

A score is 1 for the label, 0.99 for an alias, at most 0.98 for the same words in another order or for a name that is
only similar: exact agreement ranks before all else. Entities of equal score are ranked by how many words of the
sub-query they and their neighbours have, then by degree.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from trailforge.retrieval.kg.folding import (
    Spellings,
    content_words,
    distinct_words,
    name_words,
    unbracketed,
    unqualified,
)
from trailforge.retrieval.kg.layout import reads
from trailforge.retrieval.kg.store import Direction, KgStore
from trailforge.retrieval.kg.vocabulary import agreement, edits
from trailforge.schemas import EntityMatch, MatchKind, RelationMatch

MIN_SCORE = 0.65
"""Least score of a match. See "What does a score of entity matching mean?" in docs/performance.md."""
_ALIAS = 0.01
"""What a score loses when it is an alias that agrees."""
_INEXACT = 0.98
_BRACKETED = 0.95
"""Weight of agreement with a name but for its bracket: "Laserblast (1978 film)" is Laserblast …"""
_CONTINUED = 0.9
"""… with a name that goes on after a comma, as "Jeanne de Bar, Countess of Marle" does …"""
_CUT_AT_COMMA = 0.85
"""… and with what stands before the mention's own comma: Springfield is not surely "Springfield, Oregon"."""
_OTHER_WORD = 0.85
"""Weight where a name lacks a word of the mention that others have, and is more than an edit away: Jim is not Van. Each
word counts that no word of the name is an edit from: Gaozong of Tang is still less Taizong of Song …"""
_OTHER_NUMBER = 0.65
"""… and where that is a number: the 16th Academy Awards are not the 36th."""
_ALIKE = 0.75
"""Agreement letter by letter that counts for a name which is not within some edits of the mention."""
_SHARED = 0.89
"""Weight of sharing words, against agreeing letter by letter."""
_NUMBER = re.compile(r"\d+(?:st|nd|rd|th)?")
"""A misspelt one ("20p07") is no number."""
_SAME = 0.9
"""Score from which a phrase is a relation's name."""
_BACK = 0.97
"""Weight of a relation that is asked for the way back: "director of" is the way from the director."""
_AUXILIARIES = frozenset("a an are did does has have is s the was were".split())
"""Before a relation's name they say nothing."""
_PREPOSITIONS = frozenset("at by for from in of on to".split())
"""A name that ends with one leads from head to tail."""
_MOST_WORDS = 12
"""Of a mention: longer ones are no names."""
_MOST_NAMES = 256
"""Compared by their letters; see `_nearest`."""
_MOST_COLLIDING = 20
"""Entities of equal score whose neighbourhoods are read, by degree."""
_MOST_NEIGHBOURS = 1000
"""Read in each direction, of all these neighbourhoods together."""


class _Scored(NamedTuple):
    score: float
    row: int
    name: str
    kind: MatchKind


@reads
def match_entity(store: KgStore, mention: str, sub_query: str = "", k: int = 5) -> list[EntityMatch]:
    """Return the `k` entities that a mention may mean, best first; none when no name is similar."""
    words = name_words(mention)[:_MOST_WORDS]
    best = [one for one in _best_entities(store, mention, words) if not store.is_value(one.row)]
    if not best or k <= 0:
        return []
    best.sort(key=lambda one: -one.score)
    last = best[min(k, len(best)) - 1].score
    offered = [one for one in best if one.score >= last]
    rows = np.array([one.row for one in offered], np.int64)
    degrees = dict(zip(rows.tolist(), store.degrees(rows).tolist(), strict=True))
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
    """Return the `k` relations that a phrase may mean, best first; of equal score the one with the lower row first.

    "Directed by" asks from the head of a triple to its tail, "director of" the way back: see `RelationMatch.direction`.
    """
    words = name_words(phrase)[:_MOST_WORDS]
    while len(words) > 1 and words[0] in _AUXILIARIES:
        words = words[1:]
    if not words:
        return []
    best = _best_wordings(store, words)
    if words[-1] == "of" and len(words) > 1 and all(one.score < _SAME for one in best.values()):
        for row, one in _best_wordings(store, words[:-1]).items():
            if one.score >= _SAME and one.direction is None:
                best[row] = _Worded(round(_BACK * one.score, 6), one.name, "into")
    ranked = sorted(best, key=lambda row: (-best[row].score, row))
    top = [best[row].score for row in ranked[:2]] + [0.0, 0.0]
    return [
        RelationMatch(
            relation_id=store.relation_id(row),
            label=store.relation_names[row][0],
            name=best[row].name,
            score=best[row].score,
            margin=round(best[row].score - top[0 if place else 1], 6),
            direction=best[row].direction,
        )
        for place, row in enumerate(ranked[: max(k, 0)])
    ]


class _Worded(NamedTuple):
    score: float
    name: str
    direction: Direction | None


def _best_wordings(store: KgStore, words: Sequence[str]) -> dict[int, _Worded]:
    """Each relation with the one of its wordings that agrees best with these words."""
    names = store.relation_wording_words
    in_order = agreement(" ".join(sorted(words)), names.in_order)
    spelt = np.maximum(agreement(" ".join(words), names.straight), in_order)
    sharing = (place for word in words for place in store.relation_wordings_with.get(word, ()))
    places = sorted({*np.flatnonzero(spelt >= MIN_SCORE).tolist(), *sharing})
    agreements = similarities(words, frozenset(words), names.at(places))
    best: dict[int, _Worded] = {}
    for place, agreed in zip(places, agreements, strict=True):
        row, name, is_reversed = store.relation_wordings[place]
        score = round(agreed - (_ALIAS if name is not store.relation_names[row][0] else 0.0), 6)
        if score >= MIN_SCORE and (row not in best or score > best[row].score):
            leads_on = agreed == 1 and words[-1] in _PREPOSITIONS
            best[row] = _Worded(score, name, "into" if is_reversed else "out" if leads_on else None)
    return best


def similarities(words: Sequence[str], distinct: frozenset[str], names: Spellings) -> list[float]:
    """Return how well names agree with a mention, 0 to 1, all by their words (see `name_words`); 1 only for the same
    words.

    The best of three: letter by letter (edits, a swap counted as one, over the longer length), the same with the words
    sorted, and the share of distinct words in common times 0.89. All but sameness is capped at 0.98. `words`: those of
    the mention. `distinct`: which of these are compared as a set, chosen by the function that `names` were made with
    (`Spellings.of`).
    """
    asked = " ".join(words)
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


def _best_entities(store: KgStore, mention: str, words: Sequence[str]) -> list[_Scored]:
    """The entities whose names agree with a mention, as it stands or without its own bracket or comma.

    Before a comma stands the plainest part of a name, so that there only the same words are the same: Albert, Margrave
    of Meissen is not Alberta.
    """
    core = unqualified(mention)
    cuts = (unbracketed,) if core else (unbracketed, unqualified)
    best = _best_names(store, words, cuts) if words else {}
    if core and all(one.score < _INEXACT for one in best.values()):
        weight = _weight(mention, core, _CUT_AT_COMMA)
        for row, one in _best_names(store, name_words(core)[:_MOST_WORDS], ()).items():
            is_near = one.score >= 1 - _ALIAS or weight > _CUT_AT_COMMA
            score = round(weight * one.score, 6)
            if is_near and score >= MIN_SCORE and (row not in best or score > best[row].score):
                best[row] = one._replace(score=score, kind="unqualified")
    return list(best.values())


def _best_names(store: KgStore, words: Sequence[str], cuts: Sequence[Callable[[str], str]]) -> dict[int, _Scored]:
    """Each entity with the one of its names that agrees best with these words.

    Names are read as they stand and cut, too.
    """
    asked = _Asked.of(store, words)
    owners = store.owners(asked.names)
    texts = store.name_texts(asked.names)
    places, read, weights = list(range(len(texts))), [name_words(text) for text in texts], [1.0] * len(texts)
    for place, text in enumerate(texts):
        for core in filter(None, dict.fromkeys(cut(text) for cut in cuts)):
            places.append(place)
            read.append(name_words(core))
            weights.append(_weight(text, core, _CONTINUED))
    rows, are_labels = owners.tolist(), store.are_labels(asked.names, owners).tolist()
    best: dict[int, _Scored] = {}
    for place, others, weight, agreed in zip(places, read, weights, asked.agreements(read), strict=True):
        row, is_label = rows[place], are_labels[place]
        score = round(weight * agreed - (0.0 if is_label else _ALIAS), 6)
        if score >= MIN_SCORE and (row not in best or score > best[row].score):
            kind = _kind(agreed, is_label, sorted(words) == sorted(others))
            best[row] = _Scored(score, row, texts[place], "unqualified" if weight < 1 and agreed == 1 else kind)
    return best


class _Asked(NamedTuple):
    """A mention's words and the names they are held against."""

    words: Sequence[str]
    known: frozenset[str]
    """Those that other names have as they are, and numbers."""
    corrected: frozenset[str]
    """Each as it is known, or the known word that is one edit from it."""
    names: np.ndarray
    is_near: bool
    """The names are within some edits of the words; else they only share some."""

    @classmethod
    def of(cls, store: KgStore, words: Sequence[str]) -> _Asked:
        """Look the words up, and names by them."""
        variants = store.names.variants(words)
        saying = distinct_words(words)
        named = {word for word, each in zip(words, variants, strict=True) if each.exact is not None and len(word) > 1}
        known = frozenset(word for word in saying if word in named or _is_number(word))
        tiers = store.names.candidates(words, variants)
        if any(map(len, tiers)):
            return cls(words, known, saying, _nearest(store, tiers), True)
        meant = [
            store.names.vocabulary.text(int(near[0])) if each.exact is None and len(near := each.at(1, 1)) else word
            for word, each in zip(words, variants, strict=True)
        ]
        return cls(words, known, distinct_words(meant), _nearest(store, [store.names.sharing(variants)]), False)

    def agreements(self, names: Sequence[Sequence[str]]) -> list[float]:
        """How well each of some names agrees, by its words.

        Letter by letter only where it is near, or more than alike: Angela Kinsey is two thirds of Angela Lansbury.
        """
        found = similarities(self.words, self.corrected, Spellings.of(names, distinct_words))
        if not self.is_near:
            shared = [_SHARED * _dice(self.corrected, distinct_words(name)) for name in names]
            found = [spelt if spelt >= _ALIKE else share for spelt, share in zip(found, shared, strict=True)]
        return [agreed * self._share(name, agreed) for name, agreed in zip(names, found, strict=True)]

    def _share(self, name: Sequence[str], agreed: float) -> float:
        """What agreement with a name is worth that lacks words of the mention which other names have, or its number."""
        lacking = self.known.difference(name)
        if not lacking:
            return 1.0
        if any(map(_is_number, lacking)):
            return _OTHER_NUMBER
        is_one_edit = (1 - agreed) * max(len(" ".join(self.words)), len(" ".join(name))) < 1.5
        if is_one_edit:
            return 1.0
        if len(lacking) == 1 or agreed * _OTHER_WORD < MIN_SCORE:
            return _OTHER_WORD
        return _OTHER_WORD ** max(1, sum(int(edits(word, name, 2).min()) > 1 for word in lacking))


def _is_number(word: str) -> bool:
    return _NUMBER.fullmatch(word) is not None


def _weight(name: str, core: str, of_comma: float) -> float:
    """What agreement with a name's part counts: a bracket is never part of the name itself."""
    return of_comma if name[len(core) :].lstrip().startswith(",") else _BRACKETED


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
