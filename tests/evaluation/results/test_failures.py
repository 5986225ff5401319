"""The tags of what went wrong, rule by rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.agent_episodes import episode
from trailforge.evaluation.results.failures import is_borne_out, is_right, read_texts, tag_failures
from trailforge.schemas import Message
from trailforge.schemas.agent_episode import AgentCall, AgentSearch, AgentStop

WRONG = {"answer": "Rome"}
NONE = {"answer": ""}


@pytest.mark.parametrize(
    ("known", "tags"),
    [
        ({}, ()),
        ({"found_at": (0, 0), "searches": 4}, ()),  # it searched on, and was right
        ({"searches": 0, "found_at": (None,)}, ("no_search",)),
        ({"searches": 0, "found_at": (None,), **WRONG}, ("no_search",)),
        ({"searches": 0, "found_at": (None,), **NONE}, ("no_search", "format")),
        (WRONG, ("misread",)),
        ({"found_at": (1, 0), "searches": 2, **WRONG}, ("misread",)),
        ({"found_at": (0, None), **WRONG}, ("stopped_early",)),
        ({"found_at": (0, None)}, ("stopped_early",)),  # lucky
        ({"found_at": (0, 0, None), **WRONG}, ("stopped_early",)),
        ({"found_at": (0, None), "searches": 2, **WRONG}, ("miss_at_hop_2",)),
        ({"found_at": (0, None), "searches": 2}, ("miss_at_hop_2",)),  # lucky
        ({"found_at": (None, 0), "searches": 2, **WRONG}, ("miss_at_hop_1",)),
        ({"found_at": (None, 0), "searches": 1, **WRONG}, ("stopped_early",)),
        ({"found_at": (None, None, None), "searches": 1, **WRONG}, ("miss_at_hop_1",)),
        ({"found_at": (0, None), "searches": 3, "stop": "too_many_turns", **NONE}, ("miss_at_hop_2", "stopped_late")),
        ({"found_at": (0, None), "searches": 1, "stop": "too_many_turns", **NONE}, ("stopped_late",)),
        ({"found_at": (0, 1), "searches": 5, "stop": "too_many_turns", **NONE}, ("stopped_late",)),
        ({"found_at": (0, 1), "searches": 2, "stop": "too_long", **NONE}, ("stopped_late",)),
        ({"found_at": (0, 1), "searches": 2, "stop": "malformed", **NONE}, ("format",)),
        ({"found_at": (0, None), "searches": 1, "stop": "malformed", **NONE}, ("format",)),
        ({"answer": " "}, ("format",)),
        ({"answer": "I think that it is Paris, where he lived for years."}, ("format",)),
        ({"answer": "Parisian"}, ("misread",)),  # not in whole words
        ({"answer": "There is no such city, I fear.", "golds": ("No",)}, ("misread",)),
        ({"stop": "failed", "searches": 0, **NONE}, ("failed",)),
        ({"stop": "failed", "found_at": (0, None), "searches": 2, **NONE}, ("failed",)),
    ],
)
def test_tags_follow_from_end_finds_and_answer(known: dict[str, Any], tags: tuple[str, ...]) -> None:
    assert episode(**known).failures == tags


@pytest.mark.parametrize(
    ("known", "tags"),
    [
        ({"read": "Its capital is Paris."}, ()),
        ({"read": "Its capital is far away."}, ("miss",)),
        ({"read": "Its capital is far away.", **WRONG}, ("miss",)),
        ({"read": "Its capital is Paris.", **WRONG}, ("misread",)),
        ({"read": "Its capital is Paris.", "stop": "too_many_turns", **NONE}, ("stopped_late",)),
        ({"read": "Two moons.", "golds": ("2",), "answer": "2"}, ()),
        ({"read": "Nothing of the kind.", "golds": ("yes",), "answer": "yes"}, ()),
        ({"read": "Nothing of the kind.", "golds": ("yes",), "answer": "no"}, ("misread",)),
        ({"question": "Paris or Rome", "read": "Neither."}, ("miss",)),  # the question is no passage
    ],
)
def test_without_known_supporting_documents_what_was_read_decides(known: dict[str, Any], tags: tuple[str, ...]) -> None:
    assert episode(found_at=(), **known).failures == tags


def test_a_judge_s_yes_is_no_misreading() -> None:
    assert episode(answer="Lutetia").failures == ("misread",)
    assert episode(answer="Lutetia", scores={"judge": 1.0}).failures == ()


def test_read_is_what_shows_a_passage_wherever_it_was_sent() -> None:
    made = episode(
        read="Words.",
        messages=(
            Message(role="system", content="(Title) of the system", train=False),
            Message(role="user", content="For example: <answer> Paris </answer>", train=False),
            Message(role="assistant", content="(Title) as I remember it", train=True),
            Message(role="tool", content="(Title) as found", train=False),
        ),
        calls=(AgentCall(purpose="read", prompt="(Title) for a reader", reply="(Title) as read"),),
    )
    assert read_texts(made, made.question) == ["(Title) as found", "(Title) for a reader"]


NOTHING = AgentSearch(query="?", document_ids=(), titles=(), scores=(), context_tokens=5, seconds=0.1)


def test_triples_are_read_too() -> None:
    for made in (episode(found_at=(), searches=0), episode(found_at=())):
        triples = replace(NOTHING, triples=("France | capital | Paris",))
        assert tag_failures(replace(made, searches=(*made.searches, triples))) == ()
        assert tag_failures(replace(made, searches=(*made.searches, NOTHING))) == ("miss",)


def test_yes_is_not_borne_out_by_nothing() -> None:
    made = episode(found_at=(), searches=0, golds=("yes",), answer="yes")
    assert made.failures == ("no_search",)
    assert tag_failures(replace(made, searches=(NOTHING,))) == ("miss",)


STOPS: tuple[AgentStop, ...] = get_args(AgentStop)


@given(
    st.lists(st.none() | st.integers(0, 3), max_size=3).map(tuple),
    st.integers(0, 4),
    st.sampled_from(STOPS),
    st.sampled_from(["", "Paris", "Rome", "Paris and Rome"]),
    st.sampled_from(["", "It is Paris.", "It is Rome."]),
)
def test_only_right_answers_that_are_borne_out_have_no_tag(
    found_at: tuple[int | None, ...], searches: int, stop: AgentStop, answer: str, read: str
) -> None:
    found = tuple(place if place is not None and place < searches else None for place in found_at)
    made = episode(found_at=found, searches=searches, stop=stop, answer=answer, read=read)
    is_good = stop != "failed" and is_right(made.scores) and is_borne_out(made)
    assert (made.failures == ()) == is_good
    assert len(set(made.failures)) == len(made.failures)
    assert ("no_search" in made.failures) <= (searches == 0)
    assert not {"misread", "stopped_early"} <= {*made.failures}
    assert tag_failures(made) == made.failures
