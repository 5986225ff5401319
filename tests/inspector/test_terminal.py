"""Rows in a terminal: any width will do, and no text of a passage or a model is taken for a command."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType

from tests.filters.kg.test_episodes import FIRST as FOUND
from tests.filters.kg.test_episodes import SECOND as SOUGHT
from tests.filters.kg.test_episodes import episode, triple
from tests.inspector.bundle_run import write_kg
from tests.support.bundle_questions import BUNDLE, PAPER, STREET, choice, question
from tests.support.graph_questions import question as kg_question
from tests.support.rows import DIED, FIRST, PLAN, QUESTION, SECOND, trajectory
from trailforge.inspector import terminal, terminal_drawing
from trailforge.inspector.showing import count_kinds, find_rows, hints_of, show_of
from trailforge.pipelines.datasets import load_dataset
from trailforge.pipelines.runs.finished import OpenRun, open_run
from trailforge.pipelines.runs.intake import Settings
from trailforge.pipelines.show.common import count_searches
from trailforge.schemas import (
    Bundle,
    BundleHop,
    BundleInput,
    BundleLink,
    BundleQuestion,
    Count,
    DroppedSplits,
    EntityMatch,
    FileEntry,
    FilterScore,
    Hop,
    InvalidInput,
    KgQuestion,
    KgTrajectory,
    Manifest,
    Message,
    Node,
    Passage,
    RejectedRow,
    Rollout,
    SearchTree,
    SourceDocument,
    StageCount,
    Trajectory,
    to_dict,
    write_parquet,
)

CORRECT = trajectory()
MENDED = trajectory(FIRST, DIED, SECOND, error="reasoning")
_RIGHT = Rollout(
    index=0, node=1, variation="none", varied_step=None, steps=(FIRST, SECOND), answer="Vienna", reward=1.0
)
_WRONG = replace(_RIGHT, index=1, variation="query", varied_step=1, steps=(FIRST, DIED), answer="", reward=0.0)
TREE = SearchTree(
    question_id=QUESTION.id, question=QUESTION.question, answer=QUESTION.answer, answer_aliases=(),
    nodes=(
        Node(
            id=0, parent=None, plan=(QUESTION.question,), origin="policy", visits=2, value=0.5, decomposable=(True,),
            depth=0,
        ),
        Node(id=1, parent=0, plan=PLAN, origin="policy", visits=2, value=0.5, decomposable=(False, False), depth=1),
    ),
    rollouts=(_RIGHT, _WRONG), stop_reason="exhausted", oracle_used=True, dropped_splits=DroppedSplits(), rounds=3,
    max_depth=1, calls=7, prompt_tokens=100, completion_tokens=20, cost=0.0,
)  # fmt: skip
MANIFEST = Manifest(
    run_id="mcts_trajectories-0123456789ab", dataset="mcts_trajectories", schema_versions=(), config_hash="0" * 12,
    inputs=(FileEntry(path="q.jsonl", rows=2, sha256="0" * 64),),
    stages=(StageCount(name="read", inputs=2, accepted=1, rejected=(Count(reason="invalid_input", count=1),)),),
    files=(), model="scripted", calls=1234, prompt_tokens=5678, completion_tokens=90, cut_replies=3, cost=0.5,
    seconds=3.2, calls_per_accepted_row=None, cost_per_accepted_row=None, trailforge_version="0",
)  # fmt: skip
ASKED = question(
    dag_text="Nodes:\nA: designer of the turbine (News)\nB: where that designer studied (Academic)\nEdges:\nA -> B",
    filters=(FilterScore(name="closed_book", score=0.25, passed=True),), curriculum_stage=3, complexity=0.456,
)  # fmt: skip
CHOICE = replace(choice("B", "C", "E"), uid="q2", bundle_id="b2", dag_text=ASKED.dag_text)
HELD = BundleInput(id=BUNDLE.uid, bundle=BUNDLE, documents=(STREET, PAPER))
EPISODE = episode(FOUND, replace(SOUGHT, triples_offered=(triple("a", "r", "b"),)))
OF_GRAPH = replace(kg_question(), filters=(FilterScore(name="right_from_memory", score=0.25, passed=True),))
MATCH = EntityMatch(
    entity_id="Q1", label="Metropolis", name="Metropolis (film)", kind="alias", score=0.987, margin=0.1, overlap=0,
    degree=3,
)  # fmt: skip
EMPTY = OpenRun(
    folder=Path("none"), run_id="r", dataset="any", config={}, sources=(), manifest=None, books=(), tables=()
)
HOMES = {
    Trajectory: ("mcts_trajectories", "mcts_trajectories"),
    SearchTree: ("mcts_trajectories", "trees"),
    BundleQuestion: ("document_bundles", "bundle_questions"),
    BundleInput: ("document_bundles", "bundle_inputs"),
    KgTrajectory: ("kg_trajectories", "kg_trajectories"),
    KgQuestion: ("kg_questions", "kg_questions"),
}
"""By record its data set and its table."""


def view(row: Any) -> RenderableType:
    """A row as its data set shows it, of a run that holds nothing else."""
    dataset, table = HOMES[type(row)]
    shown = show_of(dataset).table(table)
    assert shown is not None
    return terminal_drawing.view(shown.describe(EMPTY, row), getattr(row, "uid", ""), table)


ROWS = {
    "trajectory": CORRECT,
    "mended trajectory": MENDED,
    "tree": TREE,
    "question": ASKED,
    "choice": CHOICE,
    "bundle": HELD,
    "episode": EPISODE,
    "graph question": OF_GRAPH,
}
VIEWS: dict[str, RenderableType] = {name: view(row) for name, row in ROWS.items()} | {
    "figures": terminal.figures(MANIFEST, Counter(correct=1, reasoning=1)),
    "found": terminal_drawing.kg_result([MATCH], [triple("Metropolis", "director", "Fritz Lang")]),
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


def in_one_line(text: str) -> str:
    """Lines joined."""
    return " ".join(text.split())


@pytest.mark.parametrize("width", [1, 8, 20, 40, 80, 300])
@pytest.mark.parametrize("name", VIEWS)
def test_every_view_fits_any_terminal(name: str, width: int) -> None:
    lines = shown(VIEWS[name], width=width).splitlines()
    assert lines and max(map(len, lines)) <= width


def test_a_narrow_terminal_loses_no_word_of_a_trajectory() -> None:
    """Tags stand between words without a space, so such a run of words may be longer than a line and be broken."""
    text = words(shown(VIEWS["mended trajectory"], width=40)).replace(" ", "")
    for message in MENDED.messages:
        assert words(message.content).replace(" ", "") in text


def test_a_trajectory_is_shown_turn_by_turn_with_its_mistake_and_its_reward() -> None:
    text = shown(VIEWS["mended trajectory"])
    assert "reasoning error" in text and MENDED.uid in text and "gold answer Vienna" in text
    at = 0
    for message in MENDED.messages:
        at = text.index(f"╭─ {message.role}", at) + 1
        at = text.index(message.content.splitlines()[0][:60], at) + 1
    assert "mistake at step 2: In which city was Fritz Lang born? → Beverly Hills" in in_one_line(text)
    assert text.count("(not trained)") == sum(not m.train for m in MENDED.messages)
    assert "cover_exact_match" in text and "model calls (1)" in text
    assert "mistake at" not in shown(VIEWS["trajectory"])


def test_a_tree_is_shown_with_visits_values_and_answers() -> None:
    text = shown(VIEWS["tree"], width=200)
    assert "stopped: exhausted" in text and "3 rounds, depth 1" in text and "oracle joined" in text
    assert "1 policy leaf N=2 V=0.50  1. Who directed Metropolis? | 2. In which city was #1 born?" in text
    assert "correct rollout 0 (plain) Fritz Lang -> Vienna" in text
    assert "wrong rollout 1 (query of step 2 reworded) Fritz Lang -> Beverly Hills" in text


def test_an_empty_answer_is_said_to_be_nothing() -> None:
    silent = replace(_WRONG, steps=(replace(FIRST, answer=""),))
    assert "(nothing)" in shown(view(replace(TREE, rollouts=(silent,))))


def test_figures_show_funnel_kinds_and_cost() -> None:
    text = in_one_line(shown(VIEWS["figures"]))
    assert "read │ 2 │ 1 │ invalid_input 1" in text
    assert "1,234 │ 3 │ 5,678 │ 90 │ 0.5000 │ 3 │ - │ -" in text


def test_an_episode_is_shown_turn_by_turn_with_what_its_searches_matched() -> None:
    text = shown(VIEWS["episode"], width=200)
    assert "2 searches for" in text and "r_penalty" in text
    assert "step 1: N → N  triples 0 of 0  documents 2  answer Fritz Lang" in text
    assert "step 2: N → N  triples 0 of 1  documents 2  answer Vienna" in text
    assert text.count("╭─") == len(EPISODE.messages)
    lost = replace(FOUND, entities=(replace(FOUND.entities[0], entity_id=None, label=None),), answer=None)
    assert "step 1: N → nothing" in shown(view(replace(EPISODE, steps=(lost,))), width=200)


def test_one_search_is_told_in_the_singular() -> None:
    told = [count_searches(*each).text for each in ((1, 2), (2, 1), (0, 0))]
    assert told == ["1 search for 2 hops", "2 searches for 1 hop", "0 searches for unknown hops"]


def test_a_question_of_a_graph_is_shown_with_its_facts_hops_and_scores() -> None:
    text = shown(VIEWS["graph question"], width=200)
    assert "2 facts, one fact after the other" in text and "as of 2021-05-01" in text
    assert OF_GRAPH.question in text and "Elmton" in text
    assert "✓ 0.25 how near the model comes from memory, 0 to 1 (right_from_memory)" in text
    assert "Red Dust | director | Cy Cedar" in text and f"1. {OF_GRAPH.decomposition[0].question} → Cy Cedar" in text
    assert "as of unknown" in shown(view(replace(OF_GRAPH, as_of="")), width=200)


def test_a_question_is_shown_with_evidence_plan_and_scores() -> None:
    text = in_one_line(shown(VIEWS["question"], width=200))
    assert "bundle_questions q" in text and "complexity 0.46 curriculum stage 3" in text
    assert ASKED.question in text and "University of Bergen" in text
    assert "names her “the turbine that Mara Lind designed”" in text
    assert "A: designer of the turbine (News)" in text and "A -> B" in text
    assert "✓ 0.25 share of the draws without any document that are right, less chance" in text


def test_options_are_shown_by_letter_and_the_right_ones_are_marked() -> None:
    text = in_one_line(shown(VIEWS["choice"], width=200))
    assert "A. option 0 B. option 1 ✓" in text and "F. option 5" in text and "F. option 5 ✓" not in text


def test_a_bundle_is_shown_with_the_beginning_of_each_document() -> None:
    long = replace(PAPER, text="ŷ" * 900, published=None)
    text = shown(view(replace(HELD, documents=(STREET, long))), width=200)
    assert "tide mill" in text and "cohesion 0.60" in text
    assert "A prize for tides ─" in text and "1 · news · 2025-05-02" in text and STREET.text.splitlines()[1] in text
    assert text.count("ŷ") == 400 and "…" in text
    untitled = shown(view(replace(HELD, documents=(replace(STREET, title="A very long title " * 9), long))), width=80)
    assert "1 · news · 2025-05-02" in untitled, "a long title leaves source and date whole"
    assert "2 · arxiv · no date" in untitled


def test_a_score_that_passed_is_told_in_words_and_one_that_did_not_by_its_fault() -> None:
    failed = FilterScore(name="poor_question", score=0.0, passed=False, reason="not_asked: the year")
    passed = FilterScore(name="bad_options", score=1.0, passed=True)
    text = shown(view(replace(ASKED, filters=(passed, failed))), width=200)
    lines = [line.strip() for line in text.splitlines() if line.startswith(("✓", "✗"))]
    assert lines == [
        "✗ 0 poor_question: not_asked: the year (an editor who sees its documents finds no fault with it: 1 for yes)",
        "✓ 1 options and answer have the form that the type asks for: 1 for yes (bad_options)",
    ]


# What no text may do


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


def evil_episode() -> KgTrajectory:
    link = replace(FOUND.entities[0], mention=EVIL, label=EVIL)
    messages = tuple(Message(role=role, content=EVIL, train=False) for role in ("user", "assistant", "tool"))
    steps = (replace(FOUND, entities=(link,), answer=EVIL),)
    return replace(EPISODE, uid=EVIL, answer=EVIL, question_id=EVIL, steps=steps, messages=messages)


def evil_graph_question() -> KgQuestion:
    hop = Hop(question=EVIL, answer=EVIL)
    return replace(OF_GRAPH, uid=EVIL, question=EVIL, answer=EVIL, path=(EVIL,), decomposition=(hop,), as_of=EVIL)


def evil_bundle() -> BundleInput:
    document = replace(STREET, source=EVIL, title=EVIL, text=EVIL, published=EVIL)
    return BundleInput(id=EVIL, bundle=replace(BUNDLE, uid=EVIL, theme=EVIL), documents=(document, PAPER))


EVIL_VIEWS = {
    "trajectory": lambda: view(evil_trajectory()),
    "tree": lambda: view(evil_tree()),
    "question": lambda: view(evil_question()),
    "bundle": lambda: view(evil_bundle()),
    "episode": lambda: view(evil_episode()),
    "graph question": lambda: view(evil_graph_question()),
    "figures": lambda: terminal.figures(
        replace(MANIFEST, run_id=EVIL, stages=(StageCount(name=EVIL, inputs=1, accepted=1),)), Counter()
    ),
    "found": lambda: terminal_drawing.kg_result(
        [replace(MATCH, entity_id=EVIL, label=EVIL, name=EVIL)], [triple(EVIL, EVIL, EVIL)]
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
    text = in_one_line(shown(EVIL_VIEWS[name](), width=1000))
    assert "[bold]markup[/bold] [/] [link=http://evil]x[/link] [@click=app.quit]q" in text
    assert "\\[bold]" not in text


@pytest.mark.parametrize("end", ["\\", "\\\\", "[", "[/"])
def test_a_text_cannot_undo_the_escaping_of_what_follows_it(end: str) -> None:
    tree = replace(TREE, question=f"odd{end}", nodes=(replace(TREE.nodes[0], plan=(f"plan{end}",)),), rollouts=())
    text = shown(view(tree), width=200)
    assert f"odd{end}" in text and f"plan{end}" in text and "gold" in text and "[dim]" not in text


def test_a_wide_or_empty_text_is_shown() -> None:
    messages = tuple(
        Message(role="tool", content=c, train=False) for c in ("", "検索" * 50, "e\u0301" * 50, "👩‍👩‍👧" * 20)
    )
    for width in (10, 80):
        assert shown(view(replace(CORRECT, messages=messages)), width=width)


# Which rows are found


def write_run(folder: Path, dataset: str, **tables: Sequence[Any]) -> Path:
    """A run that is not finished, of these rows."""
    for table, rows in tables.items():
        (folder / table).mkdir()
        write_parquet(folder / table / "part-00000-x.parquet", type(rows[0]), list(rows))
    settings = Settings(
        dataset=dataset, run_id="run", config_hash="c", config="{}", sources=(), limit=None, shards=(), files=(),
        books=(),
    )  # fmt: skip
    (folder / "run.json").write_text(json.dumps(to_dict(settings)))
    return folder


def opened(folder: Path, dataset: str) -> OpenRun:
    """Without its books, which need shards."""
    tables = tuple(sorted(path.name for path in folder.iterdir() if path.is_dir()))
    return replace(EMPTY, folder=folder, dataset=dataset, tables=tables, _open={}, _places={}, _read={})


def found(run: OpenRun, **wanted: Any) -> list[str]:
    """Keys of the rows that are found."""
    rows = find_rows(run, **{"count": 9, **wanted})
    return [run.row(rows.table, number)[run.key_of(rows.table)] for number in rows.numbers]


REJECTED = RejectedRow(
    uid="r1",
    stage="filter",
    reason="no_answer",
    score=0.5,
    detail="none is given",
    payload=json.dumps(to_dict(CORRECT)),
)


@pytest.fixture
def trajectories(tmp_path: Path) -> OpenRun:
    rows = [CORRECT, replace(MENDED, uid="u2", question_id="q2")]
    trees = [TREE, replace(TREE, question_id="q2")]
    write_run(tmp_path, "mcts_trajectories", mcts_trajectories=rows, trees=trees, rejected=[REJECTED])
    return opened(tmp_path, "mcts_trajectories")


def test_rows_are_found_by_uid_question_and_kind(trajectories: OpenRun) -> None:
    assert found(trajectories) == ["u1", "u2"] and found(trajectories, count=1) == ["u1"]
    assert (
        found(trajectories, id="u2") == found(trajectories, id="q2") == found(trajectories, kind="reasoning") == ["u2"]
    )
    assert found(trajectories, id="u2", table="trees") == ["q2"]
    assert found(trajectories, table="trees") == ["q1", "q2"]
    assert found(trajectories, search="question_id:q2") == found(trajectories, search="-uid:u1", count=1) == ["u2"]
    assert found(trajectories, search="question_id:q", kind="reasoning", lowest="reward.total") == ["u2"]
    assert count_kinds(trajectories) == Counter(correct=1, reasoning=1, retrieval=0, decomposition=0)


@pytest.mark.parametrize(
    ("tables", "hints"),
    [
        ({"mcts_trajectories": [CORRECT], "trees": [TREE]}, ["--tree"]),
        ({"mcts_trajectories": [CORRECT, MENDED], "trees": [TREE]}, ["--kind reasoning", "--tree"]),
        ({"trees": [TREE], "rejected": [REJECTED]}, ["--table rejected"]),
        ({"trees": [TREE]}, []),
    ],
)
def test_at_its_end_a_run_names_commands_that_find_rows_as_a_shell_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tables: Any, hints: list[str]
) -> None:
    folder = tmp_path / "a [b]"
    folder.mkdir()
    run = opened(write_run(folder, "mcts_trajectories", **tables), "mcts_trajectories")
    monkeypatch.setattr(terminal, "open_run", lambda folder: run)
    terminal.show_end(MANIFEST, folder)
    commands = [line[2:] for line in capsys.readouterr().out.splitlines() if line.startswith("  trailforge")]
    shows = [f"trailforge show '{folder}' {options}" for options in hints]
    assert commands == [f"trailforge inspect '{folder}'", *shows, f"trailforge verify '{folder}'"]


def test_a_preview_that_kept_nothing_shows_what_was_rejected_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rejected = [replace(REJECTED, uid=f"r{number}", detail=f"not in {number}") for number in range(4)]
    run = opened(write_run(tmp_path, "mcts_trajectories", rejected=rejected), "mcts_trajectories")
    monkeypatch.setattr(terminal, "open_run", lambda folder: run)
    terminal.show_first(MANIFEST, tmp_path)
    printed = capsys.readouterr().out
    assert printed.count("no_answer") == 3 and "not in 2" in printed and "not in 3" not in printed


def test_a_rejection_of_which_no_row_came_shows_what_was_worked_on(tmp_path: Path) -> None:
    unsolved = replace(REJECTED, uid="q1", stage="solve", payload=json.dumps({"question_id": "q1"}))
    unasked = replace(unsolved, uid="q3", stage="search", payload=json.dumps({"question_id": "q3"}))
    asked = replace(QUESTION, id="q3", question="Who asked this?")
    unknown = replace(unsolved, uid="q9")
    tables = {"trees": [TREE], "inputs": [asked], "rejected": [unsolved, unasked, unknown]}
    run = opened(write_run(tmp_path, "mcts_trajectories", **tables), "mcts_trajectories")
    texts = [shown(terminal.row(run, "rejected", number)) for number in range(3)]
    assert QUESTION.question in texts[0] and "2 rollouts" in texts[0] and "Who asked this?" in texts[1]
    assert "question_id" in texts[2] and "?" not in texts[2]


def test_an_id_is_found_in_whatever_table_has_it(trajectories: OpenRun) -> None:
    rejected = find_rows(trajectories, id="r1")
    assert (rejected.table, rejected.numbers) == ("rejected", (0,))
    text = shown(terminal.row(trajectories, "rejected", 0))
    assert "no_answer" in text and CORRECT.question in text and "cover_exact_match" in text
    assert find_rows(trajectories, id="q2").elsewhere == ("trees",)


@pytest.mark.parametrize(
    "more", [{"search": "given"}, {"search": "reason:no_answer"}, {"search": "score<1"}, {"lowest": "score"}]
)
def test_an_id_is_found_in_whatever_table_has_it_beside_a_search(trajectories: OpenRun, more: dict[str, Any]) -> None:
    """A table that has no such field has no such row."""
    rejected = find_rows(trajectories, id="r1", **more)
    assert (rejected.table, rejected.numbers, rejected.elsewhere) == ("rejected", (0,), ())


@pytest.mark.parametrize("more", [{"search": "nothing:like"}, {"lowest": "nothing"}])
def test_a_field_that_no_table_has_is_said_beside_an_id(trajectories: OpenRun, more: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="nothing"):
        find_rows(trajectories, id="r1", **more)


def test_what_is_not_there_is_said_in_one_line(trajectories: OpenRun) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"id": "u9"}, "no row u9 in mcts_trajectories, trees, rejected"),
        ({"id": "u9\udcff"}, "no row u9\\udcff in mcts_trajectories, trees, rejected"),
        ({"id": "u1", "search": "nowhere"}, "no row u1 with nowhere in mcts_trajectories, trees, rejected"),
        ({"kind": "funny"}, "no kind 'funny'; there are correct, retrieval, reasoning, decomposition"),
        ({"kind": "retrieval"}, "no row of kind retrieval"),
        ({"table": "funny"}, "no table 'funny'; there are mcts_trajectories, trees, sft, inputs, rejected"),
        ({"table": "sft"}, "no row in sft"),
    ]
    for wanted, problem in cases:
        with pytest.raises(InvalidInput, match=re.escape(problem)) as caught:
            find_rows(trajectories, **wanted)
        assert "\n" not in str(caught.value)


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such run folder"):
        open_run(tmp_path / "none")
    with pytest.raises(InvalidInput, match="not a run folder"):
        open_run(tmp_path)


def test_questions_and_bundles_are_found_by_what_they_belong_to(tmp_path: Path) -> None:
    other = Bundle(uid="b2", document_ids=("x:1", "x:2"), sources=("x", "y"), cohesion=0.5, theme="")
    write_run(tmp_path, "document_bundles", bundle_questions=[ASKED, CHOICE], bundles=[BUNDLE, other])
    run = opened(tmp_path, "document_bundles")
    assert found(run) == ["q", "q2"] and found(run, id="q2") == found(run, id="b2") == ["q2"]
    assert found(run, kind="multiple_choice") == ["q2"]
    assert found(run, id="arxiv:2") == ["b"] and found(run, id="b2", table="bundles") == ["b2"]
    assert count_kinds(run) == Counter(factual=1, multiple_choice=1, causal=0, single_choice=0)


def links_of(*documents: SourceDocument, cosine: float = 0.7, copied: float = 0.1) -> tuple[BundleLink, ...]:
    return tuple(
        BundleLink(first=one.id, second=two.id, cosine=cosine, names=("orkney",), shared=5.0, copied=copied)
        for one, two in combinations(documents, 2)
    )


def test_bundles_are_listed_in_five_lines_each_at_most_with_date_and_source_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "The Office of the Senior Senator"
    four = tuple(
        replace(STREET, id=f"n:{n}", source=f"{long} {n}", title="A title " * 30, published=day)
        for n, day in enumerate(("2025-05-02", "2025-05-02", "2025-05-02", None))
    )  # fmt: skip
    weak = Bundle(
        uid="weak", document_ids=tuple(d.id for d in four), sources=tuple(d.source for d in four), cohesion=0.5,
        theme="t", links=links_of(*four, cosine=0.6), askable=2,
    )  # fmt: skip
    strong = replace(BUNDLE, links=links_of(STREET, PAPER), askable=3)
    items = [
        BundleInput(id="b", bundle=strong, documents=(STREET, PAPER)),
        BundleInput(id="weak", bundle=weak, documents=four),
    ]
    write_run(tmp_path, "document_bundles", bundles=[strong, weak], bundle_inputs=items, bundle_questions=[ASKED])
    run = opened(tmp_path, "document_bundles")
    run.config["bundles"] = {"min_cosine": 0.55, "min_shared": 4.0}
    monkeypatch.setattr(terminal, "open_run", lambda folder: run)
    monkeypatch.setenv("COLUMNS", "80")
    terminal.show_rows(tmp_path, table="bundles", lowest="least_cosine", count=9)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 + 3 and max(map(len, lines)) <= 80
    assert lines[0].startswith("weak not asked · cosine 0.60 ≥ 0.55 · names 5.00 ≥ 4 · shared text 10%")
    assert [line[:46] for line in lines[1:4]] == [f"  2025-05-02  {long}"] * 3 and lines[1].endswith("…")
    assert lines[4].startswith(f"  no date     {long} 3")
    assert lines[5].startswith("b kept · cosine 0.70") and "2025-04-20  arxiv  Blades for slow water" in lines[7]
    terminal.show_rows(tmp_path, table="bundles", id="weak")
    assert "Why they are together" in capsys.readouterr().out, "one that is asked for is shown whole"


def test_bundles_are_found_by_what_came_of_them_and_ordered_by_any_number(tmp_path: Path) -> None:
    other = replace(BUNDLE, uid="b2", links=links_of(STREET, PAPER, cosine=0.6))
    third = replace(BUNDLE, uid="b3", askable=1)
    known = replace(BUNDLE, links=links_of(STREET, PAPER), askable=2)
    write_run(tmp_path, "document_bundles", bundle_questions=[ASKED], bundles=[known, other, third])
    run = opened(tmp_path, "document_bundles")
    assert found(run, table="bundles", kind="kept") == ["b"]
    assert found(run, table="bundles", kind="not asked") == ["b2", "b3"]
    assert found(run, table="bundles", lowest="least_cosine") == ["b2", "b"]
    assert found(run, table="bundles", lowest="askable") == ["b3", "b"]
    assert found(run, table="bundles", lowest="least_cosine", kind="kept") == ["b"]
    for column in ("theme", "nothing"):
        with pytest.raises(InvalidInput, match=column):
            found(run, table="bundles", lowest=column)


def test_a_run_of_bundles_alone_names_the_command_that_lists_them(tmp_path: Path) -> None:
    write_run(tmp_path, "document_bundles", bundles=[BUNDLE])
    assert hints_of(opened(tmp_path, "document_bundles")) == ["--table bundles --count 20 --lowest least_cosine"]


def test_episodes_and_pairs_are_found_by_the_ids_of_each_other(tmp_path: Path) -> None:
    write_kg(tmp_path)
    run = opened(tmp_path, "kg_trajectories")
    good = found(run)[0]
    assert find_rows(run, id=good).elsewhere == ("pairs",)
    assert found(run, id="p") == found(run, id=good, table="pairs") == ["p"]
    text = shown(terminal.row(run, "pairs", 0), width=200)
    assert "reward 1.500" in text and "reward 0.600" in text and "wrong_answer" in text


def test_both_sides_of_a_pair_have_their_rewards_part_by_part(tmp_path: Path) -> None:
    write_kg(tmp_path)
    run = opened(tmp_path, "kg_trajectories")
    row, bad = (
        replace(run.record(name, 0), **{of: "bad"}) for name, of in (("pairs", "bad_uid"), ("kg_trajectories", "uid"))
    )
    table = show_of("kg_trajectories").table("pairs")
    assert table is not None
    assert shown(terminal_drawing.view(table.describe(run, row), "p", "pairs"), width=300).count("r_acc + r_gain") == 1
    (tmp_path / "rejected").mkdir()
    put_aside = replace(REJECTED, uid="bad", payload=json.dumps(to_dict(bad)))
    write_parquet(tmp_path / "rejected" / "part-00000-x.parquet", RejectedRow, [put_aside])
    parts = table.describe(opened(tmp_path, "kg_trajectories"), row)
    assert shown(terminal_drawing.view(parts, "p", "pairs"), width=300).count("r_acc + r_gain") == 2


def test_a_data_set_that_declares_no_show_is_shown_field_by_field(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = replace(load_dataset("kg_questions"), show=None)
    monkeypatch.setattr("trailforge.inspector.showing.load_dataset", lambda name: silent)
    plain = show_of.__wrapped__("kg_questions")
    assert [table.name for table in plain.tables] == ["kg_questions", "candidates"]
    assert plain.tables[0].columns[:2] == ["uid", "question"]
    assert OF_GRAPH.question in shown(
        terminal_drawing.view(plain.tables[0].describe(EMPTY, OF_GRAPH), "k", "kg_questions")
    )


def test_questions_of_a_graph_are_found_by_their_entities(tmp_path: Path) -> None:
    rows = [OF_GRAPH, replace(OF_GRAPH, uid="k2", shape="intersection", entities=("elmton",))]
    run = opened(write_run(tmp_path, "kg_questions", kg_questions=rows), "kg_questions")
    assert found(run, id="elmton") == [OF_GRAPH.uid, "k2"] and found(run, kind="intersection") == ["k2"]
    assert found(run, id="cy cedar") == [OF_GRAPH.uid]
