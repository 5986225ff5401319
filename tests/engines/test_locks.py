"""The locks of training engines, held against pyproject.toml without asking anybody."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ("verl", "trl", "verifiers")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def packages_of(engine: str) -> tuple[str, str]:
    """The extra and the group that the Makefile locks for an engine."""
    found = re.search(rf"^PACKAGES_{engine} := --extra (\S+) --group (\S+)$", (ROOT / "Makefile").read_text(), re.M)
    assert found is not None, engine
    return found[1], found[2]


def pins_of(engine: str) -> dict[str, str]:
    """Versions by distribution."""
    lines = (ROOT / "locks" / f"{engine}.lock").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# --extra")
    return dict(line.split("==") for line in lines[1:])


def wanted_by(extra: str) -> list[Requirement]:
    """What the core and an extra want, the extras that it names included."""
    found = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
    waiting, seen = [extra], {extra}
    while waiting:
        for text in PROJECT["project"]["optional-dependencies"][waiting.pop()]:
            requirement = Requirement(text)
            if requirement.name != "trailforge":
                found.append(requirement)
            waiting += requirement.extras - seen if requirement.name == "trailforge" else ()
            seen |= requirement.extras
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_a_lock_holds_what_the_core_the_extra_and_the_group_want(engine: str) -> None:
    extra, group = packages_of(engine)
    pins = pins_of(engine)
    wanted = [*wanted_by(extra), *(Requirement(text) for text in PROJECT["dependency-groups"][group])]
    assert len(wanted) > len(PROJECT["project"]["dependencies"])
    assert not [str(r) for r in wanted if pins.get(canonicalize_name(r.name), "none") not in r.specifier]
    assert engine in pins and extra in ("agent", "train")
    assert "vllm" in pins or engine == "verifiers"  # which asks a server, or prime-rl's


@pytest.mark.parametrize("engine", ENGINES)
def test_a_lock_holds_no_machine_and_no_scheduler(engine: str) -> None:
    """Plain `name==version` lines: no local builds, no paths, no addresses."""
    lines = (ROOT / "locks" / f"{engine}.lock").read_text(encoding="utf-8").splitlines()[1:]
    assert not [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line)]
    assert not {"prefect", "apache-beam", "streamlit"} & set(pins_of(engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_has_a_lower_bound(engine: str) -> None:
    """Without one a resolver that finds a clash goes back to versions of years ago."""
    for text in PROJECT["dependency-groups"][packages_of(engine)[1]]:
        assert any(each.operator in (">=", "==") for each in Requirement(text).specifier), text
