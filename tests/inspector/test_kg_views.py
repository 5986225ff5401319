"""Views of episodes, questions and triples of a knowledge graph, and which rows of a run they are given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import RenderableType

from tests.generators.kg_trajectories.test_filters import FIRST, SECOND, episode, triple
from tests.inspector.test_terminal import EVIL, shown, words_with_arrows
from tests.support.graph_questions import question
from trailforge.inspector import run_views, terminal
from trailforge.schemas import (
    EntityMatch,
    FilterScore,
    Hop,
    InvalidInput,
    KgQuestion,
    KgTrajectory,
    Message,
    write_parquet,
)

EPISODE = episode(FIRST, replace(SECOND, triples_offered=(triple("a", "r", "b"),)))
ASKED = replace(question(), filters=(FilterScore(name="closed_book", score=0.25, passed=True),))
MATCH = EntityMatch(
    entity_id="Q1", label="Metropolis", name="Metropolis (film)", kind="alias", score=0.987, margin=0.1, overlap=0,
    degree=3,
)  # fmt: skip
FOUND = terminal.kg_result([MATCH], [triple("Metropolis", "director", "Fritz Lang")])
VIEWS: dict[str, RenderableType] = {
    "episode": terminal.kg_trajectory(EPISODE),
    "question": terminal.kg_question(ASKED),
    "found": FOUND,
}


def evil_episode() -> KgTrajectory:
    link = replace(FIRST.entities[0], mention=EVIL, label=EVIL)
    messages = tuple(Message(role=role, content=EVIL, train=False) for role in ("user", "assistant", "tool"))
    steps = (replace(FIRST, entities=(link,), answer=EVIL),)
    return replace(EPISODE, uid=EVIL, answer=EVIL, question_id=EVIL, steps=steps, messages=messages)


def evil_question() -> KgQuestion:
    hop = Hop(question=EVIL, answer=EVIL)
    return replace(ASKED, uid=EVIL, question=EVIL, answer=EVIL, path=(EVIL,), decomposition=(hop,), as_of=EVIL)


EVIL_VIEWS = {
    "episode": terminal.kg_trajectory(evil_episode()),
    "question": terminal.kg_question(evil_question()),
    "found": terminal.kg_result(
        [replace(MATCH, entity_id=EVIL, label=EVIL, name=EVIL)], [triple(EVIL, EVIL, EVIL)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("width", [1, 20, 80])
@pytest.mark.parametrize("name", VIEWS)
def test_every_view_fits_any_terminal(name: str, width: int) -> None:
    lines = shown(VIEWS[name], width=width).splitlines()
    assert lines and max(map(len, lines)) <= width


@pytest.mark.parametrize("name", EVIL_VIEWS)
def test_a_text_is_shown_as_it_stands_and_commands_nothing(name: str) -> None:
    text = shown(EVIL_VIEWS[name], width=1000)
    assert not {c for c in text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in "\u202e\u2066"}
    assert "[bold]markup[/bold] [/] [link=http://evil]x[/link] [@click=app.quit]q" in words_with_arrows(text)


def test_an_episode_is_shown_turn_by_turn_with_what_its_searches_matched() -> None:
    text = shown(VIEWS["episode"], width=200)
    assert f"episode {EPISODE.uid}  led by {EPISODE.origin}  searches 2  reward {EPISODE.reward.total:.2f}" in text
    assert "step 1: N → N  triples 0 of 0  documents 2  answer Fritz Lang" in text
    assert "step 2: N → N  triples 0 of 1  documents 2  answer Vienna" in text
    assert text.count("╭─") == len(EPISODE.messages)
    lost = replace(FIRST, entities=(replace(FIRST.entities[0], entity_id=None, label=None),), answer=None)
    assert "step 1: N → nothing" in shown(terminal.kg_trajectory(replace(EPISODE, steps=(lost,))), width=200)


def test_a_question_is_shown_with_its_facts_hops_and_scores() -> None:
    text = shown(VIEWS["question"], width=200)
    assert f"question {ASKED.uid}  shape chain  facts 2  answers in the graph 1  as of 2021-05-01" in text
    assert ASKED.question in text and "answer Elmton" in text and "closed_book 0.25" in text
    assert "Red Dust | director | Cy Cedar" in text and f"1. {ASKED.decomposition[0].question} Cy Cedar" in text
    assert "as of unknown" in shown(terminal.kg_question(replace(ASKED, as_of="")), width=200)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    other = replace(EPISODE, uid="u2", question_id="q2", origin="policy")
    for table, record, rows in (
        ("kg_trajectories", KgTrajectory, [EPISODE, other]),
        ("kg_questions", KgQuestion, [ASKED, replace(ASKED, uid="k2", shape="intersection", entities=("elmton",))]),
    ):
        (tmp_path / table).mkdir()
        write_parquet(tmp_path / table / "part-00000-x.parquet", record, rows)
    (tmp_path / "run.json").write_text('{"dataset": "kg_trajectories"}')
    return tmp_path


def test_episodes_are_found_by_uid_and_question_and_counted_by_who_led_them(run_folder: Path) -> None:
    def uids(id: str | None = None, count: int = 9) -> list[str]:
        return [row.uid for row in run_views.find_episodes(run_folder, id, None, count)]

    assert uids() == [EPISODE.uid, "u2"] and uids(count=1) == uids(EPISODE.uid) == uids(EPISODE.question_id)
    assert uids("u2") == uids("q2") == ["u2"]
    assert run_views.episode_origins(run_folder) == {"oracle": 1, "policy": 1}
    with pytest.raises(InvalidInput, match="no episode u9 in this run"):
        run_views.find_episodes(run_folder, "u9", None, 1)


def test_questions_are_found_by_uid_entity_and_shape_and_counted_by_shape(run_folder: Path) -> None:
    def uids(id: str | None = None, shape: str | None = None) -> list[str]:
        return [row.uid for row in run_views.find_kg_questions(run_folder, id, shape, 9)]

    assert uids() == uids("elmton") == [ASKED.uid, "k2"]
    assert uids("cy cedar") == uids(shape="chain") == [ASKED.uid] and uids(shape="intersection") == ["k2"]
    assert run_views.question_shapes(run_folder) == {"chain": 1, "intersection": 1}
    with pytest.raises(InvalidInput, match="no shape 'ring'; there are chain, intersection, intersection_inside"):
        run_views.find_kg_questions(run_folder, None, "ring", 1)
