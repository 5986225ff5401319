"""Copies in part: estimates against the exact share, and bundles that hold no two of them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.bundling import bundle_documents
from trailforge.generators.document_bundles.bundling.config import BundleConfig, Leftover
from trailforge.generators.document_bundles.bundling.copies import Copies, copied_share, sketch

RELEASE = " ".join(f"said{number}" for number in range(200))
INTRODUCTIONS = [" ".join(f"{office}{number}" for number in range(120)) for office in ("north", "south")]


def exact(first: str, second: str) -> float:
    sets = [{tuple(words[at : at + 3]) for at in range(len(words) - 2)} for words in (first.split(), second.split())]
    return len(sets[0] & sets[1]) / min(map(len, sets))


def test_a_joint_release_with_each_offices_own_words_is_a_copy_in_part() -> None:
    """Fewer than half of the shingles of both are shared, which is no near copy of the whole (Jaccard 0.45)."""
    first, second = (f"{own} {RELEASE}" for own in INTRODUCTIONS)
    assert copied_share(sketch(first), sketch(second)) == pytest.approx(exact(first, second), abs=0.08)
    assert exact(first, second) > 0.5


@pytest.mark.parametrize("length", [60, 400, 3000])
@pytest.mark.parametrize("share", [0.0, 0.25, 0.75, 1.0])
def test_estimates_are_near_the_exact_share(length: int, share: float) -> None:
    """A text of 60 words that has so much from one of any length; three standard errors at most."""
    rng = random.Random(length)
    long = [f"w{rng.randrange(10**6)}" for _ in range(length)]
    short = long[: int(60 * share)] + [f"o{number}" for number in range(60 - int(60 * share))]
    found = copied_share(sketch(" ".join(long)), sketch(" ".join(short)))
    samples = min(58, 256 * 58 / length)
    expected = exact(" ".join(long), " ".join(short))
    assert abs(found - expected) <= 3 * (expected * (1 - expected) / samples) ** 0.5 + 0.02


@given(st.lists(st.sampled_from("abcdefgh"), max_size=400), st.lists(st.sampled_from("abcdefgh"), max_size=400))
def test_the_share_is_the_same_in_any_order_and_whole_for_the_same_text(one: list[str], other: list[str]) -> None:
    first, second = sketch(" ".join(one)), sketch(" ".join(other))
    assert copied_share(first, second) == copied_share(second, first)
    assert 0 <= copied_share(first, second) <= 1
    assert copied_share(first, first) == bool(one)


def test_copies_are_in_no_bundle_together_and_the_longer_one_goes_with_a_third() -> None:
    texts = [f"{own} {RELEASE}" for own in INTRODUCTIONS] + [" ".join(f"other{number}" for number in range(200))]
    vectors = np.array([[1, 0], [1, 0.01], [1, 0.3]], np.float32)
    sketches = np.stack([sketch(text) for text in texts])
    config = BundleConfig(method="greedy", min_cosine=0.5)
    together = bundle_documents(vectors, list("abc"), config, 0)
    assert together.bundles == ((0, 1, 2),)
    apart = bundle_documents(vectors, list("abc"), config, 0, sketches=sketches)
    assert len(apart.bundles) == 1 and len(apart.bundles[0]) == 2 and 2 in apart.bundles[0]
    two = bundle_documents(vectors[:2], list("ab"), config, 0, sketches=sketches[:2])
    assert two.leftovers == (Leftover(0, "copy"), Leftover(1, "copy"))


def test_nothing_is_a_copy_where_no_text_is_known() -> None:
    assert Copies(np.zeros((3, 0), np.uint32)).first_pair([0, 1, 2]) is None
    assert Copies(np.stack([sketch("")] * 2)).first_pair([0, 1]) is None
