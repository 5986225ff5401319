"""The view of trajectories, trees, episodes and SFT rows: what it shows, and that no text of a row acts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("streamlit")
pytest.importorskip("plotly")

from streamlit.testing.v1 import AppTest

from tests.inspector.test_terminal import TREE
from tests.support.rows import AGAIN, DIED, FIRST, MISLED, PLAN, SECOND, passages, trajectory
from trailforge.generators.mcts_trajectories.show import turns_of_mistake
from trailforge.generators.mcts_trajectories.telling.story import sft_row
from trailforge.schemas import (
    PlanEdge,
    PlannedSearch,
    PlanNode,
    Rollout,
    RSearchReward,
    SearchEpisode,
    SearchTree,
    SftRow,
    StepPair,
    Trajectory,
    write_parquet,
)
from trailforge.training.sets.judging import segments

PAIR = StepPair(wrong_rollout=1, right_rollout=0, wrong_step=1, right_step=1, diverges_at=1)
EVIL = "<script>alert(1)</script> **bold** \x1b[2J \u202e <img src=x onerror=alert(1)>"


def mended(error: str, wrong: Any, right: Any) -> tuple[Trajectory, SearchTree]:
    """A reflective row and its tree."""
    row = trajectory(FIRST, wrong, right, error=error, uid=f"u-{error}", question_id=f"q-{error}", step_pair=PAIR)
    told = [(FIRST, right), (FIRST, replace(wrong, is_mistake=False))]
    rollouts = tuple(
        Rollout(
            index=index, node=1, variation="answer", varied_step=None, steps=steps, answer=steps[-1].answer,
            reward=1.0 - index,
        )
        for index, steps in enumerate(told)
    )  # fmt: skip
    return row, replace(TREE, question_id=row.question_id, rollouts=rollouts)


REASONING, REASONING_TREE = mended("reasoning", DIED, SECOND)
RETRIEVAL, RETRIEVAL_TREE = mended("retrieval", MISLED, AGAIN)
CORRECT = trajectory(uid="u-correct", question_id="q-reasoning")
EPISODE = SearchEpisode(
    uid="e1", question_id="b1", question="Where was Lang born?", type="factual", answer="Vienna", answer_aliases=(),
    options=(), correct_options=(), origin="oracle", thought="", plan_text="",
    plan_nodes=(PlanNode(node_id="A", query="Lang", tool="News"), PlanNode(node_id="B", query="town", tool="General")),
    plan_edges=(PlanEdge(src="A", dst="B"),),
    searches=(PlannedSearch(node_id="A", query="Lang", tool="News", status="found", passages=passages("2", "1")),),
    messages=CORRECT.messages, final_answer="Vienna", num_tool_calls=1, num_hops=2, token_estimate=9,
    evidence_found=0.5, reward=RSearchReward(total=0.75, format=1.0, dag=0.5, answer=1.0),
    provenance=CORRECT.provenance,
)  # fmt: skip


def write(folder: Path, table: str, record: type, rows: Sequence[Any]) -> None:
    (folder / table).mkdir()
    write_parquet(folder / table / "part-00000.parquet", record, rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("run")
    write(made, "mcts_trajectories", Trajectory, [REASONING, RETRIEVAL, CORRECT])
    write(made, "trees", SearchTree, [REASONING_TREE, RETRIEVAL_TREE])
    write(made, "episodes", SearchEpisode, [EPISODE])
    write(made, "sft", SftRow, [sft_row(RETRIEVAL), *segments(sft_row(RETRIEVAL))])
    return made


def page(folder: str, dataset: str, tables: list[str]) -> None:
    """The script that is tested."""
    from pathlib import Path

    from trailforge.inspector.page import show_rows
    from trailforge.inspector.showing import show_of
    from trailforge.pipelines.runs.finished import OpenRun

    run = OpenRun(
        folder=Path(folder), run_id="r", dataset=dataset, config={}, sources=(), manifest=None, books=(),
        tables=tuple(tables),
    )  # fmt: skip
    show_rows(run, show_of(dataset))


def one_row(folder: str, dataset: str, table: str) -> None:
    """A script that shows a row as other views do."""
    from pathlib import Path

    from trailforge.inspector.showing import describe
    from trailforge.inspector.views.drawing import Canvas, draw
    from trailforge.pipelines.runs.finished import OpenRun

    run = OpenRun(
        folder=Path(folder), run_id="r", dataset=dataset, config={}, sources=(), manifest=None, books=(),
        tables=(table,),
    )  # fmt: skip
    draw(describe(run, table, 0), Canvas(run, table, "row"))


def opened(folder: Path, table: str = "", row: str = "", tab: str = "") -> AppTest:
    """The page at an address."""
    tables = sorted(path.name for path in folder.iterdir())
    dataset = dataset_of(table)
    app = AppTest.from_function(page, args=(str(folder), dataset, tables), default_timeout=300)
    app.query_params.update({name: value for name, value in (("table", table), ("row", row)) if value})
    if tab:
        app.session_state[f"{table}.tab"] = tab
    app.run()
    assert not app.exception
    return app


def dataset_of(table: str) -> str:
    """Which data set's rows a test is about."""
    return "document_bundles" if table == "episodes" else "mcts_trajectories"


def html(app: AppTest) -> str:
    return "\n".join(str(each.proto.body) for each in app.get("html"))


def test_a_reasoning_error_shows_both_answers_and_why(folder: Path) -> None:
    told = html(opened(folder, "mcts_trajectories", "u-reasoning"))
    assert "the 2 passages are the same, but the answer is another" in told
    assert '<mark class="wrong">Beverly Hills</mark>' in told and '<mark class="gold">Vienna</mark>' in told
    assert "Wrong: step 2 of rollout 1" in told and "Mended: step 2 of rollout 0" in told


def test_a_retrieval_error_says_which_passages_only_one_side_found(folder: Path) -> None:
    app = opened(folder, "mcts_trajectories", "u-retrieval")
    assert "1 of 2 were found by both" in html(app)
    assert html(app).count("only here") == 1
    assert "does not agree" not in html(app)


def test_a_label_that_the_diff_does_not_bear_out_is_said(tmp_path: Path) -> None:
    write(tmp_path, "mcts_trajectories", Trajectory, [replace(RETRIEVAL, reflection_error="reasoning")])
    write(tmp_path, "trees", SearchTree, [RETRIEVAL_TREE])
    assert "does not agree" in html(opened(tmp_path, "mcts_trajectories"))


def test_without_the_tree_the_steps_still_stand_beside_each_other(tmp_path: Path) -> None:
    write(tmp_path, "mcts_trajectories", Trajectory, [REASONING])
    app = opened(tmp_path, "mcts_trajectories")
    assert "Wrong: step 2" in html(app) and "not in this run" in html(app)


def test_the_tree_of_a_row_opens_at_its_rollout(folder: Path) -> None:
    app = opened(folder, "mcts_trajectories", "u-reasoning", "Search tree")
    assert "Node 1" in html(app) and "sub-question and query" in html(app)
    assert list(app.dataframe[-1].value["behind this row"]) == ["mended", "wrong"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("trees", ["2 plans", "Node 1", "leaf plan"]),
        ("episodes", ["not searched", "needs A", '<mark class="gold">Vienna</mark>']),
        ("sft", ["whole conversation", "begins the step that goes wrong", "turns trained"]),
    ],
)
def test_other_tables_have_their_own_rows(folder: Path, table: str, words: list[str]) -> None:
    app = opened(folder, table)
    assert all(word in html(app) for word in words)
    assert app.query_params["table"] in (table, [table])


@pytest.mark.parametrize("table", ["mcts_trajectories", "trees", "episodes", "sft"])
def test_a_row_alone_is_shown_by_its_table(folder: Path, table: str) -> None:
    app = AppTest.from_function(one_row, args=(str(folder), dataset_of(table), table), default_timeout=300).run()
    assert not app.exception
    assert "gold answer" in html(app) and not app.button


def test_parts_of_the_reward_and_where_a_row_comes_from(folder: Path) -> None:
    told = html(opened(folder, "episodes", "e1", "Reward and provenance"))
    assert "0.750" in told and "model calls (1)" in told


@pytest.mark.parametrize("tab", ["Wrong and mended", "Conversation", "Steps", "Search tree", "Reward and provenance"])
def test_no_text_of_a_row_acts(tmp_path: Path, tab: str) -> None:
    found = tuple(replace(each, title=EVIL, text=f"{EVIL} Vienna", id=EVIL) for each in passages("1"))
    steps = tuple(replace(step, sub_question=EVIL, query=EVIL + "?", passages=found) for step in REASONING.steps)
    messages = tuple(replace(message, content=EVIL) for message in REASONING.messages)
    tree = replace(
        REASONING_TREE, question=EVIL, nodes=tuple(replace(node, plan=(EVIL,) * 2) for node in TREE.nodes),
        rollouts=tuple(replace(each, answer=EVIL, steps=steps[1:]) for each in REASONING_TREE.rollouts),
    )  # fmt: skip
    row = replace(REASONING, question=EVIL, answer_aliases=(EVIL,), steps=steps, messages=messages, plan=(EVIL,) * 2)
    write(tmp_path, "mcts_trajectories", Trajectory, [row])
    write(tmp_path, "trees", SearchTree, [tree])
    app = opened(tmp_path, "mcts_trajectories", row.uid, tab)
    told = html(app)
    assert "&lt;script&gt;" in told
    assert "<script" not in told and "<img" not in told and "\x1b" not in told and "\u202e" not in told
    assert not any("bold" in str(each.value) for each in [*app.markdown, *app.caption])


def test_the_conversation_says_where_it_goes_wrong_and_where_it_is_mended() -> None:
    retrieval = turns_of_mistake(RETRIEVAL)
    assert {number: note.kind for number, note in retrieval.items()} == {
        4: "wrong", 5: "wrong", 6: "mended", 7: "mended",
    }  # fmt: skip
    assert MISLED.query in RETRIEVAL.messages[4].content and AGAIN.query in RETRIEVAL.messages[6].content
    reasoning = turns_of_mistake(REASONING)
    assert {number: note.kind for number, note in reasoning.items()} == {
        4: "wrong", 5: "wrong", 6: "mended", 7: "mended",
    }  # fmt: skip
    assert "Beverly Hills" in REASONING.messages[6].content and SECOND.query in REASONING.messages[6].content
    assert (retrieval[6].text, reasoning[6].text) == (
        "the wrong answer, the reflection, and the better search",
        "the wrong answer, the reflection, and the next search",
    )
    assert turns_of_mistake(CORRECT) == {} and len(CORRECT.plan) == len(PLAN)


def test_passages_that_are_read_again_are_mended_in_the_turn_that_takes_back() -> None:
    reread = trajectory(FIRST, DIED, SECOND, error="reasoning", reasoning_rows="reread")
    assert {number: note.kind for number, note in turns_of_mistake(reread).items()} == {
        4: "wrong", 5: "wrong", 6: "mended",
    }  # fmt: skip
    assert all(answer in reread.messages[6].content for answer in (DIED.answer, SECOND.answer))
