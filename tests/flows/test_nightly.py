"""The nightly flow: earlier windows first, errors after all is made, alerts at the end, nothing made twice."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prefect.context import TagsContext
from typer.testing import CliRunner

from tests.support import nightly_world
from tests.support.bundle_world import write_documents
from tests.support.files import contents
from tests.support.model_server import running, stats
from trailforge.cli import app
from trailforge.curation.verdicts import append_pattern
from trailforge.flows import nightly as module
from trailforge.flows.nightly import nightly
from trailforge.flows.nights import windows
from trailforge.flows.nights.makes import read_makes
from trailforge.flows.nights.replanning import begin
from trailforge.flows.nights.windows import Window, WindowPlan, read_window
from trailforge.pipelines.engine.files import exclusive
from trailforge.pipelines.engine.shards import Receipt, write_receipt
from trailforge.presets import load_night
from trailforge.schemas import (
    PATTERNS_LOG,
    InvalidInput,
    NotReady,
    OutOfBand,
    OutputError,
    PatternDecision,
    RejectedRow,
    ServerUnavailable,
    StageCount,
    from_dict,
    read_rows,
)

pytestmark = pytest.mark.slow

NOBODY = "http://127.0.0.1:9/v1"
FIRST, EMPTY = date(2026, 11, 19), date(2026, 12, 5)
BANDS = """\
mcts_trajectories: {calls_per_accepted_row: {most: 0.5}}
window: {documents: {least: 1}, questions: {least: 1}}
"""


@dataclass(frozen=True)
class Lab:
    """Documents of the day before the first window, a preset, a model server."""

    folder: Path
    url: str

    @property
    def out(self) -> Path:
        """The root."""
        return self.folder / "out"

    def run(self, day: date | None, **options: Any) -> Window:
        """The flow, without a graph."""
        given = {"documents": [str(self.folder / "*.jsonl")], "model": self.url}
        given |= options if "makes" in options else {"makes": self.makes(), **options}
        made = nightly(out=self.out, day=day, **given)
        assert isinstance(made, Window)
        return made

    @property
    def preset(self) -> str:
        """For all data sets."""
        return str(self.folder / "preset.yaml")

    def makes(self, preset: str = "", kg_preset: str = "dynasearcher") -> str:
        """The list of data sets."""
        path = self.folder / "makes.yaml"
        return str(nightly_world.write_makes(path, preset or self.preset, kg_preset))

    def asked(self, day: date, **changes: Any) -> WindowPlan:
        """What a run for the day is asked for, as `run` asks."""
        plan = WindowPlan(
            day=day.isoformat(), window_days=1, documents=(str(self.folder / "*.jsonl"),),
            makes=read_makes(load_night(self.makes()), source=""), kg="", model_name=None,
            benchmarks=(), most_documents=None, most_questions=None, distractors=16, seed=0,
        )  # fmt: skip
        return replace(plan, **changes)

    def begin(self, day: date, **changes: Any) -> Path:
        """Begin a window and stop at once; its plan's file."""
        begin(self.out, self.asked(day, **changes))
        return self.out / day.isoformat() / windows.PLAN

    def plan(self, day: date) -> WindowPlan:
        """Of a window that was begun."""
        return from_dict(WindowPlan, json.loads((self.out / day.isoformat() / windows.PLAN).read_text()))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(nightly=1) as served:
        yield served


@pytest.fixture
def lab(tmp_path: Path, url: str) -> Lab:
    write_documents(tmp_path / "d.jsonl", nightly_world.documents_of(["2026-11-18"], [5]))
    nightly_world.write_preset(tmp_path / "preset.yaml", url)
    return Lab(tmp_path, url)


def test_a_data_set_that_is_left_out_names_the_parameter_that_was_not_given(lab: Lab) -> None:
    """It named the first that the data set needs, were that one given or not."""
    make = module.PlannedDataSet(
        folder="kg", dataset="kg_trajectories", preset="dynasearcher", needs=("benchmarks", "kg")
    )
    making = module._Making(
        lab.folder,
        lab.asked(FIRST, benchmarks=("bench.jsonl",)),
        module.WindowSettings(model=None, caps=None, bands={}),
    )
    assert making._make(make, "").skipped == "no knowledge graph was given"


def test_a_stopped_window_is_finished_as_it_was_begun_and_complete_ones_stay(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[dict[str, Any]] = []
    monkeypatch.setattr(module, "emit_event", lambda **event: events.append(event))
    (lab.folder / "bands.yaml").write_text(BANDS)
    bands = str(lab.folder / "bands.yaml")
    with pytest.raises(
        NotReady, match=r"bundles .*, mcts .*: model server: http://127\.0\.0\.1:9/v1: nothing answers; "
    ):
        lab.run(FIRST, model=NOBODY, most_questions=1)
    begun = lab.out / FIRST.isoformat()
    assert read_window(begun) is None and (begun / windows.TAKEN).exists()
    (lab.folder / "d.jsonl").write_text("")

    mcts_is = r"2026-11-19, mcts_trajectories: calls_per_accepted_row is .* at most 0\.5"
    with pytest.raises(OutOfBand, match=mcts_is + r"; 2026-12-05, window: documents is 0, should be at least 1$"):
        lab.run(EMPTY, seed=3, bands=bands)
    assert [(plan.most_questions, plan.seed) for plan in map(lab.plan, (FIRST, EMPTY))] == [(1, 0), (None, 3)]
    first, empty = read_window(begun), read_window(lab.out / EMPTY.isoformat())
    assert first is not None and empty is not None and first.documents.accepted == 4
    bundles, mcts, kg = first.datasets
    assert bundles.rows > 0 and mcts.rows > 0 and kg.skipped == "no knowledge graph was given"
    assert [event["payload"]["text"] for event in events] == [*first.breaches, *empty.breaches]
    assert events[0]["resource"]["prefect.resource.id"] == "trailforge.dataset.mcts_trajectories"

    before, calls = contents(lab.out), stats(lab.url)["calls"]
    assert lab.run(FIRST, model=NOBODY, most_questions=1, bands=bands) == replace(first, breaches=())
    with pytest.raises(OutputError, match="seed: 0 -> 9"):
        lab.run(FIRST, most_questions=1, seed=9)
    assert (contents(lab.out), stats(lab.url)["calls"], len(events)) == (before, calls, 2)


def test_the_runs_of_a_night_work_on_the_cluster_that_is_named(lab: Lab) -> None:
    """It is one that they refuse, each as its own command does."""
    with pytest.raises(InvalidInput, match=r"tcp://192\.0\.2\.5:8786 is an open scheduler on a network"):
        lab.run(FIRST, cluster="tcp://192.0.2.5:8786")


def test_the_runs_of_a_night_are_found_by_data_set_and_window(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []

    def refuse(**_: object) -> None:
        seen.append(TagsContext.get().current_tags)
        raise InvalidInput("not today")

    monkeypatch.setattr(module, "flow_of", lambda name: refuse)
    with pytest.raises(InvalidInput, match="not today"):
        lab.run(FIRST)
    assert seen == [{"document_bundles", "2026-11-19"}]


def test_windows_that_are_held_or_cannot_be_finished_keep_no_other_from_being_made(lab: Lab) -> None:
    held, unread, gone = FIRST, FIRST - timedelta(days=2), FIRST - timedelta(days=1)
    lab.begin(held)
    lab.begin(unread).write_text("of another trailforge")
    lab.begin(gone, makes=(replace(lab.asked(gone).makes[0], preset="nowhere"),))
    with exclusive(lab.out / held.isoformat()), pytest.raises(OutputError, match="another run is writing here"):
        lab.run(held)
    with exclusive(lab.out / held.isoformat()), pytest.raises(OutputError, match=r"2026-11-17/plan\.json was not"):
        lab.run(EMPTY, model=NOBODY)
    assert read_window(lab.out / EMPTY.isoformat()) is not None
    assert [read_window(lab.out / day.isoformat()) for day in (held, unread, gone)] == [None] * 3


def test_a_preset_that_has_changed_since_is_named_and_keeps_the_rows_that_it_made(lab: Lab) -> None:
    folder = lab.out / FIRST.isoformat()
    with pytest.raises(NotReady):
        lab.run(FIRST, model=NOBODY)
    then = lab.plan(FIRST)
    preset = lab.folder / "preset.yaml"
    preset.write_text(preset.read_text().replace("grounded: false", "grounded: true"))
    with pytest.raises(NotReady):  # a later night goes by the preset as it is now: nothing was made by the other
        lab.run(EMPTY, model=NOBODY)
    now = lab.plan(FIRST)
    assert [a.config_hash == b.config_hash for a, b in zip(then.makes, now.makes, strict=True)] == [True, False, True]
    write_receipt(folder / "mcts", Receipt(shard="part-00000-0123456789ab", files=(), stages=()))
    preset.write_text(preset.read_text().replace("grounded: true", "grounded: false"))
    changed = (
        f"content of mcts's preset, benchmarks or graph: {now.makes[1].config_hash} -> {then.makes[1].config_hash}"
    )
    with pytest.raises(
        OutputError, match=rf"{changed}\), and mcts had begun; give the old parameters, or move \S+/mcts away"
    ):
        lab.run(EMPTY + timedelta(days=1), model=NOBODY)


def test_errors_breaches_and_retention_keep_none_of_each_other_back(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def stand_in(folder: Path, plan: WindowPlan, means: module.WindowSettings) -> Window:
        if plan.day == FIRST.isoformat():
            raise ServerUnavailable("nothing answers")
        books = StageCount(name="window", inputs=0, accepted=0)
        window = Window(day=plan.day, first_day=plan.first_day, documents=books, questions=books, datasets=(),
                        breaches=("window: documents is 0",))  # fmt: skip
        windows.finish(folder, window)
        return window

    monkeypatch.setattr(module, "make_window", stand_in)
    lab.begin(FIRST)
    for day in ("2026-10-01", "2026-12-30"):
        (lab.out / day).mkdir()
        (lab.out / day / windows.DONE).write_text("{}")
    told = "; outside of their bands: 2026-12-05, window: documents is 0$"
    with pytest.raises(ServerUnavailable, match=f"nothing answers{told}"):
        lab.run(EMPTY, keep_windows=1)
    # Of the two complete ones beside the newest, the one that the run made stays.
    left = sorted(path.name for path in lab.out.iterdir())
    assert left == [FIRST.isoformat(), EMPTY.isoformat(), "2026-12-30"]
    shutil.rmtree(lab.out)

    def full(*_: object, **__: object) -> list[object]:
        raise OutputError("the disk is full")

    monkeypatch.setattr(module.retention, "retain", full)
    with pytest.raises(OutputError, match=f"the disk is full{told}"):
        lab.run(EMPTY, keep_windows=1)


def test_a_window_hears_people_as_they_spoke_when_it_began(lab: Lab) -> None:
    before = lab.out / "2026-11-18" / "bundles"
    title = nightly_world.documents_of(["2026-11-18"], [5])[0].title
    word = PatternDecision(
        run_id="r", field="title", pattern=re.escape(title), who="ben", when="2026-11-18T09:00:00.000000Z",
        action="refuse", reason="dull",
    )  # fmt: skip
    before.mkdir(parents=True)
    append_pattern(before, word)
    heard = {"verdicts": [str(lab.out / "*" / "*")]}
    with pytest.raises(NotReady):
        lab.run(FIRST, model=NOBODY, **heard)
    append_pattern(before, replace(word, pattern="."))
    window = lab.run(FIRST, **heard)
    assert window.documents.accepted == 4
    rejected = read_rows(sorted((lab.out / FIRST.isoformat() / "bundles/rejected").glob("*.parquet")), RejectedRow)
    assert [row.reason for row in rejected].count("refused_pattern") == 1
    taken = json.loads((lab.out / FIRST.isoformat() / windows.TAKEN).read_text())
    assert [(each["path"], each["rows"]) for each in taken["verdicts"]] == [(str(before / PATTERNS_LOG), 1)]


def test_what_cannot_be_is_refused_before_anything_is_made(lab: Lab) -> None:
    (lab.folder / "bands.yaml").write_text("window: {documents: {atleast: 1}}\n")
    graph = nightly_world.graph_of(lab.folder / "kg", [5])
    wrong: list[tuple[str, dict[str, Any]]] = [
        (r"window\.documents", {"bands": str(lab.folder / "bands.yaml")}),
        ("no preset 'nope'", {"makes": "nope"}),
        ("expected one list `makes`", {"makes": lab.preset}),
        ("holds no knowledge graph", {"kg": lab.folder}),
        ("no such file", {"benchmarks": [lab.folder / "none.jsonl"]}),
        ("no such file", {"documents": [str(lab.folder / "none.jsonl")]}),
        ("no file matches this name or pattern", {"documents": [str(lab.folder / "elsewhere/*.jsonl")]}),
        ("'keep'", {"keep_windows": -1}),
    ]
    for message, options in wrong:
        with pytest.raises(InvalidInput, match=message):
            lab.run(FIRST, **options)
    with pytest.raises(NotReady, match="want gold decompositions"):
        lab.run(FIRST, kg=graph, makes=lab.makes(kg_preset="demo"))
    with pytest.raises(NotReady, match=r"no preset 'nowhere'.*\(and 2 more\)$") as caught:
        lab.run(FIRST, kg=graph, makes=lab.makes(preset="nowhere", kg_preset="demo"))
    named = [line.partition(": ")[0] for line in caught.value.faults]
    assert named == ["bundles (preset nowhere)", "mcts (preset nowhere)", "kg (preset demo)"]
    with pytest.raises(InvalidInput, match="no entry 'kgs'; there are bundles, mcts, kg"):
        lab.run(FIRST, replan=["kgs"])
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
