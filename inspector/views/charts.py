"""Drawings on the page: their ink follows its theme."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

_INK = {"dark": "#fafafa", "light": "#31333f"}


def show_drawing(figure: go.Figure, *, key: str, alt: str) -> None:
    """A drawing without tools. Streamlit's own theme writes its texts in a grey that is hard to read."""
    figure.update_annotations(font_color=_INK["dark" if st.context.theme.type == "dark" else "light"])
    st.plotly_chart(figure, key=key, config={"displayModeBar": False}, alt=alt)
