"""The server's API key: from the environment and nowhere else."""

from __future__ import annotations

import os

from trailforge.schemas.text import visible

KEY_VARIABLES = ("TRAILFORGE_API_KEY", "OPENAI_API_KEY")
"""The first that is set counts."""


def key_variable() -> str | None:
    """Name of the variable that holds the key; None when there is no key."""
    return next((name for name in KEY_VARIABLES if os.environ.get(name, "").strip()), None)


def api_key() -> str | None:
    """The key, without the blanks around it; None when there is none."""
    name = key_variable()
    return os.environ[name].strip() if name else None


def first_line(text: str) -> str:
    """Of a server's text: without control characters, and without our key, which some repeat."""
    if key := api_key():
        text = text.replace(key, "<key>")
    return visible((text.strip().splitlines() or [""])[0][:200])


def is_sendable(key: str) -> bool:
    """Whether a key can stand in a header: what cannot was pasted wrongly."""
    return key.isascii() and key.isprintable()
