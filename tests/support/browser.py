"""A real browser on the curators' page, as a person has it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.support import free_port, wait_for
from tests.support.warm import Running

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    *("--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_AT_REST = """
addEventListener("DOMContentLoaded", () => {
  const style = document.createElement("style");
  style.textContent = "*, *::before, *::after { animation: none !important; transition: none !important }";
  document.head.append(style);
});
"""
"""What moves while a page loads is drawn by the processor here, and would keep it from what is waited for."""
_SETTLED = '[data-testid="stApp"][data-test-script-state="notRunning"]'


@contextmanager
def inspecting(folder: Path, *options: object, port: int = 0, log: Path | None = None) -> Iterator[str]:
    """`trailforge inspect` on a folder, until the block ends; gives the page's address."""
    port = port or free_port()
    log = log or Path(os.devnull)
    command = ["inspect", str(folder), "--no-open", "--port", str(port), *map(str, options)]
    process = Running(command, os.environ, log, log)
    try:
        wait_for(f"http://127.0.0.1:{port}/_stcore/health", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(15)
        process.end_group()


@contextmanager
def browsing() -> Iterator[Any]:
    """One person's windows in Chromium, which asks nobody but the page's server for anything; skipped where it is not
    installed. What they have loaded from an address they do not load again.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    flags = [*_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=flags)
        try:
            yield browser.new_context(viewport={"width": 1400, "height": 1000})
        finally:
            browser.close()


class Visit:
    """One person's tab on the page, with whatever went wrong in it."""

    def __init__(self, browser: Any, url: str) -> None:
        self.url = url
        self.page = browser.new_page()
        self.page.add_init_script(_AT_REST)
        self.outside: list[str] = []
        self.dialogs: list[str] = []
        self.page.on("request", self._note)
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))

    def go(self, path: str) -> None:
        """Open one of the views and wait until it stands."""
        self.page.goto(f"{self.url}/{path}")
        self.settle()

    def follow(self, title: str) -> None:
        """Another view, by its link at the top: nothing is loaded anew."""
        self.page.get_by_test_id("stTopNavLink").filter(has_text=title).click()
        self.settle()

    def settle(self) -> None:
        """Wait until nothing on the page moves any more."""
        self.page.wait_for_selector(_SETTLED, timeout=200_000)
        self.page.wait_for_timeout(300)
        self.page.wait_for_selector(_SETTLED, timeout=200_000)

    def text(self) -> str:
        """All that a person can read."""
        return self.page.inner_text("body")

    def shows(self, text: str) -> bool:
        """Whether a text can be read on the page, or comes to be within a while."""
        exactly = re.compile(re.escape(text))  # a plain text is found whatever its case: "accepted" for "Accept"
        self.page.get_by_text(exactly).first.wait_for(timeout=100_000)
        return text in self.text()

    def problems(self) -> list[str]:
        """Errors on the page, dialogs, and what it asked of other hosts."""
        errors = self.page.locator('[data-testid="stException"], [data-testid="stAlertContentError"]').all_inner_texts()
        return [*errors, *self.dialogs, *self.outside]

    def _note(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:", self.url.replace("http", "ws", 1))):
            self.outside.append(request.url)
