"""In a browser: the list of runs below a folder, two of them side by side, and the pages of one that are handed on."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("streamlit")

from tests.support.browser import Visit, inspecting
from tests.support.rows import QUESTION, trajectory
from trailforge.inspector.export import export_pages
from trailforge.inspector.roots import compare_runs, is_root, list_runs
from trailforge.pipelines.runs import open_run
from trailforge.pipelines.runs.intake import Settings
from trailforge.schemas import (
    Count,
    FileEntry,
    Manifest,
    OutputError,
    Question,
    StageCount,
    Trajectory,
    to_dict,
    write_parquet,
)

TABLE = "mcts_trajectories"


def write_run(folder: Path, uids: dict[str, str], *, cost: float) -> None:
    """A finished run whose rows, by uid, are of these questions."""
    asked = [replace(QUESTION, id=each) for each in dict.fromkeys(uids.values())]
    rows = [trajectory(uid=uid, question=replace(QUESTION, id=each)) for uid, each in uids.items()]
    files = []
    for table, record, content in (("inputs", Question, asked), (TABLE, Trajectory, rows)):
        (folder / table).mkdir(parents=True)
        write_parquet(folder / table / "part-00000.parquet", record, content)
        files.append(FileEntry(path=f"{table}/part-00000.parquet", rows=len(content), sha256=""))
    rejected = (Count(reason="too_long", count=10 - len(rows)),)
    books = (StageCount(name="solve", inputs=10, accepted=len(rows), rejected=rejected),)
    settings = Settings(
        dataset=TABLE, run_id=folder.name, config_hash="c", config="{}", sources=(), limit=None, shards=(), files=(),
        books=(),
    )  # fmt: skip
    manifest = Manifest(
        run_id=folder.name, dataset=TABLE, schema_versions=(), config_hash="c", inputs=(), stages=books,
        files=tuple(files), model="m", calls=7, prompt_tokens=1, completion_tokens=1, cut_replies=0, cost=cost,
        seconds=1.0, calls_per_accepted_row=1.0, cost_per_accepted_row=cost / len(rows), trailforge_version="0",
    )  # fmt: skip
    (folder / "run.json").write_text(json.dumps(to_dict(settings)))
    (folder / "manifest.json").write_text(json.dumps(to_dict(manifest)))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs that differ in rows, one two levels down, and one that failed."""
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "first", {"u1": "q1", "u2": "q1", "u3": "q2", "u4": "q3"}, cost=2.0)
    write_run(root / "2026-05-01" / "second", {"u1": "q1", "u5": "q1", "u6": "q2"}, cost=3.0)
    shutil.copytree(root / "first", root / "third")
    (root / "third" / "manifest.json").unlink()
    (root / "third" / "progress").mkdir()
    failed = {"event": "run_failed", "time": "2026-05-02T01:02:03.0Z", "message": "failed: <b>no model</b>"}
    (root / "third" / "progress" / "log.jsonl").write_text(json.dumps(failed))
    return root


def test_runs_are_found_with_their_yield_cost_and_last_error(root: Path) -> None:
    lines = {line.name: line for line in list_runs(root)}
    assert set(lines) == {"first", "2026-05-01/second", "third"}
    first = lines["first"]
    assert (first.rows, first.inputs, first.rows_per_input, first.cost_per_row) == (4, 10, 0.4, 0.5)
    assert first.state == "finished" and first.last_error == ""
    assert lines["third"].state != "finished" and "<b>no model</b>" in lines["third"].last_error
    assert is_root(root) and not is_root(root / "first") and not is_root(root / "first" / "inputs")


def test_two_runs_are_held_against_each_other(root: Path) -> None:
    pair = compare_runs(open_run(root / "first"), open_run(root / "2026-05-01" / "second"))
    assert pair.figures["cost"] == (2.0, 3.0) and pair.figures["rejected: too_long"] == (6, 7)
    assert pair.table == TABLE and pair.same == 1
    assert [(each.source, each.what, each.first, each.second) for each in pair.differing] == [
        ("q1", "other rows", (1,), (1,)), ("q2", "other rows", (2,), (2,)), ("q3", "only in A", (3,), ()),
    ]  # fmt: skip


def test_a_run_that_kept_nothing_lacks_every_row_of_the_other(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "first", tmp_path / "bare")
    shutil.rmtree(tmp_path / "bare" / TABLE)
    manifest = json.loads((tmp_path / "bare" / "manifest.json").read_text())
    manifest["files"] = [each for each in manifest["files"] if not each["path"].startswith(TABLE)]
    (tmp_path / "bare" / "manifest.json").write_text(json.dumps(manifest))
    bare = open_run(tmp_path / "bare")
    assert TABLE not in bare.tables
    pair = compare_runs(bare, open_run(root / "first"))
    assert pair.table == TABLE and pair.same == 0
    assert {(each.source, each.what) for each in pair.differing} == {(name, "only in B") for name in ("q1", "q2", "q3")}


def test_what_was_read_before_the_first_visit_is_not_read_again(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from streamlit.testing.v1 import AppTest

    from trailforge.inspector import page

    folder = shutil.copytree(root / "first", tmp_path / "run")
    page.read_first_view(folder)
    for path in (folder / TABLE).iterdir():
        path.write_bytes(b"")  # in place: the folder is as it was
    monkeypatch.setattr(sys, "argv", ["page.py", str(folder), "ann"])
    shown = AppTest.from_file(page.__file__, default_timeout=300).run()
    assert not shown.exception and not shown.error and "Distributions" in [each.value for each in shown.subheader]
    page.read_first_view(root)  # a folder of runs, and one that cannot be read, which the view then says
    page.read_first_view(shutil.copytree(folder, tmp_path / "unread"))


@pytest.fixture(scope="module")
def visit(root: Path, browser: Any) -> Iterator[Visit]:
    with inspecting(root, "--who", "ann") as url:
        yield Visit(browser, url)


def test_the_start_page_leads_to_a_run_and_back(visit: Visit) -> None:
    visit.go("")
    assert visit.shows("3 runs") and "<b>no model</b>" in visit.text()
    visit.go("decide?run=first")
    assert visit.shows("of 4 in this list") and "run=first" in visit.page.url
    visit.follow("Trajectories")
    assert visit.shows("Row 1 of 4") and "run=first" in visit.page.url
    visit.follow("All runs")
    assert visit.shows("3 runs") and "run=" not in visit.page.url
    visit.follow("Two runs side by side")
    visit.go("compare?a=first&b=2026-05-01/second")
    assert visit.shows("1 row of mcts_trajectories stands in both")
    visit.go("?run=../../etc")
    assert visit.shows("3 runs") and visit.problems() == []


def test_pages_that_are_handed_on_need_no_server_and_ask_nobody(root: Path, browser: Any, tmp_path: Path) -> None:
    run = open_run(root / "first")
    steps = list(export_pages(run, tmp_path / "pages", 3))
    assert steps[-1] == (len(list((tmp_path / "pages").rglob("*.html"))),) * 2
    with pytest.raises(OutputError, match="not empty"):
        next(export_pages(run, tmp_path / "pages", 3))
    shutil.move(tmp_path / "pages", tmp_path / "elsewhere")  # links are relative
    page, asked, problems = browser.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    page.goto((tmp_path / "elsewhere" / "index.html").as_uri())
    page.locator(".main-svg").first.wait_for(timeout=60_000)  # a chart is drawn
    page.get_by_role("link", name="Trajectories", exact=True).click()
    assert "The first 3 of 4 rows" in page.inner_text("body")
    page.locator("input.filter").fill("zzz")
    assert page.locator("tbody tr:visible").count() == 0
    page.locator("input.filter").fill("")
    page.locator("tbody a").nth(1).click()
    assert "Row 2 of 4 · u2" in page.inner_text("body") and page.locator("details.fold").count() > 1
    page.get_by_role("link", name="next").click()
    assert "Row 3 of 4" in page.inner_text("body")
    page.get_by_role("link", name="Questions", exact=True).first.click()
    page.get_by_role("link", name="Decisions").click()
    assert "Nobody has decided" in page.inner_text("body")
    assert problems == [] and asked and all(url.startswith("file://") for url in asked)
    page.close()
