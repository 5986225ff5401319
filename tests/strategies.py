"""Hypothesis strategies: plans of both kinds and splits, one home for all tests."""

from __future__ import annotations

from hypothesis import strategies as st

from trailforge.protocols.nl_dag import MAX_NODES, TOOLS, SearchPlan
from trailforge.schemas import Plan, PlanEdge, PlanNode, Split

WORDS = ("river", "capital", "founder", "film", "year", "mother", "city", "book", "prize", "bridge")


@st.composite
def plans(draw: st.DrawFn, max_size: int = 5) -> Plan:
    """Valid plans: every reference points at an earlier sub-question."""
    size = draw(st.integers(1, max_size))
    sub_questions = []
    for position in range(1, size + 1):
        words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
        targets = draw(st.lists(st.integers(1, position - 1), max_size=2)) if position > 1 else []
        marks = [f"#{target}" for target in targets]
        sub_questions.append(f"q{position} " + " ".join(words + marks) + "?")
    return Plan(sub_questions=tuple(sub_questions))


@st.composite
def plans_with_split(draw: st.DrawFn) -> tuple[Plan, Split]:
    """A valid plan and a valid split of one of its sub-questions."""
    plan = draw(plans())
    index = draw(st.integers(0, len(plan) - 1))
    marks = [word.strip("?") for word in plan.sub_questions[index].split() if word.startswith("#")]
    cut = draw(st.integers(0, len(marks)))
    first = " ".join(["which", "part", *marks[:cut]]) + "?"
    second = " ".join(["what", "of", "[E]", "and", *marks[cut:]]) + "?"
    return plan, Split(index=index, first=first, second=second)


NODE_IDS = st.from_regex(r"[A-Za-z0-9_]{1,4}", fullmatch=True)
QUERY_PIECES = st.sampled_from(
    ["Oslo", "(", ")", "(News)", ":", "A:", "->", "→", ";", "Edges:", "Nodes:", "2024-05-21"]
)
QUERIES = (st.lists(QUERY_PIECES, min_size=1, max_size=5).map(" ".join) | st.text(max_size=20)).map(
    lambda text: " ".join(text.split()) or "q"
)


@st.composite
def search_graphs(draw: st.DrawFn) -> SearchPlan:
    """Search plans that are valid node by node, with any edges between their nodes: loops and repeats too."""
    ids = draw(st.lists(NODE_IDS, min_size=1, max_size=MAX_NODES, unique=True))
    nodes = [PlanNode(node_id=i, query=draw(QUERIES), tool=draw(st.sampled_from(TOOLS))) for i in ids]
    pairs = draw(st.lists(st.tuples(st.sampled_from(ids), st.sampled_from(ids)), max_size=8))
    return SearchPlan(nodes=tuple(nodes), edges=tuple(PlanEdge(src=src, dst=dst) for src, dst in pairs))


@st.composite
def search_plans(draw: st.DrawFn) -> SearchPlan:
    """Valid search plans, some with an edge said twice. Edges may go either way along the list of nodes."""
    plan = draw(search_graphs())
    ids = draw(st.permutations([node.node_id for node in plan.nodes]))
    forward = [edge for edge in plan.edges if ids.index(edge.src) < ids.index(edge.dst)]
    return SearchPlan(nodes=plan.nodes, edges=tuple(forward))
