"""A sound question over two documents, and a reader that knows only what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trailforge.schemas import (
    Bundle,
    BundleHop,
    BundleQuestion,
    PlanEdge,
    PlanNode,
    Provenance,
    SourceDocument,
)

STREET = SourceDocument(
    id="news:1", source="news", kind="news", title="A prize for tides", published="2025-05-02",
    text="The Ludlow prize went to the Orkney tide mill.\nIts jury praised the turbine that Mara Lind designed.",
)  # fmt: skip
PAPER = SourceDocument(
    id="arxiv:2", source="arxiv", kind="academic", title="Blades for slow water", published="2025-04-20",
    text="Mara Lind studied blades at the University of Bergen. We measure their yield in slow water.",
)  # fmt: skip
DOCUMENTS = {document.id: document for document in (STREET, PAPER)}
BUNDLE = Bundle(uid="b", document_ids=("news:1", "arxiv:2"), sources=("news", "arxiv"), cohesion=0.6, theme="tide mill")


def question(**changes: Any) -> BundleQuestion:
    """Sound, unless told otherwise."""
    sound = BundleQuestion(
        uid="q",
        bundle_id="b",
        question="At which university did the designer of the turbine in the Ludlow prize's tide mill study blades?",
        type="factual",
        answer="University of Bergen",
        options=(),
        correct_options=(),
        hops=(
            BundleHop(document_id="news:1", evidence="the turbine that Mara Lind designed", reasoning="names her"),
            BundleHop(
                document_id="arxiv:2", evidence="Mara Lind studied blades at the University of Bergen", reasoning=""
            ),
        ),
        dag_text="",
        dag_nodes=(
            PlanNode(node_id="A", query="designer of the turbine of the Orkney tide mill", tool="News"),
            PlanNode(node_id="B", query="where that designer studied blades", tool="Academic"),
        ),
        dag_edges=(PlanEdge(src="A", dst="B"),),
        filters=(),
        complexity=0.0,
        curriculum_stage=1,
        preset="test",
        provenance=Provenance(run_id="r", source_id="b", model="m", prompt_version="0", seed=0, call_keys=()),
    )
    return replace(sound, **changes)


def choice(*correct: str, options: int = 6, kind: str = "multiple_choice") -> BundleQuestion:
    """A question with options."""
    texts = tuple(f"option {n}" for n in range(options))
    return question(type=kind, options=texts, correct_options=correct, answer="; ".join(correct))


class FakeReader:
    """Gives the answer when it is handed all the documents named, in any case where `knows` is true."""

    def __init__(
        self,
        *needed: str,
        answer: str = "the University of Bergen",
        knows: Sequence[int] = (),
        cut: Sequence[int | tuple[str, ...]] = (),
    ) -> None:
        """`cut`: draws without documents, and sets of documents, whose replies are cut."""
        self.needed, self.right, self.knows, self.cut = set(needed), answer, set(knows), set(cut)
        self.asked: list[tuple[str, ...]] = []

    async def answer(self, row: BundleQuestion, documents: Sequence[SourceDocument], sample: int) -> str | None:
        """Right when it has what it needs, or knows it at this draw."""
        self.asked.append(tuple(document.id for document in documents))
        if (self.asked[-1] if documents else sample) in self.cut:
            return None
        given = {document.id for document in documents}
        knows = sample in self.knows if not documents else bool(given) and self.needed <= given
        return self.right if knows else "somewhere else"
