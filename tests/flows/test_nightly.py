"""The nightly flow: earlier windows first, errors after all is made, alerts at the end, nothing made twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import app
from flows import nightly as module
from flows.nightly import nightly
from pipelines import windows
from pipelines.files import exclusive
from pipelines.windows import Window, WindowPlan, read_window
from schemas import InvalidInput, OutOfBand, OutputError, ServerUnavailable, from_dict, to_dict
from tests.support import nightly_world
from tests.support.bundle_world import write_documents
from tests.support.files import contents
from tests.support.model_server import running, stats

pytestmark = pytest.mark.slow

NOBODY = "http://127.0.0.1:9/v1"
FIRST, SECOND, EMPTY = date(2026, 11, 19), date(2026, 11, 20), date(2026, 12, 5)


@dataclass(frozen=True)
class Lab:
    """Documents of the days before both windows, a preset, a model server."""

    folder: Path
    url: str

    @property
    def out(self) -> Path:
        """The root."""
        return self.folder / "out"

    def run(self, day: date | None, **options: Any) -> Window:
        """The flow, without a graph."""
        preset = str(self.folder / "preset.yaml")
        given = {"model": self.url, "bundles_preset": preset, "mcts_preset": preset, **options}
        made = nightly([str(self.folder / "*.jsonl")], self.out, day, **given)
        assert isinstance(made, Window)
        return made

    def plan(self, day: date) -> WindowPlan:
        """Of a window that was begun."""
        return from_dict(WindowPlan, json.loads((self.out / day.isoformat() / windows.PLAN).read_text()))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(nightly=1) as served:
        yield served


@pytest.fixture
def lab(tmp_path: Path, url: str) -> Lab:
    write_documents(tmp_path / "d.jsonl", nightly_world.documents_of(["2026-11-18", "2026-11-19"], [5, 8]))
    nightly_world.write_preset(tmp_path / "preset.yaml")
    return Lab(tmp_path, url)


def test_a_stopped_window_is_finished_as_it_was_begun_before_the_next_and_complete_ones_stay(lab: Lab) -> None:
    with pytest.raises(ServerUnavailable):
        lab.run(FIRST, model=NOBODY, most_questions=1)
    begun = lab.out / FIRST.isoformat()
    assert read_window(begun) is None and (begun / windows.TAKEN).exists()
    (lab.folder / "d.jsonl").rename(lab.folder / "moved.jsonl")

    second = lab.run(SECOND, seed=3)
    first = read_window(begun)
    assert first is not None and (first.day, second.day) == (FIRST.isoformat(), SECOND.isoformat())
    assert [(plan.most_questions, plan.seed) for plan in map(lab.plan, (FIRST, SECOND))] == [(1, 0), (None, 3)]
    for window in (first, second):
        bundles, mcts, kg = window.datasets
        assert bundles.rows > 0 and mcts.rows > 0 and kg.skipped == "no knowledge graph was given"
        assert window.documents.accepted == 4
    before, calls = contents(lab.out), stats(lab.url)["calls"]
    assert lab.run(SECOND, model=NOBODY, seed=3) == second
    with pytest.raises(OutputError, match="seed: 3 -> 9"):
        lab.run(SECOND, seed=9)
    assert (contents(lab.out), stats(lab.url)["calls"]) == (before, calls)


def test_a_window_that_is_held_or_cannot_be_finished_keeps_no_other_from_being_made(lab: Lab) -> None:
    with pytest.raises(ServerUnavailable):
        lab.run(FIRST, model=NOBODY)
    with exclusive(lab.out / FIRST.isoformat()):
        assert lab.run(EMPTY, model=NOBODY).day == EMPTY.isoformat()
        with pytest.raises(OutputError, match="another run is writing here"):
            lab.run(FIRST)
    plan = lab.out / FIRST.isoformat() / windows.PLAN
    plan.write_text(json.dumps(to_dict(replace(lab.plan(FIRST), bundles_preset="nowhere"))))
    later = EMPTY + timedelta(days=1)
    with pytest.raises(InvalidInput, match="no preset 'nowhere'"):
        lab.run(later, model=NOBODY)
    assert read_window(lab.out / later.isoformat()) is not None
    assert read_window(lab.out / FIRST.isoformat()) is None


def test_figures_outside_of_their_bands_fail_the_run_when_all_is_there(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[dict[str, Any]] = []
    monkeypatch.setattr(module, "emit_event", lambda **event: events.append(event))
    bands = lab.folder / "bands.yaml"
    bands.write_text("mcts_trajectories: {calls_per_accepted_row: {most: 0.5}}\nwindow: {questions: {least: 1}}\n")
    with pytest.raises(OutOfBand, match=r"2026-11-19, mcts_trajectories: calls_per_accepted_row is .* at most 0\.5$"):
        lab.run(FIRST, bands=str(bands))
    window = read_window(lab.out / FIRST.isoformat())
    assert window is not None and window.datasets[1].rows > 0 and len(window.breaches) == 1
    (event,) = events
    assert event["resource"]["prefect.resource.id"] == "trailforge.dataset.mcts_trajectories"
    assert event["payload"]["told"] == window.breaches[0]
    assert lab.run(FIRST, bands=str(bands)).breaches == () and len(events) == 1


def test_what_cannot_be_is_refused_before_anything_is_made(lab: Lab) -> None:
    (lab.folder / "bands.yaml").write_text("window: {documents: {atleast: 1}}\n")
    graph = nightly_world.graph_of(lab.folder / "kg", [5])
    wrong: list[tuple[str, dict[str, Any]]] = [
        (r"window\.documents", {"bands": str(lab.folder / "bands.yaml")}),
        ("no preset 'nope'", {"mcts_preset": "nope"}),
        ("holds no knowledge graph", {"kg": lab.folder}),
        ("want gold decompositions", {"kg": graph, "kg_preset": "demo"}),
        ("no such file", {"benchmarks": [lab.folder / "none.jsonl"]}),
        ("'keep'", {"keep_windows": -1}),
    ]
    for message, options in wrong:
        with pytest.raises(InvalidInput, match=message):
            lab.run(FIRST, **options)
    assert not lab.out.exists()


def test_windows_without_fit_documents_are_complete_say_so_and_go_with_the_old_ones(lab: Lab) -> None:
    short = [replace(each, text="Too short.") for each in nightly_world.documents_of(["2026-11-29"], [0])]
    write_documents(lab.folder / "short.jsonl", short)
    unfit = lab.run(date(2026, 11, 30))
    assert {each.skipped for each in unfit.datasets[:2]} == {"no document is left to bundle; `rejected/` says why"}
    given = {"--documents": lab.folder / "*.jsonl", "--out": lab.out, "--day": EMPTY, "--keep-windows": 1}
    said = CliRunner().invoke(app, ["nightly", *(str(part) for option in given.items() for part in option)])
    assert said.exit_code == 0 and said.stdout.count("no document of these days") == 2, said.output
    assert [path.name for path in lab.out.iterdir()] == [EMPTY.isoformat()]


def test_the_day_is_the_one_for_which_the_run_was_scheduled(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    class Late:
        scheduled_start_time = datetime(2026, 12, 5, 23, 30, tzinfo=UTC)

    monkeypatch.setattr(module, "flow_run", Late)
    assert lab.run(None, window_days=3).first_day == "2026-12-02"
