"""A small graph in Wikidata5M's files, and stores of made-up graphs, shared by the tests of the knowledge graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from trailforge.retrieval.kg import KgStore, build_kg
from trailforge.retrieval.kg.rows import Gathered
from trailforge.retrieval.kg.sources import Wikidata5M

ENTITIES = """\
Q1\tAlbert Einstein\tEinstein\tA. Einstein
Q2\tUlm\tUlm, Germany
Q3\tGermany\tFederal Republic of Germany\tDeutschland
Q4\tPrinceton University
Q5\tParis\tCity of Light
Q6\tParis\tParis, Texas
Q7\tFrance\tFrench Republic
Q8\tTexas\tLone Star State
Q9\tBeyoncé\tBeyonce Knowles
Q10\tMarie Curie\tMaria Skłodowska
Q11\tThe Einstein Factor\tParis
Q12\t!!!\tChk Chk Chk
"""
RELATIONS = """\
P1\tplace of birth\tborn in
P2\temployer\tworks for
P3\tcountry\tsovereign state
P4\tlocated in\tstate
P5\tcapital\tcapital city
"""
TRANSDUCTIVE = """\
Q1\tP1\tQ2
Q1\tP2\tQ4
Q2\tP3\tQ3
Q5\tP3\tQ7
Q7\tP5\tQ5
Q10\tP2\tQ4
"""
INDUCTIVE = """\
Q6\tP4\tQ8
Q1\tP1\tQ2
Q10\tP3\tQ99
Q5\tP3\tQ5
"""

Ids = tuple[str, str, str]
"""Head, relation, tail."""


def write_wikidata5m(folder: Path) -> Path:
    """The small graph as a folder of Wikidata5M."""
    folder.mkdir()
    texts = {"entity": ENTITIES, "relation": RELATIONS}
    for split, triples in (("transductive", TRANSDUCTIVE), ("inductive", INDUCTIVE)):
        lines = triples.splitlines(keepends=True)
        texts |= {f"{split}_train": "".join(lines[2:]), f"{split}_valid": lines[0], f"{split}_test": lines[1]}
    for name, text in texts.items():
        (folder / f"wikidata5m_{name}.txt").write_text(text, encoding="utf-8")
    return folder


def small_store(folder: Path) -> KgStore:
    """The small graph as a store."""
    build_kg(Wikidata5M(write_wikidata5m(folder / "files")), folder / "store")
    return KgStore.open(folder / "store")


class Given:
    """A source that is given as Python values."""

    name = "given"

    def __init__(
        self,
        triples: Iterable[Ids],
        entities: Mapping[str, Sequence[str]] | None = None,
        relations: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._triples, self._entities, self._relations = triples, entities or {}, relations or {}

    def files(self) -> list[Path]:
        """None."""
        return []

    def read(self, into: Gathered) -> None:
        """See `KgSource`."""
        for key, names in self._entities.items():
            into.named(into.entities, key, names)
        for key, names in self._relations.items():
            into.named(into.relations, key, names)
        for triple in self._triples:
            into.triple(*triple)


def store_of(folder: Path, triples: Iterable[Ids], entities: Mapping[str, Sequence[str]] | None = None) -> KgStore:
    """A store of such a graph."""
    build_kg(Given(triples, entities), folder)
    return KgStore.open(folder)
