"""The doctor's checks of Prefect, and the command itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from prefect.settings import Settings

from tests.end_to_end.support import PRESET, ROOT, trailforge
from tests.support.kg_agent import paths_store
from tests.support.model_server import running, stats
from trailforge.cli import _silent_prefect
from trailforge.flows.doctor import embedded_model, examine, prefect_server
from trailforge.inference.packaged import PackagedModel
from trailforge.pipelines.runs.doctor import Finding, ok, run_check
from trailforge.retrieval.indexes.manifest import IndexManifest, write_manifest
from trailforge.schemas import InvalidInput

NOBODY = "http://127.0.0.1:9"
SECRET = "sk-not-to-be-seen"


def test_a_private_prefect_server_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    found = prefect_server(Settings())
    assert found.level == "ok" and "runs go without Prefect; --prefect starts a private one" in found.detail


def test_no_private_prefect_server_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "file" / "home"))
    found = prefect_server(Settings())
    assert found.level == "warning" and "PREFECT_HOME" in found.mend
    monkeypatch.setenv("PREFECT_SERVER_EPHEMERAL_ENABLED", "false")
    found = prefect_server(Settings())
    assert found.level == "ok" and "switched off" in found.detail


def test_prefect_is_missing_which_is_a_fault_where_a_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prefect.settings", None)
    monkeypatch.delitem(sys.modules, "prefect", raising=False)
    monkeypatch.setenv("PREFECT_API_URL", "")
    found = run_check("prefect", prefect_server)
    assert found == ok("prefect", "not installed, and not wanted: no server is named")
    monkeypatch.setenv("PREFECT_API_URL", f"{NOBODY}/api")
    found = run_check("prefect", prefect_server)
    assert found.level == "fault" and "pip install 'trailforge[generate]'" in found.mend


def test_the_prefect_server_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as url:
        monkeypatch.setenv("PREFECT_API_URL", f"{url}/nowhere")
        assert prefect_server(Settings()).detail == f"{url}/nowhere answers"
    found = prefect_server(Settings())
    assert found.level == "fault" and "prefect server start" in found.mend


@pytest.mark.real_model
def test_the_embedded_model_is_installed() -> None:
    assert "MB" in embedded_model("smollm2-135m-instruct-q4_1", is_wanted=True).detail


def test_the_embedded_model_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PackagedModel, "weights", lambda self: Path("/nowhere"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = run_check("model", lambda: embedded_model("any", is_wanted=True))
    assert (found.level, found.detail) == ("fault", "the embedded model needs the package xllamacpp")
    assert found.mend == "pip install 'trailforge[small-model]' (`make install` in a checkout)"
    assert embedded_model("any", is_wanted=False).level == "ok"


def test_examine_asks_the_model_only_when_told(tmp_path: Path) -> None:
    (tmp_path / "preset.yaml").write_text(PRESET)
    with running() as url:
        few = list(examine(str(tmp_path / "preset.yaml"), url, None, tmp_path / "out", call=False))
        assert stats(url)["calls"] == 0
        more = list(examine(str(tmp_path / "preset.yaml"), url, None, tmp_path / "out", call=True))
        assert stats(url)["calls"] == 1
    assert [f for f in more if f.level == "fault"] == []
    assert {f.check for f in more} - {f.check for f in few} == {"model call"}
    assert not (tmp_path / "out").exists()


def found_by(preset: object, check: str, out: Path, **given: Any) -> list[Finding]:
    return [each for each in examine(str(preset), None, None, out, call=False, **given) if each.check == check]


def test_each_data_set_of_a_preset_is_looked_at_and_what_all_need_comes_once(tmp_path: Path) -> None:
    """The third section names an encoder that nobody has; the second a graph that is not there."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "model: {name: scripted, url: 'http://127.0.0.1:9/v1'}\n"
        "mcts_trajectories: {retrieval: {kind: bm25}}\n"
        f"kg_questions: {{kg: {tmp_path}/none}}\n"
        "kg_trajectories: {retrieval: {encoder: nobody/has-it, query_prefix: 'query: '}}\n"
    )
    (read,) = found_by(path, "preset", tmp_path)
    assert read.detail.endswith("for kg_questions, kg_trajectories, mcts_trajectories")
    encoders = found_by(path, "encoder", tmp_path)
    assert [found.level for found in encoders] == ["ok", "fault"] and "nobody/has-it" in encoders[1].detail
    graphs = found_by(path, "graph", tmp_path)
    assert [found.level for found in graphs] == ["fault", "warning"] and "add --kg" in graphs[1].mend
    named = [found.detail.partition(":")[0] for found in (*encoders, *graphs)]
    assert named == ["kg_questions, mcts_trajectories", "kg_trajectories", "kg_questions", "kg_trajectories"]
    assert len(found_by(path, "model server", tmp_path)) == len(found_by(path, "key", tmp_path)) == 1


def test_the_demo_is_looked_at_for_all_its_data_sets(tmp_path: Path) -> None:
    (found,) = found_by("demo", "preset", tmp_path)
    assert found.detail.endswith(
        "agent_trajectories, document_bundles, kg_questions, kg_trajectories, mcts_trajectories"
    )


@pytest.mark.parametrize("preset", ["r-search", "kg-questions", "msearcher", "dynasearcher", "demo"])
def test_parser_lengths_window_and_stop_strings_of_each_preset_fit_its_model(preset: str, tmp_path: Path) -> None:
    found = [*found_by(preset, "thoughts", tmp_path), *found_by(preset, "window", tmp_path)]
    assert found and {each.level for each in found} == {"ok"}, found


def test_a_preset_that_does_not_fit_its_reasoning_model_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "dataset: document_bundles\nmodel: {name: Qwen/QwQ-32B}\nepisodes: {plan: sampled}\n"
        "server: {max_model_len: 12000}\n"
    )
    found = found_by(path, "thoughts", tmp_path)
    assert [each.level for each in found] == ["fault", "warning", "warning", "fault"]
    assert [each.detail.split(":")[0] for each in found[1:3]] == ["writer.read_max_tokens", "episodes.max_tokens"]
    (small,) = found_by(path, "window", tmp_path)
    assert small.level == "fault" and "server.max_model_len" in small.mend


def test_a_damaged_graph_and_an_index_of_another_prefix_are_faults_with_their_mends(tmp_path: Path) -> None:
    graph = paths_store(tmp_path / "graph").folder
    (found,) = found_by("dynasearcher", "graph", tmp_path, kg=graph)
    assert (found.level, found.mend) == ("ok", "")
    column = graph / "names.utf8.npy"
    column.write_bytes(column.read_bytes()[:-1] + b"?")
    (found,) = found_by("dynasearcher", "graph", tmp_path, kg=graph)
    assert (found.level, found.mend) == ("fault", "build the store again") and "names.utf8.npy" in found.detail
    index = tmp_path / "index"
    index.mkdir()
    write_manifest(index, IndexManifest(backend="dense", config={}, encoder="intfloat/multilingual-e5-base"))
    (found,) = found_by("dynasearcher", "documents", tmp_path, documents=index)
    assert found.level == "fault" and '--passage-prefix "passage: "' in found.mend
    (found,) = found_by("dynasearcher", "documents", tmp_path, documents=tmp_path / "passages.jsonl")
    assert found.level == "fault" and found.mend.startswith("give an index that `trailforge index build` made")
    (tmp_path / "empty").mkdir()
    (found,) = found_by("dynasearcher", "documents", tmp_path, documents=tmp_path / "empty")
    assert found.level == "fault" and found.mend.startswith("make one with `trailforge index build`")
    (found,) = found_by("dynasearcher", "documents", tmp_path)
    assert found.level == "fault" and "--scope question" in f"{found.detail} {found.mend}"


def test_options_that_the_preset_has_no_use_for_are_refused(tmp_path: Path) -> None:
    for option, preset, dataset in (
        ("kg", "msearcher", "mcts_trajectories"),
        ("documents", "kg-questions", "kg_questions"),
    ):
        with pytest.raises(InvalidInput, match=f"--{option}.*a run of {dataset} takes none"):
            found_by(preset, "extras", tmp_path, **{option: tmp_path})


def test_ledgers_of_runs_that_go_on_below_a_root_are_looked_at(tmp_path: Path) -> None:
    run = tmp_path / "nightly" / "2026-11-20" / "mcts"
    (run / "ledger").mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (run / "ledger" / "calls.sqlite").write_text("no data base")

    def ledger() -> Finding:
        found = examine("demo", f"{NOBODY}/v1", None, tmp_path / "nightly", call=False)
        return next(each for each in found if each.check == "ledger")

    assert ledger().level == "fault"
    (run / "manifest.json").write_text("{}")
    assert ledger().detail.startswith("none yet")


@pytest.mark.slow
def test_the_command_says_faults_with_their_mends_and_ends_with_11(tmp_path: Path) -> None:
    (tmp_path / "preset.yaml").write_text(PRESET)
    arguments = ("doctor", "--preset", tmp_path / "preset.yaml", "--out", tmp_path / "out")
    ended = trailforge(*arguments, "--model", f"{NOBODY}/v1", environment={"TRAILFORGE_API_KEY": SECRET})
    assert (ended.code, ended.err) == (11, "")
    lines = ended.out.splitlines()
    (at,) = (n for n, line in enumerate(lines) if line.startswith("fault"))
    assert "model server" in lines[at] and lines[at + 1].strip().startswith("mend: start it")
    assert sum(line.startswith(("ok", "warning", "fault")) for line in lines) == 14
    assert SECRET not in ended.out
    with running() as url:
        assert trailforge(*arguments, "--model", url).code == 0


@pytest.mark.slow
def test_the_command_refuses_an_unknown_preset(tmp_path: Path) -> None:
    ended = trailforge("doctor", "--preset", "nope")
    assert ended.code == 2 and ended.error_line.startswith("error: no preset 'nope'")


def test_a_command_whose_prefect_server_is_away_says_so_in_a_line(tmp_path: Path) -> None:
    questions = ROOT / "sample_data" / "musique_style_questions.jsonl"
    given = ("mcts-trajectories", "--questions", questions, "--preset", "demo", "--out", tmp_path / "out")
    ended = trailforge(*given, environment={"PREFECT_API_URL": f"{NOBODY}/api"})
    mend = "start it (`prefect server start`), or unset PREFECT_API_URL"
    assert (ended.code, ended.error_line) == (4, f"error: Prefect: {NOBODY}/api does not answer; {mend}")


def test_a_private_server_that_does_not_start_is_a_line_and_other_errors_stay() -> None:
    late = RuntimeError("Timed out while attempting to connect to ephemeral Prefect API server.")
    assert "its private server did not start" in str(_silent_prefect(late))
    assert _silent_prefect(RuntimeError("something else")) is None
