"""The short form: every aimed input, and some random ones; the long one is `make fuzz`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.running import cases_of, run_target
from tests.fuzz.targets import TARGETS

CASES = 100


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_or_halts(name: str, tmp_path: Path) -> None:
    """Only declared errors come, and no input takes longer than a loop of many millions of rounds."""
    result = run_target(name, cases_of(name, CASES, seed=0, short=True), tmp_path)
    assert result.cases > CASES
    assert not result.failures, "\n".join(f"{each.case[:200]!r}: {each.problem}" for each in result.failures[:3])
