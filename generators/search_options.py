"""Options that say what agents search, shared by several data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trailforge.pipelines import RunOption
from trailforge.schemas import InvalidInput

if TYPE_CHECKING:
    from trailforge.pipelines.engine import SupportCount
    from trailforge.pipelines.runs import RunInputs, Settings
    from trailforge.retrieval import RetrievalConfig
    from trailforge.rewards.dynasearcher import TitledText
    from trailforge.schemas import Question, RejectedRow

QUESTION_HINTS = {
    **dict.fromkeys(
        ("wrong_answer", "unrewarded_answer", "no_correct_rollout", "near_miss"),
        "see whether the model can answer such questions and the search finds what they need; other right spellings of "
        "an answer go into `aliases`",
    ),
    **dict.fromkeys(
        ("malformed_conversation", "malformed_reply", "unfinished"),
        "the model does not keep to the form that it is asked in: take another model, or the reasoning setting that "
        "fits it (`trailforge doctor --call` tries one reply)",
    ),
    "context_overflow": "the prompts are longer than the model's window: serve it with a longer one",
    "too_long": "rows are longer than the preset's filters allow",
    **dict.fromkeys(
        ("ungrounded_answer", "ungrounded_step", "unsupported_claim", "no_search"),
        "answers do not come from what was found: see whether the documents have what the questions ask for",
    ),
    **dict.fromkeys(
        ("wrong_intermediate", "wrong_hop_answer", "hops_out_of_order", "missing_hop"),
        "steps do not find what the questions' `decomposition` says: see whether it is right, or leave it out",
    ),
    **dict.fromkeys(
        (
            *("answer_before_found", "answer_before_read", "unresolved_reference", "redundant_search", "idle_search"),
            *("unfitting_relation", "circular_step"),
        ),
        "the model does not search step by step: take another model, or more draws",
    ),
    "low_reward": "rewards are below the preset's `selection.filters.min_reward`",
}
"""Hints (`DataSet.hints`) of the data sets that make episodes of questions."""
_SCOPES = ("question", "corpus")
KG_FILTER = RunOption(
    help="Which triples an agent reads: those that the model chooses, those asked for, the first five, all. Default: "
    "the preset's.",
    words=("model", "asked", "first", "none"),
)
GRAPH = RunOption(help="Knowledge graph (from `kg build`). Default: the preset's.", takes=Path)
SEARCHED = {
    "documents": RunOption(
        help="Index to search (from `index build`), or a file for bm25. Default: the preset's.", takes=Path
    ),
    "scope": RunOption(help="question searches each question's own paragraphs. Default: the preset's.", words=_SCOPES),
    "retrieval": RunOption(
        help="A back end (see `index build --help`), web for live pages, or the URL of a server "
        "(`serve-search`). Default: the preset's, else that of the index; an index of another kind than the preset's "
        "has to be named.",
        metavar="KIND",
    ),
    "encoder": RunOption(
        help="Encoder of the back end: minilm, a sentence-transformers name or path, or URL#MODEL. Default: the "
        "preset's, else that of the index.",
    ),
    "query_prefix": RunOption(help="Prefix the encoder expects before a query. Default: as above."),
    "passage_prefix": RunOption(help="Prefix it expects before a passage. Default: as above."),
}
"""Options of a data set's command that `search_given` reads."""


def take_in(inputs: RunInputs, folder: Path, config: Any) -> Settings:
    """Write a file's questions as shards into the run's folder, without those that curators refuse, and return the
    run's settings (`DataSet.take_in` of the data sets that search).

    The questions need paragraphs where these are searched, and gold hops where episodes follow them.
    """
    from trailforge.pipelines.runs import take_in_questions

    return take_in_questions(
        inputs,
        folder,
        config,
        shard_size=config.output.shard_size,
        needs_paragraphs=config.retrieval.searches_paragraphs,
        needs_decomposition=getattr(config.generator, "is_led", False),
    )


def packages(config: Any, inputs: RunInputs) -> tuple[str, ...]:
    """Return the names of the modules that a run imports for its back end, its encoder and its graph, so that missing
    ones are found before it begins (`DataSet.packages`).
    """
    has_graph = bool(inputs.options.get("kg") or getattr(config, "kg", ""))
    found = search_given(config.retrieval, inputs.options).packages
    return (*found, "rapidfuzz") if has_graph else found


def filter_given(filter_of_triples: str, options: Mapping[str, Any]) -> Any:
    """Return the name of the filter of triples that the command's options give, or else the preset's,
    `filter_of_triples`: one of `protocols.result_filters.KgFilter`. Raises `InvalidInput` for an unknown one.
    """
    given = options.get("kg_filter") or filter_of_triples
    if given not in KG_FILTER.words:
        raise InvalidInput(f"{given!r}: expected {', '.join(KG_FILTER.words)}", field="--kg-filter")
    return given


def search_given(config: RetrievalConfig, options: Mapping[str, Any]) -> RetrievalConfig:
    """Return the configuration with the documents, scope, back end and encoder that the command's options give. Raises
    `InvalidInput` when they contradict each other; whether they exist is checked by `retrieval.scope.with_hash`.
    """
    from trailforge.retrieval import WEB, check_kind

    documents, scope, kind, *of_encoder = (options.get(name) for name in SEARCHED)
    if scope not in (None, *_SCOPES):
        raise InvalidInput(f"{scope!r}: expected {' or '.join(_SCOPES)}", field="--scope")
    if scope == "question" and documents is not None:
        raise InvalidInput("--scope question searches each question's own paragraphs; leave --documents out")
    if kind is not None:
        try:
            check_kind(kind)
        except InvalidInput as error:
            raise InvalidInput(error.problem, field="--retrieval") from None
    config = config.of_kind(kind)
    config.refuse_encoder(*of_encoder)
    config = config.with_encoder(*of_encoder)
    if (config.kind == WEB or config.server) and (scope or documents):
        where = "the web" if config.kind == WEB else "a server"
        raise InvalidInput(f"{where} is searched, whatever --scope and --documents say; leave them out")
    return (replace(config, scope=scope) if scope else config).over(documents)


def unlike_named(row: RejectedRow, question: Question) -> str:
    """Return why it is wrong that a rejected row drops its question as naming its own answer; empty where it does name
    it, or was dropped for another reason.
    """
    from trailforge.filters import answer_in_question
    from trailforge.schemas import Verdict

    named = answer_in_question(question)
    told = Verdict(keep=False, reason=row.reason, score=row.score, detail=row.detail)
    is_told = row.reason != named.reason or told == named
    return "" if is_told else "it was left out for an answer that it does not name so"


def count_support(
    question: Question, brought: Sequence[TitledText], config: RetrievalConfig, *, has_searched: bool
) -> SupportCount:
    """Count whether the searches for a question found one of its supporting documents, by title or by words.

    `brought` are the passages that they found, and texts without a title that contain some; `has_searched` says whether
    there was a search. Results from the web are not counted, since web pages have other titles and words than the
    documents of a data set.
    """
    from trailforge.pipelines.engine import SupportCount
    from trailforge.retrieval import WEB
    from trailforge.rewards.dynasearcher import same_title, same_words

    sought = question.supporting_documents
    if not (sought and has_searched) or config.kind == WEB:
        return SupportCount()
    known, read = {question.support_text(each) for each in sought}, {passage.text for passage in brought}
    is_found = any(each.title.strip() and same_title(each, passage) for each in sought for passage in brought)
    is_found = is_found or any(same_words(text, other) for text in known for other in read)
    return SupportCount(questions=1, found=int(is_found))
