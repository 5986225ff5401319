"""The curators' page in a real browser: every view of the demo's runs, decisions by keyboard, hostile rows."""

from __future__ import annotations

import http.client
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.support import Made, free_port, trailforge
from tests.support.browser import Visit, browsing, inspecting
from tests.support.evaluations import evaluation, play_cell, write_folder
from trailforge.curation.decisions import read_decisions
from trailforge.schemas import BundleQuestion, Message, SourceDocument, read_rows, write_parquet

pytestmark = [pytest.mark.slow, pytest.mark.real_model, pytest.mark.timeout(1800)]

KEYS = "a1a4"
"""Accept, or reject for a reason."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as started:
        yield started


@pytest.fixture(scope="module")
def port() -> int:
    """Of all pages, which stand one after the other: at the same address the browser has their scripts."""
    return free_port()


def decided(visit: Visit) -> int:
    """What the page says of this person's progress."""
    found = re.search(r"([\d,]+) of [\d,]+ rows decided by you", visit.text())
    assert found, visit.text()
    return int(found[1].replace(",", ""))


def test_each_view_of_each_run_and_a_click_on_a_reason(
    browser: Any,
    port: int,
    demo_trajectories: Made,
    demo_bundles: Made,
    demo_episodes: Made,
    demo_kg_questions: Made,
) -> None:
    assert any((demo_bundles.out / "rejected").glob("*.parquet")), "the demo rejects nothing that could be listed"
    runs = {
        demo_trajectories.out: ("Trajectories", "final answer"),
        demo_episodes.out: ("Knowledge graph", "triples kept"),
        demo_kg_questions.out: ("Knowledge graph", "What the filters measured"),
        demo_bundles.out: ("Bundles", "Its questions"),
    }
    visit = Visit(browser, f"http://127.0.0.1:{port}")
    for folder, (title, of_its_own) in runs.items():
        with inspecting(folder, port=port):
            visit.go("")
            check_view(visit, "Rejected, by reason")
            visit.follow(title)
            check_view(visit, of_its_own)
            visit.follow("Decide")
            check_view(visit, "Accept")
            if folder == demo_bundles.out:
                visit.go("bundles?table=episodes")
                check_view(visit, "final answer")
                visit.follow("Overview")
                check_that_a_click_on_a_reason_lists_its_rows(visit)
    visit.page.close()


def check_view(visit: Visit, wanted: str) -> None:
    assert visit.shows(wanted), f"{visit.page.url}: {visit.text()}"
    assert visit.problems() == [], visit.page.url


def check_that_a_click_on_a_reason_lists_its_rows(visit: Visit) -> None:
    bar = visit.page.locator(".st-key-rejections .bars .point").first.bounding_box()
    middle = bar["x"] + bar["width"] / 2, bar["y"] + bar["height"] / 2
    visit.page.mouse.move(*middle)
    visit.page.wait_for_timeout(500)  # a drawing finds out first what the mouse is over
    visit.page.mouse.click(*middle)
    visit.page.get_by_text("Rejected: ").wait_for(timeout=100_000)
    assert visit.shows("Row 1 of")


def test_decisions_from_a_view_and_by_keyboard_outlive_the_server(
    browser: Any, port: int, demo_bundles: Made, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(demo_bundles.out, folder)
    row = next(iter(read_rows(sorted((folder / "bundle_questions").glob("*.parquet")), BundleQuestion)))
    with inspecting(folder, "--who", "ann", port=port) as url:
        visit = Visit(browser, url)
        check_the_way_from_a_view_to_a_fix_and_back(visit, row, folder)
        choose_table(visit, "inputs")
        for count, key in enumerate(KEYS[:2], start=1):
            press(visit, key, count)
        assert visit.problems() == []
    assert len(read_decisions(folder)) == 4
    with inspecting(folder, "--who", "ann", port=port):
        visit.go("decide")
        choose_table(visit, "inputs")
        assert decided(visit) == 2
        for count, key in enumerate(KEYS[2:], start=3):
            press(visit, key, count)
        assert visit.problems() == []
    visit.page.close()
    found = read_decisions(folder)
    assert [(each.uid, each.action) for each in found[:2]] == [(row.uid, "fix"), (row.uid, "withdraw")]
    by_key = found[2:]
    assert [each.action for each in by_key] == ["accept" if key == "a" else "reject" for key in KEYS]
    assert len({each.uid for each in by_key}) == 4 and {each.who for each in found} == {"ann"}
    assert all(each.reason for each in by_key if each.action == "reject")
    made = trailforge("curate", "apply", folder, "--out", tmp_path / "curated")
    assert made.code == 0, made.err


def check_the_way_from_a_view_to_a_fix_and_back(visit: Visit, row: BundleQuestion, folder: Path) -> None:
    visit.go("bundles")
    visit.page.get_by_role("link", name="Decide on this row").click()
    visit.page.get_by_text(re.compile(r"^0 of \d+ rows decided by you")).first.wait_for(timeout=100_000)
    assert "table=bundles&row=" in visit.page.url
    visit.go(f"decide?row={row.uid}")
    visit.page.get_by_text("Fix fields").click(timeout=100_000)
    visit.page.get_by_role("textbox", name="Value").fill(f"Please tell me: {row.question}")
    visit.page.locator(".st-key-decide_row").click(position={"x": 5, "y": 5})
    visit.page.get_by_text("What the fix changes").wait_for(timeout=100_000)
    assert visit.page.locator(".change mark.added").inner_text().startswith("Please tell me")
    visit.settle()
    assert read_decisions(folder) == []
    press(visit, "s", 1)
    press(visit, "z", 0)


def test_no_page_elsewhere_may_connect(demo_kg_questions: Made) -> None:
    def asked(url: str, host: str, origin: str) -> int:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=150)
        headers = {"Host": host, "Origin": origin, "Connection": "Upgrade", "Upgrade": "websocket"}
        key = {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        connection.request("GET", "/_stcore/stream", headers=headers | key)
        return connection.getresponse().status

    with inspecting(demo_kg_questions.out) as url:
        assert asked(url, "localhost", "http://localhost") == 101
        assert asked(url, "localhost", "https://example.org") == 403
        assert asked(url, "example.org", "https://example.org") == 403  # its name made to lead here
    with inspecting(demo_kg_questions.out, "--behind-proxy") as url:
        assert asked(url, "example.org", "https://example.org") == 101
        assert asked(url, "127.0.0.1", "https://example.org") == 403


def press(visit: Visit, key: str, count: int) -> None:
    """Decide, and wait until the page counts it."""
    visit.page.keyboard.press(key)
    visit.page.get_by_text(re.compile(rf"^{count} of \d+ rows decided by you")).first.wait_for(timeout=100_000)
    visit.settle()


def choose_table(visit: Visit, name: str) -> None:
    visit.page.get_by_role("combobox", name="Table").click()
    visit.page.get_by_role("option", name=name, exact=True).click()
    visit.settle()
    visit.page.locator(".st-key-decide_row").click(position={"x": 5, "y": 5})  # no key decides in a field


HOSTILE = (
    "<script>document.title = 'taken'; alert(1)</script><img src=x onerror=\"alert(2)\">"
    "<style>* { display: none }</style></div></mark> [link](javascript:alert(3)) $x^2$ :red[no] `code` **bold** "
    "\x1b[31m\x00\u202egnorw "
)


def test_what_rows_hold_is_shown_and_does_nothing(browser: Any, port: int, demo_bundles: Made, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(demo_bundles.out, folder)
    (folder / "manifest.json").unlink()  # its hashes no longer fit; the page reads runs that are not finished, too
    (path,) = (folder / "inputs").glob("*.parquet")
    rows = list(read_rows([path], SourceDocument))
    long = HOSTILE + "x" * 200_000
    poisoned = [SourceDocument(id=rows[0].id, source=HOSTILE, kind="news", title=HOSTILE, text=long), *rows[1:]]
    write_parquet(path, SourceDocument, poisoned)
    (path,) = (folder / "bundle_questions").glob("*.parquet")
    asked = list(read_rows([path], BundleQuestion))
    node = replace(asked[0].dag_nodes[0], query=HOSTILE, tool=HOSTILE)
    write_parquet(path, BundleQuestion, [replace(asked[0], dag_nodes=(node,)), *asked[1:]])
    with inspecting(folder, "--who", "<b>ann</b>", port=port) as url:
        visit = Visit(browser, url)
        visit.go("bundles?table=bundle_questions")
        visit.page.locator("svg text", has_text="<script>document.title").first.wait_for(timeout=100_000)
        assert visit.page.locator("svg script, svg img, svg a[href^=javascript]").count() == 0
        visit.go("decide")
        choose_table(visit, "inputs")
        shown = visit.text()
        assert "<script>document.title = 'taken'; alert(1)</script>" in shown and "[link](javascript:alert(3))" in shown
        assert "more characters" in shown and "\u202e" not in shown and "␛[31m" in shown
        assert visit.page.title() != "taken" and visit.page.locator("img[src='x']").count() == 0
        assert visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        press(visit, "a", 1)
        assert visit.problems() == []
    assert read_decisions(folder)[0].who == "<b>ann</b>"


def test_each_view_of_an_evaluation_and_what_an_agent_wrote_does_nothing(
    browser: Any, port: int, tmp_path: Path
) -> None:
    first, *rest = play_cell("search_o1", "raptor_plain")
    wrote = (Message(role="assistant", content=HOSTILE, train=True),)
    search = replace(first.searches[0], query=HOSTILE, titles=(HOSTILE,))
    bad = replace(first, question=HOSTILE, answer=HOSTILE, messages=wrote, searches=(search,))
    other = [replace(each, backend="dense", uid=f"dense-{each.uid}") for each in (bad, *rest[:19])]
    cells = {("search_o1", "raptor_plain"): [bad, *rest[:19]], ("search_o1", "dense"): other}
    with inspecting(write_folder(tmp_path / "ev", evaluation(seeds=(0,)), cells), port=port) as url:
        visit = Visit(browser, url)
        wanted = {"": "What went wrong", "compare": "McNemar", f"episodes?row={bad.uid}": "document 1 found"}
        for name, text in wanted.items():
            visit.go(name)
            assert visit.shows(text), visit.text()
            assert visit.problems() == [], name
        assert "<script>document.title = 'taken'; alert(1)</script>" in visit.text()
        assert visit.page.title() == "ev · trailforge" and visit.page.locator("img[src='x']").count() == 0


def test_other_machines_need_a_password(demo_kg_questions: Made) -> None:
    """That it is asked for, and opens the page: `tests/inspector/views/test_door.py`."""
    refused = trailforge("inspect", demo_kg_questions.out, "--host", "0.0.0.0", "--no-open")
    assert refused.code == 2 and "set TRAILFORGE_INSPECT_PASSWORD" in refused.error_line
