"""Prompts of the training stage: text files beside their user, versioned by their content."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files


@cache
def load_prompt(name: str) -> str:
    """The text of `name`.txt."""
    return (files(__name__) / f"{name}.txt").read_text(encoding="utf-8").strip("\n")


def prompt_version(name: str) -> str:
    """12 hex digits over a prompt: changes whenever it does."""
    return hashlib.sha256(load_prompt(name).encode()).hexdigest()[:12]
