"""Write the parts that the cards of all data sets share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from trailforge.pipelines.cards.licences import Source, front, of_questions, plain, section, shorten_path
from trailforge.pipelines.cards.plots import FUNNEL, funnel, write_figure
from trailforge.pipelines.datasets import CURATED, dataset_of
from trailforge.pipelines.engine.shards import SupportCount, support_in
from trailforge.pipelines.runs.config import CardConfig, RunConfig
from trailforge.pipelines.runs.intake import INPUTS, Settings, run_configuration
from trailforge.schemas import (
    DECISIONS_LOG,
    PATTERNS_LOG,
    Count,
    FileEntry,
    Manifest,
    Message,
    Question,
    StageCount,
    read_rows,
)

T = TypeVar("T")

LONGEST_EXAMPLE = 700
"""Number of characters of a text that an example shows."""
EMBEDDED_LIMIT = (
    "- Made with a very small embedded model{and_what}, to demonstrate the pipeline. Not meant for training."
)


_LOGS = frozenset(log.split("/")[-1] for log in (DECISIONS_LOG, PATTERNS_LOG))
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
_LARGEST = "10M<n<100M"
_MOST_REASONS = 20
_SPLITS = {"rejected": "rejected"}
"""Under which hubs have a table that is nothing to train on."""


def write_card(
    folder: Path,
    manifest: Manifest,
    config: RunConfig,
    *,
    tables: Sequence[str],
    tags: Sequence[str],
    sources: Sequence[Source],
    summary: str,
    own: Sequence[str],
    end: Sequence[str],
) -> str:
    """Return the card as Markdown, and write its plot of the funnel beside it.

    For `tables`, `tags` and `sources` see `front_matter`. `summary` says what the rows are. `own` and `end` are text of
    this data set alone, placed before the cost and after the licences.
    """
    write_figure(folder / FUNNEL, funnel(manifest.stages))
    figure = f"![What each stage let through]({FUNNEL})\n"
    of_all = _sections(folder, manifest, config.card, tables, tags, sources, summary, [figure, *own])
    return "\n".join([*of_all, *end])


def write_plain_card(folder: Path, manifest: Manifest, settings: Settings) -> str:
    """Return a card with what holds for any run: its origin, counts by stage, cost and licences."""
    dataset = dataset_of(settings)
    config: RunConfig = run_configuration(dataset, settings)
    sources = of_questions(folder, config.card) if dataset.inputs.record is Question else []
    summary = "\n".join(origin_lines(manifest, "Inputs", config.seed))
    tables = (dataset.rows, *dataset.tables)
    return "\n".join(_sections(folder, manifest, config.card, tables, [], sources, summary, []))


def _sections(
    folder: Path, manifest: Manifest, config: CardConfig, tables: Sequence[str], tags: Sequence[str],
    sources: Sequence[Source], summary: str, own: Sequence[str],
) -> list[str]:  # fmt: skip
    """Of all cards."""
    support = support_in(folder)
    return [
        front_matter(manifest, tables, tags, sources, config),
        *([f"> **{support.warning[0].upper()}{support.warning[1:]}.**\n"] if support.warning else []),
        f"# {manifest.run_id}\n",
        summary,
        funnel_table(manifest.stages),
        *([_describe_support(support)] if support.questions else []),
        *own,
        f"## Cost\n\n{cost_table(manifest)}\n",
        section(manifest.model, sources, config),
    ]


def rows_of(folder: Path, table: str, record: type[T]) -> Iterable[T]:
    """Read the rows of a run's table."""
    return read_rows(sorted((folder / table).glob("part-*.parquet")), record)


def limits(lines: Sequence[str], embedded: str | None) -> str:
    """Return the section on known limits, one of `lines` after the other. `embedded` says, in words, what the packaged
    small model made beside the rows; with None that model was not used, and the limit on it is left out.
    """
    small = [] if embedded is None else [EMBEDDED_LIMIT.format(and_what=embedded)]
    return "\n".join(["## Known limits\n", *small, *lines]) + "\n"


def turn(message: Message) -> str:
    """Return a message of an example as Markdown."""
    return f"**{message.role}**\n\n```text\n{short(message.content)}\n```\n"


def pair_example(pair: Any, lead: str) -> list[str]:
    """Return a row of `pairs` as an example: both sides from where they differ, after the line `lead`."""
    sides = (pair.good_messages, pair.bad_messages)
    return [
        f"### pair (`{pair.uid}`)\n",
        f"```text\n{short(pair.question)}\n```\n",
        f"{lead} at message {pair.diverges_at}; the second was rejected for `{pair.reason}`. How each goes on:\n",
        *(turn(messages[pair.diverges_at]) for messages in sides if pair.diverges_at < len(messages)),
    ]


def front_matter(
    manifest: Manifest, tables: Sequence[str], tags: Sequence[str], sources: Sequence[Source], config: CardConfig
) -> str:
    """Return the card's front matter, which hubs read, and a notice where nothing was kept.

    `tables` are the run's, the main one first; each that has rows gets a configuration. `sft`, or the main table where
    that has no rows, is loaded by default; rejected rows are in no configuration.
    """
    rows, product = Counter[str](), tables[0] if tables else ""
    for file in manifest.files:
        rows[file.path.split("/")[0]] += file.rows
    present = [table for table in (*tables, INPUTS, CURATED) if rows[table]]
    configs: list[dict[str, Any]] = [
        {
            "config_name": table,
            "data_files": [{"split": _SPLITS.get(table, "train"), "path": f"{table}/part-*.parquet"}],
        }
        for table in present
    ]
    if default := next((table for table in ("sft", product) if table in present), ""):
        configs[present.index(default)]["default"] = True
    content = {
        "pretty_name": manifest.run_id,
        **front(sources),
        "language": list(config.languages),
        "size_categories": [_size(rows[product])],
        "task_categories": ["question-answering", "text-generation"],
        "tags": [*dict.fromkeys(["search-agent", *tags, "trailforge"])],
        "configs": configs,
    }
    empty = "" if rows[product] or not product else describe_empty(manifest.stages)
    warning = f"\n> **{empty}**\n" if empty else ""
    return f"---\n{yaml.safe_dump(content, sort_keys=False)}---\n{warning}"


def describe_empty(stages: Iterable[StageCount]) -> str:
    """Return a notice for a run without rows: which filter, or which error, took most. Empty for a run whose last stage
    kept something: it ended there because no more was asked for.
    """
    lines = [line for line in stages if line.inputs]
    if lines and lines[-1].accepted:
        return ""
    if not lines:
        return "NOTHING WAS KEPT: there was nothing to begin with."
    taken = [(each.count, each.reason, line) for line in lines for each in (*line.rejected, *line.failed)]
    if not taken:
        return "NOTHING WAS KEPT, though nothing was rejected."
    count, reason, line = max(taken, key=lambda each: each[0])
    return f"NOTHING WAS KEPT. Most was put aside for {plain(short(reason))}: {count} of {line.inputs} at {line.name}."


def origin_lines(manifest: Manifest, what: str, seed: int) -> list[str]:
    """Return lines on the model, input and configuration of a run. `what` is what the files contain, e.g.
    `Questions`.
    """
    given = [file for file in manifest.inputs if Path(file.path).name not in _LOGS]
    verdicts = [file for file in manifest.inputs if file not in given]
    return [
        f"- Model: {manifest.model}",
        f"- {what}: {_files(given, 'rows read')}",
        *([f"- What curators said: {_files(verdicts, 'lines', 3)}"] if verdicts else []),
        f"- Seed {seed}, configuration {manifest.config_hash}, trailforge {manifest.trailforge_version}\n",
    ]


def funnel_table(stages: Iterable[StageCount]) -> str:
    """Return the counts of a run's stages as a Markdown section."""
    lines = ["## Funnel\n", "| stage | in | accepted | rejected | failed |", "|---|---:|---:|---|---|"]
    for line in stages:
        rejected, failed = _reasons(line.rejected), _reasons(line.failed)
        lines.append(f"| {line.name} | {line.inputs} | {line.accepted} | {rejected} | {failed} |")
    return "\n".join(lines) + "\n"


def _describe_support(support: SupportCount) -> str:
    return (
        f"Searches brought a supporting document for {support.found:,} of the {support.questions:,} questions that "
        "name theirs and were searched for.\n"
    )


def _reasons(counts: Sequence[Count]) -> str:
    """The first ones; those that people gave may be all different."""
    reasons = [f"{plain(short(each.reason))} {each.count}" for each in counts[:_MOST_REASONS]]
    rest = sum(each.count for each in counts[_MOST_REASONS:])
    return ", ".join([*reasons, f"for other reasons {rest}"] if rest else reasons)


def cost_table(manifest: Manifest) -> str:
    """Write what a run took in calls, tokens and cost as a Markdown table."""
    calls, cost = manifest.calls_per_accepted_row, manifest.cost_per_accepted_row
    return "\n".join(
        [
            "| calls | cut replies | prompt tokens | completion tokens | cost | calls per accepted row "
            "| cost per accepted row |",
            "|---:|---:|---:|---:|---:|---:|---:|",
            f"| {manifest.calls} | {manifest.cut_replies} | {manifest.prompt_tokens} | {manifest.completion_tokens} "
            f"| {manifest.cost:.4f} | {'' if calls is None else calls} "
            f"| {'' if cost is None else f'{cost:.4f}'} |",
            *_purposes(manifest),
        ]
    )


def _purposes(manifest: Manifest) -> list[str]:
    counts = manifest.calls_by_purpose
    rows = [f"| {plain(each.purpose)} | {each.calls} | {each.calls / manifest.calls:.0%} |" for each in counts]
    return ["", "| calls for | calls | share |", "|---|---:|---:|", *rows] if rows else []


def _files(files: Iterable[FileEntry], unit: str, parts: int = 2) -> str:
    return ", ".join(f"`{shorten_path(file.path, parts)}` ({file.rows} {unit})" for file in files)


def _size(rows: int) -> str:
    """As hubs put data sets into classes."""
    return next((name for limit, name in _SIZES if rows < limit), _LARGEST)


def short(text: str) -> str:
    """Return an example's text, cut where it is long."""
    text = text.replace("```", "'''")
    return text if len(text) <= LONGEST_EXAMPLE else text[:LONGEST_EXAMPLE] + " …"
