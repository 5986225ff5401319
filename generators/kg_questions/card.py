"""Write the card of a run of questions made of a knowledge graph: the common parts, shapes and relations, and
examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from trailforge.generators.kg_questions import DATASET, NAME
from trailforge.generators.kg_questions.config import KgQuestionRunConfig
from trailforge.generators.kg_questions.paths.blurring import described_in
from trailforge.generators.kg_questions.paths.config import share_out
from trailforge.generators.kg_questions.paths.shortage import REFUSALS
from trailforge.pipelines.cards import limits, of_graph, origin_lines, plain, rows_of, short, write_card
from trailforge.pipelines.runs import Settings, run_configuration
from trailforge.schemas import Count, FactChain, KgQuestion, Manifest, read_rows

_DATA_TABLES = (NAME, "candidates", "rejected")
_MOST_RELATIONS = 20
_BLURRED = "Of {} of {} paths a start is described by two or three facts, which count here, and has to be found.\n"


@dataclass(slots=True)
class _Figures:
    """What is counted over the rows."""

    forms: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Questions by shape and number of facts."""
    paths: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Paths that were sampled, as above."""
    blurred: int = 0
    """Paths of which a start is described."""
    tries: tuple[Count, ...] = ()
    calls: set[str] = field(default_factory=set)
    """What the model was asked for."""
    entities: set[str] = field(default_factory=set)
    """Of the paths, by id."""
    by_name: set[str] = field(default_factory=set)
    """Those of them whose id is their name."""
    relations: Counter[str] = field(default_factory=Counter)
    examples: dict[str, KgQuestion] = field(default_factory=dict)


def card_of(folder: Path, manifest: Manifest, settings: Settings) -> str:
    """Return the card of a run as Markdown, and write its plot beside it."""
    rows = rows_of(folder, NAME, KgQuestion)
    paths = read_rows([folder / shard.input for shard in settings.shards], FactChain)
    return card(folder, manifest, run_configuration(DATASET, settings), rows, paths, settings.tries)


def card(
    folder: Path,
    manifest: Manifest,
    config: KgQuestionRunConfig,
    rows: Iterable[KgQuestion],
    paths: Iterable[FactChain],
    tries: Iterable[Count] = (),
) -> str:
    """Return the card of these questions and paths as Markdown, and write its plot beside it. `tries` counts the
    attempts that gave no path, by reason.
    """
    figures = _Figures(tries=tuple(tries), calls={each.purpose for each in manifest.calls_by_purpose})
    for path in paths:
        figures.paths[path.shape, len(path.facts)] += 1
        figures.blurred += bool(described_in(path))
        nodes = (*path.starts, *path.found)
        figures.entities.update(node.id for node in nodes)
        figures.by_name.update(node.id for node in nodes if node.id == node.label)
    for row in rows:
        figures.forms[row.shape, row.hops] += 1
        for label in dict.fromkeys(fact.triple.relation_label for fact in row.chain.facts):  # once a row, in its order
            figures.relations[label] += 1
        figures.examples.setdefault(row.shape, row)
    return write_card(
        folder,
        manifest,
        config,
        tables=_DATA_TABLES,
        tags=["multi-hop", "knowledge-graph"],
        sources=of_graph(config.kg_hash, config.card),
        summary=_summary(manifest, config, figures),
        own=[_tables(figures, config)],
        end=[_limits(config, figures), *(_example(row) for _, row in sorted(figures.examples.items()))],
    )


def _summary(manifest: Manifest, config: KgQuestionRunConfig, figures: _Figures) -> str:
    return "\n".join(
        [
            "Questions made of facts of a knowledge graph, with the facts, the gold decomposition and the number of",
            "entities that satisfy each question (1). `questions.jsonl` has them as the other generators take them.\n",
            f"- Rows: {figures.forms.total()} questions, written by {config.writer.kind}",
            f"- Graph: {config.kg_hash[:12]}, as of {plain(config.as_of) or 'a date that was not given'}",
            *origin_lines(manifest, "Paths of", config.seed),
        ]
    )


def _tables(figures: _Figures, config: KgQuestionRunConfig) -> str:
    asked: Counter[tuple[str, int]] = Counter()
    if config.demand or config.paths.blurred:
        asked = figures.paths
    else:
        for form, number in share_out(config.paths.shares, config.count).items():
            asked[form.shape, form.hops] += number
    told = f"By quotas ({config.demand}), in the place of the shares of `paths`; each path is one that they ask for.\n"
    lines = [
        "## Shapes\n",
        *([told] if config.demand else []),
        *([_BLURRED.format(figures.blurred, figures.paths.total())] if config.paths.blurred else []),
        "| shape | facts | paths asked for | paths found | questions |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {shape} | {hops} | {asked[shape, hops]} | {figures.paths[shape, hops]} | {figures.forms[shape, hops]} |"
        for shape, hops in sorted(asked | figures.paths | figures.forms)
    ]
    found = figures.paths.total()
    if missing := (asked - figures.paths).total():
        others = found - (figures.paths & asked).total() or "None"
        lines.append(
            f"\n{config.count} paths were asked for, {found} were found. {missing} were not found in the shape that was"
            " asked for: the graph has no more of it that `paths` in the run's configuration allows, or people refused"
            f" it. {others} of other shapes took their place."
        )
    if figures.tries:
        lines += ["\n## Attempts that gave no path\n", "| reason | attempts | why |", "|---|---:|---|"]
        ordered = sorted(figures.tries, key=lambda each: (-each.count, each.reason))
        lines += [f"| {each.reason} | {each.count} | {REFUSALS.get(each.reason, '')} |" for each in ordered]
    most = figures.relations.most_common(_MOST_RELATIONS)
    lines += [f"\n## Relations\n\nThe most frequent of {len(figures.relations)}.\n"]
    lines += ["| relation | questions |", "|---|---:|", *(f"| {plain(name)} | {count} |" for name, count in most)]
    return "\n".join(lines) + "\n"


def _limits(config: KgQuestionRunConfig, figures: _Figures) -> str:
    small = None
    if config.model.url == "embedded":
        answers = ", which answers from memory" if "closed_book" in figures.calls else ""
        small = f"{answers}; rules put the facts into words" if config.writer.kind == "templates" else ""
    checked = "- That one entity satisfies a question was counted in the graph: the world may know more of them."
    if "check" in figures.calls:
        checked += " The model was asked for others, and for what is wrong with the facts; it may not know."
    elif config.filters.check:
        checked += " The model was asked for no others: no question came so far."
    lines = [checked, "- What is asked was true at the graph's date."]
    if figures.by_name:
        number, every = len(figures.by_name), len(figures.entities)
        lines.append(
            f"- Of {number} of the {every} entities the graph has no id but the name: if two have one name, they are"
            " one here and cannot be told apart, and a question may mix their facts."
        )
    return limits(lines, small)


def _example(row: KgQuestion) -> str:
    hops = [
        f"{number}. {plain(hop.question)} **{plain(hop.answer)}**"
        for number, hop in enumerate(row.decomposition, start=1)
    ]
    facts = "\n".join(row.path)
    return "\n".join(
        [
            f"## One question: {row.shape} (`{row.uid}`)\n",
            f"{plain(short(row.question))}\n",
            f"Answer: {plain(row.answer)}\n",
            *hops,
            f"\n```text\n{short(facts)}\n```\n",
        ]
    )
