"""Documents -> bundles -> questions -> a curriculum of them -> episodes (R-Search)."""

from trailforge.pipelines.dataset import DataSet, Stage, Table
from trailforge.protocols import R_SEARCH
from trailforge.schemas import (
    Bundle,
    BundleInput,
    BundleQuestion,
    DocumentEmbedding,
    SearchEpisode,
    SftRow,
    SourceDocument,
)

NAME = "document_bundles"
_HERE = "trailforge.generators.document_bundles"
_WORK = f"{_HERE}.work"
_ASKED = f"{_WORK}:asks_questions"

DATASET = DataSet(
    name=NAME,
    config=f"{_HERE}.config:BundleRunConfig",
    preset="r-search",
    inputs=Table(
        record=SourceDocument,
        decided="source",
        source="id",
        patterns={
            "title": lambda row: (row.title,),
            "text": lambda row: (row.text,),
            "publisher": lambda row: (row.source,),
        },
    ),
    tables={
        "documents": Table(record=SourceDocument, role="corpus"),
        "embeddings": Table(record=DocumentEmbedding),
        "bundles": Table(record=Bundle, decided="source"),
        "bundle_inputs": Table(record=BundleInput),
        "candidates": Table(record=BundleQuestion),
        "bundle_questions": Table(
            record=BundleQuestion,
            kind=("type",),
            decided="product",
            made_of=lambda row: (
                ("bundles", row.bundle_id),
                *(("inputs", hop.document_id) for hop in row.hops),
            ),
            fixable=("question", "answer", "options", "correct_options"),
            refit=f"{_HERE}.fix:refit",
            role="questions",
            protocol=R_SEARCH.name,
        ),
        "episodes": Table(
            record=SearchEpisode,
            decided="product",
            made_of=lambda row: (("bundle_questions", row.question_id),),
            transcript=f"{_HERE}.episode_rows:transcript_of",
        ),
        "sft": Table(record=SftRow, role="sft"),
    },
    rows="bundle_questions",
    conversations="episodes",
    candidates="candidates",
    stages=(
        Stage(name="clean", unit="documents", run=f"{_WORK}:run_cleaning", asks_model=False),
        Stage(
            name="embed",
            unit="documents",
            run=f"{_WORK}:run_embedding",
            follow=f"{_WORK}:embedding_shards",
            asks_model=False,
        ),
        Stage(
            name="bundle",
            unit="documents",
            run=f"{_WORK}:run_grouping",
            follow=f"{_WORK}:grouping_shards",
            asks_model=False,
        ),
        Stage(
            name="write",
            unit="bundles",
            run=f"{_HERE}.stages.questions:write_stage",
            follow=f"{_WORK}:shards_made",
            is_wanted=_ASKED,
        ),
        Stage(
            name="select",
            unit="bundles",
            run=f"{_WORK}:run_selection",
            follow=f"{_WORK}:selection_shards",
            is_wanted=_ASKED,
            asks_model=False,
        ),
        Stage(
            name="episode",
            unit="questions",
            run=f"{_HERE}.stages.episodes:episode_stage",
            follow=f"{_WORK}:shards_made",
            is_wanted=_ASKED,
        ),
    ),
    counted="select",
    configure=f"{_HERE}.config:configure",
    preview={"limit": 24},
    estimate=f"{_HERE}.estimate:estimate",
    take_in=f"{_WORK}:take_in",
    checks=f"{_HERE}.checks:BundleRowChecks",
    card=f"{_HERE}.card:card_of",
    show=f"{_HERE}.show:SHOW",
    option="--documents",
    beside={
        "plots": r"(funnel|documents|bundles)\.png",
        "work/bundling": r"(vectors|sources|days|names|weights)\.npy|part-\d+\.json|made_of",
    },
)
