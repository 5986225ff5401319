"""Rewrite the links of a tree's README.md so that they work on a package index, which shows that file alone.

With `Repository` under `[project.urls]` they lead there, to the tag of the version. Without it they are the paths of
the source distribution, which has all files that they name; pictures, which nobody could see, are their descriptions.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:)([^)\s]+)\)")
_NOTE = "*Paths are those of the source distribution (`pip download --no-deps --no-binary :all: {name}`).*"


def rewrite(text: str, project: dict[str, object]) -> str:
    """Return the README's text with its links rewritten for a package index; `project` is the table of that name in
    pyproject.toml.
    """
    urls = project.get("urls")
    if isinstance(urls, dict) and (home := str(urls.get("Repository", "")).rstrip("/")):
        kinds = {"": "blob", "!": "raw"}
        return _LINK.sub(lambda m: f"{m[1]}[{m[2]}]({home}/{kinds[m[1]]}/v{project['version']}/{m[3]})", text)
    title, _, rest = text.partition("\n")
    note = _NOTE.format(name=project["name"]) if _LINK.search(text) else ""
    return _LINK.sub(_as_path, "\n\n".join(filter(None, (title, note))) + "\n" + rest)


def _as_path(found: re.Match[str]) -> str:
    picture, words, target = found.groups()
    if picture:
        return f"*{words}*"
    return f"`{target}`" if words == target.partition("#")[0] else f"{words} (`{target}`)"


if __name__ == "__main__":
    tree = Path(sys.argv[1])
    declared = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
    readme = tree / "README.md"
    readme.write_text(rewrite(readme.read_text(encoding="utf-8"), declared["project"]), encoding="utf-8")
