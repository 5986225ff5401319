"""Hooks for the documentation site: add the pages of the repository's root to docs/, and a page of the public names
with their signatures.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "index.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
"""Pages of the root, by their place on the site."""
_NAMED = re.compile(r"^(```\w+) (\S+\.\w+)$", re.MULTILINE)
"""A block of code that says its file's name."""
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add to the site the pages that do not lie in docs/, and return all of its files."""
    for name, place in PAGES.items():
        files.append(File.generated(config, place, content=_moved((ROOT / name).read_text(encoding="utf-8"), "")))
    files.append(File.generated(config, "api.md", content=_api()))
    return files


def on_page_markdown(markdown: str, *, page: object, **_: object) -> str:
    """Return a page's Markdown with links out of docs/ pointing at the site's own pages, and file names written as the
    site spells them.
    """
    folder = posixpath.dirname(page.file.src_uri)  # pyright: ignore[reportAttributeAccessIssue]
    markdown = _NAMED.sub(r'\1 title="\2"', markdown)
    return markdown if page.file.generated_by else _moved(markdown, posixpath.join("docs", folder))  # pyright: ignore[reportAttributeAccessIssue]


def _moved(text: str, folder: str) -> str:
    """A page of this folder of the project, with its links as the site needs them."""
    own = folder.removeprefix("docs").strip("/")

    def moved(found: re.Match[str]) -> str:
        target, anchor = found[2], found[3] or ""
        if ":" in target:
            return found[0]
        place = posixpath.normpath(posixpath.join(folder, target))
        on_site = PAGES.get(place) or (place.removeprefix("docs/") if place.startswith("docs/") else None)
        return f"{found[1]}{posixpath.relpath(on_site, own or '.')}{anchor})" if on_site else found[0]

    return _LINK.sub(moved, text)


def _api() -> str:
    """The names of docs/python.md's table, in its groups."""
    sys.path.insert(0, str(ROOT))
    from trailforge.doors import names_given

    homes = names_given("trailforge")
    table = (ROOT / "docs/python.md").read_text(encoding="utf-8").partition("## Names")[2].partition("## Extras")[0]
    lines = ["# Python API", "", "What `from trailforge import …` gives. [From Python](python.md) has examples.", ""]
    for group, named in re.findall(r"^\| (\w[\w ,]*) \| (`.*) \|$", table, re.MULTILINE):
        lines += [f"## {group.capitalize()}", ""]
        for name in re.findall(r"`(\w+)`", named):
            lines += [f"::: {homes[name]}.{name}" if homes[name] != "trailforge" else f"::: trailforge.{name}", ""]
    return "\n".join(lines)
