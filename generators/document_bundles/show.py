"""Show bundles, the questions over them, and the episodes that answer these by planned search, to people."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import get_args

from trailforge.generators.document_bundles import EARLIER_REASONS
from trailforge.generators.document_bundles.bundle_rows import (
    QuestionOutcome,
    brief,
    chips_of,
    documents_of,
    list_columns,
    meanings,
    questions_of,
    reasons_of,
    rejections_of,
)
from trailforge.generators.document_bundles.maps import document_map
from trailforge.pipelines.runs import OpenRun
from trailforge.pipelines.search import quote
from trailforge.pipelines.show import (
    Chips,
    Code,
    Columns,
    Conversation,
    DataTable,
    DecideLink,
    Diagram,
    DiagramEdge,
    DiagramNode,
    DocumentPanes,
    Fold,
    Grid,
    GridRow,
    Mark,
    Meters,
    Note,
    Option,
    Part,
    Parts,
    SearchOn,
    Selector,
    Show,
    ShownDocument,
    ShownTable,
    StyledText,
    Tab,
    Tabs,
    Title,
    common,
    tab,
)
from trailforge.pipelines.show.common import ORIGINS, head, measured, passages, provenance, with_earlier
from trailforge.pipelines.show.marks import Marked, cut_out, find_quote, find_shared
from trailforge.schemas import (
    Bundle,
    BundleHop,
    BundleInput,
    BundleQuestion,
    BundleQuestionType,
    PlannedSearch,
    SearchEpisode,
    SourceDocument,
)

MEANINGS = {
    "unsupported_quote": "share of the hops whose quote stands in its document",
    "too_few_documents": "documents that the hops quote",
    "quotes_one_source": "sources that the hops quote",
    "unrelated_hops": "groups into which the hops fall that nothing joins; 1 is sound",
    "used_fact": "quotes whose words an accepted question of the bundle rests on, too",
    "sibling_answer": "accepted questions of the bundle that say its answer, or whose answer it says",
    "calculated": "numbers of the answer that no quote says",
    "named_by_score": "things that the question calls by a share or a rate, though their document names them",
    "bad_options": "options and answer have the form that the type asks for: 1 for yes",
    "no_key_facts": "key facts, without which an explanation cannot be held against its gold",
    "invalid_plan": "rules that the search plan breaks",
    "answer_given_away": "how many of question and queries mention the answer",
    "gold_in_queries": "largest share of a query's words that the gold knows and the question does not",
    "stale_document": "days from the earliest allowed date to the oldest document",
    "poor_question": "an editor who sees its documents finds no fault with it: 1 for yes",
    "unasked_question": "somebody who sees it alone says that people would ask it: 1 for yes",
    "half_answers": "what one document gives to the explanation is no answer by itself: 1 for yes",
    "not_answerable": "how right the model answers from all documents, 0 to 1",
    "fewer_documents_suffice": "how right the model answers from the best of the smaller sets of documents, 0 to 1",
    "closed_book": "share of the draws without any document that are right, less chance; of causal their mean score",
    "duplicate_question": "cosine with the nearest accepted question, or with the one that it repeats",
    "contaminated": "cosine with the nearest question of a benchmark",
}
"""Explanation of each score of bundle questions, by filter."""
_HOP_COLOURS = 4
_TOOLS = {"News": "hop2", "Academic": "hop1", "General": "hop0"}
_STATUS = {
    "found": ("right", "The search was run."),
    "skipped": ("", "It was not run: no query, or no such tool."),
    "failed": ("wrong", "Its tool failed."),
}
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def bundle_question(run: OpenRun, row: BundleQuestion) -> Parts:
    """Return what the inspector shows of a row of `bundle_questions` or `candidates`: question and answer, with its
    evidence and its search plan.
    """
    documents = documents_of(run, row.bundle_id, [hop.document_id for hop in row.hops])
    hops = [_hop(number, hop, documents) for number, hop in enumerate(row.hops)]
    return [
        Columns([[*_asked(row), *hops], _plan(row)], (11, 9)),
        *_documents(documents, row.hops),
        measured(row.filters, with_earlier(MEANINGS, EARLIER_REASONS)),
    ]


def bundle(run: OpenRun, row: Bundle) -> Parts:
    """Return what the inspector shows of a row of `bundles`: the bundle with one of its questions."""
    asked = questions_of(run, row.uid)
    rejected = [each for each in rejections_of(run, row.uid) if each.uid == row.uid]
    put_aside = [
        _verdict("wrong", f"This bundle was put aside in the stage “{each.stage}”", each.reason, each.detail)
        for each in rejected
    ]
    more = [SearchOn("rejected", quote(row.uid))] if "rejected" in run.tables else []
    if not asked:
        outcome = put_aside or [Note("It has no question.")]
        return [*_bundle_head(run, row), *more, *outcome, *_documents(documents_of(run, row.uid))]
    choice = Selector(
        label="Its questions",
        options=[
            Option(f"{number} · {each.fate}", partial(_question_and_fate, run, each))
            for number, each in enumerate(asked, start=1)
        ],
        help="Kept questions are in the data set. Rejected ones say which filter put them aside.",
    )
    return [*_bundle_head(run, row), *more, *put_aside, choice]


def bundle_input(run: OpenRun, row: BundleInput) -> Parts:
    """Return what the inspector shows of a row of `bundle_inputs`, a bundle with its documents."""
    return [*_bundle_head(run, row.bundle), *_documents(row.documents)]


def episode(run: OpenRun, row: SearchEpisode) -> Parts:
    """Return what the inspector shows of a row of `episodes`: the plan, what each search found, the parts of the
    reward.
    """
    chips = [
        StyledText(row.type),
        StyledText(f"{row.origin} plan", "", ORIGINS[row.origin]),
        StyledText(f"{row.num_hops} hops"),
        StyledText(f"{row.num_tool_calls} searches"),
        StyledText(f"evidence {row.evidence_found:.0%}", "", "Share of the hops whose evidence the searches brought."),
        StyledText(f"reward {row.reward.total:.2f}", "right" if row.reward.total >= 1 else ""),
        StyledText(f"{row.token_estimate:,} tokens"),
    ]
    tabs = [
        Tab("Plan and searches", lambda: _searches(row)),
        tab("Conversation", lambda: [Conversation(row.messages, golds=(row.answer, *row.answer_aliases))]),
        tab("Reward and provenance", lambda: _reward(row)),
    ]
    shown = head(row.question, row.answer, row.answer_aliases, row.final_answer, row.reward.answer > 0, chips)
    return [*shown, Tabs(tabs)]


def _question_and_fate(run: OpenRun, asked: QuestionOutcome) -> Parts:
    if asked.fate == "candidate":
        text = "A candidate: the run has not chosen among all candidates yet"
        return [_verdict("", text, "", ""), *bundle_question(run, asked.row)]
    if asked.rejected is None:
        return [DecideLink("bundle_questions", asked.row.uid, "question"), *bundle_question(run, asked.row)]
    verdict = _verdict("wrong", "Not in the data set", asked.rejected.reason, asked.rejected.detail)
    return [verdict, DecideLink("rejected", asked.rejected.uid, "question"), *bundle_question(run, asked.row)]


def _verdict(kind: str, text: str, reason: str, detail: str) -> Note:
    return Note((text, ". " if reason else "", StyledText(reason, "strong"), f": {detail}" if detail else ""), kind)


def _bundle_head(run: OpenRun, row: Bundle) -> Parts:
    """What its documents have in common."""
    sources = StyledText(" · ".join(dict.fromkeys(row.sources)))
    chips = [StyledText(f"{len(row.document_ids)} documents"), *chips_of(run, row), sources]
    return [Title(row.theme), Chips(chips), *reasons_of(run, row)]


def _asked(row: BundleQuestion) -> Parts:
    """Question, options, answer."""
    stage = [StyledText(f"curriculum stage {row.curriculum_stage}")] if row.curriculum_stage else []
    hard = "0 easy, 1 hard: sources, hops, depth of the plan, type, closed-book answers"
    chips = [StyledText(row.type.replace("_", " ")), StyledText(f"complexity {row.complexity:.2f}", "", hard), *stage]
    right = set(row.correct_options)
    options = [
        Note(
            (StyledText(f"{letter}. ", "strong"), option, " ✓" if letter in right else ""),
            "right" if letter in right else "",
        )
        for letter, option in zip(_LETTERS, row.options, strict=False)
    ]
    answer = [] if row.options else [Note(row.answer, "right")]
    return [Title(row.question), Chips(chips), *options, *answer]


def _hop(number: int, hop: BundleHop, documents: Sequence[SourceDocument]) -> Note:
    """What one document contributes, and whether its quote stands there."""
    document = next((each for each in documents if each.id == hop.document_id), None)
    missing = ""
    if document is None:
        missing = f"\nThe run does not hold its document {hop.document_id[:90]}."
    elif not find_quote(f"{document.title}\n{document.text}", hop.evidence):
        missing = f"\nThis quote does not stand in {document.title[:90]}."
    quote = StyledText(f"“{hop.evidence}”", _hop_kind(number))
    title = document.title[:90] if document else hop.document_id
    reasoning = f" {hop.reasoning}\n"
    source = StyledText(f"\n{title}", "quiet")
    return Note((StyledText(str(number + 1), "strong"), reasoning, quote, StyledText(missing, "wrong"), source))


def _hop_kind(number: int) -> str:
    """Colours of hops; further ones begin again with the first."""
    return f"hop{number % _HOP_COLOURS}"


def _plan(row: BundleQuestion) -> Parts:
    """The gold search plan, drawn; its searches in full, and as an agent writes it, folded."""
    if not row.dag_nodes and not row.dag_edges:
        return [Note("It has no search plan.")]
    needs = {node.node_id: [e.src for e in row.dag_edges if e.dst == node.node_id] for node in row.dag_nodes}
    searches = [
        {
            "search": node.node_id, "tool": node.tool, "query": node.query, "needs": ", ".join(needs[node.node_id]),
        }
        for node in row.dag_nodes
    ]  # fmt: skip
    return [plan_graph(row), Fold("The plan in words", [DataTable(searches), Code(row.dag_text)])]


def plan_graph(row: BundleQuestion) -> Diagram:
    """Return a drawing of the plan (NL-DAG of R-Search, section 3.2), valid or not; nodes that only edges name, and
    circles, are red.
    """
    known = {node.node_id: node for node in row.dag_nodes}
    pairs = list(dict.fromkeys((edge.src, edge.dst) for edge in row.dag_edges))
    keys = list(dict.fromkeys([*known, *(end for pair in pairs for end in pair)]))
    nodes = []
    for key in keys:
        node = known.get(key)
        if node is None:
            nodes.append(DiagramNode(key, (key, "not in the plan"), "wrong"))
        else:
            lines = (f"{node.node_id} · {node.tool}", node.query)
            nodes.append(DiagramNode(key, lines, _TOOLS.get(node.tool, ""), hover=node.query))
    edges: list[DiagramEdge] = []
    below: dict[str, set[str]] = {key: {key} for key in keys}
    for source, target in pairs:
        closes_circle = source in below[target]
        edges.append(DiagramEdge(source, target, kind="wrong" if closes_circle else ""))
        for each in below.values():
            if source in each:
                each |= below[target]
    return Diagram(nodes, edges, "The search plan", is_downward=len(nodes) > 3)


def _documents(documents: Sequence[SourceDocument], hops: Sequence[BundleHop] = ()) -> Parts:
    """A bundle's documents, with what the hops quote marked in the colours of the hops, and what two of them hold."""
    if not documents:
        return [Note("This run does not hold the documents.")]
    return [DocumentPanes([_document(number, documents, hops) for number in range(len(documents))])]


def _document(number: int, documents: Sequence[SourceDocument], hops: Sequence[BundleHop]) -> ShownDocument:
    document = documents[number]
    whole = f"{document.title}\n{document.text}"
    origin = (document.source, document.published or "no date", document.kind, document.url, document.licence)
    quoted = [
        Mark(*place, _hop_kind(at))
        for at, hop in enumerate(hops)
        if hop.document_id == document.id and (place := find_quote(whole, hop.evidence))
    ]
    taken = find_shared(whole, [each.text for each in documents if each is not document])
    shared = [Mark(*place, "shared") for place in cut_out(taken, [(mark.begin, mark.end) for mark in quoted])]
    return ShownDocument(
        title=document.title,
        text=document.text,
        origin=(StyledText(str(number + 1), "strong"), " · ", " · ".join(filter(None, origin))),
        marks=[*quoted, *shared],
    )


def _searches(row: SearchEpisode) -> Parts:
    """The plan's nodes in the order in which they were searched; those that were not come last."""
    unread = [] if row.plan_nodes else [Note("This episode has no plan that could be read.", "warn")]
    done = {search.node_id: search for search in row.searches}
    nodes = {node.node_id: node for node in row.plan_nodes}
    gold_letters = dict(zip(_LETTERS, row.options, strict=False))
    right = tuple(row.answer_aliases) if row.options else (row.answer, *row.answer_aliases)
    correct = tuple(gold_letters[letter] for letter in row.correct_options if letter in gold_letters)
    gold = Marked(kind="gold", answers=(*right, *correct))
    rows = []
    for key in dict.fromkeys([*done, *nodes]):
        search, node = done.get(key), nodes.get(key)
        needs = [edge.src for edge in row.plan_edges if edge.dst == key]
        tool, query = (search.tool, search.query) if search else (node.tool, node.query) if node else ("", "")
        rows.append(GridRow(_search(key, tool, query, needs, search, gold)))
    return [*unread, Grid(("search", "query", "found"), rows, (0.5, 1, 1.5))]


def _search(
    key: str, tool: str, query: str, needs: Sequence[str], search: PlannedSearch | None, gold: Marked
) -> Sequence[Parts]:
    kind, meaning = _STATUS[search.status] if search else ("", "The plan was not run to here.")
    chips = [StyledText(tool[:60]), StyledText(search.status if search else "not searched", kind, meaning)]
    if needs:
        chips.append(StyledText(f"needs {', '.join(needs)}", "", "Its query uses what these searches find."))
    found: list[Part] = [passages(search.passages, (gold,))] if search else []
    return [[Note((StyledText(key[:40], "strong"),)), Chips(chips)], [Note(query[:600])], found]


def _reward(row: SearchEpisode) -> Parts:
    reward = row.reward
    meters = Meters(
        {
            "total": (reward.total, "the weighted sum of the parts"),
            "format": (reward.format, "the turns follow the grammar"),
            "dag": (reward.dag, "1 when the plan breaks none of the rules of a search plan"),
            "answer": (reward.answer, "the final answer against the gold answer"),
            "evidence": (row.evidence_found, "share of the hops whose evidence was found; not part of the reward"),
        }
    )
    return [meters, provenance(row.provenance, uid=row.uid, question_id=row.question_id)]


_QUESTION = ShownTable(
    name="bundle_questions", title="Questions", describe=bundle_question,
    columns=("question", "answer", "type", "complexity"), keys=("uid", "bundle_id"),
    values=get_args(BundleQuestionType),
)  # fmt: skip
SHOW = Show(
    path="bundles", title="Bundles", icon=":material/library_books:",
    tables=(
        ShownTable(
            name="bundles", title="Bundles", describe=bundle, brief=brief, more=list_columns, meanings=meanings,
            columns=("theme", "outcome", "least_cosine", "shared_names", "shared_text", "worth", "sources"),
            keys=("uid", "document_ids"), kinds=("outcome",), beside=document_map,
        ),
        _QUESTION,
        ShownTable(
            name="episodes", title="Episodes", describe=episode, kinds=("type",),
            values=get_args(BundleQuestionType), columns=("type", "question", "origin", "reward.total"),
            keys=("uid", "question_id"), is_list_beside=True,
        ),
        common.SFT,
        ShownTable(
            name="candidates", title="Candidates", describe=bundle_question,
            keys=("uid", "bundle_id"), kinds=("type",), values=get_args(BundleQuestionType),
        ),
        ShownTable(
            name="bundle_inputs", title="Bundles with their documents", describe=bundle_input,
            keys=("id",),
        ),
        ShownTable(
            name="documents", title="Documents", describe=common.document, keys=("id",),
        ),
        common.DOCUMENTS,
    ),
    numbers={
        "complexity": "complexity, 0 to 1", "curriculum_stage": "curriculum stage, 1 is the easiest",
        "cohesion": "cohesion of the bundle (mean cosine)", "worth": "what can be asked about the bundle",
        "askable": "own facts of its two best documents, 0 to 8",
    },
    hints=("--count 5", "--table bundles --count 20 --lowest least_cosine"),
)  # fmt: skip
