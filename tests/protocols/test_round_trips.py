"""Every protocol: what is written is read back, and what is executed is counted, by the one grammar."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import search_plans
from tests.support.scripted import ScriptedModel
from trailforge.protocols import KG_SEARCH, PROTOCOLS, R_SEARCH, Grammar, nl_dag
from trailforge.protocols.base import tags_in
from trailforge.protocols.episodes import EpisodeConfig, EpisodeRun, run_episode
from trailforge.protocols.r_search import search_of
from trailforge.protocols.transcripts import read_transcript, split_text
from trailforge.protocols.turns import Labels, Observation, Search, Turn
from trailforge.schemas import Message, Passage, PlanNode

every_protocol = pytest.mark.parametrize("grammar", PROTOCOLS.values(), ids=lambda grammar: grammar.name)
SPOKEN = st.characters(exclude_categories=["Cs"], exclude_characters="{}\\")
TEXTS = st.text(SPOKEN, min_size=1, max_size=20).map(str.strip)
PLAIN = TEXTS.filter(lambda text: bool(text) and not tags_in(text))
NAMES = st.lists(PLAIN, max_size=2).map(tuple)
PASSAGES = st.lists(
    st.builds(
        Passage,
        id=st.just("0"),
        title=st.sampled_from(["Oslo", "M (film)", "A < b", "Ünder  way"]),
        text=st.text(max_size=20),
        score=st.just(0.0),
    ),
    max_size=3,
).map(tuple)


def searches(grammar: Grammar) -> st.SearchStrategy[Search]:
    """What an agent of a protocol can ask."""
    if grammar is R_SEARCH:
        return search_plans().filter(lambda plan: not tags_in(nl_dag.render(plan))).map(search_of)
    if grammar is KG_SEARCH:
        return st.builds(Search, query=PLAIN, entities=NAMES, relations=NAMES)
    return st.builds(Search, query=PLAIN)


def results(grammar: Grammar) -> st.SearchStrategy[Observation]:
    """What its tools can find."""
    if grammar is R_SEARCH:
        node = PlanNode(node_id="A", query="q", tool="News")
        return PASSAGES.map(
            lambda found: Observation(
                passages=found, nodes=(nl_dag.NodeResult(node=node, status="found", passages=found),)
            )
        )
    triples = st.lists(st.builds(Labels, PLAIN, PLAIN, PLAIN), max_size=2).map(tuple)
    return st.builds(Observation, passages=PASSAGES, triples=triples if grammar is KG_SEARCH else st.just(()))


@st.composite
def transcripts(draw: st.DrawFn, grammar: Grammar) -> tuple[list[Turn], list[Observation], list[Message]]:
    """Turns, what the tools found, and the conversation that they make."""
    count = grammar.num_searches or draw(st.integers(0, 3))
    asked = [Turn(thought=draw(PLAIN), search=draw(searches(grammar))) for _ in range(count)]
    found = [draw(results(grammar)) for _ in asked]
    turns = [*asked, Turn(thought=draw(PLAIN) if grammar.answer_has_thought else "", answer=draw(PLAIN))]
    messages = [*grammar.opening(draw(PLAIN))]
    for number, turn in enumerate(turns):
        messages.append(Message(role="assistant", content=grammar.render_turn(turn), train=True))
        if number < len(found):
            messages.append(Message(role="tool", content=grammar.render_result(found[number]), train=False))
    return turns, found, messages


@every_protocol
@given(data=st.data())
def test_writing_and_reading_are_inverses_and_rewards_see_what_was_written(
    grammar: Grammar, data: st.DataObject
) -> None:
    turns, found, messages = data.draw(transcripts(grammar))
    contents = [message.content for message in messages if message.role == "assistant"]
    assert [grammar.parse_turn(content, strict=True) for content in contents] == turns
    assert [grammar.render_turn(grammar.parse_turn(content)) for content in contents] == contents
    assert grammar.validate(messages, strict=True) == []
    seen = read_transcript(messages, grammar.name)
    assert (seen.answer, seen.num_searches, seen.is_well_formed) == (turns[-1].answer, len(found), True)
    assert all(seen.well_formed_turns) and len(seen.well_formed_turns) == len(turns)
    titles = [" ".join(passage.title.split()) for observation in found for passage in observation.passages]
    assert [title.strip() for title in seen.retrieved_titles] == titles
    assert seen.plan == (1.0 if grammar is R_SEARCH else None)
    text = "\n".join(message.content for message in messages[2:])
    assert read_transcript(split_text(text, grammar.name), grammar.name) == seen


SLIPS = st.sampled_from(
    [
        ("", ""),
        ("<think>", ""),
        ("</think>", ""),
        ("<think>", "< Think >"),
        ("<think>", "Well. <think>"),
        ("</think>", "</think> so "),
        ("<think>", "<think><think>"),
        ("</search>", "</SEARCH>"),
        ("</answer>", "</answer> And more."),
        ("\\boxed{", ""),
        ("{", "```json {"),
        ("<answer>", "<result>x</result><answer>"),
    ]
)


def play(grammar: Grammar, contents: list[str], found: list[Observation]) -> EpisodeRun:
    """The loop over an agent that writes these turns."""
    left = iter(found)

    async def respond(search: Search) -> Observation:
        return next(left, Observation())

    def script(request: Any) -> str:
        spoken = sum(turn.role == "assistant" for turn in request.prompt)
        return contents[min(spoken, len(contents) - 1)]

    config = EpisodeConfig(max_turns=len(contents), max_tokens=100_000)
    return asyncio.run(run_episode("q", grammar, respond, client=ScriptedModel(script), model="m", config=config))


@every_protocol
@given(data=st.data())
def test_what_is_executed_is_counted_and_the_format_reads_the_raw_turn(grammar: Grammar, data: st.DataObject) -> None:
    turns, found, _ = data.draw(transcripts(grammar))
    contents = [grammar.render_turn(turn).replace(*data.draw(SLIPS), 1) for turn in turns]
    run = play(grammar, contents, found)
    seen = read_transcript(run.messages, grammar.name)
    assert seen.num_searches == run.num_searches
    assert seen.retrieved_titles == tuple(
        title
        for message in run.messages
        if message.role == "tool"
        for title, _ in grammar.read_passages(message.content)
    )
    if grammar.format_rule != "sections" or run.stop == "answered":
        assert seen.answer == run.answer
    is_mended = any(step.turn is None or step.turn.repairs for step in run.steps)
    if grammar.format_rule != "sections":
        assert seen.is_well_formed == (run.stop == "answered" and not is_mended)


def test_the_registry_names_each_protocol_once() -> None:
    assert list(PROTOCOLS) == [grammar.name for grammar in PROTOCOLS.values()]
    assert len({(grammar.system_prompt, grammar.result_tag) for grammar in PROTOCOLS.values()}) == 5
