"""Worlds made of the sample graph: what they promise, and what stays when one cannot be made."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from string import ascii_lowercase
from typing import get_args

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.support.world_agent import WorldFolder
from trailforge.cli import app
from trailforge.generators.kg_questions.worlds import WorldConfig, make_world, names
from trailforge.generators.kg_questions.worlds.config import NameStyle
from trailforge.generators.kg_questions.worlds.names import WorldNames
from trailforge.pipelines.sources.demand import NOT_DEMANDED, Demand, Quota, traits_of
from trailforge.retrieval.kg import KgStore, build_kg, open_source
from trailforge.rewards import exact_match, mentions
from trailforge.schemas import InvalidInput, OutputError, TrailforgeError

REAL = WorldConfig(questions=20, comparisons=0.2, hops=(1, 2, 3), distractors=100, seed=4)
APART = WorldConfig(questions=60, test_questions=30, names="invented", distractors=90)
ROWS = st.integers(0, 399)
"""Of entities of the sample graph."""


@pytest.fixture(scope="module")
def store(kg: Path) -> KgStore:
    return KgStore.open(kg)


@pytest.fixture(scope="module")
def real(kg: Path, tmp_path_factory: pytest.TempPathFactory) -> WorldFolder:
    folder = tmp_path_factory.mktemp("worlds") / "real"
    make_world(kg, folder, REAL)
    return WorldFolder(folder)


@pytest.fixture(scope="module")
def apart(kg: Path, tmp_path_factory: pytest.TempPathFactory) -> WorldFolder:
    folder = tmp_path_factory.mktemp("worlds") / "apart"
    make_world(kg, folder, APART)
    return WorldFolder(folder)


def test_who_makes_no_mistake_answers_every_question(real: WorldFolder, apart: WorldFolder) -> None:
    asked = [(real, question) for question in real.questions()]
    asked += [(apart, question) for split in ("questions", "test") for question in apart.questions(split)]
    assert len(asked) == 110
    assert [question.question for world, question in asked if not world.solved(question)] == []


def test_who_never_rewords_answers_the_clean_half_alone(apart: WorldFolder) -> None:
    first = [
        all(apart.search(search["query"], 1)[0].title == search["title"] for search in apart.searches[question.id])
        for question in apart.questions()
    ]
    assert sum(first) == 30


def test_who_believes_a_look_alike_answers_wrong_for_a_cause_that_is_written_down(apart: WorldFolder) -> None:
    misled = [each for searches in apart.searches.values() for each in searches if each["is_misled"]]
    assert len(misled) >= 45
    texts = {document.title: document.text for document in apart.documents}
    for each in misled:
        assert each["first_title"] != each["title"] and each["title"].split()[0] in each["first_title"]
        assert not set(each["sentences"]) & set(re.split(r"(?<=\.) ", texts[each["first_title"]]))
    ends = {question.id: question for split in ("questions", "test") for question in apart.questions(split)}
    assert not any(exact_match(each["false_answer"], ends[each["question_id"]].golds) for each in misled)
    assert sum(bool(each["false_answer"]) for each in misled) > 0.5 * len(misled)


def test_a_guesser_and_a_single_search_get_little(real: WorldFolder, apart: WorldFolder) -> None:
    for world, split in ((real, "questions"), (apart, "questions"), (apart, "test")):
        questions = world.questions(split)
        most = Counter(question.answer for question in questions).most_common(1)[0][1]
        assert most <= max(1, 0.02 * len(questions))
        longer = world.longer(split)
        assert longer and sum(map(world.found_at_once, longer)) <= 0.3 * len(longer)


def test_test_questions_have_no_entity_of_the_others(apart: WorldFolder) -> None:
    used: dict[str, set[str]] = {}
    for split in ("questions", "test"):
        rows = apart.questions(split)
        names = {hop.answer for question in rows for hop in question.decomposition}
        names |= {document.title for question in rows for document in question.supporting}
        used[split] = {name for name in names if not name.isdigit()}
    assert len(used["test"]) > 30
    assert not used["questions"] & used["test"]


def test_figures_are_those_of_the_files(apart: WorldFolder) -> None:
    figures = apart.about["figures"]
    assert figures["documents"] == len(apart.documents) == len({document.title for document in apart.documents})
    assert figures["gold_documents"] + figures["look_alikes"] + figures["distractors"] == len(apart.documents)
    assert figures["distractors"] >= APART.distractors
    for split in ("questions", "test"):
        questions, found = apart.questions(split), figures[split]
        misled = [any(each["is_misled"] for each in apart.searches[question.id]) for question in questions]
        assert (found["count"], found["misled"]) == (len(questions), sum(misled))
        assert found["misled_share"] == 0.5
    for searches in apart.searches.values():
        for each in searches:
            titles = [passage.title for passage in apart.search(each["query"])]
            assert titles[0] == each["first_title"]
            assert each["rank"] == (titles.index(each["title"]) + 1 if each["title"] in titles else None)


def test_invented_names_are_nobodys(kg: Path, apart: WorldFolder) -> None:
    store = KgStore.open(kg)
    capitals = {name for row in range(len(store)) if (name := store.label_of(row))[:1].isupper() and len(name) > 4}
    titles = {document.title for document in apart.documents}
    assert not titles & capitals
    for question in apart.questions():
        assert not [name for name in capitals if mentions(question.question, name)]


@pytest.mark.parametrize("kind", ["person", "town"])
def test_a_word_that_is_real_is_drawn_again(store: KgStore, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be it of a longer name of the graph, or known to everybody."""
    parts = (word for row in range(len(store)) for word in store.label_of(row).split()[:-1] if word.isalpha())
    part = next(word for word in parts if not len(store.namesakes(word)))
    drawn = iter([part.upper(), "Stalin", "Prize", "Velmarauth"])
    monkeypatch.setattr(names, "_word", lambda _: next(drawn))
    made = WorldNames(store, "invented", 5).invented(kind, random.Random(1))
    assert made.split()[-1] == "Velmarauth"


def test_the_same_seed_draws_the_same_new_words(store: KgStore) -> None:
    world = WorldNames(store, "invented", 5)
    words = [world.invented("town", random.Random(seed)) for seed in range(3000)]
    assert not [word for word in words if store.has_word(word) or word in ("Brazil", "Peter", "Latin")]
    assert words == [WorldNames(store, "invented", 5).invented("town", random.Random(seed)) for seed in range(3000)]


def test_names_without_a_capital_are_invented_and_common_nouns_stay(kg: Path) -> None:
    store = KgStore.open(kg)
    rows = {store.label_of(row): row for row in range(len(store))}
    world = WorldNames(store, "invented", 5)
    real = "pound sterling|euro|złoty|'s-Hertogenbosch|2001: A Space Odyssey|iPhone|8½|a-ha|30 St Mary Axe"
    assert [name for name in real.split("|") if world.label(rows[name]) == name] == []
    stay = "novelist|film director|city|currency|biochemistry|1215"
    assert [name for name in stay.split("|") if world.label(rows[name]) != name] == []
    assert WorldNames(store, "real", 5).label(rows["iPhone"]) == "iPhone"


def test_an_entity_has_one_invented_name_whatever_is_named_before(kg: Path) -> None:
    store = KgStore.open(kg)
    one, other = WorldNames(store, "invented", 5), WorldNames(store, "invented", 5)
    rows = range(0, 300, 7)
    found = [one.label(row) for row in rows]
    assert [other.label(row) for row in reversed(rows)][::-1] == found
    assert len(set(found)) == len(found)
    assert found != [WorldNames(store, "invented", 6).label(row) for row in rows]


@pytest.fixture(scope="module")
def few_words(store: KgStore) -> list[str]:
    """So few that most are soon taken: names of the graph, and some others."""
    made = (f"{begin}{letter}" for begin in ("Tavo", "Zuqui") for letter in ascii_lowercase)
    return [*(store.label_of(row) for row in range(40)), *made]


@given(
    asked=st.lists(st.tuples(st.sampled_from(["label", "mistakable", "made_up"]), ROWS), min_size=12, max_size=24),
    style=st.sampled_from(get_args(NameStyle)),
    seed=st.integers(0, 9),
)
def test_a_made_name_is_nothing_elses_whatever_is_named_before(
    store: KgStore, few_words: list[str], asked: list[tuple[str, int]], style: NameStyle, seed: int
) -> None:
    world = WorldNames(store, style, seed)
    made = {
        "label": world.label,
        "mistakable": world.mistakable,
        "made_up": lambda row: world.made_up(world.node(row), f"for {row}").label,
    }
    owners: dict[str, set[tuple[str, int]]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(names, "_word", lambda draw: draw.choice(few_words))
        named = [(how, row, made[how](row)) for how, row in asked]
    for how, row, name in named:
        assert made[how](row) == name
        if how != "label" or name != store.label_of(row):
            assert not len(store.namesakes(name)), (how, row)
            owners.setdefault(name.casefold(), set()).add((how, row))
        if how == "mistakable":
            assert set(world.label(row).split()) < set(name.split()), (world.label(row), name)
    assert all(len(each) == 1 for each in owners.values()), owners


def test_the_same_seed_gives_the_same_bytes(kg: Path, tmp_path: Path) -> None:
    small = replace(APART, questions=6, test_questions=4, distractors=10)
    for out in ("first", "again"):
        make_world(kg, tmp_path / out, small)
    for name in ("corpus.jsonl", "questions.jsonl", "test.jsonl", "searches.jsonl", "world.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "first" / name).read_bytes(), name


def test_comparisons_are_looked_up_twice_and_then_compared(real: WorldFolder) -> None:
    compared = [question for question in real.questions() if len(question.decomposition) > (question.num_hops or 0)]
    assert len(compared) == 4
    for question in compared:
        years = [int(hop.answer) for hop in question.decomposition[:2]]
        titles = [document.title for document in question.supporting]
        assert question.num_hops == 2 and question.answer == titles[years.index(min(years))]
        assert "earlier" in question.question


def test_documents_and_questions_are_written_in_whole_sentences(real: WorldFolder) -> None:
    for document in real.documents:
        assert not re.search(r"[{}|#\x00]|  |\bone one\b|the the|\.\.", document.text), document
        assert document.text.endswith(".") and document.text[0] == document.text[0].upper()
    for question in real.questions():
        assert question.question.endswith("?") and not re.search(r"[{}|#]", question.question)


def test_too_small_a_graph_gives_what_it_has(tmp_path: Path) -> None:
    triples = tmp_path / "triples.tsv"
    triples.write_text("".join(f"Film {n}\tdirector\tPerson {n}\n" for n in range(4)))
    build_kg(open_source(triples), tmp_path / "kg")
    figures = make_world(tmp_path / "kg", tmp_path / "out", WorldConfig(questions=50, hops=(1, 2)))
    lines = (tmp_path / "out" / "questions.jsonl").read_text().splitlines()
    assert figures["questions"]["count"] == len(lines) > 0


def test_a_folder_that_holds_something_is_left_alone(kg: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="is there already"):
        make_world(kg, tmp_path, REAL)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(("field", "value"), [("hops", (0,)), ("look_alikes", 1.5), ("questions", 0), ("passages", 0)])
def test_sizes_and_shares_have_bounds(field: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=field):
        WorldConfig(**{field: value})  # pyright: ignore[reportArgumentType]


def test_the_command_says_what_it_has_made(kg: Path, tmp_path: Path) -> None:
    out = tmp_path / "world"
    options = ["--kg", kg, "--out", out, "--questions", 10, "--hops", 1, "--distractors", 20]
    result = CliRunner().invoke(app, ["world", *map(str, options)])
    assert result.exit_code == 0, result.output
    assert "questions: 10 (10 of 1 hop)" in result.output and str(out) in result.output
    assert json.loads((out / "world.json").read_text())["config"]["hops"] == [1]
    assert "corpus.jsonl" in (out / "retrieval.yaml").read_text()


@pytest.mark.parametrize(("given", "problem"), [("two", "expected numbers as 1,2"), ("1,9", "from 1 to 4")])
def test_hops_that_are_none_are_refused(kg: Path, tmp_path: Path, given: str, problem: str) -> None:
    result = CliRunner().invoke(app, ["world", "--kg", str(kg), "--out", str(tmp_path / "w"), "--hops", given])
    assert result.exit_code != 0
    said = (
        str(result.exception) if isinstance(result.exception, TrailforgeError | typer.BadParameter) else result.output
    )
    assert problem in said
    assert not list(tmp_path.iterdir())


def test_the_graph_of_a_world_is_what_its_documents_say(apart: WorldFolder, tmp_path: Path) -> None:
    build_kg(open_source(apart.folder / "kg"), tmp_path / "kg")
    store = KgStore.open(tmp_path / "kg")
    assert store.stats.unnamed_entities == store.stats.invalid_rows == 0
    texts = {document.title: document.text for document in apart.documents}
    lines = (apart.folder / "kg" / "triples.tsv").read_text().splitlines()
    for head, relation, tail in (line.split("\t") for line in lines):
        ends = store.label(head), store.label(tail)
        said = any(mentions(texts.get(one, ""), other) for one, other in (ends, ends[::-1]))
        assert said or relation == "instance of", ends


def test_a_world_by_quotas_has_what_they_ask_for(kg: Path, tmp_path: Path) -> None:
    quotas = [
        {"share": 0.5, "hops": 1, "look_alike": True},
        {"share": 0.25, "hops": 2, "shape": "chain", "failure": "stopped_early"},
        {"share": 0.25, "shape": "comparison"},
    ]
    (tmp_path / "demand.yaml").write_text(json.dumps({"quotas": quotas}))
    options = ["--questions", "16", "--test-questions", "8", "--distractors", "60", "--hops", "2"]
    command = ["world", "--kg", str(kg), "--out", str(tmp_path / "world"), *options]
    result = CliRunner().invoke(app, [*command, "--demand", str(tmp_path / "demand.yaml")])
    assert result.exit_code == 0, result.output
    world = WorldFolder(tmp_path / "world")
    found = Counter((traits_of(each).hops, traits_of(each).shape) for each in world.questions())
    assert found == {(1, "chain"): 8, (2, "chain"): 4, (2, "comparison"): 4}
    misled = Counter(
        traits_of(each).hops
        for each in world.questions()
        if traits_of(each).shape == "chain" and any(search["is_misled"] for search in world.searches[each.id])
    )
    assert misled == {1: 8}, "look-alikes for misread ones, none for what stopped early"
    assert {traits_of(each).hops for each in world.questions("test")} <= {1, 2} and len(world.questions("test")) == 8


def test_starts_that_are_described_are_found_and_not_named(kg: Path, tmp_path: Path) -> None:
    """By quotas: who makes no mistake finds the described start first, by its own document."""
    demand = Demand(quotas=(Quota(share=1, hops=2, blurred=True), Quota(share=1, hops=1, blurred=False)))
    make_world(kg, tmp_path / "world", WorldConfig(questions=8, hops=(1,), distractors=30, demand=demand))
    world = WorldFolder(tmp_path / "world")
    asked = world.questions()
    assert Counter(len(world.searches[each.id]) for each in asked) == {1: 4, 2: 4}
    assert world.about["figures"]["questions"]["blurred"] == 4 and all(world.solved(each) for each in asked)
    for question in (each for each in asked if len(each.decomposition) == 2):
        start, first = question.decomposition[0].answer, world.searches[question.id][0]
        assert not mentions(question.question, start) and first["title"] == start and len(first["sentences"]) > 1


def test_one_relation_can_be_asked_for(kg: Path, apart: WorldFolder, tmp_path: Path) -> None:
    counted = Counter(traits_of(each).relation for each in apart.questions())
    wanted = max(counted, key=lambda each: (counted[each], each))
    config = WorldConfig(questions=12, hops=(1, 2), distractors=60, names="invented", look_alikes=0.0)
    quotas = Demand(quotas=(Quota(share=1, relation=wanted), Quota(share=3)))
    for name, demand in (("plain", NOT_DEMANDED), ("more", quotas)):
        make_world(kg, tmp_path / name, replace(config, demand=demand))
    plain, more = (
        sum(traits_of(each).relation == wanted for each in WorldFolder(tmp_path / name).questions())
        for name in ("plain", "more")
    )
    assert more == 3 > plain
