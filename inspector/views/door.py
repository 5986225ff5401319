"""Asks for the page's password, where it has one."""

from __future__ import annotations

import hmac
import os
import time

import streamlit as st

from inspector.server import PASSWORD

_WAIT_S = 1.0
"""After a wrong password: guessing is slow."""


def is_open() -> bool:
    """Whether this person may see the page; asks for the password where that is needed."""
    password = os.environ.get(PASSWORD)
    if not password or st.session_state.get("door.open"):
        return True
    with st.form("door"):
        given = st.text_input("Password", type="password")
        if not st.form_submit_button("Open"):
            return False
    if not hmac.compare_digest(given.encode(), password.encode()):
        time.sleep(_WAIT_S)
        st.error("That is not the password.")
        return False
    st.session_state["door.open"] = True
    st.rerun()
