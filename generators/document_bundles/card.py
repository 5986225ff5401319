"""The card of a run of bundles: what all cards have, how good the bundles are, one question of each type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from trailforge.generators.document_bundles import DATASET
from trailforge.generators.document_bundles.config import BundleRunConfig
from trailforge.generators.document_bundles.stages import grouping
from trailforge.pipelines.cards.card import EMBEDDED_LIMIT, cost_table, front_matter, funnel_table, origin_lines, short
from trailforge.pipelines.cards.licences import of_documents, plain, section
from trailforge.pipelines.cards.plots import FUNNEL, funnel, write_figure
from trailforge.pipelines.runs.intake import Settings, run_configuration
from trailforge.schemas import Bundle, BundleQuestion, Manifest, read_rows

_DATA_TABLES = (
    *("bundle_questions", "episodes", "sft", "bundles", "documents"),
    *("embeddings", "bundle_inputs", "candidates", "rejected"),
)
"""The most wanted first: hubs show that."""


def card_of(folder: Path, manifest: Manifest, settings: Settings) -> str:
    """The card as Markdown; its plots are written beside it."""
    return card(folder, manifest, run_configuration(DATASET, settings))


def card(folder: Path, manifest: Manifest, config: BundleRunConfig) -> str:
    """The card as Markdown."""
    bundles = list(_rows(folder, "bundles", Bundle))
    questions = list(_rows(folder, "bundle_questions", BundleQuestion))
    sources = of_documents(folder)
    write_figure(folder / FUNNEL, funnel(manifest.stages))
    sections = [
        front_matter(manifest, _DATA_TABLES, ["multi-hop", "search-plans", "r-search"], sources, config.card),
        f"# {manifest.run_id}\n",
        _summary(manifest, config, bundles, questions),
        funnel_table(manifest.stages),
        f"![What each stage let through]({FUNNEL})\n",
        _bundles(bundles),
        _questions(questions),
        f"## Cost\n\n{cost_table(manifest)}\n",
        section(manifest.model, sources, config.card),
        _limits(config),
        _examples(questions),
    ]
    return "\n".join(sections)


def _rows(folder: Path, table: str, record: type) -> Iterable:
    return read_rows(sorted((folder / table).glob("part-*.parquet")), record)


def _summary(
    manifest: Manifest, config: BundleRunConfig, bundles: Sequence[Bundle], questions: Sequence[BundleQuestion]
) -> str:
    return "\n".join(
        [
            "Bundles of two to four documents from different sources, and multi-hop questions over them with the",
            "search plan that answers each (R-Search). `bundle_questions` is in the order of its curriculum.\n",
            f"- Rows: {len(bundles)} bundles, {len(questions)} questions, {_accepted(manifest, 'episode')} episodes",
            *origin_lines(manifest, "Documents", config.seed),
        ]
    )


def _accepted(manifest: Manifest, name: str) -> int:
    return sum(line.accepted for line in manifest.stages if line.name == name)


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


def _limits(config: BundleRunConfig) -> str:
    lines = ["## Known limits\n"]
    if config.questions and config.writer.kind == "steps":
        lines.append(EMBEDDED_LIMIT.format(and_what=", in steps that it can do"))
    lines += [
        "- That fewer documents do not suffice, and that nobody knows the answer without them, was measured with the "
        "model that is named above: another one may know more.",
    ]
    return "\n".join(lines) + "\n"


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
