"""Show trajectories and the search trees behind them to people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from trailforge.generators.mcts_trajectories.show_mended import mended
from trailforge.generators.mcts_trajectories.telling.story import story_in_conversation
from trailforge.pipelines.runs import OpenRun
from trailforge.pipelines.show import (
    Chips,
    Columns,
    Conversation,
    Grid,
    GridRow,
    Line,
    Note,
    Option,
    Part,
    Parts,
    Selector,
    Show,
    ShownNode,
    ShownTable,
    StyledText,
    Tab,
    Tabs,
    TreeDiagram,
    TreePath,
    tab,
)
from trailforge.pipelines.show.common import (
    ORIGINS,
    QUESTIONS,
    SFT,
    head,
    kind_chips,
    passages,
    reward,
    sft_row,
    size_chips,
)
from trailforge.pipelines.show.marks import Marked
from trailforge.rewards import same_answer
from trailforge.schemas import Node, Rollout, SearchTree, SftRow, Step, StepPair, Trajectory

_STOPPED = {
    "satisfied": "the tree has the rollouts that its rows need",
    "budget": "calls or rounds ran out",
    "exhausted": "nothing was left that a further round could change",
}
_SHAPES = {
    "policy": ("circle", "by the policy"),
    "rule": ("square", "by rules"),
    "oracle": ("diamond", "gold decomposition"),
}
_ROLES = {"wrong": ("wrong rollout", "wrong"), "mended": ("right rollout", "mended"), "row": ("this row", "mended")}


def trajectory(run: OpenRun, row: Trajectory) -> Parts:
    """Return what the inspector shows of a row of `mcts_trajectories`."""
    chips = [*kind_chips(row), *size_chips(row)]
    tree = _tree_of(run, row.question_id)
    gold = Marked(kind="gold", answers=(row.answer, *row.answer_aliases))
    tabs = [
        tab("Conversation", lambda: [Conversation(row.messages, turns_of_mistake(row), golds=gold.answers)]),
        Tab("Steps", lambda: [steps(row.steps, gold, _kinds(row))]),
        tab("Reward and provenance", lambda: reward(row)),
    ]
    if tree is not None:
        behind = _behind(row.step_pair, row.right_rollout)
        tabs.insert(2, Tab("Search tree", lambda: [Chips(_facts(tree)), _drawn(tree, behind)]))
    if row.kind == "reflective":
        tabs.insert(0, Tab("Wrong and mended", lambda: mended(row, tree)))
    shown = head(row.question, row.answer, row.answer_aliases, row.final_answer, row.reward.total > 0, chips)
    return [*shown, *_mistakes(row), Tabs(tabs)]


def search_tree(run: OpenRun, tree: SearchTree) -> Parts:
    """Return what the inspector shows of a row of `trees`."""
    return [*head(tree.question, tree.answer, tree.answer_aliases, None, False, _facts(tree)), _drawn(tree, {})]


def _sft(run: OpenRun, row: SftRow) -> Parts:
    """One row of `sft`, with the notes of its trajectory where the run keeps that."""
    number = run.find("mcts_trajectories", row.trajectory_uid)
    made_of = None if number is None else run.record("mcts_trajectories", number)
    return sft_row(run, row, turns_of_mistake(made_of) if made_of else {})


def turns_of_mistake(row: Trajectory) -> dict[int, StyledText]:
    """Return notes, by the index of the turn, for the turns of a conversation that ask and search the wrong step, take
    it back, and mend it.

    A step's answer stands in the turn after its search. So the turn after a wrong step has the wrong answer, the
    reflection and the next search, or the better answer itself where the same passages are only read again.
    """
    mistake = _mistake(row)
    turns = [number for number, message in enumerate(row.messages) if message.role == "assistant"]
    if mistake is None or mistake + 1 >= len(row.steps):
        return {}
    story = story_in_conversation(row)
    searches = story.searches()
    if mistake not in searches or len(turns) <= (asked := searches.index(mistake)) + 1:
        return {}  # `verify` says what is wrong with a conversation that is not of these steps
    asks, mends = turns[asked], turns[asked + 1]
    notes = {asks: StyledText("begins the step that goes wrong", "wrong")}
    notes |= {number: StyledText("what the wrong step found", "wrong") for number in range(asks + 1, mends)}
    if story.rereads(mistake + 1):
        return notes | {mends: StyledText("the wrong answer, the reflection, and the right answer", "mended")}
    search = "the better search" if row.reflection_error == "retrieval" else "the next search"
    notes[mends] = StyledText(f"the wrong answer, the reflection, and {search}", "mended")
    after = turns[asked + 2] if asked + 2 < len(turns) else len(row.messages)
    return notes | {number: StyledText("what the mended step found", "mended") for number in range(mends + 1, after)}


def steps(found: tuple[Step, ...], gold: Marked, kinds: Mapping[int, str] | None = None) -> Grid:
    """Return a table of all steps in which the words of `gold` are marked. `kinds` marks steps, by position from 0, as
    `wrong` or `mended`; None marks none.
    """
    rows = [_step(step, gold, (kinds or {}).get(place, "")) for place, step in enumerate(found)]
    return Grid(("", "sub-question and query", "answer", "passages"), rows, (0.2, 1.1, 0.6, 1.5))


def _step(step: Step, gold: Marked, kind: str) -> GridRow:
    marks = (gold, Marked(kind="wrong" if kind == "wrong" else "step", answers=(step.answer,)))
    is_gold = any(same_answer(step.answer, each) for each in gold.answers)
    sample = f"\nanswer drawn anew, sample {step.answer_sample}" if step.answer_sample else ""
    answer = (
        StyledText(step.answer, "gold" if is_gold else marks[1].kind),
        StyledText(sample, "quiet"),
        StyledText(f"\n{kind}", "quiet"),
    )
    searched: Line = (StyledText("\nsearched as it stands", "quiet"),)
    if step.query != step.sub_question:
        word = "reworded query" if step.query_rephrased else "query"
        searched = (StyledText(f"\n{word} ", "quiet"), step.query)
    cells = (f"{step.index + 1}", (step.sub_question, *searched), answer, [passages(step.passages, marks)])
    return GridRow(cells, kind)


def _mistake(row: Trajectory) -> int | None:
    return next((place for place, step in enumerate(row.steps) if step.is_mistake), None)


def _kinds(row: Trajectory) -> dict[int, str]:
    mistake = _mistake(row)
    return {} if mistake is None else {mistake: "wrong", mistake + 1: "mended"}


def _mistakes(row: Trajectory) -> list[Part]:
    return [
        Note(
            (f"mistake at step {step.index + 1}: {step.query} → ", StyledText(step.answer or "nothing", "wrong")),
            "wrong",
        )
        for step in row.steps
        if step.is_mistake
    ]


def _tree_of(run: OpenRun, question_id: str) -> SearchTree | None:
    """The search behind a question's rows; None when the run keeps none."""
    number = run.find("trees", question_id, "question_id")
    return None if number is None else run.record("trees", number)


def _facts(tree: SearchTree) -> list[StyledText]:
    dropped = tree.dropped_splits
    lost = dropped.malformed + dropped.identical + dropped.no_progress + dropped.invalid
    which = (
        f"{dropped.malformed} malformed, {dropped.identical} identical, {dropped.no_progress} without progress, "
        f"{dropped.invalid} invalid"
    )
    facts = [
        StyledText(f"{len(tree.nodes)} plans"),
        StyledText(f"{len(tree.rollouts)} rollouts", "", f"{sum(r.reward > 0 for r in tree.rollouts)} of them right"),
        StyledText(f"stopped: {tree.stop_reason}", "", _STOPPED[tree.stop_reason]),
        StyledText(f"{tree.rounds} rounds, depth {tree.max_depth}"),
        StyledText(f"{tree.calls:,} model calls", "", f"{tree.prompt_tokens:,} + {tree.completion_tokens:,} tokens"),
        StyledText(f"{lost} splits dropped", "", which),
    ]
    if tree.cost:
        facts.append(StyledText(f"cost {tree.cost:.4f}", "", "in the currency of the configured prices"))
    if tree.oracle_used:
        facts.append(StyledText("oracle joined", "", ORIGINS["oracle"]))
    return facts


def _behind(pair: StepPair | None, right_rollout: int) -> dict[int, str]:
    """The rollouts that a trajectory is made of, each with its role: `wrong`, `mended` or `row`."""
    return {right_rollout: "row"} if pair is None else {pair.wrong_rollout: "wrong", pair.right_rollout: "mended"}


def _drawn(tree: SearchTree, behind: Mapping[int, str]) -> TreeDiagram:
    """The tree to click on. `behind`: rollouts that a row is made of, with their roles."""
    known = {index: role for index, role in behind.items() if 0 <= index < len(tree.rollouts)}
    paths = [
        TreePath(tree.rollouts[index].node, f"{_ROLES[role][0]} {index}", _ROLES[role][1])
        for index, role in known.items()
    ]
    own = {rollout.node for rollout in tree.rollouts}
    best = max(tree.nodes, key=lambda node: (node.id in own, node.value, node.visits))
    return TreeDiagram(
        head=(StyledText(tree.question, "strong"), StyledText("  gold ", "quiet"), tree.answer),
        nodes=[_node(tree, node) for node in tree.nodes], paths=paths, first=paths[-1].node if paths else best.id,
        behind=partial(_of_node, tree, behind), origins=_SHAPES,
    )  # fmt: skip


def _node(tree: SearchTree, node: Node) -> ShownNode:
    below = [_line(rollout) for rollout in tree.rollouts if rollout.node == node.id]
    leaf = () if any(node.decomposable) else (StyledText(" leaf", "quiet"),)
    return ShownNode(
        id=node.id, parent=node.parent, depth=node.depth, visits=node.visits, value=node.value, origin=node.origin,
        title=(StyledText(str(node.id), "strong"), " ", StyledText(node.origin, "mended"), *leaf),
        steps=node.plan, below=below,
    )  # fmt: skip


def _line(rollout: Rollout) -> Line:
    mark = StyledText("correct", "right") if rollout.reward else StyledText("wrong", "wrong")
    answers = " -> ".join(step.answer or "(nothing)" for step in rollout.steps)
    return (mark, StyledText(f" rollout {rollout.index} ({_varied(rollout)}) ", "quiet"), answers)


def _of_node(tree: SearchTree, behind: Mapping[int, str], id: int) -> Parts:
    """The plan of a node beside its rollouts."""
    node = tree.nodes[id]
    own = [rollout for rollout in tree.rollouts if rollout.node == id]
    splits = [*node.decomposable, *[False] * (len(node.plan) - len(node.decomposable))]
    value = f"V {node.value:.2f}, visits n {node.visits}, own rollouts {len(own)}" if node.visits else "no rollout"
    leaf = StyledText("leaf plan", "", "No sub-question may be split further; rows are made from such plans alone.")
    facts = [StyledText(f"depth {node.depth}"), StyledText(f"{node.origin} plan", "", ORIGINS[node.origin])]
    plan = [
        Note((f"{number}. {text}", StyledText("  may be split" if can else "", "quiet")))
        for number, (text, can) in enumerate(zip(node.plan, splits, strict=False), start=1)
    ]
    left: Parts = [
        Note((StyledText(f"Node {id}", "strong"), StyledText(f"  {value}", "quiet"))),
        Chips([*facts, *([] if any(splits) else [leaf])]),
        *plan,
    ]
    if not own:
        return [Columns([left, [Note("This plan was never rolled out itself.")]], (2, 3))]
    gold = Marked(kind="gold", answers=(tree.answer, *tree.answer_aliases))
    first = next((place for place, each in enumerate(own) if behind.get(each.index) in ("mended", "row")), 0)
    options = [
        Option(
            f"Rollout {each.index}",
            partial(lambda found: [steps(found, gold)], each.steps),
            {
                "rollout": each.index, **({"behind this row": behind.get(each.index, "")} if behind else {}),
                "reward": each.reward, "answer": each.answer[:160], "varied": _varied(each),
            },
        )
        for each in own
    ]  # fmt: skip
    return [Columns([left, [Selector(label="Rollouts", options=options, first=first)]], (2, 3))]


def _varied(rollout: Rollout) -> str:
    if rollout.variation == "query" and rollout.varied_step is not None:
        return f"query of step {rollout.varied_step + 1} reworded"
    return {"none": "plain", "query": "a query reworded", "answer": "answers drawn anew"}[rollout.variation]


SHOW = Show(
    path="trajectories", title="Trajectories", icon=":material/account_tree:",
    tables=(
        ShownTable(
            name="mcts_trajectories", title="Trajectories", describe=trajectory,
            columns=("reflection_error", "question", "answer", "origin", "num_hops"), keys=("uid", "question_id"),
            values=("correct", "retrieval", "reasoning", "decomposition"),
            is_list_beside=True,
        ),
        ShownTable(
            name="trees", title="Search trees", describe=search_tree, keys=("question_id",),
            columns=("stop_reason", "question", "rounds"), kinds=("stop_reason",), is_list_beside=True,
        ),
        replace(SFT, describe=_sft),
        QUESTIONS,
    ),
    numbers={
        "reward.total": "reward", "token_estimate": "length, tokens (estimated)", "num_tool_calls": "searches",
        "num_hops": "hops",
    },
    hints=("--kind reasoning", "--tree"),
)  # fmt: skip
