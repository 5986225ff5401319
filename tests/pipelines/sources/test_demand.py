"""Quotas: what questions tell of themselves, the file, and which questions are taken."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.pipelines.sources.demand import (
    Demand,
    Quota,
    Traits,
    pick,
    read_demand,
    relation_of,
    traits_of,
    write_demand,
)
from trailforge.schemas import Hop, InvalidInput, Question


def question(*hops: str, num_hops: int | None = None) -> Question:
    told = tuple(Hop(question=each, answer="A") for each in hops)
    return Question(id="q", question="Who?", answer="A", decomposition=told, num_hops=num_hops)


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("Who directed Metropolis?", "who directed …"),
        ("Who directed #1?", "who directed …"),
        ("In which city was Fritz Lang born?", "in which city was … born"),
        ("In which city was the director of Metropolis born?", "in which city was the director of … born"),
        ("Metropolis >> director", "… >> director"),
        ("#1 >> place of birth", "… >> place of birth"),
        ('Who wrote "the long day"?', "who wrote …"),
        ("Who won it in 1931?", "who won it in …"),
    ],
)
def test_a_relation_is_a_sub_question_without_its_names(text: str, relation: str) -> None:
    assert relation_of(text) == relation


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (question("Who directed Metropolis?", "Where was #1 born?"), (2, "chain", "where was … born")),
        (question("Who made A?", "Who made B?", "Who met #1 and #2?"), (3, "intersection", "who met … and")),
        (question("When did A open?", "When did B open?", "Which?", num_hops=2), (2, "comparison", "when did … open")),
        (question("Who made A and met B?", num_hops=2), (2, "intersection", "who made … and met")),
        (question(), (None, "", "")),
        (question(num_hops=3), (3, "", "")),
    ],
)  # fmt: skip
def test_what_a_question_tells_of_itself(asked: Question, expected: tuple[int | None, str, str]) -> None:
    found = traits_of(asked)
    assert (found.hops, found.shape) == expected[:2] and found.relation.startswith(expected[2])


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    quotas = (
        Quota(share=0.5, hops=2, shape="chain", asked=40, pass_rate=0.25),
        Quota(share=0.3, relation="who directed …", failure="miss_at_hop_1", backend="bm25"),
        Quota(share=0.2, look_alike=False),
    )
    demand = Demand(quotas=quotas, measured="react/bm25/m abc")
    write_demand(tmp_path / "d.yaml", demand)
    assert read_demand(tmp_path / "d.yaml") == demand and read_demand(None).hash == ""
    assert demand.over("dense").quotas == (quotas[0], quotas[2]) and demand.over("bm25") == demand


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "is no YAML"),
        ("quotas: []", "has no list `quotas`"),
        ("- 1", "has no list `quotas`"),
        ("quotas: [{hops: 2}]", "row 1"),
        ("quotas: [{share: 1}, {share: 0}]", "row 2.*share.*above 0"),
        ("quotas: [{share: 1, shape: star}]", "shape.*none of chain"),
        ("quotas: [{share: 1, hops: 0}]", "hops.*at least 1"),
        ("quotas: [{share: 1, hop: 2}]", "hop"),
        ("quotas: [3]", "row 1"),
    ],
)
def test_a_bad_file_is_named_with_the_row_and_the_field(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=rf"(?s)bad\.yaml.*{problem}|{problem}.*bad\.yaml"):
        read_demand(path)


def test_the_closest_quota_goes_first_and_what_it_lacks_goes_to_nobody() -> None:
    demand = Demand(quotas=(Quota(share=0.5), Quota(share=0.3, hops=3), Quota(share=0.2, hops=3, relation="r")))
    asked = [Traits(hops=3, relation="r"), *[Traits(hops=2)] * 9, *[Traits(hops=3)] * 2]
    assert pick(asked, demand, 10) == [0, 1, 2, 3, 4, 5, 10, 11]


def test_without_a_number_there_are_as_many_as_leave_no_quota_short() -> None:
    demand = Demand(quotas=(Quota(share=0.5, hops=3), Quota(share=0.5, hops=2), Quota(share=1.0, hops=9)))
    asked = [*[Traits(hops=2)] * 20, *[Traits(hops=3)] * 4]
    taken = pick(asked, demand, None)
    assert sum(asked[place].hops == 3 for place in taken) == sum(asked[place].hops == 2 for place in taken) == 4


@given(st.lists(st.floats(0.01, 5), min_size=1, max_size=6), st.integers(0, 200))
def test_counts_are_whole_and_add_up(shares: list[float], total: int) -> None:
    demand = Demand(quotas=tuple(Quota(share=share) for share in shares))
    counts = demand.counts(total)
    exact = [total * share / sum(shares) for share in shares]
    assert sum(counts) == total and all(abs(n - e) < 1 + 1e-6 for n, e in zip(counts, exact, strict=True))
