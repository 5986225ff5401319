"""`trailforge doctor`: all checks in order, those of `pipelines.runs.doctor` and those of Prefect."""

from __future__ import annotations

import tempfile
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trailforge.flows import names_prefect_server
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.runs import doctor
from trailforge.pipelines.runs.config import GraphRunConfig, RunConfig, preset_server
from trailforge.pipelines.runs.doctor import EMBEDDED, Finding, fault, ok, run_check, warning
from trailforge.pipelines.runs.intake import RunInputs
from trailforge.pipelines.runs.packages import needed_packages
from trailforge.presets import load_preset
from trailforge.schemas import InvalidInput, TrailforgeError, check_packages

if TYPE_CHECKING:
    from prefect.settings import Settings

_ANSWERS_WITHIN_S = 5.0
_UNNAMED = "no server is named, so runs go without Prefect"


def examine(
    preset: str,
    model: str | None,
    model_name: str | None,
    out: Path,
    *,
    call: bool,
    kg: Path | None = None,
    documents: Path | None = None,
) -> Iterator[Finding]:
    """One finding after the other, for all data sets that the preset is for; what several of them need comes once,
    with their names where it is not of all.

    `kg`, `documents`: what a run is to be given. Raises `InvalidInput` for a preset that cannot be used.
    """
    yield doctor.extras()
    from trailforge.flows.configuration import configured_for_all

    configs = configured_for_all(preset, model, model_name)
    _refuse_unwanted(configs, kg, documents)
    yield ok("preset", f"{preset} is read, for {', '.join(configs)}")
    yield from _of_data_sets(preset, configs, kg, documents)
    yield from _servers({(config.model, config.call_style): config for config in configs.values()}.values(), call=call)
    yield run_check("disk", lambda: doctor.disk(out))
    for url in dict.fromkeys(config.ledger for config in configs.values()):
        yield run_check("ledger", lambda url=url: _ledger(url, out))
    yield run_check("schemas", lambda: doctor.schema_versions(out))
    yield run_check("prefect", prefect_server)


def _of_data_sets(
    preset: str, configs: Mapping[str, RunConfig], kg: Path | None, documents: Path | None
) -> Iterator[Finding]:
    """What each data set's configuration needs, by check."""
    wanting: dict[str, dict[Finding, list[str]]] = {}
    for name, config in configs.items():
        server = preset_server(load_preset(preset, name), source=f"preset {preset}")
        for found in (
            *doctor.thoughts(config, server),
            doctor.window(config, server),
            *_missing_packages(name, config, kg, documents),
            *_needed_by(config, kg, documents if "documents" in load_dataset(name).own_options else None),
        ):
            wanting.setdefault(found.check, {}).setdefault(found, []).append(name)
    for names_by_finding in wanting.values():
        for found, names in names_by_finding.items():
            is_of_all = len(names) == len(configs)
            yield found if is_of_all else replace(found, detail=f"{', '.join(names)}: {found.detail}")


def _missing_packages(name: str, config: RunConfig, kg: Path | None, documents: Path | None) -> Iterator[Finding]:
    """Packages of extras that a run imports and that are not there, as one fault; nothing where all are."""
    dataset = load_dataset(name)
    given = {"kg": kg, "documents": documents}
    options = {option: path for option, path in given.items() if path is not None and option in dataset.own_options}

    def look() -> Finding:
        check_packages(needed_packages(dataset, config, RunInputs(dataset=name, options=options)), "a run")
        return ok("packages", "all are installed")

    found = run_check("packages", look)
    if found.level != "ok":
        yield found


def _refuse_unwanted(configs: Mapping[str, RunConfig], kg: Path | None, documents: Path | None) -> None:
    for option, given in (("kg", kg), ("documents", documents)):
        if given is not None and not any(option in load_dataset(name).own_options for name in configs):
            raise InvalidInput(f"a run of {', '.join(configs)} takes none; leave it out", field=f"--{option}")


def _needed_by(config: RunConfig, kg: Path | None, documents: Path | None) -> Iterator[Finding]:
    """What a run searches, and with what."""
    tools = getattr(config, "tools", None)
    yield doctor.search_key(tools.web_news if tools is not None and tools.kind == "web" else None)
    yield run_check("encoder", lambda: doctor.encoder(config.encoder_name))
    if (retrieval := getattr(config, "retrieval", None)) is not None:
        yield run_check("documents", lambda: doctor.documents(retrieval.over(documents)))
    given = kg or getattr(config, "kg", "")
    if isinstance(config, GraphRunConfig) or (given and hasattr(config, "kg")):
        folder = Path(given) if given else None
        yield run_check("graph", lambda: doctor.graph(folder))


def _servers(configs: Collection[RunConfig], *, call: bool) -> Iterator[Finding]:
    """Keys and models of the model servers, each once."""
    models = {config.model for config in configs}
    servers = {replace(model, url=url): None for model in models for url in model.urls}
    urls = [server.url for server in servers]
    yield doctor.key(next((url for url in urls if url != EMBEDDED and not doctor.is_here(url)), urls[0]))
    wanted = {model.name for model in models if model.url == EMBEDDED}
    for name in sorted(wanted) or [next(iter(models)).name]:
        yield run_check("embedded model", lambda name=name: embedded_model(name, is_wanted=bool(wanted)))
    for server in servers:
        if server.url == EMBEDDED:
            continue
        yield run_check("model server", lambda server=server: doctor.model_server(server))
        asked = {each.call_style: each for each in configs if call and server.url in each.model.urls}
        for each in asked.values():
            yield run_check(
                "model call", lambda server=server, as_=each: doctor.model_call(server, style=as_.call_style)
            )


def embedded_model(name: str, *, is_wanted: bool) -> Finding:
    """Weights and engine of the model that runs on this machine."""
    from trailforge.inference.packaged import PACKAGED_MODELS, SMOLLM2

    try:
        weights = PACKAGED_MODELS.get(name, SMOLLM2).check()
    except TrailforgeError:
        if is_wanted:
            raise
        return ok("embedded model", "not installed, and not wanted")
    return ok("embedded model", f"{weights.name}, {weights.stat().st_size / 1e6:.0f} MB")


def prefect_server(settings: Settings | None = None) -> Finding:
    """The server that is named answers. Where none is, runs need no Prefect, and `--prefect` starts a private one."""
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
    from trailforge.pipelines.dataset import LEDGER
    from trailforge.pipelines.runs.finish import MANIFEST

    if url:
        return doctor.shared_ledger(url)
    going_on = [run for run in doctor.run_folders(out) if run != out and not (run / MANIFEST).exists()]
    found = [doctor.ledger(run / LEDGER) for run in going_on or [out]]
    return next((finding for finding in found if finding.level == "fault"), found[0])
