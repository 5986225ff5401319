"""The small store."""

from __future__ import annotations

import pytest

from tests.retrieval.kg.support import small_store
from trailforge.retrieval.kg import KgStore


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> KgStore:
    """Over `support.ENTITIES`; read-only, so one for all tests."""
    return small_store(tmp_path_factory.mktemp("kg"))
