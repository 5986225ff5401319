"""The card of a run of MCTS trajectories: what all cards have, the kinds of rows, one example of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from trailforge.generators.mcts_trajectories import DATASET, NAME
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.pipelines.cards.card import EMBEDDED_LIMIT, cost_table, front_matter, funnel_table, origin_lines, short
from trailforge.pipelines.cards.licences import of_questions, over_corpus, section
from trailforge.pipelines.cards.plots import FUNNEL, funnel, write_figure
from trailforge.pipelines.runs.intake import Settings, run_configuration
from trailforge.schemas import Manifest, RejectedRow, SearchTree, Trajectory, read_rows

Row = TypeVar("Row")

_DATA_TABLES = (NAME, "sft", "trees", "rejected")


@dataclass(slots=True)
class _Searches:
    """What is counted over the trees, and over the rows that were turned away."""

    stops: Counter[str] = field(default_factory=Counter)
    rejected: dict[str, Counter[str]] = field(default_factory=dict)
    """By kind, then by reason."""


@dataclass(slots=True)
class _Figures:
    """What is counted over the rows."""

    kinds: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)
    followed: Counter[bool | None] = field(default_factory=Counter)
    """Rows by whether they follow the gold decomposition; None where there is none."""
    thoughts: Counter[str] = field(default_factory=Counter)
    judged: int = 0
    tool_calls: int = 0
    examples: dict[str, Trajectory] = field(default_factory=dict)


def card_of(folder: Path, manifest: Manifest, settings: Settings) -> str:
    """The card as Markdown; its plot is written beside it."""
    rows = _read(folder, NAME, Trajectory)
    return card(folder, manifest, run_configuration(DATASET, settings), rows)


def card(folder: Path, manifest: Manifest, config: MctsRunConfig, rows: Iterable[Trajectory]) -> str:
    """`card_of` these rows; trees and rejected rows are those of the folder."""
    figures = _count(rows)
    searches = _count_searches(_read(folder, "trees", SearchTree), _read(folder, "rejected", RejectedRow))
    sources = [*of_questions(folder, config.card), *over_corpus(config.retrieval, config.card)]
    write_figure(folder / FUNNEL, funnel(manifest.stages))
    sections = [
        front_matter(manifest, _DATA_TABLES, ["mcts", "self-reflection"], sources, config.card),
        f"# {manifest.run_id}\n",
        _summary(manifest, config, figures),
        funnel_table(manifest.stages),
        f"![What each stage let through]({FUNNEL})\n",
        _kinds(figures),
        _shares(figures),
        _yields(figures, searches),
        f"## Cost\n\n{cost_table(manifest)}\n",
        section(manifest.model, sources, config.card),
        _limits(config),
        _examples(figures),
    ]
    return "\n".join(sections)


def _read(folder: Path, table: str, record: type[Row]) -> Iterable[Row]:
    return read_rows(sorted((folder / table).glob("part-*.parquet")), record)


def _count_searches(trees: Iterable[SearchTree], rejected: Iterable[RejectedRow]) -> _Searches:
    found = _Searches(stops=Counter(tree.stop_reason for tree in trees))
    for row in rejected:
        if row.stage == "filter":
            content = json.loads(row.payload)
            kind = content["reflection_error"] or content["kind"]
            found.rejected.setdefault(kind, Counter())[row.reason] += 1
    return found


def _count(rows: Iterable[Trajectory]) -> _Figures:
    figures = _Figures()
    for row in rows:
        kind = row.reflection_error or row.kind
        figures.kinds[kind] += 1
        figures.origins[row.origin] += 1
        figures.followed[row.follows_gold] += 1
        figures.thoughts[row.thoughts] += 1
        figures.judged += row.judge_score is not None
        figures.tool_calls += row.num_tool_calls
        figures.examples.setdefault(kind, row)
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


def _yields(figures: _Figures, searches: _Searches) -> str:
    """Why searches ended, and what became of the candidates of each kind."""
    lines = ["## Yield\n", "| searches ended | questions |", "|---|---:|"]
    lines += [f"| {reason} | {count} |" for reason, count in sorted(searches.stops.items())]
    lines += ["\n| kind | candidates | accepted | rejected |", "|---|---:|---:|---|"]
    for kind in sorted(figures.kinds.keys() | searches.rejected.keys()):
        reasons, kept = searches.rejected.get(kind, Counter()), figures.kinds[kind]
        why = ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))
        lines.append(f"| {kind} | {kept + reasons.total()} | {kept} | {why} |")
    return "\n".join(lines) + "\n"


def _limits(config: MctsRunConfig) -> str:
    lines = ["## Known limits\n"]
    if config.model.url == "embedded" or config.generator.policy.kind == "rules":
        lines.append(EMBEDDED_LIMIT.format(and_what=" and rule-made plans"))
    lines += [
        "- Rows that do not follow the gold decomposition came to the answer by another; their passages were held "
        "against it, their intermediate answers were not.",
        "- Connective sentences are drawn from fixed pools; answers and plans are the model's.",
        "- Rows with `origin = oracle` follow the data set's gold decomposition, not a plan of the model.",
    ]
    return "\n".join(lines) + "\n"


def _examples(figures: _Figures) -> str:
    parts = ["## One example of each kind\n"] if figures.examples else []
    for kind, row in sorted(figures.examples.items()):
        parts.append(f"### {kind} (`{row.uid}`)\n")
        parts += [f"**{m.role}**\n\n```text\n{short(m.content)}\n```\n" for m in row.messages[1:]]
    return "\n".join(parts)
