"""Worlds of pages: every question has one answer in what the pages state, every page that it needs is known."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.page_agents import (
    Hops,
    PageAgent,
    Walked,
    believes_look_alikes,
    honest,
    hops_of,
    never_opens,
    perfect,
    repeats_calls,
    walk,
)
from trailforge.cli import app
from trailforge.generators.kg_questions.paths.query import Link, PathNode
from trailforge.generators.kg_questions.wording import article_of
from trailforge.generators.kg_questions.worlds.pages import PageWorldConfig, make_page_world
from trailforge.generators.kg_questions.worlds.pages.trees import WorldFacts
from trailforge.pipelines.sources import read_questions
from trailforge.protocols.browse.actions import FindAction
from trailforge.retrieval import RetrieverConfig
from trailforge.retrieval.indexes.corpus import read_corpus
from trailforge.retrieval.kg import KgStore, build_kg, open_source
from trailforge.retrieval.page_tools import PageTools
from trailforge.retrieval.pages.cutting import Paging
from trailforge.retrieval.pages.tools import open_pages
from trailforge.rewards import exact_match, mentions
from trailforge.schemas import InvalidInput, Question

CONFIG = PageWorldConfig(questions=4, facts=(5, 6), pages=40, seed=3)


@pytest.fixture(scope="module")
def world(kg: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small world of pages."""
    folder = tmp_path_factory.mktemp("worlds") / "pages"
    figures = make_page_world(kg, folder, CONFIG)
    assert figures["questions"] == 4 and figures["look_alikes"] >= 8
    return folder


def questions_of(world: Path) -> list[Question]:
    """As all readers read them."""
    found = list(read_questions(world / "questions.jsonl"))
    assert all(isinstance(each, Question) for each in found)
    return [each for each in found if isinstance(each, Question)]


def tools_of(world: Path) -> PageTools:
    """Over its pages, in parts as `hops.jsonl` counts them."""
    return open_pages(world / "corpus.jsonl", RetrieverConfig(kind="bm25"), paging=Paging(words=500)).tools


async def walked(world: Path, script: Callable[[Hops], PageAgent]) -> dict[str, Walked]:
    """What one scripted agent does on every question."""
    tools, hops = tools_of(world), hops_of(world)
    return {question.id: await walk(script(hops[question.id]), tools) for question in questions_of(world)}


def test_pages_are_long_and_say_the_names_of_what_they_are_about(world: Path) -> None:
    """Every name that a hop's answer goes by stands on one page alone as its own."""
    pages = {page.id: page for page in read_corpus(world / "corpus.jsonl")}
    assert all(len(page.text.split()) >= 1000 for page in pages.values())
    assert len({page.title for page in pages.values()}) == len(pages)
    known = [page.text.partition(" is a")[0] for page in pages.values()]
    assert sum(", also known as " in first for first in known) >= 40
    for hops in hops_of(world).values():
        for hop in hops:
            assert pages[hop["page"]].title == hop["title"]
            assert all(sentence in pages[hop["page"]].text for sentence in hop["sentences"])


def test_no_sentence_of_a_page_comes_twice(kg: Path, tmp_path: Path) -> None:
    """Not even in its form, with other names and numbers, on a page of 5,000 words."""
    config = PageWorldConfig(questions=1, facts=(2,), pages=1, half_fits=0, words=5000)
    make_page_world(kg, tmp_path / "world", config)
    for page in read_corpus(tmp_path / "world" / "corpus.jsonl"):
        sentences = re.split(r"(?<=\w\w\.)\s+", page.text)
        forms = Counter(re.sub(r"[A-Z]\w*|\d+", "_", each) for each in sentences if len(each.split()) > 12)
        assert len(forms) > 150 and max(forms.values()) == 1, (page.title, forms.most_common(2))


def test_articles_are_those_of_speech(world: Path) -> None:
    """By sound: a university, an album."""
    text = (world / "corpus.jsonl").read_text()
    assert " a university." in text and " an university" not in text and " a album" not in text
    nouns = ("university", "union", "unincorporated area", "European city", "Opera", "one-act play", "usurper", "urn")
    assert [article_of(noun) for noun in nouns] == ["a", "a", "an", "a", "an", "a", "a", "an"]


def test_a_question_with_another_answer_in_a_constituent_country_is_seen(tmp_path: Path) -> None:
    """The city of a university is home to is said of country and part: both have a capital, so two answers fit."""
    names = {"u": "Ulm University", "c": "Cardiff", "w": "Wales", "k": "United Kingdom", "s": "Swansea", "l": "London"}
    kinds = {"u": "university", "c": "city", "w": "constituent country", "k": "country", "s": "city", "l": "city"}
    triples = [("u", "located in", "c"), ("c", "located in", "w"), ("c", "country", "k"), ("w", "country", "k"),
               ("k", "capital", "l"), ("w", "capital", "s")]  # fmt: skip
    triples += [(key, "instance of", f"kind {kind}") for key, kind in kinds.items()]
    labels = names | {f"kind {kind}": kind for kind in kinds.values()}
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "entities.tsv").write_text("".join(f"{key}\t{label}\n" for key, label in labels.items()))
    (folder / "triples.tsv").write_text("".join("\t".join(each) + "\n" for each in triples))
    (folder / "relations.tsv").write_text("".join(f"{each}\t{each}\n" for each in {way for _, way, _ in triples}))
    build_kg(open_source(folder), tmp_path / "kg")
    store = KgStore.open(tmp_path / "kg")

    def node(key: str, *links: Link) -> PathNode:
        return PathNode(store.row(key), links)

    def link(relation: str, child: PathNode) -> Link:
        return Link(store.relation_row(relation), True, child)

    city = node("c", link("located in", node("u")))
    asked = node("l", link("capital", node("k", link("country", city))))
    facts = WorldFacts(store)
    facts.add([each for each in triples if each[0] != "w"])
    assert facts.bears_out(asked) and facts.answers_of_others(asked, kinds.__getitem__) == set()
    facts.add(triples)
    assert facts.bears_out(asked) and facts.answers_of_others(asked, kinds.__getitem__) == {"s"}


def test_questions_name_nobody_on_the_way_and_every_page_that_they_need(world: Path) -> None:
    """Of five or six facts, two of which meet at the bottom: what stands there is told, not named."""
    hops = hops_of(world)
    for question in questions_of(world):
        assert question.num_hops in (5, 6)
        assert not any(mentions(question.question, hop.answer) for hop in question.decomposition)
        assert any(len(hop["sentences"]) == 2 for hop in hops[question.id])
        assert [each.title for each in question.supporting] == [hop["title"] for hop in hops[question.id]]


def test_every_question_has_one_answer_in_the_world_by_brute_force(world: Path) -> None:
    """All assignments of entities that the stated triples allow, hop by hop: one is left, look-alikes included."""
    labels = dict(line.split("\t")[:2] for line in (world / "kg" / "entities.tsv").read_text().splitlines())
    stated: defaultdict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for line in (world / "kg" / "triples.tsv").read_text().splitlines():
        head, relation, tail = line.split("\t")
        stated[labels.get(head, head), labels.get(tail, tail)].add((relation, "forward"))
        stated[labels.get(tail, tail), labels.get(head, head)].add((relation, "back"))
    edges: defaultdict[str, defaultdict[tuple[str, str], set[str]]] = defaultdict(lambda: defaultdict(set))
    for (one, other), ways in stated.items():
        for way in ways:
            edges[one][way].add(other)
    trees = json.loads((world / "world.json").read_text())["trees"]
    for question in questions_of(world):
        tree = trees[question.id]
        names = [{each["id"]} if not each["from"] else set(labels) for each in tree]
        for place, each in enumerate(tree):
            if each["from"]:
                ends = [
                    set().union(*(edges[labels[known]][relation, way] for known in names[source]))
                    for source, relation, way in each["from"]
                ]
                found = {key for key, label in labels.items() if label in set.intersection(*ends)}
                assert found == {each["id"]}, (question.question, found)
                names[place] = found
        assert labels[tree[-1]["id"]] == question.answer


async def test_who_reads_every_needed_page_answers_all(world: Path) -> None:
    """And was shown each sentence, by pages that its searches had found."""
    found, hops = await walked(world, perfect), hops_of(world)
    for question in questions_of(world):
        walk_of = found[question.id]
        assert exact_match(walk_of.answer, question.golds)
        hits = {hit.page for _, result in walk_of.seen if isinstance(result, tuple) for hit in result}
        for hop in hops[question.id]:
            assert hop["page"] in hits
            assert all(sentence in " ".join(walk_of.text.split()) for sentence in hop["sentences"])


async def test_two_facts_that_meet_need_a_look_into_pages_that_fit_one(world: Path) -> None:
    """The search for either fact shows others whose pages state it, too; who has no key looks into some of them."""
    tools, hops = tools_of(world), hops_of(world)
    several = [hop for each in hops.values() for hop in each if len(hop["queries"]) == 2 and hop["half_fits"]]
    assert len(several) >= 4
    looked_into = 0
    for hop in several:
        shown = [{hit.page for hit in await tools.search(query, 10)} for query in hop["queries"]]
        assert any(pages & set(hop["half_fits"]) for pages in shown) and hop["page"] not in hop["half_fits"]
    for question in questions_of(world):
        walked_so = await walk(honest(hops[question.id]), tools, 5)
        assert exact_match(walked_so.answer, question.golds)
        half = {page for hop in hops[question.id] for page in hop["half_fits"]}
        looked_into += sum(isinstance(call, FindAction) and call.page in half for call, _ in walked_so.seen)
    assert looked_into >= 4


async def test_every_search_of_a_hop_is_one_that_an_agent_makes(world: Path) -> None:
    """With the tools that it has: the page stands at its rank among what they show."""
    tools = tools_of(world)
    for hops in hops_of(world).values():
        for hop in hops:
            hits = await tools.search(hop["query"], CONFIG.passages)
            assert hits[hop["rank"] - 1].page == hop["page"]


async def test_other_agents_fail_as_they_must(world: Path) -> None:
    """Who never opens a page does not answer, but where the answer is what the last page is about; who believes a
    look-alike that leads on answers as is written down; who repeats its calls makes each of them twice.
    """
    golds, hops = {each.id: each.golds for each in questions_of(world)}, hops_of(world)
    closed, misled, twice = [await walked(world, each) for each in (never_opens, believes_look_alikes, repeats_calls)]
    inside = {key for key, each in hops.items() if each[-1]["title"] != each[-1]["answer"]}
    assert inside and not any(exact_match(closed[key].answer, golds[key]) for key in inside)
    led_on = {key for key, each in hops.items() if any(hop["false_answer"] for hop in each)}
    assert led_on and not any(exact_match(misled[key].answer, golds[key]) for key in led_on)
    for each in twice.values():
        calls = [call for call, _ in each.seen]
        assert calls[::2] == calls[1::2]


def test_nothing_has_two_values_of_what_has_one(kg: Path, tmp_path: Path) -> None:
    """No page says of somebody that he died in another place than his own city says: look-alikes tell of others."""
    make_page_world(kg, tmp_path / "world", replace(CONFIG, questions=12, facts=(5, 6, 7), seed=1))
    store = KgStore.open(kg)
    several = {
        store.relation_id(relation)
        for row in range(len(store))
        for relation in store.out.relations_of(row).tolist()
        if len(store.out.neighbours_of(row, relation)) > 1
    }
    told = defaultdict[tuple[str, str], set[str]](set)
    for line in (tmp_path / "world" / "kg" / "triples.tsv").read_text(encoding="utf-8").splitlines():
        head, relation, tail = line.split("\t")
        if relation not in several:
            told[head, relation].add(tail)
    assert len(told) > 100
    assert [each for each, tails in told.items() if len(tails) > 1] == []


def test_the_same_seed_gives_the_same_bytes(kg: Path, world: Path, tmp_path: Path) -> None:
    """Of every file but what names the folder."""
    make_page_world(kg, tmp_path / "again", CONFIG)
    for name in ("corpus.jsonl", "questions.jsonl", "hops.jsonl", "world.json", "kg/triples.tsv"):
        assert (tmp_path / "again" / name).read_bytes() == (world / name).read_bytes()


def test_what_the_graph_has_not_is_said(kg: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of how many facts no question is there."""
    make_page_world(kg, tmp_path / "some", PageWorldConfig(questions=1, facts=(2, 3), pages=1, words=20))
    assert "no question of 3 facts" in caplog.text


def test_what_a_world_of_pages_has_not_is_refused(kg: Path, tmp_path: Path) -> None:
    """In a line, before the graph is read."""
    with pytest.raises(InvalidInput, match="facts"):
        PageWorldConfig(facts=(1,))
    options = ["--kg", str(kg), "--out", str(tmp_path / "w"), "--pages", "9"]
    for given in (["--test-questions", "3"], ["--look-alikes", "0.5"], ["--max-facts", "4"]):
        result = CliRunner().invoke(app, ["world", *options, *given])
        assert isinstance(result.exception, InvalidInput) and f"does not take {given[0]};" in str(result.exception)
