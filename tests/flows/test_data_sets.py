"""The flows of data sets under Prefect: artifacts, retries of what is missing, a second start finds everything done."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import pytest
from prefect import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey
from prefect.client.schemas.objects import Artifact
from prefect.exceptions import ParameterTypeError

from tests.support.model_server import fail_next, running, stats
from tests.support.world import write_questions
from trailforge.flows import data_sets, prefect_driver
from trailforge.flows.configuration import configuration_of
from trailforge.flows.data_sets import flow_of
from trailforge.flows.execute import RunRequest
from trailforge.flows.run_log import LOGGER
from trailforge.generators.mcts_trajectories import DATASET
from trailforge.inference import ModelClient
from trailforge.pipelines.dataset import LEDGER
from trailforge.pipelines.datasets import dataset_names, load_dataset
from trailforge.pipelines.engine.model_stage import ModelWork
from trailforge.pipelines.runs.finish import MANIFEST
from trailforge.schemas import InvalidInput, Manifest, ProviderError, ServerUnavailable

pytestmark = pytest.mark.slow


def test_every_data_set_has_a_flow_of_what_it_takes() -> None:
    for name in dataset_names():
        dataset, made = load_dataset(name), getattr(data_sets, name)
        assert made is flow_of(name) and made.name == dataset.command
        shown = made.parameters.properties
        of_runs = {each.name for each in fields(RunRequest)} - {"dataset", "files", "options"}
        assert shown.keys() == {*dataset.given, *of_runs} - ({"limit"} if dataset.files is None else set())
        assert set(made.parameters.required) == {"out", *([dataset.option.strip("-")] if dataset.files else [])}
        assert all(shown[each]["description"] == option.help for each, option in dataset.given.items())
        assert shown["preset"]["default"] == dataset.preset
    with pytest.raises(AttributeError, match="no data set 'stories'; there are agent_trajectories, document_bundles"):
        data_sets.stories  # noqa: B018


def test_a_flow_refuses_what_no_option_takes(tmp_path: Path) -> None:
    with pytest.raises(ParameterTypeError, match="kind"):
        data_sets.document_bundles(documents=["news.jsonl"], kind="poems", out=tmp_path / "out")


PRESET = """
model: {name: scripted, max_in_flight: 8}
retrieval: {kind: bm25}
output: {shard_size: 3}
"""


@pytest.fixture
def inputs(tmp_path: Path) -> tuple[Path, str]:
    write_questions(tmp_path / "questions.jsonl", 6)
    (tmp_path / "preset.yaml").write_text(PRESET)
    return tmp_path / "questions.jsonl", str(tmp_path / "preset.yaml")


def run(inputs: tuple[Path, str], out: Path, url: str) -> Manifest:
    return flow_of("mcts_trajectories")(questions=inputs[0], out=out, preset=inputs[1], model=url)


async def artifacts(key: str, manifest: Manifest) -> list[Artifact]:
    """Of this run: other tests of the session may have left theirs on the same server."""
    async with get_client() as client:
        wanted = ArtifactFilter(key=ArtifactFilterKey(any_=[key]))
        return [a for a in await client.read_artifacts(artifact_filter=wanted) if a.description == manifest.run_id]


def test_a_run_leaves_funnel_cost_and_progress_and_a_second_one_finds_it_done(
    inputs: tuple[Path, str], tmp_path: Path
) -> None:
    with running() as url:
        manifest = run(inputs, tmp_path / "out", url)
        calls = stats(url)["calls"]
        assert run(inputs, tmp_path / "out", url) == manifest
        assert stats(url)["calls"] == calls
    funnel = asyncio.run(artifacts("mcts-trajectories-funnel", manifest))
    cost = asyncio.run(artifacts("mcts-trajectories-cost", manifest))
    assert funnel and '"stage": "search"' in str(funnel[-1].data)
    assert cost and str(manifest.calls) in str(cost[-1].data)
    assert [stage.name for stage in manifest.stages] == ["read", "search", "solve", "filter"]


def test_cut_replies_alone_are_asked_anew(inputs: tuple[Path, str], tmp_path: Path) -> None:
    preset, out = Path(inputs[1]), tmp_path / "out"
    preset.write_text(f"{PRESET}generator: {{rollout: {{rephrase_max_tokens: 4}}}}\n")
    paid = []

    def again(*, replace_run: bool = False, redo_truncated: bool = False) -> Manifest:
        before = stats(url)["calls"]
        manifest = flow_of("mcts_trajectories")(
            questions=inputs[0],
            out=out,
            preset=inputs[1],
            model=url,
            replace_run=replace_run,
            redo_truncated=redo_truncated,
        )
        paid.append(stats(url)["calls"] - before)
        return manifest

    with running() as url:
        first = again()
        redone = again(redo_truncated=True)
        assert again() == redone  # finished: the plain command changes nothing
        (out / MANIFEST).unlink()
        assert again(redo_truncated=True).config_hash == redone.config_hash  # stopped in the middle: it goes on
        preset.write_text(PRESET)
        longer = again(replace_run=True)
    assert first.cut_replies > 0 and first.config_hash != redone.config_hash
    assert 0 < paid[1] < paid[0] and paid[2:4] == [0, 0] and 0 < paid[4] < paid[0]
    assert longer.cut_replies == 0
    with closing(sqlite3.connect(out / LEDGER)) as ledger:
        twice = ledger.execute("SELECT family FROM complete GROUP BY family HAVING count(*) > 1").fetchall()
    assert not twice, "a reply that was complete was paid for again"


def test_there_is_nothing_to_ask_anew_where_no_run_is(inputs: tuple[Path, str], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="holds no run"):
        flow_of("mcts_trajectories")(questions=inputs[0], out=tmp_path / "out", preset=inputs[1], redo_truncated=True)


def test_a_server_that_fails_for_a_while_costs_a_retry_and_no_row(
    inputs: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    at_once = prefect_driver.run_stage.with_options(retry_delay_seconds=0)
    monkeypatch.setattr(prefect_driver, "run_stage", at_once)
    opened, connect = [], ModelWork.client

    async def connect_at_the_second_try(work: ModelWork) -> ModelClient:
        opened.append(work)
        if len(opened) == 1:
            raise ServerUnavailable("it loads its weights")
        return await connect(work)

    with running() as url:
        calm = run(inputs, tmp_path / "calm", url)
        monkeypatch.setattr(ModelWork, "client", connect_at_the_second_try)
        shaken = run(inputs, tmp_path / "shaken", url)
    assert len(opened) > 1
    # In Prefect's log of the task or the flow, and nowhere else, so that a worker prints it once.
    told = [(record.name, record.getMessage()) for record in caplog.records if record.name.startswith("prefect.")]
    assert {name for name, said in told if "failed: " in said and "loads its weights" in said} >= {"prefect.task_runs"}
    assert any(name == "prefect.task_runs" and said.startswith("search ended: ") for name, said in told)
    assert any(name == "prefect.flow_runs" and said.startswith("finished: ") for name, said in told)
    assert LOGGER.propagate and not [record for record in caplog.records if record.name == LOGGER.name]
    assert [(f.path, f.sha256) for f in shaken.files] == [(f.path, f.sha256) for f in calm.files]


def test_a_refused_key_is_not_tried_again(inputs: tuple[Path, str], tmp_path: Path) -> None:
    with running() as url:
        fail_next(url, *[{"status": 401}] * 500)
        with pytest.raises(ProviderError, match="the key is refused"):
            run(inputs, tmp_path / "out", url)
        assert stats(url)["calls"] <= 8  # one try has so many in flight


def test_a_server_that_is_not_there_ends_the_run_at_once_without_a_manifest(
    inputs: tuple[Path, str], tmp_path: Path
) -> None:
    with pytest.raises(ServerUnavailable, match="http://127"):
        run(inputs, tmp_path / "out", "http://127.0.0.1:9/v1")
    assert not (tmp_path / "out" / MANIFEST).exists()


def test_the_environment_names_the_ledger_and_its_password_goes_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAILFORGE_LEDGER_URL", "postgresql://forger:hunter2@db/calls")
    config = configuration_of(DATASET, "demo")
    assert config.ledger == "postgresql://forger@db/calls"
    assert "hunter2" not in repr(config) and config.hash == replace(config, ledger="").hash


def test_a_runner_that_loses_rows_is_refused_before_anything_is_made(inputs: tuple[Path, str], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="DaskRunner is refused"):
        flow_of("mcts_trajectories")(questions=inputs[0], out=tmp_path / "out", preset=inputs[1], runner="DaskRunner")
    assert not (tmp_path / "out").exists()


def test_the_command_line_goes_over_the_preset() -> None:
    config = configuration_of(DATASET, "demo", "http://127.0.0.1:1/v1", "other", seed=7)
    assert (config.model.url, config.model.name, config.seed) == ("http://127.0.0.1:1/v1", "other", 7)
    assert configuration_of(DATASET, "demo").model.url == "embedded"
    with pytest.raises(InvalidInput, match="nowhere"):
        configuration_of(DATASET, "nowhere")


def test_what_can_be_no_model_is_refused() -> None:
    for model in ("notaurl", "http://127.0.0.1:1/v1,other"):
        with pytest.raises(InvalidInput, match="is no URL, nor 'embedded'"):
            configuration_of(DATASET, "demo", model)
    with pytest.raises(InvalidInput, match=r"the embedded model is called smollm2.*; 'qwen' wants a server") as raised:
        configuration_of(DATASET, "demo", None, "qwen")
    assert raised.value.field == "--model-name"
    assert configuration_of(DATASET, "demo", "embedded", "smollm2-135m-instruct-q4_1").model.url == "embedded"
