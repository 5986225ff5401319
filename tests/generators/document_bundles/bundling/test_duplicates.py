"""Copies are found, others are not, and neither order nor grouping decides who stays."""

from __future__ import annotations

import csv
import gzip
import json
import random
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.bundling import estimated_jaccard, exact_duplicates, near_duplicates
from trailforge.generators.document_bundles.bundling import duplicates
from trailforge.generators.document_bundles.bundling.duplicates import (
    SIGNATURE,
    DuplicateConfig,
    Order,
    exact_key,
    find_near_copies,
    order_of,
    shingle_hashes,
    signature,
)
from trailforge.schemas import InvalidInput

CONFIG = DuplicateConfig()
WORDS = [f"{a}{b}{c}" for a in "bdfgklm" for b in ("an", "el", "ir", "os", "ut") for c in ("a", "en", "o", "is")]


def prose(seed: int, words: int = 300) -> str:
    """Words drawn at random."""
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def changed(text: str, share: float, seed: int = 0) -> str:
    """The text with a share of its words replaced."""
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) if rng.random() < share else word for word in text.split())


def signed(texts: Mapping[Order, str]) -> dict[Order, np.ndarray]:
    return {order: signature(text) for order, text in texts.items()}


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
    assert find_near_copies(signed({("1", "a"): "", ("1", "b"): "..."}), CONFIG) == {}
    assert find_near_copies({}, CONFIG) == {}


def test_bands_fill_the_signature() -> None:
    with pytest.raises(InvalidInput, match="5 does not divide 128"):
        DuplicateConfig(rows=5)


def test_near_duplicates() -> None:
    """Of the planted copies all those with 5 % changed words, none with 40 %, and no stranger."""
    documents = {("2025-01-02", f"original{n}"): prose(n) for n in range(40)}
    documents |= {("2025-01-03", f"copy{n}"): changed(prose(n), 0.05, n) for n in range(20)}
    documents |= {("2025-01-01", f"loose{n}"): changed(prose(n), 0.4, n) for n in range(20, 40)}
    found = find_near_copies(signed(documents), CONFIG)
    assert found == {f"copy{n}": f"original{n}" for n in range(20)}


def test_who_stays() -> None:
    """The earliest, of several the smallest id; a document without a date goes before one with."""
    a, b, c = order_of(None, "a"), order_of("2025-02-01", "b"), order_of("2025-01-01", "c")
    one, other = signature(prose(1)), signature(prose(2))
    between = np.concatenate([one[: SIGNATURE // 2], other[SIGNATURE // 2 :]])
    assert find_near_copies({a: one, b: between, c: other}, CONFIG) == {"a": "c", "b": "c"}
    assert find_near_copies({a: one, c: other}, CONFIG) == {}
    assert exact_duplicates({a: b"1", b: b"1", c: b"2"}) == {"a": "b"}


@settings(max_examples=25)
@given(st.randoms(use_true_random=False))
def test_near_duplicates_do_not_depend_on_order(rng: random.Random) -> None:
    """Documents in any order give the same twins."""
    texts = {("2025", f"{n}.{copy}"): changed(prose(n, 60), 0.03 * copy, copy) for n in range(4) for copy in range(3)}
    shuffled = rng.sample(sorted(texts), len(texts))
    first = find_near_copies(signed(texts), CONFIG)
    assert first == find_near_copies(signed({key: texts[key] for key in shuffled}), CONFIG)


def test_a_large_group_stays_one_component() -> None:
    """Though each of its documents is compared with the next 50 alone."""
    values = signature(prose(1))
    group = {("2025", f"{n:04d}"): values for n in range(1000)}
    assert find_near_copies(group, CONFIG) == {name: "0000" for _, name in [*group][1:]}


@given(
    rng=st.randoms(use_true_random=False),
    documents=st.integers(1, 70),
    values=st.integers(1, 6),
    config=st.builds(
        DuplicateConfig, rows=st.sampled_from([1, 2, 4, 8, 128]), threshold=st.sampled_from([0.0, 0.3, 0.5, 0.51, 1.0])
    ),
    block=st.sampled_from([13, 1024]),
)
def test_it_finds_what_every_pair_by_itself_gives(
    rng: random.Random, documents: int, values: int, config: DuplicateConfig, block: int
) -> None:
    """Of signatures that share any number of components, in groups larger than what a document is compared with."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    frame = numbers.integers(1, 2**63, (values, SIGNATURE), dtype=np.uint64)
    own = numbers.integers(1, 2**63, (documents, SIGNATURE), dtype=np.uint64)
    own = (own << np.uint64(8)) | (frame[0] & np.uint64(255))  # as the last byte says, all are the same
    shared = numbers.random((documents, SIGNATURE)) < numbers.random((documents, 1))
    signatures = np.where(shared, frame[numbers.integers(0, values, documents)], own)
    orders = [order_of(rng.choice([None, "2025-01-01"]), f"{n:x}") for n in range(documents)]
    given_signatures = dict(zip(orders, signatures, strict=True))
    with mock.patch.object(duplicates, "_BLOCK", block):
        assert find_near_copies(given_signatures, config) == near_duplicates(given_signatures, config)


@given(rng=st.randoms(use_true_random=False), every=st.integers(2, 12), documents=st.integers(2, 80))
def test_of_texts_from_a_template_it_finds_what_every_pair_by_itself_gives(
    rng: random.Random, every: int, documents: int
) -> None:
    """A frame in which every so many words are a document's own."""
    frame = rng.choices(WORDS, k=90)
    texts = {
        ("2025", f"{n}"): " ".join(
            rng.choice(WORDS) if place % every == 0 else word for place, word in enumerate(frame)
        )
        for n in range(documents)
    }
    assert find_near_copies(signed(texts), CONFIG) == near_duplicates(signed(texts), CONFIG)


def test_of_real_releases_it_finds_what_every_pair_by_itself_gives_and_the_known_joint_ones(
    data_dir: Path,
) -> None:
    folder = data_dir / "congress_press"
    with gzip.open(folder / "articles.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    signatures = signed({order_of(row["published"], row["id"]): row["text"] for row in rows})
    found = find_near_copies(signatures, CONFIG)
    assert found == near_duplicates(signatures, CONFIG)
    with (folder / "near_duplicates.tsv").open(encoding="utf-8") as lines:
        known = [(row["id_a"], row["id_b"]) for row in csv.DictReader(lines, delimiter="\t")]
    together = [found.get(a, a) == found.get(b, b) for a, b in known]
    assert len(known) == 97 and sum(together) >= 0.95 * len(known)


@pytest.mark.parametrize("every", [3, 5, 8])
def test_what_documents_share_takes_no_memory(every: int) -> None:
    """Beside as many that share nothing: below the threshold, about there and above it."""
    frame = prose(0, 100).split()
    templated = {
        ("2025", f"{n}"): " ".join(
            f"own{n}x{place}" if place % every == 0 else word for place, word in enumerate(frame)
        )
        for n in range(1500)
    }
    strangers = {order: prose(number, 100) for number, order in enumerate(templated)}
    assert peak_memory(templated) < 1.5 * peak_memory(strangers)


def peak_memory(texts: Mapping[Order, str]) -> int:
    """Bytes that the search takes beside the signatures that it is given."""
    signatures = signed(texts)
    tracemalloc.start()
    find_near_copies(signatures, CONFIG)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_it_says_how_far_it_is() -> None:
    shares = list[float]()
    find_near_copies(signed({("2025", f"{n}"): prose(n) for n in range(3)}), CONFIG, shares.append)
    assert shares == [(number + 1) / 32 for number in range(32)]
