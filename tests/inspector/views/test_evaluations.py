"""The page of an evaluation: table, episodes by filter, two runs beside each other, and hostile texts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.evaluations import evaluation, play_cell, whole_folder, write_folder, write_training
from trailforge.evaluation.folder import read_episodes, read_trained
from trailforge.schemas import Message

pytest.importorskip("streamlit")
from streamlit.testing.v1 import AppTest

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> \x1b[31m\u202e $x$ **bold**"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_folder(tmp_path_factory.mktemp("evaluation"))


def page(name: str, folder: str, other: str = "") -> None:
    """Streamlit runs the text of this function by itself."""
    from pathlib import Path

    from trailforge.inspector import evaluation_page
    from trailforge.inspector.evaluations import stamp_evaluation

    opened = [evaluation_page.open_cached(Path(each), stamp_evaluation(Path(each))) for each in (folder, other) if each]
    if name == "compare":
        evaluation_page.show_two(opened[0], opened[1] if other else None)
    else:
        getattr(evaluation_page, f"show_{name}")(opened[0])


def trained_page(name: str, folder: str) -> None:
    """The same of a training."""
    from pathlib import Path

    from trailforge.inspector import evaluation_page
    from trailforge.inspector.evaluations import stamp_training

    opened = evaluation_page.open_trained(Path(folder), stamp_training(Path(folder)))
    getattr(evaluation_page, f"show_{name}")(opened)


def opened(name: str, folder: Path, other: Path | None = None, **asked: str) -> AppTest:
    app = AppTest.from_function(page, args=(name, str(folder), str(other or "")), default_timeout=300)
    app.query_params.update(asked)
    app.run()
    assert not app.exception
    return app


def html(app: AppTest) -> str:
    """What stands on the page as HTML."""
    return "".join(str(each.proto.body) for each in app.get("html"))


def lists(app: AppTest) -> list[list[dict[str, Any]]]:
    return [each.value.to_dict("records") for each in app.dataframe]


def choose(app: AppTest, label: str, value: Any) -> list[dict[str, Any]]:
    """The list of episodes after a filter is set."""
    next(each for each in app.selectbox if each.label == label).select(value).run()
    assert not app.exception
    return lists(app)[0]


def test_the_results_are_the_table_with_the_best_first_and_the_plots(folder: Path) -> None:
    app = opened("results", folder)
    (table,) = lists(app)
    assert len(table) == 9 and (table[0]["agent"], table[0]["back end"]) == ("graph_search", "linear_rag")
    assert [row["contain-EM"] for row in table] == sorted((row["contain-EM"] for row in table), reverse=True)
    assert len(app.get("image")) == 3 and "Not all is there" not in html(app)


def test_an_unfinished_grid_says_what_is_missing(tmp_path: Path) -> None:
    write_folder(tmp_path, evaluation(), {("search_o1", "raptor_plain"): play_cell("search_o1", "raptor_plain")[:7]})
    shown = html(opened("results", tmp_path))
    assert "search_o1 over raptor_plain with m: 7 of 40 episodes so far" in shown and "none of 40" in shown


@pytest.mark.parametrize(
    ("label", "value", "holds"),
    [
        ("agent", "search_o1", lambda row: row["agent"] == "search_o1"),
        ("back end", "raptor_plain", lambda row: row["back end"] == "raptor_plain"),
        ("failure tag", "miss_at_hop_2", lambda row: "miss_at_hop_2" in row["tags"]),
        ("verdict", "wrong", lambda row: row["verdict"] == "wrong"),
    ],
)
def test_a_filter_leaves_the_episodes_of_which_it_holds(
    folder: Path, label: str, value: str, holds: Callable[[dict[str, Any]], bool]
) -> None:
    app = opened("episodes", folder)
    assert not all(map(holds, lists(app)[0]))
    rows = choose(app, label, value)
    assert rows and all(map(holds, rows))
    assert f"of {_count(folder, label, value):,}" in app.markdown[0].value


def _count(folder: Path, label: str, value: str) -> int:
    def has(each: Any) -> bool:
        known = {"agent": each.agent, "back end": each.backend, "verdict": "wrong" if each.scores.right < 1 else ""}
        return value in each.failures if label == "failure tag" else known[label] == value

    return sum(map(has, read_episodes(folder)))


def test_an_episode_is_shown_with_its_transcript_its_searches_and_when_what_was_found(folder: Path) -> None:
    uid = next(
        each.uid
        for each in read_episodes(folder, "search_o1-dense")
        if each.scores.found_at[0] is not None and each.failures == ("miss_at_hop_2",)
    )
    app = opened("episodes", folder, row=uid)
    shown = html(app)
    found = next(each for each in read_episodes(folder, "search_o1-dense") if each.uid == uid)
    for message in found.messages:
        assert message.content in shown
    place = found.scores.found_at[0]
    assert place is not None and f"by search {place + 1}" in shown and "by none" in shown and "miss at hop 2" in shown
    assert "not trained" not in shown
    searches = opened_at_tab(folder, uid, "Searches")
    assert all(search.titles[0] in searches for search in found.searches) and "document 1" in searches


def opened_at_tab(folder: Path, uid: str, tab: str) -> str:
    app = AppTest.from_function(page, args=("episodes", str(folder), ""), default_timeout=300)
    app.query_params["row"] = uid
    app.session_state["episodes.tab"] = tab
    app.run()
    assert not app.exception
    return html(app)


def test_two_runs_stand_beside_each_other_on_a_question_that_one_gets_right(folder: Path) -> None:
    app = opened("compare", folder)
    figures, questions = lists(app)
    assert next(row for row in figures if row["measure"] == "contain-EM")["second less first"] < 0
    assert questions and all((row["first"], row["second"]) == ("Paris", "Rome") for row in questions)
    shown = html(app)
    assert "So it is Paris." in shown and "So it is Rome." in shown and "McNemar" in shown
    second = next(each for each in app.selectbox if each.label == "Second")
    second.select_index(8).run()
    assert not app.exception
    assert len(lists(app)[1]) > len(questions) and "more than chance" in lists(app)[0][0]


def test_two_folders_are_compared_on_what_both_have(folder: Path, tmp_path: Path) -> None:
    grid = evaluation(agents=evaluation().agents[:1], num_questions=12)
    write_folder(tmp_path / "other", grid, {("single_shot", "dense"): play_cell("single_shot", "dense", 12)})
    app = opened("compare", tmp_path / "other", folder)
    chosen: list[Any] = [each.value for each in app.selectbox]
    assert [each.folder for each in chosen] == [tmp_path / "other", folder]
    assert {(each.agent, each.backend) for each in chosen} == {("single_shot", "dense")}
    assert "8 questions are in the second run alone" in html(app)
    assert {row["questions"] for row in lists(app)[0]} == {12}


def test_one_run_alone_is_not_compared(tmp_path: Path) -> None:
    write_folder(tmp_path, evaluation(), {("search_o1", "raptor_plain"): play_cell("search_o1", "raptor_plain")})
    app = opened("compare", tmp_path)
    assert "--beside" in app.info[0].value


def test_what_agents_read_and_wrote_is_text_and_nothing_else(tmp_path: Path) -> None:
    first, *rest = play_cell("search_o1", "raptor_plain")
    search = replace(first.searches[0], query=HOSTILE, titles=(HOSTILE,), triples=(HOSTILE,))
    messages = (Message(role="assistant", content=HOSTILE, train=True),)
    bad = replace(
        first, question=HOSTILE, answer=HOSTILE, error=HOSTILE, messages=messages, searches=(search,), golds=(HOSTILE,)
    )
    rest = [each for each in rest if each.question_id != bad.question_id]
    write_folder(tmp_path, evaluation(), {("search_o1", "raptor_plain"): [bad, *rest]})
    for tab in ("Transcript", "Searches", "Scores and costs"):
        shown = opened_at_tab(tmp_path, bad.uid, tab)
        assert "<script>" not in shown and "<img" not in shown and "\x1b" not in shown and "\u202e" not in shown
        assert "&lt;script&gt;alert(1)" in shown


def whole_page(folder: str) -> None:
    """As `trailforge inspect` has it."""
    from pathlib import Path

    from trailforge.inspector.evaluation_page import main

    main(Path(folder))


def test_a_damaged_folder_is_said_in_a_line(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    next(broken.glob("episodes/*/*.parquet")).write_bytes(b"<b>no</b>")
    app = AppTest.from_function(whole_page, args=(str(broken),), default_timeout=300).run()
    assert not app.exception and "not a readable Parquet file" in app.code[0].value
    app = AppTest.from_function(whole_page, args=(str(folder),), default_timeout=300).run()
    assert not app.exception and not app.error and len(lists(app)[0]) == 9


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_training(tmp_path_factory.mktemp("training"))


def trained(name: str, folder: Path, **asked: str) -> AppTest:
    app = AppTest.from_function(trained_page, args=(name, str(folder)), default_timeout=300)
    app.query_params.update(asked)
    app.run()
    assert not app.exception
    return app


def test_a_training_has_a_line_for_each_step(training: Path) -> None:
    (table,) = lists(trained("steps", training))
    rows = list(read_trained(training))
    assert [(row["step"], row["episodes"]) for row in table] == [(1, 20), (2, 20), (12, 20)]
    paid = [each.training.reward for each in rows[:20] if each.training and each.training.reward is not None]
    assert len(paid) == 19 and table[0]["reward"] == pytest.approx(sum(paid) / 19, abs=1e-3)
    assert [row["failed"] for row in table] == [5.0] * 3


@pytest.mark.parametrize(
    ("label", "value", "holds"),
    [
        ("step", 12, lambda row: row["step"] == 12),
        ("stop", "failed", lambda row: row["stop"] == "failed"),
        ("failure tag", "miss_at_hop_2", lambda row: "miss_at_hop_2" in row["tags"]),
        ("verdict", "wrong", lambda row: row["verdict"] == "wrong"),
    ],
)
def test_episodes_of_a_training_are_chosen_by_step_and_stop_too(
    training: Path, label: str, value: Any, holds: Callable[[dict[str, Any]], bool]
) -> None:
    app = trained("episodes", training)
    assert not all(map(holds, lists(app)[0]))
    rows = choose(app, label, value)
    assert rows and all(map(holds, rows))


def test_an_episode_of_a_training_shows_what_it_was_paid(training: Path) -> None:
    episode = list(read_trained(training))[25]
    shown = html(trained("episodes", training, row=episode.uid))
    assert episode.training and episode.training.reward is not None
    assert "step 2" in shown and f"reward {episode.training.reward:.3g}" in shown and "r_ans" in shown
    assert all(message.content in shown for message in episode.messages)
