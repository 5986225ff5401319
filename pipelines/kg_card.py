"""The card of a run of KG trajectories: what all cards have, rewards, and one episode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipelines.card import EMBEDDED_LIMIT, cost_table, front_matter, funnel_table, origin_lines, short
from pipelines.kg_config import KgRunConfig
from schemas import KgTrajectory, Manifest

_DATA_TABLES = ("kg_trajectories", "sft", "pairs", "rejected")


@dataclass(slots=True)
class _Figures:
    """What is counted over the rows."""

    origins: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    searches: int = 0
    triples: int = 0
    reward: float = 0.0
    example: KgTrajectory | None = None


def card(manifest: Manifest, config: KgRunConfig, rows: Iterable[KgTrajectory]) -> str:
    """The card as Markdown."""
    figures = _Figures()
    for row in rows:
        figures.origins[row.origin] += 1
        figures.flags.update(row.flags)
        figures.searches += row.num_tool_calls
        figures.triples += sum(len(step.triples_kept) for step in row.steps)
        figures.reward += row.reward.total
        figures.example = figures.example or row
    sections = [
        front_matter(manifest, _DATA_TABLES, ["knowledge-graph", "dynasearcher"]),
        f"# {manifest.run_id}\n",
        _summary(manifest, config, figures),
        funnel_table(manifest.stages),
        f"## Cost\n\n{cost_table(manifest)}\n",
        _limits(config),
        _example(figures.example),
    ]
    return "\n".join(sections)


def _summary(manifest: Manifest, config: KgRunConfig, figures: _Figures) -> str:
    total = figures.origins.total()
    means = (
        f"; per episode {figures.searches / total:.2f} searches, {figures.triples / total:.2f} triples kept, "
        f"reward {figures.reward / total:.3f}"
        if total
        else ""
    )
    origins = ", ".join(f"{name} {count}" for name, count in sorted(figures.origins.items())) or "none"
    flags = ", ".join(f"{name} {count}" for name, count in sorted(figures.flags.items())) or "none"
    return "\n".join(
        [
            "Search episodes over documents and a knowledge graph (DynaSearcher), each step with its entities,",
            "relations, triples and documents. `pairs` holds a good and a bad episode of one question.\n",
            f"- Rows: {total} episodes{means}",
            f"- Led by: {origins}; flags: {flags}",
            *origin_lines(manifest, "Questions", config.seed),
        ]
    )


def _limits(config: KgRunConfig) -> str:
    lines = ["## Known limits\n"]
    if config.model.url == "embedded" or config.generator.style == "guided":
        lines.append(EMBEDDED_LIMIT.format(and_what=", led along the gold decomposition"))
    lines += [
        "- Rows with `origin = oracle` follow the data set's gold decomposition, not a plan of the model.",
        "- `stale_or_conflicting`: graph and documents say different things; `conflicts` has both.",
        "- Questions, passages and triples keep the licence of their source.",
    ]
    return "\n".join(lines) + "\n"


def _example(row: KgTrajectory | None) -> str:
    if row is None:
        return ""
    turns = [f"**{m.role}**\n\n```text\n{short(m.content)}\n```\n" for m in row.messages[1:]]
    return "\n".join([f"## One episode (`{row.uid}`)\n", *turns])
