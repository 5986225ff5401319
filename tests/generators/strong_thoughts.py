"""Thoughts as a strong model would write them, for rows of MuSiQue questions with the passages that a search found.

The replies were written by hand before the gate was tried on them, and say nothing that a reader would object to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.support.rows import trajectory
from trailforge.schemas import Passage, Question, Step, Trajectory

Reply = dict[str, dict[str, Any]]


def _passages(*titles: str) -> tuple[Passage, ...]:
    return tuple(Passage(id=title, title=title, text=_DATA["passages"][title], score=1.0) for title in titles)


def _step(index: int, sub_question: str, query: str, answer: str, found: tuple[Passage, ...], **more: Any) -> Step:
    return Step(index=index, sub_question=sub_question, query=query, passages=found, answer=answer, **more)


def _row(question: str, answer: str, plan: tuple[str, ...], *steps: Step, **more: Any) -> Trajectory:
    asked = Question(id="q", question=question, answer=answer)
    return trajectory(*steps, question=asked, plan=plan, **more)


_DATA = yaml.safe_load((Path(__file__).parent / "strong_thoughts.yaml").read_text(encoding="utf-8"))
REPLIES: dict[str, Reply] = _DATA["replies"]
"""Of each row: by turn and field."""

DSC = _passages("Desert Studies Center", "Sahara")
CAMPUSES = _passages("Southern California", "Desert Studies Center")
CHISHOLMS = _passages("The Chisholms", "New York City")
BIG_BROTHER = _passages("Celebrity Big Brother (American TV series)", "Bigg Boss")
GLISSON = _passages("James Glisson", "Jackson County Courthouse (Jacksonville, Oregon)")
JACKSONVILLE = _passages("Jacksonville, Florida", "James Glisson")
LANG = _passages("Metropolis", "M")
BORN = _passages("Fritz Lang", "M")

CSU_PLAN = ("Which institution is the Desert Studies Center a part of?", "How many campuses are there in #1?")
CSU = "How many campuses are there in the institution that Desert Studies Center is a part of?"
CSU_FIRST = _step(0, CSU_PLAN[0], CSU_PLAN[0], "California State University", DSC)
CSU_ASKED = "How many campuses are there in California State University?"
CSU_SECOND = _step(1, CSU_PLAN[1], CSU_ASKED, "12", CAMPUSES)
NBC_PLAN = (
    "Which network broadcasted The Chisholms?",
    "Which network, along with ABC and #1, is the other major broadcaster based in NY?",
    "When is Celebrity Big Brother coming to #2?",
)
NBC = (
    "When is celebrity big brother coming to the network which, along with ABC and the network which broadcasted The "
    "Chisholms, is the other major broadcaster based in NY?"
)
NBC_STEPS = (
    _step(0, NBC_PLAN[0], NBC_PLAN[0], "NBC", CHISHOLMS),
    _step(1, NBC_PLAN[1], NBC_PLAN[1].replace("#1", "NBC"), "CBS", CHISHOLMS[1:]),
    _step(2, NBC_PLAN[2], "When is Celebrity Big Brother coming to CBS?", "February 7, 2018", BIG_BROTHER),
)
RANK_PLAN = (
    "What is James Glisson's birthplace?",
    "Which city has a courthouse in #1?",
    "What is the population ranking of #2?",
)
RANK = "What is the population ranking of the city that has a courthouse in James Glisson's birthplace?"
RANK_STEPS = (
    _step(0, RANK_PLAN[0], RANK_PLAN[0], "Jackson County, Florida", GLISSON[:1]),
    _step(1, RANK_PLAN[1], "Which city has a courthouse in Jackson County, Florida?", "Jacksonville", GLISSON),
    _step(2, RANK_PLAN[2], "What is the population ranking of Jacksonville?", "12th most populous in the United States",
          JACKSONVILLE),
)  # fmt: skip
FILM_PLAN = ("Who directed Metropolis?", "In which city was #1 born?")
FILM = "In which city was the director of Metropolis born?"
FILM_FIRST = _step(0, FILM_PLAN[0], FILM_PLAN[0], "Fritz Lang", LANG)
FILM_ASKED = "In which city was Fritz Lang born?"
FILM_SECOND = _step(1, FILM_PLAN[1], FILM_ASKED, "Vienna", BORN)
DIED_PLAN = ("Who directed Metropolis?", "In which city did #1 die?")

ROWS: dict[str, Trajectory] = {
    "campuses": _row(CSU, "12", CSU_PLAN, CSU_FIRST, CSU_SECOND),
    "campuses from memory": _row(
        CSU, "12", CSU_PLAN, CSU_FIRST, _step(1, CSU_PLAN[1], CSU_ASKED, "23", CAMPUSES, is_mistake=True), CSU_SECOND,
        error="reasoning",
    ),
    "networks": _row(NBC, "February 7, 2018", NBC_PLAN, *NBC_STEPS),
    "networks misread": _row(
        NBC, "February 7, 2018", NBC_PLAN,
        _step(0, NBC_PLAN[0], NBC_PLAN[0], "CBS", CHISHOLMS, is_mistake=True), *NBC_STEPS, error="reasoning",
    ),
    "ranking": _row(RANK, "12th", RANK_PLAN, *RANK_STEPS),
    "director": _row(FILM, "Vienna", FILM_PLAN, FILM_FIRST, FILM_SECOND),
    "director died": _row(
        FILM, "Vienna", FILM_PLAN, FILM_FIRST,
        _step(1, DIED_PLAN[1], "In which city did Fritz Lang die?", "Beverly Hills", BORN, is_mistake=True),
        FILM_SECOND, error="decomposition", first_plan=DIED_PLAN,
    ),
    "director missed": _row(
        FILM, "Vienna", FILM_PLAN, FILM_FIRST,
        _step(1, FILM_PLAN[1], "where the man from Metropolis was born", "Rosenberg", LANG[1:], is_mistake=True),
        FILM_SECOND, error="retrieval",
    ),
    "director misread": _row(
        FILM, "Vienna", FILM_PLAN, FILM_FIRST,
        _step(1, FILM_PLAN[1], FILM_ASKED, "Beverly Hills", BORN, is_mistake=True), FILM_SECOND, error="reasoning",
    ),
    "director reread": _row(
        FILM, "Vienna", FILM_PLAN, FILM_FIRST,
        _step(1, FILM_PLAN[1], FILM_ASKED, "Beverly Hills", BORN, is_mistake=True), FILM_SECOND, error="reasoning",
        reasoning_rows="reread",
    ),
}  # fmt: skip
