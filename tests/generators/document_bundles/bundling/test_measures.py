"""Measures against what can be worked out by hand, and what can be asked about a bundle, told without a model."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.generators.document_bundles.bundling.config import BundleConfig, Bundling, Leftover
from trailforge.generators.document_bundles.bundling.measures import (
    AllDocuments,
    DocumentFacts,
    PairFacts,
    PairWorth,
    cohesion,
    part_by_matter,
    size_counts,
    theme_words,
    word_frequencies,
    worth_of_pair,
)
from trailforge.generators.document_bundles.bundling.units import without_source

VECTORS = np.array([[1, 0], [0.6, 0.8], [0, 1], [-1, 0], [1, 0]], np.float32)


def test_cohesion() -> None:
    """Mean over the pairs: 0.6, 0.8 and 0, and -1 of the other two."""
    assert cohesion(VECTORS[:3]) == pytest.approx(1.4 / 3)
    assert cohesion(VECTORS[3:]) == pytest.approx(-1)


def test_bundles_are_counted_by_size() -> None:
    assert size_counts(Bundling(bundles=((0, 1, 2), (3, 4)), leftovers=())) == {2: 1, 3: 1}


def test_theme_words() -> None:
    """What all share before what two share; nothing common, short, numeric, or of one document only."""
    bundle = [
        "The Volcano erupted in 2025 and flights were cancelled. Volcano ash in the air.",
        "Flights resume after volcano ash clears; the report is out in 2025.",
        "A volcano on the island: what the report says of tourism in 2025.",
    ]
    others = ["The report on the budget is out.", "A report on schools.", "The flights of birds."] * 5
    frequencies = word_frequencies(bundle + others)
    assert frequencies["volcano"] == 3
    words = theme_words(bundle, frequencies, documents=len(bundle + others))
    assert words[0] == "volcano"
    assert set(words) == {"volcano", "ash", "flights", "report"} | (set(words) & {"out"})
    assert words.index("ash") < words.index("report")
    assert theme_words(bundle, frequencies, 18, count=1) == ["volcano"]
    assert theme_words(["", "one two"], {}, 2) == []


def test_what_an_archive_has_in_common_is_taken_away() -> None:
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(200, 8)) * 0.2 + np.eye(8)[0]).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    centred = without_source(vectors, np.array(["arxiv"] * 200))
    assert (vectors @ vectors.T).mean() > 0.5
    assert abs((centred @ centred.T).mean()) < 0.1


NAMES = {"norlin", "turku", "baltica", "gotland"}
FERRY = DocumentFacts.of("Ferries", "Norlin has ordered 3 ships. Norlin builds them in Turku. The weather was fine.")
FIRE = DocumentFacts.of("Fire", "Norlin waits. Norlin lost 40 days to a fire. Baltica is spared.")


TEXTS = word_frequencies(["Norlin waits.", "Norlin sails.", "Ferries and fires.", "A yard in Turku.", "The weather."])
WEEK = AllDocuments(name_words=NAMES, few=set(), documents=5, frequencies=TEXTS)


def worth(
    first: DocumentFacts,
    second: DocumentFacts,
    *shared: str,
    few: tuple[str, ...] = (),
    cosine: float = 0.9,
    days: bool = False,
    singled: float = 0.0,
) -> PairWorth:
    known = PairFacts(shared, cosine, is_of_one_day=days, singled=singled)
    config = BundleConfig(few_weight=2.0, singled_weight=8.0)
    return worth_of_pair(first, second, known, replace(WEEK, few=set(few)), config)


def test_each_documents_own_figures_and_names_of_what_both_name_count() -> None:
    """Of Norlin the one tells of 3 ships and of Turku, the other of 40 days; Baltica is no word on Norlin."""
    assert FERRY.own(FIRE, [{"norlin"}], NAMES) == 2
    assert FIRE.own(FERRY, [{"norlin"}], NAMES) == 1
    assert worth(FERRY, FIRE, "norlin") == PairWorth(1.0, 1, 0.0)


def test_facts_about_what_few_name_count_more() -> None:
    assert worth(FERRY, FIRE, "norlin", few=("norlin",)) == PairWorth(3.0, 1, 0.0)
    assert worth(FERRY, FIRE, "norlin", few=("turku",)) == worth(FERRY, FIRE, "norlin")


def test_what_one_singles_out_of_several_of_the_other_counts_most_in_reports_of_one_event_too() -> None:
    assert worth(FERRY, FIRE, "norlin", singled=1.5) == PairWorth(1 + 8 * 1.5, 1, 0.0)
    again = replace(FIRE, title=FERRY.title)
    assert worth(FERRY, again, "norlin", singled=1.5) == PairWorth(8 * 1.5, 1, 1.0)


def test_two_reports_that_say_the_same_carry_nothing() -> None:
    again = DocumentFacts.of("Ships", "It is said that Norlin has ordered 3 ships. Norlin builds them in Turku.")
    assert worth(FERRY, again, "norlin") == PairWorth(0.0, 0, 1.0)


def test_reports_with_the_title_of_one_event_are_worth_less_the_rarer_the_words_that_they_share() -> None:
    """`Norlin` stands in two of five texts, `waits` in one: of ln(2.5) + ln(5) both share ln(2.5)."""
    report = replace(FERRY, title=frozenset({"norlin", "waits"}))
    other = replace(FIRE, title=frozenset({"norlin", "sails"}))
    share = math.log(2.5) / (math.log(2.5) + math.log(5))
    assert worth(report, other, "norlin") == PairWorth(round(1 - share, 6), 1, round(share, 6))
    assert worth(report, replace(FIRE, title=report.title), "norlin").worth == 0


def test_details_count_against_a_pair_from_half_of_them_on() -> None:
    """Of one's name and three figures the other has the name and one, two or all of them."""
    told = DocumentFacts.of("Ships", "Norlin has 11 ships. Norlin has 12 crews. Norlin has 13 ports.")
    shares = []
    for known in ("11", "11 and 12", "11, 12 and 13"):
        other = DocumentFacts.of("Yards", f"Norlin has {known}. Turku burns. Gotland waits. Baltica sails.")
        shares.append(worth(told, other).retold)
    norlin, figure = math.log(2.5), math.log(5)
    two = (norlin + 2 * figure) / (norlin + 3 * figure)
    assert shares == [0.0, pytest.approx(2 * two - 1, abs=1e-5), 1.0]


def test_where_nothing_is_named_by_both_nothing_is_asked() -> None:
    assert worth(FERRY, FIRE) == PairWorth(0.0, 0, 0.0)


ALIKE = np.ones((5, 1))


def parted(
    *retold: float, papers: str = "", origins: str = "abcd", least: float = 0.15, vectors: np.ndarray = ALIKE
) -> Bundling:
    """One bundle of four, and a document left over before; `retold` of the pairs 01, 02, 03, 12, 13, 23."""
    pairs = zip(combinations(range(4), 2), retold, strict=True)
    worths = {pair: PairWorth(1.0, 1, share) for pair, share in pairs}
    made = Bundling(bundles=((0, 1, 2, 3),), leftovers=(Leftover(4, "alone"),))
    config = BundleConfig(min_retold=least, min_cosine=0.5)
    return part_by_matter(made, worths, [str(row) in papers for row in range(5)], origins + "e", vectors, config)


def test_a_bundle_is_parted_where_nothing_shows_one_matter() -> None:
    assert parted(0.2, 0.0, 0.0, 0.2, 0.0, 0.2).bundles == ((0, 1, 2, 3),)
    assert parted(0.2, 0.0, 0.0, 0.0, 0.0, 0.2).bundles == ((0, 1), (2, 3))
    alone = parted(0.2, 0.0, 0.0, 0.15, 0.0, 0.1)
    assert alone.bundles == ((0, 1, 2),)
    assert alone.leftovers == (Leftover(3, "other_matter"), Leftover(4, "alone"))
    assert parted(*[0.0] * 6, least=0.0).bundles == ((0, 1, 2, 3),)


def test_papers_go_together_by_their_subject_and_a_part_of_one_origin_is_none() -> None:
    assert parted(*[0.0] * 6, papers="0123").bundles == ((0, 1, 2, 3),)
    assert parted(*[0.0] * 6, papers="12").bundles == ((1, 2),)
    assert parted(0.2, 0.0, 0.0, 0.0, 0.0, 0.2, origins="aabc").bundles == ((2, 3),)


def test_what_is_left_of_a_bundle_is_held_against_the_least_cosine_again() -> None:
    """0 and 2 are two directions: 0, 1 and 2 without 3, which was near all, have too little in common."""
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.7, 0.7], [1, 0]])
    chain = (0.2, 0.0, 0.0, 0.2, 0.0, 0.0)
    found = parted(*chain, vectors=vectors)
    assert found.bundles == ((0, 1),)
    assert found.leftovers == (Leftover(2, "alone"), Leftover(3, "other_matter"), Leftover(4, "alone"))
    whole = parted(0.2, 0.0, 0.0, 0.2, 0.0, 0.2, vectors=vectors)
    assert whole.bundles == ((0, 1, 2, 3),), "what nothing is parted off stays as it was made"
    torn = parted(0.2, 0.0, 0.0, 0.2, 0.0, 0.0, vectors=np.array([[1, 0], [0, 1], [1, 0], [1, 0], [1, 0]]))
    assert not torn.bundles, "without the least, which joined them, the others are of two matters"


def test_of_one_day_the_nearer_the_less_is_a_pair_worth() -> None:
    found = [worth(FERRY, FIRE, "norlin", cosine=cosine, days=True).retold for cosine in (0.4, 0.5, 0.75, 1.0)]
    assert found == [0.0, 0.0, 0.5, 1.0]
    assert worth(FERRY, FIRE, "norlin", cosine=0.75, days=False).retold == 0


@given(st.lists(st.sampled_from(["Norlin has 3 ships.", "Norlin is late.", "Turku burns 7 days."]), max_size=20))
def test_a_document_has_no_facts_of_its_own_beside_itself_and_never_more_than_eight(sentences: list[str]) -> None:
    text = DocumentFacts.of("", " ".join(sentences))
    assert text.own(text, [{"norlin"}], NAMES) == 0
    assert text.own(DocumentFacts.of("", "Norlin sails."), [{"norlin"}], NAMES) <= 8
