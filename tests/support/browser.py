"""A real browser on the curators' page, as a person has it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.support import ROOT, free_port, wait_for

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    *("--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_SETTLED = '[data-testid="stApp"][data-test-script-state="notRunning"]'


@contextmanager
def inspecting(folder: Path, *options: object, port: int = 0, log: Path | None = None) -> Iterator[str]:
    """`trailforge inspect` on a folder, until the block ends; gives the page's address."""
    port = port or free_port()
    log = log or Path(os.devnull)
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "trailforge", "inspect", str(folder), "--no-open", "--port", str(port),
             *map(str, options)],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
        )  # fmt: skip
        try:
            wait_for(f"http://127.0.0.1:{port}/_stcore/health", process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def browsing() -> Iterator[Any]:
    """Chromium, which asks nobody but the page's server for anything; skipped where it is not installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    flags = [*_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=flags)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """One person's tab on the page, with whatever went wrong in it."""

    def __init__(self, browser: Any, url: str) -> None:
        self.url = url
        self.page = browser.new_page(viewport={"width": 1400, "height": 1000})
        self.outside: list[str] = []
        self.dialogs: list[str] = []
        self.page.on("request", self._note)
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))

    def go(self, path: str) -> None:
        """Open one of the views and wait until it stands."""
        self.page.goto(f"{self.url}/{path}")
        self.settle()

    def settle(self) -> None:
        """Wait until nothing on the page moves any more."""
        self.page.wait_for_selector(_SETTLED, timeout=60_000)
        self.page.wait_for_timeout(300)
        self.page.wait_for_selector(_SETTLED, timeout=60_000)

    def text(self) -> str:
        """All that a person can read."""
        return self.page.inner_text("body")

    def shows(self, text: str) -> bool:
        """Whether a text can be read on the page, or comes to be within a while."""
        exactly = re.compile(re.escape(text))  # a plain text is found whatever its case: "accepted" for "Accept"
        self.page.get_by_text(exactly).first.wait_for(timeout=20_000)
        return text in self.text()

    def problems(self) -> list[str]:
        """Errors on the page, dialogs, and what it asked of other hosts."""
        errors = self.page.locator('[data-testid="stException"], [data-testid="stAlertContentError"]').all_inner_texts()
        return [*errors, *self.dialogs, *self.outside]

    def _note(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:", self.url.replace("http", "ws", 1))):
            self.outside.append(request.url)
