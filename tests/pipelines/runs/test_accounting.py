"""The books: inputs = accepted + rejected + failed, for every stage and however they are added up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.pipelines.runs.accounting import add_up, check_balance, stage
from trailforge.schemas import Count, CountMismatch, StageCount

REASONS = st.lists(st.sampled_from(["wrong_answer", "duplicate", "length"]), max_size=6)
NAMES = ("read", "search", "filter")


@st.composite
def balanced(draw: st.DrawFn) -> StageCount:
    accepted, rejected, failed = draw(st.integers(0, 9)), draw(REASONS), draw(REASONS)
    return stage(
        draw(st.sampled_from(NAMES)),
        inputs=accepted + len(rejected) + len(failed),
        accepted=accepted,
        rejected=rejected,
        failed=failed,
    )


BOOKS = st.lists(st.lists(balanced(), max_size=4).map(tuple), max_size=5)


@given(balanced())
def test_what_is_accounted_for_balances(line: StageCount) -> None:
    assert line.balance == 0
    check_balance([line])


@given(balanced(), st.integers(-5, 5).filter(bool))
def test_any_item_too_many_or_too_few_is_a_mismatch(line: StageCount, odd: int) -> None:
    wrong = StageCount(
        name=line.name,
        inputs=line.inputs + odd,
        accepted=line.accepted,
        rejected=line.rejected,
        failed=line.failed,
    )
    assert wrong.balance == odd
    with pytest.raises(CountMismatch, match=rf"stage {line.name}: {wrong.inputs} in, {line.inputs} accounted for"):
        check_balance([line, wrong])


@given(BOOKS)
def test_the_sum_of_balanced_books_balances(books: list[tuple[StageCount, ...]]) -> None:
    total = add_up(books)
    check_balance(total)
    lines = [line for book in books for line in book]
    assert sum(line.inputs for line in total) == sum(line.inputs for line in lines)
    for line in total:
        ours = [one for one in lines if one.name == line.name]
        assert (line.inputs, line.accepted) == (sum(o.inputs for o in ours), sum(o.accepted for o in ours))
        for count in line.rejected:
            assert count.count == sum(c.count for o in ours for c in o.rejected if c.reason == count.reason)


@given(BOOKS)
def test_sums_may_be_summed_again_in_any_grouping(books: list[tuple[StageCount, ...]]) -> None:
    assert add_up([add_up(books[:2]), add_up(books[2:])]) == add_up(books)


def test_one_imbalance_is_not_made_up_for_by_another() -> None:
    more, fewer = stage("read", inputs=3, accepted=2), stage("search", inputs=2, accepted=3)
    with pytest.raises(CountMismatch, match="stage read: 3 in, 2 accounted for"):
        check_balance([more, fewer])
    with pytest.raises(CountMismatch, match="stage search: 2 in, 3 accounted for"):
        check_balance([fewer])


def test_stages_keep_the_order_in_which_they_first_appear_and_reasons_are_sorted() -> None:
    first = stage("search", inputs=3, accepted=0, rejected=["b", "a", "b"])
    second = stage("filter", inputs=1, accepted=0, failed=["c"])
    total = add_up([(first,), (second, first)])
    assert [line.name for line in total] == ["search", "filter"]
    assert total[0].rejected == (Count(reason="a", count=2), Count(reason="b", count=4))
    assert total[1].failed == (Count(reason="c", count=1),)


def test_nothing_adds_up_to_nothing() -> None:
    assert add_up([]) == () and add_up([(), ()]) == ()
