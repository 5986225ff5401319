"""The index of names against what is found by looking at every name: columns, folded forms, words, names."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.retrieval.kg.columns import (
    Texts,
    as_texts,
    bucket_bits,
    bucket_of,
    buckets,
    grouped,
    load,
    mix,
    mix_one,
    offsets,
    save,
    save_texts,
    stretches,
)
from trailforge.retrieval.kg.folding import distinct_words, fold, name_words, unbracketed, unqualified
from trailforge.retrieval.kg.names import NameIndex, save_names
from trailforge.retrieval.kg.vocabulary import Vocabulary, most_edits, save_vocabulary
from trailforge.schemas import RetrievalError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LATIN = st.text(st.characters(codec="latin-1"), max_size=20)
WORDS = st.lists(st.text("abcdé𝔸水", min_size=1, max_size=11), min_size=1, max_size=20, unique=True)
FEW = st.sampled_from(["ann", "anna", "anne", "bob", "bobby", "lake", "lakes", "hill", "of", "1968", "水"])
NAMES = st.lists(st.tuples(st.lists(FEW, min_size=1, max_size=4), st.integers(0, 3)), min_size=1, max_size=15)
"""Words of names, and how many stand before a bracket or comma."""


@contextmanager
def folder() -> Iterator[Path]:
    """One for each example."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@given(st.lists(st.integers(0, 6)), st.lists(st.integers(0, 6)))
def test_rows_are_grouped_in_order_and_read_by_group(keys: list[int], wanted: list[int]) -> None:
    starts, rows = grouped(np.array(keys, np.int64), 7)
    expected = [row for group in wanted for row, key in enumerate(keys) if key == group]
    assert rows[stretches(starts, np.array(wanted, np.int64), len(rows))].tolist() == expected


@given(st.lists(st.integers(1, 5), min_size=1), st.data())
def test_no_stretch_goes_beyond_the_rows(lengths: list[int], data: st.DataObject) -> None:
    starts = offsets(np.array(lengths))
    fewer = data.draw(st.integers(0, sum(lengths) - 1))
    with pytest.raises(IndexError, match=f"a stretch up to {sum(lengths)} of {fewer} rows"):
        stretches(starts, np.arange(len(lengths)), fewer)


@given(st.lists(TEXT), st.data())
def test_texts_come_back_as_they_were(texts: list[str], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(texts)))
    with folder() as at:
        save_texts(at, "texts", as_texts(texts).slice(first))
        column, texts = Texts.load(at, "texts"), texts[first:]
        assert [column[row] for row in range(len(column))] == texts == column.between(0, len(texts))
        rows = data.draw(st.lists(st.integers(0, len(texts) - 1))) if texts else []
        assert column.many(rows) == [texts[row] for row in rows]
        with pytest.raises(IndexError):
            column.between(0, len(texts) + 1)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_a_column_that_was_cut_or_changed_is_opened_as_numbers_or_refused(noise: bytes, at: int) -> None:
    with folder() as made:
        save(made, "column", np.arange(5))
        whole = (made / "column.npy").read_bytes()
        (made / "column.npy").write_bytes(whole[:at] + noise)
        try:
            column = load(made, "column")
        except RetrievalError as error:
            assert str(error).endswith("build the store again")
        else:
            assert column.ndim == 1 and column.dtype.kind in "iu"


@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1), st.integers(1, 3))
def test_a_key_is_in_its_bucket(keys: list[int], per_bucket: int) -> None:
    mixed, bits = mix(np.array(keys, np.uint64)), bucket_bits(len(keys), per_bucket)
    starts, rows = grouped(buckets(mixed, bits), 1 << bits)
    for row, key in enumerate(keys):
        assert row in rows[bucket_of(starts, mix_one(key), len(rows))]


@given(TEXT | LATIN)
def test_folded_names_stay_as_they_are(name: str) -> None:
    folded = fold(name)
    assert fold(folded) == folded == fold(f"  {name}\n")
    assert bool(name_words(name)) == bool(folded)
    assert distinct_words(name_words(name)) <= set(name_words(name))


@given(st.lists(st.sampled_from(["Ann", "Lake", "1968", "(", ")", "[", ", ", " ", "_", "-", "é"])).map("".join))
def test_what_tells_namesakes_apart_is_cut_off_the_end(name: str) -> None:
    plain, whole = unqualified(name), unbracketed(name)
    for core in filter(None, (plain, whole)):
        assert name.strip().startswith(core) and len(core) < len(name) and name_words(core)
    assert whole.startswith(plain) or not whole
    assert not unqualified(plain) or name.strip() != name


@given(WORDS, st.data())
def test_words_within_reach_are_found_by_distance_and_then_frequency(words: list[str], data: st.DataObject) -> None:
    """Also words that are asked for and no name has, of letters that share a class, and longer than what is kept."""
    from rapidfuzz.distance import OSA

    named = np.array(data.draw(st.lists(st.integers(1, 4), min_size=len(words), max_size=len(words))))
    asked = data.draw(st.sampled_from(words) | st.text("abcdé𝔸水", min_size=1, max_size=12))
    at = data.draw(st.integers(0, len(asked)))
    asked = asked[:at] + data.draw(st.sampled_from(["", "a", "水d"])) + asked[at + 1 :] or asked
    with folder() as made:
        save_vocabulary(made, as_texts(words))
        vocabulary = Vocabulary(made, offsets(named))
        assert [vocabulary.find(word) for word in words] == list(range(len(words)))
        assert vocabulary.find(asked) == (words.index(asked) if asked in words else None)
        found = vocabulary.variants(asked)
        distances = {row: OSA.distance(asked, word) for row, word in enumerate(words)}
        near = [row for row, distance in distances.items() if distance <= most_edits(len(asked))]
        near.sort(key=lambda row: (distances[row], -named[row], row))
        assert found.words.tolist() == near and found.distances.tolist() == [distances[row] for row in near]
        assert found.exact == vocabulary.find(asked)


@contextmanager
def index_of(names: Sequence[tuple[Sequence[str], int]]) -> Iterator[NameIndex]:
    """An index of names, each given by its words and how many of them stand before a bracket."""
    words = [word for name, _ in names for word in name]
    counts = np.array([len(name) for name, _ in names])
    cores = np.array([core if core < len(name) else 0 for name, core in names])
    with folder() as made:
        assert save_names(made, as_texts(words), counts, cores) == len(set(words))
        yield NameIndex(made)


@given(NAMES, st.lists(FEW, max_size=4), st.integers(0, 5))
def test_names_are_found_by_all_and_by_some_of_their_words(
    names: list[tuple[list[str], int]], words: list[str], most: int
) -> None:
    with index_of(names) as index:
        for mention in filter(None, (words, names[0][0])):
            whole = {row for row, (name, _) in enumerate(names) if Counter(name) == Counter(mention)}
            cut = {row for row, (name, core) in enumerate(names) if 0 < core < len(name)
                   and Counter(name[:core]) == Counter(mention)}  # fmt: skip
            assert set(index.exactly(mention)) == whole | cut
            if whole | cut:
                first, second, *_ = index.candidates(mention, index.variants(mention))
                assert (set(first), set(second)) == (whole, cut - whole)
            rare = [word for word in mention if sum(name.count(word) for name, _ in names) <= most]
            having = {row for row, (name, _) in enumerate(names) if set(rare) & set(name)}
            assert set(index.having(mention, most)) == having


@given(NAMES, st.data())
def test_a_name_is_among_those_of_a_mention_with_a_typo_or_another_space(
    names: list[tuple[list[str], int]], data: st.DataObject
) -> None:
    """A letter too much, in a word that stays a word of some length, or a space: unless other names are nearer."""
    row = data.draw(st.integers(0, len(names) - 1))
    words = list(names[row][0])
    place = data.draw(st.integers(0, len(words) - 1))
    word = words[place]
    at = data.draw(st.integers(0, len(word)))
    typo = [*words[:place], word[:at] + "x" + word[at:], *words[place + 1 :]]
    with index_of(names) as index:
        tiers = index.candidates(typo, index.variants(typo))
        assert row in np.concatenate(tiers)
        if 0 < at < len(word):
            apart = [*words[:place], word[:at], word[at:], *words[place + 1 :]]
            found = index.candidates(apart, index.variants(apart))
            nearer = any(len(tier) for tier in found[:3])
            assert nearer or row in np.concatenate(found)


@given(NAMES, st.lists(FEW, min_size=1, max_size=4, unique=True))
def test_names_that_share_most_words_come_first(names: list[tuple[list[str], int]], mention: list[str]) -> None:
    with index_of(names) as index:
        found = index.sharing(index.variants(mention)).tolist()
        known = {word for name, _ in names for word in name}
        if set(mention) <= known:  # else a word stands for its nearest variant
            shared = [len(set(names[row][0]) & set(mention)) for row in found]
            assert shared == sorted(shared, reverse=True) and set(found) == {
                row for row, (name, _) in enumerate(names) if set(name) & set(mention)
            }
