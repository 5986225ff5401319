"""Episodes that a strong model's replies made, each with a strict reader's verdict (`tests/recorded/README.md`).

The filters' verdict has to be the reader's. Where it rests on a reading, which was not made then, the reading is played
as an honest model would give it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.recorded_episodes import FILE, RECORDED, recorded_question
from trailforge.filters.base import first_rejection
from trailforge.filters.kg import episodes as kg_filters
from trailforge.filters.kg.episodes import KgEpisodeFilterConfig, judge_kg_episode
from trailforge.generators.agent_trajectories import evidence
from trailforge.generators.agent_trajectories.choice import choose_rows, unread_rows
from trailforge.generators.agent_trajectories.filters import AgentFilterConfig, judge_episode, known_from_memory
from trailforge.generators.agent_trajectories.rows import derive_fields as agent_fields
from trailforge.generators.agent_trajectories.rows import with_shares
from trailforge.generators.answer_reading import choose_read, read_facts
from trailforge.generators.kg_trajectories.config import KgGeneratorConfig
from trailforge.generators.kg_trajectories.rows import derive_fields as kg_fields
from trailforge.inference import Meter
from trailforge.schemas import KgTrajectory, Message, Verdict, from_stored
from trailforge.schemas.agent_episode import AgentTrajectory

ROWS = RECORDED["rows"]
Row = KgTrajectory | AgentTrajectory

READINGS = {
    "Who is the mother of Duke Alexander of Württemberg?": "Princess Henriette of Nassau-Weilburg",
    "Which country was Florence Jaugey a citizen of?": "French",
    "Who is the paternal grandmother of Louis Crato, Count Of Nassau-Saarbrücken?": "Anna Amalia of Baden-Durlach",
    "Where was Gustaf Gründgens born?": "not stated",
    "Who is the director of Pasaporte a Río?": "Daniel Tinayre",
    "Where did Daniel Tinayre die?": "not stated",
}
"""What an honest model reads in what the episodes had read."""
TUMI = "4dff"
"""Right as the corpus' title has it, and known from memory, as its question is."""
REASONS = {
    "4c87": "unread_query",  # weak: father and mother from memory in its request
    "d06f": "answer_before_read",  # weak: it says the answer before the first search
    "5fcd": "unread_query",
    "bb45": "unread_query",
    "bea6": "unread_query",
    "f66d": "doubtful_gold",  # no: "Italian" for where he was born
    "6674": "admitted_guess",  # no: "as is well known"
    "4f9a": "admitted_guess",  # no: "is not said, … most likely"
    "9eaf": "doubtful_gold",
    "aaec": "wrong_answer",
    "e893": "doubtful_gold",  # "his own opinions changed" for how two books differ
    "9407": "doubtful_gold",
    "f6ed": "answer_before_read",  # "This is probably Tumi", before it searched
    "4335": "admitted_guess",  # "Nothing names the place. … I will answer Buenos Aires"
    "2fdb": "unread_query",
}
KEPT = {"yes", "wrongly rejected", "doubtfully rejected"}


def row_of(uid: str) -> Row:
    """As today's code would make it of the same conversation."""
    given = ROWS[uid]
    if given["record"] == "kg":
        row = from_stored(KgTrajectory, given["row"], source=FILE)
        return replace(row, **kg_fields(row, recorded_question(row.question_id), KgGeneratorConfig()))
    draws = [from_stored(AgentTrajectory, each["row"], source=FILE) for each in _draws(given["row"]["question_id"])]
    draws = with_shares([replace(row, **agent_fields(row, recorded_question(row.question_id))) for row in draws])
    return next(row for row, each in zip(draws, _draws(given["row"]["question_id"]), strict=True) if each is given)


def _draws(question: str) -> list[Any]:
    return [each for each in ROWS.values() if each["record"] == "agent" and each["row"]["question_id"] == question]


def facts(row: Row) -> list[str]:
    found = kg_filters.facts_to_read(row) if isinstance(row, KgTrajectory) else evidence.facts_to_read(row)
    return [fact.question for fact in found]


def judge(row: Row) -> Verdict | None:
    """The first verdict against it; on memory as at the time of the recording."""
    if isinstance(row, KgTrajectory):
        return first_rejection(judge_kg_episode(row, KgEpisodeFilterConfig()))
    return first_rejection(judge_episode(replace(row, memory_draws=0), AgentFilterConfig()))


async def read(row: Row) -> Row:
    async def say(question: str) -> str:
        return READINGS[question]

    found = kg_filters.facts_to_read(row) if isinstance(row, KgTrajectory) else evidence.facts_to_read(row)
    return replace(row, readings=await read_facts(found, say))


def saying(row: Row, thought: str) -> Row:
    """The same with another last turn."""

    def put(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        answer = messages[-1].content.partition("<answer>")[2]
        return (*messages[:-1], replace(messages[-1], content=f"<think>{thought}</think>\n<answer>{answer}"))

    if isinstance(row, KgTrajectory):
        return replace(row, messages=put(row.messages))
    return replace(row, draws=1, right_draws=1, episode=replace(row.episode, messages=put(row.episode.messages)))


def test_all_rows_of_the_review_are_here() -> None:
    verdicts = [row["verdict"] for row in ROWS.values()]
    kept = ("yes", "weak", "no")
    assert [verdicts.count(each) for each in kept] == [9, 5, 3]
    assert [verdicts.count(f"{how} rejected") for how in ("wrongly", "rightly", "doubtfully")] == [3, 7, 1]
    assert set(REASONS) == {uid for uid, row in ROWS.items() if row["verdict"] not in KEPT}


@pytest.mark.parametrize("uid", REASONS)
def test_what_a_strict_reader_would_not_train_on_is_rejected(uid: str) -> None:
    verdict = judge(row_of(uid))
    assert verdict is not None and verdict.reason == REASONS[uid]


@pytest.mark.parametrize("uid", [uid for uid, row in ROWS.items() if row["verdict"] in KEPT and uid != TUMI])
async def test_what_a_strict_reader_would_train_on_is_kept(uid: str) -> None:
    assert judge(await read(row_of(uid))) is None


def test_the_corpus_own_spelling_is_right_and_a_company_that_the_model_knows_is_left_out() -> None:
    row = row_of(TUMI)
    assert isinstance(row, AgentTrajectory) and judge(row) is None
    assert (row.episode.answer, row.episode.scores.right, row.right_draws) == ("Tumi Inc.", 1.0, 2)
    verdict = known_from_memory(row.from_memory, most=AgentFilterConfig().max_known_share)
    assert not verdict.keep and "'Tumi'" in verdict.detail


@pytest.mark.parametrize("uid", RECORDED["known"])
def test_what_was_known_from_memory_still_is(uid: str) -> None:
    given = RECORDED["known"][uid]
    memory = replace(row_of(TUMI).from_memory, **given | {key: tuple(given[key]) for key in ("golds", "answers")})  # type: ignore[union-attr]
    assert not known_from_memory(memory, most=AgentFilterConfig().max_known_share).keep


def test_few_of_the_rows_have_to_be_read_once_more() -> None:
    """The others rest on a clause or a triple that names the answer with what was asked."""
    kept = {uid: facts(row_of(uid)) for uid, row in ROWS.items() if row["verdict"] in ("yes", "weak", "no")}
    assert {uid for uid, asked in kept.items() if asked} == {"35c5", "6674", "4f9a", "3c99"}
    assert max(map(len, kept.values())) == 2 and sum(map(len, kept.values())) == 5


@pytest.mark.parametrize(("uid", "thought"), [("6674", "He was born in Düsseldorf."), ("4f9a", "He died there.")])
async def test_a_guess_that_does_not_admit_it_is_found_by_reading_again(uid: str, thought: str) -> None:
    row = saying(row_of(uid), thought)
    against = judge(row)
    assert against is None or against.reason == "early_relation", "all words are there"
    verdict = judge(await read(row))
    assert verdict is not None and verdict.reason == "unstated_answer" and facts(row)[-1] in verdict.detail


@pytest.mark.parametrize("uid", [uid for uid, row in ROWS.items() if row["record"] == "kg"])
def test_a_relation_that_was_asked_for_too_early_was_of_no_row_that_a_reader_would_train_on(uid: str) -> None:
    row = row_of(uid)
    assert isinstance(row, KgTrajectory)
    assert kg_filters.early_relation(row).keep == (uid not in ("6674", "9eaf"))


async def test_another_road_to_the_answer_is_taken_where_a_reading_confirms_it() -> None:
    """The article on the brother names the father, too; the document that the data set names was not found."""
    rows = [row_of(uid) for uid in ("9cd7", "8b2e")]
    assert [verdict.reason for row in rows if (verdict := judge(row))] == ["missing_evidence"] * 2
    made: list[str] = []

    async def read_one(row: AgentTrajectory, meter: Meter) -> AgentTrajectory:
        made.extend(facts(row))
        done = await read(row)
        assert isinstance(done, AgentTrajectory)
        return done

    drawn = [replace(row, memory_draws=0) for row in rows if isinstance(row, AgentTrajectory)]
    config = AgentFilterConfig()
    (taken, rejected), _ = await choose_read(
        drawn,
        choose_rows(drawn, config),
        lambda each: choose_rows(each, config),
        lambda chosen: unread_rows(chosen.kept, chosen.rejected),
        read_one,
    )
    assert len(made) == 2 and {row.uid[:4] for row in taken} | {row.uid[:4] for row, _ in rejected} == {"9cd7", "8b2e"}
    assert taken and {verdict.reason for _, verdict in rejected} <= {"same_route"}
