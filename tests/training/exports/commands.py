"""The commands that exports print, read as the trainers read them.

`options/` has the names of their options with what each takes, for trainers that are not installed beside the project:
OpenRLHF's 0.11.2 (`train_sft`), LLaMA-Factory's 0.9.5 (its classes and `TrainingArguments`), slime's of September 2026
(`slime/utils/arguments.py` and, of Megatron, what its own scripts use), and verl's keys with their defaults (0.9.1).
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path
from typing import Any

OPTIONS = Path(__file__).with_name("options")
_TYPES: dict[str, Any] = {"int": int, "float": float, "str": str}


class Parser(argparse.ArgumentParser):
    """Fails instead of leaving, and takes no abbreviations: a name that is almost right is wrong."""

    def error(self, message: str) -> Any:
        raise AssertionError(message)


def command_in(readme: Path, program: str) -> list[str]:
    """The words of the one command of a README that names a program; the shell's variables stand as they are."""
    commands = [each for each in re.findall(r"```bash\n(.*?)\n```", readme.read_text(), re.DOTALL) if program in each]
    assert len(commands) == 1, f"{len(commands)} commands with {program}"
    return shlex.split(commands[0].replace("\\\n", " "))


def read(options: str, words: list[str]) -> argparse.Namespace:
    """Words as the trainer of `options/NAME.txt` reads them. Names with dots are attributes by `getattr`."""
    parser = Parser(allow_abbrev=False)
    for line in (OPTIONS / f"{options}.txt").read_text().splitlines():
        name, kind, *several = line.split()
        if kind == "flag":
            parser.add_argument(name, action="store_true")
        else:
            taken: dict[str, Any] = {"type": _TYPES[kind]} if kind in _TYPES else {"choices": kind.split("|")}
            if several:
                taken["nargs"] = "*"
            parser.add_argument(name, **taken)
    return parser.parse_args(words)


def verl_settings(config: str, words: list[str]) -> dict[str, Any]:
    """verl's defaults with a command's overrides in their place; every override has to name a key that there is."""
    defaults = dict(line.split(" ", 1) for line in (OPTIONS / f"verl-{config}.txt").read_text().splitlines())
    settings = {key: value if value == "???" else json.loads(value) for key, value in defaults.items()}
    for word in words:
        key, _, value = word.partition("=")
        assert key in settings, key
        settings[key] = value
    return settings


def verl_config(overrides: list[str], name: str) -> Any:
    """verl's own configuration with overrides, where it is installed."""
    import verl  # pyright: ignore[reportMissingImports]
    from hydra import compose, initialize_config_dir  # pyright: ignore[reportMissingImports]

    with initialize_config_dir(str(Path(str(verl.__file__)).parent / "trainer" / "config"), version_base=None):
        return compose(name, overrides=overrides)
