"""The card of a run of KG trajectories: what all cards have, rewards, one example of each kind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from trailforge.generators.kg_trajectories import DATASET, NAME
from trailforge.generators.kg_trajectories.config import KgRunConfig
from trailforge.generators.kg_trajectories.selection import NO_CONTRAST, rests_on_form
from trailforge.pipelines.cards.card import EMBEDDED_LIMIT, cost_table, front_matter, funnel_table, origin_lines, short
from trailforge.pipelines.cards.licences import of_graph, of_questions, over_corpus, section
from trailforge.pipelines.cards.plots import FUNNEL, distributions, funnel, write_figure
from trailforge.pipelines.runs.intake import Settings, run_configuration
from trailforge.schemas import (
    ContrastivePair,
    KgReward,
    KgTrajectory,
    Manifest,
    Message,
    RejectedRow,
    from_dict,
    read_rows,
    to_dict,
)

REWARDS = "plots/rewards.png"
_PARTS = tuple(part.name for part in fields(KgReward))

_DATA_TABLES = (NAME, "sft", "pairs", "rejected")


@dataclass(slots=True)
class _Figures:
    """What is counted over the rows."""

    origins: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    searches: int = 0
    triples: int = 0
    rewards: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _PARTS})
    """By part, of the rows that have it."""
    rejected: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in _PARTS})
    """The same of rejected episodes."""
    examples: dict[str, KgTrajectory] = field(default_factory=dict)
    """The first of each origin, and with each flag."""
    questions: set[str] = field(default_factory=set)
    """Those that have a selected episode."""
    mistaken: Counter[str] = field(default_factory=Counter)
    """Episodes that were rejected for a mistake: those of a question without a selected one (`alone`), those that may
    only use another name (`form`), and the `others`."""


def card_of(folder: Path, manifest: Manifest, settings: Settings) -> str:
    """The card as Markdown; its plots are written beside it."""
    rows = read_rows(sorted((folder / NAME).glob("part-*.parquet")), KgTrajectory)
    rejected = read_rows(sorted((folder / "rejected").glob("part-*.parquet")), RejectedRow)
    episodes = (row for row in rejected if row.stage == DATASET.counted)
    return card(folder, manifest, run_configuration(DATASET, settings), rows, episodes)


def card(
    folder: Path,
    manifest: Manifest,
    config: KgRunConfig,
    rows: Iterable[KgTrajectory],
    rejected: Iterable[RejectedRow],
) -> str:
    """The card as Markdown; its plots are written beside it."""
    figures = _figures(rows, rejected)
    sources = [
        *of_questions(folder, config.card),
        *over_corpus(config.retrieval, config.card),
        *of_graph(config.kg_hash, config.card),
    ]
    parts = {name: (figures.rewards[name], figures.rejected[name]) for name in _PARTS}
    write_figure(folder / FUNNEL, funnel(manifest.stages))
    write_figure(folder / REWARDS, distributions(parts))
    sections = [
        front_matter(manifest, _DATA_TABLES, ["knowledge-graph", "dynasearcher"], sources, config.card),
        f"# {manifest.run_id}\n",
        _summary(manifest, config, figures),
        funnel_table(manifest.stages),
        f"![What each stage let through]({FUNNEL})\n",
        _rewards(figures),
        f"## Cost\n\n{cost_table(manifest)}\n",
        section(manifest.model, sources, config.card),
        _limits(config),
        _examples(figures, next(iter(_pairs(folder)), None)),
    ]
    return "\n".join(sections)


def _figures(rows: Iterable[KgTrajectory], rejected: Iterable[RejectedRow]) -> _Figures:
    figures = _Figures()
    for row in rows:
        figures.origins[row.origin] += 1
        figures.flags.update(row.flags)
        figures.searches += row.num_tool_calls
        figures.triples += sum(len(step.triples_kept) for step in row.steps)
        figures.questions.add(row.question_id)
        _add(figures.rewards, to_dict(row.reward))
        for kind in (f"led by {row.origin}", *row.flags):
            figures.examples.setdefault(kind, row)
    for row in rejected:
        episode = json.loads(row.payload)
        _add(figures.rejected, episode.get("reward") or {})
        if row.reason not in NO_CONTRAST:
            figures.mistaken[_hindrance(episode, figures.questions)] += 1
    return figures


def _hindrance(episode: dict[str, Any], questions: Collection[str]) -> str:
    """What of a rejected episode is in the way of a pair, as `_Figures.mistaken` has it."""
    if episode["question_id"] not in questions:
        return "alone"
    return "form" if rests_on_form(from_dict(KgTrajectory, episode)) else "others"


def _add(values: dict[str, list[float]], reward: dict[str, Any]) -> None:
    for name in _PARTS:
        if reward.get(name) is not None:
            values[name].append(reward[name])


def _rewards(figures: _Figures) -> str:
    lines = ["## Rewards\n", "| part | episodes | mean | of rejected ones | mean |", "|---|---:|---:|---:|---:|"]
    for name in _PARTS:
        kept, others = figures.rewards[name], figures.rejected[name]
        lines.append(f"| {name} | {len(kept)} | {_mean(kept)} | {len(others)} | {_mean(others)} |")
    return "\n".join(lines) + f"\n\n![Rewards of episodes, part by part]({REWARDS})\n"


def _mean(values: list[float]) -> str:
    return f"{sum(values) / len(values):.3f}" if values else ""


def _summary(manifest: Manifest, config: KgRunConfig, figures: _Figures) -> str:
    total = figures.origins.total()
    means = (
        f"; per episode {figures.searches / total:.2f} searches, {figures.triples / total:.2f} triples kept, "
        f"reward {sum(figures.rewards['total']) / total:.3f}"
        if total
        else ""
    )
    origins = ", ".join(f"{name} {count}" for name, count in sorted(figures.origins.items())) or "none"
    flags = ", ".join(f"{name} {count}" for name, count in sorted(figures.flags.items())) or "none"
    has_pairs = any(entry.path.startswith("pairs/") and entry.rows for entry in manifest.files)
    pairs = "`pairs` holds a good and a bad episode of one question."
    if not has_pairs:
        pairs = f"There are no pairs: {_why_no_pairs(figures.mistaken, config.generator.max_pairs)}."
    return "\n".join(
        [
            "Search episodes over documents and a knowledge graph (DynaSearcher), each step with its entities,",
            f"relations, triples and documents. {pairs}\n",
            f"- Rows: {total} episodes{means}",
            f"- Led by: {origins}; flags: {flags}",
            *origin_lines(manifest, "Questions", config.seed),
        ]
    )


def _why_no_pairs(mistaken: Counter[str], most: int) -> str:
    if most <= 0:
        return "`generator.max_pairs` asks for none"
    if not mistaken:
        return "no episode was rejected for a mistake of its own"
    causes = {
        "alone": "belong to questions of which no episode was selected",
        "form": "may be right by another name, which is nothing to teach",
        "others": "make theirs where no selected episode of the question shows the better turn",
    }
    parts = [f"{mistaken[cause]} {text}" for cause, text in causes.items() if mistaken[cause]]
    return f"of {mistaken.total()} episodes that were rejected for a mistake, {', '.join(parts)}"


def _limits(config: KgRunConfig) -> str:
    lines = ["## Known limits\n"]
    if config.model.url == "embedded" or config.generator.is_led:
        lines.append(EMBEDDED_LIMIT.format(and_what=", led along the gold decomposition"))
    lines += [
        "- Rows with `origin = oracle` follow the data set's gold decomposition, not a plan of the model.",
        "- `stale_or_conflicting`: graph and documents say different things; `conflicts` has both. A model reads the "
        "documents, of selected episodes alone.",
    ]
    return "\n".join(lines) + "\n"


def _pairs(folder: Path) -> Iterable[ContrastivePair]:
    return read_rows(sorted((folder / "pairs").glob("part-*.parquet")), ContrastivePair)


def _examples(figures: _Figures, pair: ContrastivePair | None) -> str:
    parts = ["## One example of each kind\n"] if figures.examples else []
    shown: dict[str, str] = {}
    for kind, row in sorted(figures.examples.items()):
        if row.uid in shown:
            parts.append(f"### {kind}\n\nThe same as {shown[row.uid]} (`{row.uid}`).\n")
            continue
        shown[row.uid] = kind
        parts += [f"### {kind} (`{row.uid}`)\n", *map(_turn, row.messages[1:])]
    if pair is not None:
        at = pair.diverges_at
        parts += [
            f"### pair (`{pair.uid}`)\n",
            f"```text\n{short(pair.question)}\n```\n",
            f"Two episodes that part at message {at}; the second was rejected for `{pair.reason}`. How each goes on:\n",
            *(_turn(messages[at]) for messages in (pair.good_messages, pair.bad_messages) if at < len(messages)),
        ]
    return "\n".join(parts)


def _turn(message: Message) -> str:
    return f"**{message.role}**\n\n```text\n{short(message.content)}\n```\n"
