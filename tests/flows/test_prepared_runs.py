"""What a start finds in a run's folder, and what it leaves to do; no server, no flow."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.pipelines.support import CONFIG, IN_PROCESS, ScriptedWork, make_run, questions_file
from tests.support.files import contents
from trailforge.flows.runs import carried_out, run_shown, with_redo
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.generators.mcts_trajectories.work import take_in
from trailforge.inference import Usage
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.engine.progress import read_begun
from trailforge.pipelines.engine.shards import Receipt, receipt_path, run_pipeline, write_receipt
from trailforge.pipelines.runs.finish import CARD, MANIFEST, read_manifest
from trailforge.pipelines.runs.intake import Settings, config_of, read_settings, write_settings
from trailforge.pipelines.runs.stages import planned_stages
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import Manifest, OutputError


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `questions.jsonl` and its finished `run`, of which the replies were asked for anew once."""
    folder = tmp_path_factory.mktemp("made")
    make_run(folder / "run", questions_file(folder / "questions.jsonl"), replace(CONFIG, redo=1))
    return folder


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    """The run, to do with it what one likes."""
    return Path(shutil.copytree(made, tmp_path / "made")) / "run"


def start(out: Path, monkeypatch: pytest.MonkeyPatch, *, redo: bool = False) -> tuple[Manifest, int]:
    """Start the same command; the manifest, and how often there was work."""
    times = 0

    def work(settings: Settings, config: MctsRunConfig) -> None:
        nonlocal times
        times += 1
        scripted = ScriptedWork(folder=str(out), run_id=settings.run_id, config=config)
        run_pipeline(scripted, out, settings.shards, IN_PROCESS)

    monkeypatch.setattr("trailforge.flows.runs.publish", lambda manifest: None)
    source = out.parent / "questions.jsonl"
    manifest = carried_out(
        out,
        CONFIG,
        MCTS,
        lambda config: take_in(source, out, config, None),
        work,
        replace_run=False,
        redo_truncated=redo,
    )
    return manifest, times


@pytest.mark.parametrize("name", [CARD, "plots/funnel.png"])
def test_a_missing_card_or_figure_needs_no_work(out: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (out / name).unlink()
    _, times = start(out, monkeypatch)
    assert times == 0 and (out / name).exists() and verify_run(out).problems == []


def test_a_cut_manifest_needs_no_work(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (out / MANIFEST).write_text("{")
    _, times = start(out, monkeypatch)
    assert times == 0 and verify_run(out).problems == []


def test_a_finished_run_without_some_receipt_is_not_finished(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    next(out.glob("shards/*.json")).unlink()
    _, times = start(out, monkeypatch)
    assert times == 1 and verify_run(out).problems == []


@pytest.mark.parametrize("killed_in", ["write_settings", "output_errors"])
@pytest.mark.parametrize("goes_on_with_redo", [True, False])
def test_a_second_redo_that_was_killed_while_rows_were_dropped(
    out: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str, goes_on_with_redo: bool
) -> None:
    """The same command is the second redo still, and the one without goes on with what `run.json` says."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(f"trailforge.flows.runs.{killed_in}", killed)
        start(out, patch, redo=True)
    assert not list(out.glob("shards/*.json"))
    manifest, times = start(out, monkeypatch, redo=goes_on_with_redo)
    settings = read_settings(out)
    assert settings is not None and times == 1 and manifest.run_id == settings.run_id
    expected = 2 if goes_on_with_redo or killed_in == "output_errors" else 1
    assert config_of(settings)["redo"] == expected and verify_run(out).problems == []


def test_a_redo_of_a_run_whose_inputs_another_version_wrote(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows in other bytes."""
    settings = read_settings(out)
    assert settings is not None
    files = {entry.path: entry for entry in settings.files}
    for shard in settings.shards:
        path = out / shard.input
        pq.write_table(pq.read_table(path), path, compression="gzip")
        files[shard.input] = replace(files[shard.input], sha256=sha256_of(path))
    write_settings(out, replace(settings, files=tuple(files.values())))
    start(out, monkeypatch, redo=True)
    settings = read_settings(out)
    assert settings is not None and config_of(settings)["redo"] == 2


def test_a_redo_with_other_items_is_refused(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = out.parent / "questions.jsonl"
    questions.write_text(questions.read_text().replace("?", " then?"))
    before = contents(out)
    with pytest.raises(OutputError, match="redo: 1 -> 2"):
        start(out, monkeypatch, redo=True)
    assert contents(out) == before


def test_a_redo_that_goes_on_is_no_further_one(out: Path) -> None:
    (out / MANIFEST).unlink()
    assert with_redo(out, CONFIG, True).redo == 1


def test_a_stale_receipt_counts_as_not_finished_and_goes_before_its_shard_runs(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = read_settings(out)
    assert settings is not None and read_manifest(out) is not None
    first, *others = (replace(shard, made_of="now") for shard in settings.shards)
    path = receipt_path(out, first)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"made_of": "before"}))
    (stage,) = planned_stages(MCTS, out, settings)
    stage = replace(stage, shards=(first, *others))
    shown: list[int] = []

    @contextlib.contextmanager
    def watch(*_: object, done_before: int, done: Callable[[], int], **__: object) -> Iterator[None]:
        shown.append(done_before)
        yield
        shown.append(done())

    def run() -> None:
        begun = read_begun(out)
        assert begun is not None and set(begun.finished) == {shard.name for shard in others}
        assert not path.exists()
        write_receipt(out, Receipt(shard=first.name, files=(), stages=(), usage=Usage(), made_of="now"))

    monkeypatch.setattr("trailforge.flows.runs.shown", watch)
    run_shown(out, [stage], stage.name, run, is_counted=False)
    assert shown == [sum(shard.rows for shard in others), settings.items]


def test_a_whole_run_stays_as_it_is(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(out)
    assert start(out, monkeypatch)[1] == 0 and contents(out) == before
