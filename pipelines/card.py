"""The dataset card of a run: front matter that hubs read, the funnel, the figures, one example of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import yaml

from inference.servers import embedded_licence
from pipelines.config import MctsRunConfig
from schemas import Manifest, StageCount, Trajectory

_DATA_TABLES = ("mcts_trajectories", "sft", "trees", "rejected")
_LONGEST_MESSAGE = 700


@dataclass(slots=True)
class _Figures:
    """What is counted over the rows."""

    kinds: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)
    tool_calls: int = 0
    examples: dict[str, Trajectory] = field(default_factory=dict)


def card(manifest: Manifest, config: MctsRunConfig, rows: Iterable[Trajectory]) -> str:
    """The card as Markdown."""
    figures = _count(rows)
    sections = [
        _front_matter(manifest),
        f"# {manifest.run_id}\n",
        _summary(manifest, config, figures),
        _funnel(manifest.stages),
        _kinds(figures),
        f"## Cost\n\n{cost_table(manifest)}\n",
        _limits(manifest, config),
        _examples(figures),
    ]
    return "\n".join(sections)


def _count(rows: Iterable[Trajectory]) -> _Figures:
    figures = _Figures()
    for row in rows:
        kind = row.reflection_error or row.kind
        figures.kinds[kind] += 1
        figures.origins[row.origin] += 1
        figures.tool_calls += row.num_tool_calls
        figures.examples.setdefault(kind, row)
    return figures


def _front_matter(manifest: Manifest) -> str:
    present = {file.path.split("/")[0] for file in manifest.files if file.rows}
    configs = [
        {"config_name": table, "data_files": [{"split": "train", "path": f"{table}/part-*.parquet"}]}
        for table in _DATA_TABLES
        if table in present
    ]
    content = {
        "pretty_name": manifest.run_id,
        "language": ["en"],
        "task_categories": ["question-answering", "text-generation"],
        "tags": ["search-agent", "mcts", "self-reflection", "trailforge"],
        "configs": configs,
    }
    return f"---\n{yaml.safe_dump(content, sort_keys=False)}---\n"


def _summary(manifest: Manifest, config: MctsRunConfig, figures: _Figures) -> str:
    total = figures.kinds.total()
    searches = f"{figures.tool_calls / total:.2f}" if total else "none"
    return "\n".join(
        [
            "Search-agent trajectories from tree search over question decompositions (MSearcher), as conversations",
            "with the loss mask per message (`train`).\n",
            f"- Rows: {total} trajectories; searches per trajectory: {searches}",
            f"- Model: {manifest.model}{_licence(config)}",
            f"- Questions: {', '.join(f'`{f.path}` ({f.rows} rows read)' for f in manifest.inputs)}",
            f"- Seed {config.seed}, configuration {manifest.config_hash}, trailforge {manifest.trailforge_version}\n",
        ]
    )


def _funnel(stages: Iterable[StageCount]) -> str:
    lines = ["## Funnel\n", "| stage | in | accepted | rejected | failed |", "|---|---:|---:|---|---|"]
    for line in stages:
        rejected = ", ".join(f"{c.reason} {c.count}" for c in line.rejected)
        failed = ", ".join(f"{c.reason} {c.count}" for c in line.failed)
        lines.append(f"| {line.name} | {line.inputs} | {line.accepted} | {rejected} | {failed} |")
    return "\n".join(lines) + "\n"


def _kinds(figures: _Figures) -> str:
    lines = ["## Kinds\n", "| kind | rows |", "|---|---:|"]
    lines += [f"| {kind} | {count} |" for kind, count in sorted(figures.kinds.items())]
    lines += ["\n| plan made by | rows |", "|---|---:|"]
    lines += [f"| {origin} | {count} |" for origin, count in sorted(figures.origins.items())]
    return "\n".join(lines) + "\n"


def cost_table(manifest: Manifest) -> str:
    """What a run took, as a Markdown table."""
    calls, cost = manifest.calls_per_accepted_row, manifest.cost_per_accepted_row
    return "\n".join(
        [
            "| calls | cut replies | prompt tokens | completion tokens | cost | calls per accepted row "
            "| cost per accepted row |",
            "|---:|---:|---:|---:|---:|---:|---:|",
            f"| {manifest.calls} | {manifest.cut_replies} | {manifest.prompt_tokens} | {manifest.completion_tokens} "
            f"| {manifest.cost:.4f} | {'' if calls is None else calls} | {'' if cost is None else cost} |",
        ]
    )


def _limits(manifest: Manifest, config: MctsRunConfig) -> str:
    lines = ["## Known limits\n"]
    if config.model.url == "embedded" or config.generator.policy.kind == "rules":
        lines.append(
            "- Made with a very small embedded model and rule-made plans, to demonstrate the pipeline. "
            "Not meant for training."
        )
    lines += [
        "- Connective sentences are drawn from fixed pools; answers and plans are the model's.",
        "- Rows with `origin = oracle` follow the data set's gold decomposition, not a plan of the model.",
        "- Questions, answers and passages keep the licence of their source.",
    ]
    return "\n".join(lines) + "\n"


def _examples(figures: _Figures) -> str:
    parts = ["## One example of each kind\n"] if figures.examples else []
    for kind, row in sorted(figures.examples.items()):
        parts.append(f"### {kind} (`{row.uid}`)\n")
        parts += [f"**{m.role}**\n\n```text\n{_short(m.content)}\n```\n" for m in row.messages[1:]]
    return "\n".join(parts)


def _short(text: str) -> str:
    text = text.replace("```", "'''")
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + " …"


def _licence(config: MctsRunConfig) -> str:
    licence = embedded_licence(config.model.name)
    return f" (licence {licence})" if licence else ""
