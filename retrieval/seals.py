"""Seals: a description of files, which holds their hashes, holds its own one as well."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

SEAL = "seal"


def seal(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content, and under `SEAL` its SHA-256."""
    return {**content, SEAL: _make_seal(content)}


def is_as_sealed(content: Mapping[str, Any]) -> bool:
    """Whether a content is as it was sealed; so is one without a seal, which earlier versions wrote."""
    return SEAL not in content or content[SEAL] == _make_seal({name: content[name] for name in content if name != SEAL})


def _make_seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
