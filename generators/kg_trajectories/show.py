"""Show episodes that search documents and a knowledge graph, and pairs of a good and a bad one, to people."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import get_args

from trailforge.pipelines.runs import OpenRun
from trailforge.pipelines.show import (
    Chips,
    Columns,
    Conversation,
    DataTable,
    Diagram,
    DiagramEdge,
    DiagramNode,
    DocumentPanes,
    FieldList,
    Fold,
    Line,
    Mark,
    Meters,
    Note,
    Option,
    Parts,
    Selector,
    Show,
    ShownDocument,
    ShownTable,
    StyledText,
    Tab,
    Tabs,
    Title,
    tab,
)
from trailforge.pipelines.show.common import QUESTIONS, SFT, contrast, count_searches, find_side, provenance
from trailforge.pipelines.show.marks import find_quote
from trailforge.rewards import normalize_answer
from trailforge.schemas import ContrastivePair, EntityLink, KgStep, KgTrajectory, KgTriple, Origin

_REWARD = {
    "total": "what the episode is paid: r_acc + r_gain",
    "r_acc": "accuracy: r_ans, at least 0.1 in the right format, 0 in a wrong one",
    "r_ans": "how right the final answer is: cover-EM, or F1 when it has three times the gold answer's words",
    "r_recall": "share of the supporting documents that the searches brought",
    "r_penalty": "0 for as many searches as gold hops, towards 1 with every one more, below 0 with fewer",
    "r_gain": "half of r_recall − r_penalty, paid when the format holds and something was searched",
}
"""By part of `KgReward`; the constants are those of the paper, see `rewards.dynasearcher`."""
_LED = {"oracle": "oracle: led by the gold hops", "policy": "policy: the model's own searches"}
_IS_A = ("instance of", "subclass of", "occupation")
_LINKS = {
    "known by": "Its kind, and the first other triple that was offered of it.",
    "score": "How similar the best name is, 0 to 1; 1 only for the label itself.",
    "margin": "How far above the best other entity: 0 when names collide.",
    "searched": "Its triples were looked up.",
}


def kg_trajectory(run: OpenRun, row: KgTrajectory) -> Parts:
    """Return what the inspector shows of a row of `kg_trajectories`."""
    pairs = run.table("pairs").matching("good_uid", row.uid) if "pairs" in run.tables else ()
    tabs = [
        Tab("Searches", lambda: _searches(row), lambda: [_line(step) for step in row.steps]),
        tab("Conversation", lambda: [Conversation(row.messages, golds=(row.answer, *row.answer_aliases))]),
        tab(f"Reward {row.reward.total:.2f}", lambda: _reward(row)),
    ]
    if pairs:
        against = Tab(
            "Contrast with a bad episode",
            lambda: [part for number in pairs for part in _contrast(run, run.record("pairs", number))],
        )
        tabs.append(against)
    return [*_head(row), Tabs(tabs)]


def pair(run: OpenRun, row: ContrastivePair) -> Parts:
    """Return what the inspector shows of a row of `pairs`: a good and a bad episode of one question, side by side from
    where they differ.
    """
    return [Title(row.question), Note(row.answer, "right"), *_contrast(run, row)]


def _contrast(run: OpenRun, row: ContrastivePair) -> Parts:
    good = [_heading("good", "right", row.good_reward, row.good_uid), *_rewards_of(run, row.good_uid)]
    bad = [_heading("bad", "wrong", row.bad_reward, row.bad_uid), *_rewards_of(run, row.bad_uid)]
    return contrast(row, "bad", (good, bad), {row.diverges_at: StyledText("differs from here on", "wrong")})


def _heading(name: str, kind: str, reward: float | None, uid: str) -> Chips:
    paid = [StyledText(f"reward {reward:.3f}")] if reward is not None else []
    return Chips([StyledText(name, kind), *paid, StyledText(uid)])


def _head(row: KgTrajectory) -> Parts:
    kind = "right" if row.kind == "good" else "wrong"
    chips = [
        StyledText(row.kind, kind),
        StyledText(_LED.get(row.origin, row.origin)),
        count_searches(row.num_tool_calls, row.num_hops),
        StyledText(f"~{row.token_estimate:,} tokens", "", "by the rule of this project; a trainer counts otherwise"),
        *(StyledText(flag.replace("_", " "), "wrong") for flag in row.flags),
    ]
    golds = row.answer + (f" (also {'; '.join(row.answer_aliases)})" if row.answer_aliases else "")
    final = row.final_answer or f"none: {row.stop.replace('_', ' ')}"
    answers: dict[str, Line] = {"gold answer": golds, "final answer": (StyledText(final, kind),)}
    return [Columns([[Title(row.question), Chips(chips)], [FieldList(answers)]], (3, 2))]


def _searches(row: KgTrajectory) -> Parts:
    if not row.steps:
        return [Note("This episode never searched.")]
    options = [Option(f"Search {number}", partial(_step, row, each)) for number, each in enumerate(row.steps, start=1)]
    return [Selector(label="Search", options=options)]


def _line(step: KgStep) -> Note:
    """A search in a line."""
    entities = ", ".join(f"{each.mention} → {each.label or 'nothing'}" for each in step.entities)
    triples = f"triples {len(step.triples_kept)} of {len(step.triples_offered)}  documents {len(step.documents)}"
    return Note((StyledText(f"step {step.index + 1}: ", "quiet"), f"{entities}  {triples}  answer {step.answer or ''}"))


def _step(row: KgTrajectory, step: KgStep) -> Parts:
    conflicts = [
        Note(
            (
                StyledText("Stale or conflicting: ", "strong"), "the knowledge graph says ",
                StyledText(each.kg_value, "strong"),
                ", the documents say ", StyledText(each.document_value, "strong"), ".",
            ),
            "warn",
        )
        for each in row.conflicts
        if each.step == step.index
    ]  # fmt: skip
    fields = {
        "sub-question": step.sub_question if step.sub_question != step.query else "", "query": step.query,
        "answer taken": step.answer or "the agent does not say",
    }  # fmt: skip
    searched = FieldList({name: value for name, value in fields.items() if value})
    right = [searched, *_links(step), *_triples(step)]
    return [*conflicts, Columns([[*_graph(step, row.golds), *_found(step)], right], (3, 2))]


def _graph(step: KgStep, golds: Sequence[str]) -> Parts:
    if not (step.triples_offered or step.triples_kept or any(link.is_searched for link in step.entities)):
        return [Note("The graph gave nothing to this search.")]
    legend = (
        f"{len(step.triples_kept)} of {len(step.triples_offered)} triples kept: green and solid. Dashed: offered only. "
        "Bold: searched entities. ★: a gold answer."
    )
    return [subgraph(step, golds), Note((StyledText(legend, "quiet"),))]


def subgraph(step: KgStep, golds: Sequence[str]) -> Diagram:
    """Return a drawing of the triples that a search found: kept ones solid and green, others dashed, gold answers with
    a star.
    """
    triples = list(dict.fromkeys((*step.triples_kept, *step.triples_offered)))
    names = {end: name for t in triples for end, name in ((t.head, t.head_label), (t.tail, t.tail_label))}
    searched = {
        link.entity_id: link.label or link.mention for link in step.entities if link.is_searched and link.entity_id
    }
    kept = set(step.triples_kept)
    found = {end for triple in kept for end in (triple.head, triple.tail)}
    answers = {normalize_answer(gold) for gold in golds}
    nodes = []
    for entity, name in (searched | names).items():
        is_answer = normalize_answer(name) in answers
        kind = "gold" if is_answer else "right" if entity in found else ""
        hover = "\n".join([f"{name} ({entity})", *_matches(step, entity)])
        nodes.append(DiagramNode(entity, [f"★ {name}" if is_answer else name], kind, entity in searched, hover))
    return Diagram(nodes, _edges(triples, kept), "What the graph gave")


def _edges(triples: Sequence[KgTriple], kept: set[KgTriple]) -> list[DiagramEdge]:
    """Triples between the same two entities in the same direction are one arrow."""
    between: dict[tuple[str, str], list[KgTriple]] = {}
    for triple in triples:
        between.setdefault((triple.head, triple.tail), []).append(triple)
    edges = []
    for (head, tail), some in between.items():
        is_kept = any(triple in kept for triple in some)
        hover = "\n".join(f"{'kept' if triple in kept else 'offered'}: {triple.text}" for triple in some)
        text = " · ".join(dict.fromkeys(triple.relation_label for triple in some))
        edges.append(DiagramEdge(head, tail, text, "right" if is_kept else "", is_dashed=not is_kept, hover=hover))
    return edges


def _matches(step: KgStep, entity: str) -> list[str]:
    return [
        f"matched “{link.mention}” with {link.score:.3f}"
        for link in step.entities
        if link.entity_id == entity and link.score is not None
    ]


def _known_by(step: KgStep, link: EntityLink) -> str:
    """What tells an entity from others of its name: of which kind it is, and the first other triple that it has."""
    triples = [triple for triple in step.triples_offered if triple.head == link.entity_id]
    kinds = [triple.tail_label for triple in triples if triple.relation_label in _IS_A]
    others = [
        f"{triple.relation_label} {triple.tail_label}" for triple in triples if triple.relation_label not in _IS_A
    ]
    return ", ".join([*kinds[:1], *others[:1]])


def _links(step: KgStep) -> Parts:
    """What the mentions and the phrases of the search were taken for."""
    entities = [
        {
            "mention": link.mention, "entity": link.label or "nothing similar", "known by": _known_by(step, link),
            "score": link.score, "margin": link.margin, "searched": link.is_searched, "id": link.entity_id or "",
        }
        for link in step.entities
    ]  # fmt: skip
    relations = [
        {
            "phrase": link.phrase, "relation": link.label or "nothing similar", "score": link.score,
            "id": link.relation_id or "",
        }
        for link in step.relations
    ]  # fmt: skip
    return [DataTable(entities, _LINKS, 4), *([DataTable(relations, {}, 3)] if relations else [])]


def _triples(step: KgStep) -> Parts:
    kept = set(step.triples_kept)
    triples = dict.fromkeys((*step.triples_offered, *step.triples_kept))
    rows = [
        {"kept": each in kept, "head": each.head_label, "relation": each.relation_label, "tail": each.tail_label}
        for each in triples
    ]
    return [DataTable(rows, {"kept": "The filter left it and the agent read it."}, 6)] if rows else []


def _found(step: KgStep) -> Parts:
    """The documents; what the agent took from them is marked."""
    if not step.documents:
        return [Note("No document was found.")]
    documents = []
    for place, passage in enumerate(step.documents, start=1):
        quote = find_quote(f"{passage.title}\n{passage.text}", step.answer or "")
        marks = [Mark(*quote, "hop0")] if quote else []
        origin = f"{place} · score {passage.score:.3f}"
        documents.append(ShownDocument(title=passage.title, text=passage.text, origin=origin, marks=marks))
    return [DocumentPanes(documents)]


def _rewards_of(run: OpenRun, uid: str) -> Parts:
    """The reward of a side of a pair, part by part; nothing where the run no longer has its episode."""
    row = find_side(run, "kg_trajectories", uid, KgTrajectory)
    return [] if row is None else [Fold("Reward, part by part", [_meters(row)])]


def _meters(row: KgTrajectory) -> Meters:
    return Meters({name: (getattr(row.reward, name), meaning) for name, meaning in _REWARD.items()})


def _reward(row: KgTrajectory) -> Parts:
    """Its parts, the documents that it asks for, and where the row comes from."""
    meters = _meters(row)
    found = {_title(passage.title) for step in row.steps for passage in step.documents}
    supporting = []
    for each in row.supporting:
        near = "" if each.similarity is None else f" · nearest text {each.similarity:.2f}"
        supporting.append(
            Note(f"{'✓' if _title(each.title) in found else '✗ not'} found by title · {each.title}{near}")
        )
    heading = [Note((StyledText("Documents that the answer rests on:", "strong"),))] if supporting else []
    origin = provenance(row.provenance, uid=row.uid, question_id=row.question_id)
    return [meters, *heading, *supporting, origin]


def _title(text: str) -> str:
    return " ".join(text.casefold().split())


SHOW = Show(
    path="kg", title="Knowledge graph", icon=":material/hub:",
    tables=(
        ShownTable(
            name="kg_trajectories", title="Episodes", describe=kg_trajectory,
            columns=("question", "answer", "final_answer", "reward.total", "num_tool_calls", "num_hops", "origin"),
            keys=("uid", "question_id"), values=get_args(Origin),
        ),
        ShownTable(
            name="pairs", title="Pairs", describe=pair,
            columns=("question", "reason", "good_reward", "bad_reward"), kinds=("reason",),
            keys=("uid", "good_uid", "bad_uid", "question_id"),
        ),
        SFT,
        QUESTIONS,
    ),
    numbers={
        "reward.total": "reward", "token_estimate": "length, tokens (estimated)", "num_tool_calls": "searches",
        "num_hops": "hops",
    },
    hints=("--count 5",),
)  # fmt: skip
