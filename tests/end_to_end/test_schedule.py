"""`prefect.yaml` for real: a server, a process work pool, the deployments."""

from __future__ import annotations

import time

import pytest

from tests.end_to_end.support import DEPLOYMENTS, POOL, Site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PLANNED_WITHIN_S = 150
"""A deployment is planned when its server next looks for new ones: every five seconds."""


def test_the_deployments_have_schedules_typed_parameters_and_limits(site: Site) -> None:
    found = {each["name"]: each for each in site.ask("deployments/filter")}
    assert set(found) == {each["name"] for each in DEPLOYMENTS}
    for written in DEPLOYMENTS:
        made = found[written["name"]]
        assert [each["schedule"]["cron"] for each in made["schedules"]] == [
            each["cron"] for each in written["schedules"]
        ]
        assert made["parameters"] == written["parameters"]
        assert made["enforce_parameter_schema"]
        assert made["parameter_openapi_schema"]["properties"]["seed"]["type"] == "integer"
        assert (made["global_concurrency_limit"]["limit"], made["work_pool_name"]) == (1, POOL)


def test_the_server_plans_the_next_runs_of_every_deployment(site: Site) -> None:
    """With SQLAlchemy 2.1 its scheduler fails, which the log of the server alone says."""
    wanted, until = {each["name"] for each in DEPLOYMENTS}, time.monotonic() + PLANNED_WITHIN_S
    planned: set[str] = set()
    while planned != wanted and time.monotonic() < until:
        time.sleep(0.5)
        scheduled = {"state": {"type": {"any_": ["SCHEDULED"]}}}
        planned = {each["name"] for each in site.ask("deployments/filter", flow_runs=scheduled)}
    assert planned == wanted, (site.home / "server.log").read_text()[-3000:]
