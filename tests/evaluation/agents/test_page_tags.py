"""Scripted agents over a road of pages get the failure tags of what they do wrong, and no others."""

from __future__ import annotations

from tests.evaluation.agents.test_browse import CONFIG, question, row_of, tools_over
from tests.protocols.browse.test_loop import Agent, calling, script
from tests.support.browse_agent import Road
from trailforge.evaluation.agents import load_agent
from trailforge.protocols.browse import BROWSE
from trailforge.protocols.browse.actions import AnswerAction, BrowseTurn, OpenAction, SearchAction
from trailforge.schemas import AgentEpisode, SupportingDocument

GOLD = tuple(SupportingDocument(title=f"Stop {stop}") for stop in (1, 2, 3))
LOOKED = [SearchAction(query=f"Stop {stop}") for stop in (1, 2, 3)]
OPENED = [OpenAction(page=f"p00{stop}", part=1) for stop in (1, 2, 3)]


def answering(text: str) -> BrowseTurn:
    return BrowseTurn(thought="I know.", answer=AnswerAction(text=text))


async def episode(*turns: BrowseTurn) -> AgentEpisode:
    speaker = Agent(script(*turns))
    done = await load_agent(BROWSE).run(question().question, tools_over(Road(3), speaker), CONFIG)
    return row_of(done, question(*GOLD))


async def test_who_reads_all_and_answers_has_no_tag() -> None:
    assert (await episode(calling(*LOOKED), calling(*OPENED), answering("Oslo"))).failures == ()


async def test_who_never_opens_is_told_so() -> None:
    assert (await episode(calling(*LOOKED), answering("Bergen"))).failures == ("misread", "not_opened")


async def test_who_repeats_calls_is_told_so() -> None:
    turns = [turn for turn in (calling(*LOOKED), calling(*OPENED)) for _ in range(2)]
    assert (await episode(*turns, answering("Bergen"))).failures == ("misread", "repeated_calls")


async def test_who_does_not_leave_a_dead_end_is_told_so() -> None:
    lost = [calling(SearchAction(query=f"nowhere {n}")) for n in range(9)]
    found = await episode(calling(*LOOKED), calling(*OPENED), *lost, answering("Bergen"))
    assert found.failures == ("misread", "dead_end")
    assert (await episode(calling(*LOOKED), calling(*OPENED), *lost[1:], answering("Bergen"))).failures == ("misread",)


async def test_many_calls_of_one_turn_are_one_try() -> None:
    turns = [calling(*(SearchAction(query=f"nowhere {n} {m}") for m in range(8))) for n in range(8)]
    found = await episode(calling(*LOOKED), calling(*OPENED), *turns, answering("Bergen"))
    assert found.failures == ("misread",)


async def test_a_page_that_was_opened_by_its_id_counts_as_found() -> None:
    found = await episode(calling(LOOKED[0]), calling(*OPENED), answering("Oslo"))
    assert found.scores.found_at == (0, 0, 0) and found.failures == ()
