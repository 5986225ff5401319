"""Stub of bundles."""

from __future__ import annotations

import streamlit as st

from inspector.open_run import OpenRun


def show(run: OpenRun) -> None:
    """Show it."""
    st.write("bundles")
