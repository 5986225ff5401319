"""`prefect.yaml` for real: a server, a process work pool, the deployments, and a run of one by a worker."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.end_to_end.support import DEPLOYMENTS, POOL, PRESET, Site
from tests.support.model_server import running
from tests.support.world import write_questions
from trailforge.pipelines.runs.verify import verify_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FLOW = "mcts-trajectories"
DEPLOYMENT = "musique-nightly"
PLANNED_WITHIN_S = 30
"""A deployment is planned when its server next looks for new ones: every five seconds."""
SECRET = "sk-scheduled-and-not-to-be-seen"


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


def test_a_run_of_a_deployment_by_a_worker_leaves_rows_and_artifacts(site: Site, tmp_path: Path) -> None:
    questions, out = tmp_path / "questions.jsonl", tmp_path / "run"
    write_questions(questions, 4)
    (tmp_path / "preset.yaml").write_text(PRESET)
    with running() as model:
        parameters = {"questions": questions, "out": out, "preset": tmp_path / "preset.yaml", "model": model}
        given = [part for name, value in parameters.items() for part in ("--param", f"{name}={value}")]
        site.prefect("deployment", "run", f"{FLOW}/{DEPLOYMENT}", *given)
        log = site.prefect("worker", "start", "--pool", POOL, "--run-once", TRAILFORGE_API_KEY=SECRET)
    done, of_it = {"state": {"type": {"any_": ["COMPLETED"]}}}, {"name": {"any_": [DEPLOYMENT]}}
    (run,) = site.ask("flow_runs/filter", flow_runs=done, deployments=of_it)
    assert run["parameters"]["questions"] == str(questions), log
    assert verify_run(out).problems == []
    artifacts = site.ask("artifacts/filter", artifacts={"flow_run_id": {"any_": [run["id"]]}})
    assert {each["type"] for each in artifacts} == {"progress", "table", "markdown"}
    assert {each["key"] for each in artifacts} == {f"{FLOW}-funnel", f"{FLOW}-cost", None}
    assert SECRET not in log
    assert not [path for path in site.home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def test_a_prefect_command_in_the_root_reports_nothing_outside(site: Site) -> None:
    """By `prefect.toml`, without any help of the environment."""
    del site.environment["PREFECT_SERVER_ANALYTICS_ENABLED"]
    assert "PREFECT_SERVER_ANALYTICS_ENABLED='False'" in site.prefect("config", "view").replace('"', "'")
