"""What a guided search asks the graph for, and which triples it is given to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kg_episodes import store
from trailforge.protocols.result_filters import asked_for
from trailforge.retrieval.kg import KgStore, KgTool, build_kg, open_source
from trailforge.small_model.kg.guided import name_choices

ENTITIES = (("ana", "Ana, mon amour"), ("tana", "Tana"), ("king", "King George II"), ("be", "be"), ("coal", "Coal"))


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> KgStore:
    """Names with commas, of two letters, written small."""
    folder = tmp_path_factory.mktemp("odd")
    (folder / "triples.tsv").write_text("".join(f"{each}\tkind\tthing\n" for each, _ in ENTITIES))
    (folder / "entities.tsv").write_text("".join("\t".join(row) + "\n" for row in ENTITIES))
    build_kg(open_source(folder / "triples.tsv", entities=[folder / "entities.tsv"]), folder / "store")
    return KgStore.open(folder / "store")


@pytest.mark.parametrize(
    ("query", "known", "names"),
    [
        ("Who is the director of Ana, mon amour?", [], ["Ana, mon amour"]),
        ("Who is the director of Anton, and when?", [], ["Anton"]),
        ("Who was King George II in 1950?", [], ["King George II"]),
        ("where will it be held", [], []),
        ("in what year was coal found", [], ["coal"]),
        ("Joey Lawrence >> sibling", ["Joey Lawrence"], ["Joey Lawrence"]),
        ("What happened in 1950?", ["1950"], ["1950"]),
    ],
)
def test_names_are_whole_and_none_is_a_part_of_another(
    odd: KgStore, query: str, known: list[str], names: list[str]
) -> None:
    assert name_choices(odd, query, known) == names


@pytest.mark.parametrize(
    ("mention", "relation", "query", "kept"),
    [
        ("Fritz Lang", "born in", "Where was Fritz Lang born?", ["Fritz Lang | place of birth | Vienna"]),
        (
            "Fritz Lang",
            "died in",
            "Did Fritz Lang of Metropolis die?",
            ["Fritz Lang | place of death | Beverly Hills", "Metropolis | director | Fritz Lang"],
        ),
        ("Fritz Kang", "born in", "Where was Fritz Kang born?", ["Fritz Lang | place of birth | Vienna"]),
        ("Franz Kang", "born in", "Where was Franz Kang born?", []),
    ],
    ids=["by its relation", "to another name", "one typo", "somebody else"],
)
def test_triples_that_are_read_are_those_asked_for(
    tmp_path: Path, mention: str, relation: str, query: str, kept: list[str]
) -> None:
    found = KgTool(store(tmp_path)).search([mention], [relation], query)
    assert [triple.text for triple in asked_for(query, found)] == kept
