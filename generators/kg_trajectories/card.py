"""Write the card of a run of KG trajectories: the common parts, rewards, and one example of each kind."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from trailforge.generators.answer_reading import limit_of
from trailforge.generators.kg_trajectories import DATASET, NAME
from trailforge.generators.kg_trajectories.choice import NO_CONTRAST, rests_on_form
from trailforge.generators.kg_trajectories.config import KgRunConfig
from trailforge.pipelines.cards import (
    BAD,
    GOOD,
    figure_of,
    limits,
    of_graph,
    of_questions,
    origin_lines,
    over_corpus,
    pair_example,
    png_of,
    rows_of,
    turn,
    write_card,
    write_figure,
)
from trailforge.pipelines.runs import Settings, run_configuration
from trailforge.schemas import ContrastivePair, KgReward, KgTrajectory, Manifest, RejectedRow, from_dict, to_dict

REWARDS = "plots/rewards.png"
_PARTS = tuple(part.name for part in fields(KgReward))
_DATA_TABLES = (NAME, "sft", "pairs", "rejected")
_LIMITS = (
    "- Rows with `origin = oracle` follow the data set's gold decomposition, not a plan of the model.",
    "- `stale_or_conflicting`: graph and documents say different things; `conflicts` has both. A model reads the "
    "documents, of selected episodes alone.",
)
_COLUMNS, _BINS = 3, 20
"""Columns of the figure of rewards, and the bins of each histogram in it."""


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
    """Return the card of a run as Markdown, and write its plots beside it."""
    rows = rows_of(folder, NAME, KgTrajectory)
    episodes = (row for row in rows_of(folder, "rejected", RejectedRow) if row.stage == DATASET.counted)
    return card(folder, manifest, run_configuration(DATASET, settings), rows, episodes)


def card(
    folder: Path,
    manifest: Manifest,
    config: KgRunConfig,
    rows: Iterable[KgTrajectory],
    rejected: Iterable[RejectedRow],
) -> str:
    """Return the card of these rows as Markdown, and write its plots beside it."""
    figures = _figures(rows, rejected)
    sources = [
        *of_questions(folder, config.card),
        *over_corpus(config.retrieval, config.card),
        *of_graph(config.kg_hash, config.card),
    ]
    is_small = config.model.url == "embedded" or config.generator.is_led
    parts = {name: (figures.rewards[name], figures.rejected[name]) for name in _PARTS}
    write_figure(folder / REWARDS, draw_rewards(parts))
    return write_card(
        folder,
        manifest,
        config,
        tables=_DATA_TABLES,
        tags=["knowledge-graph", "dynasearcher"],
        sources=sources,
        summary=_summary(manifest, config, figures),
        own=[_rewards(figures)],
        end=[
            limits(
                (*_LIMITS, limit_of(config.generator.answer_check)),
                ", led along the gold decomposition" if is_small else None,
            ),
            _examples(figures, next(iter(rows_of(folder, "pairs", ContrastivePair)), None)),
        ],
    )


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


def draw_rewards(parts: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> bytes:
    """Draw a histogram of each part of the reward, given as its name with the values of selected and of rejected
    episodes, and return the picture as PNG bytes.
    """
    lines = math.ceil(len(parts) / _COLUMNS)
    height = 0.5 + 2.2 * lines
    figure = figure_of(9, height, fits=False)
    figure.subplots_adjust(left=0.05, right=0.99, bottom=0.3 / height, top=1 - 0.6 / height, wspace=0.18, hspace=0.32)
    each = figure.subplots(lines, _COLUMNS, squeeze=False).ravel()
    for axes in each[len(parts) :]:
        axes.set_axis_off()
    for axes, (name, (selected, rejected)) in zip(each, parts.items(), strict=False):
        values = np.array([*selected, *rejected])
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
        edges = np.linspace(min(low, 0.0), max(high, 1.0), _BINS + 1)
        good, bad = (np.histogram(of, bins=edges)[0] for of in (selected, rejected))
        axes.stairs(good, edges, fill=True, color=GOOD)
        axes.stairs(good + bad, edges, baseline=good, fill=True, color=BAD)
        axes.set_ylim(0, 1.05 * max(int((good + bad).max()), 1))
        axes.locator_params(nbins=5)
        mean = f", mean {float(np.mean(selected)):.2f}" if selected else ""
        axes.set_title(f"{name}: {len(selected):,} selected{mean}", fontsize=9, loc="left")
        axes.tick_params(labelsize=8, length=0)
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle("episodes that were selected (blue), rejected (orange)", fontsize=10)
    return png_of(figure)


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


def _examples(figures: _Figures, pair: ContrastivePair | None) -> str:
    parts = ["## One example of each kind\n"] if figures.examples else []
    shown: dict[str, str] = {}
    for kind, row in sorted(figures.examples.items()):
        if row.uid in shown:
            parts.append(f"### {kind}\n\nThe same as {shown[row.uid]} (`{row.uid}`).\n")
            continue
        shown[row.uid] = kind
        parts += [f"### {kind} (`{row.uid}`)\n", *map(turn, row.messages[1:])]
    if pair is not None:
        parts += pair_example(pair, "Two episodes that part")
    return "\n".join(parts)
