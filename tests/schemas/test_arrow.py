"""Records survive Arrow and Parquet, and nothing else passes for them."""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.rows import reread
from trailforge import schemas
from trailforge.evaluation.results.table import TableRow
from trailforge.pipelines.sources.audited import AuditedQuestion
from trailforge.schemas import (
    Bundle,
    BundleQuestion,
    ContrastivePair,
    CuratedRow,
    Decision,
    Document,
    DocumentEmbedding,
    FactChain,
    InvalidInput,
    KgQuestion,
    KgTrajectory,
    Manifest,
    NothingLeft,
    Passage,
    PatternDecision,
    Plan,
    PreferenceRow,
    Provenance,
    Question,
    RejectedRow,
    RlRow,
    Rollout,
    SearchEpisode,
    SearchTree,
    SftRow,
    SourceDocument,
    Step,
    Trajectory,
    Verdict,
    arrow_schema,
    from_dict,
    read_columns,
    read_parquet,
    to_dict,
    write_parquet,
)
from trailforge.schemas.agent_episode import AgentEpisode
from trailforge.schemas.arrow import _hints, _strip_none, to_table

RECORDS = [
    Document, Question, Passage, Plan, Step, Rollout, SearchTree, Trajectory, Verdict, Provenance, Manifest, SftRow,
    RejectedRow, SourceDocument, DocumentEmbedding, Bundle, BundleQuestion, SearchEpisode, KgTrajectory,
    ContrastivePair, FactChain, KgQuestion, RlRow, PreferenceRow, Decision, CuratedRow, PatternDecision, AgentEpisode,
    TableRow, AuditedQuestion,
]  # fmt: skip


@cache
def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type."""
    inner, nullable = _strip_none(hint)
    if dataclasses.is_dataclass(inner):
        strategy = records(inner)  # type: ignore[arg-type]
    elif get_origin(inner) is tuple:
        strategy = st.lists(values(get_args(inner)[0]), max_size=2).map(tuple)
    elif get_origin(inner) is Literal:
        strategy = st.sampled_from(get_args(inner))
    else:
        strategy = {
            str: st.text(max_size=5),
            int: st.integers(-(2**40), 2**40),
            float: st.floats(allow_nan=False),
            bool: st.booleans(),
        }[inner]
    return st.none() | strategy if nullable else strategy


@cache
def records(record: type) -> st.SearchStrategy[Any]:
    """Any instance of a record class."""
    return st.builds(record, **{name: values(hint) for name, hint in _hints(record).items()})


@pytest.mark.parametrize("record", RECORDS)
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_arrow_and_dict_round_trip(record: type, data: st.DataObject) -> None:
    rows = data.draw(st.lists(records(record), max_size=2))
    assert reread(record, rows) == rows
    assert [from_dict(record, to_dict(row)) for row in rows] == rows


@pytest.mark.parametrize("record", RECORDS)
def test_every_record_is_frozen_and_has_a_version(record: type) -> None:
    assert record.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert schemas.version_of(record).count(".") == 1


GOLDEN = Path(__file__).parent / "arrow_schemas.txt"


def test_arrow_schemas_change_only_on_purpose() -> None:
    """A changed schema needs a new version. Then renew the golden file: `make golden`."""
    assert GOLDEN.read_text() == described()


def described() -> str:
    return "\n\n".join(describe(r) for r in RECORDS) + "\n"


def describe(record: type) -> str:
    lines = [f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in arrow_schema(record)]
    return "\n".join([f"{record.__name__} {schemas.version_of(record)}", *lines])


def question(**changes: Any) -> Question:
    return Question(**{"id": "q", "question": "Who?", "answer": "A", **changes})


def test_parquet_is_the_same_bytes_for_the_same_rows(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_parquet(tmp_path / name, Question, [question()] * 1100)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert pq.ParquetFile(tmp_path / "a").num_row_groups == 3
    assert read_parquet(tmp_path / "a", Question) == [question()] * 1100


@pytest.mark.parametrize("options", [{}, {"compression": "none", "use_dictionary": False}], ids=["packed", "plain"])
def test_a_damaged_file_is_the_file_s_fault(tmp_path: Path, options: dict[str, Any]) -> None:
    """Whichever byte it is: damage may show when the file is opened, or in its last page."""
    path = tmp_path / "rows.parquet"
    pq.write_table(to_table(Question, [question(id=f"ü{n}") for n in range(5)]), path, **options)
    whole, refused = path.read_bytes(), 0
    for at in range(0, len(whole), 11):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :])
        try:
            read_parquet(path, Question)
        except InvalidInput as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 20


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"question": None}, "question"),
        ({"question": 3}, "question"),
        ({"answer_aliases": (None,)}, "answer_aliases"),
        ({"paragraphs": (Document(id="1", title="t", text=None),)}, "paragraphs.text"),  # type: ignore[arg-type]
    ],
)
def test_writing_names_row_and_field_of_a_wrong_value(bad: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        to_table(Question, [question(), question(**bad)])
    assert (caught.value.row, caught.value.field) == (1, field)


def with_version(table: pa.Table, version: str) -> pa.Table:
    return table.replace_schema_metadata({"trailforge.record": "Question", "trailforge.version": version})


@pytest.mark.parametrize(
    ("version", "mend"), [("2.0", "upgrade trailforge"), ("0.9", "make it again"), ("1.3", "upgrade")]
)
def test_reading_refuses_another_version(tmp_path: Path, version: str, mend: str) -> None:
    pq.write_table(with_version(to_table(Question, [question()]), version), tmp_path / "x.parquet")
    with pytest.raises(InvalidInput, match=f"x.parquet.*{version}.*{mend}"):
        read_parquet(tmp_path / "x.parquet", Question)


def test_reading_refuses_other_records_columns_and_files(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parquet(path, Question, [question()])
    with pytest.raises(InvalidInput, match="holds Question rows, expected Document"):
        read_parquet(path, Document)
    pq.write_table(to_table(Question, [question()]).drop_columns(["answer"]), path)
    with pytest.raises(InvalidInput, match=r"columns differ.*answer"):
        read_parquet(path, Question)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(InvalidInput, match="not a trailforge table"):
        read_parquet(path, Question)
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(InvalidInput, match="not a readable Parquet file"):
        read_parquet(path, Question)
    with pytest.raises(InvalidInput, match=r"x\.parquet: not a readable Parquet file"):
        read_columns(path, Question, ["id"])
    for read in (lambda path: read_parquet(path, Question), lambda path: read_columns(path, Question, ["id"])):
        with pytest.raises(InvalidInput, match="no such file"):
            read(tmp_path / "none.parquet")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"id": "q", "question": "x"}, "missing"),
        ({"id": "q", "question": "x", "answer": "a", "colour": 1}, "unknown field"),
        ({"id": "q", "question": "x", "answer": ["a"]}, "expected str"),
        ({"id": "q", "question": "x", "answer": "a", "paragraphs": "none"}, "expected a list"),
    ],
)
def test_from_dict_says_what_is_wrong(content: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        from_dict(Question, content)


def test_errors_survive_pickling() -> None:
    import pickle

    error = InvalidInput("bad", file="f.jsonl", row=3, field="answer")
    assert str(pickle.loads(pickle.dumps(error))) == "f.jsonl, row 3, field 'answer': bad"
    assert type(pickle.loads(pickle.dumps(NothingLeft("none", file="f.jsonl")))) is NothingLeft


if __name__ == "__main__":
    GOLDEN.write_text(described())
