"""`prefect.yaml` for real: a server, a process work pool, the deployments."""

from __future__ import annotations

import time

import pytest

from tests.end_to_end.support import DEPLOYMENTS, POOL, Site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PLANNED_WITHIN_S = 30
"""A deployment is planned when its server next looks for new ones: every five seconds."""


def test_the_deployments_have_schedules_typed_parameters_and_limits(site: Site) -> None:
    found = {each["name"]: each for each in site.ask("deployments/filter")}
    assert set(found) == {each["name"] for each in DEPLOYMENTS}
    for written in DEPLOYMENTS:
        made = found[written["name"]]
        assert [each["schedule"]["cron"] for each in made["schedules"]] == [
            each["cron"] for each in written["schedules"]
        ]
        assert [each["active"] for each in made["schedules"]] == [written["name"] == "nightly"]
        assert made["parameters"] == written["parameters"]
        assert made["enforce_parameter_schema"]
        assert made["parameter_openapi_schema"]["properties"]["seed"]["type"] == "integer"
        assert (made["global_concurrency_limit"]["limit"], made["work_pool_name"]) == (1, POOL)


def planned_runs(site: Site, wanted: set[str]) -> set[str]:
    """The deployments of which runs are planned, as soon as all that are wanted are."""
    planned, until = set[str](), time.monotonic() + PLANNED_WITHIN_S
    while not planned >= wanted and time.monotonic() < until:
        time.sleep(0.5)
        scheduled = {"state": {"type": {"any_": ["SCHEDULED"]}}}
        planned = {each["name"] for each in site.ask("deployments/filter", flow_runs=scheduled)}
    return planned


def test_the_server_plans_nights_and_of_the_patterns_those_that_are_switched_on(site: Site) -> None:
    """With SQLAlchemy 2.1 its scheduler fails, which the log of the server alone says."""
    assert planned_runs(site, {"nightly"}) == {"nightly"}, (site.home / "server.log").read_text()[-3000:]
    (made,) = site.ask("deployments/filter", deployments={"name": {"any_": ["demo-weekly"]}})
    site.prefect("deployment", "schedule", "resume", f"mcts-trajectories/{made['name']}", made["schedules"][0]["id"])
    assert planned_runs(site, {"nightly", "demo-weekly"}) == {"nightly", "demo-weekly"}
    site.prefect("deploy", "-n", "demo-weekly")  # the file has the last word
    (made,) = site.ask("deployments/filter", deployments={"name": {"any_": ["demo-weekly"]}})
    assert [each["active"] for each in made["schedules"]] == [False]
