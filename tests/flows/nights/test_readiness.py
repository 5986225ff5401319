"""What a night's entries need is looked for in advance: all faults of all entries, by `doctor` and by the night."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support import nightly_world
from tests.support.model_server import running, stats
from trailforge.cli import app
from trailforge.flows.nights.makes import PlannedDataSet
from trailforge.flows.nights.readiness import check_ready, configured_plan, examine_makes, night_plan
from trailforge.presets import load_night
from trailforge.schemas import InvalidInput, NotReady, TrailforgeError

NOBODY = "http://127.0.0.1:9/v1"
DENSE = "retrieval: {kind: dense, encoder: nobody/has-it}"


@pytest.fixture
def night(tmp_path: Path) -> str:
    """A list of data sets of which one names an encoder that nobody has, and its server does not answer."""
    preset = nightly_world.write_preset(tmp_path / "preset.yaml", NOBODY)
    (tmp_path / "dense.yaml").write_text(f"model: {{name: scripted}}\ndataset: kg_trajectories\n{DENSE}\n")
    return str(nightly_world.write_makes(tmp_path / "makes.yaml", str(preset), str(tmp_path / "dense.yaml")))


def faults_of(night: str, kg: Path | None, model: str) -> list[tuple[str, list[str]]]:
    plan = night_plan(night, kg, None)
    found = examine_makes(plan, plan.makes, model)
    return [(each.check, [make.folder for make in of]) for each, of in found if each.level == "fault"]


def test_all_faults_of_all_entries_are_found_at_once(night: str, tmp_path: Path) -> None:
    server = ("model server", ["bundles", "mcts", "kg"])
    found = faults_of(night, tmp_path / "none", NOBODY)
    assert found == [("preset", ["kg"]), ("encoder", ["bundles"]), ("encoder", ["kg"]), server]
    graph = nightly_world.graph_of(tmp_path / "graph", [4])
    assert faults_of(night, graph, NOBODY) == found[1:]
    assert faults_of(night, None, NOBODY) == [found[1], ("model server", ["bundles", "mcts"])]  # kg is left out


def test_a_night_names_entry_preset_and_mend_in_a_line_each(night: str, tmp_path: Path) -> None:
    plan = night_plan(night, nightly_world.graph_of(tmp_path / "graph", [4]), None)
    with pytest.raises(NotReady) as caught:
        check_ready(plan, plan.makes[2:], NOBODY)
    encoder, server = caught.value.faults
    assert encoder.startswith(f"kg (preset {tmp_path}/dense.yaml): encoder: nobody/has-it is no folder")
    assert "; fetch it where the model hub can be reached (`trailforge doctor … --fetch`)" in encoder
    assert server.startswith(f"kg (preset {tmp_path}/dense.yaml): model server: {NOBODY}: nothing answers; start it")
    assert str(caught.value) == f"{encoder} (and 1 more)"


def test_presets_that_cannot_be_read_are_named_together(tmp_path: Path) -> None:
    plan = night_plan("nightly", None, None)
    wrong = [replace(make, preset=f"{make.folder}.yaml") for make in plan.makes]
    with pytest.raises(NotReady) as caught:
        configured_plan(replace(plan, makes=tuple(wrong)))
    assert [line.partition(": ")[0] for line in caught.value.faults] == [
        "bundles (preset bundles.yaml)",
        "mcts (preset mcts.yaml)",
    ]


def test_no_model_server_is_wanted_where_no_stage_asks_one(tmp_path: Path) -> None:
    preset = nightly_world.write_preset(tmp_path / "preset.yaml", NOBODY)
    preset.write_text(
        preset.read_text().replace(
            f'encoder: {{name: "{NOBODY}#words"}}', "encoder: {name: minilm}\n  questions: false"
        )
    )
    plan = night_plan("nightly", None, None)
    bundles = PlannedDataSet(folder="bundles", dataset="document_bundles", preset=str(preset))
    check_ready(plan, [bundles], NOBODY)
    with pytest.raises(NotReady, match="model server"):
        check_ready(plan, [replace(plan.makes[1], preset=str(preset))], NOBODY)


def doctor(*arguments: object) -> tuple[int, str]:
    said = CliRunner().invoke(app, ["doctor", *map(str, arguments)])
    if isinstance(said.exception, TrailforgeError):
        raise said.exception
    return said.exit_code, said.stdout


def test_the_command_looks_at_a_night_in_advance_and_asks_the_model_nothing(tmp_path: Path) -> None:
    graph = nightly_world.graph_of(tmp_path / "graph", [4])
    with running(nightly=1) as url:
        preset = nightly_world.write_preset(tmp_path / "preset.yaml", url)
        night = nightly_world.write_makes(tmp_path / "makes.yaml", str(preset))
        code, said = doctor("--makes", night, "--kg", graph, "--model", url, "--out", tmp_path / "out")
        assert (code, stats(url)["calls"]) == (0, 0), said
        assert f"ok       model server    {url} serves scripted" in said and "kg: " in said
        code, said = doctor("--makes", night, "--model", url, "--out", tmp_path / "out")
        assert code == 0 and "warning  preset          kg: no knowledge graph was given, so it is left out" in said
    code, said = doctor("--makes", night, "--kg", graph, "--model", NOBODY, "--out", tmp_path / "out")
    assert code == 11 and "fault    model server" in said
    assert not (tmp_path / "out").exists()


def test_fetching_says_that_the_hub_is_switched_off_and_for_which_encoder(night: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"HF_HUB_OFFLINE.*: set, so nobody/has-it cannot be fetched .*; unset it"):
        doctor("--makes", night, "--kg", nightly_world.graph_of(tmp_path / "graph", [4]), "--fetch")
    with pytest.raises(InvalidInput, match="--documents"):
        doctor("--makes", "nightly", "--documents", tmp_path)
    with pytest.raises(InvalidInput, match="no preset 'nights'"):
        doctor("--makes", "nights")


def test_the_nights_that_are_shipped_lack_nothing_that_can_be_known_without_a_machine() -> None:
    for name in ("nightly", "agent-trajectories"):
        assert {make["dataset"] for make in load_night(name)["makes"]} >= {"document_bundles", "mcts_trajectories"}
        plan = night_plan(name, None, None)
        assert all(make.config_hash for make in configured_plan(plan).makes if not make.needs)
