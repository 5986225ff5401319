"""`trailforge push`: a finished run to the Hugging Face Hub."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Annotated

import typer

from trailforge.commands.options import RunFolder

if TYPE_CHECKING:
    from trailforge.pipelines.runs.pushing import LocalFile

EPILOG = """Examples:\n
    trailforge push datasets_out/demo --repo ann/search-trails --dry-run      what would go, without a token\n
    trailforge push datasets_out/demo --repo ann/search-trails --private\n
    trailforge push datasets_out/demo-curated --repo ann/search-trails --revision curated\n
    The token comes from HF_TOKEN, another server's address from HF_ENDPOINT."""


def push(
    folder: RunFolder,
    repo: Annotated[str, typer.Option(help="Data set on the Hub; made where it is not there.", metavar="OWNER/NAME")],
    private: Annotated[bool, typer.Option("--private", help="Only where the data set is private.")] = False,
    revision: Annotated[
        str | None, typer.Option(help="Branch; made where it is not there. Default: main.", metavar="BRANCH")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only verify the run and list what would go.")] = False,
) -> None:
    """Verify a finished run and put its tables, card and manifest on the Hub, in one commit."""
    from trailforge.pipelines.runs import pushing

    if dry_run:
        files = pushing.checked_files(folder, repo)
        for line in _describe(files):
            print(line)
        print(f"{len(files)} files, {pushing.megabytes(files)}, verified; nothing was sent to {repo}")
        return
    made = pushing.push(folder, repo, private=private, revision=revision, tell=lambda line: print(line, flush=True))
    if not made.sent and not made.removed:
        print(f"{repo} has all of it already: nothing was sent. {made.url}")
    else:
        print(f"{made.sent} files sent, {made.removed} removed: {made.url}")


def _describe(files: list[LocalFile]) -> list[str]:
    """A line for each folder, and for each file that is in none."""
    groups: dict[str, list[LocalFile]] = defaultdict(list)
    for file in files:
        table, slash, _ = file.name.partition("/")
        groups[table + slash].append(file)
    return [f"{name:<24} {len(each):>5} {sum(f.size for f in each):>14,} bytes" for name, each in groups.items()]


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.command("push", epilog=EPILOG)(push)
