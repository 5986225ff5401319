"""`trailforge doctor`: all checks in order, those of `pipelines.doctor` and those of Prefect."""

from __future__ import annotations

import os
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines import doctor
from pipelines.doctor import EMBEDDED, Finding, checked, fault, ok, warning

if TYPE_CHECKING:
    from prefect.settings import Settings

    from pipelines.config import RunConfig

_ANSWERS_WITHIN_S = 5.0


def examine(preset: str, model: str | None, model_name: str | None, out: Path, *, call: bool) -> Iterator[Finding]:
    """One finding after the other. Raises `InvalidInput` for a preset that cannot be used."""
    yield checked("packages", lambda: doctor.packages(doctor.declared_packages()))
    from flows.configuration import configured_for_any

    config = configured_for_any(preset, model, model_name)
    url = config.model.url
    servers = [replace(config.model, url=each) for each in config.model.urls]
    yield doctor.key(next((server.url for server in servers if not doctor.is_here(server.url)), url))
    yield doctor.search_key(_searches_the_web(config))
    yield checked("encoder", lambda: doctor.encoder(config.encoder_name))
    yield checked("embedded model", lambda: doctor.embedded_model(config.model.name, is_wanted=url == EMBEDDED))
    if url != EMBEDDED:
        for server in servers:
            yield checked("model server", lambda server=server: doctor.model_server(server))
            if call:
                yield checked("model call", lambda server=server: doctor.model_call(server, style=config.call_style))
            yield doctor.clock(doctor.date_of(server.url), time.time())
    yield checked("disk", lambda: doctor.disk(out))
    yield checked("ledger", lambda: _ledger(config.ledger, out))
    yield checked("schemas", lambda: doctor.schema_versions(out))
    yield checked("prefect", prefect_server)
    yield telemetry(os.environ)


def prefect_server(settings: Settings | None = None) -> Finding:
    """The server that PREFECT_API_URL names answers, or a private one can be started."""
    from prefect.settings import get_current_settings

    settings = settings or get_current_settings()
    if settings.api.url:
        return _named_server(settings.api.url)
    if not settings.server.ephemeral.enabled:
        return fault("prefect", "no PREFECT_API_URL, and private servers are switched off", "set PREFECT_API_URL")
    home = settings.home.expanduser()
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        return fault("prefect", f"cannot write to {home} ({error.strerror})", "set PREFECT_HOME to another folder")
    return ok("prefect", f"no PREFECT_API_URL: a run starts a private server, its data in {home}")


def telemetry(environment: Mapping[str, str]) -> Finding:
    """Whether Prefect reports home from here. `flows` switches that off, unless a person switched it on."""
    on = [
        f"{name}={environment.get(name, '')}"
        for name, off in (("DO_NOT_TRACK", {"1", "true"}), ("PREFECT_SERVER_ANALYTICS_ENABLED", {"0", "false"}))
        if environment.get(name, "").lower() not in off
    ]
    if on:
        mend = f"unset {' and '.join(each.partition('=')[0] for each in on)}"
        return warning("telemetry", f"Prefect reports to its makers ({', '.join(on)})", mend)
    return ok("telemetry", "off")


def _named_server(url: str) -> Finding:
    try:
        urllib.request.urlopen(f"{url}/health", timeout=_ANSWERS_WITHIN_S).close()
    except urllib.error.HTTPError as error:
        if error.code >= 500:
            return fault("prefect", f"{url} answers with status {error.code}", "look at the log of that server")
    except (OSError, ValueError):
        return fault("prefect", f"{url} does not answer", "start it (`prefect server start`), or unset PREFECT_API_URL")
    return ok("prefect", f"{url} answers")


def _searches_the_web(config: RunConfig) -> bool:
    tools = getattr(config, "tools", None)
    return tools is not None and tools.kind == "web"


def _ledger(url: str, out: Path) -> Finding:
    """Of the folder's run; below a root that holds runs, of those that are not finished, and the worst of them."""
    from pipelines.dataset import LEDGER
    from pipelines.finish import MANIFEST
    from pipelines.versions import run_folders

    if url:
        return doctor.shared_ledger(url)
    going_on = [run for run in run_folders(out) if run != out and not (run / MANIFEST).exists()]
    found = [doctor.ledger(run / LEDGER) for run in going_on or [out]]
    return next((finding for finding in found if finding.level == "fault"), found[0])
