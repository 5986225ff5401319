"""What people refuse: sources by id, kinds of sources by patterns, and how a bad pattern ends."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipelines.support import CONFIG, config_with, make_run, questions_file, take_in
from tests.support.bundle_rows import sample_documents
from tests.support.kg_worlds import chain_to, fact, node
from trailforge.pipelines.runs.intake import (
    INVALID_ROWS,
    RunInputs,
    refuse_other_run,
    take_in_documents,
    write_settings,
)
from trailforge.pipelines.runs.verify import verify_run
from trailforge.pipelines.sources import refused as module
from trailforge.pipelines.sources.refused import (
    PATTERN_REASON,
    REASON,
    Refusals,
    is_match,
    pattern_fields,
    refused_sources,
)
from trailforge.retrieval import RetrievalConfig
from trailforge.schemas import (
    InvalidInput,
    OutputError,
    PatternField,
    Question,
    RefusedPattern,
    RejectedRow,
    Ruling,
    SourceDocument,
    read_rows,
    to_dict,
    write_parquet,
)

CHAIN = chain_to(
    node("Vienna", "", "", "Wien"),
    fact("Metropolis", "director", "Fritz Lang"),
    fact("Fritz Lang", "place of birth", "Vienna"),
    starts=(node("Metropolis"),),
    bridges=(node("Fritz Lang"),),
)
ASKED = Question(id="q", question="Who sang Aida?", answer="Ann Lee", answer_aliases=("Lee",))
DOCUMENT = SourceDocument(id="s:1", source="tabloid", kind="news", title="Stars", text="They were seen\nin Kiel.")


OVER_A_CORPUS = config_with(retrieval=RetrievalConfig(kind="bm25", scope="corpus", corpus_index="none"))


def pattern(field: PatternField, text: str, detail: str = "ann: dull") -> RefusedPattern:
    return RefusedPattern(field=field, pattern=text, detail=detail)


def ruling(table: str, uid: str, action: Any, source: str = "") -> Ruling:
    return Ruling(table=table, uid=uid, action=action, detail=f"ann: {uid}", source_id=source)


def spooled(folder: Path) -> list[str]:
    return [row.id for row in read_rows(sorted((folder / "inputs").glob("*.parquet")), Question)]


def put_aside(folder: Path) -> list[tuple[str, str]]:
    return [(row.uid, row.reason) for row in read_rows([folder / INVALID_ROWS], RejectedRow)]


@pytest.mark.parametrize(
    ("field", "text", "source", "fits"),
    [
        ("question", "^Who sang", ASKED, True),
        ("question", "who sang", ASKED, False),
        ("question", "(?i)who sang", ASKED, True),
        ("answer", "^Lee$", ASKED, True),
        ("text", "Kiel", ASKED, False),
        ("publisher", "^tabl", DOCUMENT, True),
        ("text", r"seen\sin", DOCUMENT, True),
        ("title", "Kiel", DOCUMENT, False),
        ("relation", "^place of", CHAIN, True),
        ("entity", "Fritz", CHAIN, True),
        ("answer", "^Wien$", CHAIN, True),
        ("entity", "place", CHAIN, False),
    ],
)
def test_a_pattern_is_searched_for_in_its_field_alone(field: PatternField, text: str, source: Any, fits: bool) -> None:
    assert is_match(pattern(field, text), source) is fits
    assert (Refusals(patterns=(pattern(field, text),)).row_of(source) is not None) is fits


@given(st.sampled_from([ASKED, DOCUMENT, CHAIN]), st.data())
def test_any_part_of_any_text_of_a_field_fits_when_it_is_quoted(source: Any, data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(sorted(pattern_fields(type(source)))))
    text = data.draw(st.sampled_from(list(pattern_fields(type(source))[field](source))))
    first = data.draw(st.integers(0, len(text) - 1))
    part = text[first : data.draw(st.integers(first + 1, len(text)))]
    row = Refusals(patterns=(pattern(field, module.regex.escape(part)),)).row_of(source)
    assert row is not None and (row.uid, row.stage, row.reason) == (source.id, "read", PATTERN_REASON)
    assert row.detail.endswith("ann: dull") and field in row.detail


@pytest.mark.parametrize("text", ["(", "[a", "*", "", "a*", "x" * 1001, "(?P<1>a)"])
def test_what_is_no_pattern_or_fits_everything_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="pattern"):
        Refusals(patterns=(pattern("question", text),))


def test_a_pattern_that_never_ends_stops_with_the_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MATCH_S", 0.2)
    endless = pattern("question", "(a|aa)+$")
    with pytest.raises(InvalidInput, match=r"takes more than 0\.2 s on one question; write it more plainly"):
        is_match(endless, Question(id="q", question="a" * 200 + "b", answer="a"))


def test_rows_refuse_their_source_unless_another_row_of_it_is_good() -> None:
    rulings = [
        ruling("mcts_trajectories", "1", "reject", "a"),
        ruling("mcts_trajectories", "2", "reject", "a"),
        ruling("mcts_trajectories", "3", "reject", "b"),
        ruling("mcts_trajectories", "4", "fix", "b"),
        ruling("inputs", "c", "reject", "c"),
        ruling("mcts_trajectories", "5", "accept", "c"),
        ruling("rejected", "d", "reject", "d"),
        ruling("bundle_questions", "6", "reject"),
        ruling("kg_questions", "7", "reject", "path"),
        ruling("kg_questions", "8", "accept", "other"),
    ]
    assert refused_sources({"h": rulings}) == {
        ("a", "h"): "ann: 1; ann: 2", ("c", "h"): "ann: c", ("path", "h"): "ann: 7", ("7", ""): "ann: 7",
    }  # fmt: skip


def test_refused_sources_are_put_aside_and_the_books_balance(tmp_path: Path) -> None:
    source = questions_file(tmp_path / "q.jsonl", count=21)
    make_run(tmp_path / "before", source)
    ids = spooled(tmp_path / "before")
    asked = next(iter(read_rows(sorted((tmp_path / "before" / "inputs").glob("*.parquet")), Question)))
    said = Refusals(
        sources={(ids[3], ""): "ann: vague"},
        patterns=(pattern("question", f"^{module.regex.escape(asked.question)}$"),),
    )
    folder = tmp_path / "run"
    made, manifest = make_run(folder, source, refusals=said)
    assert spooled(folder) == ids[1:3] + ids[4:]
    assert set(put_aside(folder)[1:]) == {(ids[0], PATTERN_REASON), (ids[3], REASON)}
    (read,) = [line for line in manifest.stages if line.name == "read"]
    assert {count.reason: count.count for count in read.rejected} == {"invalid_input": 1, REASON: 1, PATTERN_REASON: 1}
    assert read.inputs == read.accepted + 3 and verify_run(folder).problems == []
    assert made.refusals == said.hash


def test_other_verdicts_are_another_run_and_the_same_ones_are_the_same(tmp_path: Path) -> None:
    source, folder = questions_file(tmp_path / "q.jsonl", count=20, broken_row=None), tmp_path / "run"
    some = Refusals(patterns=(pattern("question", "nobody asks this"),))
    taken = take_in(source, folder, CONFIG, None, some)
    write_settings(folder, taken)
    assert take_in(source, folder, CONFIG, None, Refusals(patterns=some.patterns)) == taken
    for other in (Refusals(), Refusals(patterns=(pattern("question", "nobody asks this", "ben: dull"),))):
        changed = take_in(source, folder, CONFIG, None, other)
        assert changed.run_id != taken.run_id
        with pytest.raises(OutputError, match="holds a run with other verdicts; give another --out"):
            refuse_other_run(folder, changed)
    with pytest.raises(OutputError, match="seed: 0 -> 1"):
        refuse_other_run(folder, take_in(source, folder, config_with(seed=1), None))


IDS = [f"q{number}" for number in range(12)]


@settings(max_examples=25)
@given(st.sets(st.sampled_from(IDS), max_size=11), st.lists(st.sampled_from(["q1", "[34]$", "none"]), max_size=2))
def test_whatever_is_refused_what_goes_in_is_accepted_or_put_aside_once(ids: set[str], texts: list[str]) -> None:
    rows = [replace(ASKED, id=name, question=f"Who sang {name}") for name in IDS]
    said = Refusals(
        sources=dict.fromkeys(((name, "") for name in ids), "ann: no"),
        patterns=tuple(pattern("question", text) for text in texts),
    )
    wanted = [row.id for row in rows if said.row_of(row) is None]
    with tempfile.TemporaryDirectory() as name:
        folder, source = Path(name) / "run", Path(name) / "q.jsonl"
        source.write_text("".join(json.dumps(to_dict(row)) + "\n" for row in rows))
        if not wanted:
            with pytest.raises(InvalidInput, match="did not reject"):
                take_in(source, folder, OVER_A_CORPUS, None, said)
            return
        taken = take_in(source, folder, OVER_A_CORPUS, None, said)
        write_settings(folder, taken)
        aside = put_aside(folder) if len(wanted) < len(IDS) else []
        assert spooled(folder) == wanted and sorted([*wanted, *(uid for uid, _ in aside)]) == sorted(IDS)
        (books,) = taken.books
        assert (books.inputs, books.accepted) == (len(IDS), len(wanted))
        assert sum(count.count for count in books.rejected) == len(aside)


def test_a_limit_counts_what_is_left(tmp_path: Path) -> None:
    source = questions_file(tmp_path / "q.jsonl", count=20, broken_row=None)
    ids = [row.id for row in _taken(source, tmp_path / "all", Refusals(), None)]
    left = [row.id for row in _taken(source, tmp_path / "some", Refusals(sources={(ids[0], ""): "ann: no"}), 3)]
    assert left == ids[1:4]


def test_when_all_is_refused_the_run_stops_before_it_begins(tmp_path: Path) -> None:
    source = tmp_path / "documents.parquet"
    write_parquet(source, SourceDocument, sample_documents())
    everything = Refusals(patterns=(pattern("text", r"\w"),))
    with pytest.raises(InvalidInput, match="holds no documents that people did not reject"):
        take_in_documents(
            RunInputs(dataset="document_bundles", files=(source,), refused=everything), tmp_path / "run", CONFIG
        )


def _taken(source: Path, folder: Path, said: Refusals, limit: int | None) -> list[Question]:
    write_settings(folder, take_in(source, folder, CONFIG, limit, said))
    return list(read_rows(sorted((folder / "inputs").glob("*.parquet")), Question))
