"""Bundles: the map of the documents, a bundle's documents side by side, and its questions."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from trailforge.inspector.bundle_rows import AskedQuestion, questions_of, rejections_of
from trailforge.inspector.drawings.document_map import MappedDocument, Projection, document_map, principal_axes
from trailforge.pipelines.runs.finished import OpenRun
from trailforge.inspector.views.bundle_question import (
    documents_of,
    show_bundle_head,
    show_bundle_question,
    show_documents,
)
from trailforge.inspector.views.picking import go_to, pick
from trailforge.inspector.views.searching import searched
from trailforge.inspector.views.to_decide import show_link
from trailforge.inspector.visible_text import escaped
from trailforge.schemas import Bundle

STYLE = """
.verdict { padding: .3rem .7rem; border-radius: 4px; margin-bottom: .2rem; overflow-wrap: anywhere; font-size: .92rem; }
.verdict.kept { background: rgba(46,158,91,.14); border-left: 4px solid #2e9e5b; }
.verdict.rejected { background: rgba(209,69,59,.12); border-left: 4px solid #d1453b; }
.verdict.candidate { background: rgba(128,128,128,.12); border-left: 4px solid #9aa0a6; }
"""
MOST_POINTS = 20_000
"""Documents on the map; of more a sample is shown, the same at every start."""
_MAP = "documents.map"
_COLOUR = "documents.colour"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Map:
    """The documents in two dimensions."""

    projection: Projection
    documents: tuple[MappedDocument, ...]
    total: int
    """Documents with an embedding."""


def show(run: OpenRun) -> None:
    """Choose a bundle on the map or in the list, and read it."""
    if "bundles" not in run.tables:
        number = pick(run, "bundle_questions", ["question", "answer", "type", "complexity"], kind="type", height=180)
        if number is not None:
            show_bundle_question(run, run.record("bundle_questions", number))
        return
    map_side, list_side = st.columns([2, 3], gap="medium")
    with list_side:
        number = pick(run, "bundles", ["theme", "cohesion", "sources"], height=215)
    bundle: Bundle | None = None if number is None else run.record("bundles", number)
    with map_side:
        _show_map(run, bundle)
    if bundle is not None:
        _show_chosen(run, bundle)


def _show_chosen(run: OpenRun, bundle: Bundle) -> None:
    """A bundle with one of its questions."""
    asked = questions_of(run, bundle.uid)
    head, choice = st.columns([3, 2], vertical_alignment="center")
    with head:
        show_bundle_head(bundle)
    if "rejected" in run.tables:
        searched(run, "rejected", bundle.uid, head)
    for rejected in rejections_of(run, bundle.uid):
        if rejected.uid == bundle.uid:
            _show_verdict(
                "rejected",
                f"This bundle was put aside in the stage “{rejected.stage}”",
                rejected.reason,
                rejected.detail,
            )
    if not asked:
        show_documents(documents_of(run, bundle.uid))
        st.caption("It has no question.")
        return
    numbers = list(range(len(asked)))
    with choice, st.container(horizontal=True, vertical_alignment="bottom"):
        number = st.segmented_control(
            "Its questions", numbers, default=0, required=True, key=f"questions.{bundle.uid}",
            format_func=lambda number: f"{number + 1} · {asked[number].fate}",
            help="Kept questions are in the data set. Rejected ones say which filter put them aside.",
        )  # fmt: skip
        shown = asked[number or 0]
        if shown.fate != "candidate":
            table, uid = ("rejected", shown.rejected.uid) if shown.rejected else ("bundle_questions", shown.row.uid)
            show_link(table, uid, what="question")
    _show_asked(run, shown)


def _show_asked(run: OpenRun, asked: AskedQuestion) -> None:
    if asked.rejected:
        _show_verdict("rejected", "Not in the data set", asked.rejected.reason, asked.rejected.detail)
    elif asked.fate == "candidate":
        _show_verdict("candidate", "A candidate: the run has not chosen among all candidates yet", "", "")
    show_bundle_question(run, asked.row)


def _show_verdict(kind: str, said: str, reason: str, detail: str) -> None:
    parts = ": ".join(filter(None, (f"<b>{escaped(reason)}</b>" if reason else "", escaped(detail))))
    st.html(f'<div class="verdict {kind}">{escaped(said)}{" · " if parts else ""}{parts}</div>')


def _show_map(run: OpenRun, bundle: Bundle | None) -> None:
    """The map, in which a click chooses a bundle."""
    if "embeddings" not in run.tables:
        st.info("This run keeps no embeddings, so there is no map of its documents.")
        return
    with st.spinner("Placing the documents …"):
        placed: _Map = run.once(("map",), lambda: _place(run))
    by_bundle = st.session_state.get(_COLOUR) == "bundle"
    chosen = _chosen(run, placed, bundle) if bundle else []
    st.plotly_chart(
        document_map(placed.documents, chosen, by_bundle=by_bundle, height=265), key=_MAP, selection_mode="points",
        on_select=lambda: _choose(run), config={"displayModeBar": False, "scrollZoom": True},
        alt="Map of the documents",
    )  # fmt: skip
    colour, said = st.columns([2, 3], vertical_alignment="center")
    colour.segmented_control(
        "Colour by", ["source", "bundle"], default="source", required=True, key=_COLOUR, label_visibility="collapsed",
        help="Red rings: the documents of the chosen bundle. A click on a point chooses its bundle.",
    )  # fmt: skip
    shown, kept = len(placed.documents), sum(placed.projection.kept)
    sample = f"a sample of {shown:,} of {placed.total:,}" if shown < placed.total else f"{shown:,} documents"
    said.caption(
        f"PCA of the embeddings, {sample}: the two main directions hold {kept:.0%} of the variance.",
        help="Near points need not be alike: all that the two directions do not show is left out.",
    )


def _choose(run: OpenRun) -> None:
    points: list[dict[str, Any]] = st.session_state[_MAP]["selection"]["points"]
    said = points[0].get("customdata") if points else None
    bundle = said[0] if isinstance(said, list) and said else said
    if bundle:
        go_to(run, "bundles", str(bundle))


def _place(run: OpenRun) -> _Map:
    """Projects the documents, or a sample of them."""
    table = run.table("embeddings")
    ids: list[str] = table.select(["document_id"])["document_id"].to_pylist()
    total = len(ids)
    if total > MOST_POINTS:
        sample = [ids[number] for number in sorted(random.Random(0).sample(range(total), MOST_POINTS))]
        rows = table.select(["document_id", "vector"], ("document_id", sample))
    else:
        rows = table.select(["document_id", "vector"])
    vectors = rows["vector"].combine_chunks().flatten().to_numpy().reshape(len(rows), -1)
    projection = principal_axes(vectors)
    ids = rows["document_id"].to_pylist()
    told, bundles = _told(run, ids), _bundles(run, set(ids))
    documents = (
        _mapped(id, told.get(id, ("", "")), bundles.get(id, ""), place)
        for id, place in zip(ids, projection.places(vectors), strict=True)
    )
    return _Map(projection=projection, documents=tuple(documents), total=total)


def _mapped(id: str, told: tuple[str, str], bundle: str, place: np.ndarray) -> MappedDocument:
    return MappedDocument(id=id, title=told[0], source=told[1], bundle=bundle, x=float(place[0]), y=float(place[1]))


def _told(run: OpenRun, ids: list[str]) -> dict[str, tuple[str, str]]:
    """Title and source by document."""
    if "documents" not in run.tables:
        return {}
    rows = run.table("documents").select(["id", "title", "source"], ("id", ids)).to_pylist()
    return {row["id"]: (row["title"], row["source"]) for row in rows}


def _bundles(run: OpenRun, ids: set[str]) -> dict[str, str]:
    """Uid of the bundle by document."""
    rows = run.table("bundles").select(["uid", "document_ids"]).to_pylist()
    return {id: row["uid"] for row in rows for id in row["document_ids"] if id in ids}


def _chosen(run: OpenRun, placed: _Map, bundle: Bundle) -> list[MappedDocument]:
    """The bundle's documents, also those that the sample lacks."""
    known = run.once(("map.ids",), lambda: {document.id: document for document in placed.documents})
    found = [known.get(id) or _placed_alone(run, placed, id, bundle) for id in bundle.document_ids]
    return [document for document in found if document is not None]


def _placed_alone(run: OpenRun, placed: _Map, id: str, bundle: Bundle) -> MappedDocument | None:
    number = run.find("embeddings", id)
    if number is None:
        return None
    vector = np.array([run.row("embeddings", number)["vector"]])
    there = run.find("documents", id)
    told = run.row("documents", there) if there is not None else {"title": "", "source": ""}
    return _mapped(id, (told["title"], told["source"]), bundle.uid, placed.projection.places(vector)[0])
