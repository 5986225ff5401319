"""The graph that worlds of these tests are made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from trailforge.retrieval.kg import build_kg, open_source

SAMPLE = Path(__file__).parents[4] / "sample_data" / "kg"


@pytest.fixture(scope="session")
def kg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample graph as a store, which tests read and do not change."""
    folder = tmp_path_factory.mktemp("kg") / "store"
    build_kg(open_source(SAMPLE), folder)
    return folder
