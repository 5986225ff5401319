"""Each reason to reject an agent's episode, with the least that sets it off; the choice among the rest; pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.generators.agent_trajectories.made_rows import FOUND, QUESTION, row_of, run_of
from trailforge.filters import first_rejection
from trailforge.generators.agent_trajectories.filters import (
    SURPLUS,
    AgentFilterConfig,
    is_plainly_wrong,
    judge_episode,
    parting,
    preference_pairs,
    select,
)
from trailforge.generators.agent_trajectories.record import AgentTrajectory
from trailforge.generators.agent_trajectories.rows import (
    is_known,
    made_of,
    sft_rows,
    tells_its_searches,
    with_shares,
)
from trailforge.protocols import SEARCH_R1
from trailforge.schemas import InvalidInput, Message, SupportingDocument
from trailforge.schemas.agent_episode import AgentCall

CONFIG = AgentFilterConfig()
NO_DOCUMENTS = replace(QUESTION, decomposition=tuple(replace(hop, support_id=None) for hop in QUESTION.decomposition))
"""Nothing says which documents the answer rests on."""
FIRST, SECOND = FOUND
LEAK = ["I think that it is Vienna.", "So it is.", "Yes."]


def reason(row: AgentTrajectory, config: AgentFilterConfig = CONFIG) -> str:
    """The first that rejects it; empty: none."""
    against = first_rejection(judge_episode(row, (), config))
    return against.reason if against else ""


def score(row: AgentTrajectory, name: str) -> float:
    return next(verdict.score for verdict in judge_episode(row, (), CONFIG) if verdict.reason == name)


def test_a_right_episode_whose_searches_bring_all_hops_is_kept() -> None:
    row = row_of()
    assert reason(row) == ""
    assert (score(row, "missing_evidence"), score(row, "no_search"), score(row, "right_by_chance")) == (1.0, 2.0, 1.0)
    assert row.episode.scores.found_at == (0, 1) and row.episode.failures == ()


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (run_of(answer="", stop="too_many_turns"), "unfinished"),
        (run_of(stop="failed"), "unfinished"),
        (run_of(answer="Linz"), "wrong_answer"),
        (run_of([]), "no_search"),
        (run_of([SECOND]), "missing_evidence"),
        (run_of([FIRST, ("born where?", "2")]), "missing_evidence"),
        (run_of(thoughts=LEAK), "answer_leaked"),
        (run_of([FIRST, ("Fritz Lang Vienna", "1")]), "answer_leaked"),
        (run_of(answer="Lang"), "wrong_answer"),
        (run_of([FIRST, ("who directed metropolis", "0"), SECOND]), "repeated_search"),
    ],
)
def test_what_it_lacks_is_its_reason(run: Any, expected: str) -> None:
    assert reason(row_of(run)) == expected


def test_a_conversation_that_would_be_learned_has_to_hold_its_form() -> None:
    *before, last = run_of().messages
    untagged = replace(last, content="<answer>Vienna</answer> I am sure.")
    broken = run_of(messages=(*before, untagged))
    assert reason(row_of(broken)) == "malformed"
    assert reason(row_of(broken, sft_protocol="")) == ""


def test_an_answer_has_to_stand_in_what_was_found_and_in_what_was_given_of_it() -> None:
    unsaid = replace(QUESTION, answer="Graz", answer_aliases=())
    assert reason(row_of(run_of(answer="Graz"), question=unsaid)) == "ungrounded_answer"
    read = run_of()
    forgotten = tuple(
        replace(each, content="<information>\nFritz Lang lived in Berlin.\n</information>") if "Vienna" in each.content
        and each.role == "tool" else each for each in read.messages
    )  # fmt: skip
    shown = f"(Metropolis) … (Fritz Lang) {QUESTION.paragraphs[1].text}"
    beside = (AgentCall(purpose="read", prompt=shown, reply="nothing"),)
    row = row_of(replace(read, messages=forgotten, calls=beside))
    verdict = first_rejection(judge_episode(row, (), CONFIG))
    assert verdict is not None and verdict.reason == "ungrounded_answer"
    assert verdict.detail == "nothing that who answers was given says 'Vienna'"


def test_what_the_question_says_is_no_leak_nor_is_what_was_read_before() -> None:
    asked = replace(QUESTION, question="Was Fritz Lang, the director of Metropolis, born in Vienna or in Linz?")
    assert reason(row_of(run_of(thoughts=LEAK, question=asked), question=asked)) == ""
    late = run_of(thoughts=["Who was it?", "It was Fritz Lang.", "It is Vienna."])
    assert reason(row_of(late)) == ""


GUESS = run_of(thoughts=["It must be Fritz Lang."])
ASKED_FOR = run_of([("Where was Fritz Lang born?", "1"), FIRST])
UNCHECKED = run_of([("Where was Fritz Lang born?", "1")], question=NO_DOCUMENTS)


@pytest.mark.parametrize(
    ("run", "question", "allowed"),
    [
        (run_of(), QUESTION, {"read_first", "checked", "any"}),
        (GUESS, QUESTION, {"checked", "any"}),
        (ASKED_FOR, QUESTION, {"checked", "any"}),
        (GUESS, NO_DOCUMENTS, {"checked", "any"}),
        (ASKED_FOR, NO_DOCUMENTS, {"checked", "any"}),
        (UNCHECKED, NO_DOCUMENTS, {"any"}),
        (run_of(thoughts=LEAK), QUESTION, set()),
    ],
)
def test_a_bridge_may_be_guessed_where_a_search_bears_it_out_and_the_answer_never(
    run: Any, question: Any, allowed: set[Any]
) -> None:
    rules: tuple[Any, ...] = ("read_first", "checked", "any")
    found = {rule: reason(row_of(run, question=question), AgentFilterConfig(bridges=rule)) for rule in rules}
    assert found == {rule: "" if rule in allowed else "answer_leaked" for rule in rules}


def test_a_guess_that_no_text_bears_out_is_no_check_though_its_document_came() -> None:
    silent = replace(QUESTION.paragraphs[0], text="Metropolis was shown in 1927.")
    lived = replace(QUESTION.paragraphs[1], title="Lang", text="He was born in Vienna.")
    asked = replace(QUESTION, paragraphs=(silent, lived))
    row = row_of(run_of(thoughts=["It must be Fritz Lang."], question=asked), question=asked)
    assert row.episode.scores.found_at == (0, 1) and reason(row) == "answer_leaked"


def test_the_turn_that_answers_leaks_nothing() -> None:
    row = row_of(run_of(thoughts=["Hm.", "Well.", "It is Vienna, of course, also called Wien."]))
    assert score(row, "answer_leaked") == 0.0 and reason(row) == ""


@pytest.mark.parametrize(
    "thought",
    [
        "The page the question was made from may be about Lang.",
        "It is not in the search index.",
        "The collection does not seem to hold the date.",
        "This corpus has little on it.",
        "The gold answer is likely a city.",
        "The annotators meant the film.",
    ],
)
def test_talk_of_the_data_set_is_not_learned(thought: str) -> None:
    assert reason(row_of(run_of(thoughts=["Hm.", thought]))) == "speaks_of_data_set"


@pytest.mark.parametrize(
    "thought",
    ["He won the gold medal.", "The Golden Fleece is meant.", "The page found is on the film.", "Habeas corpus it is.",
     "It hangs in the collection of the Louvre.", "What does the question want? One city.", "The price index rose."],
)  # fmt: skip
def test_talk_of_the_world_is_no_talk_of_the_data_set(thought: str) -> None:
    assert reason(row_of(run_of(thoughts=["Hm.", thought]))) == ""


def test_words_that_were_read_are_no_talk_of_the_data_set() -> None:
    asked = replace(QUESTION, question=f"Of the corpus on film: {QUESTION.question}")
    row = row_of(run_of(thoughts=["What is in the corpus?"], question=asked), question=asked)
    assert reason(row) == ""


@pytest.mark.parametrize(
    ("golds", "answer", "expected"),
    [
        (("Pirates", "Mets", "Orioles"), "the Pirates, later the Mets and the Orioles", "ambiguous_answer"),
        (("Pirates", "Mets", "Orioles"), "the Pirates and the Cubs", "wrong_answer"),
        (("SR Serbia",), "Serbia", "near_miss"),
        (("Serbia",), "SR Croatia", "wrong_answer"),
        (("Richland County",), "Wake County", "wrong_answer"),
        (("April 21, 1649",), "1649", "near_miss"),
    ],
)
def test_a_wrong_answer_that_is_nearly_right_has_a_reason_of_its_own(
    golds: tuple[str, ...], answer: str, expected: str
) -> None:
    asked = replace(QUESTION, answer=golds[0], answer_aliases=golds[1:])
    assert reason(row_of(run_of(answer=answer, question=asked), question=asked)) == expected


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_yes_and_no_need_no_text_that_says_them(answer: str) -> None:
    asked = replace(QUESTION, answer=answer, answer_aliases=())
    assert reason(row_of(run_of(answer=answer), question=asked)) == ""


def test_without_known_documents_the_answers_of_the_hops_are_looked_for() -> None:
    assert row_of(question=NO_DOCUMENTS).episode.scores.found_at == ()
    assert reason(row_of(question=NO_DOCUMENTS)) == ""
    unrelated = replace(NO_DOCUMENTS, decomposition=(replace(NO_DOCUMENTS.decomposition[0], answer="Murnau"),) * 2)
    row = row_of(question=unrelated)
    assert reason(row) == "missing_evidence" and score(row, "missing_evidence") == 0.0
    assert score(row_of(question=replace(NO_DOCUMENTS, decomposition=())), "missing_evidence") == 1.0


def test_one_right_draw_of_eight_may_be_chance_and_two_are_not() -> None:
    wrong = [row_of(run_of(answer="Linz"), sample=n) for n in range(1, 8)]
    one = with_shares([row_of(), *wrong])[0]
    two = with_shares([row_of(), row_of(sample=9), *wrong[1:]])[0]
    assert (one.right_draws, one.draws, reason(one), score(one, "right_by_chance")) == (1, 8, "right_by_chance", 0.125)
    assert (two.right_draws, reason(two)) == (2, "")


@pytest.mark.parametrize(("draws", "right", "kept"), [(4, 1, False), (4, 2, True), (2, 1, False), (1, 1, True)])
def test_one_right_draw_of_several_is_too_few_whatever_the_share(draws: int, right: int, kept: bool) -> None:
    row = replace(row_of(), draws=draws, right_draws=right)
    assert reason(row) == ("" if kept else "right_by_chance")
    assert reason(row, AgentFilterConfig(min_right_share=0.0)) == ""


def test_what_the_model_knows_without_a_search_teaches_no_search() -> None:
    told = {"memory_draws": 4, "memory_answers": ("Linz", "It is Vienna, I think", "Graz", "Graz")}
    row = row_of(**told)
    assert reason(row) == "known_from_memory" and score(row, "known_from_memory") == 0.25
    assert reason(row, AgentFilterConfig(max_known_share=0.25)) == ""
    assert reason(row_of(memory_draws=4, memory_answers=("Linz",) * 4)) == ""


@pytest.mark.parametrize(
    ("question", "gold"), [(QUESTION.question, "no"), ("Is Metropolis of Berlin or of Vienna?", "Vienna")]
)
def test_of_two_answers_half_of_all_guesses_are_right(question: str, gold: str) -> None:
    asked = replace(QUESTION, question=question, answer=gold, answer_aliases=(), decomposition=())
    row = row_of(run_of(answer=gold, question=asked), question=asked)
    told = [replace(row, memory_draws=4, memory_answers=(gold,) * n + ("Linz",) * (4 - n)) for n in range(5)]
    assert [score(each, "known_from_memory") for each in told] == [0.0, 0.0, 0.0, 0.5, 1.0]
    drawn = [replace(row, draws=8, right_draws=n) for n in range(1, 9)]
    assert [reason(each) for each in drawn] == ["right_by_chance"] * 4 + [""] * 4


def test_nobody_knows_when_all_answers_from_memory_were_cut() -> None:
    assert reason(row_of(memory_draws=4)) == "known_from_memory"


def test_a_conversation_longer_than_trainers_take_is_left_out() -> None:
    row = row_of()
    assert reason(row, AgentFilterConfig(max_tokens=row.token_estimate)) == ""
    assert reason(row, AgentFilterConfig(max_tokens=row.token_estimate - 1)) == "too_long"


def test_the_cap_comes_last_and_takes_the_shortest_way() -> None:
    rows = [
        row_of(run_of([FIRST, ("What is M?", "2"), SECOND]), sample=0),
        row_of(run_of(answer="Linz"), sample=1),
        row_of(sample=2),
        row_of(run_of(thoughts=["Hm.", "Aha, so it is.", "Good, I know."]), sample=3),
        row_of(run_of([("Metropolis director", "0"), SECOND]), sample=4),
    ]
    taken, rejected = select(with_shares(rows), replace(CONFIG, most=2))
    assert [row.sample for row in taken] == [4, 2]
    assert [(row.sample, verdict.reason) for row, verdict in rejected] == [
        (0, SURPLUS), (1, "wrong_answer"), (3, "duplicate_episode"),
    ]  # fmt: skip
    assert all({each.name for each in row.filters} >= {"wrong_answer", "right_by_chance"} for row in taken)
    assert next(each.name for each in rejected[1][0].filters if not each.passed) == "wrong_answer"


RUNS = st.sampled_from(
    [run_of(), run_of(answer="Linz"), run_of([]), run_of([SECOND]), run_of(thoughts=LEAK), run_of(answer="Wien"),
     run_of([FIRST, ("What is M?", "2"), SECOND]), run_of(answer="", stop="too_long")]
)  # fmt: skip


@given(runs=st.lists(RUNS, max_size=8), most=st.integers(1, 3), share=st.sampled_from([0.0, 0.25, 1.0]))
def test_every_draw_is_taken_or_rejected_once_and_a_taken_one_by_no_filter(
    runs: list[Any], most: int, share: float
) -> None:
    rows = with_shares([row_of(run, sample=n) for n, run in enumerate(runs)])
    config = AgentFilterConfig(most=most, min_right_share=share)
    taken, rejected = select(rows, config)
    assert sorted(row.sample for row in (*taken, *(row for row, _ in rejected))) == list(range(len(runs)))
    assert len(taken) <= most and len({row.uid for row in rows}) == len(rows)
    assert all(first_rejection(judge_episode(row, (), config)) is None for row in taken)
    assert all(not verdict.keep for _, verdict in rejected)
    assert all(row.right_draws / row.draws >= share for row in taken)
    assert not share or all(row.right_draws > 1 or row.draws == 1 for row in taken)
    assert len(taken) == most or SURPLUS not in {verdict.reason for _, verdict in rejected}
    again = select([replace(row, filters=()) for row in rows], config)
    assert again == (taken, rejected)


@given(runs=st.lists(RUNS, min_size=1, max_size=8), most=st.integers(0, 3))
def test_a_pair_is_right_against_wrong_after_one_prompt(runs: list[Any], most: int) -> None:
    rows = with_shares([row_of(run, sample=n) for n, run in enumerate(runs)])
    taken, rejected = select(rows, AgentFilterConfig(min_right_share=0.0))
    pairs = preference_pairs(taken, rejected, most)
    by_uid = {row.uid: row for row in rows}
    assert len(pairs) <= most and len({pair.bad_messages for pair in pairs}) == len(pairs)
    for pair in pairs:
        good, bad, at = by_uid[pair.good_uid], by_uid[pair.bad_uid], pair.diverges_at
        assert good.episode.scores.right == 1.0 and bad.episode.scores.right == 0.0 and bad.episode.answer
        assert pair.good_messages[:at] == pair.bad_messages[:at]
        assert pair.good_messages[at] != pair.bad_messages[at]
        assert pair.good_messages[at].train and pair.bad_messages[at].train
        assert pair.provenance.call_keys == (*good.provenance.call_keys, *bad.provenance.call_keys)


def test_no_pair_rests_on_the_form_of_a_name_or_on_what_two_were_sent() -> None:
    good = row_of()
    near = row_of(run_of(answer="Vienna in 1890 or so, at a guess"), sample=1)
    assert near.episode.scores.right == 1.0 or not is_plainly_wrong(near)
    assert not is_plainly_wrong(row_of(run_of(answer="New Vienna")))
    assert not is_plainly_wrong(row_of(run_of(answer="", stop="too_long")))
    bad = row_of(run_of([("Metropolis?", "0"), SECOND], "Linz"), sample=2)
    assert is_plainly_wrong(bad) and parting(good, bad) == 2
    sent = [Message(role="user", content="other documents", train=False), *bad.episode.messages[1:]]
    assert parting(good, replace(bad, episode=replace(bad.episode, messages=tuple(sent)))) is None
    assert parting(good, good) is None


def test_an_answer_from_memory_is_known_with_words_around_it() -> None:
    assert is_known("I believe it is Vienna.", ("Vienna",)) and not is_known("Linz", ("Vienna",))


def test_an_sft_row_is_the_conversation_and_its_loss_is_on_the_agents_turns() -> None:
    row = row_of()
    (made,) = sft_rows(row, data_source="d")
    assert SEARCH_R1.validate(row.episode.messages, strict=True) == []
    assert [m.content for m in made.messages] == [m.content for m in row.episode.messages]
    assert made.train == tuple(m.role == "assistant" for m in made.messages) and sum(made.train) == 3
    assert (made.protocol, made.reward.total, made.num_tool_calls, made.num_hops) == (SEARCH_R1.name, 1.0, 2, 2)
    assert made.provenance == row.provenance and made.answer_aliases == ("Wien",)
    assert sft_rows(row_of(sft_protocol=""), data_source="d") == []


def test_a_row_that_tells_other_searches_than_its_conversation_is_seen() -> None:
    row = row_of()
    assert tells_its_searches(row)
    episode = row.episode
    for changed in (
        replace(episode, searches=episode.searches[:1]),
        replace(episode, answer="Linz"),
        replace(episode, messages=(*episode.messages[:-1], Message(role="assistant", content="Vienna", train=True))),
        replace(episode, question="Who?"),
    ):
        assert not tells_its_searches(replace(row, episode=changed))


def test_what_follows_from_question_and_transcript_is_made_again() -> None:
    row = row_of()
    assert all(getattr(row, name) == value for name, value in made_of(row, QUESTION).items())
    titled = replace(QUESTION, supporting=(SupportingDocument(title="M"),), decomposition=())
    other = made_of(row, titled)
    assert other["episode"].scores.found_at == (None,) and other["gold_hops"] == ()
    assert len({row_of(sample=n).uid for n in range(5)}) == 5


@pytest.mark.parametrize("field", [{"most": 0}, {"min_right_share": 1.5}, {"max_known_share": -0.1}])
def test_numbers_that_make_no_sense_are_refused_by_name(field: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        AgentFilterConfig(**field)
    assert caught.value.field == next(iter(field))
