"""Bundles by names: who may be together, which names say so; variants of one name join once."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tests.support.bundling import bundle_documents
from trailforge.generators.document_bundles.bundling.config import BundleConfig, Leftover
from trailforge.generators.document_bundles.bundling.names import (
    few_names,
    joining_names,
    name_arrays,
    name_weights,
    shared_names,
)
from trailforge.retrieval.entities import CaseCounts, Name

CONFIG = BundleConfig(method="greedy", min_cosine=0.5, min_shared=2.0)
COUNTS = CaseCounts.of(())


def alike(count: int) -> np.ndarray:
    return np.tile(np.array([1.0, 0.0], np.float32), (count, 1))


def test_alike_documents_are_together_only_where_they_share_names() -> None:
    names = [{"ftx": 1.5}, {"ftx": 1.5}, {"arm": 1.5}, {"arm": 0.5}]
    bundling = bundle_documents(alike(4), list("abcd"), CONFIG, 0, names=names)
    assert bundling.bundles == ((0, 1),)
    assert bundling.leftovers == (Leftover(2, "no_shared_name"), Leftover(3, "no_shared_name"))


def test_names_join_nothing_that_is_not_alike() -> None:
    vectors = np.eye(2, dtype=np.float32)
    bundling = bundle_documents(vectors, ["a", "b"], CONFIG, 0, names=[{"ftx": 3.0}] * 2)
    assert bundling.leftovers == (Leftover(0, "alone"), Leftover(1, "alone"))


def test_a_document_shares_names_with_half_of_the_others() -> None:
    """A chain of four, each with a name for its neighbours alone, is no bundle of four."""
    chain = [{f"n{at}": 1.5, f"n{at + 1}": 1.5} for at in range(4)]
    bundling = bundle_documents(alike(4), list("abcd"), CONFIG, 0, names=chain)
    assert sum(map(len, bundling.bundles)) == 4
    assert all(len(rows) < 4 for rows in bundling.bundles)
    for rows in bundling.bundles:
        assert all(shared_names(chain[one], chain[two]) for one, two in pairwise(rows))


def test_what_most_documents_of_a_source_name_joins_none_of_them() -> None:
    """Of eight releases of one office all name its state and five who speaks; another office names both once."""

    def name(key: str) -> Name:
        return Name(key, key.title(), 2, is_in_title=False)

    office = [[name("ohio"), *([name("ann lee")] if number < 5 else []), name(f"mill {number}")] for number in range(8)]
    other = [[name("ohio"), name("ann lee"), name("mill 0")], [name("mill 7")]]
    sources = ["office"] * 8 + ["other"] * 2

    def joined(share: float, first: int = 0) -> list[set[str]]:
        config = replace(CONFIG, source_name_share=share, max_name_share=1.0)
        weights = name_weights([*office[first:], *other], config, COUNTS, sources[first:])
        return [set(weights[0]), set(weights[-2])]

    told = {"ohio", "ann lee", "mill 0"}
    assert joined(0.5) == [{"mill 0"}, told]
    assert joined(5 / 8) == [{"ann lee", "mill 0"}, told], "more than the share, and not as many"
    assert joined(1.0) == [told, told]
    assert "ohio" in joined(0.5, first=1)[0], "seven documents tell nothing"


def test_names_that_few_documents_have() -> None:
    names = [[Name("ohio", "Ohio", 1, is_in_title=False)]] * 11 + [[Name("ford", "Ford", 1, is_in_title=False)]] * 10
    assert few_names(names, CONFIG) == {"ford"}
    assert few_names(names, replace(CONFIG, few_share=0.6)) == {"ford", "ohio"}


def test_the_window_and_the_source_are_reasons_before_missing_names() -> None:
    days = ["2025-01-01", "2025-12-01"]
    late = BundleConfig(method="greedy", min_cosine=0.5, min_shared=2.0, window_days=92)
    apart = bundle_documents(alike(2), ["a", "b"], late, 0, days, names=[{"ftx": 1.5}] * 2)
    assert {left.reason for left in apart.leftovers} == {"other_time"}
    same = bundle_documents(alike(2), ["a", "a"], late, 0, names=[{"ftx": 1.5}] * 2)
    assert {left.reason for left in same.leftovers} == {"same_source"}


def test_bundles_by_names_are_the_same_in_parts_and_in_any_order() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(60, 8)).astype(np.float32)
    names = [{f"n{number}": 1.0 + number / 10 for number in rng.choice(9, 4, replace=False)} for _ in range(60)]
    sources = [f"s{number}" for number in rng.integers(5, size=60)]
    for config in (
        BundleConfig(method="greedy", min_cosine=0.2, min_shared=2.0),
        BundleConfig(part_size=12, min_cosine=0.2, min_shared=2.0, is_centred=True),
    ):
        first = bundle_documents(vectors, sources, config, 1, names=names)
        order = rng.permutation(60)
        moved = bundle_documents(
            vectors[order], [sources[row] for row in order], config, 1, names=[names[row] for row in order]
        )
        assert first.bundles
        assert {frozenset(order[row] for row in rows) for rows in moved.bundles} == set(map(frozenset, first.bundles))
        for rows in first.bundles:
            for row in rows:
                shared = [
                    sum(weight for _, weight in shared_names(names[row], names[o])) >= 2 for o in rows if o != row
                ]
                assert 2 * sum(shared) >= len(shared)


def test_a_list_of_names_joins_nothing() -> None:
    """Who signs a letter beside seven others counts where the text speaks of them elsewhere, too."""
    signs, speaks = Name("ann lee", "Ann Lee", 1, False, 1), Name("ann lee", "Ann Lee", 3, False, 1)
    weights = name_weights([[signs], [speaks], *([[]] * 8)], CONFIG, COUNTS)
    assert [set(each) for each in weights[:2]] == [set(), {"ann lee"}]


def test_what_a_title_names_counts_as_what_a_text_names() -> None:
    names = [[Name("gpt-4", "GPT-4", 2, is_in_title)] for is_in_title in (True, False)]
    weights = name_weights([*names, *([[]] * 8)], CONFIG, COUNTS)
    assert weights[0] == weights[1] != {}


def test_the_words_of_a_field_join_nothing() -> None:
    """Nobody says `CLIP agents`, and many say `GUI agents`, `LMMs` and `LLM-based`."""
    texts = [
        "They train GUI agents for GUI tasks. The GUI is large. We use CLIP and LMMs.",
        "Here LMMs see a GUI element, an LLM-based agent acts, and CLIP is frozen, as in CLIP.",
    ]
    counts = CaseCounts.of(texts)
    keys = ["gui", "lmm", "clip", "agent", "deepseek-r1"]
    names = [
        Name(key, text, 2, False)
        for key, text in zip(keys, ["GUI", "LMM", "CLIP", "Agent", "DeepSeek-R1"], strict=True)
    ]
    weights = name_weights([names, names, *([[]] * 8)], CONFIG, counts)
    assert set(weights[0]) == {"clip", "deepseek-r1"}


def test_weights_are_roots_of_rarity_and_less_in_passing() -> None:
    told, passing = Name("ftx", "FTX", 2, False), Name("ftx", "FTX", 1, False)
    weights = name_weights([[told], [passing], [Name("arm", "Arm", 1, False)], []], CONFIG, COUNTS)
    assert weights == [{"ftx": math.sqrt(math.log(2))}, {"ftx": math.sqrt(math.log(2)) / 2}, {}, {}]
    assert shared_names(*weights[:2]) == [("ftx", pytest.approx(math.log(2) / 2))]
    everywhere = [[Name("ai", "AI", 2, False)] for _ in range(11)]
    assert name_weights([*everywhere, []], CONFIG, COUNTS) == [{}] * 12


def test_arrays_hold_the_same_number_for_the_same_name() -> None:
    numbered, weights = name_arrays([{"b": 1.0, "a": 2.0}, {"b": 3.0}, {}])
    assert numbered.tolist() == [[0, 1], [1, -1], [-1, -1]]
    assert weights.tolist() == [[2.0, 1.0], [3.0, 0.0], [0.0, 0.0]]


def keys(*names: str, known: tuple[str, ...] = ()) -> list[str]:
    documents = [[Name(name, name.title(), 1, False) for name in names], [Name(name, name, 1, False) for name in known]]
    return [name.key for name in joining_names(documents)[0]]


@pytest.mark.parametrize(
    ("names", "joined"),
    [
        (("florida", "fl", "fla."), ["florida"]),
        (("attorney general pam bondi", "pam bondi"), ["pam bondi"]),
        (("general motors", "motors"), ["general motors", "motors"]),
        (("ambassador bridge",), ["ambassador bridge"]),
        (("former senate",), []),
        (("va", "miss", "ct", "penn"), ["va", "miss", "ct", "penn"]),
        (("secretary of state",), []),
        (("d-va", "r-tx-14", "i-vt", "d-n", "r-south carolina"), []),
        (("i-70", "d-3rd middlesex"), ["i-70", "d-3rd middlesex"]),
        (("pa", "wash", "mass."), ["pa", "wash", "mass."]),
        (("pa", "pennsylvania", "massachusetts", "mass.", "washington", "wash"), ["pennsylvania", "massachusetts"]),
        (("m.d.", "jr", "sr.", "ph.d", "inc"), []),
        (("h.r.", "dear colleague", "dear colleagues", "u.s.", "department of"), ["u.s."]),
        (("house", "senate", "republicans"), []),
        (("senator", "dear"), []),
        (("kaspersky", "tornadoes"), ["kaspersky", "tornadoes"]),
    ],
)
def test_variants(names: tuple[str, ...], joined: list[str]) -> None:
    assert keys(*names) == joined


def test_a_plural_is_its_singular_where_that_is_a_name() -> None:
    assert keys("iranians", known=("iranian",)) == ["iranian"]
    assert keys("texas") == ["texas"]
    assert keys("williams", "vikings", known=("william", "viking")) == ["williams", "vikings"]


def test_counts_of_variants_add_up() -> None:
    documents = [[Name("fl", "FL", 2, True, 1), Name("florida", "Florida", 3, False, 0)]]
    assert joining_names(documents) == [[Name("florida", "Florida", 5, True, 1)]]
