"""In a browser: a document's pane opens at what is quoted of it, and stays where a person scrolls it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("streamlit")

from tests.inspector.bundle_run import KEPT, write, write_bundles
from tests.support.browser import Visit, inspecting
from tests.support.bundle_questions import PAPER, STREET
from trailforge.pipelines.runs.intake import Settings
from trailforge.schemas import BundleQuestion, to_dict

_FILLER = "\n".join(f"Line {number} of the release says nothing of it." for number in range(120))
_WHERE = """pane => {
  const mark = pane.querySelector("mark.hop0, mark.hop1"), at = pane.getBoundingClientRect();
  return [pane.scrollTop, mark.getBoundingClientRect().top - at.top, pane.clientHeight];
}"""


@pytest.fixture(scope="module")
def run_of_bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose quotes stand far down in its documents, with two questions on it."""
    folder = tmp_path_factory.mktemp("panes")
    long = tuple(replace(each, text=f"{_FILLER}\n{each.text}\n{_FILLER}") for each in (STREET, PAPER))
    write_bundles(folder, documents=long)
    write(folder, "bundle_questions", BundleQuestion, [KEPT, replace(KEPT, uid="kept2")])
    settings = Settings(
        dataset="document_bundles", run_id="run", config_hash="c", config="{}", sources=(), limit=None, shards=(),
        files=(), books=(),
    )  # fmt: skip
    (folder / "run.json").write_text(json.dumps(to_dict(settings)))
    return folder


@pytest.fixture(scope="module")
def visit(run_of_bundles: Path, browser: Any) -> Iterator[Visit]:
    with inspecting(run_of_bundles) as url:
        yield Visit(browser, url)


def panes(visit: Visit) -> list[tuple[float, float, float]]:
    """Of each pane how far it is scrolled, where its quote stands in it, and its height."""
    found = visit.page.locator(".paper > .body")
    return [tuple(found.nth(number).evaluate(_WHERE)) for number in range(found.count())]


def test_each_pane_opens_at_its_quote_and_is_then_left_alone(visit: Visit) -> None:
    visit.go("bundles?table=bundles&row=b")
    visit.page.locator(".papers").first.scroll_into_view_if_needed()
    visit.page.wait_for_timeout(500)
    opened = panes(visit)
    assert len(opened) == 2
    for scrolled, quote, height in opened:
        assert scrolled > 1000 and 0 <= quote < height
    visit.page.locator(".paper > .body").first.evaluate("pane => { pane.scrollTop = 7 }")
    visit.page.mouse.wheel(0, -5000)
    visit.page.wait_for_timeout(300)
    visit.page.locator(".papers").first.scroll_into_view_if_needed()
    visit.page.wait_for_timeout(500)
    assert panes(visit)[0][0] == 7
    assert not visit.problems()
