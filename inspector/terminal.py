"""A finished run in the terminal: its figures, a trajectory, a search tree, a bundle, a question.

Passages and answers are anyone's text: nothing of them is read as markup, no control character reaches the terminal.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from trailforge.inspector.visible_text import visible
from trailforge.schemas import (
    BundleInput,
    BundleQuestion,
    EntityMatch,
    KgQuestion,
    KgTrajectory,
    KgTriple,
    Manifest,
    Message,
    Node,
    Rollout,
    SearchTree,
    Trajectory,
)

_SHOWN = 400
"""Characters of a document."""
_STYLES = {"system": "dim", "user": "bold cyan", "assistant": "green", "tool": "yellow"}


def figures(manifest: Manifest, kinds: Counter[str]) -> RenderableType:
    """Funnel, rows by kind, and what they cost."""
    return Group(_funnel(manifest), _kinds(kinds), _cost(manifest))


def trajectory(row: Trajectory) -> RenderableType:
    """A conversation, turn by turn, with what it was made from."""
    kind = f"{row.kind} ({row.reflection_error})" if row.reflection_error else row.kind
    head = _line(
        ("trajectory ", "dim"), (row.uid, "bold"), ("  kind ", "dim"), kind,
        ("  plan by ", "dim"), row.origin, ("  searches ", "dim"), str(row.num_tool_calls),
        ("  gold ", "dim"), row.answer, ("  question ", "dim"), row.question_id,
    )  # fmt: skip
    turns = [_turn(message) for message in row.messages]
    return Group(Rule(style="dim"), head, *turns, _mistakes(row))


def search_tree(tree: SearchTree) -> RenderableType:
    """Plans with visits and values, and under each its rollouts."""
    oracle = ", oracle" if tree.oracle_used else ""
    figures = f"{tree.rounds} rounds, {tree.calls} calls, depth {tree.max_depth}{oracle}"
    head = _line(
        (tree.question, "bold"), ("  gold ", "dim"), tree.answer,
        ("  stopped: ", "dim"), tree.stop_reason, (f"  {figures}", "dim"),
    )  # fmt: skip
    view = Tree(head)
    branches: dict[int, Tree] = {}
    for node in tree.nodes:
        above = view if node.parent is None else branches[node.parent]
        branches[node.id] = above.add(_node(node))
        for rollout in tree.rollouts:
            if rollout.node == node.id:
                branches[node.id].add(_rollout(rollout))
    return view


def bundle_question(row: BundleQuestion) -> RenderableType:
    """A question, its evidence and its plan, with what its filters measured."""
    head = _line(
        ("question ", "dim"), (row.uid, "bold"), ("  type ", "dim"), row.type, ("  bundle ", "dim"), row.bundle_id,
        ("  stage ", "dim"), str(row.curriculum_stage), ("  complexity ", "dim"), f"{row.complexity:.2f}",
    )  # fmt: skip
    options = [_line(f"  {chr(65 + n)}. {option}") for n, option in enumerate(row.options)]
    answer = _line(("answer ", "dim"), (", ".join(row.correct_options) or row.answer, "green"))
    hops = [_line((f"{hop.document_id}  ", "cyan"), f"“{hop.evidence}” ", (hop.reasoning, "dim")) for hop in row.hops]
    scores = "  ".join(f"{score.name} {score.score:g}" for score in row.filters)
    plan = Panel(_line(row.dag_text), title="plan", title_align="left", border_style="green")
    asked = _line((row.question, "bold"))
    return Group(Rule(style="dim"), head, asked, *options, answer, *hops, plan, _line((scores, "dim")))


def bundle(item: BundleInput) -> RenderableType:
    """A bundle and the beginning of each of its documents."""
    found = item.bundle
    head = _line(
        ("bundle ", "dim"), (found.uid, "bold"), ("  cohesion ", "dim"), f"{found.cohesion:.2f}",
        ("  theme ", "dim"), found.theme,
    )  # fmt: skip
    documents = [
        Panel(
            _line(document.text[:_SHOWN] + (" …" if len(document.text) > _SHOWN else "")),
            title=_line((document.source, "yellow"), f"  {document.title}  ", (document.published or "", "dim")),
            title_align="left",
            border_style="dim",
        )
        for document in item.documents
    ]
    return Group(Rule(style="dim"), head, *documents)


def kg_trajectory(row: KgTrajectory) -> RenderableType:
    """An episode, turn by turn, and what each search was matched to."""
    head = _line(
        ("episode ", "dim"), (row.uid, "bold"), ("  led by ", "dim"), row.origin,
        ("  searches ", "dim"), str(row.num_tool_calls), ("  reward ", "dim"), f"{row.reward.total:.2f}",
        ("  gold ", "dim"), row.answer, ("  question ", "dim"), row.question_id,
    )  # fmt: skip
    steps = [
        _line(
            (f"step {step.index + 1}: ", "dim"),
            ", ".join(f"{each.mention} → {each.label or 'nothing'}" for each in step.entities),
            ("  triples ", "dim"),
            f"{len(step.triples_kept)} of {len(step.triples_offered)}",
            ("  documents ", "dim"),
            str(len(step.documents)),
            ("  answer ", "dim"),
            step.answer or "",
        )
        for step in row.steps
    ]
    return Group(Rule(style="dim"), head, *(_turn(message) for message in row.messages), *steps)


def kg_question(row: KgQuestion) -> RenderableType:
    """A question, the facts it asks for, and how it is taken apart."""
    head = _line(
        ("question ", "dim"), (row.uid, "bold"), ("  shape ", "dim"), row.shape, ("  facts ", "dim"), str(row.hops),
        ("  answers in the graph ", "dim"), str(row.num_answers), ("  as of ", "dim"), row.as_of or "unknown",
    )  # fmt: skip
    facts = [_line((path, "cyan")) for path in row.path]
    hops = [
        _line((f"{number}. ", "dim"), f"{hop.question} ", (hop.answer, "green"))
        for number, hop in enumerate(row.decomposition, start=1)
    ]
    scores = "  ".join(f"{score.name} {score.score:g}" for score in row.filters)
    answer = _line(("answer ", "dim"), (row.answer, "green"))
    return Group(Rule(style="dim"), head, _line((row.question, "bold")), answer, *hops, *facts, _line((scores, "dim")))


def kg_result(matches: Sequence[EntityMatch], triples: Sequence[KgTriple]) -> RenderableType:
    """Entities that a mention may mean, and triples around the likeliest."""
    found = Table(title="entities", title_justify="left")
    for name, justify in (("entity", "left"), ("label", "left"), ("matched", "left"), ("score", "right")):
        found.add_column(name, justify=justify)  # type: ignore[arg-type]
    for match in matches:
        found.add_row(*map(_line, (match.entity_id, match.label, match.name, f"{match.score:.2f}")))
    facts = Table(title="triples", title_justify="left")
    for name in ("head", "relation", "tail"):
        facts.add_column(name)
    for triple in triples:
        facts.add_row(*map(_line, (triple.head_label, triple.relation_label, triple.tail_label)))
    return Group(found, facts)


def show(view: RenderableType) -> None:
    """Print a view."""
    Console().print(view)


def kinds_of(rows: Iterable[Trajectory]) -> Counter[str]:
    """Rows by kind, reflective ones by their error; those without rows too."""
    kinds = Counter[str]()
    kinds.update(dict.fromkeys(("correct", "retrieval", "reasoning", "decomposition"), 0))
    kinds.update([row.reflection_error or row.kind for row in rows])
    return kinds


def refreshed(texts: Iterable[str]) -> None:
    """Print texts, on a terminal each in place of the one before."""
    console = Console()
    with Live(console=console, auto_refresh=False) if console.is_terminal else contextlib.nullcontext() as live:
        for text in texts:
            if live is not None:
                live.update(_line(text), refresh=True)
            else:
                console.print(_line(text), soft_wrap=True)


def _funnel(manifest: Manifest) -> Table:
    table = Table(title=_line(manifest.run_id), title_justify="left")
    for name, justify in (
        ("stage", "left"),
        ("in", "right"),
        ("accepted", "right"),
        ("rejected", "left"),
        ("failed", "left"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for line in manifest.stages:
        rejected = ", ".join(f"{c.reason} {c.count}" for c in line.rejected)
        failed = ", ".join(f"{c.reason} {c.count}" for c in line.failed)
        row = (line.name, str(line.inputs), str(line.accepted), rejected, failed)
        table.add_row(*map(_line, row))
    return table


def _kinds(kinds: Counter[str]) -> Table:
    table = Table()
    for kind in kinds:
        table.add_column(kind, justify="right")
    table.add_row(*map(str, kinds.values()))
    return table


def _cost(manifest: Manifest) -> Table:
    table = Table()
    names = ("calls", "cut", "prompt tokens", "completion tokens", "cost", "seconds", "calls per row", "cost per row")
    for name in names:
        table.add_column(name, justify="right")
    calls, cost = manifest.calls_per_accepted_row, manifest.cost_per_accepted_row
    table.add_row(
        f"{manifest.calls:,}",
        f"{manifest.cut_replies:,}",
        f"{manifest.prompt_tokens:,}",
        f"{manifest.completion_tokens:,}",
        f"{manifest.cost:.4f}",
        f"{manifest.seconds:.0f}",
        "-" if calls is None else f"{calls:.1f}",
        "-" if cost is None else f"{cost:.4f}",
    )
    return table


def _turn(message: Message) -> RenderableType:
    trained = "" if message.train else "  (not trained)"
    title = Text(f"{message.role}{trained}", style=_STYLES[message.role])
    return Panel(_line(message.content), title=title, title_align="left", border_style=_STYLES[message.role])


def _mistakes(row: Trajectory) -> RenderableType:
    lines = [
        _line(("mistake at ", "red"), f"step {step.index + 1}: {step.query} ", ("-> ", "dim"), (step.answer, "red"))
        for step in row.steps
        if step.is_mistake
    ]
    return Padding(Group(*lines), (0, 1)) if lines else Text("")


def _node(node: Node) -> Text:
    plan = " | ".join(f"{n}. {text}" for n, text in enumerate(node.plan, start=1))
    leaf = "" if any(node.decomposable) else " leaf"
    statistics = f" N={node.visits} V={node.value:.2f}  "
    return _line((str(node.id), "bold"), " ", (node.origin, "magenta"), (leaf, "dim"), statistics, plan)


def _rollout(rollout: Rollout) -> Text:
    mark = ("correct", "green") if rollout.reward else ("wrong", "red")
    answers = " -> ".join(step.answer or "(nothing)" for step in rollout.steps)
    varied = rollout.variation
    if rollout.varied_step is not None:
        varied += f" of step {rollout.varied_step + 1}"
    return _line(mark, (f" rollout {rollout.index} ({varied}) ", "dim"), answers)


def _line(*parts: str | tuple[str, str]) -> Text:
    """Parts, with or without a style, as they stand: no markup, no control characters."""
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((visible(text), style) for text, style in pairs))
