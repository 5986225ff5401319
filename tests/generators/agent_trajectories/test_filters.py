"""Each reason to reject an agent's episode, with the least that sets it off; the choice among the rest; pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.generators.agent_trajectories.made_rows import FOUND, QUESTION, row_of, run_of
from trailforge.evaluation.agents.search_o1 import SEARCHED_BEFORE
from trailforge.filters import first_rejection
from trailforge.generators.agent_trajectories.choice import (
    SAME_ROUTE,
    choose_rows,
    is_plainly_wrong,
    parting,
    preference_pairs,
    unread_rows,
)
from trailforge.generators.agent_trajectories.evidence import facts_to_read, find_hops, find_unread
from trailforge.generators.agent_trajectories.filters import (
    AgentFilterConfig,
    judge_episode,
    right_by_chance,
    unstated_answer,
)
from trailforge.generators.agent_trajectories.rows import (
    derive_fields,
    searches_match,
    sft_rows,
    used_calls,
    weigh_known,
    with_shares,
)
from trailforge.generators.agent_trajectories.work import wrong_sft
from trailforge.protocols import SEARCH_R1
from trailforge.schemas import Document, FactReading, InvalidInput, Message, SupportingDocument, Verdict
from trailforge.schemas.agent_episode import AgentCall, AgentTrajectory

CONFIG = AgentFilterConfig()
NO_DOCUMENTS = replace(QUESTION, decomposition=tuple(replace(hop, support_id=None) for hop in QUESTION.decomposition))
"""Nothing says which documents the answer rests on."""
FIRST, SECOND = FOUND
LEAK = ["I think that it is Vienna.", "So it is.", "Yes."]


def reason(row: AgentTrajectory, config: AgentFilterConfig = CONFIG) -> str:
    """The first that rejects it; empty: none."""
    against = first_rejection(judge_episode(row, config))
    return against.reason if against else ""


def score(row: AgentTrajectory, name: str) -> float:
    return next(verdict.score for verdict in judge_episode(row, CONFIG) if verdict.reason == name)


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
        (run_of([SECOND]), "unread_query"),
        (run_of([("In which city was its director born?", "1")]), "missing_evidence"),
        (run_of([FIRST, ("born where?", "2")]), "missing_evidence"),
        (run_of(thoughts=LEAK), "answer_before_read"),
        (run_of([FIRST, ("Fritz Lang Vienna", "1")]), "unread_query"),
        (run_of([FIRST, ("fritz lang vienna", "1")]), "unread_query"),
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
    assert reason(row_of(broken)) == "malformed_conversation"
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
    verdict = first_rejection(judge_episode(row, CONFIG))
    assert verdict is not None and verdict.reason == "ungrounded_answer"
    assert verdict.detail == "nothing that who answers was given says 'Vienna'"


def test_what_the_question_says_is_no_leak_nor_is_what_was_read_before() -> None:
    asked = replace(QUESTION, question="Was Fritz Lang, the director of Metropolis, born in Vienna or in Linz?")
    assert reason(row_of(run_of(thoughts=LEAK, question=asked), question=asked)) == ""
    late = run_of(thoughts=["Who was it?", "It was Fritz Lang.", "It is Vienna."])
    assert reason(row_of(late)) == ""


GUESS = run_of(thoughts=["It must be Fritz Lang."])
ASKED_FOR = run_of([("Where was Fritz Lang born?", "1"), FIRST])
UNCHECKED = run_of(FOUND[1:], question=NO_DOCUMENTS, thoughts=["Who directed Metropolis, was born where?"])


@pytest.mark.parametrize(
    ("run", "question", "allowed"),
    [
        (run_of(), QUESTION, {"read_first", "checked", "any"}),
        (GUESS, QUESTION, {"checked", "any"}),
        (GUESS, NO_DOCUMENTS, {"checked", "any"}),
        (UNCHECKED, NO_DOCUMENTS, {"any"}),
        (run_of(thoughts=LEAK), QUESTION, set()),
    ],
)
def test_a_bridge_may_be_guessed_where_a_search_bears_it_out_and_the_answer_never(
    run: Any, question: Any, allowed: set[Any]
) -> None:
    rules: tuple[Any, ...] = ("read_first", "checked", "any")
    row = row_of(run, question=question)
    assert {rule for rule in rules if not reason(row, AgentFilterConfig(bridges=rule))} == allowed


@pytest.mark.parametrize("run", [ASKED_FOR, run_of([("Where was Fritz Lang born?", "0 1")])])
def test_a_bridge_from_memory_in_a_query_is_one_fault_however_it_is_borne_out(run: Any) -> None:
    """By a later search or by the same one."""
    rules: tuple[Any, ...] = ("read_first", "checked", "any")
    assert [reason(row_of(run), AgentFilterConfig(bridges=rule)) for rule in rules] == ["unread_query"] * 2 + [""]


@pytest.mark.parametrize(
    ("query", "is_unread"),
    [
        ("Metropolis 1927 director", True),
        ("Metropolis by Thea von Harbou", True),
        ("fritz lang birthplace", True),
        ("which city was the director of metropolis born in", False),
        ("METROPOLIS (film) director, born where?", False),
    ],
)
def test_a_query_may_name_what_the_question_names(query: str, is_unread: bool) -> None:
    row = row_of(run_of([(query, "0"), SECOND]))
    assert (reason(row) == "unread_query") == is_unread == bool(find_unread(row))


def test_a_query_may_name_what_was_read_before_it() -> None:
    dated = replace(QUESTION.paragraphs[0], text="Fritz Lang directed it in 1927.")
    told = replace(QUESTION, paragraphs=(dated, *QUESTION.paragraphs[1:]))
    row = row_of(run_of([FIRST, ("Fritz Lang 1927 Metropolis", "1")], question=told), question=told)
    assert find_unread(row) == [] and reason(row) == ""
    assert find_unread(row_of(run_of([("Fritz Lang 1927 Metropolis", "0"), SECOND], question=told), question=told))


def test_a_query_that_an_earlier_turn_only_thought_of_is_asked_where_it_is_asked() -> None:
    thoughts = ["I remember Fritz Lang, but I am not sure.", "Lang it is."]
    row = row_of(run_of([FIRST, ("Fritz Lang", "1")], thoughts=thoughts))
    assert find_unread(row) == [] and reason(row) == ""


def test_a_namesake_that_an_earlier_search_brought_is_not_the_hops_document() -> None:
    """Told by the text that was read until then, where the corpus has ids of its own."""
    namesake = Document(id="9", title="Fritz Lang", text="Fritz Lang, the boxer.")
    born = QUESTION.paragraphs[1]
    asked = replace(QUESTION, paragraphs=(*QUESTION.paragraphs, namesake))
    corpus = (QUESTION.paragraphs[0], replace(namesake, id="w9"), replace(born, id="w1"))
    found = run_of(
        [("Who directed Metropolis?", "0 w9"), ("Fritz Lang born", "w9 w1")], question=replace(asked, paragraphs=corpus)
    )
    assert row_of(found, question=asked).episode.scores.found_at == (0, 1)


def test_another_passage_that_says_a_hops_answer_bears_it_out() -> None:
    """Its own document did not come; and a passage about something else that says the answer is none."""
    other = replace(QUESTION.paragraphs[2], title="Silent films", text="Fritz Lang, young yet, directed Metropolis.")
    asked = replace(QUESTION, paragraphs=(*QUESTION.paragraphs[:2], other))
    row = row_of(run_of([("Who directed Metropolis?", "2"), SECOND], question=asked), question=asked)
    assert row.episode.scores.found_at == (None, 1) and find_hops(row) == (0, 1) and reason(row) == ""
    aside = replace(other, text="Fritz Lang had a cat.")
    unsaid = replace(QUESTION, paragraphs=(*QUESTION.paragraphs[:2], aside))
    row = row_of(run_of([("Who directed Metropolis?", "2"), SECOND], question=unsaid), question=unsaid)
    assert find_hops(row) == (None, 1) and reason(row) == "missing_evidence"


def test_a_guess_that_no_text_bears_out_is_no_check_though_its_document_came() -> None:
    silent = replace(QUESTION.paragraphs[0], text="Metropolis was shown in 1927.")
    lived = replace(QUESTION.paragraphs[1], title="Lang", text="He was born in Vienna.")
    asked = replace(QUESTION, paragraphs=(silent, lived))
    searches = [FIRST, ("In which city was its director born?", "1")]
    row = row_of(run_of(searches, thoughts=["It must be Fritz Lang."], question=asked), question=asked)
    assert row.episode.scores.found_at == (0, 1) and reason(row) == "answer_before_read"


def test_the_turn_that_answers_leaks_nothing() -> None:
    row = row_of(run_of(thoughts=["Hm.", "Well.", "It is Vienna, of course, also called Wien."]))
    assert score(row, "answer_before_read") == 0.0 and reason(row) == ""


@pytest.mark.parametrize(
    "thought",
    [
        "The page the question was made from may be about Lang.",
        "It is not in the search index.",
        "The collection does not seem to hold the date.",
        "This corpus has little on it.",
        "The gold answer is likely a city.",
        "The annotators meant the film.",
        "This is a two-hop question.",
        "The instructions say to look it up.",
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


ALONE = replace(row_of(), draws=8, right_draws=1)
WHOLE = QUESTION.question


def test_a_reading_of_the_whole_question_that_agrees_is_a_second_right_draw() -> None:
    assert [fact.question for fact in facts_to_read(ALONE)][-1] == WHOLE
    assert WHOLE not in [fact.question for fact in facts_to_read(replace(ALONE, right_draws=2))]
    told = [replace(ALONE, readings=(FactReading(question=WHOLE, answer=each),)) for each in ("Vienna", "Linz", "")]
    chance = [next(v for v in judge_episode(each, CONFIG) if v.reason == "right_by_chance") for each in told]
    assert [(each.keep, each.score) for each in chance] == [(True, 0.25), (False, 0.125), (False, 0.125)]
    assert not right_by_chance(replace(told[0], draws=9), least=0.25).keep, "two of nine are too few"


def test_what_is_right_alone_or_by_another_road_is_read_once_more() -> None:
    """Both at once, too; nothing against which something else speaks."""
    lost = replace(row_of(run_of([(WHOLE, "1")])), draws=2, right_draws=1)
    wrong = replace(row_of(run_of(answer="Linz")), draws=2, right_draws=1)
    for row, is_read in ((ALONE, True), (lost, True), (wrong, False)):
        kept, rejected = choose_rows([row], CONFIG)
        assert kept == [] and unread_rows(kept, rejected) == ([rejected[0][0]] if is_read else [])
    agreed = replace(lost, readings=(FactReading(question=WHOLE, answer="Vienna; Linz"),))
    assert [v.reason for v in judge_episode(agreed, CONFIG) if not v.keep] == ["other_answers"]
    closed = replace(agreed.episode, messages=(*agreed.episode.messages[:-1], saying_last("Linz is not where.")))
    assert "other_answers" not in [
        v.reason for v in judge_episode(replace(agreed, episode=closed), CONFIG) if not v.keep
    ]


def saying_last(thought: str) -> Message:
    return Message(role="assistant", content=f"<think>{thought}</think>\n<answer>Vienna</answer>", train=True)


@pytest.mark.parametrize(("draws", "right", "kept"), [(4, 1, False), (4, 2, True), (2, 1, False), (1, 1, True)])
def test_one_right_draw_of_several_is_too_few_whatever_the_share(draws: int, right: int, kept: bool) -> None:
    row = replace(row_of(), draws=draws, right_draws=right)
    assert reason(row) == ("" if kept else "right_by_chance")
    assert reason(row, AgentFilterConfig(min_right_share=0.0)) == ""


def test_what_the_model_knows_without_a_search_teaches_no_search() -> None:
    told = {"memory_draws": 4, "memory_answers": ("Linz", "It is Vienna, I think", "Wien", "Graz")}
    row = row_of(**told)
    assert reason(row) == "known_from_memory" and score(row, "known_from_memory") == 0.5
    assert reason(row, AgentFilterConfig(max_known_share=0.5)) == ""
    assert reason(row_of(memory_draws=4, memory_answers=("Linz",) * 4)) == ""


def test_one_answer_from_memory_of_four_may_be_a_lucky_guess() -> None:
    row = row_of(memory_draws=4, memory_answers=("Linz", "Vienna", "Graz", "Graz"))
    assert reason(row) == "" and score(row, "known_from_memory") == 0.25
    assert reason(row, AgentFilterConfig(max_known_share=0.0)) == "known_from_memory"


@pytest.mark.parametrize(
    ("gold", "answer", "known"),
    [
        ("Vienna", "I believe it is Vienna.", 1.0),
        ("Vienna", "Linz", 0.0),
        ("Saginaw, Michigan", "Saginaw", 1.0),
        ("Vienna, Virginia", "Vienna", 1.0),
        ("Los Angeles, California", "Los Angeles, USA", 1.0),
        ("Bolko II of Opole", "Bolko II, Duke of Opole", 1.0),
        ("Bolko II of Opole", "Bolko I, Duke of Opole", 0.0),
        ("April 22, 1875", "22 April 1875", 1.0),
        ("April 22, 1875", "1875", 0.5),
        ("April 22, 1875", "around 1875", 0.5),
        ("April 22, 1875", "April 22, 1876", 0.0),
        ("Saginaw, Michigan", "Michigan", 0.5),
        ("Saginaw, Michigan", "Michigan, USA", 0.5),
        ("Saginaw, Michigan", "Detroit, Michigan", 0.0),
        ("Tumi Holdings, Inc.", "Tumi", 1.0),
        ("George Stevens", "Stevens", 0.5),
        ("Anna Amalia of Baden-Durlach", "Anna Amalie of Baden-Durlach", 0.5),
        ("Gustav Adolph", "Gustav Adolf", 0.5),
        ("Frank Sinatra", "Frank Capra", 0.0),
        ("Boeing 747", "Boeing 737", 0.0),
        ("15,900", "15,000", 0.0),
        ("Vienna", "", 0.0),
    ],
)
def test_how_far_an_answer_from_memory_knows_the_gold_one(gold: str, answer: str, known: float) -> None:
    assert weigh_known(answer, (gold,)) == known


def test_two_half_right_answers_from_memory_count_as_one() -> None:
    asked = replace(QUESTION, answer="April 22, 1875", answer_aliases=())
    row = row_of(run_of(question=asked), question=asked)
    told = [replace(row, memory_draws=4, memory_answers=("1875",) * n + ("1851",) * (4 - n)) for n in range(5)]
    assert [score(each, "known_from_memory") for each in told] == [0.0, 0.125, 0.25, 0.375, 0.5]
    passed = [next(v.keep for v in judge_episode(each, CONFIG) if v.reason == "known_from_memory") for each in told]
    assert passed == [True, True, True, True, False]


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


ELSEWHERE = replace(
    QUESTION,
    paragraphs=(
        *QUESTION.paragraphs,
        replace(QUESTION.paragraphs[0], id="10", title="Films", text="Metropolis was directed by Fritz Lang."),
        replace(QUESTION.paragraphs[1], id="11", title="Austrians", text="Fritz Lang came from Vienna."),
    ),
)
"""With a second passage for each hop."""


def drawn(*runs: Any, question: Any = ELSEWHERE) -> list[AgentTrajectory]:
    return with_shares([row_of(run, sample=n, question=question) for n, run in enumerate(runs)])


def test_of_several_the_best_is_the_one_a_trainer_would_take() -> None:
    """Exact before with more words, each hop by a search of its own, then few words of its own, whatever was read."""
    worded = run_of(answer="Vienna in Austria", question=ELSEWHERE)
    at_once = run_of([("Metropolis director, born where?", "0 1")], question=ELSEWHERE)
    wordy = run_of(thoughts=["I will look up who directed the film at once."], question=ELSEWHERE)
    much_read = run_of([("Who directed Metropolis?", "0 2"), SECOND], question=ELSEWHERE)
    rows = drawn(worded, at_once, wordy, much_read)
    assert [reason(row) for row in rows] == [""] * 4
    assert min(rows, key=lambda row: row.token_estimate).sample == 1
    order = []
    while rows:
        (best,), _ = choose_rows(rows, replace(CONFIG, most=1, min_right_share=0.0))
        order.append(best.sample)
        rows = [row for row in rows if row.sample != best.sample]
    assert order == [3, 2, 1, 0]


def test_where_bridges_may_be_guessed_a_query_that_reads_first_is_still_better() -> None:
    short = run_of([("Fritz Lang born", "0 1")], thoughts=["So.", "So."])
    (best,), _ = choose_rows(drawn(short, run_of(), question=QUESTION), AgentFilterConfig(bridges="any", most=1))
    assert best.sample == 1


def test_a_second_one_goes_another_way_or_is_left() -> None:
    again = run_of([("Metropolis director", "0"), SECOND], question=ELSEWHERE)
    reworded = run_of([("Metropolis director", "0"), ("Fritz Lang birthplace", "1")], question=ELSEWHERE)
    elsewhere = run_of([("Film Metropolis: director?", "10"), ("Lang: born?", "11")], question=ELSEWHERE)
    other_way = run_of([("where was its director born", "10"), ("Lang: born?", "11")], question=ELSEWHERE)
    taken, rejected = choose_rows(drawn(run_of(question=ELSEWHERE), again, reworded, elsewhere, other_way), CONFIG)
    assert [row.sample for row in taken] == [0, 4]
    assert [(row.sample, verdict.reason) for row, verdict in rejected] == [
        (1, SAME_ROUTE), (2, SAME_ROUTE), (3, SAME_ROUTE),
    ]  # fmt: skip


def test_the_one_that_guesses_less_is_the_better_one() -> None:
    """Be it longer."""
    guessing = run_of(thoughts=["I recall that it is Fritz Lang."], question=ELSEWHERE)
    sure = run_of(thoughts=["I do not know it, and so I will look it up at once."], question=ELSEWHERE)
    (best,), rejected = choose_rows(drawn(guessing, sure), CONFIG)
    assert best.sample == 1 and [verdict.reason for _, verdict in rejected] == [SAME_ROUTE]


@pytest.mark.parametrize(
    "thoughts",
    [
        ["Is it Otto Fenn? I look it up.", "I look it up.", "So."],  # a name that nothing has
        ["I look it up.", "I look it up.", "It was in the year of 1890."],
        ["I look it up, as I was asked to do it.", "I look it up.", "I look it up."],
    ],
)
def test_of_twins_the_better_one_is_taken_though_it_was_drawn_later(thoughts: list[str]) -> None:
    twin, better = run_of(thoughts=thoughts, question=ELSEWHERE), run_of(question=ELSEWHERE)
    (best,), rejected = choose_rows(drawn(twin, better), CONFIG)
    assert best.sample == 1 and [verdict.reason for _, verdict in rejected] == [SAME_ROUTE]


def test_a_search_that_rules_out_what_fits_too_is_worth_its_place() -> None:
    """Twins that stop at the first that fits teach to stop there."""
    thoughts = ["I look it up.", "Fritz Lang made it; M may be another Metropolis.", "Was he born there, too?"]
    first = ("Who directed Metropolis?", "0 2")
    terse = run_of([first, FOUND[1]], thoughts=["I look it up.", "Fritz Lang has to be found."])
    closing = run_of([first, ("M?", "2"), FOUND[1]], thoughts=[*thoughts, "M is another film. Fritz Lang: Vienna."])
    (best,), _ = choose_rows(drawn(terse, closing), replace(CONFIG, most=1))
    assert best.sample == 1


def test_of_twins_the_one_that_says_of_each_other_branch_why_it_is_none_is_taken() -> None:
    """Before a needless search and more words; to list them, in however many words, is nothing."""
    films = replace(QUESTION.paragraphs[0], text="The directors of Metropolis are Fritz Lang, Otto Fenn.")
    asked = replace(ELSEWHERE, paragraphs=(films, *ELSEWHERE.paragraphs[1:]))
    listed = "Metropolis has two directors, and they are Fritz Lang and Otto Fenn, as it says there."
    silent = run_of(thoughts=["I look it up.", listed, "It is Fritz Lang, who was born in Vienna."], question=asked)
    closes = [*(["I look it up."] * 3), "Otto Fenn has no place of birth, and so it is Fritz Lang, born in Vienna."]
    closing = run_of([FIRST, SECOND, ("Otto Fenn born", "2")], thoughts=closes, question=asked)
    (best, *_), _ = choose_rows(drawn(silent, closing, question=asked), replace(CONFIG, most=1))
    assert best.sample == 1


def test_the_cap_comes_last() -> None:
    other_way = run_of([("where was its director born", "10"), ("Lang: born?", "11")], question=ELSEWHERE)
    wordy = run_of(
        thoughts=["Hm, let me see now what it may be.", "Aha, so it is.", "Good, I know."], question=ELSEWHERE
    )
    (first,), rejected = choose_rows(
        drawn(wordy, run_of(answer="Linz", question=ELSEWHERE), run_of(question=ELSEWHERE), other_way),
        replace(CONFIG, most=1),
    )
    assert first.sample == 2
    assert [(row.sample, verdict.reason) for row, verdict in rejected] == [
        (0, SAME_ROUTE), (1, "wrong_answer"), (3, "surplus"),
    ]  # fmt: skip
    wrong = rejected[1][0]
    assert all({each.name for each in row.filters} >= {"wrong_answer", "right_by_chance"} for row in (first, wrong))
    assert next(each.name for each in wrong.filters if not each.passed) == "wrong_answer"


def test_a_right_answer_by_an_unread_bridge_is_the_worse_of_a_pair() -> None:
    rows = drawn(run_of(), ASKED_FOR, run_of(thoughts=LEAK), run_of(answer="Linz"), question=QUESTION)
    taken, rejected = choose_rows(rows, CONFIG)
    pairs = preference_pairs(taken, rejected, 3)
    assert [(pair.reason, pair.bad_uid) for pair in pairs] == [
        ("wrong_answer", rows[3].uid), ("unread_query", rows[1].uid),
    ]  # fmt: skip
    assert pairs[1].bad_answer == "Vienna" and pairs[1].good_uid == rows[0].uid
    assert [pair.reason for pair in preference_pairs(taken, rejected, 1)] == ["wrong_answer"]
    assert [pair.parts_at_fault for pair in pairs] == [True, True], "one answers wrongly there, one searches amiss"


def test_a_pair_whose_worse_one_goes_wrong_later_says_so() -> None:
    """Its first turn may be as good a search as the other one's."""
    taken, rejected = choose_rows(drawn(run_of(), run_of(), run_of([("Metropolis?", "0"), SECOND], "Linz")), CONFIG)
    (pair,) = preference_pairs(taken, rejected, 3)
    assert pair.diverges_at == 2 and pair.parts_at_fault is False


def test_a_right_answer_is_the_worse_one_only_where_it_searches_for_what_it_had_not_read() -> None:
    """One that parts before has done nothing wrong there."""
    later = run_of([("Metropolis?", "0"), ("Where was Fritz Lang, son of Anton, born?", "1")])
    rows = drawn(run_of(), run_of(), later, question=QUESTION)
    against = Verdict(keep=False, reason="unread_query", score=1.0, detail="")
    assert not preference_pairs(rows[:1], [(rows[2], against)], 3)


RUNS = st.sampled_from(
    [run_of(), run_of(answer="Linz"), run_of([]), run_of([SECOND]), run_of(thoughts=LEAK), run_of(answer="Wien"),
     run_of([FIRST, ("What is M?", "2"), SECOND]), run_of(answer="", stop="too_long"), ASKED_FOR]
)  # fmt: skip


@given(runs=st.lists(RUNS, max_size=8), most=st.integers(1, 3), share=st.sampled_from([0.0, 0.25, 1.0]))
def test_every_draw_is_taken_or_rejected_once_and_a_taken_one_by_no_filter(
    runs: list[Any], most: int, share: float
) -> None:
    rows = with_shares([row_of(run, sample=n) for n, run in enumerate(runs)])
    config = AgentFilterConfig(most=most, min_right_share=share)
    taken, rejected = choose_rows(rows, config)
    assert sorted(row.sample for row in (*taken, *(row for row, _ in rejected))) == list(range(len(runs)))
    assert len(taken) <= most and len({row.uid for row in rows}) == len(rows)
    assert all(first_rejection(judge_episode(row, config)) is None for row in taken)
    assert all(not verdict.keep for _, verdict in rejected)
    assert all(row.right_draws / row.draws >= share for row in taken)
    assert not share or all(row.right_draws > 1 or row.draws == 1 for row in taken)
    assert len(taken) == most or "surplus" not in {verdict.reason for _, verdict in rejected}
    again = choose_rows([replace(row, filters=()) for row in rows], config)
    assert again == (taken, rejected)


@given(runs=st.lists(RUNS, min_size=1, max_size=8), most=st.integers(0, 3))
def test_a_pair_is_right_against_wrong_after_one_prompt(runs: list[Any], most: int) -> None:
    rows = with_shares([row_of(run, sample=n) for n, run in enumerate(runs)])
    taken, rejected = choose_rows(rows, AgentFilterConfig(min_right_share=0.0))
    pairs = preference_pairs(taken, rejected, most)
    by_uid = {row.uid: row for row in rows}
    assert len(pairs) <= most and len({pair.bad_messages for pair in pairs}) == len(pairs)
    for pair in pairs:
        good, bad, at = by_uid[pair.good_uid], by_uid[pair.bad_uid], pair.diverges_at
        assert good.episode.scores.right == 1.0 and bad.episode.answer
        assert bad.episode.scores.right == 0.0 or pair.reason == "unread_query"
        assert pair.good_messages[:at] == pair.bad_messages[:at]
        assert pair.good_messages[at] != pair.bad_messages[at]
        assert pair.good_messages[at].train and pair.bad_messages[at].train
        assert pair.provenance is not None
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


def test_an_sft_row_is_the_conversation_and_its_loss_is_on_the_agents_turns() -> None:
    row = row_of()
    (made,) = sft_rows(row, data_source="d")
    assert SEARCH_R1.validate(row.episode.messages, strict=True) == []
    assert [m.content for m in made.messages] == [m.content for m in row.episode.messages]
    assert made.train == tuple(m.role == "assistant" for m in made.messages) and sum(made.train) == 3
    assert (made.protocol, made.reward.total, made.num_tool_calls, made.num_hops) == (SEARCH_R1.name, 1.0, 2, 2)
    assert made.provenance == row.provenance and made.answer_aliases == ("Wien",)
    assert sft_rows(row_of(sft_protocol=""), data_source="d") == []


def test_calls_that_were_cut_or_not_read_are_not_learned() -> None:
    calls = (
        AgentCall(purpose="search_o1_read", prompt="p1", reply="**Final Information**\n\nVienna."),
        AgentCall(purpose="search_o1_read", prompt="p2", reply="I found nothing to say."),
        AgentCall(purpose="graph_search_decompose", prompt="p3", reply="?"),
        AgentCall(purpose="graph_search_decompose_again", prompt="p4", reply="{}"),
        AgentCall(purpose="graph_search_decompose_triples", prompt="p5", reply="?"),
        AgentCall(purpose="graph_search_decompose_triples_lost", prompt="p6", reply="?"),
        AgentCall(purpose="graph_search_summarise", prompt="p7", reply="A summary", is_cut=True),
        AgentCall(purpose="graph_search_summarise", prompt="p8", reply=" "),
        AgentCall(purpose="graph_search_summarise", prompt="p9", reply="A summary."),
    )
    assert [call.prompt for call in used_calls(calls)] == ["p1", "p4", "p9"]


def test_an_episode_that_was_told_off_is_not_learned() -> None:
    row = replace(row_of(sft_protocol=""), sft_calls=True)
    assert len(sft_rows(row, data_source="d")) == 1
    said = Message(role="tool", content=f"<r>{SEARCHED_BEFORE}</r>", train=False)
    messages = (*row.episode.messages[:-1], said, row.episode.messages[-1])
    assert sft_rows(replace(row, episode=replace(row.episode, messages=messages)), data_source="d") == []


def test_a_row_that_is_right_by_a_title_says_so_and_not_that_a_judge_found_it() -> None:
    """Its reward, which compares words, is low."""
    told = Document(id="1", title="Anna Amalie", text="Anna Amalia (born 1739) was born in Wolfenbüttel.")
    asked = replace(QUESTION, answer="Anna Amalia", answer_aliases=(), paragraphs=(QUESTION.paragraphs[0], told))
    row = row_of(run_of(answer="Anna Amalie", question=asked), question=asked)
    (made,) = sft_rows(row, data_source="d")
    assert (row.episode.scores.right, made.right_by, made.reward.total) == (1.0, "title", 0.0)


def test_a_row_that_tells_other_searches_than_its_conversation_is_seen() -> None:
    row = row_of()
    assert searches_match(row)
    episode = row.episode
    for changed in (
        replace(episode, searches=episode.searches[:1]),
        replace(episode, answer="Linz"),
        replace(episode, messages=(*episode.messages[:-1], Message(role="assistant", content="Vienna", train=True))),
        replace(episode, question="Who?"),
    ):
        assert not searches_match(replace(row, episode=changed))


def test_what_follows_from_question_and_transcript_is_made_again() -> None:
    row = row_of()
    assert all(getattr(row, name) == value for name, value in derive_fields(row, QUESTION).items())
    titled = replace(QUESTION, supporting=(SupportingDocument(title="M"),), decomposition=())
    other = derive_fields(row, titled)
    assert other["episode"].scores.found_at == (None,) and other["gold_hops"] == ()
    assert len({row_of(sample=n).uid for n in range(5)}) == 5


@pytest.mark.parametrize("field", [{"most": 0}, {"min_right_share": 1.5}, {"max_known_share": -0.1}])
def test_numbers_that_make_no_sense_are_refused_by_name(field: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        AgentFilterConfig(**field)
    assert caught.value.field == next(iter(field))


def paired(*runs: Any) -> list[tuple[str, str]]:
    """The answers of the better and the worse one of each pair of all draws on a question."""
    taken, rejected = choose_rows(drawn(*runs, question=QUESTION), CONFIG)
    pairs = preference_pairs(taken, rejected, 9)
    return sorted((SEARCH_R1.answer_of(pair.good_messages), pair.bad_answer) for pair in pairs)


def test_unknown_is_the_better_answer_where_nothing_that_was_read_states_one() -> None:
    """And the worse one only where it was read: an agent that owns up to a poor search is not told to guess."""
    unread = [run_of([FIRST], answer=answer) for answer in ("unknown", "Graz", "Linz")]
    read = [run_of(answer=answer) for answer in ("unknown", "Graz")]
    assert paired(*unread) == [("unknown", "Graz"), ("unknown", "Linz")]
    assert paired(*read) == [], "none of both is right, and the answer was there"
    assert paired(unread[0], read[1]) == [], "what they had read when they parted differs"
    assert paired(run_of(), run_of(), *read) == [("Vienna", "Graz"), ("Vienna", "unknown")]
    assert paired(run_of(), run_of(), unread[0]) == []


def test_no_pair_prefers_what_the_reward_ranks_lower() -> None:
    """Exact match pays the short form of two right answers; the worse one has asked for what it had not read."""
    unread = ASKED_FOR
    assert paired(run_of(), run_of(), unread) == [("Vienna", "Vienna")]
    longer = run_of(answer="in Vienna")
    assert paired(longer, longer, unread) == []


@pytest.mark.parametrize(
    ("run", "teaches"),
    [
        (run_of(answer="Linz"), True),
        (run_of(), False),
        (run_of(answer="Lang"), True),
        (run_of([FIRST], answer="Linz"), False),
        (run_of([FIRST, ("who directed metropolis", "0"), SECOND], answer="Linz"), False),
        (run_of(answer="Linz", thoughts=["This question was made from a corpus."]), False),
    ],
)
def test_a_wrong_answer_alone_keeps_no_episode_from_teaching_its_searches(run: Any, teaches: bool) -> None:
    chosen = choose_rows([row_of(run)], CONFIG)
    (row,) = chosen.kept or [row for row, _ in chosen.rejected]
    made = wrong_sft(row)
    assert bool(made) == teaches
    for learnt in made:
        assert learnt.is_wrong and learnt.right_by is None
        spoken = zip(learnt.messages, learnt.train, strict=True)
        turns = [train for message, train in spoken if message.role == "assistant"]
        assert turns == [*[True] * (len(turns) - 1), False]


def test_no_row_in_no_protocol_teaches_searches_alone() -> None:
    (row,) = [row for row, _ in choose_rows([row_of(run_of(answer="Linz"), sft_protocol="")], CONFIG).rejected]
    assert not wrong_sft(row)


@pytest.mark.parametrize(
    ("told", "keeps"),
    [
        ("The director Fritz Lang, also known as Odo Marn or Ilva Tesk, is a person.", True),
        ("[00012] Fritz Lang (also known as Odo Marn), part 2: He liked tea.", True),
        ("Fritz Lang is a person.", False),
        ("Fritz Langer, also known as Odo Marn, is a person. Fritz Lang is another.", False),
        ("Erich Pommer, also known as Odo Marn, is a person whom Fritz Lang knew.", False),
    ],
)
def test_a_reading_may_give_any_name_that_a_page_gives(told: str, keeps: bool) -> None:
    """Of what stands on the way: the page of a film may call its director by another name than the question's facts."""
    film, director, other = QUESTION.paragraphs
    texts = ("It is a work of Odo Marn.", f"{told} He was born in Vienna.")
    paragraphs = (replace(film, text=texts[0]), replace(director, text=texts[1]), other)
    question = replace(QUESTION, paragraphs=paragraphs)
    row = row_of(run_of(question=question), question=question)
    assert next(fact.question for fact in facts_to_read(row)) == "Who directed Metropolis?"
    read = replace(row, readings=(FactReading(question="Who directed Metropolis?", answer="Odo Marn"),))
    assert unstated_answer(read).keep == keeps
