"""A small graph of one's own: names without ids are names, and what it lacks is said with what would help."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from trailforge.generators.kg_questions.paths.config import KgPathConfig
from trailforge.generators.kg_questions.paths.sampling import PathSampler
from trailforge.generators.kg_questions.paths.shortage import check_any, describe_lack
from trailforge.generators.kg_questions.worlds import WorldConfig, make_world
from trailforge.retrieval.kg import KgStore, build_kg, open_source
from trailforge.schemas import InvalidInput, NothingLeft

TRIPLES = """Ada Lovelace	born in	London
Ada Lovelace	father	Lord Byron
Lord Byron	born in	London
Lord Byron	wrote	Don Juan
Don Juan	published in	1819
London	capital of	England
England	part of	United Kingdom
Ada Lovelace	worked with	Charles Babbage
Charles Babbage	born in	London
Charles Babbage	designed	Analytical Engine
Analytical Engine	instance of	computer
Ada Lovelace	instance of	human
Lord Byron	instance of	human
"""


def graph(folder: Path, triples: str = TRIPLES) -> Path:
    (folder / "mine.tsv").write_text(triples, encoding="utf-8")
    build_kg(open_source(folder / "mine.tsv"), folder / "kg")
    return folder / "kg"


def test_what_would_help_is_tried_first_and_helps(tmp_path: Path) -> None:
    sampler = PathSampler(KgStore.open(graph(tmp_path)), KgPathConfig(max_attempts=20), seed=1)
    with pytest.raises(NothingLeft, match="of 13 facts 9 are of relations that are asked for") as caught:
        check_any(next(sampler.sample(5), None), sampler, "my/graph")
    told = str(caught.value)
    assert told.startswith("my/graph: ") and "the most that one has is 3" in told
    given = re.search(
        r"With `paths: {min_triples: 1, max_guess: 1, hops: \[1, 2\]}` in the preset it gives (\d+)", told
    )
    assert given and int(given[1]) > 0
    mended = replace(sampler.config, min_triples=1, max_guess=1, hops=(1, 2))
    assert len(list(sampler.with_config(mended).sample(20))) == int(given[1])


def test_a_graph_of_ids_alone_has_nothing_to_ask(tmp_path: Path) -> None:
    ids = graph(tmp_path, "Q1\tP19\tQ2\nQ3\tP19\tQ4\n/m/01\t/people/born\t/m/02\n")
    sampler = PathSampler(KgStore.open(ids), KgPathConfig(max_attempts=20), seed=1)
    with pytest.raises(NothingLeft, match="in the preset does not help: give more facts"):
        check_any(next(sampler.sample(5), None), sampler, ids)


def test_an_unnamed_entity_among_named_ones_stays_without_a_name(tmp_path: Path) -> None:
    (tmp_path / "names.tsv").write_text("a\tAda\nb\tByron\n", encoding="utf-8")
    (tmp_path / "t.tsv").write_text("a\tfather\tb\nc\tfather\tb\n", encoding="utf-8")
    build_kg(open_source(tmp_path / "t.tsv", entities=[tmp_path / "names.tsv"]), tmp_path / "kg")
    store = KgStore.open(tmp_path / "kg")
    config = KgPathConfig(hops=(1,), min_triples=1, max_guess=1)
    chains = list(PathSampler(store, config, seed=1).sample(5))
    assert chains and all("c" not in {node.id for node in (*each.starts, *each.found)} for each in chains)


def test_a_world_says_an_order_that_the_graph_fills(tmp_path: Path) -> None:
    kg = graph(tmp_path)
    with pytest.raises(InvalidInput, match=r"of 13 facts 10 are asked for \(kinds are not\)") as caught:
        make_world(kg, tmp_path / "world", WorldConfig(questions=100))
    told = str(caught.value)
    assert told.startswith(f"{kg}: the graph gives ") and "it has 0 paths of 2 facts (more: one fact alone" in told
    order = re.search(r"try --questions (\d+) --hops 1, or give more facts$", told)
    assert order, told
    figures = make_world(kg, tmp_path / "world", WorldConfig(questions=int(order[1]), hops=(1,)))
    assert figures["questions"]["count"] == int(order[1]) > 0


def test_what_was_grown_says_more_than_what_could_not_be() -> None:
    assert describe_lack({"no_path": 100, "spare_fact": 2}) == describe_lack({"spare_fact": 1})
    assert describe_lack({}) == describe_lack({"no_path": 1}) != describe_lack({"repeated": 1})
