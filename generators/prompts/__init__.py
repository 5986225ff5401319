"""Prompt templates and connective sentences: text files beside their user, versioned by their content."""

from __future__ import annotations

import hashlib
import random
from functools import cache
from importlib.resources import files

import yaml

from trailforge.schemas import InvalidInput

CONNECTIVES = "connectives"
"""The file of the sentences between the steps of a search."""
_HERE = files(__name__)


@cache
def load_prompt(name: str) -> str:
    """The text of `name`.txt. Raises `InvalidInput` when there is no such prompt."""
    file = _HERE / f"{name}.txt"
    if not file.is_file():
        known = sorted(f.name[:-4] for f in _HERE.iterdir() if f.name.endswith(".txt"))
        raise InvalidInput(f"no prompt of this name; there are {', '.join(known)}", field=name)
    return file.read_text(encoding="utf-8").strip("\n")


@cache
def load_pools(name: str) -> dict[str, tuple[str, ...]]:
    """The pools of sentences in `name`.yaml, by role."""
    pools = yaml.safe_load((_HERE / f"{name}.yaml").read_text(encoding="utf-8"))
    return {role: tuple(sentences) for role, sentences in pools.items()}


@cache
def load_phrases(name: str) -> dict[str, dict[str, dict[str, str]]]:
    """The phrases in `name`.yaml: by relation, then by the end that they describe, then by their use."""
    return yaml.safe_load((_HERE / f"{name}.yaml").read_text(encoding="utf-8"))


class Sentences:
    """Draws sentences from a file of pools, the same for the same seed: none again while others of its role wait."""

    def __init__(self, name: str, *, seed: str) -> None:
        self._rng, self._pools = random.Random(seed), load_pools(name)
        self._waiting: dict[str, list[str]] = {}

    def say(self, role: str, **fields: str) -> str:
        """A sentence of this role, with its fields filled in."""
        waiting = self._waiting.setdefault(role, [])
        if not waiting:
            waiting += self._rng.sample(self._pools[role], len(self._pools[role]))
        return waiting.pop().format(**fields)


def prompt_version(names: tuple[str, ...], *, pools: str = CONNECTIVES) -> str:
    """12 hex digits over the named prompts and a file of pools: changes whenever one of them does."""
    digest = hashlib.sha256()
    for text in (*(load_prompt(name) for name in names), repr(load_pools(pools))):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:12]
