"""Load prompt templates and pools of sentences from the folder `prompts/` of a package; their version is a hash of
their content.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import yaml

from trailforge.schemas import InvalidInput, installed_plugins

PROMPTS = "trailforge.prompts"
"""Group of entry points: packages whose prompts a preset may also name."""


class Prompts:
    """The prompts that a package may use, by name: its own, then those of other given packages, then those of
    plug-ins."""

    def __init__(self, *packages: str) -> None:
        self._packages = packages

    def text(self, name: str) -> str:
        """Return the text of `name`.txt. Raises `InvalidInput` when there is no such prompt."""
        return _text(self._packages, name)

    def pools(self, name: str) -> Mapping[str, tuple[str, ...]]:
        """Return the pools of sentences in `name`.yaml: for each role, which is what a sentence is used for, the
        wordings to draw from."""
        return _pools(self._packages, name)

    def phrases(self, name: str) -> Any:
        """Return the parsed content of `name`.yaml."""
        return _parsed(self._packages, name)

    def version(self, names: Sequence[str], *, pools: str = "connectives") -> str:
        """Return 12 hex digits, a hash of the prompts with these names and of the pools of sentences in the file
        `pools`."""
        digest = hashlib.sha256()
        for text in (*map(self.text, names), repr(self.pools(pools))):
            digest.update(text.encode() + b"\0")
        return digest.hexdigest()[:12]


class Sentences:
    """Draws sentences from pools, the same for the same seed; no sentence is repeated before all others of its role
    were drawn."""

    def __init__(self, pools: Mapping[str, Sequence[str]], *, seed: str) -> None:
        self._rng, self._pools = random.Random(seed), pools
        self._waiting: dict[str, list[str]] = {}

    def draw(self, role: str, **fields: str) -> str:
        """Return a sentence of this role, with its fields filled in."""
        waiting = self._waiting.setdefault(role, [])
        if not waiting:
            waiting += self._rng.sample(self._pools[role], len(self._pools[role]))
        return waiting.pop().format(**fields)


@cache
def _text(packages: tuple[str, ...], name: str) -> str:
    return _find(packages, name, ".txt").read_text(encoding="utf-8").strip("\n")


@cache
def _parsed(packages: tuple[str, ...], name: str) -> Any:
    return yaml.safe_load(_find(packages, name, ".yaml").read_text(encoding="utf-8"))


@cache
def _pools(packages: tuple[str, ...], name: str) -> dict[str, tuple[str, ...]]:
    return {role: tuple(sentences) for role, sentences in _parsed(packages, name).items()}


def _find(packages: tuple[str, ...], name: str, suffix: str) -> Traversable:
    for folder in map(_folder, packages):
        if (file := folder / f"{name}{suffix}").is_file():
            return file
    others = [_folder(each.value) for each in installed_plugins(PROMPTS).values()]
    for folder in others:
        if (file := folder / f"{name}{suffix}").is_file():
            return file
    every = [each.name for folder in (*map(_folder, packages), *others) if folder.is_dir() for each in folder.iterdir()]
    known = sorted(each.removesuffix(suffix) for each in every if each.endswith(suffix))
    raise InvalidInput(f"no prompt of this name; there are {', '.join(known)}", field=name)


def _folder(package: str) -> Traversable:
    return files(package) / "prompts"
