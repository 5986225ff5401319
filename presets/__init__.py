"""Named configurations, one YAML file each; a key that is left out keeps the default of its config class.

A preset is for the data set that its key `dataset` names; without that key it is for all of them, and a section named
after a data set holds what goes over the others for that one. One with `preset: demo` builds on the shipped one of that
name: what it says goes over that, field by field.

Training presets are in `train/`, those of evaluations in `evaluation/` and of indexes in `index/`: they are for no data
set. `bands/` says between which bounds the figures of finished runs are to be, `nights/` which data sets a night makes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from trailforge.schemas import InvalidInput

GROUP = "trailforge.datasets"
"""Group of the entry points that declare data sets: each has the name of a data set for which presets can be
written."""

_HOUSE = files(__name__)
_LARGEST = 1 << 16
"""Largest size of a preset file in bytes. The largest of ours has a seventh of it."""
_MOST_DEEP = 50
_NOT_YAML = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, OverflowError)
"""Errors that PyYAML raises. All but the first concern a value that its tag does not allow, as a date that does not
exist."""


@cache
def declared_datasets() -> dict[str, EntryPoint]:
    """Return the installed data sets in alphabetical order; none is loaded."""
    return {each.name: each for each in sorted(entry_points(group=GROUP), key=lambda each: each.name)}


def preset_names(dataset: str | None = None) -> list[str]:
    """Return the names of the presets that come with the project; with `dataset`, of those for that data set."""
    return [name for name in _names(_HOUSE) if dataset is None or _content(name).get("dataset", dataset) == dataset]


def training_preset_names() -> list[str]:
    """Return the names of the training presets that come with the project."""
    return _names(_HOUSE / "train")


def load_training_preset(name_or_path: str) -> dict[str, Any]:
    """Read a training preset by its name or by a YAML file's path. Raises `InvalidInput` when there is none."""
    return _based(name_or_path, _HOUSE / "train")


def load_evaluation_preset(name_or_path: str) -> dict[str, Any]:
    """Read an evaluation's preset by its name or by a YAML file's path. Raises `InvalidInput` when there is none."""
    return _based(name_or_path, _HOUSE / "evaluation")


def index_preset_names() -> list[str]:
    """Return the names of the presets of indexes that come with the project."""
    return _names(_HOUSE / "index")


def load_index_preset(name_or_path: str) -> dict[str, Any]:
    """Read an index's preset by its name or by a YAML file's path. Raises `InvalidInput` when there is none."""
    return _based(name_or_path, _HOUSE / "index")


def load_bands(name_or_path: str) -> dict[str, Any]:
    """Read the bounds between which figures of finished runs are to be, by the file's name in `bands/` or by a path.
    Raises `InvalidInput` when there is no such file.
    """
    house = _HOUSE / "bands"
    return _read(name_or_path, house, lambda: _names(house))


def load_night(name_or_path: str) -> dict[str, Any]:
    """Read which data sets a night makes, by the file's name in `nights/` or by a path. Raises `InvalidInput` when
    there is no such file.
    """
    house = _HOUSE / "nights"
    return _read(name_or_path, house, lambda: _names(house))


def load_guide(path: Path) -> dict[str, Any]:
    """Read a YAML file that guides curators. Raises `InvalidInput` when it cannot be read or is no mapping."""
    return _read(str(path), _HOUSE, list)


def load_preset(name_or_path: str, dataset: str) -> dict[str, Any]:
    """Read a preset, given by its name or by a YAML file's path, as it applies to a data set. Raises `InvalidInput`
    when there is none, it is no mapping, or it is for another data set.
    """
    content = _content(name_or_path, dataset)
    base = _base_of(content, name_or_path, _HOUSE)
    below = load_preset(base, dataset) if base else {}
    meant = content.pop("dataset", dataset)
    if meant != dataset:
        others = ", ".join(preset_names(dataset))
        raise InvalidInput(
            f"the preset is for {meant}, not for {dataset}; for that there are {others}", file=name_or_path
        )
    own = content.get(dataset) or {}
    if not isinstance(own, dict):
        raise InvalidInput("expected a mapping of sections", file=name_or_path, field=dataset)
    shared = {name: section for name, section in content.items() if name not in declared_datasets()}
    return _merged(below, _merged(shared, own))


def datasets_of(name_or_path: str) -> list[str]:
    """Return the data sets that a preset names: by its key `dataset`, or else by sections named after them and by the
    preset that it builds on; empty when it names none. Raises what `load_preset` raises.
    """
    content, known = _content(name_or_path), declared_datasets()
    base = _base_of(content, name_or_path, _HOUSE)
    named = content.get("dataset")
    if named is not None and named not in known:
        raise InvalidInput(f"no data set {named!r}; there are {', '.join(known)}", file=name_or_path, field="dataset")
    if named is not None:
        return [named]
    below = datasets_of(base) if base else []
    return [name for name in known if name in content or name in below]


def _base_of(content: dict[str, Any], file: str, house: Traversable) -> str:
    """The shipped preset that one builds on, taken out of it; empty where it builds on none."""
    if (base := content.pop("preset", None)) is None:
        return ""
    if base not in _names(house):
        problem = f"expected the name of a shipped preset to build on ({', '.join(_names(house))}), found {base!r}"
        raise InvalidInput(problem, file=file, field="preset")
    return base


def _based(name_or_path: str, house: Traversable) -> dict[str, Any]:
    """What a preset that is for no data set says, over what the one that it builds on does."""
    content = _read(name_or_path, house, lambda: _names(house))
    base = _base_of(content, name_or_path, house)
    return _merged(_based(base, house), content) if base else content


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Sections laid over each other, fields of a section too."""
    both = below.keys() & above.keys()
    deeper = {
        name: _merged(below[name], above[name])
        for name in both
        if isinstance(below[name], dict) and isinstance(above[name], dict)
    }
    return below | above | deeper


class _Loader(yaml.SafeLoader):
    """Reads `5e-6` as the number it is: PyYAML takes a number without a point for text. Refuses deep nesting."""

    _levels = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """See PyYAML's composer, which would run out of stack."""
        self._levels += 1
        if self._levels > _MOST_DEEP:
            raise yaml.YAMLError("it is nested too deeply")
        node = super().compose_node(parent, index)
        self._levels -= 1
        return node

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:
        """See PyYAML's scanner, which reads a thousand brackets, looking back at each, before one is composed."""
        if self.flow_level > _MOST_DEEP:
            raise yaml.YAMLError("it is nested too deeply")
        super().fetch_flow_collection_start(TokenClass)


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))


def _content(name_or_path: str, dataset: str | None = None) -> dict[str, Any]:
    return _read(name_or_path, _HOUSE, lambda: preset_names(dataset))


def _read(name_or_path: str, house: Traversable, offered: Callable[[], list[str]]) -> dict[str, Any]:
    path = Path(name_or_path)
    if path.suffix in {".yaml", ".yml"}:
        if not path.is_file():
            raise InvalidInput("no such preset file", file=path)
        source = path
    elif name_or_path in _names(house):
        source = house / f"{name_or_path}.yaml"
    else:
        raise InvalidInput(f"no preset {name_or_path!r}; there are {', '.join(offered())}, or give a .yaml file")
    try:
        content = yaml.load(_limited(source, name_or_path), _Loader)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 at byte {error.start}", file=name_or_path) from error
    except _NOT_YAML as error:
        raise InvalidInput(f"not valid YAML: {(str(error).splitlines() or [''])[0]}", file=name_or_path) from error
    if not isinstance(content, dict):
        raise InvalidInput("expected a mapping of sections", file=name_or_path)
    content.pop("description", None)
    return content


def _limited(source: Traversable, name: str) -> str:
    with source.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise InvalidInput(f"larger than {_LARGEST >> 10} KiB, which no preset is", file=name)
    return content.decode("utf-8")


def _names(house: Traversable) -> list[str]:
    return sorted(f.name.removesuffix(".yaml") for f in house.iterdir() if f.name.endswith(".yaml"))
