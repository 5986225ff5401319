"""A click on a bar of the overview, or on More like this, makes a search, whose address shows others the same rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Visit, inspecting

pytest.importorskip("streamlit")
from streamlit.testing.v1 import AppTest


@pytest.mark.slow
def test_a_bar_lists_its_rows_and_the_address_is_a_link_to_them(browser: Any, many_rows: Path) -> None:
    with inspecting(many_rows, "--who", "ann") as url:
        visit = Visit(browser, url)
        visit.go("")
        click_bar(visit, ".st-key-number-num_hops")
        visit.page.wait_for_url(re.compile(r"mcts_trajectories\.search=num_hops%3D\d"), timeout=100_000)
        assert visit.shows("Row 1 of 600") and visit.problems() == []
        other = Visit(browser, url)
        other.go(visit.page.url.removeprefix(f"{url}/").replace("num_hops%3D", "num_hops!%3D"))
        assert other.shows("No row matches.") and other.problems() == []


def click_bar(visit: Visit, within: str) -> None:
    bar = visit.page.locator(f"{within} .bars .point").first
    bar.wait_for(timeout=100_000)
    bar.scroll_into_view_if_needed()
    place = bar.bounding_box()
    middle = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    visit.page.mouse.move(*middle)
    visit.page.wait_for_timeout(500)  # a drawing finds out first what the mouse is over
    visit.page.mouse.click(*middle)


def page() -> None:
    """Streamlit runs the text of this function by itself."""
    import streamlit as st

    from trailforge.inspector.views.picking import offer_like

    st.text_input("Search", key="words")
    offer_like("words", 'row "7"', lambda: None)


def test_more_like_this_searches_for_rows_like_the_one_that_is_shown() -> None:
    app = AppTest.from_function(page, default_timeout=300).run()
    app.button(key="words.like").click().run()
    assert not app.exception and app.text_input(key="words").value == 'like:"row ""7"""'
