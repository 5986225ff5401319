"""A row as a list of its fields, for tables that have no view of their own."""

from __future__ import annotations

import json
from typing import Any

import streamlit as st

from trailforge.inspector.visible_text import escaped

STYLE = """
.fields { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .25rem 1rem; }
.fields .name { opacity: .7; font-size: .85rem; }
.fields .value { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .92rem; max-height: 20rem;
                 overflow-y: auto; }
"""


def show_fields(fields: dict[str, Any]) -> None:
    """Names and values, in their order; what is no text as JSON."""
    cells = (
        f'<div class="name">{escaped(name)}</div><div class="value">{escaped(_told(value))}</div>'
        for name, value in fields.items()
    )
    st.html(f'<div class="fields">{"".join(cells)}</div>')


def _told(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)
