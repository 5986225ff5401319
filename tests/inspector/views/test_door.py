"""Guessing the password is slow for the whole process and tells nothing; no page elsewhere frames this one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("streamlit")
from streamlit.testing.v1 import AppTest

from tests.support.browser import Visit, inspecting
from trailforge.inspector import server
from trailforge.inspector.server import PASSWORD, Guesses

WRONG = "That is not the password."


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def page() -> None:
    """Streamlit runs the text of this function by itself."""
    import streamlit as st

    from trailforge.inspector import server

    if server.is_open():
        st.text("inside")


def ask(app: Any, password: str) -> list[str]:
    """What the page then says."""
    app.text_input[0].input(password)
    app.button[0].click().run()
    return [each.value for each in (*app.error, *app.text)]


def test_each_wrong_password_closes_the_door_for_longer_even_to_the_right_one() -> None:
    clock = Clock()
    guesses, closed = Guesses(clock=clock), []
    for _ in range(9):
        assert guesses.problem_of("guess", "swordfish") == WRONG
        closed.append(guesses.closed_until - clock.now)
        clock.now = guesses.closed_until - 0.5
        assert "Too many wrong passwords" in str(guesses.problem_of("swordfish", "swordfish"))
        clock.now = guesses.closed_until
    assert closed == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert guesses.problem_of("swordfish", "swordfish") is None
    assert guesses.problem_of("swordfish2", "swordfish") == WRONG  # who gets in makes guessing no faster for others
    assert guesses.closed_until - clock.now == 60
    clock.now += 601
    assert guesses.problem_of("Pässwörd", "swordfish") == WRONG and guesses.closed_until - clock.now == 1


def test_of_guesses_at_once_one_is_looked_at() -> None:
    guesses = Guesses(clock=Clock())
    with ThreadPoolExecutor(16) as pool:
        said = list(pool.map(lambda number: guesses.problem_of(str(number), "swordfish"), range(64)))
    assert said.count(WRONG) == 1 and len(guesses.wrong) == 1


def test_all_visits_share_the_wait_and_failures_are_counted_aloud(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setenv(PASSWORD, "swordfish")
    monkeypatch.setattr(server, "GUESSES", Guesses(clock=clock))
    one, two = (AppTest.from_function(page, default_timeout=300).run() for _ in range(2))
    assert ask(one, "guess") == [WRONG]
    assert ask(two, "swordfish") == ["Too many wrong passwords. Try again in 1 s."]
    clock.now += 1
    assert ask(two, "guess again") == [WRONG]
    told = [line for line in capsys.readouterr().err.splitlines() if "password" in line]
    assert told == [f"wrong password for the page: number {number} in ten minutes" for number in (1, 2)]
    clock.now += 2
    assert ask(two, "swordfish") == ["inside"] and "inside" not in [each.value for each in one.text]


@pytest.mark.slow
def test_nothing_of_the_run_is_told_before_the_password(
    browser: Any, many_rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD, "swordfish")
    log = tmp_path / "log"
    with inspecting(many_rows, "--host", "0.0.0.0", log=log) as url:
        visit = Visit(browser, url)
        sent: list[bytes] = []
        visit.page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: sent.append(_bytes(frame))))
        visit.go("")
        given = visit.page.get_by_label("Password").first
        given.wait_for(timeout=100_000)
        visit.settle()
        known = visit.page.title() + visit.page.content() + str(b"".join(sent))
        assert sent and "mcts" not in known and many_rows.name not in known
        given.fill("guess")
        visit.page.get_by_role("button", name="Open").click()
        visit.page.get_by_text("That is not the password.").wait_for(timeout=100_000)
        visit.page.wait_for_timeout(1_000)
        given.fill("swordfish")
        visit.page.get_by_role("button", name="Open").click()
        visit.page.get_by_text("Funnel").first.wait_for(timeout=100_000)
        visit.settle()
        assert visit.page.title() == "mcts_trajectories · trailforge"
        visit.page.close()
    assert "wrong password for the page: number 1 in ten minutes" in log.read_text()


@pytest.mark.slow
def test_no_page_elsewhere_shows_this_one_in_a_frame(browser: Any, many_rows: Path) -> None:
    with inspecting(many_rows) as url, elsewhere(f'<h1>Win!</h1><iframe src="{url}/decide"></iframe>') as trap:
        page = browser.new_page()
        page.goto(trap)
        page.get_by_text("Win!").wait_for(timeout=100_000)
        (framed,) = page.frames[1:]
        framed.wait_for_url(lambda address: not address.startswith("about:"), timeout=100_000)
        page.wait_for_timeout(1_000)
        assert framed.url.startswith("chrome-error:") and framed.locator("[data-testid=stApp]").count() == 0
        page.close()


@contextmanager
def elsewhere(content: str) -> Iterator[str]:
    """A page of another origin."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, *given: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_address[1]}"
        server.shutdown()


def _bytes(frame: bytes | str) -> bytes:
    return frame if isinstance(frame, bytes) else frame.encode()
