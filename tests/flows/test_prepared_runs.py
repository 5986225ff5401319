"""What a start finds in a run's folder, and what it leaves to do; no server, no flow."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.pipelines import support
from tests.pipelines.support import IN_PROCESS, ScriptedWork, make_run, questions_file
from tests.support.files import contents
from trailforge.flows.configuration import with_redo
from trailforge.flows.execute import Driver, RunRequest, StageToRun, at_work, execute
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.inference import Caps, Usage
from trailforge.pipelines.engine.files import sha256_of
from trailforge.pipelines.engine.pipeline import run_pipeline
from trailforge.pipelines.engine.progress import read_begun
from trailforge.pipelines.engine.shards import Receipt, receipt_path, write_receipt
from trailforge.pipelines.runs.config import OutputConfig
from trailforge.pipelines.runs.finish import CARD, MANIFEST, read_manifest
from trailforge.pipelines.runs.intake import config_of, read_settings, write_settings
from trailforge.pipelines.runs.stages import planned_stages
from trailforge.pipelines.runs.verify import verify_run
from trailforge.schemas import Manifest, OutputError

CONFIG = replace(support.CONFIG, output=OutputConfig(shard_size=3))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `questions.jsonl` and its finished `run`, of which the replies were asked for anew once."""
    folder = tmp_path_factory.mktemp("made")
    source = questions_file(folder / "questions.jsonl", count=6, broken_row=None)
    make_run(folder / "run", source, replace(CONFIG, redo=1))
    return folder


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    """The run, to do with it what one likes."""
    return Path(shutil.copytree(made, tmp_path / "made")) / "run"


class ScriptedDriver(Driver):
    """Runs stages with a scripted model, and counts them."""

    times = 0

    def run_stage(self, task: StageToRun) -> None:
        """See `Driver`."""
        self.times += 1
        scripted = ScriptedWork(folder=str(task.out), run_id=task.settings.run_id, config=task.config)
        run_pipeline(scripted, task.out, task.settings.shards, IN_PROCESS)


def start(out: Path, monkeypatch: pytest.MonkeyPatch, *, redo: bool = False) -> tuple[Manifest, int]:
    """Start the same command; the manifest, and how often there was work."""
    monkeypatch.setattr("trailforge.flows.execute.configuration_of", lambda *_, **__: CONFIG)
    monkeypatch.setattr("trailforge.flows.execute.check_reachable", lambda *_, **__: None)
    driver, source = ScriptedDriver(), out.parent / "questions.jsonl"
    request = RunRequest(dataset=MCTS.name, out=out, preset="msearcher", files=(source,), redo_truncated=redo)
    return execute(request, driver), driver.times


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


@pytest.mark.parametrize("killed_in", ["write_settings", "is_complete"])
@pytest.mark.parametrize("goes_on_with_redo", [True, False])
def test_a_second_redo_that_was_killed_while_rows_were_dropped(
    out: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str, goes_on_with_redo: bool
) -> None:
    """The same command is the second redo still, and the one without goes on with what `run.json` says."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(f"trailforge.flows.execute.{killed_in}", killed)
        start(out, patch, redo=True)
    assert not list(out.glob("shards/*.json"))
    manifest, times = start(out, monkeypatch, redo=goes_on_with_redo)
    settings = read_settings(out)
    assert settings is not None and times == 1 and manifest.run_id == settings.run_id
    expected = 2 if goes_on_with_redo or killed_in == "is_complete" else 1
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
    (planned,) = planned_stages(MCTS, out, settings)
    later = replace(MCTS, stages=(replace(planned.stage, follow=lambda *_: (first, *others), asks_model=False),))
    monkeypatch.setattr("trailforge.pipelines.runs.stages.following", lambda folder, before, follow: follow())
    shown: list[float] = []
    task = StageToRun(later.stages[0], later, out, settings, CONFIG, "", IN_PROCESS)
    with at_work(task, shown.append) as run:
        assert run is not None and run.shards == (first, *others)
        begun = read_begun(out)
        assert begun is not None and set(begun.finished) == {shard.name for shard in others}
        assert not path.exists()
        while not shown:  # until there was one look
            time.sleep(0.01)
        write_receipt(out, Receipt(shard=first.name, files=(), stages=(), usage=Usage(), made_of="now"))
    assert shown[0] == pytest.approx(100 * sum(shard.rows for shard in others) / settings.items) and shown[-1] == 100


@pytest.mark.parametrize("max_calls", [9, None])
def test_under_a_cap_a_stage_on_a_cluster_begins_when_no_worker_of_an_earlier_command_can_pay(
    max_calls: int | None, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what such a worker keeps after the ledger was read is nobody's, and the cap does not hold."""
    settings = read_settings(out)
    assert settings is not None
    (planned,) = planned_stages(MCTS, out, settings)
    waited: list[Path] = []
    monkeypatch.setattr("trailforge.flows.execute.await_earlier", lambda folder, *_: waited.append(folder))
    config = replace(CONFIG, caps=Caps(max_calls=max_calls))
    for arguments in (IN_PROCESS, ("--runner=dask", "--scheduler=tcp://127.0.0.1:1")):
        with at_work(StageToRun(planned.stage, MCTS, out, settings, config, "", arguments)):
            pass
    assert waited == ([out.absolute()] if max_calls else [])


def test_a_whole_run_stays_as_it_is(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(out)
    assert start(out, monkeypatch)[1] == 0 and contents(out) == before
