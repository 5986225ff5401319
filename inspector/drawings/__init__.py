"""Figures of the curators' page: pure functions from records to Plotly figures."""
