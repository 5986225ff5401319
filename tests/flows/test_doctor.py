"""The doctor's checks of Prefect, and the command itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from prefect.settings import Settings

from cli import _silent_prefect
from flows.doctor import examine, prefect_server, telemetry
from pipelines.doctor import Finding
from tests.end_to_end.support import PRESET, ROOT, trailforge
from tests.support.model_server import running, stats

NOBODY = "http://127.0.0.1:9"
SECRET = "sk-not-to-be-seen"


def test_a_private_prefect_server_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    found = prefect_server(Settings())
    assert found.level == "ok" and "private server" in found.detail


def test_no_private_prefect_server_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "file" / "home"))
    found = prefect_server(Settings())
    assert found.level == "fault" and "PREFECT_HOME" in found.mend
    monkeypatch.setenv("PREFECT_SERVER_EPHEMERAL_ENABLED", "false")
    found = prefect_server(Settings())
    assert found.level == "fault" and found.mend == "set PREFECT_API_URL"


def test_the_prefect_server_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as url:
        monkeypatch.setenv("PREFECT_API_URL", f"{url}/nowhere")
        assert prefect_server(Settings()).detail == f"{url}/nowhere answers"
    found = prefect_server(Settings())
    assert found.level == "fault" and "prefect server start" in found.mend


def test_telemetry_is_off_unless_somebody_switched_it_on() -> None:
    off = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    assert telemetry(off).level == "ok"
    found = telemetry(off | {"DO_NOT_TRACK": "0"})
    assert (found.level, found.mend) == ("warning", "unset DO_NOT_TRACK")


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
    assert sum(line.startswith(("ok", "warning", "fault")) for line in lines) == 12
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
