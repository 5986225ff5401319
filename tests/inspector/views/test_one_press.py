"""One key press is one line of the log, on the row that stood on the page when the key went down.

In Chromium, while two other processes keep the machine busy. `TRAILFORGE_PRESSES=300` presses that many pairs of keys.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Visit, inspecting
from trailforge.curation.decisions import read_decisions

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

PAIRS = int(os.environ.get("TRAILFORGE_PRESSES", "3"))
KEYS = {"a": ("accept", ""), "1": ("reject", "wrong answer"), "2": ("reject", "not supported by the passages")}
WATCH = """
window.presses = [];
window.told = () => Number(document.querySelector(".not-taken")?.dataset.times ?? 0);
addEventListener("keydown", (event) => {
  const rows = [...document.querySelectorAll(".st-key-decide_row")].map((row) => row.innerText.match(/Row (\\d+)/));
  window.presses.push({
    key: event.key, rows: rows.map((found) => found?.[1]), repeat: event.repeat, told: window.told()
  });
}, true);
"""
"""What stood on the page at each press, and how often the page had said by then that a press was not taken."""


@dataclass(frozen=True, slots=True)
class Press:
    """A key as it went down."""

    key: str
    uid: str
    taken: bool
    repeat: bool


@contextmanager
def busy() -> Iterator[None]:
    """Other work on the same cores; where several processes share the tests, those of the others are that."""
    processes = 0 if "PYTEST_XDIST_WORKER" in os.environ else 2
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


@pytest.fixture(scope="module")
def url(many_rows: Path) -> Iterator[str]:
    """The page, which all tests press keys on: each begins with the rows that those before it left undecided."""
    with inspecting(many_rows, "--who", "ann") as url:
        yield url


@pytest.fixture(scope="module")
def visit(browser: Any, url: str) -> Visit:
    """The tab of all tests."""
    visit = Visit(browser, url)
    visit.page.add_init_script(WATCH)
    visit.go("decide")
    await_row(visit)
    return visit


def await_row(visit: Visit) -> None:
    visit.page.locator(".st-key-decide_row").wait_for(timeout=150_000)
    visit.settle()


def pressed(visit: Visit) -> list[Press]:
    """The presses since the last call, once the page is at rest."""
    visit.settle()
    visit.settle()
    found, told = visit.page.evaluate("[window.presses.splice(0), window.told()]")
    assert all(len(each["rows"]) == 1 for each in found), found
    after = [*(each["told"] for each in found), told][1:]
    return [
        Press(each["key"], f"u{each['rows'][0]}", each["told"] == then, each["repeat"])
        for each, then in zip(found, after, strict=True)
    ]


def said(folder: Path) -> list[tuple[str, str, str]]:
    return [(each.uid, each.action, each.reason) for each in read_decisions(folder)]


def lines_of(presses: Sequence[Press]) -> list[tuple[str, str, str]]:
    """The log that these presses have to leave."""
    return [(each.uid, *KEYS[each.key]) for each in presses if each.taken and not each.repeat]


def wait_for_the_next_row(visit: Visit, shown: str) -> None:
    visit.page.wait_for_function(
        "shown => document.querySelector('.st-key-decide_row')?.innerText.match(/Row \\d+/)?.[0] !== shown", arg=shown
    )
    visit.settle()


def row_of(visit: Visit) -> str:
    return re.findall(r"Row \d+", visit.page.locator(".st-key-decide_row").inner_text())[0]


def test_of_two_keys_each_decides_on_the_row_that_was_shown_or_is_visibly_not_taken(
    visit: Visit, many_rows: Path
) -> None:
    gaps: list[int | None] = [50 + 750 * number // max(1, PAIRS - 1) for number in range(PAIRS)]
    random.Random(0).shuffle(gaps)
    begun = len(said(many_rows))
    gaps.append(None)  # who waits for the next row is heard
    with busy():
        for number, gap in enumerate(gaps):
            before = said(many_rows)
            shown = row_of(visit)
            visit.page.keyboard.press("a12"[number % 3])
            if gap is None:
                wait_for_the_next_row(visit, shown)
            else:
                visit.page.wait_for_timeout(gap)
            visit.page.keyboard.press("21a"[number % 3])
            presses = pressed(visit)
            assert len(presses) == 2 and presses[0].taken, presses
            assert said(many_rows) == before + lines_of(presses), f"{gap} ms apart: {presses}"
    assert presses[1].taken and visit.problems() == []
    rows = [uid for uid, *_ in said(many_rows)[begun:]]
    assert len(set(rows)) == len(rows), "a decision was flipped"


def test_a_key_pressed_many_times_or_held_is_no_line_twice(visit: Visit, many_rows: Path) -> None:
    begun = len(said(many_rows))
    with busy():
        before = said(many_rows)
        for gap in (30, 30, 30, 45, 45, 45):
            visit.page.keyboard.press("a")
            visit.page.wait_for_timeout(gap)
        presses = pressed(visit)
        assert said(many_rows) == before + lines_of(presses), presses
        before = said(many_rows)
        for _ in range(25):
            visit.page.keyboard.down("a")  # without a key that goes up: held
            visit.page.wait_for_timeout(30)
        visit.page.keyboard.up("a")
        presses = pressed(visit)
        assert sum(each.repeat for each in presses) > 15
        assert said(many_rows) == before + lines_of(presses) and len(said(many_rows)) == len(before) + 1
        visit.page.get_by_role("button", name="Accept").dblclick()
        visit.page.get_by_text("“Accept” was not taken").wait_for(timeout=100_000)
        pressed(visit)
        assert len(said(many_rows)) == len(before) + 2
    rows = [uid for uid, *_ in said(many_rows)[begun:]]
    assert len(set(rows)) == len(rows)


def test_keys_leave_alone_what_is_not_shown_and_undo_works_after_a_reload(many_rows: Path, visit: Visit) -> None:
    begun = said(many_rows)
    visit.page.get_by_role("tab", name="Progress and agreement").click()
    visit.settle()
    visit.page.keyboard.press("a")
    visit.page.get_by_text("“a” was not taken: no row is shown").wait_for(timeout=100_000)
    visit.page.get_by_role("tab", name="Rows").click()
    visit.settle()
    visit.page.get_by_role("textbox", name="Search").press("a")  # what is typed is no key
    visit.page.keyboard.press("Control+a")
    visit.page.locator(".st-key-decide_row").click(position={"x": 5, "y": 5})
    pressed(visit)
    assert said(many_rows) == begun
    visit.page.get_by_role("textbox", name="Search").fill("")
    visit.page.locator(".st-key-decide_row").click(position={"x": 5, "y": 5})
    for key in "a2":
        pressed(visit)
        visit.page.keyboard.press(key)
    pressed(visit)
    decided = said(many_rows)[len(begun) :]
    assert [action for _, action, _ in decided] == ["accept", "reject"]
    visit.page.reload()
    await_row(visit)
    for uid, *_ in reversed(decided):
        visit.page.keyboard.press("z")
        pressed(visit)
        assert said(many_rows)[-1] == (uid, "withdraw", "")
    assert visit.problems() == [] and len(said(many_rows)) == len(begun) + 4


def test_a_key_that_comes_before_its_button_waits_for_it_and_says_so_where_none_comes(
    visit: Visit, many_rows: Path
) -> None:
    """The row stands before its buttons do: here the one of the key is kept from being found for a while."""
    hide = """ms => {
        const name = [...document.querySelector("[class*='st-key-decide-accept-']").classList].find(
            (each) => each.startsWith("st-key-decide-accept-"));
        const place = document.querySelector(`.${name}`);
        place.classList.remove(name);
        window.found = new Promise((done) => setTimeout(() => { place.classList.add(name); done(true); }, ms));
    }"""
    for ms, is_taken in ((400, True), (1500, False)):
        before, shown = said(many_rows), row_of(visit)
        visit.page.evaluate(hide, ms)
        visit.page.keyboard.press("a")
        visit.page.evaluate("window.found")
        if is_taken:
            wait_for_the_next_row(visit, shown)
        else:
            visit.page.get_by_text("“a” was not taken: there is nothing for it to do").wait_for(timeout=100_000)
        (press,) = pressed(visit)
        assert press.taken is is_taken
        assert said(many_rows) == before + lines_of([press]) and len(said(many_rows)) == len(before) + is_taken
    shown = row_of(visit)
    visit.page.keyboard.press("a")  # and the next one is heard
    wait_for_the_next_row(visit, shown)
    assert pressed(visit)[0].taken


def test_the_row_fills_the_window_and_is_read_by_keys(visit: Visit) -> None:
    where = """() => {
        const row = document.querySelector(".st-key-decide_row");
        const below = innerHeight - row.getBoundingClientRect().bottom;
        return [row.scrollTop, row.scrollHeight, row.clientHeight, below];
    }"""
    visit.page.evaluate("document.activeElement.blur()")
    visit.page.set_viewport_size({"width": 1400, "height": 620})
    visit.settle()
    top, long, high, below = visit.page.evaluate(where)
    assert top == 0 and long > high + 100 and 0 <= below < 60
    visit.page.keyboard.press("Space")
    assert (read := visit.page.evaluate(where)[0]) > 50
    visit.page.keyboard.press("Shift+Space")
    assert visit.page.evaluate(where)[0] < read
    visit.page.keyboard.press("End")
    assert visit.page.evaluate(where)[0] == pytest.approx(long - high, abs=2)
    visit.page.keyboard.press("j")
    visit.settle()
    assert visit.page.evaluate(where)[0] == 0  # the next row begins at its top
    visit.page.keyboard.press("?")
    assert "reject, for the reason" in visit.page.locator(".all-keys").inner_text()
    visit.page.keyboard.press("?")
    assert visit.page.locator(".all-keys").count() == 0
    visit.page.set_viewport_size({"width": 1400, "height": 1000})
