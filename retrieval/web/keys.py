"""Keys of providers: they come from the environment alone, and are shown nowhere."""

from __future__ import annotations

import os

from trailforge.inference.keys import is_sendable
from trailforge.schemas import InvalidInput


def key_from(variable: str, provider: str) -> str:
    """The key in an environment variable. Raises `InvalidInput` that names the variable, and never the key."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise InvalidInput(f"{provider} wants a key: set the environment variable {variable}")
    if not is_sendable(key):
        raise InvalidInput(f"the environment variable {variable} holds characters that no key has; set it anew")
    return key
