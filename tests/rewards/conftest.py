"""Where the public data sets are, for tests that read them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder that TRAILFORGE_DATA names; the test is skipped when it is not set."""
    folder = os.environ.get("TRAILFORGE_DATA")
    if not folder:
        pytest.skip("TRAILFORGE_DATA is not set")
    return Path(folder)
