"""The episode of a research agent: what it is shown, where it ends, and what is left of it to train on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.browse_agent import ANSWER, QUESTION, Road, next_turn
from trailforge.inference import Meter, Reply, Request, Sampling
from trailforge.protocols.browse.actions import AnswerAction, BrowseTurn, Call, FindAction, OpenAction, SearchAction
from trailforge.protocols.browse.context import ContextRule, read_rule, windows_of
from trailforge.protocols.browse.figures import Gold
from trailforge.protocols.browse.loop import BrowseConfig, BrowseRun, run_browse_episode
from trailforge.protocols.browse.native import TOOLS_JSON, call_id, write_native
from trailforge.protocols.browse.results import LEFT_OUT, NO_CALLS_LEFT, NO_ROOM_LEFT, TOO_MANY_AT_ONCE
from trailforge.protocols.browse.tags import write_tags
from trailforge.protocols.browse.writings import writing_of
from trailforge.schemas import ContextOverflow, InvalidInput, NativeMessage, ToolCall
from trailforge.schemas.agent_episode import Writing

WRITINGS: tuple[Writing, ...] = ("native", "tags")
both = pytest.mark.parametrize("writing", WRITINGS)
Script = Callable[[str], BrowseTurn | str]


class Agent:
    """A client that speaks as a script does, in the writing that it is asked in. It counts a word as a token."""

    def __init__(self, script: Script = next_turn) -> None:
        self.script, self.requests = script, list[Request]()

    async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
        assert not isinstance(request.prompt, str)
        self.requests.append(request)
        prompt = "\n".join(turn.content for turn in request.prompt)
        turn = self.script(prompt)
        spoken: dict[str, Any] = {"text": turn}
        if isinstance(turn, BrowseTurn) and request.tools:
            before = sum(len(each.tool_calls) for each in request.prompt)
            ids = tuple(call_id(before + number) for number in range(len(turn.calls)))
            message = write_native(replace(turn, call_ids=ids))
            spoken = {"text": message.content, "reasoning": message.reasoning, "tool_calls": message.tool_calls}
        elif isinstance(turn, BrowseTurn):
            spoken = {"text": write_tags(turn)}
        words = sum(len(text.split()) for each in request.prompt for text in each.words)
        return Reply(finish_reason="stop", prompt_tokens=words, completion_tokens=20, key=request.key, **spoken)


def script(*turns: BrowseTurn | str) -> Script:
    left = list(turns)
    return lambda prompt: left.pop(0)


def calling(*calls: Call) -> BrowseTurn:
    return BrowseTurn(thought="I call.", calls=calls)


ANSWERING = BrowseTurn(thought="I know.", answer=AnswerAction(text=ANSWER))


async def run(agent: Agent, road: Road | None = None, gold: list[Gold] | None = None, **config: Any) -> BrowseRun:
    settings: dict[str, Any] = {"sampling": Sampling(temperature=1.0, max_tokens=64)} | config
    return await run_browse_episode(
        QUESTION, road or Road(3), client=agent, model="m", config=BrowseConfig(**settings), gold=gold, clock=None
    )


def prompts(agent: Agent) -> list[list[tuple[str, str, str]]]:
    return [
        [(turn.role, turn.reasoning, turn.content) for turn in request.prompt]
        for request in agent.requests
        if not isinstance(request.prompt, str)
    ]


@both
async def test_an_agent_reads_its_way_to_the_answer(writing: Writing) -> None:
    agent, road = Agent(), Road(12)
    done = await run(
        agent, road, gold=[Gold(page="p012"), Gold(title="stop 1"), Gold(page="elsewhere")], writing=writing
    )
    assert (done.stop, done.answer) == ("answered", ANSWER)
    assert [call[0] for call in road.calls].count("open") == 12
    figures = done.record.figures
    assert (figures.calls, figures.searches, figures.opens, figures.finds) == (26, 12, 12, 2)
    assert (figures.pages_found, figures.pages_opened, figures.pages_cited, figures.made_up_citations) == (12, 12, 1, 0)
    assert (figures.gold_pages, figures.gold_found, figures.gold_opened, figures.gold_cited) == (3, 2, 2, 1)
    assert figures.repeated_calls == figures.refused_calls == 0
    assert all(request.tools == (TOOLS_JSON if writing == "native" else "") for request in agent.requests)


@both
@pytest.mark.parametrize("rule", ["all", "newest:2", "newest:2:4", "summary:150"])
async def test_every_turn_is_trained_once_on_what_the_model_was_sent(writing: Writing, rule: str) -> None:
    agent = Agent()
    done = await run(agent, Road(12), writing=writing, context=read_rule(rule))
    assert (done.stop, done.answer) == ("answered", ANSWER)
    sent, trained = prompts(agent), list[list[tuple[str, str, str]]]()
    windows = windows_of(done.record, writing_of(writing).mark)
    for messages, train in windows:
        plain = [(each.role, each.reasoning, each.content) for each in messages]
        for at, is_trained in enumerate(train):
            if is_trained:
                assert messages[at].role == "assistant"
                trained.append(plain[:at])
    assert trained == sent  # each prompt as it was sent, each once, in order
    assert len(windows) == len(done.record.views)
    assert (len(windows) == 1) is (rule == "all")


async def test_replacing_several_results_at_once_makes_fewer_and_longer_windows() -> None:
    counts = [
        len((await run(Agent(), Road(12), context=read_rule(rule))).record.views) for rule in ("newest:2", "newest:2:4")
    ]
    assert 1 < counts[1] < counts[0] / 2


async def test_thoughts_that_are_not_sent_back_are_trained_turn_by_turn() -> None:
    agent = Agent()
    done = await run(agent, Road(4), sends_thoughts=False)
    assert not any(turn[1] for prompt in prompts(agent) for turn in prompt)
    windows = windows_of(done.record, LEFT_OUT)
    assert len(windows) == len(agent.requests) and all(sum(train) == 1 for _, train in windows)
    for (messages, train), sent in zip(windows, prompts(agent), strict=True):
        at = train.index(True)
        assert [(each.role, each.reasoning, each.content) for each in messages[:at]] == sent
        assert messages[at].reasoning


@both
async def test_the_newest_results_stay_and_older_ones_are_a_mark(writing: Writing) -> None:
    agent = Agent()
    await run(agent, Road(6), writing=writing, context=ContextRule(kind="newest", number=2))
    for prompt in prompts(agent)[4:]:
        shown = "\n".join(content for _, _, content in prompt)
        results = shown.count("A stop on a road.") + shown.count("[p") - shown.count("1. [p")
        assert shown.count(LEFT_OUT) >= 1 and results <= 3


async def test_a_summary_takes_the_place_of_all_before_it() -> None:
    agent = Agent()
    done = await run(agent, Road(12), context=ContextRule(kind="summary", number=250))
    summaries = [prompt for prompt in prompts(agent) if "in your own summary" in prompt[1][2]]
    assert summaries and done.answer == ANSWER
    assert any(len(prompt) == 2 for prompt in summaries)  # nothing but the opening and the summary
    asked = [prompt for prompt in prompts(agent) if prompt[-1][2].endswith("what to do next.")]
    assert len(asked) == len({view.summary for view in done.record.views} - {None})


@both
async def test_several_calls_of_a_turn_are_answered_in_their_order(writing: Writing) -> None:
    calls = (OpenAction(page="p002"), SearchAction(query="Stop 3"), FindAction(page="p001", text="goes on"))
    agent = Agent(script(calling(*calls), ANSWERING))
    done = await run(agent, writing=writing)
    assert [call.tool for call in done.record.calls] == ["open", "search", "find"]
    assert [call.pages for call in done.record.calls] == [("p002",), ("p003",), ("p001",)]
    results = [message for message in done.record.messages if message.role == "tool"]
    assert "Stop 2" in results[0].content and "Stop 3" in results[1].content
    if writing == "native":
        assert [each.tool_call_id for each in results] == [call_id(0), call_id(1), call_id(2)]
    else:  # one turn of a plain chat, so that nobody speaks twice in a row
        assert [role for role, _, _ in prompts(agent)[-1]] == ["system", "user", "assistant", "user"]


async def test_what_is_not_there_and_what_cannot_be_carried_out_is_read_by_the_agent() -> None:
    turn = calling(OpenAction(page="p999"), OpenAction(page="p001", part=7), FindAction(page="p001", text="nowhere"))
    done = await run(Agent(script(turn, ANSWERING)))
    assert done.stop == "answered"
    assert done.shown[0] == "Not done: there is no page p999" and "one part" in done.shown[1]
    assert "nowhere in [p001]." in done.shown[2], "a common word has no other name"
    assert done.record.figures.refused_calls == 2 and done.record.calls[0].problem


async def test_a_name_that_a_page_does_not_have_may_go_by_another_one_there() -> None:
    done = await run(Agent(script(calling(FindAction(page="p001", text="Zoe Lind")), ANSWERING)))
    assert "nowhere in [p001]; what has several names may go by another one there." in done.shown[0]


async def test_repeats_and_pages_that_nobody_uses_are_counted() -> None:
    turns = (
        calling(SearchAction(query="Stop 1"), SearchAction(query="Stop 1")),
        calling(OpenAction(page="p002"), OpenAction(page="p003")),
        BrowseTurn(thought="Stop 3 says it [p003, part 1] [p009, part 2].", answer=AnswerAction(text=ANSWER)),
    )
    figures = (await run(Agent(script(*turns)))).record.figures
    assert (figures.repeated_calls, figures.pages_opened, figures.pages_unused) == (1, 2, 1)
    assert (figures.pages_cited, figures.made_up_citations) == (1, 1)


@both
async def test_at_the_last_call_the_agent_is_told_and_can_only_answer(writing: Writing) -> None:
    agent = Agent()
    done = await run(agent, Road(12), writing=writing, max_calls=5)
    assert done.stop == "too_many_turns" and len(done.record.calls) == 5
    assert done.shown[-1].endswith(NO_CALLS_LEFT)
    done = await run(Agent(script(calling(SearchAction(query="Stop 1")), ANSWERING)), writing=writing, max_calls=1)
    assert (done.stop, done.answer) == ("answered", ANSWER)


async def test_too_many_calls_at_once_are_told_so() -> None:
    turn = calling(*(SearchAction(query=f"Stop {stop}") for stop in (1, 2, 3)))
    road = Road(3)
    done = await run(Agent(script(turn, ANSWERING)), road, max_at_once=2)
    assert len(road.calls) == 2 and TOO_MANY_AT_ONCE in done.shown[2] and done.stop == "answered"


async def test_a_result_that_does_not_fit_is_not_shown_and_the_answer_is_asked_for() -> None:
    turns = (calling(SearchAction(query="Stop 1")), calling(OpenAction(page="p001")), ANSWERING)
    agent = Agent(script(*turns))
    done = await run(agent, Road(3, words=4000), max_tokens=1500)
    assert done.shown[1].startswith(NO_ROOM_LEFT) and (done.stop, done.answer) == ("answered", ANSWER)
    assert all(request.sampling.max_tokens <= 64 for request in agent.requests)


async def test_a_cap_on_what_an_episode_spends_ends_it() -> None:
    done = await run(Agent(), Road(12), max_spent=2000)
    assert done.stop == "too_long" and 0 < len(done.record.calls) < 24


@both
async def test_a_turn_that_cannot_be_read_is_answered_with_why_so_often(writing: Writing) -> None:
    empty = "<think>hm</think>" if writing == "tags" else ""
    done = await run(Agent(script(empty, empty, ANSWERING)), writing=writing, max_refusals=2)
    assert done.stop == "answered"
    assert sum("cannot be read" in message.content for message in done.record.messages) == 2
    assert (await run(Agent(script(empty, empty)), writing=writing, max_refusals=1)).stop == "malformed"


async def test_a_window_that_overflows_under_way_is_an_end_and_at_once_an_error() -> None:
    class Full(Agent):
        async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
            if len(self.requests) == most:
                raise ContextOverflow("full")
            return await super().complete(request, meter)

    most = 3
    assert (await run(Full(), Road(12))).stop == "too_long"
    most = 0
    with pytest.raises(ContextOverflow):
        await run(Full(), Road(12))


async def test_calls_in_the_text_of_a_server_without_a_parser_go_on_without_ids() -> None:
    text = '<tool_call>{"name": "search", "arguments": {"query": "Stop 2"}}</tool_call>'
    done = await run(Agent(script(text, ANSWERING)))
    assert done.record.calls[0].pages == ("p002",)
    assert [each.tool_call_id for each in done.record.messages if each.role == "tool"] == [""]


async def test_ids_that_a_server_gave_stay_and_missing_ones_are_given() -> None:
    class Ids(Agent):
        async def complete(self, request: Request, meter: Meter | None = None) -> Reply:
            reply = await super().complete(request, meter)
            if len(self.requests) > 1:
                return reply
            first, second = reply.tool_calls
            return replace(reply, tool_calls=(replace(first, id="chatcmpl-tool-7"), replace(second, id="")))

    agent = Ids(script(calling(SearchAction(query="Stop 1"), SearchAction(query="Stop 2")), ANSWERING))
    done = await run(agent)
    sent = agent.requests[-1].prompt
    assert not isinstance(sent, str)
    assert [call.id for call in sent[2].tool_calls] == ["chatcmpl-tool-7", call_id(1)]
    assert [turn.tool_call_id for turn in sent[3:]] == ["chatcmpl-tool-7", call_id(1)]
    assert done.record.messages[2] == NativeMessage(
        role="assistant",
        content="",
        reasoning="I call.",
        tool_calls=(
            ToolCall(id="chatcmpl-tool-7", name="search", arguments='{"query": "Stop 1"}'),
            ToolCall(id=call_id(1), name="search", arguments='{"query": "Stop 2"}'),
        ),
    )


@pytest.mark.parametrize("text", ["", "newest", "newest:0", "summary:x", "all:3", "newest:1:2:3", "newest:3:0"])
def test_a_rule_that_leaves_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="expected all, newest"):
        read_rule(text)


@pytest.mark.parametrize("text", ["all", "newest:5", "newest:5:3", "summary:65536"])
def test_rules_are_written_as_they_are_read(text: str) -> None:
    assert str(read_rule(text)) == text


@both
async def test_from_the_half_on_results_say_how_many_calls_are_left(writing: Writing) -> None:
    """In the last result of a turn, as the model is sent it; what is trained on has it too."""
    done = await run(Agent(), Road(12), writing=writing, max_calls=8)
    said = [line for shown in done.shown for line in shown.splitlines() if "calls left" in line]
    assert (
        said == ["calls left: 4", "calls left: 3", "calls left: 2", "calls left: 1"] and NO_CALLS_LEFT in done.shown[-1]
    )
    windows = windows_of(done.record, writing_of(writing).mark)
    assert sum(message.content.count("calls left: ") for messages, _ in windows for message in messages) == 4
