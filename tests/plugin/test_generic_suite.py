"""What a run of any data set goes through, on one that trailforge has never heard of: its folder is all there is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from trailforge.commands import runs
from trailforge.curation.apply import apply_rulings
from trailforge.curation.decisions import LOG, append, merge, now, read_decisions, source_of
from trailforge.flows.execute import RunRequest, execute
from trailforge.inspector.terminal import show_rows
from trailforge.pipelines.curated import check_ruling, decidable
from trailforge.pipelines.dataset import DataSet, resolve
from trailforge.pipelines.datasets import all_lists, all_tables, dataset_names, dataset_of, load_dataset
from trailforge.pipelines.runs.finish import CARD, finished_run
from trailforge.pipelines.runs.intake import read_settings, run_configuration
from trailforge.pipelines.runs.own_files import OwnFiles
from trailforge.pipelines.runs.stages import is_complete, planned_stages
from trailforge.pipelines.runs.status import read_status
from trailforge.pipelines.runs.verify import Report, verify_run
from trailforge.presets import declared_datasets
from trailforge.schemas import Decision, FileEntry, InvalidInput, Manifest, RlRow, SftRow, read_rows, write_parquet
from trailforge.training.sets.build import make_training_set
from trailforge.training.sets.config import ViewConfig

INSTALLED = Path(__file__).parent / "installed"
ASKED = ["What is 1 + 2?", "What is 3 + 4?", "What is 5 + 6?", "Who is it?", "What is 7 + 8?"]


@pytest.fixture(scope="module", autouse=True)
def installed() -> Iterator[None]:
    """The package is on the path, as pip would bring it there: its entry point is all that tells of it."""
    sys.path.insert(0, str(INSTALLED))
    declared_datasets.cache_clear()
    yield
    sys.path.remove(str(INSTALLED))
    declared_datasets.cache_clear()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was left alone. Only read it."""
    folder = tmp_path_factory.mktemp("toy")
    make(folder / "run", questions_file(folder))
    return folder / "run"


def questions_file(folder: Path) -> Path:
    """Of four sums and something else."""
    path = folder / "questions.jsonl"
    rows = ({"id": f"q{n}", "question": text, "answer": "?"} for n, text in enumerate(ASKED))
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def make(out: Path, source: Path, *, verdicts: tuple[Path, ...] = ()) -> Manifest:
    """A run, as the command of any data set makes it."""
    preset = source.with_suffix(".yaml")
    preset.write_text("dataset: toy_sums\nmodel: {url: embedded}\n")
    return execute(RunRequest(dataset="toy_sums", out=out, preset=str(preset), files=(source,), verdicts=verdicts))


def rows_of(folder: Path, table: str, dataset: DataSet | None = None) -> list[Any]:
    record = (dataset or load_dataset("toy_sums")).all_tables[table].record
    return list(read_rows(sorted((folder / table).glob("*.parquet")), record))


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of change of each file of rows and receipts."""
    paths = [path for path in folder.rglob("part-*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


def decide(folder: Path, table: str, row: Any, action: Any, **more: str) -> None:
    """Say something of a row."""
    settings = read_settings(folder)
    assert settings is not None
    word = Decision(
        run_id=settings.run_id,
        table=table,
        uid=row.uid,
        who="ann",
        when=now(),
        action=action,
        source_id=source_of(table, {"question_id": row.question_id}),
        **more,
    )
    append(folder, [word])


def test_it_is_found_by_its_entry_point() -> None:
    assert "toy_sums" in dataset_names() and load_dataset("toy_sums").command == "toy-sums"
    assert {"sums", "drafts"} <= all_tables() and "sums.txt" in all_lists()


def test_one_that_is_not_installed_is_named_with_those_that_are() -> None:
    with pytest.raises(InvalidInput, match=r"no data set 'films' is installed; this trailforge knows .*toy_sums"):
        load_dataset("films")


def test_a_run_has_its_tables_its_books_and_its_card(finished: Path) -> None:
    manifest, settings = finished_run(finished)
    assert [(line.name, line.inputs, line.accepted) for line in manifest.stages] == [
        ("read", 5, 5),
        ("add", 5, 4),
        ("sign", 4, 4),
    ]
    assert {row.answer for row in rows_of(finished, "sums")} == {"3", "7", "11", "15"}
    assert "Sums that a toy made." in (finished / CARD).read_text() and dataset_of(settings).name == "toy_sums"
    roles = {each.table: (each.role, each.protocol) for each in manifest.schema_versions if each.role}
    assert roles == {"inputs": ("questions", "react"), "sft": ("sft", "")}


def test_rows_of_a_stage_that_is_one_function_are_made_again(finished: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(finished, copy)
    manifest, settings = finished_run(copy)
    add, config = resolve("toy_sums.work:ADD"), run_configuration(dataset_of(settings), settings)

    def problems() -> list[str]:
        add.checks(copy, manifest, config, report := Report()).check()
        return report.problems

    assert problems() == []
    path = sorted((copy / "drafts").glob("*.parquet"))[0]
    record = load_dataset("toy_sums").records["drafts"]
    first, *others = read_rows([path], record)
    write_parquet(path, record, [replace(first, answer="7"), *others])
    assert problems() == [f"{path.name}, {first.uid}: it is not what its input gives"]
    write_parquet(path, record, [first])
    assert len(others) == 1 and problems() == [
        f"{path.name}, {others[0].uid}: it is not what its input gives",
        "stage add: 4 accepted, 3 rows found",
    ]


def test_its_status_counts_rows_by_kind_and_says_what_is_next(finished: Path) -> None:
    status = read_status(finished)
    assert (status.state, status.stage, status.rows) == ("finished", "sign", {"large": 2, "small": 2})
    assert status.put_aside == {"add/no_sum": 1}


def test_a_run_that_was_killed_goes_on_and_runs_no_finished_shard_again(finished: Path, tmp_path: Path) -> None:
    source, out = questions_file(tmp_path), tmp_path / "run"
    script = (
        "from pathlib import Path; from tests.plugin.test_generic_suite import make; "
        f"make(Path({str(out)!r}), Path({str(source)!r}))"
    )
    paths = os.pathsep.join([str(INSTALLED), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": paths, "TOY_SUMS_DIES_AFTER": "1"}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=800)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    before, dataset, settings = stamps(out), load_dataset("toy_sums"), read_settings(out)
    assert settings is not None and not is_complete(out, planned_stages(dataset, out, settings))
    assert [stage.shards is None for stage in planned_stages(dataset, out, settings)] == [False, True]
    assert "shards/part-00000" in " ".join(before) and "shards/part-00001" not in " ".join(before)
    assert "toy-sums … --questions" in read_status(out).next
    make(out, source)
    after = stamps(out)
    assert {name: after[name] for name in before if not name.startswith("inputs/")} == {
        name: stamp for name, stamp in before.items() if not name.startswith("inputs/")
    }
    for table in ("sums", "sft", "drafts"):
        assert rows_of(out, table) == rows_of(finished, table)


def test_it_verifies_and_a_changed_row_is_found(finished: Path, tmp_path: Path) -> None:
    assert verify_run(finished).problems == []
    make(tmp_path, questions_file(finished.parent))
    path = next((tmp_path / "sums").glob("*.parquet"))
    path.write_bytes(path.read_bytes() + b" ")
    assert verify_run(tmp_path).problems


def test_dropping_its_rows_takes_all_that_it_wrote_but_its_log_and_nothing_else(tmp_path: Path) -> None:
    make(tmp_path / "run", questions_file(tmp_path))
    (tmp_path / "run" / "notes.txt").write_text("mine")
    OwnFiles(tmp_path / "run", load_dataset("toy_sums")).drop_rows(print)
    left = {path.name for path in (tmp_path / "run").iterdir() if path.name != ".lock"}
    assert left == {"inputs", "run.json", "manifest.json", "notes.txt", "progress"}
    assert [path.name for path in (tmp_path / "run" / "progress").iterdir()] == ["log.jsonl"]


def test_people_decide_on_what_it_declares(finished: Path) -> None:
    assert decidable("toy_sums") == ("inputs", "sums", "rejected")
    check_ruling("toy_sums", "sums", "fix", "remark")
    with pytest.raises(InvalidInput, match="of sums can be: remark"):
        check_ruling("toy_sums", "sums", "fix", "answer")
    with pytest.raises(InvalidInput, match="rows of 'drafts' follow from others"):
        check_ruling("toy_sums", "drafts", "reject")


def test_what_people_decided_makes_a_curated_data_set_that_verifies(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "curated"
    make(run, questions_file(tmp_path))
    bad, good, *_ = rows_of(run, "sums")
    decide(run, "sums", bad, "reject", reason="too easy")
    decide(run, "sums", good, "fix", field="remark", value='"signed by Ann"')
    heard = merge(read_decisions(run))
    apply_rulings(run, out, heard.rulings, FileEntry(path=str(run / LOG), rows=2, sha256="0"))
    assert verify_run(out).problems == []
    sums = rows_of(out, "sums")
    assert bad.uid not in {row.uid for row in sums} and "signed by Ann" in {row.remark for row in sums}
    conversations = {row.question_id: row for row in rows_of(out, "sft")}
    assert bad.question_id not in conversations
    assert "(signed by Ann)" in conversations[good.question_id].messages[-1].content
    assert bad.question not in (out / "sums.txt").read_text()


def test_what_people_rejected_is_not_made_again(tmp_path: Path) -> None:
    run, source = tmp_path / "run", questions_file(tmp_path)
    make(run, source)
    bad = rows_of(run, "sums")[0]
    decide(run, "sums", bad, "reject", reason="too easy")
    make(tmp_path / "next", source, verdicts=(run,))
    assert bad.question_id not in {row.question_id for row in rows_of(tmp_path / "next", "sums")}


def test_a_training_set_is_made_of_it(finished: Path, tmp_path: Path) -> None:
    make_training_set([finished], tmp_path / "set", ViewConfig(validation_share=0.0))
    sft = list(read_rows(sorted((tmp_path / "set" / "sft").rglob("*.parquet")), SftRow))
    rl = list(read_rows(sorted((tmp_path / "set" / "rl").rglob("*.parquet")), RlRow))
    assert {row.data_source for row in sft} == {"toy_sums"} and len(sft) == 4
    assert {row.reward_model.ground_truth.protocol for row in rl} == {"react"} and len(rl) == len(ASKED)


def test_its_declaration_names_only_what_is_there() -> None:
    dataset = load_dataset("toy_sums")
    references = [dataset.config, dataset.take_in, dataset.checks, dataset.card, *dataset.lists.values()]
    references += [each for stage in dataset.stages for each in (stage.run, stage.follow, stage.is_wanted) if each]
    references += [each for t in dataset.all_tables.values() for each in (t.made_of, t.refit, t.sft) if each]
    assert all(callable(resolve(each)) for each in references) and import_module("toy_sums").DATASET is dataset


def test_what_it_declares_makes_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[RunRequest] = []
    monkeypatch.setattr(runs, "_executor", lambda prefect: asked.append)
    monkeypatch.setattr("trailforge.inspector.terminal.show_end", lambda manifest, out: None)
    monkeypatch.setattr("trailforge.flows.given.check_given", lambda *given: None)  # what is asked for is not there
    app, command = typer.Typer(), CliRunner()
    runs.register(app)
    help = " ".join(command.invoke(app, ["toy-sums", "--help"], env={"COLUMNS": "300"}).output.split())
    for part in ("Turn questions that ask for a sum", "--questions", "--most", "The largest sum.", "--dry-run"):
        assert part in help
    assert "trailforge toy-sums --questions sums.jsonl --most 10" in help
    given = ["toy-sums", "--questions", str(tmp_path / "q.jsonl"), "--most", "9", "--limit", "2"]
    done = command.invoke(app, [*given, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert [(each.dataset, each.files, each.options, each.limit, each.preset) for each in asked] == [
        ("toy_sums", (tmp_path / "q.jsonl",), {"most": 9}, 2, "toy")
    ]


def test_what_it_declares_makes_its_flow() -> None:
    from trailforge.flows.data_sets import flow_of

    shown = flow_of("toy_sums").parameters.properties
    assert shown["most"]["description"] == "The largest sum." and {"questions", "limit", "out"} <= shown.keys()


def test_one_that_cannot_be_loaded_takes_no_command_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> DataSet:
        if name == "mcts_trajectories":
            raise ImportError(name)
        return load_dataset(name)

    monkeypatch.setattr("trailforge.pipelines.datasets.load_dataset", load)
    runs.register(app := typer.Typer())
    assert "toy-sums" in [each.name for each in app.registered_commands]


def test_its_rows_are_shown_in_a_terminal(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_rows(finished)
    first = capsys.readouterr().out
    assert "sums " in first and "remark" in first
    show_rows(finished, table="drafts", count=9)
    assert capsys.readouterr().out.count("drafts ") == 4
    with pytest.raises(InvalidInput, match="no row nobody in sums, drafts, sft, rejected"):
        show_rows(finished, id="nobody")


def test_its_rows_are_shown_on_the_page(finished: Path) -> None:
    testing = pytest.importorskip("streamlit.testing.v1")

    def script(folder: str) -> None:
        from pathlib import Path

        from trailforge.inspector.page import show_rows
        from trailforge.inspector.showing import show_of
        from trailforge.inspector.views import overview
        from trailforge.pipelines.runs.finished import open_run

        run = open_run(Path(folder))
        overview.show(run)
        show_rows(run, show_of(run.dataset))

    page = testing.AppTest.from_function(script, args=(str(finished),), default_timeout=300).run()
    assert not page.exception
    assert "remark" in "".join(each.proto.body for each in page.get("html"))
