"""Files with names in double braces, which values take the place of: those beside this file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from importlib import resources
from typing import Any

_NAME = re.compile(r"\{\{(\w+)\}\}")
"""Of a value in a template."""


def read_template(name: str) -> str:
    """The text of one."""
    return (resources.files("trailforge.launching") / name).read_text(encoding="utf-8")


def fill(template: str, values: Mapping[str, str]) -> str:
    """A text with values in the place of their names. A line whose value is empty is left out."""
    lines = [line for line in template.splitlines() if all(values[name] for name in _NAME.findall(line))]
    return "\n".join(_NAME.sub(lambda name: values[name[1]], line) for line in lines) + "\n"


def fill_tree(template: Any, values: Mapping[str, Any]) -> Any:
    """The same for YAML that was read: a value may be anything, and takes its key along where it is None.

    A name that is part of a text becomes part of it.
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
    """Lines of shell that set variables."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
