"""Decide."""

from __future__ import annotations

import streamlit as st

from inspector.open_run import OpenRun
from inspector.views.deciding import Curation


def show(run: OpenRun, curation: Curation) -> None:
    """Show it."""
    st.write("decide")
