"""Make one night's data: the data sets of a window of documents, each by its own flow.

Windows of earlier days that are in the same root and not complete are finished first, as they were begun. Of each,
all that its data sets need is looked for before the first of them is begun (`flows.nights.readiness`). Whatever goes
wrong with one, the others are made and retention is done; then the run fails with the first error, or for the figures
that are outside of their bands.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, tags, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.events import emit_event
from prefect.runtime import flow_run

from trailforge.curation import copies
from trailforge.flows.data_sets import flow_of
from trailforge.flows.nights import retention, windows
from trailforge.flows.nights.bands import Bands, Breach, outside, outside_of_window, read_bands
from trailforge.flows.nights.makes import OF_DOCUMENTS, PlannedDataSet, read_makes
from trailforge.flows.nights.readiness import NOT_GIVEN, check_ready, configured_plan, given_to, lacking
from trailforge.flows.nights.replanning import begin, is_begun, keep_plan
from trailforge.flows.nights.status import describe_windows, read_windows
from trailforge.flows.nights.windows import DataSetFigures, TakenDocuments, Window, WindowPlan
from trailforge.inference import Caps
from trailforge.pipelines import dataset_names, load_dataset, resolve
from trailforge.pipelines.engine import exclusive, remove_temporary_files
from trailforge.pipelines.engine.files import is_held
from trailforge.pipelines.runs import MANIFEST, stage
from trailforge.presets import load_bands, load_night
from trailforge.schemas import InvalidInput, Manifest, NothingLeft, NotReady, OutOfBand, StageCount, TrailforgeError

EVENT = "trailforge.band.breached"
"""Name of the event that automations listen for."""
SUMMARY = "night-summary"
_NO_DOCUMENTS = "no document of these days"
_NO_QUESTIONS = "the bundles gave no factual question"
_QUESTIONS = "questions"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """The settings with which a window is made that do not affect its rows."""

    model: str | None
    caps: Caps | None
    bands: Bands
    cluster: str = ""


@flow(name="nightly")
def nightly(
    documents: list[str],
    out: Path,
    day: date | None = None,
    window_days: int = 1,
    makes: str = "nightly",
    kg: Path | None = None,
    model: str | None = None,
    model_name: str | None = None,
    most_documents: int | None = None,
    most_questions: int | None = None,
    distractors: int = 16,
    benchmarks: list[Path] | None = None,
    verdicts: list[str] | None = None,
    bands: str | None = None,
    caps: Caps | None = None,
    keep_windows: int | None = None,
    curated: list[Path] | None = None,
    seed: int = 0,
    replan: list[str] | None = None,
    cluster: str = "",
) -> Window:
    """Make the data of one window in `out/DAY/`: of the documents published in the `window_days` days before `day`.

    `documents`: files, or patterns of files. `day`: None is the day, in UTC, for which the run was scheduled, however
    late it starts. `makes`: a file with the list of data sets (`presets/nights/`). `kg`: folder of a store; None leaves
    out what needs one. `most_…`: the first so many. `verdicts`: folders of curated runs or logs of theirs, or patterns
    of these, as they are when the window takes its documents. `bands`: a file of bands; None: no alerts. `caps`:
    of each data set of a window. `keep_windows`, `curated`: see `flows.nights.retention`; None removes nothing, and
    never what this run made goes. `replan`: entries of the day's window that paid for calls, have no row, and are to
    go by other parameters than they were begun with. `cluster`: as `--cluster` of a data set's command. Raises at the
    end: the first error, with the figures outside of their bands in its message, or `OutOfBand` when there was none.
    """
    means = WindowSettings(model=model, caps=caps, bands=_read_named_bands(bands), cluster=cluster)
    plan = WindowPlan(
        day=(day or flow_run.scheduled_start_time.astimezone(UTC).date()).isoformat(),
        window_days=window_days,
        documents=tuple(documents),
        makes=read_makes(load_night(makes), source=makes),
        kg=str(kg or ""),
        model_name=model_name,
        benchmarks=tuple(map(str, benchmarks or ())),
        most_documents=most_documents,
        most_questions=most_questions,
        distractors=distractors,
        seed=seed,
        verdicts=tuple(verdicts or ()),
    )
    _check_entries(replan or (), plan, makes)
    own = configured_plan(plan)
    retention.check_keep(1 if keep_windows is None else keep_windows)
    windows.find_files(own.documents)  # of no file, the plan would stay unfinished for ever
    begin(out, own, replan or ())
    before = [folder for folder in windows.unfinished_windows(out, before=own.day) if not is_held(folder)]
    folders = [*before, out / own.day]
    made, errors = _each(folders, own, means)
    if keep_windows is not None:
        errors += _retain(out, keep_windows, curated or [], spare=[folder.name for folder in folders])
    _raise(errors, [f"{window.day}, {breach}" for window in made for breach in window.breaches])
    return made[-1]


def _read_named_bands(name: str | None) -> Bands:
    return {} if name is None else read_bands(load_bands(name), source=name, datasets=dataset_names())


def _check_entries(named: Sequence[str], plan: WindowPlan, source: str) -> None:
    folders = [make.folder for make in plan.makes]
    for name in named:
        if name not in folders:
            raise InvalidInput(f"no entry {name!r}; there are {', '.join(folders)}", file=source, field="replan")


def _each(
    folders: Sequence[Path], own: WindowPlan, means: WindowSettings
) -> tuple[list[Window], list[TrailforgeError]]:
    """Make all windows, the last one by its own plan. One that cannot be made keeps no other from it."""
    made: list[Window] = []
    errors: list[TrailforgeError] = []
    for folder in folders:
        try:
            plan = own if folder.name == own.day else windows.read_plan(folder)
            made.append(make_window(folder, plan, means))
        except TrailforgeError as error:
            for line in error.faults if isinstance(error, NotReady) else [str(error)]:
                get_run_logger().error("window %s: %s", folder.name, line)
            error.args = (f"window {folder}: {error}",)
            errors.append(error)
    with contextlib.suppress(Exception):  # a server of Prefect's that went away ends no night, and hides no error of it
        summarize(folders)
    return made, errors


def _retain(root: Path, keep: int, curated: Sequence[Path], *, spare: Sequence[str]) -> list[TrailforgeError]:
    try:
        decided = retention.decide_retention(root, keep, curated=curated, spare=spare)
        for fate in retention.retain(root, decided):
            get_run_logger().info("%s: %s", fate.folder, fate.kept_for or "removed")
    except TrailforgeError as error:
        get_run_logger().error("retention: %s", error)
        return [error]
    return []


def _raise(errors: Sequence[TrailforgeError], breaches: Sequence[str]) -> None:
    """The first error, which tells the breaches, too, or `OutOfBand` for these alone."""
    for breach in breaches:
        get_run_logger().error("outside of its band: %s", breach)
    if errors and breaches:
        errors[0].args = (f"{errors[0]}; outside of their bands: {'; '.join(breaches)}",)
    if errors:
        raise errors[0]
    if breaches:
        raise OutOfBand("; ".join(breaches))


def make_window(folder: Path, plan: WindowPlan, means: WindowSettings) -> Window:
    """Make whatever is missing of the window in `folder` and return it; `plan` decides its rows, and `means` are all
    other settings. A complete window stays as it is and raises no alert again.
    """
    with exclusive(folder):
        remove_temporary_files(folder, windows.FILES.__contains__)
        keep_plan(folder, plan)
        done = windows.read_window(folder)
        if done is not None:
            return replace(done, breaches=())
        plan = configured_plan(plan)
        keep_plan(folder, plan)
        taken = windows.take(folder, plan)
        if taken.books.accepted:
            unfinished = [make for make in plan.makes if not (folder / make.folder / MANIFEST).is_file()]
            check_ready(plan, [make for make in unfinished if not lacking(plan, make)], means.model)
        making = _Making(folder, plan, means)
        questions, datasets = making.all(taken)
        counted = {"documents": taken.books.accepted, "questions": questions.accepted}
        making.alert_outside(outside_of_window(**counted, bands=means.bands))
        window = Window(
            day=plan.day,
            first_day=plan.first_day,
            documents=taken.books,
            questions=questions,
            datasets=datasets,
            breaches=tuple(breach.line for breach in making.breaches),
        )
        windows.finish(folder, window)
        return window


class _Making:
    """One window, data set by data set. A finished run ends at once, a stopped one goes on."""

    def __init__(self, folder: Path, plan: WindowPlan, means: WindowSettings) -> None:
        self._folder, self._plan, self._means = folder, plan, means
        self._verdicts = copies(folder / windows.VERDICTS)
        self.breaches: list[Breach] = []

    def all(self, taken: TakenDocuments) -> tuple[StageCount, tuple[DataSetFigures, ...]]:
        """Make them in their order; also the counts of the questions that some are asked."""
        made: dict[str, DataSetFigures] = {}
        questions: StageCount | None = None
        for make in self._plan.makes:
            if make.input == OF_DOCUMENTS:
                why_not = "" if taken.books.accepted else _NO_DOCUMENTS
            elif not (why_not := made[make.input].skipped):
                path = self._folder / windows.QUESTIONS
                questions = questions or self._write_questions(make.input, path)
                why_not = "" if questions.accepted else _NO_QUESTIONS
            made[make.folder] = self._make(make, why_not)
        return questions or StageCount(name=_QUESTIONS, inputs=0, accepted=0), tuple(made.values())

    def _write_questions(self, giver: str, path: Path) -> StageCount:
        """What the rows of an earlier run ask, as a file for the runs after it."""
        dataset = next(each.dataset for each in self._plan.makes if each.folder == giver)
        ask_elsewhere = resolve(load_dataset(dataset).ask_elsewhere or "")
        questions, left_out = ask_elsewhere(self._folder / giver, self._plan.distractors)
        windows.write_lines(path, questions)
        inputs = len(questions) + len(left_out)
        return stage(_QUESTIONS, inputs=inputs, accepted=len(questions), rejected=left_out)

    def _make(self, make: PlannedDataSet, why_not: str) -> DataSetFigures:
        if not_given := lacking(self._plan, make):
            why_not = NOT_GIVEN[not_given]
        if why_not:
            return DataSetFigures(dataset=make.dataset, folder=make.folder, skipped=why_not)
        try:
            manifest = self._run(make, given_to(self._plan, make))
        except NothingLeft as error:
            return DataSetFigures(dataset=make.dataset, folder=make.folder, skipped=error.problem)
        self.alert_outside(outside(manifest, self._means.bands))
        counted = load_dataset(make.dataset).counted
        return DataSetFigures(
            dataset=make.dataset,
            folder=make.folder,
            run_id=manifest.run_id,
            rows=next((line.accepted for line in manifest.stages if line.name == counted), 0),
            calls=manifest.calls,
            tokens=manifest.prompt_tokens + manifest.completion_tokens,
            cost=manifest.cost,
        )

    def _run(self, make: PlannedDataSet, given: Mapping[str, Any]) -> Manifest:
        """By the data set's own flow."""
        plan, means = self._plan, self._means
        dataset, is_first = load_dataset(make.dataset), make.input == OF_DOCUMENTS
        path = self._folder / (windows.DOCUMENTS if is_first else windows.QUESTIONS)
        given_file = [path] if dataset.files and dataset.files.many else path
        with tags(make.dataset, plan.day):
            return flow_of(make.dataset)(
                out=self._folder / make.folder,
                preset=make.preset,
                model=means.model,
                model_name=plan.model_name,
                seed=plan.seed,
                caps=means.caps,
                cluster=means.cluster,
                verdicts=self._verdicts,
                replace_run=not is_begun(self._folder / make.folder),
                limit=plan.most_documents if is_first else plan.most_questions,
                **{dataset.option.removeprefix("--"): given_file},
                **given,
            )

    def alert_outside(self, breaches: list[Breach]) -> None:
        """Note the figures that are outside of their bands, and alert whoever listens."""
        if breaches:
            alert(breaches, self._plan.day, self._folder)
        self.breaches += breaches


@task(name="summarize")
def summarize(folders: Sequence[Path]) -> None:
    """Publish the state of this night's windows as the Prefect artifact `night-summary`, whose key keeps those of all
    nights.
    """
    of_tonight = [
        window for window in read_windows(folders[-1].parent) if window.day in {each.name for each in folders}
    ]
    lines = ["```", *describe_windows(of_tonight), "```"]
    create_markdown_artifact(markdown="\n".join(lines), key=SUMMARY, description=folders[-1].name)


@task(name="alert")
def alert(breaches: list[Breach], day: str, folder: Path) -> None:
    """Send a Prefect event for each figure outside of its band, and publish a table of them. After a kill they may be
    sent once more.
    """
    for breach in breaches:
        emit_event(
            event=EVENT,
            resource={
                "prefect.resource.id": f"trailforge.dataset.{breach.dataset}",
                "prefect.resource.name": breach.dataset,
                "trailforge.figure": breach.figure,
                "trailforge.day": day,
            },
            payload={"text": breach.line, "day": day, "folder": str(folder.absolute())},
        )
    table = [{"figure": b.figure, "value": b.value, "band": str(b.band)} for b in breaches]
    stem = breaches[0].dataset.replace("_", "-")
    create_table_artifact(table=table, key=f"{stem}-outside-bands", description=f"{folder.name}, {stem}")
