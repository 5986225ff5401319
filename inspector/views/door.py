"""Asks for the page's password, where it has one."""

from __future__ import annotations

import hashlib
import hmac
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import streamlit as st

from trailforge.inspector.server import PASSWORD

_REMEMBERED_S = 600.0
"""How long a wrong password slows down the next ones."""
_LONGEST_WAIT_S = 60.0


@dataclass(slots=True)
class Guesses:
    """Wrong passwords of the whole process: whoever opens ten pages, from ten addresses, guesses no faster.

    Each wrong one doubles the time, from a second to a minute, in which no password is looked at, not even the right
    one.
    """

    clock: Callable[[], float] = time.monotonic
    wrong: deque[float] = field(default_factory=deque)
    """When, of the last ten minutes."""
    closed_until: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def problem_of(self, given: str, password: str) -> str | None:
        """Why somebody who gives this stays outside; None for the password itself."""
        with self.lock:
            now = self.clock()
            if now < self.closed_until:
                return f"Too many wrong passwords. Try again in {self.closed_until - now:.0f} s."
            # Of equal length, so that the time that this takes tells nothing.
            if hmac.compare_digest(*(hashlib.sha256(each.encode()).digest() for each in (given, password))):
                return None
            while self.wrong and self.wrong[0] < now - _REMEMBERED_S:
                self.wrong.popleft()
            self.wrong.append(now)
            self.closed_until = now + min(_LONGEST_WAIT_S, 2.0 ** (len(self.wrong) - 1))
            line = f"wrong password for the page: number {len(self.wrong)} in ten minutes"
            print(line, file=sys.stderr, flush=True)
            return "That is not the password."


GUESSES = Guesses()


def is_open() -> bool:
    """Whether this person may see the page; asks for the password where that is needed."""
    password = os.environ.get(PASSWORD)
    if not password or st.session_state.get("door.open"):
        return True
    with st.form("door"):
        given = st.text_input("Password", type="password")
        if not st.form_submit_button("Open"):
            return False
    problem = GUESSES.problem_of(given, password)
    if problem:
        st.error(problem)
        return False
    st.session_state["door.open"] = True
    st.rerun()
