"""How much is decided, how far people agree with each other and with the filters, and where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import streamlit as st

from trailforge.curation.agreement import between_people, with_filters
from trailforge.curation.decisions import Merged, Stance
from trailforge.inspector.open_run import OpenRun
from trailforge.inspector.visible_text import visible


def show_agreement(run: OpenRun, tables: Sequence[str], stances: Sequence[Stance], heard: Merged) -> None:
    """`tables`: on whose rows people decide."""
    if not stances:
        st.info("Nobody has decided on a row yet.")
        return
    said = Counter((each.table, each.action) for each in heard.rulings)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Progress")
        st.dataframe(
            [
                {
                    "table": name, "rows": run.size(name), "accepted": said[name, "accept"],
                    "fixed": said[name, "fix"], "rejected": said[name, "reject"],
                }
                for name in tables if run.size(name)
            ],
            hide_index=True,
        )  # fmt: skip
        st.subheader(
            "Between people and filters", help="Rows of the tables passed all filters; those of rejected/ did not."
        )
        st.dataframe(
            [
                {
                    "who": visible(each.who),
                    "filters kept": each.accepted, "kept too": _share(each.accepted_too, each.accepted),
                    "filters rejected": each.rejected, "rejected too": _share(each.rejected_too, each.rejected),
                }
                for each in with_filters(stances)
            ],
            hide_index=True,
        )  # fmt: skip
    with right:
        st.subheader("Between people", help="Cohen's kappa: 1 is full agreement, 0 what chance gives.")
        pairs = [
            {
                "two people": visible(" and ".join(each.people)), "rows of both": each.rows,
                "agree": _share(each.same, each.rows), "kappa": each.kappa,
            }
            for each in between_people(stances)
        ]  # fmt: skip
        if pairs:
            st.dataframe(pairs, hide_index=True, column_config={"kappa": st.column_config.NumberColumn(format="%.2f")})
        else:
            st.info("No row has been decided by two people.")
        st.subheader("Where people differ")
        st.dataframe(
            [
                {"table": each.table, "row": visible(each.uid), "field": visible(each.field),
                 "said": visible(", ".join(f"{who}: {what}" for who, what in each.sides))}
                for each in heard.conflicts
            ],
            hide_index=True,
        )  # fmt: skip
    st.caption("The curated data set is made of these decisions by:")
    st.code(f"trailforge curate apply {run.folder} --out {run.folder}-curated", language="bash")


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"
