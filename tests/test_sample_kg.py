"""The sample knowledge graph: sound files, facts the right way round, and the facts behind the sample questions."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

SAMPLES = Path(__file__).parents[1] / "sample_data"

# Relations that say what kind of thing something is. Paths through them join what has nothing else in common.
KINDS = {"instance of", "subclass of", "occupation"}

# Labels that several entities of one kind share, on purpose.
NAMESAKES = set(
    "Aberdeen|Alexandre Dumas|All Quiet on the Western Front|Birmingham|Cambridge|Córdoba|Dune|Emperor Gaozu|Falstaff|"
    "Hamlet|Johann Strauss|John Adams|London|Memphis|Metropolis|Milan|Naples|National Theatre|Paris|Psycho|River Avon|"
    "Roger Taylor|Solaris|Steve McQueen|Symphony No. 9|Thomas Hardy|Toledo|West Side Story".split("|")
)

# A count of things, which a graph answers by counting (Phobos and Deimos orbit Mars), so it is no entity.
ANSWERS_WITHOUT_ENTITY = {"two"}

TAILS = {
    "human": "author|architect|cast member|commander|creator|director|discoverer or inventor|father|first monarch|"
    "first president|founded by|librettist|people aboard|spouse|student of",
    "year": "year of birth|year of death|year of founding|year of publication",
    "city town": "capital|flows through|formed in|headquarters location|place of birth|place of death",
    "musical group": "member of",
    "stadium": "home venue",
    "museum": "collection",
    "theatre": "place of first performance",
    "currency": "currency",
    "language": "official language",
    "continent": "continent",
    "mountain volcano": "highest point",
    "river": "longest river",
    "award": "award received",
}
# Where Napoleon died, and awards of a narrower class.
FINER_TAILS = {("place of death", "island"), ("award received", "film award")}


class Graph:
    """The three files, with labels in place of relation ids."""

    def __init__(self) -> None:
        self.names = dict(rows("entities.tsv"))
        self.relations = dict(rows("relations.tsv"))
        self.raw = [line.split("\t") for line in lines("triples.tsv")]
        self.triples = [(head, self.relations[relation][0], tail) for head, relation, tail in self.raw]
        self.ids: dict[str, set[str]] = defaultdict(set)
        for entity, names in self.names.items():
            for name in names:
                self.ids[name.casefold()].add(entity)
        self.types: dict[str, set[str]] = defaultdict(set)
        for head, relation, tail in self.triples:
            if relation == "instance of":
                self.types[head].add(self.names[tail][0])
        self.years = {entity for entity, types in self.types.items() if "year" in types}
        self.facts = [triple for triple in self.triples if triple[1] not in KINDS]


def lines(name: str) -> list[str]:
    return (SAMPLES / "kg" / name).read_text(encoding="utf-8").splitlines()


def rows(name: str) -> Iterator[tuple[str, list[str]]]:
    for line in lines(name):
        key, *names = line.split("\t")
        yield key, names


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph()


def test_it_is_as_large_as_the_readme_says(graph: Graph) -> None:
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")
    for what, held in (("triples", graph.triples), ("entities", graph.names), ("relations", graph.relations)):
        assert f"{len(held):,} {what}" in readme
    assert sum(len(names) > 1 for names in graph.names.values()) >= 300
    assert all(uses >= 10 for uses in Counter(relation for _, relation, _ in graph.triples).values())


def test_every_line_has_an_id_of_its_own_and_names_without_repeats(graph: Graph) -> None:
    for name, known in (("entities.tsv", graph.names), ("relations.tsv", graph.relations)):
        assert len(lines(name)) == len(known)
        for names in known.values():
            assert names and len(set(names)) == len(names)
            assert all(each and each == each.strip() for each in names)
    labels = [names[0] for names in graph.relations.values()]
    assert len(set(labels)) == len(labels)


def test_triples_are_complete_used_and_said_once(graph: Graph) -> None:
    assert all(len(row) == 3 for row in graph.raw)
    ends = {end for head, _, tail in graph.raw for end in (head, tail)}
    assert ends == set(graph.names) and {row[1] for row in graph.raw} == set(graph.relations)
    said = {tuple(row) for row in graph.raw}
    assert len(said) == len(graph.raw)
    assert not [row for row in graph.raw if (row[2], row[1], row[0]) in said], "a fact and its inverse"


def test_namesakes_are_deliberate_and_can_be_told_apart(graph: Graph) -> None:
    shared: dict[str, list[str]] = defaultdict(list)
    for entity, names in graph.names.items():
        shared[names[0].casefold()].append(entity)
    shared = {label: entities for label, entities in shared.items() if len(entities) > 1}
    assert len(shared) >= 60
    for entities in shared.values():
        for entity in entities:
            assert any(len(graph.ids[alias.casefold()]) == 1 for alias in graph.names[entity][1:]), entity
    kinds = {label: Counter(kind for e in entities for kind in graph.types[e]) for label, entities in shared.items()}
    same_kind = {label for label, counts in kinds.items() if max(counts.values(), default=0) > 1}
    assert same_kind == {label.casefold() for label in NAMESAKES}


@pytest.mark.parametrize(("kinds", "relations"), TAILS.items())
def test_tails_are_of_the_kind_that_the_relation_wants(graph: Graph, kinds: str, relations: str) -> None:
    wanted = {kinds, *kinds.split()}
    for head, relation, tail in graph.triples:
        if relation in relations.split("|"):
            fits = graph.types[tail] & wanted or any((relation, kind) in FINER_TAILS for kind in graph.types[tail])
            assert fits, (graph.names[head][0], relation, graph.names[tail][0])


def test_years_are_only_ever_the_end_of_a_fact(graph: Graph) -> None:
    for head, relation, tail in graph.facts:
        assert head not in graph.years
        assert (tail in graph.years) == relation.startswith("year of ")


def test_lives_and_works_are_in_a_possible_order(graph: Graph) -> None:
    when = {(head, relation): int(graph.names[tail][0]) for head, relation, tail in graph.facts if tail in graph.years}
    for (head, relation), died in when.items():
        if relation == "year of death" and (born := when.get((head, "year of birth"))):
            assert 25 <= died - born <= 105, graph.names[head]
    for head, relation, tail in graph.facts:
        made, born = when.get((head, "year of publication")), when.get((tail, "year of birth"))
        if relation in {"author", "creator", "director"} and made and born:
            assert 15 <= made - born <= 85, graph.names[head]
        source = when.get((tail, "year of publication"))
        if relation == "based on" and made and source:
            assert source <= made, graph.names[head]


def test_nearly_all_hang_together_without_kinds_and_years(graph: Graph) -> None:
    classes = {tail for _, relation, tail in graph.triples if relation in KINDS}
    classes |= {head for head, relation, _ in graph.triples if relation == "subclass of"}
    joined = nx.Graph([(head, tail) for head, _, tail in graph.facts if tail not in graph.years])
    joined.add_nodes_from(graph.names.keys() - classes - graph.years)
    assert len(max(nx.connected_components(joined), key=len)) >= 0.95 * len(joined)


def test_facts_that_questions_take_for_the_only_ones_are_complete(graph: Graph) -> None:
    tails, heads = defaultdict(set), defaultdict(set)
    for head, relation, tail in graph.triples:
        tails[graph.names[head][0], relation].add(graph.names[tail][0])
        heads[graph.names[tail][0], relation].add(graph.names[head][0])
    assert tails["New Zealand", "official language"] == {"English", "Māori", "New Zealand Sign Language"}
    by_danube = tails["Danube", "separates"]
    beside = {name: tails[name, "shares border with"] | heads[name, "shares border with"] for name in by_danube}
    assert len(by_danube & beside["Hungary"]) >= 5, "no one country"
    assert all(borders & by_danube for borders in beside.values()), "each is parted from one of the others"


def mentioned(graph: Graph, question: str) -> set[str]:
    """Entities of which a name of three or more letters stands in the question."""
    words = question.casefold()
    found = [name for name in graph.ids if len(name) > 2 and name in words]
    return {e for n in found if re.search(rf"(?<!\w){re.escape(n)}(?!\w)", words) for e in graph.ids[n]}


def test_sample_questions_can_be_answered_hop_by_hop(graph: Graph) -> None:
    near: dict[str, set[str]] = defaultdict(set)
    for head, _, tail in graph.facts:
        near[head].add(tail)
        near[tail].add(head)
    joined: list[bool] = []
    without_entity: set[str] = set()
    for line in (SAMPLES / "musique_style_questions.jsonl").read_text(encoding="utf-8").splitlines():
        hops = json.loads(line)["question_decomposition"]
        for hop in hops:
            start = mentioned(graph, hop["question"]) - graph.years
            for k in re.findall(r"#(\d)", hop["question"]):
                start |= graph.ids[hops[int(k) - 1]["answer"].casefold()]
            answers = graph.ids.get(hop["answer"].casefold(), set())
            if not answers:
                without_entity.add(hop["answer"])
            joined.append(any(near[entity] & answers for entity in start))
    assert without_entity == ANSWERS_WITHOUT_ENTITY
    assert sum(joined) >= 0.95 * len(joined), f"{sum(joined)} of {len(joined)} hops are one triple"


def test_many_paths_of_two_facts_have_one_end(graph: Graph) -> None:
    ends: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for head, relation, tail in graph.facts:
        ends[head][relation].add(tail)
        ends[tail][f"{relation} (back)"].add(head)
    single = {
        entity: {relation: next(iter(found)) for relation, found in by_relation.items() if len(found) == 1}
        for entity, by_relation in ends.items()
    }
    paths = {
        (start, first, second)
        for start, steps in single.items()
        for first, middle in steps.items()
        if start not in graph.years and middle not in graph.years
        for second, end in single[middle].items()
        if end != start
    }
    assert len(paths) >= 10_000
