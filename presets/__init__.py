"""Named configurations: one YAML file each. A key that is left out keeps the default of its config class."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from schemas import InvalidInput


def preset_names() -> list[str]:
    """The presets that come with the project."""
    return sorted(f.name.removesuffix(".yaml") for f in files(__name__).iterdir() if f.name.endswith(".yaml"))


def load_preset(name_or_path: str) -> dict[str, Any]:
    """A preset by name, or a YAML file by path. Raises `InvalidInput` when there is none or it is no mapping."""
    path = Path(name_or_path)
    if path.suffix in {".yaml", ".yml"}:
        if not path.is_file():
            raise InvalidInput("no such preset file", file=path)
        source = path
    elif name_or_path in preset_names():
        source = files(__name__) / f"{name_or_path}.yaml"
    else:
        raise InvalidInput(f"no preset {name_or_path!r}; there are {', '.join(preset_names())}, or give a .yaml file")
    try:
        content = yaml.safe_load(source.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 at byte {error.start}", file=name_or_path) from error
    except yaml.YAMLError as error:
        raise InvalidInput(f"not valid YAML: {str(error).splitlines()[0]}", file=name_or_path) from error
    if not isinstance(content, dict):
        raise InvalidInput("a preset is a mapping of sections", file=name_or_path)
    content.pop("description", None)
    return content
