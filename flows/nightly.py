"""The flow of a night: all three data sets of a window of documents, each by its own flow.

Windows of earlier days that are in the same root and not complete are finished first, as they were begun. Whatever goes
wrong with one, the others are made and retention is done; then the run fails with the first error, or for the figures
that are outside of their bands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date
from functools import partial
from pathlib import Path

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_table_artifact
from prefect.events import emit_event
from prefect.runtime import flow_run

from trailforge.curation.verdicts import awaits_curation, copied, copies
from trailforge.flows.configuration import configuration_of, configured
from trailforge.flows.document_bundles import document_bundles
from trailforge.flows.kg_trajectories import kg_trajectories
from trailforge.flows.mcts_trajectories import mcts_trajectories
from trailforge.flows.nights import retention, windows
from trailforge.flows.nights.bands import Bands, Breach, bands_of, outside, outside_of_window
from trailforge.flows.nights.questions import NAME as QUESTIONS
from trailforge.flows.nights.questions import write_questions
from trailforge.flows.nights.windows import Made, Taken, Window, WindowPlan
from trailforge.generators.document_bundles import DATASET as BUNDLES
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.kg_trajectories import DATASET as KG
from trailforge.generators.kg_trajectories.config import KgRunConfig
from trailforge.generators.mcts_trajectories import DATASET as MCTS
from trailforge.inference import Caps
from trailforge.pipelines.dataset import DataSet
from trailforge.pipelines.engine.files import exclusive, is_held, remove_temporary_files
from trailforge.presets import declared_datasets, load_bands
from trailforge.schemas import InvalidInput, Manifest, NothingLeft, OutOfBand, StageCount, TrailforgeError

EVENT = "trailforge.band.breached"
"""What an automation listens for."""
_NO_DOCUMENTS = "no document of these days"
_NO_QUESTIONS = "the bundles gave no factual question"
_NO_GRAPH = "no knowledge graph was given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a window is made with and does not decide its rows."""

    model: str | None
    caps: Caps | None
    bands: Bands


@flow(name="nightly")
def nightly(
    documents: list[str],
    out: Path,
    day: date | None = None,
    window_days: int = 1,
    bundles_preset: str = "r-search",
    mcts_preset: str = "msearcher",
    kg_preset: str = "dynasearcher",
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
) -> Window:
    """Make the data of one window in `out/DAY/`: of the documents published in the `window_days` days before `day`.

    `documents`: files, or patterns of files. `day`: None is the day, in UTC, for which the run was scheduled, however
    late it starts. `kg`: folder of a store; None leaves KG trajectories out. `most_…`: the first so many. `verdicts`:
    folders of curated runs or logs of theirs, or patterns of these, as they are when the window takes its documents.
    `bands`: a file of bands; None: nobody is told. `caps`: of each data set of a window. `keep_windows`, `curated`: see
    `pipelines.retention`; None removes nothing, and never what this run made goes. Raises at the end: the first error,
    with the figures outside of their bands in its message, or `OutOfBand` when there was none.
    """
    means = Means(model=model, caps=caps, bands=_bands(bands))
    asked = WindowPlan(
        day=(day or _scheduled_day()).isoformat(),
        window_days=window_days,
        documents=tuple(documents),
        bundles_preset=bundles_preset,
        mcts_preset=mcts_preset,
        kg_preset=kg_preset,
        kg=str(kg or ""),
        model_name=model_name,
        benchmarks=tuple(map(str, benchmarks or ())),
        most_documents=most_documents,
        most_questions=most_questions,
        distractors=distractors,
        seed=seed,
        verdicts=tuple(verdicts or ()),
    )
    own = configured_plan(asked)
    retention.check_keep(1 if keep_windows is None else keep_windows)
    windows.files_of(own.documents)  # of no file, the plan would stay unfinished for ever
    windows.begin(out, own)
    before = [folder for folder in windows.unfinished(out, before=own.day) if not is_held(folder)]
    folders = [*before, out / own.day]
    made, errors = _each(folders, own, means)
    if keep_windows is not None:
        errors += _retain(out, keep_windows, curated or [], spare=[folder.name for folder in folders])
    _raise(errors, [f"{window.day}, {breach}" for window in made for breach in window.breaches])
    return made[-1]


def configured_plan(plan: WindowPlan) -> WindowPlan:
    """The plan with the hashes of what its presets, benchmarks and graph give now.

    Raises `InvalidInput` for those that cannot be used, before anything is paid.
    """
    bundles = configuration_of(BundleRunConfig, BUNDLES.name, plan.bundles_preset, None, plan.model_name, plan.seed)
    bundles = bundles.against([Path(path) for path in plan.benchmarks])
    mcts = configured(plan.mcts_preset, None, plan.model_name, plan.seed)
    plan = replace(plan, bundles_hash=bundles.hash, mcts_hash=mcts.hash)
    if not plan.kg:
        return plan
    kg = configuration_of(KgRunConfig, KG.name, plan.kg_preset, None, plan.model_name, plan.seed)
    if kg.generator.style == "guided":
        problem = "guided episodes want gold decompositions, which the questions of bundles have not"
        raise InvalidInput(problem, file=plan.kg_preset, field="generator.style")
    return replace(plan, kg_hash=kg.on_graph(Path(plan.kg)).hash)


def check_plan(plan: WindowPlan) -> None:
    """Raises `InvalidInput` as `configured_plan`, and for a preset that says other things than it did."""
    now = configured_plan(plan)
    for preset, then, today in (
        (plan.bundles_preset, plan.bundles_hash, now.bundles_hash),
        (plan.mcts_preset, plan.mcts_hash, now.mcts_hash),
        (plan.kg_preset, plan.kg_hash, now.kg_hash),
    ):
        if then != today:
            change = f"the preset, its benchmarks or its graph changed since {plan.day} was begun ({then} -> {today})"
            raise InvalidInput(f"{change}; put them back, or move the window away", file=preset)


def _each(folders: Sequence[Path], own: WindowPlan, means: Means) -> tuple[list[Window], list[TrailforgeError]]:
    """Make all windows, the last one by its own plan. One that cannot be made keeps no other from it."""
    made: list[Window] = []
    errors: list[TrailforgeError] = []
    for folder in folders:
        try:
            plan = own if folder.name == own.day else windows.read_plan(folder)
            made.append(make_window(folder, plan, means))
        except TrailforgeError as error:
            get_run_logger().error("window %s: %s", folder.name, error)
            error.args = (f"window {folder}: {error}",)
            errors.append(error)
    return made, errors


def _retain(root: Path, keep: int, curated: Sequence[Path], *, spare: Sequence[str]) -> list[TrailforgeError]:
    """Remove old windows; what went wrong."""
    try:
        decided = retention.fates(root, keep, is_open=awaits_curation, curated=curated, spare=spare)
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


def make_window(folder: Path, plan: WindowPlan, means: Means) -> Window:
    """Make what is missing of a window. A complete one stays as it is, and nobody is told of it again."""
    with exclusive(folder):
        remove_temporary_files(folder, windows.FILES.__contains__)
        windows.keep_plan(folder, plan)
        done = windows.read_window(folder)
        if done is not None:
            return replace(done, breaches=())
        check_plan(plan)
        taken = windows.take(folder, plan, partial(copied, plan.verdicts))
        making = _Making(folder, plan, means)
        bundles = making.bundles(taken)
        asked = making.questions(bundles)
        why_not = bundles.skipped or ("" if asked.accepted else _NO_QUESTIONS)
        datasets = (bundles, making.trajectories(why_not), making.kg_trajectories(why_not))
        making.check_window(taken.books.accepted, asked.accepted)
        window = Window(
            day=plan.day,
            first_day=plan.first_day,
            documents=taken.books,
            questions=asked,
            datasets=datasets,
            breaches=tuple(breach.told for breach in making.breaches),
        )
        windows.finish(folder, window)
        return window


class _Making:
    """One window, data set by data set. A finished run ends at once, a stopped one goes on."""

    def __init__(self, folder: Path, plan: WindowPlan, means: Means) -> None:
        self._folder, self._plan, self._means = folder, plan, means
        self._verdicts = copies(folder / windows.VERDICTS)
        self.breaches: list[Breach] = []

    def bundles(self, taken: Taken) -> Made:
        """Bundles of the window's documents, and their questions."""
        plan = self._plan

        def make() -> Manifest:
            return document_bundles(
                documents=[self._folder / windows.DOCUMENTS],
                out=self._folder / windows.BUNDLES,
                preset=plan.bundles_preset,
                model=self._means.model,
                model_name=plan.model_name,
                limit=plan.most_documents,
                seed=plan.seed,
                caps=self._means.caps,
                verdicts=self._verdicts,
                benchmarks=[Path(path) for path in plan.benchmarks],
            )

        return self._made(BUNDLES, windows.BUNDLES, "" if taken.books.accepted else _NO_DOCUMENTS, make)

    def questions(self, bundles: Made) -> StageCount:
        """Those of the bundles that the other two are asked."""
        if bundles.skipped:
            return StageCount(name=QUESTIONS, inputs=0, accepted=0)
        path = self._folder / windows.QUESTIONS
        return write_questions(self._folder / windows.BUNDLES, path, self._plan.distractors)

    def trajectories(self, why_not: str) -> Made:
        """MCTS trajectories of the questions, unless something is against it."""
        return self._of_questions(MCTS, windows.MCTS, mcts_trajectories, self._plan.mcts_preset, why_not)

    def kg_trajectories(self, why_not: str) -> Made:
        """KG trajectories of the questions, where there is a graph, unless something is against it."""
        plan = self._plan
        why_not = why_not if plan.kg else _NO_GRAPH
        return self._of_questions(KG, windows.KG, kg_trajectories, plan.kg_preset, why_not, kg=Path(plan.kg))

    def _of_questions(
        self, dataset: DataSet, name: str, make: Callable[..., Manifest], preset: str, why_not: str, **more: Path
    ) -> Made:
        plan, means = self._plan, self._means

        def made() -> Manifest:
            return make(
                questions=self._folder / windows.QUESTIONS,
                out=self._folder / name,
                preset=preset,
                model=means.model,
                model_name=plan.model_name,
                limit=plan.most_questions,
                seed=plan.seed,
                caps=means.caps,
                verdicts=self._verdicts,
                **more,
            )

        return self._made(dataset, name, why_not, made)

    def check_window(self, documents: int, questions: int) -> None:
        """Hold what the window has against its bands."""
        self._tell(outside_of_window(documents=documents, questions=questions, bands=self._means.bands))

    def _tell(self, breaches: list[Breach]) -> None:
        if breaches:
            alert(breaches, self._plan.day, self._folder)
        self.breaches += breaches

    def _made(self, dataset: DataSet, name: str, why_not: str, make: Callable[[], Manifest]) -> Made:
        if why_not:
            return Made(dataset=dataset.name, folder=name, skipped=why_not)
        try:
            manifest = make()
        except NothingLeft as error:
            return Made(dataset=dataset.name, folder=name, skipped=error.problem)
        self._tell(outside(manifest, self._means.bands))
        return Made(
            dataset=dataset.name,
            folder=name,
            run_id=manifest.run_id,
            rows=next((line.accepted for line in manifest.stages if line.name == dataset.last_stage), 0),
            calls=manifest.calls,
            tokens=manifest.prompt_tokens + manifest.completion_tokens,
            cost=manifest.cost,
        )


@task(name="alert")
def alert(breaches: list[Breach], day: str, folder: Path) -> None:
    """An event for each figure outside of its band, and a table of them. After a kill they may come once more."""
    for breach in breaches:
        emit_event(
            event=EVENT,
            resource={
                "prefect.resource.id": f"trailforge.dataset.{breach.dataset}",
                "prefect.resource.name": breach.dataset,
                "trailforge.figure": breach.figure,
                "trailforge.day": day,
            },
            payload={"told": breach.told, "day": day, "folder": str(folder.absolute())},
        )
    table = [{"figure": b.figure, "value": b.value, "band": str(b.band)} for b in breaches]
    stem = breaches[0].dataset.replace("_", "-")
    create_table_artifact(table=table, key=f"{stem}-outside-bands", description=f"{folder.name}, {stem}")


def _bands(name: str | None) -> Bands:
    return {} if name is None else bands_of(load_bands(name), source=name, datasets=tuple(declared_datasets()))


def _scheduled_day() -> date:
    return flow_run.scheduled_start_time.astimezone(UTC).date()
