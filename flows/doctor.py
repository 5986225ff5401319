"""Run all checks of `trailforge doctor` in order: those of `pipelines.runs.doctor` and those of Prefect."""

from __future__ import annotations

import contextlib
import tempfile
import urllib.error
import urllib.request
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trailforge.flows import names_prefect_server
from trailforge.pipelines import load_dataset, resolve
from trailforge.pipelines.runs import (
    GraphRunConfig,
    ModelConfig,
    RunConfig,
    RunInputs,
    doctor,
    doctor_search,
    preset_server,
)
from trailforge.pipelines.runs.doctor import EMBEDDED, Finding, fault, ok, run_check, warning
from trailforge.pipelines.runs.packages import needed_packages
from trailforge.presets import load_preset
from trailforge.schemas import InvalidInput, TrailforgeError, check_packages

if TYPE_CHECKING:
    from prefect.settings import Settings

_ANSWERS_WITHIN_S = 5.0
_UNNAMED = "no server is named, so runs go without Prefect"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run whose needs are checked before it is made."""

    dataset: str
    preset: str
    config: RunConfig
    kg: Path | None = None
    """Folder of a knowledge graph that replaces the configuration's, as `documents` does for documents; None: the
    configuration's."""
    documents: Path | None = None
    is_searchable: bool = True
    """Whether what the run searches may be usable; False: it is known already that it is not."""

    @property
    def asks_model(self) -> bool:
        """Tell whether a stage of the planned run calls a model."""
        stages = load_dataset(self.dataset).stages
        return any(
            stage.asks_model and (stage.is_wanted is None or resolve(stage.is_wanted)(self.config)) for stage in stages
        )


Found = tuple[Finding, list[str]]
"""A finding, with the names of the runs that it concerns."""


def examine(
    preset: str,
    model: str | None,
    model_name: str | None,
    out: Path,
    *,
    call: bool,
    kg: Path | None = None,
    documents: Path | None = None,
    encoder: str | None = None,
    fetch: bool = False,
) -> Iterator[Finding]:
    """Yield one finding after the other, for all data sets that the preset is for; a finding that several share comes
    once, with their names where it does not concern all.

    `out` is where the run will be made. `kg`, `documents` and `encoder` are what it will be given; None: what the
    preset names. `call` also sends one tiny request to each model server. `fetch` downloads the packaged model and the
    encoders first, and raises what `fetch_encoders` raises. Raises `InvalidInput` for a preset that cannot be used.
    """
    yield doctor.extras()
    from trailforge.flows.configuration import configured_for_all

    configs = configured_for_all(preset, model, model_name)
    _refuse_unwanted(configs, {"kg": kg, "documents": documents, "encoder": encoder})
    configs = {name: _with_encoder(config, encoder) for name, config in configs.items()}
    if fetch:
        yield fetch_model()
        yield from fetch_encoders(configs.values())
    yield ok("preset", f"{preset} is read, for {', '.join(configs)}")
    runs = {
        name: PlannedRun(
            dataset=name,
            preset=preset,
            config=config,
            kg=kg,
            documents=documents if "documents" in load_dataset(name).own_options else None,
        )
        for name, config in configs.items()
    }
    yield from (named(found, names, runs) for found, names in examine_runs(runs, call=call))
    yield from examine_place(out, [config.ledger for config in configs.values()])


def fetch_model() -> Finding:
    """Download the weights of the packaged model if they are missing, and report it. Raises what `fetch_weights`
    raises.
    """
    from trailforge.inference.packaged import SMOLLM2
    from trailforge.small_model import fetch_weights

    return ok("fetch", f"{fetch_weights(SMOLLM2)} is there")


def fetch_encoders(configs: Iterable[RunConfig]) -> Iterator[Finding]:
    """Download the encoders that this machine lacks from the model hub, and report each. Raises what `fetch_encoder`
    raises.
    """
    from trailforge.retrieval.encoders import fetch_encoder

    names: dict[str, None] = {}
    for config in configs:
        with contextlib.suppress(TrailforgeError):  # of a damaged index, which its own check tells
            names |= {config.encoder_name: None} if config.encoder_name else {}
    for name in names:
        yield ok("fetch", f"the encoder {name} {'was fetched' if fetch_encoder(name) else 'was there'}")


def named(found: Finding, names: Collection[str], everyone: Collection[object]) -> Finding:
    """Return the finding with the names of the runs that it concerns added, unchanged where these are all of
    `everyone`, the runs that are checked.
    """
    return found if len(names) == len(everyone) else replace(found, detail=f"{', '.join(names)}: {found.detail}")


def examine_runs(runs: Mapping[str, PlannedRun], *, call: bool) -> Iterator[Found]:
    """Check the needs of these runs (`runs`, by name), and yield each finding with the names of the runs that share it.
    `call` also sends one tiny request to each model server.
    """
    yield from _merged((found, [name]) for name, run in runs.items() for found in _needed_by(run))
    yield from _merged(_servers({name: run.config for name, run in runs.items() if run.asks_model}, call=call))


def _merged(all_found: Iterable[Found]) -> Iterator[Found]:
    """By check; what was found of several comes once."""
    by_check: dict[str, dict[Finding, list[str]]] = {}
    for found, names in all_found:
        by_check.setdefault(found.check, {}).setdefault(found, []).extend(names)
    for names_by_finding in by_check.values():
        yield from names_by_finding.items()


def examine_place(out: Path, ledgers: Iterable[str]) -> Iterator[Finding]:
    """Check the folder in which runs are made, and their ledgers, given as URLs; an empty one means the ledger in the
    run's folder.
    """
    yield run_check("disk", lambda: doctor.disk(out))
    for url in dict.fromkeys(ledgers):
        yield run_check("ledger", lambda url=url: _ledger(url, out))
    yield run_check("schemas", lambda: doctor.schema_versions(out))
    yield run_check("prefect", prefect_server)


def _missing_packages(run: PlannedRun) -> Iterator[Finding]:
    """Packages of extras that a run imports and that are not there, as one fault; nothing where all are."""
    dataset = load_dataset(run.dataset)
    given = {"kg": run.kg, "documents": run.documents}
    options = {option: path for option, path in given.items() if path is not None and option in dataset.own_options}

    def look() -> Finding:
        inputs = RunInputs(dataset=run.dataset, options=options)
        check_packages(needed_packages(dataset, run.config, inputs), "a run")
        return ok("packages", "all are installed")

    found = run_check("packages", look)
    if found.level != "ok":
        yield found


def _with_encoder(config: RunConfig, encoder: str | None) -> RunConfig:
    retrieval = getattr(config, "retrieval", None)
    return config if retrieval is None else replace(config, **{"retrieval": retrieval.with_encoder(encoder)})


def _refuse_unwanted(configs: Mapping[str, RunConfig], options: Mapping[str, object]) -> None:
    for option, given in options.items():
        if given is not None and not any(option in load_dataset(name).own_options for name in configs):
            raise InvalidInput(f"a run of {', '.join(configs)} takes none; leave it out", field=f"--{option}")


def _needed_by(run: PlannedRun) -> Iterator[Finding]:
    """How a run asks its model, what it searches, and with what."""
    config, server = run.config, preset_server(load_preset(run.preset, run.dataset), source=f"preset {run.preset}")
    yield from doctor.thoughts(config, server)
    yield doctor.window(config, server)
    yield from _missing_packages(run)
    tools = getattr(config, "tools", None)
    yield doctor_search.search_key(tools.web_news if tools is not None and tools.kind == "web" else None)
    yield run_check("encoder", lambda: doctor_search.encoder(config.encoder_name))
    if not run.is_searchable:
        return
    if (retrieval := getattr(config, "retrieval", None)) is not None:
        yield run_check("documents", lambda: doctor_search.documents(retrieval.over(run.documents)))
    given = run.kg or getattr(config, "kg", "")
    if isinstance(config, GraphRunConfig) or (given and hasattr(config, "kg")):
        folder = Path(given) if given else None
        yield run_check("graph", lambda: doctor_search.graph(folder))


def _servers(configs: Mapping[str, RunConfig], *, call: bool) -> Iterator[Found]:
    """Keys and models of the model servers, each once."""
    servers: dict[ModelConfig, list[str]] = {}
    for name, config in configs.items():
        for url in config.model.urls:
            servers.setdefault(replace(config.model, url=url), []).append(name)
    if not servers:
        return
    urls = [server.url for server in servers]
    yield doctor.key(next((url for url in urls if url != EMBEDDED and not doctor.is_here(url)), urls[0])), [*configs]
    embedded = {server.name: names for server, names in servers.items() if server.url == EMBEDDED}
    is_wanted = bool(embedded)
    for model, names in (embedded or {next(iter(servers)).name: [*configs]}).items():
        look = partial(embedded_model, model, is_wanted=is_wanted)
        yield run_check("embedded model", look), names
    for server, names in servers.items():
        if server.url == EMBEDDED:
            continue
        yield run_check("model server", partial(doctor.model_server, server)), names
        asked = {configs[name].call_style: configs[name] for name in names if call}
        for each in asked.values():
            yield run_check("model call", partial(doctor.model_call, server, style=each.call_style)), names


def embedded_model(name: str, *, is_wanted: bool) -> Finding:
    """Check that the weights and the inference engine of the packaged model are there; `is_wanted` says that the run
    needs them.
    """
    from trailforge.inference.packaged import PACKAGED_MODELS, SMOLLM2

    try:
        weights = PACKAGED_MODELS.get(name, SMOLLM2).check()
    except TrailforgeError:
        if is_wanted:
            raise
        return ok("embedded model", "not installed, and not wanted")
    return ok("embedded model", f"{weights.name}, {weights.stat().st_size / 1e6:.0f} MB")


def prefect_server(settings: Settings | None = None) -> Finding:
    """Check that the Prefect server in the settings answers. Where none is named, runs need no Prefect, and `--prefect`
    starts a private one.
    """
    try:
        from prefect.settings import get_current_settings
    except ImportError:
        if names_prefect_server():
            raise
        return ok("prefect", "not installed, and not wanted: no server is named")
    settings = settings or get_current_settings()
    if settings.api.url:
        return _named_server(settings.api.url)
    if not settings.server.ephemeral.enabled:
        return ok("prefect", f"{_UNNAMED}; private servers are switched off")
    home = settings.home.expanduser()
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        detail = f"{_UNNAMED}; --prefect cannot write to {home} ({error.strerror})"
        return warning("prefect", detail, "set PREFECT_HOME to another folder")
    return ok("prefect", f"{_UNNAMED}; --prefect starts a private one, its data in {home}")


def _named_server(url: str) -> Finding:
    try:
        urllib.request.urlopen(f"{url}/health", timeout=_ANSWERS_WITHIN_S).close()
    except urllib.error.HTTPError as error:
        if error.code >= 500:
            return fault("prefect", f"{url} answers with status {error.code}", "look at the log of that server")
    except (OSError, ValueError):
        return fault("prefect", f"{url} does not answer", "start it (`prefect server start`), or unset PREFECT_API_URL")
    return ok("prefect", f"{url} answers")


def _ledger(url: str, out: Path) -> Finding:
    """Of the folder's run; below a root that holds runs, of those that are not finished, and the worst of them."""
    from trailforge.pipelines import LEDGER
    from trailforge.pipelines.runs import MANIFEST

    if url:
        return doctor.shared_ledger(url)
    going_on = [run for run in doctor.run_folders(out) if run != out and not (run / MANIFEST).exists()]
    found = [doctor.ledger(run / LEDGER) for run in going_on or [out]]
    return next((finding for finding in found if finding.level == "fault"), found[0])
