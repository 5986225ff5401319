"""Which documents a window takes, its copy of them, and the plan that it keeps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.bundle_rows import sample_documents
from tests.support.bundle_world import write_documents
from trailforge.flows.given import check_named
from trailforge.flows.nights import windows
from trailforge.flows.nights.makes import PlannedDataSet
from trailforge.flows.nights.replanning import begin
from trailforge.flows.nights.windows import Choice, WindowPlan, find_files, read_plan, take, unfinished_windows
from trailforge.pipelines.engine.files import exclusive, sha256_of
from trailforge.pipelines.engine.shards import Receipt, write_receipt
from trailforge.pipelines.sources.documents import read_documents
from trailforge.rows import InvalidRow
from trailforge.schemas import InvalidInput, OutputError, SourceDocument, to_dict

DAY = date(2026, 11, 20)
MAKES = (
    PlannedDataSet(folder="bundles", dataset="document_bundles", preset="b"),
    PlannedDataSet(folder="kg", dataset="kg_trajectories", preset="k", input="bundles", needs=("kg",)),
)
PLAN = WindowPlan(
    day="2026-11-20", window_days=2, documents=("a.jsonl",), makes=MAKES, kg="",
    model_name=None, benchmarks=(), most_documents=None, most_questions=None, distractors=3, seed=0,
)  # fmt: skip


def document(number: int, published: str | None, text: str = "Text.") -> SourceDocument:
    return SourceDocument(
        id=f"feed:{number}", source="feed", kind="news", title=f"Title {number}", text=text, published=published
    )


def test_a_window_takes_the_days_before_its_own_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    dates = ["2026-11-17", "2026-11-18", "2026-11-19", "2026-11-20", None]
    write_documents(tmp_path / "a.jsonl", [document(n, day) for n, day in enumerate(dates)])
    write_documents(tmp_path / "b.jsonl", [document(1, "2026-11-18"), document(9, "2026-11-19")])
    plan = replace(PLAN, documents=(str(tmp_path / "*.jsonl"),))
    taken = take(tmp_path / "window", plan)
    assert (taken.books.inputs, taken.books.accepted, taken.books.balance) == (7, 3, 0)
    reasons = {count.reason: count.count for count in taken.books.rejected}
    assert reasons == {"too_early": 1, "too_late": 1, "undated": 1, "repeated": 1}
    assert [(Path(entry.path).name, entry.rows) for entry in taken.sources] == [("a.jsonl", 2), ("b.jsonl", 1)]
    copied = list(read_documents([tmp_path / "window" / windows.DOCUMENTS]))
    assert [row.id for row in copied if isinstance(row, SourceDocument)] == ["feed:1", "feed:2", "feed:9"]


def test_what_was_taken_stays_whatever_becomes_of_the_files(tmp_path: Path) -> None:
    source = write_documents(tmp_path / "a.jsonl", [document(1, "2026-11-19")])
    plan = replace(PLAN, documents=(str(source),))
    first = take(tmp_path / "one", plan)
    again = take(tmp_path / "two", plan)
    assert first == again
    assert (tmp_path / "one" / windows.DOCUMENTS).read_bytes() == (tmp_path / "two" / windows.DOCUMENTS).read_bytes()
    source.unlink()
    assert take(tmp_path / "one", plan) == first
    (tmp_path / "two" / windows.TAKEN).unlink()  # killed between the copy and its books: it is taken anew
    with pytest.raises(InvalidInput, match="no such file"):
        take(tmp_path / "two", plan)


def test_the_copy_is_read_as_what_was_copied(tmp_path: Path) -> None:
    documents = sample_documents()
    windows.write_lines(tmp_path / windows.DOCUMENTS, documents)
    assert list(read_documents([tmp_path / windows.DOCUMENTS])) == documents


@given(
    offsets=st.lists(st.none() | st.integers(min_value=-9, max_value=9), max_size=20),
    days=st.integers(min_value=1, max_value=4),
)
@settings(max_examples=60)
def test_windows_that_follow_each_other_take_every_dated_document_once(offsets: list[int | None], days: int) -> None:
    rows = [
        document(n, None if offset is None else (DAY + timedelta(days=offset)).isoformat())
        for n, offset in enumerate(offsets)
    ]
    taken: Counter[str] = Counter()
    for start in range(-12, 12, days):
        choice = Choice(DAY + timedelta(days=start), DAY + timedelta(days=start + days))
        choice.add(Path("f"), rows)
        assert choice.books.balance == 0 and choice.books.inputs == len(rows)
        taken.update(row.id for row in choice.documents)
    assert taken == Counter(row.id for row in rows if row.published)


def test_a_pattern_without_a_file_and_too_many_invalid_rows_stop_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no file matches this name or pattern"):
        find_files([str(tmp_path / "*.jsonl")])
    rows = [to_dict(document(n, "2026-11-19")) | {"id": str(n)} for n in range(19)]
    good = "".join(json.dumps(row) + "\n" for row in rows)
    plan = replace(PLAN, documents=(str(tmp_path / "a.jsonl"),))
    (tmp_path / "a.jsonl").write_text(good + '{"title": "no text"}\n')
    assert take(tmp_path / "one", plan).books.rejected[0].reason == "invalid_input"
    (tmp_path / "a.jsonl").write_text(good + '{"title": "no text"}\n{"title": "no text"}\n')
    with pytest.raises(InvalidInput, match=r"row 20, .*\(2 of 21 rows are invalid; at most 5%\)"):
        take(tmp_path / "two", plan)
    assert not (tmp_path / "two").exists()


def test_a_name_that_is_no_file_is_refused_and_one_of_a_pattern_is_not(tmp_path: Path) -> None:
    for name in (tmp_path, tmp_path / "none.jsonl"):
        with pytest.raises(InvalidInput, match=f"{name}.*: no such file"):
            find_files([str(tmp_path / "*"), str(name)])
        with pytest.raises(InvalidInput, match="no such file"):
            check_named([str(name)])
    check_named([str(tmp_path / "*.jsonl")])


def test_files_come_once_and_those_of_a_pattern_by_name(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl"):
        (tmp_path / name).write_text("")
    found = find_files([str(tmp_path / "b.jsonl"), str(tmp_path / "*.jsonl")])
    assert [path.name for path in found] == ["b.jsonl", "a.jsonl"]


def test_a_window_is_found_until_it_is_complete_and_keeps_the_plan_that_took_its_documents(tmp_path: Path) -> None:
    later, folder = replace(PLAN, day="2026-11-21"), tmp_path / PLAN.day
    for plan in (replace(PLAN, seed=7), PLAN, later):  # nothing is taken yet, so the latest plan holds
        begin(tmp_path, plan)
    (tmp_path / "notes").mkdir()
    assert unfinished_windows(tmp_path, before="2026-11-21") == [folder] and read_plan(folder) == PLAN
    assert unfinished_windows(tmp_path, before="2026-11-20") == []
    (folder / windows.TAKEN).write_text("{}")
    begin(tmp_path, PLAN)
    write_receipt(folder / "kg", Receipt(shard="part-00000-0123456789ab", files=(), stages=()))
    with pytest.raises(OutputError, match=r"begun with other parameters \(seed: 0 -> 7; kg\.preset: k -> x\)"):
        begin(tmp_path, replace(PLAN, seed=7, makes=(MAKES[0], replace(MAKES[1], preset="x"))))
    (folder / windows.DONE).write_text("{}")
    (folder / windows.PLAN).write_text("of another trailforge")
    assert unfinished_windows(tmp_path, before="2026-11-22") == [tmp_path / later.day]
    assert unfinished_windows(tmp_path / "nowhere", before="2026-11-22") == []


def test_a_folder_with_something_else_is_no_window(tmp_path: Path) -> None:
    (tmp_path / PLAN.day).mkdir()
    (tmp_path / PLAN.day / "letters.txt").write_text("")
    with pytest.raises(OutputError, match=r"holds no window of a night but other things, such as letters\.txt"):
        begin(tmp_path, PLAN)


def test_a_window_that_another_process_makes_keeps_its_plan(tmp_path: Path) -> None:
    begin(tmp_path, PLAN)
    with exclusive(tmp_path / PLAN.day), pytest.raises(OutputError, match="another run is writing here"):
        begin(tmp_path, replace(PLAN, seed=7))
    assert read_plan(tmp_path / PLAN.day) == PLAN


@pytest.mark.parametrize("content", [None, "[1]", "{}"])
def test_a_plan_that_cannot_be_read_is_named(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / windows.PLAN).write_text(content)
    with pytest.raises(OutputError, match="holds no window" if content is None else r"plan\.json was not written by"):
        read_plan(tmp_path)


@pytest.mark.parametrize("changes", [1, 99])
def test_the_hash_is_that_of_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: int) -> None:
    source = write_documents(tmp_path / "a.jsonl", [document(0, "2026-11-19")])
    more = (json.dumps(to_dict(document(n, "2026-11-19"))) + "\n" for n in range(1, changes + 1))

    def growing(files: list[Path]) -> Iterator[SourceDocument | InvalidRow]:
        yield from read_documents(files)
        with source.open("a") as file:
            file.write(next(more, ""))

    monkeypatch.setattr(windows, "read_documents", growing)
    plan = replace(PLAN, documents=(str(source),))
    if changes == 99:
        with pytest.raises(InvalidInput, match=r"a\.jsonl: changed each of 5 times"):
            take(tmp_path / "window", plan)
        return
    taken = take(tmp_path / "window", plan)
    assert [(entry.rows, entry.sha256) for entry in taken.sources] == [(2, sha256_of(source))]


@pytest.mark.parametrize(("field", "value"), [("window_days", 0), ("distractors", -1), ("day", "20 November")])
def test_a_plan_that_cannot_be_names_its_field(field: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=field):
        replace(PLAN, **{field: value})
