"""Fill the templates beside this file, in which names in double braces stand for values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from importlib import resources
from typing import Any

_NAME = re.compile(r"\{\{(\w+)\}\}")
"""Of a value in a template."""


def read_template(name: str) -> str:
    """Return the text of a template."""
    return (resources.files("trailforge.launching") / name).read_text(encoding="utf-8")


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace the names in double braces in a text by their values. A line whose value is empty is left out."""
    lines = [line for line in template.splitlines() if all(values[name] for name in _NAME.findall(line))]
    return "\n".join(_NAME.sub(lambda name: values[name[1]], line) for line in lines) + "\n"


def fill_tree(template: Any, values: Mapping[str, Any]) -> Any:
    """Replace the names in double braces in parsed YAML by their values, which may be of any type; a value None removes
    its key.

    A name inside a longer text is replaced within it.
    """
    if isinstance(template, dict):
        filled = {key: fill_tree(value, values) for key, value in template.items()}
        return {key: value for key, value in filled.items() if value is not None}
    if isinstance(template, list):
        return [filled for value in template if (filled := fill_tree(value, values)) is not None]
    if not isinstance(template, str):
        return template
    name = _NAME.fullmatch(template)
    return values[name[1]] if name else _NAME.sub(lambda part: str(values[part[1]]), template)


def export_lines(variables: Mapping[str, str]) -> str:
    """Return shell lines that set environment variables."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
