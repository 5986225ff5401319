"""The research agent in evaluations: its run, its row, and what is counted of it over pages in process and served."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.evaluation.agents.support import Replies, tools
from tests.protocols.browse.test_loop import ANSWERING, calling, script
from tests.protocols.browse.test_loop import Agent as Speaker
from tests.support.browse_agent import ANSWER, QUESTION, Road
from trailforge.evaluation.agents import AgentRun, AgentTools, load_agent
from trailforge.evaluation.agents.browse import BrowseAgentConfig
from trailforge.evaluation.folder import choose_agent
from trailforge.evaluation.prices import costs_of
from trailforge.evaluation.results.metrics import MEASURES, EpisodeSetting, make_episode
from trailforge.inference import Meter
from trailforge.protocols.browse import BROWSE
from trailforge.protocols.browse.actions import FindAction, OpenAction, SearchAction
from trailforge.retrieval import RetrieverConfig
from trailforge.retrieval.pages.tools import open_pages
from trailforge.schemas import Document, InvalidInput, Question, SupportingDocument, read_parquet, write_parquet
from trailforge.schemas.agent_episode import AgentEpisode

CONFIG = BrowseAgentConfig(turn_tokens=64)


def tools_over(pages: Any, client: Speaker) -> AgentTools:
    given = tools(Replies())
    return replace(
        given,
        environment=replace(given.environment, pages=pages),
        asker=replace(given.asker, client=client, style="chat"),
    )


def run(pages: Any, config: BrowseAgentConfig = CONFIG) -> AgentRun:
    return asyncio.run(load_agent(BROWSE).run(QUESTION, tools_over(pages, Speaker()), config))


def row_of(done: AgentRun, question: Question) -> AgentEpisode:
    setting = EpisodeSetting(agent=BROWSE, agent_config="c", protocol=BROWSE, backend="b", model="m", seed=0)
    costs = costs_of(Meter(), "m", context_tokens=done.context_tokens, seconds=None)
    return make_episode(question, done, setting, costs=costs)


def question(*supporting: SupportingDocument) -> Question:
    return Question(id="q", dataset="d", question=QUESTION, answer=ANSWER, supporting=supporting)


GOLD = (SupportingDocument(id="p001", title="Stop 1"), SupportingDocument(id="p012", title="Stop 12"))


@pytest.mark.parametrize("writing", ["native", "tags"])
def test_an_episode_is_a_row_with_its_native_form_and_its_figures(tmp_path: Any, writing: Any) -> None:
    done = run(Road(12), replace(CONFIG, writing=writing, context="newest:3"))
    row = row_of(done, question(*GOLD))
    assert (row.answer, row.stop, row.protocol, row.failures) == (ANSWER, "answered", BROWSE, ())
    assert row.browse is not None and row.browse.writing == writing and row.browse.context == "newest:3"
    figures = row.browse.figures
    assert (figures.gold_pages, figures.gold_found, figures.gold_opened, figures.gold_cited) == (2, 2, 2, 1)
    assert row.scores.found_at == (0, 11) and len(row.searches) == 12
    assert {name: MEASURES[name](row) for name in ("tool_calls", "pages_opened", "gold_opened", "gold_cited")} == {
        "tool_calls": 26,
        "pages_opened": 12,
        "gold_opened": 1.0,
        "gold_cited": 0.5,
    }
    assert row.messages[2].content.startswith("<think>I begin.</think>\n<search>Stop 1</search>")
    path = tmp_path / "episodes.parquet"
    write_parquet(path, AgentEpisode, [row])
    assert read_parquet(path, AgentEpisode) == [row]


def test_a_page_of_the_same_title_is_not_the_one_that_the_answer_rests_on() -> None:
    """Look-alikes share a title: where ids are those of the corpus they tell."""
    row = row_of(run(Road(3)), question(SupportingDocument(id="elsewhere", title="Stop 1")))
    assert row.browse is not None and row.browse.figures.gold_opened == 0


def test_measures_of_pages_say_nothing_of_other_agents() -> None:
    row = replace(row_of(run(Road(3)), question(*GOLD)), browse=None)
    assert {MEASURES[name](row) for name in ("tool_calls", "repeated_calls", "pages_unused", "gold_cited")} == {None}


def test_over_a_real_index_of_pages_calls_find_what_stands_there() -> None:
    road = Road(6)
    documents = [Document(id=f"p{n:03d}", title=f"Stop {n}", text=road.text(n)) for n in range(1, 7)]
    turns = (
        calling(
            SearchAction(query="Where does the road end?"), OpenAction(page="p001"), OpenAction(page="p001", part=2)
        ),
        calling(OpenAction(page="p006"), FindAction(page="p006", text="ENDS in"), OpenAction(page="p999", part=1)),
        ANSWERING,
    )
    pages = open_pages(documents, RetrieverConfig(kind="bm25")).tools
    done = asyncio.run(load_agent(BROWSE).run(QUESTION, tools_over(pages, Speaker(script(*turns))), CONFIG))
    assert done.browse is not None and (done.answer, done.stop) == (ANSWER, "answered")
    found, first, second, last, words, missing = done.browse.calls
    assert "p006" in found.pages and done.searches[0].scores[0] > 0
    assert (first.pages, first.parts, second.pages) == (("p001",), (1,), ()) and "no part 2" in second.problem
    assert (last.pages, words.pages, words.parts) == (("p006",), ("p006",), (1,)) and "p999" in missing.problem


def test_without_pages_and_in_one_text_the_agent_says_what_it_needs() -> None:
    with pytest.raises(InvalidInput, match="opens pages"):
        run(None)
    given = tools_over(Road(3), Speaker())
    with pytest.raises(InvalidInput, match="style: chat"):
        asyncio.run(
            load_agent(BROWSE).run(QUESTION, replace(given, asker=replace(given.asker, style="completion")), CONFIG)
        )


@pytest.mark.parametrize(
    ("numbers", "field"),
    [
        ({"context": "newest"}, "context"),
        ({"max_calls": 0}, "max_calls"),
        ({"max_tokens": 5000}, "max_tokens"),
        ({"writing": "xml"}, "writing"),
    ],
)
def test_numbers_that_leave_no_room_are_refused_by_name(numbers: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"agents.{BROWSE}.{field}"):
        choose_agent(BROWSE, numbers)
