"""Our own reward: right > unknown >= 0 > wrong, and saying "unknown" to everything is no way to earn."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.recorded_episodes import recorded_episodes
from tests.support.truths import choice, truth
from trailforge.protocols.transcripts import make_truth, read_transcript
from trailforge.rewards.abstention import AbstentionConstants
from trailforge.rewards.episode import Episode, knows_that_unknown, reward_preset, score
from trailforge.schemas import ChatMessage, GroundTruth, InvalidInput, KgTrajectory
from trailforge.schemas.agent_episode import AgentTrajectory

OURS = reward_preset("abstention")


def seen(answer: str, *texts: str, searches: int = 1, holds: bool = True) -> Episode:
    return Episode(
        answer=answer,
        is_well_formed=holds,
        well_formed_turns=(holds,),
        num_searches=searches,
        retrieved_titles=(),
        given_texts=texts,
    )


def paid(episode: Episode, known: GroundTruth | None = None) -> float:
    return score(episode, known or truth(num_golds=1), OURS).total


def test_right_is_more_than_unknown_and_that_more_than_wrong() -> None:
    right, unknown, wrong, broken = (
        paid(each)
        for each in (seen("Vienna", "Oslo."), seen("unknown", "Oslo."), seen("Graz"), seen("Vienna", holds=False))
    )
    assert right > unknown >= 0.0 > wrong > broken
    assert paid(seen("")) == broken, "no answer is not one that says so"
    assert paid(seen("in Vienna")) == right, "as the filters find it"
    assert [paid(seen(answer), choice()) for answer in ("A, C", "A")] == [right, wrong]


@pytest.mark.parametrize("texts", [("He was born in Vienna.",), ("Oslo.", "So it is Vienna")])
def test_unknown_is_no_answer_where_what_was_read_states_it_nor_without_a_search(texts: tuple[str, ...]) -> None:
    assert paid(seen("unknown", *texts)) == paid(seen("unknown", searches=0)) == paid(seen("Graz"))


@pytest.mark.parametrize(
    "known",
    [truth(target=("yes",), support_titles=()), truth(target=("No", "no"), support_titles=()), choice()],
)
def test_words_do_not_tell_whether_yes_no_or_an_option_is_stated(known: GroundTruth) -> None:
    """So "unknown" earns nothing there, and a text with the word "no" in it changes nothing."""
    for text in ("He had no choice, said a reporter.", "Oslo."):
        found = score(seen("unknown", text), known, OURS)
        assert found.total == paid(seen("Graz", text), known) and found.parts["stated"] is None
        assert not knows_that_unknown(seen("unknown", text), known)


def test_an_answer_is_stated_by_its_other_names() -> None:
    known = truth(target=("French", "France"), num_golds=1)
    assert paid(seen("unknown", "It was made in France."), known) == paid(seen("Oslo"), known)
    assert paid(seen("unknown", "It was made in Italy."), known) == 0.0


@given(st.tuples(*[st.floats(-2, 2)] * 4))
def test_constants_are_in_this_order_or_refused(values: tuple[float, ...]) -> None:
    right, unknown, wrong, malformed = values
    given_ = {"right": right, "unknown": unknown, "wrong": wrong, "malformed": malformed}
    if right > unknown >= 0.0 > wrong > malformed:
        assert 0.0 < AbstentionConstants(**given_).break_even < 1.0
    else:
        with pytest.raises(InvalidInput):
            AbstentionConstants(**given_)


# An agent that always says "unknown"


def episodes(record: type[KgTrajectory | AgentTrajectory]) -> list[tuple[Episode, GroundTruth]]:
    """All that a strong model drew on the questions that it does not know, kept or not."""
    found = []
    kept, others = recorded_episodes(KgTrajectory) if record is KgTrajectory else recorded_episodes(AgentTrajectory)
    for row in (*kept, *others):
        protocol = "kg_search" if isinstance(row, KgTrajectory) else row.sft_protocol
        messages = row.messages if isinstance(row, KgTrajectory) else row.episode.messages
        turns = [ChatMessage(role=each.role, content=each.content) for each in messages]
        found.append((read_transcript(turns, protocol), make_truth(row.golds, protocol=protocol)))
    return found


@pytest.mark.parametrize(("record", "earned"), [(KgTrajectory, 0.94), (AgentTrajectory, 0.67)])
def test_always_unknown_earns_less_than_answering_at_the_base_rate(
    record: type[KgTrajectory | AgentTrajectory], earned: float
) -> None:
    """Less than the recorded agent, and than one that answers as often right by chance; even if it has read nothing.

    `earned`: what docs/trainer.md says of the recorded agent.
    """
    made = episodes(record)
    own = [score(episode, known, OURS).total for episode, known in made]
    always = [score(replace(episode, answer="unknown"), known, OURS).total for episode, known in made]
    unread = [score(replace(e, answer="unknown", given_texts=()), known, OURS).total for e, known in made]
    base_rate = fmean(score(episode, known, OURS).parts["right"] or 0.0 for episode, known in made)
    constants = OURS.constants
    assert isinstance(constants, AbstentionConstants)
    at_base_rate = base_rate * constants.right + (1 - base_rate) * constants.wrong
    assert constants.break_even < 0.1 < base_rate and round(fmean(own), 2) == earned and fmean(always) == -0.1
    assert fmean(always) <= fmean(unread) < at_base_rate and fmean(always) < fmean(own)


@given(rate=st.floats(0, 1), unknown=st.floats(0, 0.2), wrong=st.floats(-0.9, -0.01))
def test_answering_pays_from_the_break_even_rate_on(rate: float, unknown: float, wrong: float) -> None:
    constants = AbstentionConstants(unknown=unknown, wrong=wrong)
    earned = rate * constants.right + (1 - rate) * constants.wrong
    assert (earned > unknown) == (rate > constants.break_even) or abs(rate - constants.break_even) < 1e-9


def test_what_was_read_decides_whether_unknown_is_the_better_answer() -> None:
    known = truth(num_golds=1)
    assert knows_that_unknown(seen("It is not stated.", "Oslo."), known)
    for other in (seen("unknown", "in Vienna"), seen("unknown", searches=0), seen("Graz", "Oslo.")):
        assert not knows_that_unknown(other, known)


@pytest.mark.parametrize("gold", ["yes", "no"])
def test_yes_and_no_are_stated_by_the_documents_that_they_rest_on_and_by_no_word(gold: str) -> None:
    known = truth(target=(gold,), num_golds=1)
    some = seen("unknown", "There is no city that says yes.")
    titles = known.support_titles
    assert knows_that_unknown(some, known)
    assert knows_that_unknown(replace(some, retrieved_titles=titles[:1]), known)
    assert not knows_that_unknown(replace(some, retrieved_titles=titles), known)
    assert not knows_that_unknown(some, replace(known, support_titles=())), "nobody knows what was wanting"
