"""One Prefect server for the commands of this folder, each of which would start one of its own: seconds every time."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.end_to_end.support import POOL, SERVER, Site, prefect_server


@pytest.fixture(scope="package", autouse=True)
def _prefect_for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prefect_server(tmp_path_factory.mktemp("prefect") / "server.log") as environment:
        os.environ.update(environment)
        yield environment[SERVER]
        os.environ.pop(SERVER, None)


@pytest.fixture(autouse=True)
def _prefect_is_named(_prefect_for_all: str, _environment_as_found: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER, _prefect_for_all)


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server of its own, with the pool and the deployments of `prefect.yaml`."""
    home = tmp_path_factory.mktemp("prefect")
    with prefect_server(home / "server.log", home=home) as environment:
        site = Site(home, environment)
        site.prefect("work-pool", "create", POOL, "--type", "process")
        site.prefect("deploy", "--all")
        yield site
