"""Show questions made of a knowledge graph to people: the facts that they ask for, and what the filters measured."""

from __future__ import annotations

from typing import get_args

from trailforge.generators.kg_questions import EARLIER_REASONS
from trailforge.pipelines.runs import OpenRun
from trailforge.pipelines.show import (
    Chips,
    Columns,
    DataTable,
    Diagram,
    DiagramEdge,
    DiagramNode,
    Note,
    Parts,
    Show,
    ShownTable,
    StyledText,
    Title,
)
from trailforge.pipelines.show.common import measured, with_earlier
from trailforge.schemas import FactChain, KgFact, KgNode, KgQuestion, KgShape

MEANINGS = {
    "malformed_question": "rules of form that are broken",
    "not_unique": "the most entities that fit what leads to the answer or a bridge",
    "shortcut": "entities left when one fact is left out: the fewest",
    "answer_named": "how many of question and sub-questions name what they ask for",
    "bridge_named": "share of the bridges that the question names",
    "start_missing": "share of the starts that the question names",
    "ungrounded_name": "names and numbers that the facts do not have",
    "right_from_memory": "how near the model comes from memory, 0 to 1",
    "agreed_otherwise": "the most draws from memory that give the same other answer",
    "ambiguous_description": "other things that the model names for what is described on the way",
    "unknown_description": "descriptions on the way for which the model does not name what is meant",
    "ambiguous_question": "other answers that the model finds",
    "doubtful_fact": "1 where the model knows a fact to be wrong or over",
    "unclear_question": "1 where the model finds the wording unclear",
    "same_facts": "the largest share of its facts that one accepted question has",
}
"""Explanation of each score, by filter."""
_SHAPES = {
    "chain": "one fact after the other",
    "intersection": "two chains meet in the answer",
    "intersection_inside": "two chains meet in a bridge",
}
_COLUMNS = {
    "leads to": "fan_out: entities that the relation leads to from there, in this direction. 1: nothing but what is "
    "found.",
    "left without": "left_without: entities that satisfy the question when this fact is left out. More than 1: the "
    "fact is needed. Counted up to the sampler's limit.",
    "namesakes": "Of a start: entities with its name. Of a bridge: entities that fit all that leads to it.",
}


def kg_question(run: OpenRun, row: KgQuestion) -> Parts:
    """Return what the inspector shows of a row of `kg_questions`."""
    hops = [
        Note((StyledText(f"{number}. ", "strong"), f"{hop.question} → ", StyledText(hop.answer, "strong")))
        for number, hop in enumerate(row.decomposition, start=1)
    ]
    spared = "every fact is needed" if row.fewest_left > 1 else "a fact can be spared"
    left = f"With any one fact left out at least {row.fewest_left:,} entities satisfy the question: {spared}."
    return [
        Columns([_head(row), hops], (3, 2)),
        fact_graph(row.chain),
        DataTable([_fact(row.chain, fact) for fact in row.chain.facts], _COLUMNS),
        Note((StyledText(left, "quiet"),)),
        measured(row.filters, with_earlier(MEANINGS, EARLIER_REASONS)),
    ]


def fact_chain(run: OpenRun, row: FactChain) -> Parts:
    """Return what the inspector shows of a row of `inputs`: facts that a question may be made of."""
    return [Title(row.id), fact_graph(row), DataTable([_fact(row, fact) for fact in row.facts], _COLUMNS)]


def _head(row: KgQuestion) -> Parts:
    aliases = f" (also {'; '.join(row.answer_aliases)})" if row.answer_aliases else ""
    counted = "entities of the graph that satisfy the question"
    chips = [
        StyledText("1 fact" if row.hops == 1 else f"{row.hops} facts, {_SHAPES[row.shape]}"),
        StyledText(f"written by {row.writer}"),
        StyledText(f"as of {row.as_of or 'unknown'}", "", "date of the graph: what is asked was true then"),
        StyledText(f"answers in the graph: {row.num_answers}", "", counted),
    ]
    return [Title(row.question), Chips(chips), Note(row.answer + aliases, "right")]


def _fact(chain: FactChain, fact: KgFact) -> dict[str, object]:
    """How a fact is followed, and what it is needed for."""
    nodes = {node.id: node for node in (*chain.starts, *chain.found)}
    known, found = (nodes[id].label if id in nodes else id for id in (fact.known, fact.found))
    return {
        "fact": fact.triple.text,
        "followed": f"from {known} to {found}",
        "leads to": fact.fan_out,
        "left without": fact.left_without,
        "namesakes": nodes[fact.known].matches if fact.known in nodes else None,
    }


def fact_graph(chain: FactChain) -> Diagram:
    """Return a drawing of a question's facts from left to right: the entities that it names, the intermediate ones, the
    answer. An arrow leads from a fact's subject to its object, so one that points left is followed backwards.
    """
    nodes = [_node(node, "start") for node in chain.starts]
    nodes += [_node(node, "bridge") for node in chain.bridges]
    facts: dict[tuple[str, str], list[KgFact]] = {}
    for fact in chain.facts:
        facts.setdefault((fact.known, fact.found), []).append(fact)
    edges = [
        DiagramEdge(
            known, found, " · ".join(fact.triple.relation_label for fact in some), is_backward=not some[0].is_forward,
            hover="\n".join(fact.triple.text for fact in some),
        )
        for (known, found), some in facts.items()
    ]  # fmt: skip
    return Diagram([*nodes, _node(chain.answer, "answer")], edges, "The facts of the question")


def _node(node: KgNode, part: str) -> DiagramNode:
    kind = ", ".join(filter(None, (node.kind, node.role)))
    aliases = f"also {', '.join(node.aliases)}" if node.aliases else ""
    colour = {"start": "right", "answer": "gold"}.get(part, "")
    star = "★ " if part == "answer" else ""
    hover = "\n".join(filter(None, (f"{node.label} ({node.id})", kind, aliases)))
    return DiagramNode(
        node.id, (star + node.label, f"{part}: {kind}" if kind else part), colour, part == "start", hover
    )


SHOW = Show(
    path="kg", title="Knowledge graph", icon=":material/hub:",
    tables=(
        ShownTable(
            name="kg_questions", title="Questions", describe=kg_question, keys=("uid", "entities"),
            columns=("question", "answer", "shape", "hops", "fewest_left", "writer"),
            values=get_args(KgShape),
        ),
        ShownTable(name="candidates", title="Candidates", describe=kg_question, keys=("uid", "entities")),
        ShownTable(name="inputs", title="Facts", describe=fact_chain, keys=("id",)),
    ),
    numbers={"hops": "facts of the graph"},
    hints=("--count 5",),
    beside={"questions.jsonl": "For the other generators"},
)  # fmt: skip
