"""What the dataset cards of all runs have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import yaml

from inference.servers import embedded_licence
from schemas import Manifest, StageCount

LONGEST_EXAMPLE = 700
"""Characters of a text in an example."""
EMBEDDED_LIMIT = (
    "- Made with a very small embedded model{and_what}, to demonstrate the pipeline. Not meant for training."
)


def front_matter(manifest: Manifest, tables: Sequence[str], tags: Sequence[str]) -> str:
    """What hubs read: a configuration for each of these tables that has rows."""
    present = {file.path.split("/")[0] for file in manifest.files if file.rows}
    configs = [
        {"config_name": table, "data_files": [{"split": "train", "path": f"{table}/part-*.parquet"}]}
        for table in tables
        if table in present
    ]
    content = {
        "pretty_name": manifest.run_id,
        "language": ["en"],
        "task_categories": ["question-answering", "text-generation"],
        "tags": ["search-agent", *tags, "trailforge"],
        "configs": configs,
    }
    return f"---\n{yaml.safe_dump(content, sort_keys=False)}---\n"


def origin_lines(manifest: Manifest, what: str, seed: int) -> list[str]:
    """Model, input and configuration of a run. `what`: the files hold, e.g. `Questions`."""
    licence = embedded_licence(manifest.model)
    return [
        f"- Model: {manifest.model}{f' (licence {licence})' if licence else ''}",
        f"- {what}: {', '.join(f'`{f.path}` ({f.rows} rows read)' for f in manifest.inputs)}",
        f"- Seed {seed}, configuration {manifest.config_hash}, trailforge {manifest.trailforge_version}\n",
    ]


def funnel_table(stages: Iterable[StageCount]) -> str:
    """The books as a section."""
    lines = ["## Funnel\n", "| stage | in | accepted | rejected | failed |", "|---|---:|---:|---|---|"]
    for line in stages:
        rejected = ", ".join(f"{c.reason} {c.count}" for c in line.rejected)
        failed = ", ".join(f"{c.reason} {c.count}" for c in line.failed)
        lines.append(f"| {line.name} | {line.inputs} | {line.accepted} | {rejected} | {failed} |")
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


def short(text: str) -> str:
    """A text of an example, cut where it is long."""
    text = text.replace("```", "'''")
    return text if len(text) <= LONGEST_EXAMPLE else text[:LONGEST_EXAMPLE] + " …"
