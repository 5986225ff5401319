"""Write the card of a run of MCTS trajectories: the common parts, the kinds of rows, and one example of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from trailforge.generators.mcts_trajectories import DATASET, NAME
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.pipelines.cards import limits, of_questions, origin_lines, over_corpus, rows_of, turn, write_card
from trailforge.pipelines.runs import Settings, run_configuration
from trailforge.schemas import Manifest, RejectedRow, SearchTree, Trajectory

_DATA_TABLES = (NAME, "sft", "trees", "rejected")
_LIMITS = (
    "- Rows that do not follow the gold decomposition came to the answer by another; their passages were held "
    "against it, their intermediate answers were not.",
    "- Where `thoughts = templates`, sentences are drawn from fixed pools; answers and plans are the model's.",
    "- Where `thoughts = model`, the model told the finished steps; code held each turn against what was seen.",
    "- Rows with `origin = oracle` follow the data set's gold decomposition, not a plan of the model.",
    "- Rows with `error_source = provoked` mend an error that the search made: a query kept because it loses the "
    "passage, or an answer drawn until it differed. `sampled` errors are the model's own.",
)


@dataclass(slots=True)
class _Figures:
    """What is counted over the rows, the trees, and the rows that were turned away."""

    kinds: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    """Of reflective rows, by where the error comes from."""
    followed: Counter[bool | None] = field(default_factory=Counter)
    """Rows by whether they follow the gold decomposition; None where there is none."""
    thoughts: Counter[str] = field(default_factory=Counter)
    judged: int = 0
    tool_calls: int = 0
    examples: dict[str, Trajectory] = field(default_factory=dict)
    stops: Counter[str] = field(default_factory=Counter)
    """Of searches."""
    rejected: dict[str, Counter[str]] = field(default_factory=dict)
    """By kind, then by reason."""


def card_of(folder: Path, manifest: Manifest, settings: Settings) -> str:
    """Return the card of a run as Markdown, and write its plot beside it."""
    rows = rows_of(folder, NAME, Trajectory)
    return card(folder, manifest, run_configuration(DATASET, settings), rows)


def card(folder: Path, manifest: Manifest, config: MctsRunConfig, rows: Iterable[Trajectory]) -> str:
    """Return the card of these rows as Markdown, and write its plot beside it. The search trees and rejected rows that
    it counts are read from the run's folder.
    """
    figures = _count(rows, rows_of(folder, "rejected", RejectedRow))
    figures.stops.update(tree.stop_reason for tree in rows_of(folder, "trees", SearchTree))
    is_small = config.model.url == "embedded" or config.generator.policy.kind == "rules"
    return write_card(
        folder,
        manifest,
        config,
        tables=_DATA_TABLES,
        tags=["mcts", "self-reflection"],
        sources=[*of_questions(folder, config.card), *over_corpus(config.retrieval, config.card)],
        summary=_summary(manifest, config, figures),
        own=[_kinds(figures), _shares(figures), _yields(figures)],
        end=[limits(_LIMITS, " and rule-made plans" if is_small else None), _examples(figures)],
    )


def _count(rows: Iterable[Trajectory], rejected: Iterable[RejectedRow]) -> _Figures:
    figures = _Figures()
    for row in rows:
        kind = row.reflection_error or row.kind
        figures.kinds[kind] += 1
        figures.origins[row.origin] += 1
        if row.kind == "reflective":
            figures.errors[row.error_source or "not known"] += 1
        figures.followed[row.follows_gold] += 1
        figures.thoughts[row.thoughts] += 1
        figures.judged += row.judge_score is not None
        figures.tool_calls += row.num_tool_calls
        figures.examples.setdefault(kind, row)
    for row in rejected:
        if row.stage == "filter":
            content = json.loads(row.payload)
            kind = content["reflection_error"] or content["kind"]
            figures.rejected.setdefault(kind, Counter())[row.reason] += 1
    return figures


def _summary(manifest: Manifest, config: MctsRunConfig, figures: _Figures) -> str:
    total = figures.kinds.total()
    searches = f"{figures.tool_calls / total:.2f}" if total else "none"
    return "\n".join(
        [
            "Search-agent trajectories from tree search over question decompositions (MSearcher), as conversations",
            "with the loss mask per message (`train`).\n",
            f"- Rows: {total} trajectories; searches per trajectory: {searches}",
            *origin_lines(manifest, "Questions", config.seed),
        ]
    )


def _kinds(figures: _Figures) -> str:
    lines = ["## Kinds\n", "| kind | rows |", "|---|---:|"]
    lines += [f"| {kind} | {count} |" for kind, count in sorted(figures.kinds.items())]
    lines += ["\n| plan made by | rows | share |", "|---|---:|---:|"]
    lines += [f"| {origin} | {_part(count, figures)} |" for origin, count in sorted(figures.origins.items())]
    if reflective := figures.errors.total():
        lines += ["\n| errors of reflective rows | rows | share |", "|---|---:|---:|"]
        lines += [
            f"| {source} | {count} | {count / reflective:.0%} |" for source, count in sorted(figures.errors.items())
        ]
    return "\n".join(lines) + "\n"


def _shares(figures: _Figures) -> str:
    followed = figures.followed
    with_gold = followed[True] + followed[False]
    lines = ["| of the rows | rows | share |", "|---|---:|---:|"]
    if with_gold:
        lines.append(f"| follow the gold decomposition | {followed[True]} | {followed[True] / with_gold:.0%} |")
    lines += [
        f"| answer was judged by a model | {_part(figures.judged, figures)} |",
        f"| thoughts written by the model | {_part(figures.thoughts['model'], figures)} |",
    ]
    return "\n".join(lines) + "\n"


def _part(count: int, figures: _Figures) -> str:
    total = figures.kinds.total()
    return f"{count} | {count / total:.0%}" if total else f"{count} |"


def _yields(figures: _Figures) -> str:
    """Why searches ended, and what became of the candidates of each kind."""
    lines = ["## Yield\n", "| searches ended | questions |", "|---|---:|"]
    lines += [f"| {reason} | {count} |" for reason, count in sorted(figures.stops.items())]
    lines += ["\n| kind | candidates | accepted | rejected |", "|---|---:|---:|---|"]
    for kind in sorted(figures.kinds.keys() | figures.rejected.keys()):
        reasons, kept = figures.rejected.get(kind, Counter()), figures.kinds[kind]
        why = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
        lines.append(f"| {kind} | {kept + reasons.total()} | {kept} | {why} |")
    return "\n".join(lines) + "\n"


def _examples(figures: _Figures) -> str:
    parts = ["## One example of each kind\n"] if figures.examples else []
    for kind, row in sorted(figures.examples.items()):
        parts.append(f"### {kind} (`{row.uid}`)\n")
        parts += map(turn, row.messages[1:])
    return "\n".join(parts)
