"""Copies are found, others are not, and neither order nor grouping decides who stays."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.bundling import exact_duplicates, near_duplicates
from trailforge.generators.document_bundles.bundling.duplicates import (
    DuplicateConfig,
    band_keys,
    candidate_pairs,
    estimated_jaccard,
    exact_key,
    keep_one,
    order_of,
    shingle_hashes,
    signature,
)
from trailforge.schemas import InvalidInput

CONFIG = DuplicateConfig()
WORDS = [f"{a}{b}{c}" for a in "bdfgklm" for b in ("an", "el", "ir", "os", "ut") for c in ("a", "en", "o", "is")]
NODES = st.sampled_from([order_of(("2025-01-01", "2025-02-01", None)[n % 3], f"{n:x}") for n in range(12)])


def prose(seed: int, words: int = 300) -> str:
    """Words drawn at random."""
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def changed(text: str, share: float, seed: int = 0) -> str:
    """The text with a share of its words replaced."""
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) if rng.random() < share else word for word in text.split())


def test_exact_key() -> None:
    """Case, punctuation and spacing do not count; words do."""
    assert exact_key("A title", "Some text.") == exact_key("a TITLE:", " some\ntext")
    assert exact_key("A title", "Some text") != exact_key("A title", "Some other text")
    assert len(exact_key("", "\ud800")) == 16


def test_shingles() -> None:
    """One for every three words in a row; order and place count."""
    assert [len(shingle_hashes(text)) for text in ("", "!", "a", "a b", "a b c", "a b c d")] == [0, 0, 1, 1, 1, 2]
    different = ["a b c", "c b a", "a c b", "b a c", "a b d", "a b", "ab c"]
    assert len({shingle_hashes(text).tolist()[0] for text in different}) == len(different)


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.2])
def test_signatures_estimate_jaccard(share: float) -> None:
    """Without bias, and within three standard errors in nearly all cases."""
    pairs = [(prose(n), changed(prose(n), share, n)) for n in range(60)]
    shingles = [[set(shingle_hashes(text).tolist()) for text in pair] for pair in pairs]
    exact = [len(a & b) / len(a | b) for a, b in shingles]
    errors = [estimated_jaccard(signature(a), signature(b)) - e for (a, b), e in zip(pairs, exact, strict=True)]
    assert abs(float(np.mean(errors))) < 0.02
    assert max(map(abs, errors)) < 0.15


def test_short_and_empty_texts() -> None:
    """Few shingles still make a signature; a text without words is nobody's twin."""
    assert estimated_jaccard(signature("One two"), signature("one, TWO!")) == 1.0
    assert estimated_jaccard(signature("one two three four"), signature("five six seven eight")) == 0.0
    assert band_keys(signature("..."), CONFIG) == []
    assert near_duplicates({("1", "a"): signature(""), ("1", "b"): signature("")}, CONFIG) == {}


def test_bands() -> None:
    """32 of 4, each with its number, so equal values in different bands never meet."""
    keys = band_keys(signature(prose(1)), CONFIG)
    assert (len(keys), len(set(keys)), {len(key) for key in keys}) == (32, 32, {2 + 4 * 8})
    with pytest.raises(InvalidInput, match="5 does not divide 128"):
        DuplicateConfig(rows=5)


def test_near_duplicates() -> None:
    """Of the planted copies all those with 5 % changed words, none with 40 %, and no stranger."""
    documents = {("2025-01-02", f"original{n}"): prose(n) for n in range(40)}
    documents |= {("2025-01-03", f"copy{n}"): changed(prose(n), 0.05, n) for n in range(20)}
    documents |= {("2025-01-01", f"loose{n}"): changed(prose(n), 0.4, n) for n in range(20, 40)}
    found = near_duplicates({key: signature(text) for key, text in documents.items()}, CONFIG)
    assert found == {f"copy{n}": f"original{n}" for n in range(20)}


def test_who_stays() -> None:
    """The earliest, of several the smallest id; a document without a date goes before one with."""
    a, b, c = order_of(None, "a"), order_of("2025-02-01", "b"), order_of("2025-01-01", "c")
    assert keep_one([(a, b), (b, c)]) == {"a": "c", "b": "c"}
    assert keep_one([]) == {}
    assert exact_duplicates({a: b"1", b: b"1", c: b"2"}) == {"a": "b"}


@given(st.lists(st.tuples(NODES, NODES), max_size=12).flatmap(lambda e: st.tuples(st.just(e), st.permutations(e))))
def test_components_do_not_depend_on_order(edges: tuple[list, list]) -> None:
    """Nor on the direction of edges; one of each component is left, and it is the smallest."""
    given_order, other = edges
    kept = keep_one(given_order)
    assert kept == keep_one([(b, a) for a, b in other])
    assert not kept.keys() & set(kept.values())
    dates = {name: date for edge in given_order for date, name in edge}
    assert all((dates[twin], twin) < (dates[dropped], dropped) for dropped, twin in kept.items())
    assert all(kept.get(a, a) == kept.get(b, b) for (_, a), (_, b) in given_order)


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_near_duplicates_do_not_depend_on_order(rng: random.Random) -> None:
    """Documents in any order give the same twins."""
    texts = {("2025", f"{n}.{copy}"): changed(prose(n, 60), 0.03 * copy, copy) for n in range(4) for copy in range(3)}
    shuffled = rng.sample(sorted(texts), len(texts))
    first = near_duplicates({key: signature(texts[key]) for key in texts}, CONFIG)
    assert first == near_duplicates({key: signature(texts[key]) for key in shuffled}, CONFIG)


def test_a_large_group_stays_one_component() -> None:
    """Its pairs are linear in its size, and whatever its order they join all of its members."""
    group = [("2025", f"{n:04d}") for n in range(1000)]
    pairs = list(candidate_pairs(reversed(group)))
    assert len(pairs) < 51 * len(group)
    assert set(pairwise(group)) <= set(pairs)
    assert keep_one(pairs) == {name: "0000" for _, name in group[1:]}
