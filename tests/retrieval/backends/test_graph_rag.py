"""GraphRAG: the entity graph, its communities and reports, and both searches, by hand on small data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.retrieval.backends.support import TableEncoder
from tests.retrieval.backends.words import bench
from tests.support.cut_replies import CutModel
from tests.support.scripted import ScriptedModel, prompt_text
from trailforge.inference import Request
from trailforge.retrieval.backends import load_backend
from trailforge.retrieval.backends.entity_graph import EntityGraph, Facts, GraphRagConfig, find_communities, merge_facts
from trailforge.retrieval.backends.graph_rag import GraphRagIndex, report_batches
from trailforge.retrieval.backends.writing import facts_of, named_facts, write_reports
from trailforge.retrieval.indexes.shards import KeptShards
from trailforge.schemas import Document, RetrievalError, ServerUnavailable

GRAPH_RAG = load_backend("graph_rag")
CONFIG = GraphRagConfig(extraction="names", reports="extractive", search="local", smallest_report=3)
"""As the plain build, where a model writes on larger communities alone."""
DOCUMENTS = [
    Document(id="m", title="Metropolis (1927 film)", text="Metropolis is a film of 1927. Fritz Lang directed it."),
    Document(id="l", title="Fritz Lang", text="Fritz Lang was born in Vienna. Lang died in Beverly Hills."),
    Document(id="v", title="Vienna", text="Vienna is the capital of Austria."),
    Document(id="b", title="Beverly Hills", text="Beverly Hills is a city in California."),
]


def facts(*pairs: str, weight: float = 1.0) -> Facts:
    """Relations between names of one letter: "ab" is one of a and b."""
    names = sorted(set("".join(pairs)))
    return {
        "entities": [[name, "kind", f"{name} is here"] for name in names],
        "relations": [[one, other, f"{one} knows {other}", weight] for one, other in pairs],
    }


def names(graph: EntityGraph, rows: list[int]) -> str:
    return "".join(graph.entities[row].name for row in rows)


# The graph


def test_facts_of_passages_become_one_graph() -> None:
    """Strengths add up, in either direction; ends that no list holds become entities; a lost passage is counted."""
    graph = merge_facts(
        [
            {"entities": [["Ann", "person", "Ann sings."]], "relations": [["Ann", "Bob", "They met.", 3]]},
            None,
            {
                "entities": [["bob", "person", "Bob paints."], [" ANN ", "", "Ann sings."]],
                "relations": [["BOB", "ann", "They married.", 4], ["Bob", "bob", "Himself.", 9]],
            },
        ]
    )
    ann, bob = graph.entities
    assert (ann.name, ann.kind, ann.descriptions, ann.passages, ann.relations) == (
        "Ann",
        "person",
        ["Ann sings."],
        [0, 2],
        [0],
    )
    assert (bob.name, bob.kind, bob.passages) == ("Bob", "person", [0, 2])
    [relation] = graph.relations
    assert (relation.weight, relation.description, relation.passages) == (7, "They met. They married.", [0, 2])
    assert (graph.degree(relation), graph.lost_passages) == (2, 1)


def test_without_a_model_names_of_a_sentence_are_related_and_the_title_is_in_all() -> None:
    film, person, *_ = named_facts(DOCUMENTS)
    directed = "Fritz Lang directed it."
    assert film["entities"] == [
        ["Metropolis", "", "Metropolis is a film of 1927."],
        ["Metropolis", "", directed],
        ["Fritz Lang", "", directed],
    ]
    assert film["relations"] == [["Metropolis", "Fritz Lang", directed, 1.0]]
    assert person["relations"] == [
        ["Fritz Lang", "Vienna", "Fritz Lang was born in Vienna.", 1.0],
        ["Fritz Lang", "Beverly Hills", "Lang died in Beverly Hills.", 1.0],  # "Lang" is he
    ]


# Communities


def modularity(graph: EntityGraph, parts: list[list[int]]) -> float:
    """Sum over communities of inner / m - (degrees / 2m)², edges by weight."""
    total = sum(relation.weight for relation in graph.relations)
    value = 0.0
    for part in parts:
        inner = sum(r.weight for r in graph.relations if {r.source, r.target} <= set(part))
        degrees = sum(r.weight * len({r.source, r.target} & set(part)) for r in graph.relations)
        value += inner / total - (degrees / (2 * total)) ** 2
    return value


def partitions(rows: list[int]) -> list[list[list[int]]]:
    if not rows:
        return [[]]
    first, *others = rows
    found = []
    for parts in partitions(others):
        found += [[*parts[:at], [first, *parts[at]], *parts[at + 1 :]] for at in range(len(parts))] + [
            [[first], *parts]
        ]
    return found


def test_communities_have_the_highest_modularity() -> None:
    """Two triangles and an edge between them: 2 (3/7 - (7/14)²) = 5/14, the best of all 203 partitions."""
    graph = merge_facts([facts("ab", "bc", "ac", "cd", "de", "ef", "df")])
    communities = find_communities(graph, 10, 0)
    assert [names(graph, c.members) for c in communities] == ["abc", "def"]
    best = max(modularity(graph, parts) for parts in partitions(list(range(6))))
    assert modularity(graph, [c.members for c in communities]) == pytest.approx(best) == pytest.approx(5 / 14)


def test_large_communities_are_divided_again() -> None:
    """A ring of 12 triangles, joined by single edges: triangles are joined at first, and then told apart."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    triangles = [letters[at : at + 3] for at in range(0, 36, 3)]
    edges = [pair for a, b, c in triangles for pair in (a + b, b + c, a + c)]
    ring = [triangles[at][0] + triangles[(at + 1) % 12][1] for at in range(12)]
    graph = merge_facts([facts(*edges), facts(*ring, weight=2.0)])
    communities = find_communities(graph, 5, 0)
    assert {c.level for c in communities} >= {0, 1}
    for number, community in enumerate(communities):
        inner = [c for c in communities if c.parent == number]
        assert all(c.level == community.level + 1 and set(c.members) < set(community.members) for c in inner)
        assert not inner or len(community.members) > 5
    assert sorted(row for c in communities if c.level == 0 for row in c.members) == list(range(36))
    assert communities == find_communities(graph, 5, 0)


def test_what_cannot_be_divided_stays_and_who_has_no_relation_is_in_none() -> None:
    graph = merge_facts([facts("ab", "bc", "ac"), {"entities": [["z", "", "alone"]], "relations": []}])
    assert [names(graph, c.members) for c in find_communities(graph, 2, 0)] == ["abc"]
    assert find_communities(EntityGraph(), 10, 0) == []


# Reports


async def reported(graph: EntityGraph, config: GraphRagConfig = CONFIG, model: ScriptedModel | None = None) -> Any:
    communities = find_communities(graph, config.largest_community, config.seed)
    lost = await write_reports(communities, graph, config, bench(model))
    return communities, lost


async def test_a_report_without_a_model_names_the_best_connected_and_says_their_relations() -> None:
    """b and c have three relations, a and d two; relations are ranked by those of both ends: bc 6, the others 5."""
    graph = merge_facts([facts("ab", "bc", "bd"), facts("cd", "ac")])
    [[community], lost] = await reported(graph)
    assert (community.title, community.passages, lost) == ("b, c, a …", [0, 1], 0)
    assert community.text == "b knows c a knows b b knows d c knows d a knows c"
    assert community.rating == 5


def test_facts_that_are_too_many_give_way_to_reports_on_the_largest_parts() -> None:
    graph = merge_facts([facts("ab", "bc", "ac", "cd", "de", "ef", "df", "eg", "fg", "dg")])
    [whole] = find_communities(merge_facts([facts("ab")]), 9, 0)
    whole.members, whole.relations = list(range(7)), list(range(10))
    parts = find_communities(graph, 10, 0)
    for part in parts:
        part.title, part.text = f"T {names(graph, part.members)}", "Report."
    every = facts_of(whole, graph, parts, 10_000)
    assert "Report." not in every and every.count(" knows ") == 10
    less = facts_of(whole, graph, parts, 100)
    assert less.startswith("Report: T defg\nReport.\n") and "T abc" not in less
    assert [line for line in less.split("\n") if line.startswith("- d")] == []
    assert "- c – d: c knows d" in less
    least = facts_of(whole, graph, parts, 10)
    assert least.startswith("Report: T defg") and " knows " not in least


def report(title: str = "A title", **fields: Any) -> str:
    finding = {"summary": "One sentence.", "explanation": "More of it."}
    return json.dumps({"title": title, "summary": "What they are.", "findings": [finding], "rating": 7} | fields)


async def test_a_model_writes_reports_from_the_facts() -> None:
    graph = merge_facts([facts("ab", "bc", "ac"), facts("xy")])
    model = ScriptedModel(lambda request: report())
    [first, second], lost = await reported(graph, replace(CONFIG, reports="model"), model)
    [request] = model.requests  # of two entities nothing is asked
    assert "- a (kind): a is here\n" in prompt_text(request) and "- a – b: a knows b" in prompt_text(request)
    assert (first.title, first.rating, lost) == ("A title", 7.0, 0)
    assert first.text == "What they are.\n\nOne sentence.\nMore of it."
    assert second.text == "x knows y"


@pytest.mark.parametrize(
    "model",
    [
        CutModel(lambda request: report()),
        ScriptedModel(lambda request: "I cannot."),
        ScriptedModel(lambda request: report(findings="x")),
    ],
)
async def test_a_report_that_cannot_be_used_is_made_without_a_model(model: ScriptedModel) -> None:
    graph = merge_facts([facts("ab", "bc", "ac")])
    [community], lost = await reported(graph, replace(CONFIG, reports="model"), model)
    assert (community.text, lost) == ("a knows b b knows c a knows c", 1)


# Local search


async def build(
    documents: list[Document] = DOCUMENTS,
    config: GraphRagConfig = CONFIG,
    model: ScriptedModel | None = None,
    cosines: dict[str, float] | None = None,
) -> GraphRagIndex:
    encoder = None if cosines is None else TableEncoder(cosines)
    index = await GRAPH_RAG.build(documents, config, bench(model, encoder))
    assert isinstance(index, GraphRagIndex)
    return index


COSINES = {
    "Vienna: Fritz Lang was born in Vienna. Vienna is the capital of Austria.": 0.9,
    "Fritz Lang: Fritz Lang directed it. Fritz Lang was born in Vienna. Lang died in Beverly Hills.": 0.5,
    "Metropolis (1927 film)\nMetropolis is a film of 1927. Fritz Lang directed it.": 0.8,
}


async def test_passages_come_by_the_place_of_their_entity_and_its_relations_there() -> None:
    """Vienna, the nearest, is in l (one relation) and v (one); Fritz Lang in m (one) and l."""
    index = await build(cosines=COSINES, config=replace(CONFIG, entities=2))
    found = await index.find("?", 3)
    assert [(f.passage.id, f.passage.score) for f in found] == [("l", 1.0), ("v", 0.5), ("graph_rag-0", 0.333333)]
    assert found[0].why == "names Vienna (entity 1, cosine 0.900), 1 relations"
    assert [f.passage.id for f in await index.find("?", 4)] == ["l", "v", "m", "graph_rag-0"]
    assert (found[2].passage.title, found[2].sources) == ("Fritz Lang, Metropolis", ("m",))
    assert found[2].why == "report on a community with 1 of the entities found"
    assert [f.passage.id for f in await index.find("?", 2)] == ["l", "v"]


async def test_a_passage_with_more_of_an_entity_s_relations_comes_first() -> None:
    documents = [
        Document(id="one", title="", text="He saw Ann Ames."),
        Document(id="two", title="", text="He saw Ann Ames with Bob Bell and Cy Cole."),
    ]
    description = "Ann Ames: He saw Ann Ames. He saw Ann Ames with Bob Bell and Cy Cole."
    index = await build(documents, replace(CONFIG, entities=1), cosines={description: 0.9})
    found = await index.find("?", 2)
    assert [(f.passage.id, f.why[-11:]) for f in found] == [("two", "2 relations"), ("one", "0 relations")]


async def test_passages_may_come_by_their_own_cosine_too() -> None:
    """m: .5 of Fritz Lang and .8 of its own; l and v: .9 of Vienna."""
    index = await build(cosines=COSINES, config=replace(CONFIG, entities=2, order="passages"))
    assert [f.passage.id for f in await index.find("?", 4)][:3] == ["m", "l", "v"]


async def test_a_search_ends_where_its_budget_does() -> None:
    index = await build(cosines=COSINES, config=replace(CONFIG, entities=2, context_tokens=20))
    assert [f.passage.id for f in await index.find("?", 4)] == ["l", "graph_rag-0"]


@pytest.mark.parametrize(("k", "reports"), [(1, 0), (2, 0), (3, 1), (6, 1), (7, 2), (10, 2)])
async def test_reports_take_their_share_of_the_places(k: int, reports: int) -> None:
    """.15 of .65, rounded."""
    topics = [f"Ann{n} Ames{n} saw Bob{n} Bell{n}. Bob{n} Bell{n} saw Cy{n} Cole{n}." for n in range(12)]
    index = await build([Document(id=str(n), title="", text=text) for n, text in enumerate(topics)])
    found = await index.find("Ann3 Ames3", k)
    assert len(found) == k
    assert [f.passage.id.startswith("graph_rag-") for f in found] == [False] * (k - reports) + [True] * reports


@pytest.mark.parametrize("documents", [[], DOCUMENTS[:1], [Document(id="x", title="", text="no name here")]])
async def test_few_documents_and_none(documents: list[Document]) -> None:
    index = await build(documents)
    found = await index.find("Who directed Metropolis?", 5)
    assert [f.passage.id for f in found if not f.passage.id.startswith("graph_rag-")] == [d.id for d in documents][
        : len(index.parts.entities)
    ]
    assert await index.find("", 0) == await index.find("x", -1) == []


async def test_duplicates_come_in_the_order_of_the_documents() -> None:
    twins = [replace(DOCUMENTS[0], id=str(n)) for n in range(5)]
    found = await (await build(twins)).find("Who directed Metropolis?", 5)
    assert [f.passage.id for f in found if not f.passage.id.startswith("graph_rag-")] == ["0", "1", "2", "3"]


async def test_the_same_documents_give_the_same_bytes_and_what_is_opened_finds_the_same(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (await build()).save(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == ["entities.arrow", "entities.npy", "passages.npy", "relations.arrow", "reports.arrow"]
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)
    opened = GRAPH_RAG.open(tmp_path / "a", DOCUMENTS, CONFIG, bench())
    for query in ("Who directed Metropolis?", "capital"):
        assert await opened.find(query, 5) == await (await build()).find(query, 5) != []
    with pytest.raises(RetrievalError, match="not of these documents and settings"):
        GRAPH_RAG.open(tmp_path / "a", DOCUMENTS, replace(CONFIG, order="passages"), bench())
    with pytest.raises(RetrievalError, match="not of these documents"):
        GRAPH_RAG.open(tmp_path / "a", DOCUMENTS[1:], CONFIG, bench())
    (tmp_path / "a" / "reports.arrow").unlink()
    with pytest.raises(RetrievalError, match="holds no graph"):
        GRAPH_RAG.open(tmp_path / "a", DOCUMENTS, CONFIG, bench())


# With a model

ASKED = replace(CONFIG, extraction="model")


def reply(*pairs: str) -> str:
    found = facts(*pairs)
    entities = [{"name": n, "kind": k, "description": d} for n, k, d in found["entities"]]
    relations = [{"source": s, "target": t, "description": d, "strength": w} for s, t, d, w in found["relations"]]
    return json.dumps({"entities": entities, "relations": relations})


def script(first: Callable[[str], str], more: str = reply(), merged: str = "All of it.") -> Callable[[Request], str]:
    """Of a build: by the passage's last line, then what is gleaned, then merged descriptions."""

    def answer(request: Request) -> str:
        if request.purpose == "facts":
            prompt = request.prompt[0].content if not isinstance(request.prompt, str) else request.prompt
            return first(prompt.rstrip().rpartition("\n")[2])
        return {"gleaning": more, "merge": merged}[request.purpose]

    return answer


PASSAGES = [Document(id=name, title="", text=name) for name in ("ab", "bc", "cd")]


async def test_a_model_writes_facts_down_gleans_and_merges() -> None:
    model = ScriptedModel(script(lambda text: reply(text), more=reply("az")))
    index = await build(PASSAGES[:2], ASKED, model)
    entities = {row["name"]: row for row in index.parts.entities.to_pylist()}
    assert sorted(entities) == ["a", "b", "c", "z"]
    assert [request.purpose for request in model.requests].count("gleaning") == 2
    found_before = [prompt_text(r).rpartition("Found already\n")[2] for r in model.requests if r.purpose == "gleaning"]
    assert found_before[0] == "Entities\n- a (kind)\n- b (kind)\nRelations\n- a – b: a knows b"
    assert {r.purpose for r in model.requests} == {"facts", "gleaning"}  # equal descriptions are one
    assert entities["b"]["passages"] == [0, 1]


async def test_several_descriptions_are_merged_by_the_model() -> None:
    def first(text: str) -> str:
        return reply(text).replace("b is here", f"b is in {text}")

    model = ScriptedModel(script(first))
    index = await build(PASSAGES[:2], ASKED, model)
    descriptions = {row["name"]: row["description"] for row in index.parts.entities.to_pylist()}
    assert descriptions == {"a": "a is here", "b": "All of it.", "c": "c is here"}
    [merge] = [request for request in model.requests if request.purpose == "merge"]
    assert prompt_text(merge).endswith("Descriptions\n- b is in ab\n- b is in bc")
    few = await build(PASSAGES[:2], replace(ASKED, merged_from=3), ScriptedModel(script(first)))
    assert "b is in ab b is in bc" in few.parts.entities["description"].to_pylist()


async def test_long_descriptions_are_merged_a_few_at_a_time() -> None:
    def first(text: str) -> str:
        return reply("ab").replace("b is here", f"b is in {text}")

    model = ScriptedModel(script(first))
    await build(PASSAGES, replace(ASKED, merge_input_tokens=8), model)
    merges = [prompt_text(r).rpartition("Descriptions\n")[2] for r in model.requests if r.purpose == "merge"]
    assert merges == ["- b is in ab\n- b is in bc", "- All of it.\n- b is in cd"]


@pytest.mark.parametrize("bad", ["no JSON", '{"entities": []}', reply("bc").replace('"kind"', '"sort"')])
async def test_a_passage_whose_reply_cannot_be_used_loses_its_facts_alone(bad: str) -> None:
    model = ScriptedModel(script(lambda text: bad if text == "bc" else reply(text)))
    index = await build(PASSAGES, ASKED, model)
    assert index.parts.lost == {"passages": 1, "reports": 0}
    assert index.parts.relations["description"].to_pylist() == ["a knows b", "c knows d"]


async def test_cut_gleanings_lose_nothing_and_cut_facts_are_asked_for_once_more() -> None:
    gleanings = CutModel(script(lambda text: reply(text)), lambda request: request.purpose == "gleaning")
    assert (await build(PASSAGES, ASKED, gleanings)).parts.lost["passages"] == 0
    every = CutModel(script(lambda text: reply(text)))
    index = await build(PASSAGES, ASKED, every)
    assert (index.parts.lost["passages"], len(index.parts.entities), len(every.requests)) == (3, 0, 6)
    assert await index.find("a", 3) == []


async def test_nothing_found_ends_the_gleanings() -> None:
    model = ScriptedModel(script(lambda text: reply(text)))
    await build(PASSAGES[:1], replace(ASKED, gleanings=3), model)
    assert [request.purpose for request in model.requests] == ["facts", "gleaning"]


async def test_a_build_that_broke_off_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    config = replace(ASKED, reports="model", smallest_report=2)
    every = script(lambda text: reply(text), more=reply("az"))

    def broken(request: Request) -> str:
        if request.purpose == "report":
            raise ServerUnavailable("gone")
        return every(request)

    first, second = ScriptedModel(broken), ScriptedModel(lambda request: report())
    with pytest.raises(ServerUnavailable):
        await GRAPH_RAG.build(PASSAGES, config, replace(bench(first), map=KeptShards(tmp_path)))
    index = await GRAPH_RAG.build(PASSAGES, config, replace(bench(second), map=KeptShards(tmp_path)))
    assert {request.purpose for request in second.requests} == {"report"}
    whole = await build(PASSAGES, config, ScriptedModel(lambda r: report() if r.purpose == "report" else every(r)))
    assert isinstance(index, GraphRagIndex) and index.parts.reports == whole.parts.reports


# Global search


def point(text: str, score: float, *reports: int) -> dict[str, Any]:
    return {"description": text, "reports": list(reports), "score": score}


GLOBAL = replace(CONFIG, search="global")


def points_of(request: Request, points: dict[int, list[dict[str, Any]]]) -> str:
    shown = [number for number in points if f"[{number}] " in prompt_text(request)]
    return json.dumps({"points": [each for number in shown for each in points[number]]})


async def searched(
    points: dict[int, list[dict[str, Any]]], config: GraphRagConfig = GLOBAL
) -> tuple[Any, ScriptedModel]:
    passages = [Document(id=text, title="", text=text) for text in ("ab", "cd", "ef")]
    builder = ScriptedModel(script(lambda text: reply(text)))
    model = ScriptedModel(lambda r: points_of(r, points) if r.purpose == "points" else " The answer. ")
    index = await build(passages, replace(ASKED, extraction="model"), builder)
    return GraphRagIndex(passages, index.parts, config, bench(model)), model


async def test_an_answer_is_made_of_the_points_of_all_reports() -> None:
    index, model = await searched({0: [point("Little.", 20, 0)], 2: [point("Much.", 80, 2, 7), point("No.", 0, 1)]})
    [found] = await index.find("Who?", 5)
    assert (found.passage.text, found.passage.score) == ("The answer.", 0.8)
    assert found.sources == ("ab", "ef")
    assert found.why == "answer from 2 points; what 2 reports say, 2 calls"
    assert prompt_text(model.requests[-1]).endswith("Question: Who?\n\nPoints\n[80] Much.\n[20] Little.")
    assert found == (await index.find("Who?", 1))[0]
    assert GRAPH_RAG.asks_model(GLOBAL) == ("find",)
    assert GRAPH_RAG.asks_model(replace(GLOBAL, reports="model")) == ("build", "find")


async def test_reports_are_read_in_batches_that_fit() -> None:
    config = replace(GLOBAL, context_tokens=24)
    index, model = await searched({0: [point("Much.", 80, 0, 1)]}, config)
    batches = report_batches(index.parts, config)
    assert [len(batch) for batch in batches] == [2, 1]
    assert {report for batch in batches for report in batch} == {0, 1, 2}
    [found] = await index.find("Who?", 5)
    assert [r.purpose for r in model.requests] == ["points", "points", "answer"]
    beside = [report for batch in batches for report in batch if 0 in batch]
    assert found.sources == tuple(["ab", "cd", "ef"][report] for report in sorted(beside) if report < 2)
    assert found.why.endswith("3 calls")


async def test_no_points_are_no_answer_and_no_second_call() -> None:
    index, model = await searched({0: [point("Nothing.", 0, 0)]})
    assert await index.find("Who?", 5) == []
    assert len(model.requests) == 1
    assert await index.find("Who?", 0) == []
