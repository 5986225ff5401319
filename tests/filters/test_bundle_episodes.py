"""Each reason to reject an episode, with the least that sets it off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.bundle_rows import CHURCH, ISLAND, sample_documents
from tests.support.scripted import ScriptedModel
from trailforge.filters.bundle_episodes import (
    EpisodeFilterConfig,
    answer_before_search,
    count_idle_searches,
    count_needless_edges,
    evidence_not_found,
    gold_in_episode,
    judge_episode,
    low_reward,
    malformed_conversation,
    names_the_missing,
    one_search_suffices,
    picked_options,
    placeholder_query,
    unfounded_thought,
    unread_figure,
)
from trailforge.generators.document_bundles.planned_episodes import EpisodeContext, PlannedEpisodeConfig, make_episodes
from trailforge.inference import Meter
from trailforge.protocols.nl_dag import SearchPlan
from trailforge.retrieval import RetrieverConfig, local_tools
from trailforge.schemas import RSearchReward, SearchEpisode

CONFIG = EpisodeFilterConfig(min_reward=0.8, min_evidence=1.0)
NOTHING = RSearchReward(total=0.0, format=0.0, dag=0.0, answer=0.0)


@pytest.fixture
async def episode() -> SearchEpisode:
    context = EpisodeContext(
        run_id="r",
        model="m",
        seed=0,
        client=ScriptedModel(lambda request: ""),
        config=PlannedEpisodeConfig(),
        tools=local_tools(sample_documents(), RetrieverConfig(kind="bm25")),
    )
    return (await make_episodes(ISLAND, context, Meter()))[0].episode


def with_query(episode: SearchEpisode, query: str) -> SearchEpisode:
    nodes = episode.plan_nodes
    return replace(episode, plan_nodes=(nodes[0], replace(nodes[1], query=query), *nodes[2:]))


def test_a_sound_episode_is_kept_by_all(episode: SearchEpisode) -> None:
    verdicts = judge_episode(episode, ISLAND, CONFIG)
    assert [(v.reason, v.keep, v.score, v.detail) for v in verdicts] == [
        ("malformed_conversation", True, 0.0, ""),
        ("placeholder_query", True, 0.0, ""),
        ("answer_before_search", True, 0.0, ""),
        ("unread_figure", True, 0.0, ""),
        ("picked_options", True, 0.0, ""),
        ("evidence_not_found", True, 1.0, ""),
        ("one_search_suffices", True, 0.666667, ""),
        ("gold_in_queries", True, 0.25, ""),
        ("admitted_guess", True, 0.0, ""),
        ("low_reward", True, 1.0, ""),
    ]


def test_a_gold_plan_with_words_of_its_documents_titles_is_no_episode(episode: SearchEpisode) -> None:
    """Titles are those of passages that bring evidence; a draw with the same queries is ranked by it."""
    config = replace(CONFIG, most_gold=0.2)
    (rejection,) = [verdict for verdict in judge_episode(episode, ISLAND, config) if not verdict.keep]
    assert (rejection.reason, rejection.score) == ("gold_in_queries", episode.gold_in_queries)
    assert rejection.detail.endswith(" knows bridg, tunnel")
    drawn = gold_in_episode(replace(episode, origin="policy"), ISLAND, most=0.2)
    assert (drawn.keep, drawn.score) == (True, rejection.score)
    assert gold_in_episode(with_query(episode, ISLAND.question), replace(ISLAND, hops=()), most=0.2).keep


@pytest.mark.parametrize(
    ("thought", "is_named"),
    [
        ("I need both abstracts.", False),
        ("Mills and Bergen are wanted.", False),
        ("What is missing is the designer of the turbine and the university of the mills.", True),
    ],
)
def test_a_thought_that_names_no_more_than_names_does_not_say_what_is_missing(
    episode: SearchEpisode, thought: str, is_named: bool
) -> None:
    row = replace(ISLAND, question="At which university did the designer of the Bergen turbine study?")
    nodes = (
        replace(episode.plan_nodes[0], query="designer of the turbine of Bergen"),
        replace(episode.plan_nodes[1], query="university of the maker of mills"),
    )
    assert names_the_missing(replace(episode, thought=thought, plan_nodes=nodes), row) == is_named


def test_malformed_conversation(episode: SearchEpisode) -> None:
    messages = (*episode.messages[:4], replace(episode.messages[4], content="more than 500"))
    verdict = malformed_conversation(replace(episode, messages=messages))
    assert not verdict.keep and verdict.score == 1.0
    assert verdict.detail == "message 4: expected a thought, then one search or one answer; found no tags"
    assert not malformed_conversation(replace(episode, messages=messages[:3])).keep


@pytest.mark.parametrize(("total", "keep"), [(0.79, False), (0.8, True)])
def test_low_reward(episode: SearchEpisode, total: float, keep: bool) -> None:
    reward = RSearchReward(total=total, format=1.0, dag=0.0, answer=0.58)
    verdict = low_reward(replace(episode, reward=reward), least=0.8)
    assert (verdict.keep, verdict.score) == (keep, total)
    assert verdict.detail == ("" if keep else "0.79 is below 0.8 (format 1, plan 0, answer 0.58)")


@pytest.mark.parametrize(("least", "keep"), [(1.0, False), (0.6, True)])
def test_evidence_not_found(episode: SearchEpisode, least: float, keep: bool) -> None:
    lost = replace(episode, searches=episode.searches[:2])
    verdict = evidence_not_found(lost, ISLAND, least=least)
    assert (verdict.keep, verdict.score) == (keep, pytest.approx(2 / 3, abs=1e-6))
    assert ("We list more than 500" in verdict.detail) == (not keep)
    assert not evidence_not_found(replace(episode, searches=()), ISLAND, least=least).keep


def test_one_search_suffices(episode: SearchEpisode) -> None:
    everything = tuple(passage for search in episode.searches for passage in search.passages)
    all_at_once = replace(episode.searches[1], passages=everything)
    searches = (episode.searches[0], all_at_once, episode.searches[2])
    verdict = one_search_suffices(replace(episode, searches=searches), ISLAND)
    assert (verdict.keep, verdict.score, verdict.detail) == (False, 1.0, "B alone brings the evidence of all hops")
    assert one_search_suffices(replace(episode, searches=(all_at_once,)), ISLAND).keep
    assert one_search_suffices(replace(episode, searches=()), ISLAND).keep
    rejections = [v.reason for v in judge_episode(replace(episode, searches=searches), ISLAND, CONFIG) if not v.keep]
    assert rejections == ["one_search_suffices"]
    assert one_search_suffices(replace(episode, searches=searches, origin="policy"), ISLAND).keep


def test_idle_are_searches_that_bring_nothing_new_beyond_one_for_each_hop(episode: SearchEpisode) -> None:
    everything = tuple(passage for search in episode.searches for passage in search.passages)
    first, second, third = episode.searches
    at_once = replace(first, passages=everything)
    assert count_idle_searches(episode, ISLAND) == 0
    assert count_idle_searches(replace(episode, searches=(at_once, second, third)), ISLAND) == 0
    assert count_idle_searches(replace(episode, searches=(first, second, third, second)), ISLAND) == 1
    assert count_idle_searches(replace(episode, searches=(*episode.searches, at_once, first)), ISLAND) == 2
    assert count_idle_searches(replace(episode, searches=(at_once,)), ISLAND) == 0


def test_needless_are_edges_beyond_those_of_the_question(episode: SearchEpisode) -> None:
    assert count_needless_edges(episode, ISLAND) == 0
    assert count_needless_edges(episode, replace(ISLAND, dag_edges=())) == 2
    assert count_needless_edges(replace(episode, plan_edges=()), ISLAND) == 0


@pytest.mark.parametrize(
    ("queries", "left_out"),
    [
        (("finalists for running mate in June", "women mentioned in May"), 0.0),
        (("Harris finalist", "Demings and Bottoms in the list of May"), 0.0),
        (("Harris finalist June", "Demings in the list of May"), 1.0),
        (("Abrams finalist June", "Harris in the list of May"), 2.0),
    ],
)
def test_queries_name_all_options_or_none(episode: SearchEpisode, queries: tuple[str, str], left_out: float) -> None:
    nodes = tuple(replace(node, query=query) for node, query in zip(episode.plan_nodes, queries, strict=False))
    options = ("Harris", "Demings", "Bottoms", "Abrams")
    asked = replace(episode, plan_nodes=nodes, options=options, question="Who were finalists, as was Abrams?")
    verdict = picked_options(asked)
    assert (verdict.keep, verdict.score) == (not left_out, left_out)


@pytest.mark.parametrize(
    ("query", "leaked"),
    [
        ("OS-Atlas amount of data 13M", "13m"),
        ("model with 37.1% on the benchmark", ""),
        ("Turin data of 2025, part 3", ""),
        ("samples 17K against 13M", "13m, 17k"),
    ],
)
def test_a_figure_that_nobody_has_read_stands_in_no_query_and_no_thought_before_it(
    episode: SearchEpisode, query: str, leaked: str
) -> None:
    hops = (
        replace(ISLAND.hops[0], evidence="trained on 17K samples in 2025, it achieves 37.1% in part 3"),
        replace(ISLAND.hops[1], evidence="only 0.02% of the data (3K vs. 13M)"),
    )
    row = replace(ISLAND, question="What share of the data did the model with 37.1% use?", hops=hops, answer="0.13%")
    verdict = unread_figure(with_query(episode, query), row)
    assert (verdict.keep, verdict.detail) == (not leaked, f"{query!r} knows {leaked}" if leaked else "")
    thought = f"I recall {query}, but it has to be checked."
    verdict = unread_figure(replace(episode, thought=thought), row)
    assert (verdict.keep, verdict.detail) == (not leaked, f"{thought!r} knows {leaked}" if leaked else "")


@pytest.mark.parametrize(
    ("where", "leaks"), [({"thought": "There are more than 500, I think."}, 1), ({"thought": "500 or more?"}, 0)]
)
def test_answer_before_search(episode: SearchEpisode, where: dict[str, Any], leaks: int) -> None:
    verdict = answer_before_search(replace(episode, **where))
    assert (verdict.keep, verdict.score) == (not leaks, leaks)
    assert ("'more than 500' stands in" in verdict.detail) == bool(leaks)
    assert answer_before_search(with_query(episode, "an island with more than 500 plants")).score == 1.0


def test_what_the_question_says_is_no_leak(episode: SearchEpisode) -> None:
    thought = "Gustaf Wickman designed it; It weighs 672 tonnes; It was finished in 1912"
    told = replace(episode, thought="More than 500?", question="Is it more than 500 or fewer?")
    assert answer_before_search(told).keep
    assert answer_before_search(replace(told, thought=thought, answer=thought, options=CHURCH.options)).keep


@pytest.mark.parametrize(
    "query",
    [
        "species on the island found in A",
        "where the designer named by node A studied",
        "plants on [A]",
        "plants on #A",
        "the result of A in May",
        "the person identified in step A",
        "headquarters (from A)",
        "budget of [agency from A]",
        "budget of {A}",
        "A's director in 2004",
        "director of A's agency",
        "budget of the agency identified above",
        "population of the city from A",
        "person found in A and B",
        "birthplace of the person from the first search",
        "the aforementioned agency",
        "using A, find the date",
        "<result of A> budget",
        "based on A",
        "the company returned by search A",
        "birthplace of [the author]",
    ],
)
def test_placeholder_query(episode: SearchEpisode, query: str) -> None:
    verdict = placeholder_query(with_query(episode, query))
    assert not verdict.keep and query in verdict.detail


@pytest.mark.parametrize(
    "query",
    [
        "vitamin A",
        "Vitamin A results in B cells",
        "species found in Africa",
        "found in a crack",
        "C# and A",
        "group A of the cup",
        "[sic] A",
        "Oakland A's payroll 2004",
        "species found above 3,000 m",
        "previously identified exoplanets",
        "bus from A to B in Oslo",
        "first search for Shackleton",
        "influenza A and B vaccines",
        "antibodies found in B cells",
        "Series A funding of startups",
        "(vitamin A) deficiency",
        "results of the first search for MH370",
        "protein from A. thaliana",
    ],
)
def test_a_letter_that_points_nowhere(episode: SearchEpisode, query: str) -> None:
    assert placeholder_query(with_query(episode, query)).keep


def test_an_episode_that_was_given_up_says_why_before_that_it_has_no_answer(episode: SearchEpisode) -> None:
    given_up = replace(with_query(episode, "plants on [A]"), messages=episode.messages[:4], reward=NOTHING)
    assert [v.reason for v in judge_episode(given_up, ISLAND, CONFIG) if not v.keep] == [
        "placeholder_query", "malformed_conversation", "low_reward",
    ]  # fmt: skip


PLAN = SearchPlan(nodes=ISLAND.dag_nodes, edges=ISLAND.dag_edges)


@pytest.mark.parametrize(
    ("thought", "fault"),
    [
        ("The crossing by George K. S. Rotne is a bridge; News may tell which, and then I need its island.", ""),
        ("News may have the House bill or the Senate committee that paid for the bridge.", ""),
        ("The House Peberholm bill may tell.", "'Peberholm' stands in nothing it has seen"),
        ("Peberholm is the island, so I look for its plants.", "'Peberholm' stands in nothing it has seen"),
        ("It was opened in 2000, so I look for its plants.", "the number 2000 stands in nothing it has seen"),
        ("There must be more than 500 of them.", "the number 500 stands in nothing it has seen"),
        ("I look. <search>", "it holds the tag <search>"),
        ("", "it thinks nothing"),
        ("plants " * 41, "41 words (at most 40)"),
    ],
)
def test_a_worded_thought_says_only_what_question_and_plan_say(thought: str, fault: str) -> None:
    verdict = unfounded_thought(thought, ISLAND, PLAN, max_words=40)
    assert (verdict.keep, verdict.detail) == (not fault, fault)


def test_a_worded_thought_chooses_no_option() -> None:
    plan = SearchPlan(nodes=CHURCH.dag_nodes, edges=CHURCH.dag_edges)
    assert unfounded_thought("I need its weight and its architect.", CHURCH, plan, max_words=40).keep
    verdict = unfounded_thought("Surely it was finished in 1912.", CHURCH, plan, max_words=40)
    assert verdict.detail == "it says the answer"
