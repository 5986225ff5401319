"""What a person types to find rows finds those of which all of it holds, and says in a line what cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.pipelines.runs.table_index import TableIndex
from trailforge.pipelines.search.query import (
    COMPARISONS,
    LIKE,
    Term,
    add_term,
    like_of,
    parse_search,
    quote,
    texts_of,
    write_search,
)
from trailforge.schemas import InvalidInput

ROWS: list[dict[str, Any]] = [
    {
        "uid": "a",
        "question": "Which river flows through Vienna?",
        "kind": "correct",
        "num_hops": 2,
        "reward": {"total": 1.0, "format": 0.5},
        "turns": [{"text": "The Danube flows there.", "train": True}],
        "tags": ["geo", "easy"],
        "is_bridge": True,
        "score": {"kept": 3},
    },
    {
        "uid": "b:1",
        "question": "Who founded Acme in Vienna?",
        "kind": "retrieval",
        "num_hops": 3,
        "reward": {"total": 0.25, "format": 1.0},
        "turns": [{"text": "Bob, at https://acme.example.", "train": False}],
        "tags": [],
        "is_bridge": False,
        "score": {"kept": None},
    },
    {
        "uid": "c",
        "question": "When did through flows river?",
        "kind": "correct",
        "num_hops": 4,
        "reward": {"total": None, "format": None},
        "turns": [],
        "tags": ["hard"],
        "is_bridge": None,
        "score": {"kept": 0},
    },
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> TableIndex:
    folder = tmp_path_factory.mktemp("run")
    (folder / "rows").mkdir()
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "rows" / "part-00000.parquet")
    return TableIndex(folder, "rows")


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("vienna", "a b:1"),
        ("VIENNA river", "a"),
        ("river through flows", "a c"),
        ('"flows through"', "a"),
        ('"flows through" danube', "a"),
        ("-vienna", "c"),
        ("flows -danube", "c"),
        ('-"flows through" river', "c"),
        ("kind:correct", "a c"),
        ("-kind:correct", "b:1"),
        ("kind:corr -tags:geo", "c"),
        ("kind=correct", "a c"),
        ("kind=corr", ""),
        ("kind!=Correct", "b:1"),
        ("-kind!=correct", "a c"),
        ("tags=easy", "a"),
        ("is_bridge=true", "a"),
        ('"says ""Hi"""', ""),
        ("turns.text:danube", "a"),
        ("text:danube", "a"),
        ('turns:"flows there"', "a"),
        ("tags:hard", "c"),
        ("is_bridge:true", "a"),
        ("is_bridge:no", "b:1"),
        ("-is_bridge:yes", "b:1 c"),
        ("reward<0.5", "b:1"),
        ("reward.total>=0.25", "a b:1"),
        ("reward.format=1", "b:1"),
        ("reward!=1", "b:1"),
        ("-reward<0.5", "a c"),
        ("hops>=3", "b:1 c"),
        ("num_hops>2 hops<=3", "b:1"),
        ("hops:2", "a"),
        ("kept=0", "c"),
        ("kept>-1 vienna", "a"),
        ("https://acme.example", "b:1"),
        ('"b:1"', "b:1"),
        ("uid:b:1", "b:1"),
        ("true", ""),
        ("- vienna", ""),
        ("nowhere", ""),
    ],
)
def test_a_search_finds_the_rows_of_which_all_of_it_holds(table: TableIndex, search: str, found: str) -> None:
    assert " ".join(ROWS[number]["uid"] for number in table.search(search).rows) == found


@pytest.mark.parametrize(
    ("search", "problem"),
    [
        ("", "nothing to search for"),
        ('""', "nothing to search for"),
        ('"flows through', "has no second one"),
        ("kind:", "what is kind: to be"),
        ("hops>", "what is hops> to be"),
        ("hops=three", "'three' is no number"),
        ("hops>three", 'no number; to search for the text itself, write "hops>three"'),
        ("kinds:correct", 'no field kinds here; there is kind.* write "kinds:correct"'),
        ("uids<3", "no number uids here"),
        ("rewrd<1", "there is reward"),
        ("kind<3", "no number kind here"),
        ('"""', "has no second one"),
        ("like:", "what is like: to be"),
        ("-like:a", "leave the minus out"),
        ("like:a like:b", "leave one `like:` out"),
        ("b:1", "no field b here"),
        ("vienna\udcff", "holds bytes that are no UTF-8"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_line(table: TableIndex, search: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as refused:
        table.search(search)
    assert "\n" not in str(refused.value)


def test_a_name_of_several_fields_is_asked_back(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    both = [{"uid": "a", "first": {"score": 1.0}, "second": {"score": 2.0}}]
    pq.write_table(pa.Table.from_pylist(both), tmp_path / "rows" / "part-00000.parquet")
    with pytest.raises(InvalidInput, match=r"score may be first\.score or second\.score"):
        TableIndex(tmp_path, "rows").search("score>1")


@given(st.text(min_size=1))
def test_a_quoted_text_is_one_condition(text: str) -> None:
    (term,) = parse_search(quote(text))
    assert (term.value, term.name, term.is_negated) == (text, "", False)
    assert texts_of(quote(text)) == [text]


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert parse_search(text)
    except InvalidInput as refused:
        assert refused.field == "search" and not texts_of(text)


def test_what_is_marked_is_what_the_row_has_to_show() -> None:
    assert texts_of('river "flows through" -danube kind:correct reward<0.5') == ["river", "flows through", "correct"]


WORDS = st.text(min_size=1)
FIELDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,8}", fullmatch=True).filter(lambda name: name != LIKE)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False).map(str)
TERMS = st.one_of(
    st.builds(Term, WORDS, is_negated=st.booleans()),
    st.builds(Term, WORDS, FIELDS, st.sampled_from((":", "=", "!=")), st.booleans()),
    st.builds(Term, NUMBERS, FIELDS, st.sampled_from(COMPARISONS), st.booleans()),
)


@given(st.lists(TERMS, min_size=1, max_size=5, unique=True), st.none() | WORDS)
def test_what_is_written_is_read_as_the_same_conditions(terms: list[Term], uid: str | None) -> None:
    whole = terms if uid is None else [*terms, Term(uid, LIKE, ":")]
    text = write_search(whole)
    assert parse_search(text) == whole and write_search(parse_search(text)) == text
    assert like_of(text) == (uid or "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "hops>=2 hops<3"),
        ("river", "river hops>=2 hops<3"),
        ("hops>=1 -danube hops<2", "-danube hops>=2 hops<3"),
        ('"never ended', "hops>=2 hops<3"),
    ],
)
def test_a_new_condition_takes_the_place_of_those_on_its_field(before: str, after: str) -> None:
    assert add_term(before, Term("2", "hops", ">="), Term("3", "hops", "<")) == after
