"""What the graph says is held against the documents, a fact at a time; and who else says that an answer is right."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.filters.kg.test_episodes import step, triple
from tests.support.kg_episodes import BORN, DIED, DIRECTOR, ENTITIES, TRIPLES, agent, context, store, turn
from tests.support.rows import QUESTION
from tests.support.scripted import prompt_text
from trailforge.generators.kg_trajectories.config import KgContext, KgGeneratorConfig, KgRunConfig
from trailforge.generators.kg_trajectories.reading import find_asked_facts, find_conflict
from trailforge.generators.kg_trajectories.rows import graph_names
from trailforge.generators.kg_trajectories.work import LIFE, generate, hold_against_documents
from trailforge.inference import Meter, Reply, Request
from trailforge.inference.judge import JudgeOptions
from trailforge.retrieval.kg import KgStore
from trailforge.schemas import Document, KgConflict, KgStep, Passage, Question

FREE = KgGeneratorConfig(episodes=1, top_k=3, kg_filter="asked")
VIENNA = turn("Vienna it is.", answer="Vienna")
GOOD = (DIRECTOR, BORN, VIENNA)
VAGUE = replace(
    QUESTION,
    paragraphs=(
        Document(id="0", title="Metropolis", text="Which film by Fritz Lang is Metropolis? Who directed it?"),
        Document(
            id="1", title="Fritz Lang", text="In which city was Fritz Lang at home? It was Vienna, so he was born."
        ),
        *QUESTION.paragraphs[2:],
    ),
)
"""Its passages name who and what, and in no clause how they are related."""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> KgStore:
    return store(tmp_path_factory.mktemp("kg"))


class Noted:
    """Plays episodes; answers every question on a fact alike, and notes it."""

    def __init__(self, *episodes: tuple[str, ...], says: str = "not stated") -> None:
        self.asked: list[str] = []
        self._play, self._says = agent(*(episodes or (GOOD,))), says

    def __call__(self, request: Request) -> str:
        if request.purpose != "self_check":
            return self._play(request)
        passages, _, asked = prompt_text(request).rpartition("\nPassages:\n")[2].strip().rpartition("\nQuestion: ")
        self.asked.append(f"{asked}\n{passages}")
        return self._says


async def conflicts(made: KgContext, question: Question = VAGUE) -> tuple[KgConflict, ...]:
    rows = (await generate(question, made)).rows
    ((row,), _) = await hold_against_documents(rows, question, made)
    assert row.flags == (("stale_or_conflicting",) if row.conflicts else ())
    return row.conflicts


async def test_the_model_is_asked_for_the_fact_and_reads_what_is_about_its_entity(graph: KgStore) -> None:
    chemist = Document(id="c", title="Chemistry in Vienna", text="In which city was the chemist born? In Rosenberg.")
    said = Noted()
    question = replace(VAGUE, paragraphs=(*VAGUE.paragraphs[:2], chemist))
    assert await conflicts(context(graph, said, FREE), question) == ()
    of_film, of_lang = sorted(said.asked, key=lambda asked: "born" in asked.partition("?")[0])
    assert of_film.startswith("Who is the director of Metropolis?\n")
    assert of_lang.startswith("Where was Fritz Lang born?\n")
    assert "(Fritz Lang) " in of_lang and "Chemistry" not in of_lang + of_film


async def test_from_a_value_back_to_its_entity(graph: KgStore) -> None:
    asks = turn("Who?", query="Which film did Fritz Lang direct?", entity="Fritz Lang", relation="director")
    said = Noted((asks, VIENNA))
    assert await conflicts(context(graph, said, FREE)) == ()
    assert said.asked[0].startswith("Who or what has Fritz Lang as director?\n")


async def test_what_a_clause_says_as_the_graph_does_is_not_asked(graph: KgStore) -> None:
    said = Noted()
    assert await conflicts(context(graph, said, FREE), QUESTION) == () and said.asked == []


async def test_what_no_document_is_about_is_not_asked(graph: KgStore) -> None:
    said = Noted()
    trams = (Document(id="x", title="Trams", text="Trams are red, and run in which city?"),)
    assert await conflicts(context(graph, said, FREE), replace(QUESTION, paragraphs=trams)) == ()
    assert said.asked == []


async def test_selected_episodes_alone_are_checked_and_share_their_calls(graph: KgStore) -> None:
    wrong = (DIRECTOR, DIED, turn("It is Beverly Hills.", answer="Beverly Hills"))
    said = Noted(GOOD, wrong, wrong, GOOD)
    config = KgRunConfig(generator=replace(FREE, episodes=4))
    result = await LIFE.run_item(VAGUE, context(graph, said, config.generator), config)
    assert len(result.rows["kg_trajectories"]) == 1
    assert len(said.asked) == 2 and not any("death" in asked for asked in said.asked)
    assert {count.purpose: count.calls for count in result.usage.by_purpose}["self_check"] == 2
    checked = result.rows["kg_trajectories"][0]
    assert len(checked.provenance.call_keys) == len(set(checked.provenance.call_keys)) == 5


async def test_facts_are_asked_for_at_once(graph: KgStore) -> None:
    made = context(graph, Noted(), FREE)
    waiting, most = 0, 0
    complete = made.client.complete

    async def counting(request: Request, meter: Meter | None = None) -> Reply:
        nonlocal waiting, most
        if request.purpose == "self_check":
            waiting += 1
            most = max(most, waiting)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            waiting -= 1
        return await complete(request, meter)

    made.client.complete = counting  # type: ignore[method-assign]
    await conflicts(made)
    assert most == 2


# What agrees


def fact_step(value: str, text: str, relation: str = "r") -> KgStep:
    one = replace(step("?", triples=(triple("e", relation, value),)), documents=())
    relation_link = replace(one.relations[0], relation_id=relation)
    return replace(
        one, relations=(relation_link,), documents=(Passage(id="1", title="N", text=f"e: {text}", score=0.5),)
    )


@pytest.mark.parametrize(
    ("value", "text", "answer", "is_conflict"),
    [
        ("953", "He died before 953.", "before 953", True),
        ("953", "He died in 953.", "953", False),
        ("953", "He died in 954.", "954", True),
        ("Tisch", "He went to New York University's Tisch School of the Arts.",
         "New York University's Tisch School of the Arts", False),
        ("Tisch School of the Performing Arts of the University of the City of New York", "He was at Tisch.", "Tisch",
         False),
        ("United States", "An American film.", "American", False),
        ("France", "A French director.", "French", False),
        ("France", "A Danish director.", "Danish", True),
        ("France", "A director.", "Danish", False),
        ("France", "A director.", "not stated", False),
        ("Jane", "His wives were Ann and Jane.", "Ann; Jane", False),
        ("Jane", "His wives were Ann and Mary.", "Ann; Mary", True),
    ],
)  # fmt: skip
def test_what_is_a_conflict(graph: KgStore, value: str, text: str, answer: str, is_conflict: bool) -> None:
    (fact,) = find_asked_facts(fact_step(value, text))
    found = find_conflict(fact, answer, fact.step.documents, graph)
    assert (found is not None) == is_conflict
    if found:
        assert (found.kg_value, found.document_value) == (value, answer)


@pytest.mark.parametrize("says", ["before 953", "953"])
async def test_a_figure_that_a_document_limits_is_asked_about_though_it_stands_there(tmp_path: Path, says: str) -> None:
    triples = tuple((h, r, "year" if (h, r) == ("lang", "died") else t) for h, r, t in TRIPLES)
    dated = store(tmp_path, triples, (*ENTITIES, ("year", "953")))
    limited = Document(id="1", title="Fritz Lang", text="In which city did Fritz Lang die? He died before 953.")
    said = Noted((DIRECTOR, DIED, VIENNA), says=says)
    made = context(dated, said, replace(FREE, self_check="absent", kg_filter="none"))
    found = await conflicts(made, replace(QUESTION, paragraphs=(QUESTION.paragraphs[0], limited)))
    assert [asked.partition("\n")[0] for asked in said.asked] == ["Where did Fritz Lang die?"]
    assert [(each.kg_value, each.document_value) for each in found] == ([("953", says)] if says != "953" else [])


# The graph's names of the answer


def test_the_graphs_names_of_the_answer_are_right_answers(tmp_path: Path) -> None:
    named = store(tmp_path, entities=(*ENTITIES[:3], ("vienna", "Vienna", "Wien", "W", "The City"), *ENTITIES[4:]))
    assert graph_names(QUESTION, named) == ("The City",), "Wien is the question's own, W too short"
    bare = replace(QUESTION, answer="The City", answer_aliases=())
    assert graph_names(bare, named) == ("Vienna", "Wien")
    by_id = replace(bare, answer="the Austrian capital", answer_id="vienna")
    assert graph_names(by_id, named) == ("Vienna", "Wien", "The City")
    assert graph_names(replace(by_id, answer_id="Q0"), named) == ()
    assert graph_names(replace(by_id, answer="yes"), named) == ()


@pytest.mark.parametrize(
    ("label", "names", "answer", "right"),
    [
        ("Canada", ("Dominion of Canada", "Russian", "American"), "Canadian", ("Canada", "Dominion of Canada")),
        ("United States of America", ("Ecuador", "the States", "French"), "American", (None, "the States")),
        ("Byzantine Empire", ("Romania", "Byzantium"), "Byzantine", ("Byzantine Empire", "Byzantium")),
        (
            "Russian Empire",
            ("Russia", "American", "Tsarist Russia"),
            "Imperial Russia",
            (None, "Russia", "Tsarist Russia"),
        ),
        ("Odisha", ("Orissa", "Indian"), "Orissa", ("Odisha",)),
    ],
)
def test_another_country_is_no_name_of_the_answer(
    tmp_path: Path, label: str, names: tuple[str, ...], answer: str, right: tuple[str | None, ...]
) -> None:
    """As a graph made from questions names these entities."""
    named = store(tmp_path, entities=(*ENTITIES, ("place", label, *names)))
    question = replace(QUESTION, answer=answer, answer_aliases=(), answer_id="place")
    assert graph_names(question, named) == tuple(each or label for each in right)


def test_a_name_that_two_entities_have_says_nothing(tmp_path: Path) -> None:
    two = store(tmp_path, entities=(*ENTITIES, ("painter", "Vienna", "The Painter")))
    assert graph_names(replace(QUESTION, answer_aliases=()), two) == ()


async def test_an_answer_by_the_graphs_name_is_accepted(graph: KgStore) -> None:
    question = replace(QUESTION, answer_aliases=(), answer="Vienna")
    wien = (DIRECTOR, BORN, turn("Wien it is.", answer="Wien"))
    (row,) = (await generate(question, context(graph, agent(wien), replace(FREE, self_check="off")))).rows
    assert (row.kind, row.answer_aliases) == ("good", ("Wien",))


# The judge


async def judged(graph: KgStore, answer: str, score: float, **changes: object) -> tuple[str, float | None, int]:
    calls = 0

    def script(request: Request) -> str:
        nonlocal calls
        if request.purpose == "grade":
            calls += 1
            return json.dumps({"score": score})
        return agent((DIRECTOR, BORN, turn("So.", answer=answer)))(request)

    config = replace(FREE, self_check="off", judge=JudgeOptions(**{"near_misses": True, **changes}))  # type: ignore[arg-type]
    (row,) = (await generate(QUESTION, context(graph, script, config))).rows
    return row.kind, row.judge_score, calls


async def test_near_misses_are_judged_and_nothing_else(graph: KgStore) -> None:
    assert await judged(graph, "the Vienna of the emperors or so", 0.95) == ("good", 0.95, 1)
    assert await judged(graph, "the Vienna of the emperors or so", 0.5) == ("bad", 0.5, 1)
    assert await judged(graph, "Vienna", 0.0) == ("good", None, 0), "the matcher is sure"
    assert await judged(graph, "Rosenberg", 1.0) == ("bad", None, 0), "no near miss"
    assert await judged(graph, "the Vienna of the emperors or so", 1.0, near_misses=False) == ("bad", None, 0)
