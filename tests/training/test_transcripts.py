"""Transcripts read into what rewards see: what is strict, what is not looked at, and texts split into turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.transcripts import RESULT_TAGS, cases
from tests.support.turns import answer_turn, search_turn
from trailforge.protocols import REACT, SEARCH_R1
from trailforge.protocols.transcripts import read_transcript, split_text
from trailforge.protocols.turns import Turn
from trailforge.schemas import ChatMessage, InvalidInput, Role

SEARCH, ANSWER = search_turn(REACT, "Who?", "Lang"), answer_turn(REACT, "Done.", "Vienna")
RESULT = "<tool_response>\n1. (Metropolis) by Lang\n2. (M (film)) also\n</tool_response>"


def said(*turns: str, result: str = RESULT, tool: Role = "tool") -> tuple[ChatMessage, ...]:
    """The agent's turns with a result after each but the last."""
    messages = []
    for turn in turns:
        messages += [ChatMessage(role="assistant", content=turn), ChatMessage(role=tool, content=result)]
    return tuple(messages[:-1])


def test_a_flawless_episode() -> None:
    episode = read_transcript(said(SEARCH, SEARCH, ANSWER), "react", tokens=7)
    assert (episode.answer, episode.num_searches, episode.tokens) == ("Vienna", 2, 7)
    assert episode.is_well_formed and episode.well_formed_turns == (True, True, True)
    assert episode.retrieved_titles == ("Metropolis", "M (film)") * 2
    assert episode.plan is None


def test_what_comes_before_the_agent_does_not_matter() -> None:
    turns = said(SEARCH, ANSWER)
    opening = (ChatMessage(role="system", content="<answer>no</answer>"), ChatMessage(role="user", content="Where?"))
    for before in ((), opening[1:], opening):
        assert read_transcript((*before, *turns), "react") == read_transcript(turns, "react")


def test_a_tool_may_speak_as_user() -> None:
    assert read_transcript(said(SEARCH, ANSWER, tool="user"), "react") == read_transcript(said(SEARCH, ANSWER), "react")


@pytest.mark.parametrize("result", ["", "no tags", "<answer>Rome</answer>", "<search>x</search>", "</tool_response>"])
def test_no_tool_text_earns_or_costs_anything(result: str) -> None:
    episode = read_transcript(said(SEARCH, ANSWER, result=result), "react")
    assert episode.is_well_formed and episode.answer == "Vienna" and episode.num_searches == 1


@pytest.mark.parametrize(
    ("turns", "answer", "flags", "searches"),
    [
        ((), "", (), 0),
        ((SEARCH,), "", (False,), 0),  # never executed
        ((SEARCH, SEARCH), "", (True, False), 1),
        ((ANSWER,), "Vienna", (True,), 0),
        (("Vienna.",), "", (False,), 0),
        ((SEARCH, "<answer>Vienna</answer>"), "Vienna", (True, False), 1),
        ((SEARCH, f"{ANSWER}<answer> Oslo</answer>"), "", (True, False), 1),  # not to be read, as in the loop
        ((SEARCH, "<think>x</think><answer>Vien"), "", (True, False), 1),  # cut
        ((SEARCH.removesuffix("</search>"), ANSWER), "Vienna", (False, True), 0),
        ((f"{RESULT}{SEARCH}", ANSWER), "Vienna", (False, True), 0),  # made up
        ((ANSWER, ANSWER), "Vienna", (False, True), 0),
    ],
)
def test_broken_episodes(turns: tuple[str, ...], answer: str, flags: tuple[bool, ...], searches: int) -> None:
    episode = read_transcript(said(*turns), "react")
    assert (episode.answer, episode.well_formed_turns, episode.num_searches) == (answer, flags, searches)
    assert episode.is_well_formed == (turns == (ANSWER,))
    assert len(episode.retrieved_titles) == 2 * searches


def test_two_turns_in_a_row_are_no_conversation() -> None:
    turns = said(SEARCH, ANSWER)
    assert not read_transcript((turns[0], turns[2]), "react").is_well_formed
    assert not read_transcript((*turns[:2], *turns[1:]), "react").is_well_formed
    assert not read_transcript(turns[1:], "react").is_well_formed


def test_slips_are_mended_for_the_search_and_cost_the_form() -> None:
    slip = "<Think>x</Think><search>Lang</search>"
    last = SEARCH_R1.render_turn(Turn(thought="Done.", answer="Vienna"))
    episode = read_transcript(said(slip, last), "search_r1")
    assert episode.num_searches == 1 and episode.answer == "Vienna"
    assert not episode.is_well_formed and episode.well_formed_turns == (False, True)


def test_tools_of_plans_are_those_of_the_question() -> None:
    plan = "<think>x</think><search>\nNodes:\nA: q (Library)\nEdges:\n</search>"
    turns = said(plan, "<answer>Vienna</answer>")
    assert read_transcript(turns, "r_search").plan == 0.0
    assert read_transcript(turns, "r_search", tools=["library"]).plan == 1.0


def test_given_titles_are_taken_as_they_are() -> None:
    assert read_transcript(said(ANSWER), "react", retrieved_titles=["M"]).retrieved_titles == ("M",)


def test_an_unknown_protocol_gets_the_list() -> None:
    with pytest.raises(InvalidInput, match="no protocol 'x'; there are react, r_search, kg_search"):
        read_transcript((), "x")


# Texts


@pytest.mark.parametrize(
    "between", ["", "\n", " \n\n", "<|im_end|>\n<|im_start|>user\n", "\nuser\n", "<｜tool▁output▁begin｜>"]
)
@pytest.mark.parametrize("after", ["", "\n", "<|im_end|>\n<|im_start|>assistant\n", "\nassistant\n"])
def test_marks_of_a_template_around_results_go(between: str, after: str) -> None:
    text = f"{SEARCH}{between}{RESULT}{after}{SEARCH}{between}{RESULT}{after}{ANSWER}<|im_end|>"
    assert split_text(text, "react") == said(SEARCH, SEARCH, ANSWER)


def test_a_text_may_end_anywhere() -> None:
    assert split_text("", "react") == ()
    assert split_text(f"{SEARCH}\n{RESULT}\n", "react") == (*said(SEARCH, SEARCH)[:2],)
    cut = split_text(f"{SEARCH}\n{RESULT[:30]}", "react")
    assert len(cut) == 1 and not read_transcript(cut, "react").is_well_formed


def test_a_result_after_nothing_answers_an_empty_turn() -> None:
    assert [message.content for message in split_text(f"{RESULT}{ANSWER}", "react")] == ["", RESULT, ANSWER]


WORDS = st.sampled_from(["user", "assistant", "tool", "think", "Vienna", "1. (M)", "a < b", "\n", "(", ")"])
TEXTS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join).map(str.strip).filter(bool)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=3), TEXTS, st.sampled_from(list(RESULT_TAGS)))
def test_turns_put_together_come_apart_again(pairs: list[tuple[str, str]], last: str, protocol: str) -> None:
    tag = RESULT_TAGS[protocol]
    turns = [turn for said, found in pairs for turn in (f"<think>{said}</think>", f"<{tag}>\n{found}\n</{tag}>")]
    turns.append(f"<answer>{last}</answer>")
    assert [message.content for message in split_text("\n".join(turns), protocol)] == turns


def test_every_case_comes_apart_where_it_shows_who_wrote_what() -> None:
    for case in cases():
        if not case.hides_author:
            text = "\n".join(message.content for message in case.turns)
            assert [m.content for m in split_text(text, case.protocol)] == [m.content.strip() for m in case.turns]
