"""Plans, trees, triples and parts of back ends as networkx graphs, and what reads them as files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest

from tests.retrieval.backends.support import TableEncoder, bench
from tests.retrieval.support import run
from tests.support.rows import trajectory
from trailforge import Document, InvalidInput, KgStore, Plan, to_networkx
from trailforge.graphs import save_graphml
from trailforge.protocols.nl_dag import SearchPlan, levels, parse
from trailforge.retrieval.backends import load_backend
from trailforge.retrieval.backends.graph import neighbourhood
from trailforge.retrieval.indexes.store import build_index, open_index
from trailforge.schemas import KgTriple
from trailforge.schemas.rollout import DroppedSplits, Node, SearchTree

DOCUMENTS = [
    Document(id="m", title="Metropolis", text="Metropolis was directed by Fritz Lang."),
    Document(id="l", title="Fritz Lang", text="Fritz Lang was born in Vienna."),
    Document(id="v", title="Vienna", text="Vienna lies on the Danube."),
    Document(id="o", title="Oslo", text="Oslo lies in Norway."),
]


def node(id: int, parent: int | None, *plan: str) -> Node:
    return Node(
        id=id,
        parent=parent,
        plan=plan,
        origin="policy",
        visits=2,
        value=0.5,
        decomposable=(False,) * len(plan),
        depth=0,
    )


TREE = SearchTree(
    question_id="q",
    question="Where was the director of M born?",
    answer="Vienna",
    answer_aliases=(),
    nodes=(node(0, None, "Where was the director of M born?"), node(1, 0, "Who directed M?", "Where was #1 born?")),
    rollouts=(),
    stop_reason="exhausted",
    oracle_used=False,
    dropped_splits=DroppedSplits(),
    rounds=1,
    max_depth=1,
    calls=3,
    prompt_tokens=1,
    completion_tokens=1,
    cost=0.0,
)


def test_a_plan_has_what_it_asks_and_in_which_order() -> None:
    graph: Any = to_networkx(Plan(sub_questions=("Who directed M?", "Who wrote N?", "Did #1 know #2?")))
    assert sorted(graph.edges) == [(1, 3), (2, 3)]
    assert [graph.nodes[place]["level"] for place in (1, 2, 3)] == [0, 0, 1]
    assert [place for place in graph if graph.out_degree(place) == 0] == [3]
    with pytest.raises(InvalidInput, match="refers to #2"):
        to_networkx(Plan(sub_questions=("What is #2?", "Who?")))


def test_a_trajectory_is_its_plan_with_the_answers_that_were_found() -> None:
    row = trajectory()
    graph: Any = to_networkx(row)
    assert len(graph) == len(row.plan) and graph.nodes[len(row.plan)]["answer"] == row.final_answer


def test_a_tree_leads_from_plans_to_finer_plans() -> None:
    graph: Any = to_networkx(TREE)
    assert list(graph.edges) == [(0, 1)] and graph.nodes[1]["plan"].split("\n")[1] == "Where was #1 born?"
    assert nx.is_arborescence(graph)


def test_an_nl_dag_has_its_queries_and_its_levels_are_generations() -> None:
    plan = parse("Nodes:\nA: one (News)\nB: two (General)\nC: three (Academic)\nEdges:\nB -> A; C -> A")
    graph: Any = to_networkx(plan)
    assert dict(graph.nodes["B"]) == {"query": "two", "tool": "General"}
    assert [[each.node_id for each in level] for level in levels(plan)] == [["B", "C"], ["A"]]
    assert isinstance(plan, SearchPlan) and nx.is_directed_acyclic_graph(graph)


def test_triples_are_edges_with_their_labels() -> None:
    found = [
        KgTriple(head="Q1", relation="P19", tail="Q2", head_label="Lang", relation_label="born in", tail_label="V")
    ]
    graph: Any = to_networkx(found)
    assert graph.edges["Q1", "Q2", "P19"]["label"] == "born in" and graph.nodes["Q2"]["label"] == "V"


def test_of_a_knowledge_graph_what_lies_around_entities(store_folder: Path) -> None:
    store = KgStore.open(store_folder)
    found = {(each.head, each.tail, each.relation) for each in store.triples_of("E0003")}
    graph: Any = to_networkx(store, around=["E0003"])
    assert set(graph.edges(keys=True)) == found and len(found) > 2
    assert to_networkx(store, around=["E0003"], most=2).number_of_edges() == 2


@pytest.fixture(scope="module")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from trailforge.retrieval.kg import build_kg, open_source

    folder = tmp_path_factory.mktemp("kg") / "graph"
    build_kg(open_source(Path(__file__).parents[1] / "sample_data" / "kg"), folder)
    return folder


@pytest.mark.parametrize("name", ["linear_rag", "hippo_rag_plain", "hyper_graph_rag_plain", "graph_rag_plain"])
def test_of_a_back_end_what_lies_around_a_name(name: str) -> None:
    backend = load_backend(name)
    for package in backend.packages + backend.build_packages(backend.config()):
        pytest.importorskip(package)
    index: Any = run(backend.build(DOCUMENTS, backend.config(), bench(TableEncoder({}))))
    graph = neighbourhood(index, ["Vienna"], hops=3)
    passages = {data["id"] for _, data in graph.nodes(data=True) if data["kind"] == "passage"}
    assert {"l", "v"} <= passages and "o" not in passages
    assert nx.is_connected(graph)
    near = neighbourhood(index, ["l"], hops=1)
    assert {"passage 1"} < set(near) and all(near.has_edge("passage 1", each) for each in set(near) - {"passage 1"})
    assert len(neighbourhood(index, ["Vienna"], hops=9, most=3)) == 3
    with pytest.raises(InvalidInput, match="nothing of the index has the name or id Atlantis"):
        neighbourhood(index, ["Atlantis"])


def test_of_a_tree_of_summaries_what_a_summary_was_made_of() -> None:
    from trailforge.retrieval.backends.raptor import _COLUMNS, RaptorConfig, RaptorIndex, SummaryTree
    from trailforge.retrieval.backends.vectors import Vectors

    rows = [{"title": "t", "text": "Of film.", "layer": 1, "children": [0, 1], "leaves": [0, 1]}]
    rows += [{"title": "t", "text": "Of all.", "layer": 2, "children": [4, 2], "leaves": [0, 1, 2]}]
    tree = SummaryTree(Vectors(np.zeros((6, 2), np.float32)), pa.Table.from_pylist(rows, _COLUMNS), 0)
    index = RaptorIndex(DOCUMENTS, tree, RaptorConfig(), cast(Any, None))
    graph = neighbourhood(index, ["raptor-1"], hops=2)
    made_of = {
        ("summary 1", "summary 0"),
        ("summary 1", "passage 2"),
        ("summary 0", "passage 0"),
        ("summary 0", "passage 1"),
    }
    assert set(map(frozenset, graph.edges)) == set(map(frozenset, made_of))
    assert graph.nodes["summary 0"]["text"] == "Of film."


def test_an_open_index_has_a_graph_or_says_that_it_has_none(tmp_path: Path) -> None:
    asyncio.run(build_index(DOCUMENTS, tmp_path / "bm25", "bm25"))
    with pytest.raises(InvalidInput, match="back end has no graph"):
        to_networkx(open_index(tmp_path / "bm25"), around=["Vienna"])
    with pytest.raises(InvalidInput, match="a int has no graph"):
        to_networkx(3)


def test_graphml_is_read_back_without_what_xml_cannot_say(tmp_path: Path) -> None:
    graph: Any = to_networkx(Plan(sub_questions=("Who\x00 is\x0b it?", "Where was #1 born?")))
    save_graphml(graph, tmp_path / "plan.graphml")
    read = nx.read_graphml(tmp_path / "plan.graphml", node_type=int)
    assert read.nodes[1]["sub_question"] == "Who is it?" and list(read.edges) == [(1, 2)]


def test_graphml_says_what_the_graph_and_each_of_several_edges_is(tmp_path: Path) -> None:
    graph: Any = nx.MultiDiGraph(question="Who\x0b?", answer="Ada", sizes=[1])
    graph.add_edge("a", "b", key="P19", label="born in")
    graph.add_edge("a", "b", key="P20", label="died in")
    save_graphml(graph, tmp_path / "graph.graphml")
    read = nx.read_graphml(tmp_path / "graph.graphml", force_multigraph=True)
    assert {key: data["label"] for _, _, key, data in read.edges(keys=True, data=True)} == {
        "P19": "born in",
        "P20": "died in",
    }
    assert (read.graph["question"], read.graph["answer"]) == ("Who?", "Ada")
