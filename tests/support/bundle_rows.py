"""Questions over the sample documents, written by hand: each joins documents; the queries of its plan stand alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trailforge.pipelines.sources.documents import read_documents
from trailforge.protocols.nl_dag import parse
from trailforge.schemas import BundleHop, BundleQuestion, BundleQuestionType, Provenance, SourceDocument

SAMPLES = Path(__file__).parents[2] / "sample_data" / "documents.jsonl"


def sample_documents() -> list[SourceDocument]:
    """All of `sample_data/documents.jsonl`."""
    rows = list(read_documents([SAMPLES]))
    assert all(isinstance(row, SourceDocument) for row in rows)
    return rows  # type: ignore[return-value]


def bundle_question(
    uid: str,
    text: str,
    answer: str,
    hops: Sequence[tuple[str, str]],
    plan: str,
    *,
    kind: BundleQuestionType = "factual",
    options: Sequence[str] = (),
    correct: Sequence[str] = (),
) -> BundleQuestion:
    """A question; `hops` are (number of the sample document, evidence)."""
    sources = {document.id.partition(":")[2]: document.id for document in sample_documents()}
    read = parse(plan)
    return BundleQuestion(
        uid=uid,
        bundle_id="b",
        question=text,
        type=kind,
        answer=answer,
        options=tuple(options),
        correct_options=tuple(correct),
        hops=tuple(BundleHop(document_id=sources[n], evidence=said, reasoning="") for n, said in hops),
        dag_text=plan,
        dag_nodes=read.nodes,
        dag_edges=read.edges,
        filters=(),
        complexity=0.5,
        curriculum_stage=1,
        preset="test",
        provenance=Provenance(
            run_id="r", source_id="b", model="writer", prompt_version="0", seed=0, call_keys=("written",)
        ),
    )


ISLAND = bundle_question(
    "island",
    "How many species of plants had been found on the island that belongs to the crossing designed by "
    "George K. S. Rotne?",
    "more than 500",
    [
        ("005", "Its architect was George K. S. Rotne."),
        ("006", "Between the tunnel and the bridge lies Peberholm, an island that was made of what was dredged"),
        ("007", "We list more than 500 species of plants found since its completion."),
    ],
    "Nodes:\nA: bridge whose architect was George K. S. Rotne (News)\n"
    "B: artificial island between a bridge and a tunnel, made of dredged seabed (News)\n"
    "C: species of plants found on an artificial island of a bridge and tunnel link (Academic)\n"
    "Edges:\nA -> B; B -> C",
)
WHEEL = bundle_question(
    "wheel",
    "Why may the wheel that broke in the Gotthard Base Tunnel on 10 August 2023 have cracked?",
    "because composite brake blocks heat the rim of a wheel and let cracks grow",
    [
        ("018", "On 10 August 2023 a wheel had broken, and the train destroyed some seven kilometres of track"),
        ("020", "We examine how composite brake blocks, which were introduced to make goods trains quieter, heat the "
                "rim of a wheel and let cracks grow."),
    ],
    "Nodes:\nA: goods train derailed in the Gotthard Base Tunnel on 10 August 2023 (News)\n"
    "B: fatigue cracks in wheels of goods trains after the Gotthard derailment (Academic)\nEdges:\nA -> B",
    kind="causal",
)  # fmt: skip
INSTRUMENT = bundle_question(
    "instrument",
    "At which university was the mass spectrometer built that the mother ship of the lander Philae carried?",
    "Bern",
    [
        ("053", "Its mother ship, the European spacecraft Rosetta, had travelled for ten years to get there."),
        ("055", "The instrument was built under Kathrin Altwegg at the University of Bern."),
    ],
    "Nodes:\nA: mother ship of the comet lander Philae (News)\n"
    "B: mass spectrometer on board the mother ship of a comet lander (Academic)\nEdges:\nA -> B",
    kind="single_choice",
    options=("Geneva", "Bern", "Kyiv", "Darmstadt"),
    correct=("B",),
)
CHURCH = bundle_question(
    "church",
    "Which of these are true of the church that was rolled through Kiruna in August 2025?",
    "Gustaf Wickman designed it; It weighs 672 tonnes; It was finished in 1912",
    [
        ("057", "The red wooden building weighs 672 tonnes"),
        ("059", "The architect Gustaf Wickman gave it a church in the shape of a Sami hut, finished in 1912"),
    ],
    "Nodes:\nA: church of Kiruna rolled to a new place in August 2025 (News)\n"
    "B: architect and completion of the church of Kiruna (Academic)\nEdges:",
    kind="multiple_choice",
    options=(
        "It was built of stone", "Gustaf Wickman designed it", "It weighs 672 tonnes", "It stood in Malmö",
        "It was finished in 1912", "Hjalmar Lundbohm painted it",
    ),
    correct=("B", "C", "E"),
)  # fmt: skip
QUESTIONS = (ISLAND, WHEEL, INSTRUMENT, CHURCH)
