"""Bundles as a person makes them: the demo with the embedded model, a run without any model, and what goes wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.support import Ended, Made, leftovers, trailforge
from tests.support.bundle_rows import sample_documents
from tests.support.bundle_world import write_documents
from tests.support.files import contents
from trailforge.pipelines.runs.finish import read_manifest
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import Bundle, BundleQuestion, SearchEpisode, SftRow, read_rows, to_dict

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

NOBODY = "http://127.0.0.1:9/v1"
"""The discard port: nothing answers."""
PRESET = """\
content: {min_words: 20, min_characters: 100}
bundles: {method: greedy, min_cosine: 0.25}
tools: {kind: bm25}
"""


def rows(folder: Path, table: str, record: type) -> list[Any]:
    return list(read_rows(sorted((folder / table).glob("*.parquet")), record))


@dataclass(frozen=True)
class Lab:
    """A folder with a preset and a few documents."""

    folder: Path

    @property
    def documents(self) -> Path:
        return self.folder / "documents.jsonl"

    def make(self, out: Path, *more: object, documents: Path | None = None) -> Ended:
        """`trailforge document-bundles`; `more` comes last and so wins."""
        return trailforge(
            *("document-bundles", "--documents", documents or self.documents, "--out", out),
            *("--preset", self.folder / "preset.yaml", "--model", NOBODY, *more),
            timeout_s=300,
        )


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Eight documents: so few that the map of documents needs no UMAP, which takes seconds to compile."""
    folder = tmp_path_factory.mktemp("lab")
    documents = sample_documents()
    write_documents(folder / "documents.jsonl", [*documents[:4], *documents[16:20]])
    (folder / "preset.yaml").write_text(PRESET)
    return Lab(folder)


@pytest.mark.real_model
def test_the_demo_makes_questions_and_episodes_with_a_very_small_model(demo_bundles: Made) -> None:
    out = demo_bundles.out
    questions, episodes = rows(out, "bundle_questions", BundleQuestion), rows(out, "episodes", SearchEpisode)
    assert len(questions) >= 2 and len(episodes) >= 2
    assert len({row.bundle_id for row in questions}) >= 2
    assert {row.uid for row in rows(out, "sft", SftRow)} == {row.uid for row in episodes}
    assert verify_run(out).problems == []
    manifest = read_manifest(out)
    assert manifest is not None and manifest.calls > 0
    printed = "".join(demo_bundles.printed.split())
    for wanted in (questions[0].question, f"{manifest.calls:,}", "trailforge verify", str(out), "near_duplicates"):
        assert "".join(wanted.split()) in printed, wanted

    shown = trailforge("show", out, "--id", questions[-1].uid)
    assert shown.code == 0 and questions[-1].uid in shown.out and "Nodes:" in shown.out
    before = contents(out)
    again = trailforge(*demo_bundles.command, "--model", NOBODY)
    assert (again.code, again.err) == (0, "")
    assert contents(out) == before


@pytest.fixture(scope="module")
def made(lab: Lab) -> tuple[Path, Ended]:
    """A finished run without questions."""
    out = lab.folder / "made"
    return out, lab.make(out, "--bundles-only")


def test_bundles_need_no_model(made: tuple[Path, Ended]) -> None:
    out, ended = made
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err
    assert "NOTHING WAS KEPT" not in ended.out and "none asked for after bundle" in ended.out
    bundles = rows(out, "bundles", Bundle)
    assert {frozenset(name[-3:] for name in bundle.document_ids) for bundle in bundles} == {
        frozenset({"001", "002", "003", "004"}),
        frozenset({"017", "018", "019", "020"}),
    }
    assert verify_run(out).problems == []
    manifest = read_manifest(out)
    assert manifest is not None and manifest.calls == 0 and not (out / "ledger").exists()
    shown = trailforge("show", out, "--bundles", "--id", bundles[1].uid)
    assert shown.code == 0 and bundles[1].theme in shown.out and bundles[0].uid not in shown.out


def test_a_finished_run_stays_as_it_is_and_another_is_refused(lab: Lab, made: tuple[Path, Ended]) -> None:
    out, _ = made
    before = contents(out)
    again = lab.make(out, "--bundles-only")
    assert (again.code, again.err) == (0, "")
    ended = lab.make(out, "--bundles-only", "--seed", "5")
    assert ended.code == 9
    assert ended.error_line.startswith(
        f"error: {out} holds a run with other settings (seed: 0 -> 5); give another --out"
    )
    assert contents(out) == before


def document(number: int, **changes: Any) -> dict[str, Any]:
    return to_dict(sample_documents()[number]) | changes


def test_too_many_rows_that_are_no_documents_stop_the_run_before_it_begins(lab: Lab, tmp_path: Path) -> None:
    source = tmp_path / "d.jsonl"
    source.write_text("".join(json.dumps(document(n, text="" if n == 2 else "Text.")) + "\n" for n in range(10)))
    ended = lab.make(tmp_path / "run", documents=source)
    assert ended.code == 2
    assert ended.error_line.startswith(f"error: {source}, row 3, field 'text': ")
    assert "(1 of 10 rows are invalid; more than 5% stops the run)" in ended.error_line
    assert leftovers(tmp_path / "run") == [] and ended.out == ""


def test_documents_of_which_none_is_fit_end_the_run_with_a_line(lab: Lab, tmp_path: Path) -> None:
    source = tmp_path / "d.jsonl"
    source.write_text(json.dumps(document(0, text="Too short.")) + "\n")
    ended = lab.make(tmp_path / "run", "--bundles-only", documents=source)
    assert ended.code == 14
    assert ended.err.splitlines()[-1].endswith("run: no document is left to bundle; `rejected/` says why")
    assert leftovers(tmp_path / "run") == []


def test_a_model_that_is_not_there_is_missed_before_the_work_begins(lab: Lab, tmp_path: Path) -> None:
    ended = lab.make(tmp_path / "run")
    assert ended.code == 4, ended.err
    assert not (tmp_path / "run" / "documents").exists()


@pytest.mark.parametrize(
    ("option", "value", "line"),
    [
        ("--documents", "none.jsonl", "error: {folder}/none.jsonl: no such file"),
        ("--documents", "garbage.jsonl", "error: {folder}/garbage.jsonl: "),
        ("--columns", "text=body", "error: {folder}/documents.jsonl"),
        ("--columns", "words=text", "error: field '--columns': no field 'words'; documents have id, title, text"),
        ("--preset", "msearcher", "error: msearcher: the preset is for mcts_trajectories, not for document_bundles; "),
        ("--benchmark", "none.jsonl", "error: {folder}/none.jsonl: no such file"),
    ],
    ids=["no file", "no text", "no column", "no field", "other preset", "no benchmark"],
)
def test_what_cannot_be_is_named_in_one_line_and_leaves_nothing(
    lab: Lab, tmp_path: Path, option: str, value: str, line: str
) -> None:
    (tmp_path / "documents.jsonl").write_bytes(lab.documents.read_bytes())
    (tmp_path / "garbage.jsonl").write_bytes(b"\x00\xff\xfe\x01" * 300)
    given = tmp_path / value if value.endswith(".jsonl") else value
    documents = given if option == "--documents" else tmp_path / "documents.jsonl"
    more = () if option == "--documents" else (option, given)
    ended = lab.make(tmp_path / "run", *more, documents=Path(documents))
    assert ended.code == 2, ended.err
    assert ended.error_line.startswith(line.format(folder=tmp_path))
    assert leftovers(tmp_path) == [] and ended.out == ""
    assert not list(tmp_path.glob("run/**/*.parquet"))
