"""The card of a run of bundles: what all cards have, how good the bundles are, one question of each type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from trailforge.generators.document_bundles import DATASET
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.stages import grouping
from trailforge.pipelines.cards.card import limits, origin_lines, rows_of, short, write_card
from trailforge.pipelines.cards.licences import of_documents, plain
from trailforge.pipelines.runs.intake import Settings, run_configuration
from trailforge.schemas import (
    AnswerScoredBy,
    Bundle,
    BundleQuestion,
    Manifest,
    Origin,
    SearchEpisode,
    ThoughtSource,
)

_DATA_TABLES = (
    *("bundle_questions", "episodes", "sft", "bundles", "documents"),
    *("embeddings", "bundle_inputs", "candidates", "rejected"),
)
"""The most wanted first: hubs show that."""
_PLANS: dict[str, str] = {"policy": "drawn from the model", "oracle": "the gold plan"}
_THOUGHTS: dict[str, str] = {"model": "the model's", "templates": "sentences from pools"}
_SCORES: dict[str, str] = {
    "options": "letters of options",
    "matching": "the matcher",
    "judge": "a judge",
    "key_facts": "key facts",
    "words": "F1 of words",
}
_PURPOSES = frozenset(("plan", "answer", "thought"))
"""Of calls that episodes take; a judge's are counted with those of the filters."""


def card_of(folder: Path, manifest: Manifest, settings: Settings) -> str:
    """The card as Markdown; its plots are written beside it."""
    return card(folder, manifest, run_configuration(DATASET, settings))


def card(folder: Path, manifest: Manifest, config: BundleRunConfig) -> str:
    """The card as Markdown."""
    bundles = list(rows_of(folder, "bundles", Bundle))
    questions = list(rows_of(folder, "bundle_questions", BundleQuestion))
    episodes = Counter(map(_Made.of, rows_of(folder, "episodes", SearchEpisode)))
    return write_card(
        folder,
        manifest,
        config,
        tables=_DATA_TABLES,
        tags=["multi-hop", "search-plans", "r-search"],
        sources=of_documents(folder),
        summary=_summary(manifest, config, bundles, questions),
        own=[_bundles(bundles), _questions(questions), _episodes(manifest, episodes)],
        end=[_limits(manifest, config, episodes), _examples(questions)],
    )


def _summary(
    manifest: Manifest, config: BundleRunConfig, bundles: Sequence[Bundle], questions: Sequence[BundleQuestion]
) -> str:
    episodes = sum(line.accepted for line in manifest.stages if line.name == "episode")
    return "\n".join(
        [
            "Bundles of two to four documents from different sources, and multi-hop questions over them with the",
            "search plan that answers each (R-Search). `bundle_questions` is in the order of its curriculum.\n",
            f"- Rows: {len(bundles)} bundles, {len(questions)} questions, {episodes} episodes",
            *origin_lines(manifest, "Documents", config.seed),
        ]
    )


def _bundles(bundles: Sequence[Bundle]) -> str:
    if not bundles:
        return "## Bundles\n\nNone.\n"
    sizes = Counter(len(bundle.document_ids) for bundle in bundles)
    sources = Counter(source for bundle in bundles for source in bundle.sources)
    mean = sum(bundle.cohesion for bundle in bundles) / len(bundles)
    lines = [
        "## Bundles\n",
        f"Mean cohesion (cosine over all pairs of a bundle's documents): {mean:.3f}\n",
        "| documents | bundles |",
        "|---:|---:|",
        *(f"| {size} | {count} |" for size, count in sorted(sizes.items())),
        "\n| source | documents in bundles |",
        "|---|---:|",
        *(f"| {plain(source)} | {count} |" for source, count in sources.most_common()),
    ]
    lines += [f"\n![Documents and bundles]({grouping.MAP})", f"\n![Sizes of bundles]({grouping.SIZES})"]
    return "\n".join(lines) + "\n"


def _questions(questions: Sequence[BundleQuestion]) -> str:
    if not questions:
        return "## Questions\n\nNone.\n"
    types = Counter(row.type for row in questions)
    lines = ["## Questions\n", "| type | rows |", "|---|---:|"]
    lines += [f"| {kind} | {count} |" for kind, count in sorted(types.items())]
    lines += ["\n| stage | rows | complexity |", "|---:|---:|---|"]
    for number in sorted({row.curriculum_stage for row in questions}):
        found = [row.complexity for row in questions if row.curriculum_stage == number]
        lines.append(f"| {number} | {len(found)} | {min(found):.2f} to {max(found):.2f} |")
    return "\n".join(lines) + "\n"


class _Made(NamedTuple):
    """How an episode came about."""

    origin: Origin
    thoughts: ThoughtSource
    scored_by: AnswerScoredBy

    @classmethod
    def of(cls, episode: SearchEpisode) -> _Made:
        """Of a row."""
        return cls(episode.origin, episode.thoughts, episode.scored_by)


def _episodes(manifest: Manifest, episodes: Counter[_Made]) -> str:
    """Where plans and thoughts come from, what scored the answers, and what an episode took."""
    total = episodes.total()
    if not total:
        return "## Episodes\n\nNone.\n"
    lines = ["## Episodes\n", "| plan | thought before the search | episodes | share |", "|---|---|---:|---:|"]
    for (origin, thoughts), count in sorted(_added(episodes, "origin", "thoughts").items()):
        lines.append(f"| {_PLANS[origin]} | {_THOUGHTS[thoughts]} | {count} | {count / total:.0%} |")
    lines += ["\n| answers scored by | episodes |", "|---|---:|"]
    lines += [f"| {_SCORES[by]} | {count} |" for (by,), count in sorted(_added(episodes, "scored_by").items())]
    calls = sum(each.calls for each in manifest.calls_by_purpose if each.purpose in _PURPOSES)
    lines.append(f"\nCalls for plans, answers and thoughts: {calls}, {calls / total:.1f} an episode")
    return "\n".join(lines) + "\n"


def _added(episodes: Counter[_Made], *names: str) -> Counter[tuple[str, ...]]:
    added: Counter[tuple[str, ...]] = Counter()
    for made, count in episodes.items():
        added[tuple(getattr(made, name) for name in names)] += count
    return added


def _limits(manifest: Manifest, config: BundleRunConfig, episodes: Counter[_Made]) -> str:
    lines = [
        "- That fewer documents do not suffice, and that nobody knows the answer without them, was measured with the "
        "model that is named above: another one may know more.",
    ]
    judge = config.judge
    if judge.near_misses or judge.free_answers:
        who = f"`{judge.model or manifest.model}` was asked for the score of"
        lines.append(f"- {who} answers that the matcher of names, numbers and dates does not take: no person was.")
    if config.questions and not judge.free_answers:
        lines.append("- No judge read explanations: they are right where they say all key facts of the gold one.")
    if gold := _added(episodes, "origin")["oracle",]:
        lines.append(
            f"- {gold} of {episodes.total()} episodes follow the gold plan: whoever wrote its queries had read the "
            "documents."
        )
    if told := _added(episodes, "thoughts")["templates",]:
        lines.append(f"- {told} of {episodes.total()} thoughts before a search are sentences from pools, of one style.")
    is_small = config.questions and config.writer.kind == "steps"
    return limits(lines, ", in steps that it can do" if is_small else None)


def _examples(questions: Sequence[BundleQuestion]) -> str:
    first: dict[str, BundleQuestion] = {}
    for row in questions:
        first.setdefault(row.type, row)
    parts = ["## One question of each type\n"] if first else []
    for kind, row in sorted(first.items()):
        parts.append(f"### {kind} (`{row.uid}`)\n\n{plain(short(row.question))}\n")
        parts += [f"- {letter}. {plain(option)}" for letter, option in zip("ABCDEFG", row.options, strict=False)]
        parts.append(f"\nAnswer: {', '.join(row.correct_options) or plain(row.answer)}\n")
        parts += [f"> {plain(short(hop.evidence))} ({plain(hop.document_id)})\n" for hop in row.hops]
        parts.append(f"```text\n{short(row.dag_text)}\n```\n")
    return "\n".join(parts)
