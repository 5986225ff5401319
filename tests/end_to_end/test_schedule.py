"""`prefect.yaml` for real: a server, a process work pool, the deployments."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.end_to_end.support import DEPLOYMENTS, POOL, Site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PLANNED_WITHIN_S = 150
"""To end a hang: a deployment is planned when its server next looks for new ones: every five seconds."""


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


def planned_runs(site: Site) -> set[str]:
    """The deployments of which runs are planned."""
    scheduled = {"state": {"type": {"any_": ["SCHEDULED"]}}}
    return {each["name"] for each in site.ask("deployments/filter", flow_runs=scheduled)}


def schedule_of(site: Site, deployment: str) -> dict[str, Any]:
    """Its only one."""
    (found,) = site.ask("deployments/filter", deployments={"name": {"any_": [deployment]}})
    (schedule,) = found["schedules"]
    return schedule


def test_the_server_plans_the_nights_and_none_of_the_patterns(site: Site) -> None:
    """With SQLAlchemy 2.1 its scheduler fails, which the log of the server alone says."""
    until = time.monotonic() + PLANNED_WITHIN_S
    while not (planned := planned_runs(site)) and time.monotonic() < until:
        time.sleep(0.5)
    assert planned == {"nightly"}, (site.home / "server.log").read_text()[-3000:]


def test_a_pattern_is_switched_on_by_hand_until_it_is_deployed_again(site: Site) -> None:
    """The file has the last word, so a wanted one gets its `active` there."""
    schedule = schedule_of(site, "demo-weekly")
    site.prefect("deployment", "schedule", "resume", "mcts-trajectories/demo-weekly", schedule["id"])
    assert schedule_of(site, "demo-weekly")["active"]
    site.prefect("deploy", "-n", "demo-weekly")
    assert not schedule_of(site, "demo-weekly")["active"]
