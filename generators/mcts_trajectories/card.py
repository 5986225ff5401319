"""The card of a run of MCTS trajectories: what all cards have, the kinds of rows, one example of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from trailforge.generators.mcts_trajectories import DATASET, NAME
from trailforge.generators.mcts_trajectories.config import MctsRunConfig
from trailforge.pipelines.cards.card import EMBEDDED_LIMIT, cost_table, front_matter, funnel_table, origin_lines, short
from trailforge.pipelines.cards.licences import of_questions, over_corpus, section
from trailforge.pipelines.cards.plots import FUNNEL, funnel, write_figure
from trailforge.pipelines.runs.intake import Settings, run_configuration
from trailforge.schemas import Manifest, Trajectory, read_rows

_DATA_TABLES = (NAME, "sft", "trees", "rejected")


@dataclass(slots=True)
class _Figures:
    """What is counted over the rows."""

    kinds: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)
    thoughts: Counter[str] = field(default_factory=Counter)
    tool_calls: int = 0
    examples: dict[str, Trajectory] = field(default_factory=dict)


def card_of(folder: Path, manifest: Manifest, settings: Settings) -> str:
    """The card as Markdown; its plot is written beside it."""
    rows = read_rows(sorted((folder / NAME).glob("part-*.parquet")), Trajectory)
    return card(folder, manifest, run_configuration(DATASET, settings), rows)


def card(folder: Path, manifest: Manifest, config: MctsRunConfig, rows: Iterable[Trajectory]) -> str:
    """`card_of` these rows."""
    figures = _count(rows)
    sources = [*of_questions(folder, config.card), *over_corpus(config.retrieval, config.card)]
    write_figure(folder / FUNNEL, funnel(manifest.stages))
    sections = [
        front_matter(manifest, _DATA_TABLES, ["mcts", "self-reflection"], sources, config.card),
        f"# {manifest.run_id}\n",
        _summary(manifest, config, figures),
        funnel_table(manifest.stages),
        f"![What each stage let through]({FUNNEL})\n",
        _kinds(figures),
        f"## Cost\n\n{cost_table(manifest)}\n",
        section(manifest.model, sources, config.card),
        _limits(config),
        _examples(figures),
    ]
    return "\n".join(sections)


def _count(rows: Iterable[Trajectory]) -> _Figures:
    figures = _Figures()
    for row in rows:
        kind = row.reflection_error or row.kind
        figures.kinds[kind] += 1
        figures.origins[row.origin] += 1
        figures.thoughts[row.thoughts] += 1
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
    lines += ["\n| plan made by | rows |", "|---|---:|"]
    lines += [f"| {origin} | {count} |" for origin, count in sorted(figures.origins.items())]
    lines += ["\n| thoughts by | rows |", "|---|---:|"]
    lines += [f"| {source} | {count} |" for source, count in sorted(figures.thoughts.items())]
    return "\n".join(lines) + "\n"


def _limits(config: MctsRunConfig) -> str:
    lines = ["## Known limits\n"]
    if config.model.url == "embedded" or config.generator.policy.kind == "rules":
        lines.append(EMBEDDED_LIMIT.format(and_what=" and rule-made plans"))
    lines += [
        "- Where `thoughts = templates`, sentences are drawn from fixed pools; answers and plans are the model's.",
        "- Where `thoughts = model`, the model told the finished steps; code held each turn against what was seen.",
        "- Rows with `origin = oracle` follow the data set's gold decomposition, not a plan of the model.",
    ]
    return "\n".join(lines) + "\n"


def _examples(figures: _Figures) -> str:
    parts = ["## One example of each kind\n"] if figures.examples else []
    for kind, row in sorted(figures.examples.items()):
        parts.append(f"### {kind} (`{row.uid}`)\n")
        parts += [f"**{m.role}**\n\n```text\n{short(m.content)}\n```\n" for m in row.messages[1:]]
    return "\n".join(parts)
