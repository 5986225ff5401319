"""Turn documents into bundles (a few related documents from several sources), questions over them, a curriculum of the
questions, and search episodes that answer these (R-Search).
"""

from pathlib import Path
from typing import TYPE_CHECKING, get_args

from trailforge.doors import lazy_names
from trailforge.pipelines import DataSet, RunOption, Stage, Table
from trailforge.protocols import R_SEARCH
from trailforge.schemas import (
    Bundle,
    BundleInput,
    BundleQuestion,
    DocumentEmbedding,
    SearchEpisode,
    SftRow,
    SourceDocument,
    SourceKind,
)

if TYPE_CHECKING:
    from trailforge.generators.document_bundles.search_thoughts import join_phrases as join_phrases
    from trailforge.generators.document_bundles.search_thoughts import names_in as names_in
    from trailforge.generators.document_bundles.write import BundleContext as BundleContext
    from trailforge.generators.document_bundles.write import draft_row as draft_row
else:
    __getattr__, __dir__ = lazy_names(__name__)


NAME = "document_bundles"
_HERE = "trailforge.generators.document_bundles"
_WORK = f"{_HERE}.work"
_ASKED = f"{_WORK}:asks_questions"
EARLIER_REASONS = {
    "answer_in_question": "answer_given_away",
    "answer_leaked": "answer_before_search",
    "malformed": "malformed_conversation",
    "needless_search": "one_search_suffices",
    "single_source": "quotes_one_source",
    "too_long": "too_many_words",
    "too_short": "too_few_words",
}
"""The names that reasons of rejection had in runs of before, each with its name of now."""

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
    goes_on=f"{_HERE}.config:goes_on",
    preview={"limit": 24},
    packages=f"{_HERE}.config:packages",
    estimate=f"{_HERE}.estimate:estimate",
    take_in=f"{_WORK}:take_in",
    checks=f"{_HERE}.checks:BundleRowChecks",
    card=f"{_HERE}.card:card_of",
    show=f"{_HERE}.show:SHOW",
    option="--documents",
    files=RunOption(
        help="Documents: JSONL, JSON, CSV, Parquet, RSS or Atom; .gz too. What a file does not say about its documents "
        "goes after it: news.jsonl:kind=news; source=each makes each document its own source. Repeatable.",
        many=True,
        metavar="FILE[:kind=KIND,source=NAME]",
    ),
    beside={
        "plots": r"(funnel|documents|bundles)\.png",
        "work/bundling": r"(vectors|sources|days|windows|names|weights|sketches)\.npy|part-\d+\.json|made_of",
    },
    about="Turn documents of several sources into bundles, and bundles into multi-hop questions with plans (R-Search).",
    earlier_reasons=EARLIER_REASONS,
    hints={
        "no_question": "documents of a bundle share too little that can be asked for: give more documents about the "
        "same people, places and events; the demo preset's writer needs names that several texts have",
        "alone": "no document is near another: give more about the same events",
        "no_shared_name": "documents that are near share no name: give more about the same people, places and events",
        "other_matter": "documents that share a subject tell of different events: give more reports of the same ones, "
        "or lower bundles.min_retold",
        **dict.fromkeys(
            ("same_source", "quotes_one_source"),
            "bundles want several sources: give files of other publishers, or say FILE:source=each where each document "
            "is a source of its own",
        ),
        "other_time": "documents that are near are too far apart in time: see the preset's time window",
        **dict.fromkeys(
            ("too_few_words", "too_many_words", "markup", "few_letters", "other_language", "junk"),
            "documents are no running text in the preset's language and lengths: see its section `content`",
        ),
        **dict.fromkeys(
            ("exact_duplicate", "near_duplicate"),
            "documents repeat each other: give other ones",
        ),
        **dict.fromkeys(
            ("too_few_documents", "fewer_documents_suffice", "unrelated_hops"),
            "questions rest on one document: give documents that complete each other, or take another model",
        ),
        **dict.fromkeys(
            (
                *("unsupported_quote", "bad_options", "no_key_facts", "invalid_plan", "answer_given_away"),
                *("poor_question", "unasked_question", "half_answers"),
            ),
            "the model does not write questions as it is asked to: take another model",
        ),
        "evidence_not_found": "searches do not bring the evidence: a larger tools.longest_passage shows more of a "
        "document, and episodes.top_k more documents",
        "stale_document": "documents are older than the preset's `filters.since`",
        "contaminated": "a benchmark has these questions: give other documents",
        "closed_book": "the model knows the answers by heart: give documents that are newer than it",
        "not_answerable": "the model does not answer from the documents: take another model",
        "malformed_reply": "the model does not keep to the form that it is asked in: take another model",
    },
    demo="demo",
    own_options={
        "columns": RunOption(help="Column names, e.g. text=body,title=headline,published=date."),
        "source": RunOption(help="Name of the source; overrides the files."),
        "kind": RunOption(help="Kind of the documents; overrides the files.", words=get_args(SourceKind)),
        "benchmarks": RunOption(
            help="File of questions to keep out of the data. Repeatable.", takes=Path, many=True, flag="--benchmark"
        ),
        "bundles_only": RunOption(help="Stop after bundling; needs no model.", takes=bool),
    },
    read_given="trailforge.pipelines.sources.columns:read_given",
    ask_elsewhere=f"{_HERE}.asked:ask_elsewhere",
    examples=(
        "document-bundles --preset demo --documents sample_data/documents.jsonl --out out/bundles",
        "document-bundles --documents news.jsonl.gz --documents arxiv.jsonl.gz --out out/spring",
        "document-bundles --documents wire.jsonl:kind=news,source=wire --documents posts.csv:kind=general …",
        "document-bundles --bundles-only --documents news.jsonl.gz --out out/spring   no model, no questions",
        "document-bundles --documents posts.csv --columns text=body,published=date --source blog …",
        "document-bundles --benchmark musique.jsonl …     no question of that benchmark comes out",
    ),
)
