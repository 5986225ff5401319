"""Links of the guides: each leads to a file of the project, and where it names a heading, to that. The site has them
all."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.test_architecture import ROOT, sources

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "datasets_out/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
SITE = ROOT / ".ci/mkdocs.yml"
FENCED = re.compile(r"^(```+).*?^\1\s*$", re.DOTALL | re.MULTILINE)


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What its headings are called in addresses, as GitHub and the site name them."""
    seen: Counter[str] = Counter()
    found = set()
    for title in re.findall(r"^#{1,6} +(.+?) *$", prose(page), re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")
        found.add(f"{words}-{seen[words]}" if seen[words] else words)
        seen[words] += 1
    return found


def broken(page: Path) -> list[str]:
    """Links of a page, within the project, that lead nowhere."""
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        place, _, anchor = target.partition("#")
        if ":" in place:
            continue
        file = page.parent / place if place else page
        if not file.exists() or (anchor and (file.suffix != ".md" or anchor not in anchors(file))):
            found.append(target)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A `b`, c\n\n[x](a.md#a-b-c) [y](#a-b-c) [z](https://x.y/#no)\n")
    assert broken(tmp_path / "a.md") == []
    (tmp_path / "a.md").write_text("# A\n\n[x](b.md) [y](a.md#b) [z](#b)\n```\n# B\n[w](c.md)\n```\n")
    assert broken(tmp_path / "a.md") == ["b.md", "a.md#b", "#b"]


def test_every_guide_is_a_page_of_the_site_and_has_a_way_in() -> None:
    """Named in its contents; and in the README, or in a page that the README names."""
    named = set(re.findall(r": ([\w/-]+\.md)$", SITE.read_text(encoding="utf-8"), re.MULTILINE))
    guides = {path.relative_to(ROOT / "docs").as_posix() for path in PAGES if path.is_relative_to(ROOT / "docs")}
    assert named == guides | {"index.md", "api.md", "CHANGELOG.md", "CONTRIBUTING.md"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {guide for guide in guides if f"(docs/{guide}" not in readme} == set()


def test_long_pages_begin_with_their_contents() -> None:
    """So that one finds in them what one looks for, where they are read without the site."""
    for page in PAGES:
        titles = re.findall(r"^## +(.+?) *$", prose(page), re.MULTILINE)
        if page.parent.name == "docs" and len(page.read_text(encoding="utf-8").splitlines()) > 300:
            head = prose(page).partition("\n## ")[0]
            assert len(re.findall(r"\]\(#", head)) >= len(titles), page.name


def test_messages_that_are_explained_are_ones_that_are_said() -> None:
    """Each stands in some file of ours."""
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    table = page.partition("## By message")[2].partition("\n## ")[0]
    explained = re.findall(r"^\| `([^|]+)` \|", table, re.MULTILINE)
    code = "".join(file.read_text(encoding="utf-8") for file in sources(ROOT))
    assert len(explained) >= 12 and [text for text in explained if text not in code] == []
