"""Views in a terminal: any width will do, and no text of a passage or a model is taken for a command."""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from rich.markup import escape

from tests.support.bundle_questions import BUNDLE, PAPER, STREET, choice, question
from tests.support.rows import DIED, FIRST, PLAN, QUESTION, SECOND, trajectory
from trailforge.inspector import run_views, terminal
from trailforge.schemas import (
    Bundle,
    BundleHop,
    BundleInput,
    BundleQuestion,
    Count,
    DroppedSplits,
    FileEntry,
    FilterScore,
    InvalidInput,
    Manifest,
    Message,
    Node,
    Passage,
    Rollout,
    SearchTree,
    StageCount,
    Trajectory,
    write_parquet,
)

CORRECT = trajectory()
MENDED = trajectory(FIRST, DIED, SECOND, error="reasoning")
_RIGHT = Rollout(
    index=0, node=1, variation="none", varied_step=None, steps=(FIRST, SECOND), answer="Vienna", reward=1.0
)
_WRONG = replace(_RIGHT, index=1, variation="query", varied_step=1, steps=(FIRST, DIED), answer="", reward=0.0)
TREE = SearchTree(
    question_id=QUESTION.id,
    question=QUESTION.question,
    answer=QUESTION.answer,
    answer_aliases=(),
    nodes=(
        Node(
            id=0,
            parent=None,
            plan=(QUESTION.question,),
            origin="policy",
            visits=2,
            value=0.5,
            decomposable=(True,),
            depth=0,
        ),
        Node(id=1, parent=0, plan=PLAN, origin="policy", visits=2, value=0.5, decomposable=(False, False), depth=1),
    ),
    rollouts=(_RIGHT, _WRONG),
    stop_reason="exhausted",
    oracle_used=True,
    dropped_splits=DroppedSplits(),
    rounds=3,
    max_depth=1,
    calls=7,
    prompt_tokens=100,
    completion_tokens=20,
    cost=0.0,
)
MANIFEST = Manifest(
    run_id="mcts_trajectories-0123456789ab",
    dataset="mcts_trajectories",
    schema_versions=(),
    config_hash="0" * 12,
    inputs=(FileEntry(path="q.jsonl", rows=2, sha256="0" * 64),),
    stages=(StageCount(name="read", inputs=2, accepted=1, rejected=(Count(reason="invalid_input", count=1),)),),
    files=(),
    model="scripted",
    calls=1234,
    prompt_tokens=5678,
    completion_tokens=90,
    cut_replies=3,
    cost=0.5,
    seconds=3.2,
    calls_per_accepted_row=None,
    cost_per_accepted_row=None,
    trailforge_version="0",
)
ASKED = question(
    dag_text="Nodes:\nA: designer of the turbine (News)\nB: where that designer studied (Academic)\nEdges:\nA -> B",
    filters=(FilterScore(name="closed_book", score=0.25, passed=True),),
    curriculum_stage=3,
    complexity=0.456,
)
CHOICE = replace(choice("B", "C", "E"), uid="q2", bundle_id="b2", dag_text=ASKED.dag_text)
HELD = BundleInput(id=BUNDLE.uid, bundle=BUNDLE, documents=(STREET, PAPER))
VIEWS: dict[str, RenderableType] = {
    "trajectory": terminal.trajectory(CORRECT),
    "mended trajectory": terminal.trajectory(MENDED),
    "tree": terminal.search_tree(TREE),
    "question": terminal.bundle_question(ASKED),
    "choice": terminal.bundle_question(CHOICE),
    "bundle": terminal.bundle(HELD),
    "figures": terminal.figures(MANIFEST, terminal.kinds_of([CORRECT, MENDED])),
}
EVIL = (
    "\x1b[2J\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\ "
    "\x9b31m c1 \x07 bell \x08 back \r over \x7f del \u202e turned \u2066 "
    "[bold]markup[/bold] [/] [link=http://evil]x[/link] [@click=app.quit]q"
)


def shown(view: RenderableType, *, width: int = 100, colours: bool = False) -> str:
    """What a terminal of that width gets."""
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colours, color_system="standard" if colours else None)
    console.print(view)
    return out.getvalue()


def words(text: str) -> str:
    """Text without frames and line breaks."""
    return " ".join("".join(c if c.isalnum() or c in ".,?'-()" else " " for c in text).split())


@pytest.mark.parametrize("width", [1, 8, 20, 40, 80, 300])
@pytest.mark.parametrize("name", VIEWS)
def test_every_view_fits_any_terminal(name: str, width: int) -> None:
    lines = shown(VIEWS[name], width=width).splitlines()
    assert lines and max(map(len, lines)) <= width


def test_a_narrow_terminal_loses_no_word_of_a_trajectory() -> None:
    text = words(shown(terminal.trajectory(MENDED), width=40))
    for message in MENDED.messages:
        for sentence in words(message.content).split(". "):
            assert sentence in text


def test_a_trajectory_is_shown_turn_by_turn_with_its_mistake() -> None:
    text = shown(terminal.trajectory(MENDED))
    assert "reflective (reasoning)" in text and MENDED.uid in text and "gold Vienna" in text
    at = 0
    for message in MENDED.messages:
        at = text.index(f"╭─ {message.role}", at) + 1
        at = text.index(message.content.splitlines()[0][:60], at) + 1
    assert "mistake at step 2: In which city was Fritz Lang born? -> Beverly Hills" in words_with_arrows(text)
    assert text.count("(not trained)") == sum(not m.train for m in MENDED.messages)
    assert "mistake at" not in shown(terminal.trajectory(CORRECT))


def words_with_arrows(text: str) -> str:
    """Lines joined."""
    return " ".join(text.split())


def test_a_tree_is_shown_with_visits_values_and_answers() -> None:
    text = shown(terminal.search_tree(TREE), width=200)
    assert "stopped: exhausted" in text and "3 rounds, 7 calls, depth 1, oracle" in text
    assert "1 policy leaf N=2 V=0.50  1. Who directed Metropolis? | 2. In which city was #1 born?" in text
    assert "correct rollout 0 (none) Fritz Lang -> Vienna" in text
    assert "wrong rollout 1 (query of step 2) Fritz Lang -> Beverly Hills" in text


def test_an_empty_answer_is_said_to_be_nothing() -> None:
    silent = replace(_WRONG, steps=(replace(FIRST, answer=""),))
    assert "(nothing)" in shown(terminal.search_tree(replace(TREE, rollouts=(silent,))))


def test_figures_show_funnel_kinds_and_cost() -> None:
    text = words_with_arrows(shown(VIEWS["figures"]))
    assert "read │ 2 │ 1 │ invalid_input 1" in text
    assert "1,234 │ 3 │ 5,678 │ 90 │ 0.5000 │ 3 │ - │ -" in text
    assert terminal.kinds_of([CORRECT, MENDED, MENDED]) == Counter(correct=1, reasoning=2)


def evil_trajectory() -> Trajectory:
    passage = Passage(id="0", title=EVIL, text=EVIL, score=0.5)
    step = replace(DIED, query=EVIL, answer=EVIL, passages=(passage,))
    messages = tuple(Message(role=role, content=EVIL, train=False) for role in ("system", "user", "assistant", "tool"))
    return replace(
        MENDED, uid="uid" + EVIL, question_id=EVIL, answer=EVIL, steps=(FIRST, step, SECOND), messages=messages
    )


def evil_tree() -> SearchTree:
    node = replace(TREE.nodes[1], plan=(EVIL, EVIL))
    rollout = replace(_WRONG, steps=(replace(FIRST, answer=EVIL),))
    return replace(TREE, question=EVIL, answer=EVIL, nodes=(TREE.nodes[0], node), rollouts=(rollout,))


def evil_question() -> BundleQuestion:
    hop = BundleHop(document_id=EVIL, evidence=EVIL, reasoning=EVIL)
    return replace(
        CHOICE, uid=EVIL, bundle_id=EVIL, question=EVIL, answer=EVIL, options=(EVIL, EVIL), correct_options=(EVIL,),
        hops=(hop,), dag_text=f"Nodes:\n{EVIL}", filters=(FilterScore(name=EVIL, score=1.0, passed=True),),
    )  # fmt: skip


def evil_bundle() -> BundleInput:
    document = replace(STREET, source=EVIL, title=EVIL, text=EVIL, published=EVIL)
    return BundleInput(id=EVIL, bundle=replace(BUNDLE, uid=EVIL, theme=EVIL), documents=(document, PAPER))


EVIL_VIEWS = {
    "trajectory": lambda: terminal.trajectory(evil_trajectory()),
    "tree": lambda: terminal.search_tree(evil_tree()),
    "question": lambda: terminal.bundle_question(evil_question()),
    "bundle": lambda: terminal.bundle(evil_bundle()),
    "figures": lambda: terminal.figures(
        replace(MANIFEST, run_id=EVIL, stages=(StageCount(name=EVIL, inputs=1, accepted=1),)), Counter()
    ),
}


@pytest.mark.parametrize("width", [20, 300])
@pytest.mark.parametrize("name", EVIL_VIEWS)
def test_no_control_character_of_a_text_reaches_the_terminal(name: str, width: int) -> None:
    text = shown(EVIL_VIEWS[name](), width=width)
    controls = {c for c in text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in "\u202e\u2066"}
    assert controls == set()


@pytest.mark.parametrize("name", EVIL_VIEWS)
def test_only_our_own_styles_are_sent_to_a_terminal_with_colours(name: str) -> None:
    plain, coloured = (shown(EVIL_VIEWS[name](), width=300, colours=c) for c in (False, True))
    sent = set(re.findall(r"\x1b[^m]*m?", coloured))
    assert all(re.fullmatch(r"\x1b\[[0-9;]*m", code) for code in sent)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert "evil" not in "".join(sent)


@pytest.mark.parametrize("name", EVIL_VIEWS)
def test_markup_in_a_text_is_shown_as_it_stands(name: str) -> None:
    text = words_with_arrows(shown(EVIL_VIEWS[name](), width=1000))
    assert "[bold]markup[/bold] [/] [link=http://evil]x[/link] [@click=app.quit]q" in text
    assert escape("[bold]") not in text


def test_a_question_is_shown_with_evidence_plan_and_scores() -> None:
    text = words_with_arrows(shown(terminal.bundle_question(ASKED), width=200))
    assert "question q type factual bundle b stage 3 complexity 0.46" in text
    assert ASKED.question in text and "answer University of Bergen" in text
    assert "news:1 “the turbine that Mara Lind designed” names her" in text
    assert "A: designer of the turbine (News)" in text and "A -> B" in text
    assert "closed_book 0.25" in text


def test_options_are_shown_by_letter_and_the_answer_by_the_right_ones() -> None:
    text = words_with_arrows(shown(terminal.bundle_question(CHOICE), width=200))
    assert "A. option 0 B. option 1" in text and "F. option 5 answer B, C, E" in text


def test_a_bundle_is_shown_with_the_beginning_of_each_document() -> None:
    long = replace(PAPER, text="ŷ" * 900, published=None)
    text = shown(terminal.bundle(replace(HELD, documents=(STREET, long))), width=200)
    assert "bundle b  cohesion 0.60  theme tide mill" in text
    assert "news  A prize for tides  2025-05-02" in text and STREET.text.splitlines()[1] in text
    assert text.count("ŷ") == 400 and "…" in text


@pytest.mark.parametrize("end", ["\\", "\\\\", "[", "[/"])
def test_a_text_cannot_undo_the_escaping_of_what_follows_it(end: str) -> None:
    tree = replace(TREE, question=f"odd{end}", nodes=(replace(TREE.nodes[0], plan=(f"plan{end}",)),), rollouts=())
    text = shown(terminal.search_tree(tree), width=200)
    assert f"odd{end}" in text and f"plan{end}" in text and "gold" in text and "[dim]" not in text


def test_a_wide_or_empty_text_is_shown(tmp_path: Path) -> None:
    messages = tuple(
        Message(role="tool", content=c, train=False) for c in ("", "検索" * 50, "e\u0301" * 50, "👩‍👩‍👧" * 20)
    )
    for width in (10, 80):
        assert shown(terminal.trajectory(replace(CORRECT, messages=messages)), width=width)


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    for table, record, rows in (
        ("mcts_trajectories", Trajectory, [CORRECT, replace(MENDED, uid="u2", question_id="q2")]),
        ("trees", SearchTree, [TREE, replace(TREE, question_id="q2")]),
    ):
        (tmp_path / table).mkdir()
        write_parquet(tmp_path / table / "part-00000-x.parquet", record, rows)
    (tmp_path / "run.json").write_text("{}")
    return tmp_path


def test_rows_are_found_by_uid_question_and_kind(run_folder: Path) -> None:
    def uids(id: str | None = None, kind: str | None = None, count: int = 9) -> list[str]:
        return [row.uid for row in run_views.find_trajectories(run_folder, id, kind, count)]

    assert uids() == ["u1", "u2"] and uids(count=1) == ["u1"]
    assert uids("u2") == uids("q2") == uids(kind="reasoning") == ["u2"]
    assert [tree.question_id for tree in run_views.find_trees(run_folder, "u2", 9)] == ["q2"]
    assert [tree.question_id for tree in run_views.find_trees(run_folder, None, 9)] == ["q1", "q2"]
    example = run_views.example(run_folder)
    assert example is not None and example.uid == "u2"


def test_what_is_not_there_is_said_in_one_line(run_folder: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no trajectory u9 in this run"):
        run_views.find_trajectories(run_folder, "u9", None, 1)
    with pytest.raises(InvalidInput, match="no kind 'funny'; there are correct, retrieval, reasoning, decomposition"):
        run_views.find_trajectories(run_folder, None, "funny", 1)
    with pytest.raises(InvalidInput, match="no such run folder"):
        run_views.find_trees(run_folder / "none", None, 1)
    with pytest.raises(InvalidInput, match="not a run folder"):
        run_views.find_trees(run_folder / "trees", None, 1)


@pytest.fixture
def bundles_folder(tmp_path: Path) -> Path:
    other = Bundle(uid="b2", document_ids=("x:1", "x:2"), sources=("x", "y"), cohesion=0.5, theme="")
    for table, record, rows in (
        ("bundle_questions", BundleQuestion, [ASKED, CHOICE]),
        ("bundle_inputs", BundleInput, [HELD, BundleInput(id="b2", bundle=other, documents=(PAPER,))]),
    ):
        (tmp_path / table).mkdir()
        write_parquet(tmp_path / table / "part-00000-x.parquet", record, rows)
    (tmp_path / "run.json").write_text('{"dataset": "document_bundles"}')
    return tmp_path


def test_questions_are_found_by_id_bundle_and_type(bundles_folder: Path) -> None:
    def uids(id: str | None = None, type: str | None = None, count: int = 9) -> list[str]:
        return [row.uid for row in run_views.find_questions(bundles_folder, id, type, count)]

    assert run_views.dataset_of(bundles_folder) == "document_bundles"
    assert uids() == ["q", "q2"] and uids(count=1) == ["q"]
    assert uids("q2") == uids("b2") == uids(type="multiple_choice") == ["q2"]
    assert run_views.question_types(bundles_folder) == Counter(factual=1, multiple_choice=1)
    with pytest.raises(InvalidInput, match="no type 'funny'; there are factual, causal, single_choice"):
        uids(type="funny")
    with pytest.raises(InvalidInput, match="no question causal in this run"):
        uids(type="causal")


def test_bundles_are_found_by_id_and_document(bundles_folder: Path) -> None:
    def uids(id: str | None = None) -> list[str]:
        return [item.id for item in run_views.find_bundles(bundles_folder, id, 9)]

    assert uids() == ["b", "b2"] and uids("arxiv:2") == ["b"] and uids("b2") == ["b2"]
    with pytest.raises(InvalidInput, match="no bundle none in this run"):
        uids("none")
