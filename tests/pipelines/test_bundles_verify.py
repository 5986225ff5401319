"""A finished run of bundles verifies; every change of it is found, also one that hides behind a corrected hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.bundles_support import CONFIG, FinishedBundles, begin_run, run_until
from tests.pipelines.forging import Changes, Forgeries, not_found
from tests.pipelines.support import edit_manifest, forge
from tests.support.bundle_world import FLAWS
from tests.support.files import contents
from trailforge.generators.document_bundles import DATASET as BUNDLES
from trailforge.generators.document_bundles.bundling.duplicates import (
    DuplicateConfig,
    find_near_copies,
    order_of,
    signature,
)
from trailforge.generators.document_bundles.maps import MAP
from trailforge.pipelines.runs.finish import finish_run
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import (
    BundleHop,
    BundleInput,
    Message,
    PlanEdge,
    SearchEpisode,
    SourceDocument,
    read_rows,
)

Edit = Callable[[list[Any]], list[Any]]


def problems(run: FinishedBundles) -> str:
    report = verify_run(run.folder)
    assert report.is_clean is (report.problems == [])
    return "\n".join(report.problems)


def forged(run: FinishedBundles, table: str, edit: Edit, *, number: int = 0) -> str:
    """What is found after rows of a table were changed, and hash and count with them."""
    forge(run.folder, table, edit, record={**BUNDLES.records, "inputs": SourceDocument}[table], number=number)
    return problems(run)


def first(**changes: Any) -> Edit:
    """The first row changed."""
    return lambda rows: [replace(rows[0], **changes), *rows[1:]]


Cases = Mapping[str, tuple[Changes, str]]


def overlooked(run: FinishedBundles, copies: Path, table: str, cases: Cases) -> dict[str, str]:
    """What is said of a forged row of each case, where it is not what is wanted."""
    changes = {name: change for name, (change, _) in cases.items()}
    said = Forgeries(table, BUNDLES.records[table], changes).found(run.folder, copies)
    return not_found(said, {name: found for name, (_, found) in cases.items()})


def rows_of(run: FinishedBundles, table: str) -> list[Any]:
    return list(read_rows(sorted((run.folder / table).glob("*.parquet")), BUNDLES.records[table]))


def test_the_run_has_a_row_for_every_reason(original_bundles: FinishedBundles) -> None:
    """What the other tests change: without any of these rows they would find nothing."""
    assert sum(f.rows for f in original_bundles.manifest.files) > 200
    reasons = {c.reason for line in original_bundles.manifest.stages for c in (*line.rejected, *line.failed)}
    assert reasons == {
        *("invalid_input", "markup", "other_language", "too_few_words", "exact_duplicate", "near_duplicate", "alone"),
        *("no_question", "malformed_reply", *FLAWS.values()),
        *("quotes_one_source", "contaminated", "duplicate_question", "used_fact", "evidence_not_found"),
    }
    assert {row.type for row in rows_of(original_bundles, "candidates")} == {
        *("factual", "causal", "single_choice", "multiple_choice")
    }
    assert {path.name for path in original_bundles.folder.iterdir()} >= {*BUNDLES.records, "plots"}


def test_no_bundle_holds_near_duplicates(original_bundles: FinishedBundles) -> None:
    for item in read_rows(sorted(original_bundles.folder.glob("bundle_inputs/*.parquet")), BundleInput):
        signatures = {order_of(d.published, d.id): signature(d.text) for d in item.documents}
        assert find_near_copies(signatures, DuplicateConfig()) == {}


def test_a_run_that_stops_at_the_bundles_verifies(original_bundles: FinishedBundles, tmp_path: Path) -> None:
    config = replace(CONFIG, questions=False)
    settings = begin_run(tmp_path / "run", original_bundles.source, config)
    run_until(tmp_path / "run", settings)
    manifest = finish_run(tmp_path / "run", settings, BUNDLES, seconds=1.0)
    assert verify_run(tmp_path / "run").problems == []
    assert manifest.calls == 0 and [line.name for line in manifest.stages][-1] == "bundle"
    assert contents(tmp_path / "run" / "bundles") == contents(original_bundles.folder / "bundles")
    plots, whole = (contents(folder / "plots") for folder in (tmp_path / "run", original_bundles.folder))
    assert {name for name in whole if plots[name] != whole[name]} == {"funnel.png"}


def test_a_changed_and_a_missing_picture_are_found(finished_bundles: FinishedBundles) -> None:
    with (finished_bundles.folder / MAP).open("ab") as file:
        file.write(b"more")
    assert problems(finished_bundles) == f"{MAP}: not as it was written (its sha256 differs)"
    (finished_bundles.folder / MAP).unlink()
    assert problems(finished_bundles) == f"{MAP}: missing"


def test_a_missing_file_of_rejected_rows_is_found(finished_bundles: FinishedBundles) -> None:
    name = "rejected/part-selection.parquet"
    (finished_bundles.folder / name).unlink()
    assert problems(finished_bundles) == f"{name}: missing"
    edit_manifest(finished_bundles.folder, lambda m: m.update(files=[f for f in m["files"] if f["path"] != name]))
    found = problems(finished_bundles)
    assert "stage select: 2 x contaminated, 0 rows in rejected/" in found
    assert "manifest.json: files is not what" in found


def test_a_text_twice_is_found_also_in_another_file(finished_bundles: FinishedBundles) -> None:
    same = rows_of(finished_bundles, "documents")[0]
    found = forged(finished_bundles, "documents", first(title=same.title, text=same.text), number=1)
    assert f"the same text as {same.id}" in found


def test_a_vector_of_another_length_or_place_is_found(finished_bundles: FinishedBundles) -> None:
    row, other = rows_of(finished_bundles, "embeddings")[:2]
    longer = tuple(2 * value for value in row.vector)
    assert "its vector is not of length 1" in forged(finished_bundles, "embeddings", first(vector=longer))
    found = forged(finished_bundles, "embeddings", first(vector=tuple(-value for value in other.vector)))
    assert "its vectors say" in found


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (first(cohesion=0.99), "cohesion 0.99, its vectors say"),
        (first(theme="gold"), "its documents are not what questions were made of"),
        (first(sources=("sample_news",) * 4), "its documents are not what questions were made of"),
        (lambda rows: [replace(rows[0], document_ids=rows[0].document_ids[:1]), *rows[1:]], "1 documents"),
        (lambda rows: [replace(rows[0], document_ids=("x:1", "y:2")), *rows[1:]], "document x:1 has no vector"),
        (
            lambda rows: [replace(rows[0], document_ids=rows[1].document_ids), *rows[1:]],
            "its document {other} is in bundle",
        ),
    ],
    ids=["cohesion", "theme", "sources", "one", "unknown", "twice"],
)
def test_a_forged_bundle_is_found(finished_bundles: FinishedBundles, edit: Edit, found: str) -> None:
    other = rows_of(finished_bundles, "bundles")[1].document_ids[0]
    assert found.format(other=other) in forged(finished_bundles, "bundles", edit)


def test_a_bundle_that_took_in_a_document_that_is_left_over_is_found(finished_bundles: FinishedBundles) -> None:
    def take(rows: list[Any]) -> list[Any]:
        return [replace(rows[0], document_ids=(*rows[0].document_ids[:3], "sample_news:906")), *rows[1:]]

    assert "sample_news:906: rejected as alone, and in bundle" in forged(finished_bundles, "bundles", take)


def test_another_text_behind_a_question_is_found(finished_bundles: FinishedBundles) -> None:
    """Though the quote may stand in it."""

    def rewrite(rows: list[Any]) -> list[Any]:
        one, *others = rows[0].documents
        return [replace(rows[0], documents=(replace(one, text=f"{one.text} And more."), *others)), *rows[1:]]

    rewritten = rows_of(finished_bundles, "bundle_inputs")[0].documents[0].id
    found = forged(finished_bundles, "bundle_inputs", rewrite)
    assert f"{rewritten}: it is not the document that questions were made of" in found


def quote(row: Any) -> dict[str, Any]:
    return {
        "hops": (BundleHop(document_id=row.hops[0].document_id, evidence="It rained.", reasoning=""), *row.hops[1:])
    }


def unpassed(row: Any) -> dict[str, Any]:
    return {"filters": (replace(row.filters[0], passed=False), *row.filters[1:])}


def known(row: Any) -> dict[str, Any]:
    return {"filters": tuple(replace(s, score=0.9) if s.name == "closed_book" else s for s in row.filters)}


def cyclic(row: Any) -> dict[str, Any]:
    a, b = (node.node_id for node in row.dag_nodes)
    return {"dag_edges": (PlanEdge(src=a, dst=b), PlanEdge(src=b, dst=a))}


FORGERIES: dict[str, tuple[Changes, str]] = {
    "quote": (quote, "filter unsupported_quote rejects it"),
    "cycle": (cyclic, "filter invalid_plan rejects it"),
    "leak": (lambda row: {"question": f"Is it {row.answer}?", "type": "factual", "options": (), "correct_options": ()},
             "filter answer_given_away rejects it"),
    "options": (lambda row: {"type": "single_choice", "options": ("a", "b"), "correct_options": ("A",)},
                "filter bad_options rejects it"),
    "one document": (lambda row: {"hops": row.hops[:1]}, "filter too_few_documents rejects it"),
    "passed": (unpassed, "its row says that used_fact rejects it"),
    "score": (known, "is not what follows from the row"),
    "complexity": (lambda row: {"complexity": 0.01}, "complexity 0.01 is not what follows from the row"),
    "bundle": (lambda row: {"bundle_id": "none"}, "its bundle 'none' is not there"),
}  # fmt: skip


def test_a_forged_candidate_is_found(original_bundles: FinishedBundles, tmp_path: Path) -> None:
    assert overlooked(original_bundles, tmp_path, "candidates", FORGERIES) == {}


SELECTED: dict[str, Changes] = {
    "question": lambda row: {"question": "What else?"},
    "uid": lambda row: {"uid": "none"},
    "no selection": lambda row: {"filters": row.filters[:-1]},
    "not passed": lambda row: {"filters": (*row.filters[:-1], replace(row.filters[-1], passed=False))},
    **{name: changes for name, (changes, _) in FORGERIES.items()},
}


def test_a_selected_question_that_is_no_candidate_is_found(original_bundles: FinishedBundles, tmp_path: Path) -> None:
    cases = {name: (change, "it is not what the filters left in `candidates/`") for name, change in SELECTED.items()}
    assert overlooked(original_bundles, tmp_path, "bundle_questions", cases) == {}


@pytest.mark.parametrize(
    "edit",
    [first(curriculum_stage=2), lambda rows: rows[::-1], lambda rows: [replace(r, curriculum_stage=1) for r in rows]],
    ids=["stage", "order", "one stage"],
)
def test_a_forged_curriculum_is_found(finished_bundles: FinishedBundles, edit: Edit) -> None:
    found = forged(finished_bundles, "bundle_questions", edit)
    assert "the rows are not in the order of their complexity and stage" in found


def _with_rules(row: SearchEpisode) -> tuple[Message, ...]:
    """Its conversation by other rules of the same length."""
    return (replace(row.messages[0], content=row.messages[0].content.replace("2 best", "3 best")), *row.messages[1:])


def _asking(row: SearchEpisode) -> tuple[Message, ...]:
    """Its conversation with another question of the same length."""
    return (row.messages[0], replace(row.messages[1], content=row.messages[1].content.swapcase()), *row.messages[2:])


EPISODES: dict[str, tuple[Changes, str]] = {
    "reward": (lambda row: {"reward": replace(row.reward, total=0.9)}, "reward is not what follows from its question"),
    "searches": (lambda row: {"searches": row.searches[:1]}, "filter evidence_not_found rejects it"),
    "question": (lambda row: {"question_id": "none"}, "its question 'none' is not there"),
    "no answer": (lambda row: {"messages": row.messages[:-1]}, "filter malformed_conversation rejects it"),
    "no search": (lambda row: {"messages": row.messages[:2]}, "filter malformed_conversation rejects it"),
    "nothing": (lambda row: {"messages": ()}, "filter malformed_conversation rejects it"),
    "wrong answer": (
        lambda row: {"messages": (*row.messages[:-1], replace(row.messages[-1], content="<answer>no</answer>"))},
        "final_answer is not what follows from its question",
    ),
    "gold": (lambda row: {"answer": "no"}, "answer is not what follows from its question"),
    "asked": (lambda row: {"messages": _asking(row)}, "its conversation asks another question"),
    "rules": (lambda row: {"messages": _with_rules(row)}, "its conversation asks another question, or by other rules"),
    "judge": (lambda row: {"scored_by": "judge"}, "its answer is scored by judge, and should be by "),
    "thought": (lambda row: {"thought": "I look."}, "its thought is not what the templates say"),
    "unfounded": (
        lambda row: {"thought": "Zanzibar?", "thoughts": "model"}, "filter unfounded_thought rejects its",
    ),
}  # fmt: skip
_OTHER_ROW = "this SFT row is not what its episode gives"
SFT_ROWS: dict[str, tuple[Changes, str]] = {
    "train": (lambda row: {"train": tuple(not t for t in row.train)}, _OTHER_ROW),
    "episode": (lambda row: {"trajectory_uid": "none"}, _OTHER_ROW),
    "messages": (lambda row: {"messages": row.messages[:-1], "train": row.train[:-1]}, _OTHER_ROW),
}


@pytest.mark.parametrize(("table", "cases"), [("episodes", EPISODES), ("sft", SFT_ROWS)], ids=["episodes", "sft"])
def test_a_forged_episode_and_sft_row_are_found(
    original_bundles: FinishedBundles, tmp_path: Path, table: str, cases: Cases
) -> None:
    assert overlooked(original_bundles, tmp_path, table, cases) == {}


def test_a_rejected_row_of_another_reason_is_found(finished_bundles: FinishedBundles) -> None:
    found = forged(finished_bundles, "rejected", first(stage="content", reason="too_many_words"))
    assert "rejected/: 1 rows of content/too_many_words that no stage counts" in found


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (lambda m: m["stages"].pop(), "stage episode: 6 rows, not in the books"),
        (lambda m: m.update(calls=1), "manifest.json: calls is not what"),
        (lambda m: m.update(dataset="mcts_trajectories"), "manifest.json: dataset is not what"),
        (lambda m: m["files"].pop(0), "not in the manifest"),
    ],
)
def test_an_edited_manifest_is_found(
    finished_bundles: FinishedBundles, edit: Callable[[dict[str, Any]], object], found: str
) -> None:
    edit_manifest(finished_bundles.folder, edit)
    assert found in problems(finished_bundles)


def test_a_run_without_its_receipts_is_found(finished_bundles: FinishedBundles) -> None:
    (finished_bundles.folder / "shards" / "selection.json").unlink()
    assert "1 of 1 shards have no receipt, first selection" in problems(finished_bundles)


def test_books_count_what_the_folder_holds(original_bundles: FinishedBundles) -> None:
    rejected = Counter((row.stage, row.reason) for row in rows_of(original_bundles, "rejected"))
    for line in original_bundles.manifest.stages:
        assert line.balance == 0
        for count in (*line.rejected, *line.failed):
            assert rejected.pop((line.name, count.reason)) == count.count
    assert rejected == {}
